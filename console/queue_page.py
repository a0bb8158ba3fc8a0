"""What the page of the queue shows: from its rows and what stands beside them to what templates/queue.html names."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from flask import url_for

from console import team, words
from console.access import current
from console.forms import new_operation
from console.kind_words import reason as reason_in_words
from ledger.limits import CustomerDay
from ledger.mentions import Colleague
from ledger.queries.queue import MOST_COUNTED, SORTS, Key, QueuePage, QueueRow, ViewCounts, Wanted
from ledger.queries.teamwork import RowTeam

# The views of a working day stand in the row; the others behind "More views".
VIEW_LABELS: Final = {
    "mine": "Mine", "mentions": "Mentions", "unassigned": "Unassigned", "ready": "Ready", "today": "Due today", "late": "Late",
    "exceptions": "Exceptions", "warehouse": "Waiting on warehouse", "open": "All open",
}  # fmt: skip
MORE_LABELS: Final = {
    "contradicting": "Contradicting", "held": "Held", "unknown": "Unknown", "snoozed": "Snoozed", "every": "Everything",
}  # fmt: skip
SORT_LABELS: Final = {"due": "By due time", "oldest": "Oldest first", "newest": "Newest first"}
_RECEIVED: Final = {"": "Received?", "yes": "Received", "no": "Not received"}
LONGEST_TEXT: Final = 80
_EMPTY: Final = {
    "mine": ("Nothing is yours.", "A case shows here when you claim it, or when somebody gives it to you."),
    "mentions": ("No note waits for you.", "A case shows here when somebody writes @ and your name in a note."),
    "unassigned": ("Every open case is somebody's.", "A case without a name shows here."),
    "exceptions": (
        "Nothing needs more than the desk.",
        "Refunds for managers, and cases that nothing decides, show here.",
    ),
    "snoozed": ("Nothing rests.", "A case that is snoozed shows here until its day, then where it was."),
    "open": ("No case is open.", "A return opens one: through a channel, or at the counter."),
    "today": ("Nothing is due today.", "Cases show here on the day their time ends."),
    "late": ("No late cases.", "A case shows here when its due time has passed."),
    "contradicting": (
        "No records contradict.",
        "A case shows here when what was announced, received and found do not agree.",
    ),
    "warehouse": ("The warehouse owes nothing.", "Announced returns show here until they arrive."),
    "ready": ("Nothing waits for approval.", "A case is ready when its goods are here and its amount is worked out."),
    "held": ("Nothing is held.", "A refund over the daily cap waits here and goes by itself."),
    "unknown": ("Every refund that was sent has a clear answer.", "One without an answer shows here by itself."),
    "every": ("There is no case yet.", "A return opens one: through a channel, or at the counter."),
}


@dataclass(frozen=True)
class Beside:
    """What is read for the rows of a page: their customers' day, which a policy approved by itself, and who works on them; and
    for its filters the people and the tags there are."""

    days: dict[UUID, CustomerDay]
    by_policy: set[UUID]
    teams: dict[UUID, RowTeam]
    people: list[Colleague]
    tags: list[str]


@dataclass(frozen=True)
class Picked:
    """What a form about several cases was sent with: the picked ones, each field's text, and what is wrong with one of them."""

    cases: frozenset[str] = frozenset()
    typed: dict[str, str] = field(default_factory=dict)
    wrong: str = ""
    error: str = ""


def _query(wanted: Wanted, **more: str) -> str:
    asked = {
        "view": wanted.view, "q": wanted.text, "channel": wanted.channel, "reason": wanted.reason, "stage": wanted.stage,
        "received": wanted.received, "who": str(wanted.assigned or ""), "tag": wanted.tag,
        "sort": wanted.sort if wanted.sort != "due" else "", **more,
    }  # fmt: skip
    return urlencode({name: value for name, value in asked.items() if value})


def address(wanted: Wanted, endpoint: str = "queue.index", **more: str) -> str:
    return f"{url_for(endpoint)}?{_query(wanted, **more)}"


def queue_page(
    wanted: Wanted, key: Key | None, found: QueuePage, counts: ViewCounts, total: int, beside: Beside, picked: Picked
) -> dict[str, Any]:
    """Everything templates/queue.html names."""
    labels, last = VIEW_LABELS | MORE_LABELS, counts.last_event
    # A view from behind "More views" stands in the row while one is in it.
    row = [name for name in labels if name in VIEW_LABELS or name == wanted.view]
    return {
        "view_title": labels[wanted.view],
        "views": [_view(name, wanted, counts) for name in row],
        "more_views": [_view(name, wanted, counts) for name in labels if name not in row],
        "filters": _filters(wanted, beside),
        "next": {"url": url_for("queue.next_case"), "operation": new_operation()} if current.may("claim") else None,
        "bulk": _bulk(wanted, key, beside, picked) if current.may("claim") else None,
        "rows": [_row(row, beside, picked) for row in found.rows],
        "page": _pager(wanted, key, found, total),
        "empty": _empty(wanted),
        "fresh": fresh_part(wanted, counts.at, last, 0),
    }


