"""The confirm sheet: what exactly is approved, from ledger rows only, and the one plain form that approves it (S23, S25)."""

import re
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import HiddenField, StringField, TextAreaField
from wtforms.validators import Length, Regexp

from console import notices, proving, team, words
from console.access import current, permission, reading, writing
from console.confirm_refusals import (
    refusal_of_change,
    refusal_of_person,
    refusal_of_reading,
    refusal_of_state,
)
from console.forms import ConsoleForm, kept_note, new_operation
from console.fragments import page, see_other
from console.installation import installed
from console.kind_words import computed
from console.log import log
from console.operations import count_refusal
from ledger.approvals import Seen, approve
from ledger.card_numbers import mask_card_numbers
from ledger.errors import (
    AlreadyDecided,
    BadInput,
    LedgerError,
    LimitReached,
    NotAllowed,
    NotEnoughMoneyLeft,
    NotFound,
    SamePerson,
    Stale,
    WrongState,
)
from ledger.factors import NotShown
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.hops import hop
from ledger.limits import read_sum
from ledger.passkey_proof import LONGEST_ANSWER, CounterWentBack, ProofRefused
from ledger.presence import read_present
from ledger.queries.decision import Decision, read_decision, read_unit_lines
from ledger.strength import TooWeak
from ledger.two_managers import TWO_MANAGERS

blueprint = Blueprint("confirm", __name__, url_prefix="/<merchant_slug>/refunds")

LONGEST_NOTE: Final = 2000


class ApproveForm(ConsoleForm):
    """What comes back: the fingerprint that was rendered, its operation key, a note. No amount, no destination (S19)."""

    fingerprint = HiddenField(
        validators=[Regexp(re.compile(r"\A[0-9a-f]{64}\Z"), message="Open this page again from the case.")]
    )
    note = TextAreaField("Note", validators=[Length(max=LONGEST_NOTE, message="Write at most 2,000 characters")])
    code = StringField("Code from your app", validators=[Length(max=12)])
    nonce = HiddenField(validators=[Length(max=64)])
    answer = HiddenField(validators=[Length(max=LONGEST_ANSWER)])


class ChallengeForm(ConsoleForm):
    """What a passkey is asked about: the fingerprint that was rendered."""

    fingerprint = HiddenField(
        validators=[Regexp(re.compile(r"\A[0-9a-f]{64}\Z"), message="Open this page again from the case.")]
    )


@blueprint.get("/<uuid:intent_id>/approval")
@permission("approve")
def show(intent_id: UUID) -> Response:
    """The sheet, or why there is none for this person."""
    with reading() as db:
        decision = read_decision(db, current.merchant_id, intent_id)
        if decision.approval_id is not None and decision.state != "withdrawn" and not _waits_for_me(decision):
            return see_other("decision.show", intent_id=intent_id)
        refusal = refusal_of_person(db, decision) or refusal_of_state(decision) or refusal_of_reading(db, decision)
        present = read_present(db, current.merchant_id, decision.case_id)
        answer = _page(db, decision, refusal, kept_note())
    # Whoever is shown no sheet decides nothing here.
    team.come_here(decision.case_id, present, "looking" if refusal else "deciding")
    return answer


