"""What two people need to settle a refund: our intent beside the provider's list, what that list supports, and the two forms.

Of a refund by hand, the record of it stands where the list would.
"""

import re
from typing import Any, Final
from uuid import UUID

from flask import url_for
from sqlalchemy import Connection, RowMapping
from wtforms import HiddenField, RadioField, TextAreaField
from wtforms.validators import DataRequired, InputRequired, Length, Regexp

from console import words
from console.access import current
from console.filters import money
from console.forms import ConsoleForm, new_operation
from ledger.database import scalar
from ledger.fingerprint import read_intent
from ledger.hand_records import HandRecord
from ledger.provider_lists import ListedRefund, Shown
from ledger.queries.review import Past, asked, names, past_settlements
from ledger.refusals import situation
from ledger.review import LONGEST_NOTE, ROLES, Option, as_recorded, evidence, open_settlement, seen_digest, supported

MOST_LISTED: Final = 50
_DIGEST: Final = Regexp(re.compile(r"\A[0-9a-f]{64}\Z"), message="Open this page again.")
_OUTCOMES: Final = {
    "succeeded": "It is paid",
    "pending": "The provider has it, not settled yet",
    "failed": "Nothing was paid",
}


class ProposeForm(ConsoleForm):
    """One of the outcomes that the shown list supports, and what was compared. `seen` is the digest of what was shown."""

    seen = HiddenField(validators=[_DIGEST])
    choice = RadioField(
        "What became of it", validators=[InputRequired("Choose what became of it")], validate_choice=False
    )
    note = TextAreaField(
        "What you compared", validators=[DataRequired("Say what you compared"), Length(max=LONGEST_NOTE)]
    )


class ConfirmForm(ConsoleForm):
    """The second person's word for exactly what was proposed: its digest, and nothing else."""

    digest = HiddenField(validators=[_DIGEST])


class TurnDownForm(ConsoleForm):
    """Why it is not so."""

    reason = TextAreaField("Why not", validators=[DataRequired("Say why"), Length(max=LONGEST_NOTE)])


def settle_view(
    db: Connection, intent_id: UUID, form: ProposeForm | None = None, turn_down: TurnDownForm | None = None
) -> dict[str, Any] | None:
    """The `settle` of templates/unknown.html for one intent; None while it is being sent."""
    intent = read_intent(db, current.merchant_id, intent_id)
    if intent is None or intent["state"] not in ("unknown", "pending", "needs_review"):
        return None
    shown = evidence(db, intent)
    by_hand = intent["act"] == "manual"
    view: dict[str, Any] = {
        "by_hand": _record(shown) if isinstance(shown, HandRecord) else None,
        "list": _list(intent, shown) if isinstance(shown, Shown) else None,
        "waiting": asked(db, current.merchant_id, intent_id),
        "ask": None if by_hand else _ask(intent_id),
        "form": None, "why": "", "proposal": None, "past": [],
    }  # fmt: skip
    if intent["state"] != "needs_review":
        return view
    view["past"] = [_past(one) for one in past_settlements(db, current.merchant_id, intent_id)]
    waits = open_settlement(db, current.merchant_id, intent_id)
    if waits is not None:
        return view | {"proposal": _proposal(db, intent, waits, shown, turn_down or TurnDownForm(formdata=None))}
    return view | _offer(db, intent, shown, form)


def _ask(intent_id: UUID) -> dict[str, str] | None:
    if not current.may("ask_provider"):
        return None
    return {"url": url_for("unknown.ask", intent_id=intent_id), "operation": new_operation()}


def _record(record: HandRecord) -> dict[str, Any]:
    tender = record.tender.replace("_", " ")
    return {"reference": record.reference, "tender": tender, "by": record.name, "at": record.recorded_at}


def hand_fault(reason: str) -> str:
    """Why the approval behind a record by hand did not hold, as a sentence."""
    if reason == "expired":
        return "Its approval had run out."
    return situation("review", reason).sentence if reason in _OF_APPROVALS else "Its approval did not hold."


_OF_APPROVALS: Final = ("seal", "fingerprint", "left", "strength", "proof", "blocked", "reservation")


def _list(intent: RowMapping, shown: Shown) -> dict[str, Any]:
    return {
        "asked_at": shown.asked_at,
        "count_text": words.counted(len(shown.refunds), "refund", "refunds"),
        "more": max(0, len(shown.refunds) - MOST_LISTED),
        "rows": [_row(intent, one) for one in shown.refunds[:MOST_LISTED]],
        "ours": {
            "amount_minor": intent["amount_minor"],
            "currency": intent["currency"],
            "charge": intent["charge_ref"],
        },
    }


def _row(intent: RowMapping, one: ListedRefund) -> dict[str, Any]:
    mark = "ours" if one.marked == str(intent["intent_id"]) else "none" if not one.marked else "another refund's"
    return {
        "ref": one.refund_ref, "status": one.status or "none", "amount_minor": one.amount_minor, "currency": one.currency,
        "mark": mark, "created_at": one.created_at,
        "same": (one.amount_minor, one.currency) == (intent["amount_minor"], intent["currency"]),
        "here": one.charge_ref == intent["charge_ref"], "charge": one.charge_ref,
    }  # fmt: skip


