"""The queue: saved views and filters in the address, pages by a key, and a part that says what is new."""

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from flask import Blueprint, Response, request, url_for

from console import words
from console.access import current, permission, polling, reading
from console.filters import now
from console.fragments import asked_for_part, page, see_other
from console.log import log
from ledger.cases import REASONS
from ledger.errors import BadInput
from ledger.limits import CustomerDay, customer_days
from ledger.queries.queue import (
    MOST_COUNTED,
    SORTS,
    VIEWS,
    Key,
    QueuePage,
    QueueRow,
    ViewCounts,
    Wanted,
    count_new,
    count_page,
    count_views,
    find_next,
    read_page,
)

blueprint = Blueprint("queue", __name__, url_prefix="/<merchant_slug>/queue")

VIEW_LABELS: Final = {
    "open": "All open", "today": "Due today", "late": "Late", "warehouse": "Waiting on warehouse", "ready": "Ready",
    "held": "Held", "unknown": "Unknown", "every": "Everything",
}  # fmt: skip
SORT_LABELS: Final = {"due": "By due time", "oldest": "Oldest first", "newest": "Newest first"}
_RECEIVED: Final = {"": "Received or not", "yes": "Received", "no": "Not received"}
LONGEST_TEXT: Final = 80
_EMPTY: Final = {
    "open": ("No case is open.", "A return opens one: through a channel, or at the counter."),
    "today": ("Nothing is due today.", "Cases show here on the day their time ends."),
    "late": ("No late cases.", "A case shows here when its due time has passed."),
    "warehouse": ("The warehouse owes nothing.", "Announced returns show here until they arrive."),
    "ready": ("Nothing waits for approval.", "A case is ready when its goods are here and its amount is worked out."),
    "held": ("Nothing is held.", "A refund over the daily cap waits here and goes by itself."),
    "unknown": ("Every refund that was sent has a clear answer.", "One without an answer shows here by itself."),
    "every": ("There is no case yet.", "A return opens one: through a channel, or at the counter."),
}


@blueprint.get("/")
@permission("see_cases")
def index() -> Response:
    """One page of a view; the part `rows` for a filter changed in place."""
    wanted, key = _wanted(), _key()
    if wanted.text and wanted.by_name and any(character.isalpha() for character in wanted.text):
        log.info("customer_searched", staff_id=current.staff_id, merchant=current.slug, kind="queue")
    with reading() as db:
        counts = count_views(db, current.merchant_id, current.zone)
        found = read_page(db, current.merchant_id, wanted, key)
        known = None if wanted.narrowed else counts.by_view.get(wanted.view)
        total = count_page(db, current.merchant_id, wanted) if known is None else known
        days = customer_days(db, current.merchant_id, [row.case_id for row in found.rows])
        return page("queue.html", "rows", **_page(wanted, key, found, counts, total, days))


@blueprint.get("/fresh")
@polling
@permission("see_cases")
def fresh() -> Response:
    """How many cases came into the view since the page was read; asked for by the page itself."""
    wanted, since = _wanted(), _uuid("since")
    if not asked_for_part():
        return index()
    with reading() as db:
        new = count_new(db, current.merchant_id, wanted, since) if since else 0
        return page("queue.html", "fresh", fresh=_fresh(wanted, now(), since, new))


@blueprint.get("/search")
@permission("see_cases")
def search() -> Response:
    """The search of the top bar: every case whose number, order reference or customer starts so."""
    return see_other("queue.index", view="every", q=request.args.get("q", "")[:LONGEST_TEXT])


@blueprint.get("/next")
@permission("see_cases")
def next_case() -> Response:
    """To the ready case that is due soonest and that this person may approve; to the queue when there is none."""
    with reading() as db:
        found = find_next(db, current.merchant_id, current.actor, _uuid("after"), managers=current.role == "manager")
    return see_other("case.show", case_id=found.case_id) if found else see_other("queue.index", view="ready")


def _wanted() -> Wanted:
    """The view and the filters of the address; what is not on a list counts as not set."""
    asked = request.args
    return Wanted(
        view=_listed(asked.get("view"), VIEWS, "open"),
        zone=current.zone,
        channel=asked.get("channel", "")[:24],
        reason=_listed(asked.get("reason"), REASONS, ""),
        stage=_listed(asked.get("stage"), words.STAGES, ""),
        received="yes" if asked.get("received") == "yes" else "no" if asked.get("received") == "no" else "",
        text=asked.get("q", "").replace("\0", "").strip()[:LONGEST_TEXT],
        by_name=current.may("see_contact"),
        sort=_listed(asked.get("sort"), SORTS, "newest" if asked.get("view") == "every" else "due"),
    )


def _listed(value: str | None, known: Any, otherwise: str) -> str:
    return value if value is not None and value in known else otherwise


def _key() -> Key | None:
    """`after` or `before` with the instant and the id of a row of the page one comes from."""
    for name in ("after", "before"):
        if text := request.args.get(name):
            at, _, case_id = text.partition("_")
            try:
                return Key(datetime.fromisoformat(at), UUID(case_id), back=name == "before")
            except ValueError as error:
                raise BadInput(name, "this page of the queue has no such place; open the view again") from error
    return None


def _uuid(name: str) -> UUID | None:
    try:
        return UUID(request.args.get(name, ""))
    except ValueError:
        return None


def _query(wanted: Wanted, **more: str) -> str:
    asked = {
        "view": wanted.view, "q": wanted.text, "channel": wanted.channel, "reason": wanted.reason, "stage": wanted.stage,
        "received": wanted.received, "sort": wanted.sort if wanted.sort != "due" else "", **more,
    }  # fmt: skip
    return urlencode({name: value for name, value in asked.items() if value})


