"""Refunds that were sent and whose answer is not known, those a person must settle, and those past their time limit.

Nothing here sends again: the reconciler proves absence first. What needs review is settled by two people on the provider's
list, which the worker reads and this page shows beside our intent; what was paid by hand they settle on its record.
"""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection

from console import words
from console.access import current, permission, reading, writing
from console.customer_words import refund_sentence
from console.filters import age, now
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.log import log
from console.operations import first_result, keep_result
from console.settling import ConfirmForm, ProposeForm, TurnDownForm, hand_fault, settle_view
from ledger import review
from ledger.card_numbers import mask_card_numbers
from ledger.errors import BadInput, LedgerError, SamePerson, Stale, WrongState
from ledger.hops import hop
from ledger.outbox import KEY_SAFE_HOURS
from ledger.queries.decision import Try, read_decision, read_tries
from ledger.queries.overdue import Overdue, overdue_cases, overdue_intents
from ledger.queries.review import intent_of
from ledger.queries.unknown import Outcome, read_outcomes
from ledger.refusals import said_otherwise, situation
from ledger.review import ask_again
from ledger.settlement import ASKED_FOR

blueprint = Blueprint("unknown", __name__, url_prefix="/<merchant_slug>/unknown")

_HAPPENED: Final = {
    "submitting": "being sent now", "unknown": "no clear answer", "pending": "accepted, not settled",
    "needs_review": "a person compares",
}  # fmt: skip
_CODES: Final = {
    "timeout": "no answer in time", "connection": "connection dropped", "worker_gone": "the worker stopped in mid-call",
    "server_error": "the provider had an error", "api_error": "the provider had an error", "no_answer": "no answer came",
    "unreadable_answer": "an answer that cannot be read", "unreadable_error": "an answer that cannot be read",
    "differs:amount": "another amount than was approved", "differs:currency": "another currency than was approved",
    "differs:charge": "another payment than was approved", "differs:metadata": "without our mark",
}  # fmt: skip
_FOUND: Final = {
    "nothing": ("search", "Asked the provider: it lists no such refund"),
    "ours": ("check", "Asked the provider: it lists our refund"),
    "no_answer": ("question", "Asked the provider: no answer"),
}
_SENDS: Final = {
    "": ("send", "Sent, no answer recorded yet"),
    "confirmed": ("check", "Sent, accepted by the provider"),
    "refused": ("cross", "Sent, refused by the provider"),
    "not_accepted": ("clock", "Turned away before it was looked at"),
    "unknown": ("question", "Sent, no clear answer"),
}


@blueprint.get("/")
@permission("see_cases")
def index() -> Response:
    """The list, with the refund that is not known for longest open beside it."""
    with reading() as db:
        outcomes = read_outcomes(db, current.merchant_id)
        open_one = next((outcome for outcome in outcomes if outcome.state != "needs_review"), None)
        return page("unknown.html", "outcomes", **_page(db, outcomes, open_one or next(iter(outcomes), None)))


@blueprint.get("/<uuid:intent_id>")
@permission("see_cases")
def show(intent_id: UUID) -> Response:
    """The list with one refund open; its decision once it has an answer."""
    with reading() as db:
        outcomes = read_outcomes(db, current.merchant_id)
        one = next((outcome for outcome in outcomes if outcome.intent_id == intent_id), None)
        if one is None:
            read_decision(db, current.merchant_id, intent_id)
            return see_other("decision.show", intent_id=intent_id)
        return page("unknown.html", "outcomes", **_page(db, outcomes, one))


@blueprint.post("/<uuid:intent_id>/question")
@permission("ask_provider")
def ask(intent_id: UUID) -> Response:
    """Has the worker ask the provider now. Pressed again, it asks once."""
    ConsoleForm().require()
    with writing() as db:
        asked = ask_again(db, current.merchant_id, intent_id)
    say(
        "ok",
        "The provider is asked." if asked else "The provider was asked a moment ago.",
        "Its list shows here by itself.",
    )
    return see_other("unknown.show", intent_id=intent_id)


@blueprint.post("/<uuid:intent_id>/proposal")
@permission("settle")
def propose(intent_id: UUID) -> Response:
    """The first of two people says what became of a refund, of the outcomes that the shown list supports."""
    form = ProposeForm()
    form.choice.choices = []
    if not form.validate():
        return _again(intent_id, 422, form=form)
    note, seen = mask_card_numbers(str(form.note.data).strip()), bytes.fromhex(str(form.seen.data))
    try:
        with writing() as db:
            about = hop(db, current.merchant_id, intent_id)
            if first_result(db, str(form.operation.data)) is None:
                settlement_id = review.propose(
                    db, current.merchant_id, intent_id, current.staff_id, str(form.choice.data), seen, note
                )
                keep_result(db, str(form.operation.data), {"settlement": str(settlement_id)})
    except (Stale, WrongState, SamePerson, BadInput) as refused:
        # What was shown is no longer so: the page that comes back shows what is, and keeps what was typed.
        form.seen.data = ""
        return _again(intent_id, 409, refused, form=form)
    log.info("settlement_proposed", staff_id=current.staff_id, merchant=current.slug, **about)
    say("ok", "Proposed.", "Somebody of the other role confirms it; until then nothing changes.")
    return see_other("unknown.show", intent_id=intent_id)