def _person_fault(db: Connection, intent: RowMapping) -> str:
    if current.role not in ROLES:
        return "A manager and somebody of finance settle it together."
    approved = scalar(
        db, "SELECT 1 FROM approvals WHERE merchant_id = :m AND intent_id = :i AND staff_id = :s LIMIT 1",
        m=current.merchant_id, i=intent["intent_id"], s=current.staff_id,
    )  # fmt: skip
    return "You approved this refund, so two other people settle it." if approved else ""


def _offer(
    db: Connection, intent: RowMapping, shown: Shown | HandRecord | None, form: ProposeForm | None
) -> dict[str, Any]:
    """The first person's form, or why there is none."""
    fault = _person_fault(db, intent)
    if fault or shown is None:
        nothing = (
            "There is no record of it."
            if intent["act"] == "manual"
            else "There is no list of the provider yet. Ask it."
        )
        return {"why": fault or nothing}
    found, why = supported(db, intent, shown)
    if not found:
        return {"why": why}
    form = form or ProposeForm(formdata=None)
    form.seen.data = form.seen.data or seen_digest(intent, shown).hex()
    form.choice.choices = words.choices({one.choice: _option_text(one, shown) for one in found})
    return {"form": form, "url": url_for("unknown.propose", intent_id=intent["intent_id"]), "why": why}


def _option_text(one: Option, shown: Shown | HandRecord) -> str:
    text = _OUTCOMES[one.outcome]
    if isinstance(shown, HandRecord):
        return text + _by_hand_text(one.outcome, shown) + "."
    listed = next((refund for refund in shown.refunds if refund.refund_ref == one.refund_ref), None)
    if listed is not None:
        text += (
            f": {listed.refund_ref}, {money(listed.amount_minor, listed.currency)} {listed.currency}, {listed.status}"
        )
        text += "" if listed.marked else ", without our mark"
    else:
        text += ": the list shows no such refund. What was set aside is given back"
    return f"{text}.{_named_text(one.named)}"


def _by_hand_text(outcome: str, record: HandRecord) -> str:
    if outcome == "succeeded":
        return f": by hand, under {record.reference}"
    return f", or {record.reference} was taken back: what was set aside is given back"


def _named_text(named: tuple[str, ...] | list[str]) -> str:
    return f" Not this one, and to be explained apart: {', '.join(named)}." if named else ""


def _proposal(
    db: Connection, intent: RowMapping, waits: RowMapping, shown: Shown | HandRecord | None, turn_down: TurnDownForm
) -> dict[str, Any]:
    """What waits for its second person, or for the worker."""
    people = names(db, [waits["proposed_by"], *([waits["decided_by"]] if waits["decided_by"] else [])])
    changed = shown is None or not (
        as_recorded(db, intent, waits) if isinstance(shown, HandRecord) else shown.digest == bytes(waits["list_digest"])
    )
    own = waits["proposed_by"] == current.staff_id
    fault = _person_fault(db, intent)
    if not fault and own:
        fault = "You proposed this, so somebody of the other role confirms it."
    elif not fault and current.role == waits["proposed_role"]:
        fault = "A manager and somebody of finance settle it together, one of each."
    ref = waits["refund_ref"]
    rest = f": {ref}" if ref else ": the list shows no such refund"
    if isinstance(shown, HandRecord):
        rest = _by_hand_text(waits["outcome"], shown)
    return {
        "text": f"{_OUTCOMES[waits['outcome']]}{rest}.{_named_text(waits['named'])}",
        "note": waits["note"],
        "by": people[waits["proposed_by"]],
        "at": waits["proposed_at"],
        "confirmed_by": people.get(waits["decided_by"], ""),
        "changed": changed,
        "fault": fault,
        "digest": bytes(waits["digest"]).hex(),
        "operation": new_operation(),
        "label": f"Confirm: {_OUTCOMES[waits['outcome']].lower()}, "
        f"{money(intent['amount_minor'], intent['currency'])} {intent['currency']}",
        "confirm_url": url_for("unknown.confirm", settlement_id=waits["settlement_id"]),
        "turn_down_url": url_for("unknown.turn_down", settlement_id=waits["settlement_id"]),
        "turn_down": turn_down if current.role in ROLES and not waits["decided_by"] else None,
    }


def _past(one: Past) -> str:
    said = f"{_OUTCOMES[one.outcome]}, proposed by {one.proposed_by}"
    if one.result == "void":
        why = {
            "left": "one of the two may not settle any more",
            "evidence_changed": "what they settled it on had changed",
        }
        return f"{said}, not carried out: {why.get(one.reason, 'the list no longer supports it')}."
    return f"{said}, turned down by {one.decided_by}: {one.reason}"
