"""The queue: one page of cases by a key, how many each saved view has, and how many are new since the page was read.

Every condition is one of the constants below; what a person typed is only ever a bound value (S42). Counts stop at
MOST_COUNTED + 1, so that a view of a million cases costs as one of five hundred.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows, scalar

PAGE_ROWS: Final = 50
# A shorter beginning of a name is shared by too many customers to be meant as one.
SHORTEST_NAME: Final = 3
MOST_COUNTED: Final = 500
_OPEN: Final = "c.closed_at IS NULL"
# Rests no more, or never did.
_AWAKE: Final = "(c.snoozed_until IS NULL OR c.snoozed_until <= now())"
# Found by indexes of their own, for a view of few cases among many; as an array, which is looked up case by case. To be counted,
# as many of each kind as are counted are enough: all that is found is in the view.
_MINE: Final = """c.case_id = ANY(ARRAY(
    (SELECT a.case_id FROM cases a WHERE a.merchant_id = :m AND a.assigned_to = :me AND a.closed_at IS NULL
        AND (a.snoozed_until IS NULL OR a.snoozed_until <= now()) {few_of_cases})
    UNION (SELECT l.case_id FROM case_leases l WHERE l.merchant_id = :m AND l.staff_id = :me AND l.until > now())))"""
_EXCEPTIONAL: Final = """c.case_id = ANY(ARRAY(
    (SELECT i.case_id FROM intents i WHERE i.merchant_id = :m AND i.state = 'proposed' AND i.route <> 'desk' {few})
    UNION (SELECT a.case_id FROM cases a WHERE a.merchant_id = :m AND a.stage = 'needs_person' AND a.closed_at IS NULL
        {few_of_cases})))"""
_SPEAKS_TO_ME: Final = """c.case_id = ANY(ARRAY(
    SELECT DISTINCT n.case_id FROM mentions n WHERE n.merchant_id = :m AND n.staff_id = :me AND n.read_at IS NULL {few}))"""
_ALL: Final = {"few": "", "few_of_cases": ""}
_FEW: Final = {"few": "ORDER BY case_id LIMIT :most", "few_of_cases": "ORDER BY a.due_at, a.case_id LIMIT :most"}
_DAY_END: Final = "(date_trunc('day', now() AT TIME ZONE :zone) + interval '1 day') AT TIME ZONE :zone"
VIEWS: Final[dict[str, str]] = {
    "mine": f"{_OPEN} AND {_AWAKE} AND {_MINE.format(**_ALL)}",
    "unassigned": f"{_OPEN} AND c.assigned_to IS NULL AND {_AWAKE}",
    "open": _OPEN,
    "today": f"{_OPEN} AND c.due_at >= now() AND c.due_at < {_DAY_END}",
    "late": f"{_OPEN} AND c.due_at < now()",
    "exceptions": f"{_OPEN} AND {_EXCEPTIONAL.format(**_ALL)}",
    "contradicting": f"{_OPEN} AND c.contradictions > 0",
    "warehouse": f"{_OPEN} AND c.stage = 'waiting_goods'",
    "ready": f"{_OPEN} AND c.stage = 'ready' AND {_AWAKE}",
    "held": f"{_OPEN} AND c.stage = 'held'",
    "unknown": f"{_OPEN} AND c.stage IN ('unknown', 'needs_review')",
    "snoozed": f"{_OPEN} AND c.snoozed_until > now()",
    "mentions": _SPEAKS_TO_ME.format(**_ALL),
    "every": "true",
}
SORTS: Final[dict[str, tuple[str, str]]] = {
    "due": ("c.due_at", "ASC"),
    "oldest": ("c.opened_at", "ASC"),
    "newest": ("c.opened_at", "DESC"),
}
_FILTERS: Final[dict[str, str]] = {
    "channel": "c.channel = :channel",
    "reason": "c.reason = :reason",
    "stage": "c.stage = :stage",
    "assigned": f"c.assigned_to = :assigned AND {_OPEN}",
    "tag": """c.case_id = ANY(ARRAY(
        SELECT t.case_id FROM case_tags t WHERE t.merchant_id = :m AND t.tag = :tag AND t.gone_at IS NULL))""",
}
_RECEIVED: Final = {"yes": "c.received > 0", "no": "c.received = 0"}
# Each finds its cases by an index of its own; joined by OR in one condition they would be tried on every case.
_BY_NUMBER: Final = "SELECT f.case_id FROM cases f WHERE f.merchant_id = :m AND f.number = :number"
_BY_REFERENCE: Final = """SELECT f.case_id FROM orders o JOIN cases f ON f.merchant_id = o.merchant_id AND f.order_id = o.order_id
    WHERE o.merchant_id = :m AND starts_with(o.external_ref, :text)"""
_BY_NAME: Final = """SELECT f.case_id FROM customers u
    JOIN cases f ON f.merchant_id = u.merchant_id AND f.customer_id = u.customer_id
    WHERE u.merchant_id = :m AND starts_with(lower(u.name), lower(:text))"""


@dataclass(frozen=True)
class Wanted:
    """Which cases: a saved view and filters, "" where one is not set. `text` is a case number, the start of an order
    reference, or with
    `by_name` (from SHORTEST_NAME characters on) of a customer's name. `zone` decides where today ends, `me` whose is mine.
    """

    view: str
    zone: str
    me: UUID
    channel: str = ""
    reason: str = ""
    stage: str = ""
    received: Literal["", "yes", "no"] = ""
    assigned: UUID | None = None
    tag: str = ""
    text: str = ""
    by_name: bool = False
    sort: str = "due"

    @property
    def narrowed(self) -> bool:
        """Whether anything but the saved view and its order decides."""
        return bool(
            self.channel or self.reason or self.stage or self.received or self.assigned or self.tag or self.text
        )


@dataclass(frozen=True)
class Key:
    """Where a page goes on: after, or with `back` before, the case with this instant and id."""

    at: datetime
    case_id: UUID
    back: bool = False


@dataclass(frozen=True)
class QueueRow:
    """One row. `amount_minor` is None while nothing is known to be owed. The three `signal_*` say what is true now."""

    case_id: UUID
    number: int
    customer: str
    summary: str
    reason: str
    stage: str
    announced: int
    received: int
    grades: str
    signals: int
    signal_separate: bool
    signal_refunded: bool
    signal_other_open: bool
    contradictions: int
    currency: str
    amount_minor: int | None
    due_at: datetime
    opened_at: datetime
    closed_at: datetime | None
    order_ref: str
    channel: str
    assigned_to: UUID | None
    assigned_name: str | None
    snoozed_until: datetime | None
    snooze_reason: str


@dataclass(frozen=True)
class QueuePage:
    """Rows in the order of the sort, and whether cases lie before and after them."""

    rows: tuple[QueueRow, ...]
    before: bool
    after: bool


_PAGE: Final = """
    SELECT p.case_id, p.number, coalesce(cu.name, '') AS customer, p.summary, p.reason, p.stage, p.announced, p.received,
        p.grades, p.signals, p.separate AS signal_separate,
        p.signals > 0 AND EXISTS (SELECT 1 FROM cases c2 JOIN intents i ON i.merchant_id = c2.merchant_id AND i.case_id = c2.case_id
            WHERE c2.merchant_id = p.merchant_id AND c2.customer_id = p.customer_id AND c2.case_id <> p.case_id
            AND i.state = 'succeeded' AND i.state_at > p.opened_at - interval '30 days') AS signal_refunded,
        p.signals > 0 AND EXISTS (SELECT 1 FROM cases c2 WHERE c2.merchant_id = p.merchant_id
            AND c2.customer_id = p.customer_id AND c2.case_id <> p.case_id AND c2.closed_at IS NULL) AS signal_other_open,
        p.contradictions,
        p.currency, p.amount_minor, p.due_at, p.opened_at, p.closed_at, o.external_ref AS order_ref, p.channel,
        p.assigned_to, w.name AS assigned_name, CASE WHEN p.snoozed_until > now() THEN p.snoozed_until END AS snoozed_until,
        p.snooze_reason
    FROM (SELECT c.* FROM cases c WHERE c.merchant_id = :m AND {conditions} ORDER BY {key} {way}, c.case_id {way} LIMIT :most) p
    JOIN orders o ON o.merchant_id = p.merchant_id AND o.order_id = p.order_id
    LEFT JOIN staff w ON w.staff_id = p.assigned_to
    LEFT JOIN customers cu ON cu.merchant_id = p.merchant_id AND cu.customer_id = p.customer_id
    ORDER BY {outer} {way}, p.case_id {way}
