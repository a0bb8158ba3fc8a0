"""What two managers decide: which seat an approval takes, and whether the second still counts before a send (P7)."""

import hmac
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first
from ledger.errors import AlreadyDecided, WrongState
from ledger.seals import SealVerifier
from ledger.strength import fault_of_strength

STANDING_APPROVAL: Final = """
    SELECT a.approval_id, a.staff_id, coalesce(s.name, policy_in_words(a.merchant_id, a.approver)) AS approver_name, a.approved_at,
        a.operation_key FROM approvals a
    LEFT JOIN staff s ON s.staff_id = a.staff_id WHERE a.merchant_id = :m AND a.intent_id = :i ORDER BY a.seat LIMIT 1
"""


# Approved by both before it moves; the second is neither the requester nor the first (P7).
TWO_MANAGERS: Final = "two_managers"
# Also what the guards of the database mean that look at both seats (`two_managers_approve`, `second_seat_as_first`).
FIRST_IS_OVER: Final = "The first manager's approval no longer counts. Have it worked out again, then both approve it."
_FIRST_SEAT: Final = """
    SELECT a.approver, a.fingerprint, a.expires_at > now() AND m.role = 'manager' AND s.disabled_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM void_approvals v WHERE v.merchant_id = a.merchant_id
            AND v.approval_id = a.approval_id)
        AND NOT proof_is_over(a.merchant_id, a.approval_id) AS good
    FROM approvals a JOIN staff s ON s.staff_id = a.staff_id
    LEFT JOIN memberships m ON m.merchant_id = a.merchant_id AND m.staff_id = a.staff_id AND m.ended_at IS NULL
    WHERE a.merchant_id = :m AND a.intent_id = :i AND a.seat = 1
"""


def seat_for(db: Connection, intent: RowMapping, staff_id: UUID, print_: bytes) -> int:
    """Which seat an approval of a proposed, locked intent takes: the second where one of two managers approved it already.

    Raises AlreadyDecided for that manager, WrongState when the first approval ran out, was for something else, or is of somebody
    who is no manager any more.
    """
    taken = (
        first(db, _FIRST_SEAT, m=intent["merchant_id"], i=intent["intent_id"])
        if intent["route"] == TWO_MANAGERS
        else None
    )
    if taken is None:
        return 1
    if taken["approver"] == f"staff:{staff_id}":
        raise AlreadyDecided(approval=dict(first(db, STANDING_APPROVAL, m=intent["merchant_id"], i=intent["intent_id"]) or {}),
                             intent_id=intent["intent_id"])  # fmt: skip
    if not taken["good"] or bytes(taken["fingerprint"]) != print_:
        raise WrongState(FIRST_IS_OVER)
    return 2


_SECOND_SEAT: Final = """
    SELECT a.*, m.role, s.disabled_at, EXISTS (SELECT 1 FROM void_approvals v
        WHERE v.merchant_id = a.merchant_id AND v.approval_id = a.approval_id) AS void
    FROM approvals a LEFT JOIN staff s ON s.staff_id = a.staff_id
    LEFT JOIN memberships m ON m.merchant_id = a.merchant_id AND m.staff_id = a.staff_id AND m.ended_at IS NULL
    WHERE a.merchant_id = :m AND a.intent_id = :i AND a.seat = 2
"""


def fault_of_second(db: Connection, intent: RowMapping, print_: bytes, verifier: SealVerifier, needed: str) -> str:
    """Why the approval of a second manager does not hold at `intent["at"]`, in the words of `fault_before_send`, or "".

    `needed`: how strong each of the two has to be.
    """
    second = first(db, _SECOND_SEAT, m=intent["merchant_id"], i=intent["intent_id"])
    if second is None or not verifier.valid(dict(second)):
        return "seal"
    if second["void"]:
        return "generation"
    if second["expires_at"] <= intent["at"]:
        return "expired"
    if not hmac.compare_digest(bytes(second["fingerprint"]), print_):
        return "fingerprint"
    if second["role"] != "manager" or second["disabled_at"] is not None:
        return "left"
    return fault_of_strength(db, second, needed, print_, verifier)
