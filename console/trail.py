"""The audit trail: who did what in which case, and whether the chains of what is shown still hold. Managers and finance read it."""

from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from sqlalchemy import Connection

from console import words
from console.access import current, permission, reading
from console.export_list import past_exports
from console.filters import now, plain
from console.fragments import page
from console.timeline import event_icon, event_text
from ledger.errors import BadInput
from ledger.events import broken_links
from ledger.queries import trail as read
from ledger.queries.discrepancies import last_self_check

blueprint = Blueprint("trail", __name__, url_prefix="/<merchant_slug>/trail")

MOST_FILES: Final = 5
# What a person looks for, and the events that are it. Every kind that the timeline knows is in one of them.
SORTS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "decisions": ("Decisions", (
        "intent.approved", "intent.first_approved", "intent.withdrawn", "case.rejected", "case.rest_closed", "case.exchanged",
        "automatic.left",
    )),
    "proposals": ("Proposals and amounts", (
        "intent.proposed", "entitlement.derived", "override.asked", "override.taken_back", "case.no_policy", "case.blocked",
        "charges.asked", "charges.found",
    )),
    "money": ("Sending and payment", (
        "intent.held", "intent.released", "intent.submitting", "intent.turned_away", "intent.unknown", "intent.pending",
        "intent.succeeded", "intent.failed", "intent.reversed", "intent.needs_review", "capture.taken", "capture.not_taken",
        "case.recovered",
    )),
    "settling": ("Settled by people", (
        "settlement.recorded", "settlement.not_done", "settlement.proposed", "settlement.confirmed", "settlement.turned_down",
        "settlement.void", "order.settlement_proposed", "order.settled", "order.settlement_turned_down",
    )),
    "evidence": ("Requests and evidence", (
        "case.opened", "conversation.joined", "goods.reported", "parcel.reported", "photo.added", "fact.stated", "texts.erased",
        "photos.erased",
    )),
    "handing": ("Handing over and waiting", (
        "case.assigned", "case.snoozed", "case.woken", "case.due_set", "case.tagged", "case.untagged",
    )),
    "outside": ("Refunds made outside", (
        "outside.matched", "outside.settled", "outside.unrelated", "outside.came_back",
    )),
}  # fmt: skip
_ACTORS: Final = {"system": "By itself", "policy:": "A policy", "token:": "Channels and systems"}


@blueprint.get("/")
@permission("see_trail")
def index() -> Response:
    """One page of events; of one case also its chain, computed again."""
    wanted = _wanted()
    with reading() as db:
        found = read.read_trail(db, current.merchant_id, wanted)
        broken = {
            case_id: number
            for case_id, number in broken_links(
                db, current.merchant_id, sorted({row.case_id for row in found.rows})
            ).items()
            if number is not None
        }
        return page("trail.html", **_page(db, wanted, found, broken))


def _wanted() -> read.Wanted:
    """The filters of the address; what is not on a list counts as not set, what is no day is refused."""
    since, until = _day("since"), _day("until")
    return read.Wanted(
        actor=actor_named(request.args.get("person", "")),
        kinds=SORTS[sort][1] if (sort := request.args.get("kind", "")) in SORTS else (),
        case_number=_number(request.args.get("case", "")),
        since=_midnight(since) if since else None,
        until=_midnight(until + timedelta(days=1)) if until else None,
        before=_key(request.args.get("before", "")),
    )


def actor_named(text: str) -> str:
    """How events name who the filter chose: a person by id, or one of _ACTORS; "" for anybody and for what is neither."""
    if text in _ACTORS:
        return text
    try:
        return f"staff:{UUID(text)}" if text else ""
    except ValueError:
        return ""


def _number(text: str) -> int | None:
    digits = text.strip().upper().removeprefix("C-")
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 12):
        raise BadInput("case", "write the number of a case, such as C-20431")
    return int(digits)


def _day(name: str) -> date | None:
    text = request.args.get(name, "")
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise BadInput(name, "write a day as year, month and day, such as 2026-11-29") from error


def _key(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError as error:
        raise BadInput("before", "the trail has no such place; open it again") from error


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=current.time_zone)