@blueprint.post("/<uuid:intent_id>/approval")
@permission("approve")
def approve_refund(intent_id: UUID) -> Response:
    """Approves what the sheet showed. A second submit lands on the first decision; a changed intent is a 409."""
    form = ApproveForm()
    note = str(form.note.data or "").strip()
    if not form.validate():
        return _sheet_again(intent_id, note, str(next(error for field in form for error in field.errors)))
    seen = Seen(bytes.fromhex(str(form.fingerprint.data)), str(form.operation.data), mask_card_numbers(note))
    window = installed().settings.cancel_window_seconds
    proof, wrong = proving.proof_of(
        intent_id, str(form.code.data or ""), str(form.answer.data or ""), str(form.nonce.data or "")
    )
    try:
        with writing() as db:
            decision = approve(
                db,
                current.merchant_id,
                intent_id,
                current.staff_id,
                seen,
                installed().sealer,
                cancel_window_seconds=window,
                last=True,
                proof=proof,
            )
            if proof.signed is not None:
                notices.approved_by_key(db, intent_id)
    except AlreadyDecided:
        return see_other("decision.show", intent_id=intent_id, already=1)
    except BadInput as refused:
        return _sheet_again(intent_id, note, words.sentence(refused.sentence.partition(": ")[2]) + ".")
    except CounterWentBack as refused:
        proving.suspend(refused)
        return _sheet_again(intent_id, note, proof_error=refused.sentence)
    except (TooWeak, NotShown, ProofRefused) as refused:
        _log_refused(intent_id, refused)
        unsigned = refused.facts.get("needed") == "passkey" and not form.answer.data
        return _sheet_again(intent_id, note, proof_error=wrong or (proving.NO_SCRIPT if unsigned else refused.sentence))
    except (Stale, SamePerson, NotAllowed, LimitReached, NotEnoughMoneyLeft, WrongState) as refused:
        return _refused(intent_id, refused, note)
    log.info(
        "approved", intent=intent_id, key=decision.key, state=decision.state, staff_id=current.staff_id, role=current.role,
        merchant=current.slug,
    )  # fmt: skip
    return see_other("decision.show", intent_id=intent_id)


@blueprint.post("/<uuid:intent_id>/challenge")
@permission("approve")
def challenge(intent_id: UUID) -> Response:
    """What a passkey signs to approve what the sheet showed, as JSON; good once, for two minutes, in this session."""
    form = ChallengeForm()
    form.require()
    return proving.begin(intent_id, bytes.fromhex(str(form.fingerprint.data)))


def _sheet_again(intent_id: UUID, note: str, error: str = "", *, proof_error: str = "") -> Response:
    with reading() as db:
        decision = read_decision(db, current.merchant_id, intent_id)
        return _page(db, decision, None, note, note_error=error, proof_error=proof_error, status=422)


def _log_refused(intent_id: UUID, refused: LedgerError) -> None:
    with reading() as db:
        about = hop(db, current.merchant_id, intent_id)
    log.warning("refused", reason=refused.code, staff_id=current.staff_id, merchant=current.slug, **about)


def _refused(intent_id: UUID, refused: LedgerError, note: str) -> Response:
    """The sheet with what is true now, under what was refused and why; what was typed is kept."""
    _log_refused(intent_id, refused)
    count_refusal(refused)
    with reading() as db:
        decision = read_decision(db, current.merchant_id, intent_id)
        if isinstance(refused, (SamePerson, NotAllowed, LimitReached)):
            refusal = refusal_of_person(db, decision)
            if refusal is None:
                raise refused
            return _page(db, decision, refusal, note)
        if isinstance(refused, WrongState):
            said = {"kind": "said", "text": refused.sentence}
            return _page(db, decision, refusal_of_state(decision) or refusal_of_reading(db, decision) or said, note)
        successor = refused.facts.get("new_intent_id")
        now = read_decision(db, current.merchant_id, successor) if successor else decision
        return _page(db, now, refusal_of_change(db, refused, decision), note, status=409)


def _page(
    db: Connection,
    decision: Decision,
    refusal: dict[str, Any] | None,
    note: str,
    *,
    note_error: str = "",
    proof_error: str = "",
    status: int = 0,
) -> Response:
    offered = refusal is None or refusal["kind"] == "changed"
    sheet = (
        _sheet(db, decision)
        if decision.state == "proposed" and offered and not refusal_of_person(db, decision)
        else None
    )
    back = {
        "url": url_for("case.show", case_id=decision.case_id),
        "case_reference": words.case_reference(decision.case_number),
    }
    usual = 200 if refusal is None else 409 if refusal["kind"] in ("gone", "changed", "blocked", "said") else 403
    typed = {"text": note, "max": LONGEST_NOTE, "error": note_error}
    hand = team.in_hand(db, decision.case_id) if sheet else ""
    return page(
        "confirm.html", status=status or usual, back=back, sheet=sheet, refusal=refusal, note=typed, proof_error=proof_error,
        hand=hand,
    )  # fmt: skip


