"""Carrying out what two people settled of a refund that was recorded as paid by hand, and whose approval did not hold.

The proposal and the second word are those of `ledger.review`; the evidence is the record (`ledger.hand_records`).
"""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows
from ledger.events import lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.hand_records import hand_record
from ledger.review import as_recorded, keep_result, left, open_settlement, void
from ledger.settlement import fail, succeed


def to_carry_out_by_hand(db: Connection, merchant_id: UUID) -> list[UUID]:
    """The refunds by hand whose settlement two people confirmed and nobody carried out yet, oldest first."""
    return [row["intent_id"] for row in rows(db, _CONFIRMED_BY_HAND, m=merchant_id)]


_CONFIRMED_BY_HAND: Final = """
    SELECT s.intent_id FROM settlements s
    JOIN settlement_decisions d ON d.merchant_id = s.merchant_id AND d.settlement_id = s.settlement_id AND d.confirmed
    JOIN intents i ON i.merchant_id = s.merchant_id AND i.intent_id = s.intent_id AND i.state = 'needs_review'
    LEFT JOIN settlement_results r ON r.merchant_id = s.merchant_id AND r.settlement_id = s.settlement_id
    WHERE s.merchant_id = :m AND s.list_id IS NULL AND r.result IS NULL ORDER BY d.decided_at, s.intent_id
"""


def carry_out_by_hand(db: Connection, merchant_id: UUID, intent_id: UUID) -> str:
    """The worker's part for a refund by hand: what two people said of its record is booked, and no provider is asked.

    Returns `succeeded`, `failed` (reservation, claims and cap went back), `void` (back to people, with an alarm), or "" when
    there was nothing to do. Locks case, intent and what settling and failing lock.
    """
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    found = open_settlement(db, merchant_id, intent_id)
    if intent is None or intent["state"] != "needs_review" or found is None or found["list_id"] is not None:
        return ""
    if not found["confirmed"]:
        return ""
    fault = left(db, intent, found) or ("" if as_recorded(db, intent, found) else "evidence_changed")
    record = hand_record(db, merchant_id, intent_id)
    if fault or record is None:
        return void(db, case, intent, found, fault)
    if found["outcome"] == "succeeded":
        succeed(db, case, intent, {"reference": record.reference})
    else:
        fail(db, case, intent, "not_paid_by_hand")
    keep_result(db, found, "carried_out", "")
    return str(found["outcome"])