def _query() -> dict[str, str]:
    """The filters of the address as they were given, without the place in the pages."""
    names = ("person", "kind", "case", "since", "until")
    return {name: value[:60] for name in names if (value := request.args.get(name, ""))}


def _address(endpoint: str = "trail.index", **more: str) -> str:
    return url_for(endpoint, **(_query() | more))  # type: ignore[arg-type]


def _page(db: Connection, wanted: read.Wanted, found: read.TrailPage, broken: dict[UUID, int]) -> dict[str, Any]:
    numbers = {row.case_id: row.case_number for row in found.rows}
    checked = last_self_check(db, current.merchant_id)
    return {
        "filters": _filters(db),
        "rows": [_row(row, broken) for row in found.rows],
        "chains": {
            "cases": len(numbers), "at": now(),
            "broken": [{"reference": words.case_reference(numbers[case_id]), "number": number,
                        "url": url_for("trail.index", case=numbers[case_id])} for case_id, number in broken.items()],
        },
        "checked": {"at": checked[0], "faults": checked[1]} if checked else None,
        "alarms": read.broken_chains(db, current.merchant_id),
        "case": _case(db, wanted, broken),
        "exports": past_exports(db, MOST_FILES),
        "export_url": _address("exports.show", what="trail") if current.may("export") else None,
        "looked_back_to": found.looked_back_to,
        "older_url": _address(before=str(found.older)) if found.older else None,
        "newest_url": _address() if wanted.before else None,
    }  # fmt: skip


def _case(db: Connection, wanted: read.Wanted, broken: dict[UUID, int]) -> dict[str, Any] | None:
    """The one case that is looked at: its chain as it stands, whatever else is filtered; None for no case or all cases."""
    case_id = read.case_of(db, current.merchant_id, wanted.case_number) if wanted.case_number is not None else None
    if case_id is None:
        return None
    number = broken.get(case_id) or broken_links(db, current.merchant_id, [case_id])[case_id]
    head = read.read_head(db, current.merchant_id, case_id)
    return {
        "reference": words.case_reference(wanted.case_number or 0), "url": url_for("case.show", case_id=case_id),
        "events": head.number, "head": head.hash.hex()[:16] if head.hash else "", "broken": number,
    }  # fmt: skip


def _filters(db: Connection) -> dict[str, Any]:
    asked = _query()
    return {
        "url": url_for("trail.index"), "clear_url": url_for("trail.index"), "any": bool(asked),
        "case": asked.get("case", ""), "since": asked.get("since", ""), "until": asked.get("until", ""),
        "selects": [_select("person", "Who", people(db), asked), _select("kind", "What", sorts(), asked)],
    }  # fmt: skip


def people(db: Connection) -> dict[str, str]:
    """Who may have acted, as a choice: members and former ones by id, and what acts without a person."""
    members = read.read_members(db, current.merchant_id)
    named = {str(one.staff_id): plain(one.name) + (" (left)" if one.former else "") for one in members}
    return {"": "Anybody", **_ACTORS, **named}


def sorts() -> dict[str, str]:
    """What to look for, as a choice."""
    return {"": "Everything", **{sort: label for sort, (label, _) in SORTS.items()}}


def _select(name: str, label: str, options: dict[str, str], asked: dict[str, str]) -> dict[str, Any]:
    chosen = asked.get(name, "")
    listed = [{"value": value, "label": text, "selected": value == chosen} for value, text in options.items()]
    return {"name": name, "label": label, "options": listed}


def _row(row: read.TrailRow, broken: dict[UUID, int]) -> dict[str, Any]:
    at_fault = broken.get(row.case_id)
    return {
        "at": row.event.at,
        "icon": event_icon(row.event),
        "what": event_text(row.event),
        "by": row.event.by,
        "reference": words.case_reference(row.case_number),
        "case_url": url_for("case.show", case_id=row.case_id),
        "refund": words.refund_reference(row.event.intent_number) if row.event.intent_number else "",
        "refund_url": url_for("decision.show", intent_id=row.intent_id) if row.intent_id else "",
        "number": row.event.number,
        "hash": row.hash.hex()[:12],
        "broken": at_fault is not None and row.event.number >= at_fault,
    }