def _sheet(db: Connection, decision: Decision) -> dict[str, Any]:
    """Every value the approval binds, and the fingerprint of exactly these rows."""
    intent = read_intent(db, current.merchant_id, decision.intent_id)
    if intent is None:
        raise NotFound
    seen = fingerprint(intent, evidence_digest(db, current.merchant_id, decision.case_id)).hex()
    needed = _needed(db, decision)
    proof = proving.ways(db, decision.intent_id, needed)
    return {
        "action_url": url_for("confirm.approve_refund", intent_id=decision.intent_id),
        "operation": new_operation(),
        "fingerprint": seen,
        "fingerprint_short": short_digest(seen),
        "act": words.act(decision.act, decision.charge_type),
        "amount_minor": decision.amount_minor,
        "currency": decision.currency,
        "destination": words.destination(
            decision.destination_kind, decision.destination_brand, decision.destination_last4
        ),
        "order_reference": decision.order_ref,
        "case_reference": words.case_reference(decision.case_number),
        "intent_reference": words.refund_reference(decision.number),
        "customer": words.customer(decision.customer),
        "merchant_name": decision.merchant_name,
        "units_text": units_text(db, decision),
        "policy": decision.policy,
        "computed": computed_beside(decision, decision.order_currency),
        "approval_text": _approval_text(decision, needed),
        "proof": proof,
        "valid_until": decision.at + timedelta(hours=proving.hours_good(proof)),
        "send_delay_seconds": installed().settings.cancel_window_seconds,
    }


def _waits_for_me(decision: Decision) -> bool:
    """Whether this person may be the second of two managers; the first looks at their decision."""
    return decision.state == "proposed" and decision.route == TWO_MANAGERS and decision.approver_id != current.staff_id


def _needed(db: Connection, decision: Decision) -> str:
    """How strong the approval has to be by the sum of now."""
    together = read_sum(db, current.merchant_id, decision.intent_id)
    return together.strength if together is not None else "passkey"


def _approval_text(decision: Decision, needed: str) -> str:
    how = proving.needed_text(needed)
    if decision.route != TWO_MANAGERS:
        return how
    if decision.approver_name:
        return f"{how}, the second of two managers; {decision.approver_name} was the first"
    return f"{how}, the first of two managers: nothing is sent before the second"


def computed_beside(decision: Decision, currency: str) -> dict[str, Any] | None:
    """What was computed, where another amount was asked for and approved beside it."""
    if decision.computed_minor is None:
        return None
    asked = {
        "minor": decision.override_minor,
        "computed_minor": decision.computed_minor,
        "reason": decision.override_reason,
    }
    return computed(asked, currency)


def short_digest(digest: str) -> str:
    """The first twelve digits in groups of four, for reading out."""
    return f"{digest[:4]} {digest[4:8]} {digest[8:12]}"


def units_text(db: Connection, decision: Decision) -> str:
    """ "line 1, units 1 and 2 of 3", line by line; the goods are named by their place on the order (S23)."""
    lines = read_unit_lines(db, current.merchant_id, decision.intent_id)
    spans: dict[str, list[tuple[int, int]]] = {}
    for unit in decision.units:
        spans.setdefault(unit["line"], []).append((unit["from"], unit["to"]))
    if not spans:
        kept = f"line {decision.asked_position}, the goods stay with the customer"
        return kept if decision.asked_position is not None else "no units of this order"
    texts = [f"line {line.position}, {words.units(spans[ref])} of {line.quantity}" for ref, line in lines.items()]
    return "; ".join(texts)
