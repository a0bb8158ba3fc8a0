"""Paying back by hand what no provider holds: gift cards, store credit, cash (act `manual`).

The refund is approved like any other, with reservation and cap. A person then does it in the other system and records its
reference, or why it could not be done; a worker verifies the approval again, as it stood then, and settles or releases.
"""

from dataclasses import dataclass, replace
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.approvals import fault_before_send, read_live
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run, scalar
from ledger.errors import AlreadyDecided, BadInput, NotFound, WrongState
from ledger.events import LockedCase, append, lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.outbox import give_to_person, mark_unknown, raise_alarm
from ledger.seals import SealVerifier
from ledger.settlement import fail, succeed

LONGEST_REFERENCE: Final = 80
LONGEST_REASON: Final = 300


@dataclass(frozen=True)
class Recorded:
    """What a person says: paid back under `reference` in the other system, or not, for `reason`. One of them is ""."""

    reference: str = ""
    reason: str = ""

    @property
    def done(self) -> bool:
        return bool(self.reference)


def record(db: Connection, merchant_id: UUID, intent_id: UUID, staff_id: UUID, recorded: Recorded) -> None:
    """Keeps what a person did by hand, once; a worker carries it out. Locks case and intent.

    Raises NotFound, BadInput (reference, reason), WrongState (not approved, not by hand, approval ran out), AlreadyDecided
    with what was recorded before and by whom.
    """
    _acceptable(recorded)
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None:
        raise NotFound
    earlier = first(db, _EARLIER, m=merchant_id, i=intent_id)
    if earlier is not None:
        if (earlier["reference"] or "", earlier["reason"]) == (recorded.reference, recorded.reason):
            return
        raise AlreadyDecided(f"{earlier['name']} recorded this already.", intent_id=intent_id, recorded=dict(earlier))
    if intent["act"] != "manual" or intent["state"] != "approved":
        raise WrongState("This is not approved to be paid back by hand. Pay nothing.", state=intent["state"])
    if not scalar(db, _STILL_GOOD, m=merchant_id, i=intent_id):
        raise WrongState("Its approval ran out. Pay nothing: call it back and have it approved anew.")
    _insert(db, intent, staff_id, recorded)
    body = {"reference": recorded.reference} if recorded.done else {}
    kind = "settlement.recorded" if recorded.done else "settlement.not_done"
    append(db, case, kind, f"staff:{staff_id}", body, intent_id=intent_id)


def _acceptable(recorded: Recorded) -> None:
    if recorded.reference and mask_card_numbers(recorded.reference) != recorded.reference:
        raise BadInput("reference", "is a card number: write the other system's reference of the payment")
    if not 1 <= len(recorded.reference or recorded.reason) <= (LONGEST_REFERENCE if recorded.done else LONGEST_REASON):
        field, most = ("reference", LONGEST_REFERENCE) if recorded.done else ("reason", LONGEST_REASON)
        raise BadInput(field, f"write 1 to {most} characters")


_EARLIER: Final = """
    SELECT m.outcome, m.reference, m.reason, m.recorded_at, s.name FROM manual_settlements m
    JOIN staff s ON s.staff_id = m.recorded_by WHERE m.merchant_id = :m AND m.intent_id = :i
"""
_STILL_GOOD: Final = """
    SELECT min(expires_at) > now() FROM approvals WHERE merchant_id = :m AND intent_id = :i
"""
_INSERT: Final = """
    INSERT INTO manual_settlements (merchant_id, intent_id, outcome, tender, reference, reason, recorded_by)
    VALUES (:m, :i, :outcome, :tender, :reference, :reason, :who)
"""


def _insert(db: Connection, intent: RowMapping, staff_id: UUID, recorded: Recorded) -> None:
    try:
        run(
            db, _INSERT, m=intent["merchant_id"], i=intent["intent_id"], outcome="done" if recorded.done else "not_done",
            tender=intent["tender"], reference=recorded.reference or None, reason=recorded.reason, who=staff_id,
        )  # fmt: skip
    except IntegrityError as error:
        if "one_reference_per_tender" in str(error.orig):
            raise BadInput("reference", "was recorded for another refund: each payment has its own") from error
        raise


def to_carry_out(db: Connection, merchant_id: UUID) -> list[UUID]:
    """What was recorded and is not settled yet, oldest first."""
    return [row["intent_id"] for row in rows(db, _TO_CARRY_OUT, m=merchant_id)]


_TO_CARRY_OUT: Final = """
    SELECT i.intent_id FROM intents i
    JOIN manual_settlements s ON s.merchant_id = i.merchant_id AND s.intent_id = i.intent_id
    WHERE i.merchant_id = :m AND i.state = 'approved' ORDER BY s.recorded_at, i.intent_id
"""


def carry_out(db: Connection, merchant_id: UUID, intent_id: UUID, verifier: SealVerifier) -> str:
    """Settles or releases what a person recorded; returns the state afterwards, "" when there was nothing to do.

    The approval is verified as of the moment of recording, because by then the money had left. One that does not hold is a
    person's, with an alarm: two people settle it (`ledger.review`), nothing is settled or released by itself. Locks case,
    intent and what settling locks.
    """
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    recorded = first(db, _EARLIER, m=merchant_id, i=intent_id)
    if intent is None or recorded is None or intent["state"] != "approved":
        return ""
    live = read_live(db, merchant_id, [intent_id])[intent_id]
    as_recorded = cast("RowMapping", {**intent, "at": recorded["recorded_at"]})
    fault = fault_before_send(db, replace(live, intent=as_recorded), verifier)
    append(db, case, "intent.submitting", "system", intent_id=intent_id, move=("approved", "submitting"))
    moving = cast("RowMapping", {**intent, "state": "submitting"})
    if recorded["outcome"] == "not_done":
        fail(db, case, moving, "not_done_by_hand")
        return "failed"
    if fault:
        return to_person(db, case, moving, fault)
    body: dict[str, Any] = {"reference": recorded["reference"]}
    succeed(db, case, moving, body)
    return "succeeded"


def to_person(db: Connection, case: LockedCase, intent: RowMapping, fault: str) -> str:
    """submitting → needs_review, with an alarm: two people settle it on its record (`ledger.review`). Both are locked."""
    text = f"R-{intent['number']} was recorded as paid by hand, and its approval does not hold: {fault}"
    raise_alarm(db, case.merchant_id, f"by_hand_{fault}", intent["intent_id"], text)
    mark_unknown(db, case, intent, fault)
    give_to_person(db, case, cast("RowMapping", {**intent, "state": "unknown"}), fault)
    return "needs_review"