def _address(wanted: Wanted, endpoint: str = "queue.index", **more: str) -> str:
    return f"{url_for(endpoint)}?{_query(wanted, **more)}"


def _page(
    wanted: Wanted,
    key: Key | None,
    found: QueuePage,
    counts: ViewCounts,
    total: int,
    days: dict[UUID, CustomerDay],
) -> dict[str, Any]:
    last = counts.last_event
    return {
        "view_title": VIEW_LABELS[wanted.view],
        "views": [_view(name, wanted, counts) for name in VIEW_LABELS],
        "tally": "",
        "filters": _filters(wanted),
        "rows": [_row(row, days.get(row.case_id)) for row in found.rows],
        "page": _pager(wanted, key, found, total),
        "empty": _empty(wanted),
        "fresh": _fresh(wanted, counts.at, last, 0),
    }


def _view(name: str, wanted: Wanted, counts: ViewCounts) -> dict[str, Any]:
    count = counts.by_view.get(name)
    text = "" if count is None else f"{MOST_COUNTED}+" if count > MOST_COUNTED else str(count)
    return {"label": VIEW_LABELS[name], "url": f"{url_for('queue.index')}?{urlencode({'view': name})}", "count": text,
            "current": name == wanted.view and not wanted.narrowed, "late": name == "late" and bool(count)}  # fmt: skip


def _filters(wanted: Wanted) -> dict[str, Any]:
    def select(name: str, label: str, options: dict[str, str], chosen: str) -> dict[str, Any]:
        listed = [{"value": value, "label": text, "selected": value == chosen} for value, text in options.items()]
        return {"name": name, "label": label, "options": listed}

    channels = {name: label for name, label in words.CHANNELS.items() if name != "warehouse"}
    reasons = {reason: words.sentence(text) for reason, text in words.REASONS.items()}
    stages = {stage: words.case_badge(stage)["text"] or _state_word(stage) for stage in words.STAGES}
    return {
        "url": url_for("queue.index"),
        "hidden": [("view", wanted.view)],
        "q": wanted.text,
        "any": wanted.narrowed or wanted.sort != "due",
        "clear_url": f"{url_for('queue.index')}?{urlencode({'view': wanted.view})}",
        "selects": [
            select("channel", "Channel", {"": "Any channel", **channels}, wanted.channel),
            select("reason", "Reason", {"": "Any reason", **reasons}, wanted.reason),
            select("stage", "Stage", {"": "Any stage", **stages}, wanted.stage),
            select("received", "Received", _RECEIVED, wanted.received),
            select("sort", "Order", SORT_LABELS, wanted.sort),
        ],
    }


def _state_word(stage: str) -> str:
    return stage.replace("_", " ").capitalize()


def _row(row: QueueRow, day: CustomerDay | None) -> dict[str, Any]:
    state, text, icon = words.STAGES[row.stage]
    grades = f" · {row.grades}" if row.grades else ""
    return {
        "reference": words.case_reference(row.number),
        "url": url_for("case.show", case_id=row.case_id),
        "due": words.due(row.due_at, row.closed_at),
        "opened_at": row.opened_at,
        "customer": words.customer(row.customer),
        "summary": row.summary,
        "reason": words.REASONS[row.reason],
        "received_text": f"{row.received} of {row.announced}{grades}",
        "received": row.received > 0,
        "signals": _signals(row) + ([words.customer_day(day.refunds, day.currency, day.minor)] if day else []),
        "amount_minor": row.amount_minor,
        "currency": row.currency,
        "step": {"state": state, "text": text, "icon": icon},
        "who": None,
        "order_reference": row.order_ref,
        "channels_text": words.channel(row.channel),
        "here": False,
    }


def _signals(row: QueueRow) -> list[str]:
    if not row.signals:
        return []
    on = [
        ("a separate item of the same line", row.signal_separate),
        ("an earlier refund in 30 days", row.signal_refunded),
        ("another open case of the customer", row.signal_other_open),
    ]
    return [text for text, is_on in on if is_on] or ["on when the case was opened"]


def _pager(wanted: Wanted, key: Key | None, found: QueuePage, total: int) -> dict[str, Any]:
    column = "due_at" if SORTS[wanted.sort][0] == "c.due_at" else "opened_at"

    def beside(row: QueueRow) -> str:
        return f"{getattr(row, column).isoformat()}_{row.case_id}"

    of = f"{MOST_COUNTED}+" if total > MOST_COUNTED else str(total)
    count = len(found.rows)
    return {
        "range_text": f"1–{count} of {of}" if key is None and count else f"{count} of {of}",
        "first_url": _address(wanted) if key is not None else None,
        "previous_url": _address(wanted, before=beside(found.rows[0])) if found.rows and found.before else None,
        "next_url": _address(wanted, after=beside(found.rows[-1])) if found.rows and found.after else None,
    }


def _empty(wanted: Wanted) -> dict[str, str]:
    if wanted.narrowed:
        return {"strong": "No case matches.", "text": "Fewer filters show more; “Everything” also has closed cases.",
                "url": f"{url_for('queue.index')}?{urlencode({'view': wanted.view})}", "label": "Clear the filters"}  # fmt: skip
    strong, text = _EMPTY[wanted.view]
    other = wanted.view not in ("open", "every")
    return {"strong": strong, "text": text, "url": url_for("queue.index") if other else "", "label": "All open cases"}


def _fresh(wanted: Wanted, at: datetime, since: UUID | None, count: int) -> dict[str, Any]:
    more = {"since": str(since)} if since else {}
    return {
        "url": _address(wanted, "queue.fresh", **more),
        "count": count,
        "reload_url": _address(wanted),
        "checked_at": at,
    }
