"""The receipt of one refund's decision, and calling it back before it is sent."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from sqlalchemy import Connection

from console import words
from console.access import current, permission, reading, writing
from console.confirm import computed_beside, short_digest, units_text
from console.customer_words import refund_sentence
from console.forms import ConsoleForm, new_operation
from console.fragments import page, see_other
from console.log import log
from console.timeline import why
from ledger.caps import today
from ledger.errors import WrongState
from ledger.hops import hop
from ledger.intents import cancel_before_send
from ledger.queries.caps import business_day
from ledger.queries.decision import Answer, Decision, read_answer, read_decision
from ledger.refusals import SITUATIONS, Situation, after_nothing, said_otherwise, situation
from ledger.two_managers import TWO_MANAGERS

blueprint = Blueprint("decision", __name__, url_prefix="/<merchant_slug>/refunds")

SENT: Final = ("submitting", "unknown", "pending", "needs_review", "succeeded", "failed", "reversed")
# A state that changes by itself or by the provider: the receipt asks again.
_MOVES: Final = ("approved", "held", "submitting", "unknown", "pending", "needs_review")
CANCEL_REASON: Final = "not_yet"


@blueprint.get("/<uuid:intent_id>")
@permission("see_cases")
def show(intent_id: UUID) -> Response:
    """The receipt; the part `receipt` for a page that waits."""
    with reading() as db:
        return page("decision.html", "receipt", **_page(db, read_decision(db, current.merchant_id, intent_id)))


@blueprint.post("/<uuid:intent_id>/withdrawal")
@permission("withdraw")
def withdraw(intent_id: UUID) -> Response:
    """Calls the refund back before it is sent. One that has left stays as it is, and the receipt says so."""
    ConsoleForm().require()
    try:
        with writing() as db:
            cancel_before_send(db, current.merchant_id, intent_id, current.actor, CANCEL_REASON)
            about = hop(db, current.merchant_id, intent_id)
    except WrongState:
        return see_other("decision.show", intent_id=intent_id, result="too_late")
    log.info("withdrawn", staff_id=current.staff_id, merchant=current.slug, **about)
    return see_other("decision.show", intent_id=intent_id, result="cancelled")


def _page(db: Connection, decision: Decision) -> dict[str, Any]:
    return {
        "decision": receipt(db, decision),
        "already": _already(decision),
        "result": _result(decision),
        "next": _next(decision.case_id),
    }


def _next(case_id: UUID) -> dict[str, str] | None:
    if not current.may("claim"):
        return None
    url = url_for("queue.next_case", after=case_id)
    return {"url": url, "operation": new_operation(), "text": "The ready case that is due next"}


def receipt(db: Connection, decision: Decision) -> dict[str, Any]:
    """The `decision` of templates/decision.html."""
    units = units_text(db, decision)
    digest = bytes(decision.fingerprint).hex() if decision.fingerprint else ""
    return {
        "reference": words.refund_reference(decision.number),
        "case_reference": words.case_reference(decision.case_number),
        "case_url": url_for("case.show", case_id=decision.case_id),
        "state": decision.state,
        "state_text": f"Held: {why(decision.state_reason)}" if decision.state == "held" else "",
        "act": words.act(decision.act, decision.charge_type),
        "by_hand": _by_hand(decision),
        "amount_minor": decision.amount_minor,
        "currency": decision.currency,
        "destination": words.destination(
            decision.destination_kind, decision.destination_brand, decision.destination_last4
        ),
        "customer": words.customer(decision.customer),
        "order_text": f"{decision.order_ref}, {units}",
        "units_text": words.sentence(units),
        "asked_by": decision.requester_name,
        "asked_at": decision.created_at,
        "policy": decision.policy,
        "entitlement_version": decision.entitlement_n,
        "computed": computed_beside(decision, decision.order_currency),
        "second": _second(decision),
        **_approval(decision),
        "fingerprint": digest,
        "fingerprint_short": short_digest(digest) if digest else "none before an approval",
        "provider_key": decision.provider_key if decision.approval_id else "",
        "provider_reference": decision.provider_refund_ref or "",
        **_times(decision),
        "units_now": _units_now(decision),
        "cancel": _cancel(decision),
        "held": _held(db, decision),
        "unknown": _unknown(decision),
        "answer": _answer(decision, read_answer(db, current.merchant_id, decision.intent_id)),
        "to_customer": _to_customer(decision),
        "final": decision.state not in _MOVES,
        "poll_url": url_for("decision.show", intent_id=decision.intent_id),
    }


def _to_customer(decision: Decision) -> str:
    """A refund behind the pause is told of as one that is held."""
    paused = decision.state == "approved" and decision.paused_at is not None and decision.act != "manual"
    state = "held" if paused else decision.state
    return refund_sentence(vars(decision) | {"state": state}, sent_at=decision.sent_at)


def _by_hand(decision: Decision) -> dict[str, Any] | None:
    """Where a refund that a person pays back stands: who recorded what, or where to record it."""
    if decision.act != "manual" or decision.approval_id is None:
        return None
    waits = decision.state == "approved" and decision.by_hand_at is None and current.may("settle_by_hand")
    return {
        "reference": decision.by_hand_reference or "", "reason": decision.by_hand_reason or "",
        "by": decision.by_hand_by or "", "at": decision.by_hand_at,
        "in_doubt": decision.state == "needs_review", "not_so": decision.state == "failed" and bool(decision.by_hand_reference),
        "url": url_for("by_hand.show", intent_id=decision.intent_id) if waits else "",
    }  # fmt: skip


def _second(decision: Decision) -> dict[str, str] | None:
    """Of what two managers decide: who the second was, or that one is waited for."""
    if decision.route != TWO_MANAGERS or decision.approval_id is None:
        return None
    waits = decision.state == "proposed"
    return {
        "name": decision.second_name or "",
        "url": url_for("confirm.show", intent_id=decision.intent_id) if waits else "",
    }


_APPROVED_WITH: Final = {
    "policy": "without a person", "session": "signed in", "factor": "with a second factor", "passkey": "with a passkey",
}  # fmt: skip


def _approval(decision: Decision) -> dict[str, Any]:
    return {
        "approved_by": decision.approver_name or "",
        "approved_at": decision.approved_at,
        "approval_text": _APPROVED_WITH.get(decision.strength or "", "signed in"),
        "approval_reference": str(decision.approval_id) if decision.approval_id else "",
        "note": decision.approval_note or "",
    }


def _times(decision: Decision) -> dict[str, Any]:
    settled = decision.state_at if decision.state in ("succeeded", "reversed", "failed") else None
    return {
        "sends_at": decision.due_at if decision.state == "approved" else None,
        "sent_at": decision.sent_at,
        "settled_at": settled,
        "withdrawn_at": decision.state_at if decision.state == "withdrawn" else None,
        "withdrawn_by": decision.withdrawn_by or "the case changed",
    }


def _units_now(decision: Decision) -> str:
    """Where the units are after the refund was called back: with their case while it is open, free once it was rejected.
    A refund of no units says whether its case is open."""
    if decision.state != "withdrawn":
        return ""
    if not decision.units:
        return "the case is still open" if decision.case_open else "the case is closed"
    if decision.case_open:
        return "the case still holds its units"
    return "the units are free again" if decision.case_stage == "rejected" else "the case went on without it"


def _cancel(decision: Decision) -> dict[str, Any] | None:
    """The button, while the refund has not left and this person may call it back."""
    by_hand = decision.act == "manual" and decision.by_hand_at is None
    leaves = decision.state == "approved" and (decision.due_at is not None or by_hand)
    if not (leaves or decision.state == "held") or not current.may("withdraw"):
        return None
    url = url_for("decision.withdraw", intent_id=decision.intent_id)
    return {"url": url, "operation": new_operation(), "until": decision.due_at, "waits": decision.state == "approved"}


def _held(db: Connection, decision: Decision) -> dict[str, Any] | None:
    if decision.state == "approved" and decision.paused_at is not None:
        return _held_by("pause", since=decision.paused_at, who=decision.paused_by or "", short="refunds are paused")
    if decision.state != "held":
        return None
    if decision.state_reason == "expired":
        return _held_by("expired", since=decision.state_at, short="its approval ran out")
    if decision.state_reason != "cap":
        return _held_by("check", since=decision.state_at, short=f"{words.sentence(why(decision.state_reason))}.")
    day = business_day(db, current.merchant_id)
    fits = any(
        cap.currency == decision.currency and cap.limit_minor >= decision.amount_minor
        for cap in today(db, current.merchant_id)
    )
    good_until = decision.good_until
    if fits and good_until is not None and good_until <= day.ends_at:
        # What a passkey signed is good for four hours, and a business day may have 25 that began with its approval.
        return _held_by("cap_outlasts", since=decision.state_at, goes_at=good_until, short="by the daily cap")
    return _held_by("cap", since=decision.state_at, goes_at=day.ends_at if fits else None, short="by the daily cap")


def _held_by(by: str, *, since: datetime, short: str, who: str = "", goes_at: datetime | None = None) -> dict[str, Any]:
    return {"by": by, "goes_at": goes_at, "since": since, "who": who, "short": short}


def _unknown(decision: Decision) -> dict[str, Any] | None:
    if decision.state not in ("unknown", "needs_review") or decision.sent_at is None:
        return None
    return {
        "sent_at": decision.sent_at, "next_check_at": decision.due_at if decision.state == "unknown" else None,
        "differs": said_otherwise(decision.state, decision.state_reason),
    }  # fmt: skip


def _answer(decision: Decision, answer: Answer | None) -> dict[str, str] | None:
    """What came of the refund in staff's words: {text, then, words}; the provider's own words are quoted, never relied on."""
    row = _situation(decision, answer)
    if row is None:
        return None
    refused = decision.state == "failed" and answer is not None and answer.outcome == "refused"
    return {"text": row.sentence, "then": row.then, "words": answer.detail if refused and answer else ""}


def _situation(decision: Decision, answer: Answer | None) -> Situation | None:
    """The row of ledger.refusals for the state of a refund that has left; None where the state says it all."""
    match decision.state:
        case "failed" | "reversed":
            return after_nothing(decision.state_reason, paid=decision.state == "reversed")
        case "needs_review":
            return situation("review", decision.state_reason)
        case "unknown":
            return situation("unknown", decision.state_reason)
        case "pending":
            code = (answer.detail or answer.status) if answer else ""
            return situation("pending", f"pending:{code}")
        case "submitting" if answer is not None and answer.outcome == "not_accepted":
            stopped = SITUATIONS.get(answer.code)
            return situation("stopped" if stopped and stopped.becomes == "stopped" else "later", answer.code)
    return None


def _already(decision: Decision) -> dict[str, Any] | None:
    """For a submit that came second: whose approval stands, and since when. The rows say it, not the address."""
    if "already" not in request.args or decision.approved_at is None or decision.state == "withdrawn":
        return None
    by_you = decision.approver_id == current.staff_id
    return {"by_you": by_you, "by": decision.approver_name or "", "at": decision.approved_at}


def _result(decision: Decision) -> dict[str, Any] | None:
    """What came of calling it back, as the rows say it."""
    asked = request.args.get("result")
    if asked in ("cancelled", "too_late") and decision.state == "withdrawn":
        return {"kind": "cancelled", "at": decision.state_at}
    if asked == "too_late" and decision.state in SENT:
        return {"kind": "too_late", "at": decision.sent_at or decision.state_at}
    return None