@blueprint.post("/settlements/<uuid:settlement_id>/confirmation")
@permission("settle")
def confirm(settlement_id: UUID) -> Response:
    """The second person confirms exactly what was proposed. Repeated, it changes nothing."""
    form = ConfirmForm()
    form.require()
    return _decide(settlement_id, confirmed=True, digest=bytes.fromhex(str(form.digest.data)))


@blueprint.post("/settlements/<uuid:settlement_id>/refusal")
@permission("settle")
def turn_down(settlement_id: UUID) -> Response:
    """Turns a proposal down, with the reason. Repeated, it changes nothing."""
    form = TurnDownForm()
    if not form.validate():
        with reading() as db:
            intent_id = intent_of(db, current.merchant_id, settlement_id)
        return _again(intent_id, 422, turn_down=form)
    return _decide(settlement_id, confirmed=False, reason=mask_card_numbers(str(form.reason.data).strip()))


def _decide(settlement_id: UUID, *, confirmed: bool, digest: bytes = b"", reason: str = "") -> Response:
    with reading() as db:
        intent_id = intent_of(db, current.merchant_id, settlement_id)
        about = hop(db, current.merchant_id, intent_id)
    try:
        with writing() as db:
            review.decide(
                db, current.merchant_id, settlement_id, current.staff_id, digest, confirmed=confirmed, reason=reason
            )
    except (Stale, WrongState, SamePerson) as refused:
        return _again(intent_id, 409, refused)
    outcome = "confirmed" if confirmed else "turned_down"
    log.info("settlement_decided", staff_id=current.staff_id, merchant=current.slug, outcome=outcome, **about)
    if confirmed:
        say("ok", "Confirmed.", "It is verified once more, then it is booked or comes back to you.")
    else:
        say("ok", "Turned down.", "Nothing changed. Somebody may propose anew.")
    return see_other("unknown.show", intent_id=intent_id)


def _again(
    intent_id: UUID,
    status: int,
    refused: LedgerError | None = None,
    *,
    form: ProposeForm | None = None,
    turn_down: TurnDownForm | None = None,
) -> Response:
    """The page as it is now, under what was refused and why; what was typed is kept."""
    if refused is not None:
        say("warn", refused.sentence)
    with reading() as db:
        outcomes = read_outcomes(db, current.merchant_id)
        one = next((outcome for outcome in outcomes if outcome.intent_id == intent_id), None)
        if one is None:
            return see_other("decision.show", intent_id=intent_id)
        view = _page(db, outcomes, one, settle_view(db, intent_id, form, turn_down))
        return page("unknown.html", status=status, **view | {"typing_error": status == 422})


def _page(
    db: Connection, outcomes: list[Outcome], one: Outcome | None, settle: dict[str, Any] | None = None
) -> dict[str, Any]:
    if one is not None and settle is None:
        settle = settle_view(db, one.intent_id)
    waiting = [outcome for outcome in outcomes if outcome.state != "needs_review"]
    overdue = [*overdue_intents(db, current.merchant_id), *overdue_cases(db, current.merchant_id)]
    here = url_for("unknown.show", intent_id=one.intent_id) if one else url_for("unknown.index")
    return {
        "checked_at": now(),
        "poll_url": here,
        "total": {
            "count_text": words.counted(len(waiting), "refund", "refunds"),
            "sums_text": words.sums((outcome.currency, outcome.amount_minor) for outcome in waiting),
        },
        "outcomes": [_row(outcome, one) for outcome in waiting],
        "one": _one(db, one) | {"settle": settle} if one else None,
        "typing_error": False,
        "typing": bool(settle and (settle["form"] or (settle["proposal"] and settle["proposal"]["turn_down"]))),
        "reviews": [_review(outcome) for outcome in outcomes if outcome.state == "needs_review"],
        "overdue": [_overdue(late) for late in overdue],
    }


def _row(outcome: Outcome, one: Outcome | None) -> dict[str, Any]:
    return {
        "reference": words.refund_reference(outcome.number),
        "url": url_for("unknown.show", intent_id=outcome.intent_id),
        "decision_url": url_for("decision.show", intent_id=outcome.intent_id),
        "since": outcome.since,
        "customer": words.customer(outcome.customer),
        "destination": _to(outcome),
        "amount_minor": outcome.amount_minor,
        "currency": outcome.currency,
        "what_happened": _what_happened(outcome),
        "asked_text": words.counted(outcome.looks, "time", "times"),
        "next_check_at": outcome.next_at,
        "owner": None,
        "here": one is not None and outcome.intent_id == one.intent_id,
    }


def _to(outcome: Outcome) -> dict[str, Any]:
    return words.destination(outcome.destination_kind, outcome.destination_brand, outcome.destination_last4)