"""


def read_page(db: Connection, merchant_id: UUID, wanted: Wanted, key: Key | None = None) -> QueuePage:
    """One page of at most PAGE_ROWS, from the start or beside `key`. One statement, index order, no offset."""
    column, way = SORTS[wanted.sort]
    back = key is not None and key.back
    if back:
        way = "DESC" if way == "ASC" else "ASC"
    conditions, values = _conditions(wanted)
    if key is not None:
        conditions += f" AND ({column}, c.case_id) {'>' if way == 'ASC' else '<'} (:key_at, :key_id)"
        values |= {"key_at": key.at, "key_id": key.case_id}
    sql = _PAGE.format(conditions=conditions, key=column, outer=column.replace("c.", "p."), way=way)
    found = [QueueRow(**row) for row in rows(db, sql, m=merchant_id, most=PAGE_ROWS + 1, **values)]
    more, shown = len(found) > PAGE_ROWS, found[:PAGE_ROWS]
    if back:
        return QueuePage(tuple(reversed(shown)), before=more, after=True)
    return QueuePage(tuple(shown), before=key is not None, after=more)


# In the order of an index: the first few hundred in no order would be looked for in the whole table.
_COUNT: Final = """(SELECT count(*) FROM (SELECT 1 FROM cases c WHERE c.merchant_id = :m AND {conditions}
    ORDER BY c.due_at, c.case_id LIMIT :most) n)"""


def count_page(db: Connection, merchant_id: UUID, wanted: Wanted) -> int:
    """How many cases the view has with its filters, at most MOST_COUNTED + 1."""
    conditions, values = _conditions(wanted)
    return int(
        scalar(db, f"SELECT {_COUNT.format(conditions=conditions)}", m=merchant_id, most=MOST_COUNTED + 1, **values)
    )


@dataclass(frozen=True)
class ViewCounts:
    """Cases by saved view, each at most MOST_COUNTED + 1, the last event there was, and the database's time."""

    by_view: dict[str, int]
    last_event: UUID | None
    at: datetime


