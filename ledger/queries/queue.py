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
_DAY_END: Final = "(date_trunc('day', now() AT TIME ZONE :zone) + interval '1 day') AT TIME ZONE :zone"
VIEWS: Final[dict[str, str]] = {
    "open": _OPEN,
    "today": f"{_OPEN} AND c.due_at >= now() AND c.due_at < {_DAY_END}",
    "late": f"{_OPEN} AND c.due_at < now()",
    "warehouse": f"{_OPEN} AND c.stage = 'waiting_goods'",
    "ready": f"{_OPEN} AND c.stage = 'ready'",
    "held": f"{_OPEN} AND c.stage = 'held'",
    "unknown": f"{_OPEN} AND c.stage IN ('unknown', 'needs_review')",
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
    `by_name` (from SHORTEST_NAME characters on) of a customer's name. `zone` decides where today ends."""

    view: str
    zone: str
    channel: str = ""
    reason: str = ""
    stage: str = ""
    received: Literal["", "yes", "no"] = ""
    text: str = ""
    by_name: bool = False
    sort: str = "due"

    @property
    def narrowed(self) -> bool:
        """Whether anything but the saved view and its order decides."""
        return bool(self.channel or self.reason or self.stage or self.received or self.text)


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
    currency: str
    amount_minor: int | None
    due_at: datetime
    opened_at: datetime
    closed_at: datetime | None
    order_ref: str
    channel: str


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
        p.currency, p.amount_minor, p.due_at, p.opened_at, p.closed_at, o.external_ref AS order_ref, p.channel
    FROM (SELECT c.* FROM cases c WHERE c.merchant_id = :m AND {conditions} ORDER BY {key} {way}, c.case_id {way} LIMIT :most) p
    JOIN orders o ON o.merchant_id = p.merchant_id AND o.order_id = p.order_id
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


_COUNT: Final = "(SELECT count(*) FROM (SELECT 1 FROM cases c WHERE c.merchant_id = :m AND {conditions} LIMIT :most) n)"


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
_LAST_EVENT: Final = "(SELECT event_id FROM events WHERE merchant_id = :m ORDER BY event_id DESC LIMIT 1)"
_COUNTS: Final = "SELECT {views}, {last} AS last_event, now() AS at".format(
    views=", ".join(f"{_COUNT.format(conditions=VIEWS[view])} AS {view}" for view in _COUNTED), last=_LAST_EVENT
)


def count_views(db: Connection, merchant_id: UUID, zone: str) -> ViewCounts:
    """The figures beside the saved views, in one statement."""
    row = first(db, _COUNTS, m=merchant_id, zone=zone, most=MOST_COUNTED + 1)
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


@dataclass(frozen=True)
class NextCase:
    """A case to go on with."""

    case_id: UUID
    number: int


_NEXT: Final = """
    SELECT c.case_id, c.number FROM cases c
    WHERE c.merchant_id = :m AND c.stage = 'ready' AND c.closed_at IS NULL AND c.opened_by <> :actor
        AND (CAST(:after AS uuid) IS NULL OR (c.due_at, c.case_id) > (SELECT a.due_at, a.case_id FROM cases a
            WHERE a.merchant_id = :m AND a.case_id = :after))
        AND EXISTS (SELECT 1 FROM intents i WHERE i.merchant_id = c.merchant_id AND i.case_id = c.case_id AND i.state = 'proposed'
            AND i.requester <> :actor AND (i.route = 'desk' OR :managers))
    ORDER BY c.due_at, c.case_id LIMIT 1
"""


def find_next(db: Connection, merchant_id: UUID, actor: str, after: UUID | None, *, managers: bool) -> NextCase | None:
    """The ready case due soonest that `actor` may approve, after the case `after`; `managers` includes their route."""
    found = first(db, _NEXT, m=merchant_id, actor=actor, after=after, managers=managers)
    return NextCase(**found) if found else None


def _conditions(wanted: Wanted) -> tuple[str, dict[str, Any]]:
    parts, values = [VIEWS[wanted.view]], {}
    if ":zone" in parts[0]:
        values["zone"] = wanted.zone
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