def _what_happened(outcome: Outcome) -> str:
    usual = _HAPPENED[outcome.state]
    return _CODES.get(outcome.last_code, usual) if outcome.state == "unknown" else usual


def _one(db: Connection, outcome: Outcome) -> dict[str, Any]:
    safe = timedelta(hours=KEY_SAFE_HOURS)
    used = (now() - outcome.approved_at) / safe
    known, not_known, then = _sentences(outcome)
    return {
        "reference": words.refund_reference(outcome.number),
        "state": outcome.state,
        "case_reference": words.case_reference(outcome.case_number),
        "case_url": url_for("case.show", case_id=outcome.case_id),
        "decision_url": url_for("decision.show", intent_id=outcome.intent_id),
        "order_reference": outcome.order_ref,
        "amount_minor": outcome.amount_minor,
        "currency": outcome.currency,
        "destination": _to(outcome),
        "sent_at": outcome.sent_at or outcome.since,
        "next_check_at": outcome.next_at,
        "differs": said_otherwise(outcome.state, outcome.state_reason),
        "approved_by": outcome.approved_by,
        "approved_at": outcome.approved_at,
        "act": {"kind": outcome.act},
        "to_customer": refund_sentence(vars(outcome), sent_at=outcome.sent_at or outcome.since),
        "known": known,
        "not_known": not_known,
        "next": then,
        "key": None if outcome.act == "manual" else {
            "value": outcome.provider_key, "minted_at": outcome.approved_at, "safe_until": outcome.approved_at + safe,
            "safe_hours": KEY_SAFE_HOURS, "age_permille": min(1000, max(0, int(used * 1000))),
        },
        "tries": [_try(tried) for tried in read_tries(db, current.merchant_id, outcome.intent_id)],
    }  # fmt: skip


def _sentences(outcome: Outcome) -> tuple[str, str, str]:
    """What we know, what we do not know, what happens next: each as the rows say it."""
    if outcome.act == "manual":
        return (
            "A person recorded that it was paid by hand. No provider was asked, and none can be.",
            f"Whether that stands. {hand_fault(outcome.state_reason)}",
            "Pay nothing more. A manager and somebody of finance settle it, on what was recorded.",
        )
    often = "once" if outcome.sends == 1 else f"{outcome.sends} times"
    sent = f"It was sent {often} under one key, so the provider acts on it once."
    match outcome.state:
        case "submitting":
            return (
                sent,
                "Whether the provider has it: the call is under way.",
                "Its answer is recorded, or it is asked about.",
            )
        case "pending":
            listed = f"The provider has it as {outcome.provider_refund_ref}." if outcome.provider_refund_ref else sent
            return listed, "Whether the bank will take it.", "The provider is asked again until it is settled."
        case "needs_review" if differs := said_otherwise(outcome.state, outcome.state_reason):
            return (
                f"{sent} {differs}{_beside(outcome)}",
                "Which of the two is to stand: what was approved, or what the provider shows.",
                "Nothing is sent again. A manager and somebody of finance settle it, on what the provider lists.",
            )
        case "needs_review":
            return (
                sent,
                f"What became of it. {situation('review', outcome.state_reason).sentence}",
                "Nothing is sent again. A manager and somebody of finance settle it, on what the provider lists.",
            )
    return (
        sent,
        "Whether the provider acted on it.",
        "The provider is asked for its list. Only if that proves the refund is not there, the same request goes again.",
    )


def _beside(outcome: Outcome) -> str:
    """What was asked for beside what the provider shows, as a sentence."""
    _, _, compared = outcome.differs.partition(f": {ASKED_FOR}")
    return f" {words.sentence(ASKED_FOR + compared)}." if compared else ""


def _try(tried: Try) -> dict[str, Any]:
    icon, text = (_SENDS if tried.kind == "attempt" else _FOUND)[tried.outcome]
    said = _CODES.get(tried.code, tried.code.replace("_", " "))
    return {"icon": icon, "what": f"{text}: {said}" if said else text, "by": "", "at": tried.at}


def _review(outcome: Outcome) -> dict[str, Any]:
    return {
        "reference": words.refund_reference(outcome.number),
        "url": url_for("unknown.show", intent_id=outcome.intent_id),
        "amount_minor": outcome.amount_minor,
        "currency": outcome.currency,
        "destination": _to(outcome),
        "text": hand_fault(outcome.state_reason)
        if outcome.act == "manual"
        else situation("review", outcome.state_reason).sentence + _beside(outcome),
    }


def _overdue(late: Overdue) -> dict[str, Any]:
    if late.intent_id is None:
        badge = words.case_badge(late.state)
        reference, url = words.case_reference(late.number), url_for("case.show", case_id=late.case_id)
    else:
        badge = {"state": late.state, "text": ""}
        reference, url = words.refund_reference(late.number), url_for("decision.show", intent_id=late.intent_id)
    over = f"{age(late.since)} past its limit"
    return {"reference": reference, "url": url, "state": badge["state"], "state_text": badge["text"], "text": over,
            "owner_text": f"Owner: {late.owner}."}  # fmt: skip