_COUNTED: Final = tuple(view for view in VIEWS if view != "every")
_COUNTED_AS: Final = VIEWS | {
    "mine": f"{_OPEN} AND {_AWAKE} AND {_MINE.format(**_FEW)}",
    "exceptions": f"{_OPEN} AND {_EXCEPTIONAL.format(**_FEW)}",
    "mentions": _SPEAKS_TO_ME.format(**_FEW),
}
_LAST_EVENT: Final = "(SELECT event_id FROM events WHERE merchant_id = :m ORDER BY event_id DESC LIMIT 1)"
_COUNTS: Final = "SELECT {views}, {last} AS last_event, now() AS at".format(
    views=", ".join(f"{_COUNT.format(conditions=_COUNTED_AS[view])} AS {view}" for view in _COUNTED), last=_LAST_EVENT
)


def count_views(db: Connection, merchant_id: UUID, zone: str, me: UUID) -> ViewCounts:
    """The figures beside the saved views, as the person `me` has them, in one statement."""
    row = first(db, _COUNTS, m=merchant_id, zone=zone, me=me, most=MOST_COUNTED + 1)
    if row is None:
        raise AssertionError("a count has a row")
    return ViewCounts({view: row[view] for view in _COUNTED}, row["last_event"], row["at"])


# Event ids are ordered by time, so what is new is a short range at the end of an index, whatever the size of the queue.
_NEW: Final = """
    SELECT count(*) FROM (SELECT DISTINCT e.case_id FROM events e
        JOIN cases c ON c.merchant_id = e.merchant_id AND c.case_id = e.case_id
        WHERE e.merchant_id = :m AND e.event_id > :since AND (e.number = 1 OR e.case_stage IS NOT NULL) AND {conditions}
        LIMIT :most) n
"""


def count_new(db: Connection, merchant_id: UUID, wanted: Wanted, since: UUID) -> int:
    """Cases that were opened or changed their stage after the event `since` and are in the view now."""
    conditions, values = _conditions(wanted)
    sql = _NEW.format(conditions=conditions)
    return int(scalar(db, sql, m=merchant_id, since=since, most=MOST_COUNTED + 1, **values))


def _conditions(wanted: Wanted) -> tuple[str, dict[str, Any]]:
    parts: list[str] = [VIEWS[wanted.view]]
    values: dict[str, Any] = {}
    for name in ("zone", "me"):
        if f":{name}" in parts[0]:
            values[name] = getattr(wanted, name)
    for name, condition in _FILTERS.items():
        if value := getattr(wanted, name):
            parts.append(condition)
            values[name] = value
    if wanted.received:
        parts.append(_RECEIVED[wanted.received])
    if wanted.text:
        parts.append(_text_condition(wanted, values))
    return " AND ".join(parts), values


def _text_condition(wanted: Wanted, values: dict[str, Any]) -> str:
    either = [_BY_REFERENCE]
    values["text"] = wanted.text
    number = wanted.text.upper().removeprefix("C-")
    if number.isascii() and number.isdigit() and len(number) <= 15:
        either.append(_BY_NUMBER)
        values["number"] = int(number)
    elif wanted.by_name and len(wanted.text) >= SHORTEST_NAME:
        either.append(_BY_NAME)
    return f"c.case_id IN ({' UNION '.join(either)})"