def _view(name: str, wanted: Wanted, counts: ViewCounts) -> dict[str, Any]:
    count = counts.by_view.get(name)
    text = "" if count is None else f"{MOST_COUNTED}+" if count > MOST_COUNTED else str(count)
    label, url = (VIEW_LABELS | MORE_LABELS)[name], f"{url_for('queue.index')}?{urlencode({'view': name})}"
    return {"label": label, "url": url, "count": text,
            "current": name == wanted.view and not wanted.narrowed, "late": name == "late" and bool(count)}  # fmt: skip


def _bulk(wanted: Wanted, key: Key | None, beside: Beside, picked: Picked) -> dict[str, Any]:
    """The form about the picked rows; its address is that of the page, so that the answer is the same page."""
    place = {} if key is None else {"before" if key.back else "after": f"{key.at.isoformat()}_{key.case_id}"}
    return {
        "url": address(wanted, "bulk.act", **place),
        "operation": new_operation(),
        "people": team.people(beside.people),
        "reasons": [{"value": value, "label": text} for value, text in words.SNOOZE_REASONS.items()],
        "first_day": team.tomorrow().isoformat(),
        "typed": picked.typed,
        "wrong": picked.wrong,
        "error": picked.error,
    }


def _filters(wanted: Wanted, beside: Beside) -> dict[str, Any]:
    def select(name: str, label: str, options: dict[str, str], chosen: str) -> dict[str, Any]:
        listed = [{"value": value, "label": text, "selected": value == chosen} for value, text in options.items()]
        return {"name": name, "label": label, "options": listed}

    channels = {name: label for name, label in words.CHANNELS.items() if name != "warehouse"}
    reasons = {reason: words.sentence(text) for reason, text in (words.REASONS | words.NEVER_ARRIVED).items()}
    stages = {stage: words.case_badge(stage)["text"] or _state_word(stage) for stage in words.STAGES}
    whose = {"": "Anybody's", **{one["value"]: one["label"] for one in team.people(beside.people)}}
    tags = {"": "Any tag"} | {tag: tag for tag in sorted({*beside.tags, wanted.tag} - {""})}
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
            select("who", "Whose", whose, str(wanted.assigned or "")),
            *([select("tag", "Tag", tags, wanted.tag)] if beside.tags or wanted.tag else []),
            select("sort", "Order", SORT_LABELS, wanted.sort),
        ],
    }


def _state_word(stage: str) -> str:
    return stage.replace("_", " ").capitalize()


def _row(row: QueueRow, beside: Beside, picked: Picked) -> dict[str, Any]:
    day = beside.days.get(row.case_id)
    state, text, icon = words.STAGES[row.stage]
    grades = f" · {row.grades}" if row.grades else ""
    return {
        "reference": words.case_reference(row.number),
        "case_id": str(row.case_id),
        "picked": str(row.case_id) in picked.cases,
        "url": url_for("case.show", case_id=row.case_id),
        "due": words.due(row.due_at, row.closed_at, row.snoozed_until),
        "rests": team.rests(row.snoozed_until, row.snooze_reason),
        "opened_at": row.opened_at,
        "customer": words.customer(row.customer),
        "summary": row.summary,
        "reason": reason_in_words(row.reason),
        "received_text": f"{row.received} of {row.announced}{grades}" if row.announced else "–",
        "received": row.received > 0,
        "contradicting": row.contradictions > 0 and row.closed_at is None,
        "signals": _signals(row) + ([words.customer_day(day.refunds, day.currency, day.minor)] if day else []),
        "amount_minor": row.amount_minor,
        "currency": row.currency,
        "step": {"state": state, "text": text, "icon": icon},
        "who": words.POLICY if row.case_id in beside.by_policy else team.row_person(row, beside.teams[row.case_id]),
        "team": team.row_words(row, beside.teams[row.case_id]),
        "tags": list(beside.teams[row.case_id].tags),
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
        "first_url": address(wanted) if key is not None else None,
        "previous_url": address(wanted, before=beside(found.rows[0])) if found.rows and found.before else None,
        "next_url": address(wanted, after=beside(found.rows[-1])) if found.rows and found.after else None,
    }


def _empty(wanted: Wanted) -> dict[str, str]:
    if wanted.narrowed:
        return {"strong": "No case matches.", "text": "Fewer filters show more; “Everything” also has closed cases.",
                "url": f"{url_for('queue.index')}?{urlencode({'view': wanted.view})}", "label": "Clear the filters"}  # fmt: skip
    strong, text = _EMPTY[wanted.view]
    other = wanted.view not in ("open", "every")
    return {"strong": strong, "text": text, "url": url_for("queue.index") if other else "", "label": "All open cases"}


def fresh_part(wanted: Wanted, at: datetime, since: UUID | None, count: int) -> dict[str, Any]:
    more = {"since": str(since)} if since else {}
    return {
        "url": address(wanted, "queue.fresh", **more),
        "count": count,
        "reload_url": address(wanted),
        "checked_at": at,
    }
