"""S36: what a person approved and was not sent yet stops the moment that person leaves, or their role or limit falls.

In the transaction that takes it away: approved → held (`left`), for a refund the cap holds too, so that no new day lets it
go. What was sent already is listed for review, as an alarm of its refund; so is what was paid by hand, which two people then
settle. Only a new approval round leads out of `left`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.approvals import hold, reaches_sum
from ledger.automatic_rule import HELD, obstacle
from ledger.database import pin_tenant, rows, run
from ledger.events import LockedCase, append, lock_case
from ledger.fingerprint import read_intent
from ledger.hand_records import hand_record
from ledger.ids import uuid7
from ledger.leases import release_all
from ledger.limits import read_sum
from ledger.teamwork import WORKS, assigned_cases, unassign

# Sent within this and not reviewed since: the hour in which a lost account is noticed, and the night after it.
REVIEW_HOURS: Final = 24
# What holds a refund that goes on by itself: to be held for `left` instead.
_WOULD_GO: Final = ("cap", "disputed")

_APPROVED_BY: Final = """
    SELECT DISTINCT i.case_id, i.intent_id, i.number, i.state FROM approvals a
    JOIN intents i ON i.merchant_id = a.merchant_id AND i.intent_id = a.intent_id
    WHERE a.merchant_id = :m AND a.staff_id = :s AND (i.state IN ('approved', 'held')
        OR (i.state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded')
            AND a.approved_at > coalesce(CAST(:since AS timestamptz), now() - make_interval(hours => :hours))))
    ORDER BY i.case_id, i.number
"""


def revoke(
    db: Connection, merchant_id: UUID, staff_id: UUID, actor: str, cause: str, since: datetime | None = None
) -> tuple[int, int]:
    """After a person's membership, role or account changed: holds what they may approve no longer and was not sent, and frees
    the cases that they work on no more.

    Returns how many were held and how many that had left are listed for review. `cause` is a few words for that list,
    `since` when the account was lost: what they approved from then on and has left is listed; None: of REVIEW_HOURS. The
    person's rows are locked by the caller; this locks their cases in turn, and each intent after its case.
    """
    role = _role(db, merchant_id, staff_id)
    approved = rows(db, _APPROVED_BY, m=merchant_id, s=staff_id, hours=REVIEW_HOURS, since=since)
    theirs = [] if role in WORKS else assigned_cases(db, merchant_id, staff_id)
    # In one order for both, as everybody takes cases.
    cases = {
        case_id: lock_case(db, merchant_id, case_id)
        for case_id in sorted({r["case_id"] for r in approved}.union(theirs))
    }
    if role not in WORKS:
        release_all(db, merchant_id, staff_id)
        unassign(db, [cases[case_id] for case_id in theirs], staff_id, actor)
    held = listed = 0
    for row in approved:
        case = lock_case(db, merchant_id, row["case_id"])
        intent = read_intent(db, merchant_id, row["intent_id"], lock=True)
        if intent is None or _still_may(db, intent, role):
            continue
        if intent["state"] in ("approved", "held") and not _paid_by_hand(db, intent):
            held += hold_for_good(db, case, intent, actor, "left")
        elif intent["state"] not in ("failed", "withdrawn", "reversed"):
            listed += _list_for_review(db, intent, cause)
    return held, listed


_SHOWN_BY: Final = """
    SELECT DISTINCT i.case_id, i.intent_id, i.number FROM approvals a
    JOIN intents i ON i.merchant_id = a.merchant_id AND i.intent_id = a.intent_id
    WHERE a.merchant_id = :m AND a.staff_id = :s AND i.state IN ('approved', 'held')
        AND (a.approved_at >= CAST(:since AS timestamptz) OR proof_is_over(a.merchant_id, a.approval_id))
    ORDER BY i.case_id, i.number
"""


def revoke_proofs(db: Connection, staff_id: UUID, actor: str, *, since: datetime | None = None) -> int:
    """After what a person shows was removed or reset: holds what was approved with it and was not sent, in every merchant.

    That is all that was approved with a key or app that has ended, by a signature or by what was shown; with `since` also what was
    approved from then on, with whatever it was. Returns how many; the transaction is pinned to the last merchant. Locks the
    cases in turn, and each intent after its case.
    """
    held = 0
    for merchant_id in merchants_of(db, staff_id):
        pin_tenant(db, merchant_id)
        for row in rows(db, _SHOWN_BY, m=merchant_id, s=staff_id, since=since):
            case = lock_case(db, merchant_id, row["case_id"])
            intent = read_intent(db, merchant_id, row["intent_id"], lock=True)
            if intent is not None and intent["state"] in ("approved", "held") and not _paid_by_hand(db, intent):
                held += hold_for_good(db, case, intent, actor, "proof")
    return held


def revoke_lost(db: Connection, staff_id: UUID, actor: str, since: datetime) -> tuple[int, int]:
    """After an account was in other hands from `since` on, whoever has it now: holds what was approved with it from then on and was
    not sent, and lists what has left for review, in every merchant.

    Returns how many of each; the transaction is pinned to the last merchant. Locks the cases in turn, each intent after its case.
    """
    held, listed = revoke_proofs(db, staff_id, actor, since=since), 0
    for merchant_id in merchants_of(db, staff_id):
        pin_tenant(db, merchant_id)
        for row in rows(db, _LEFT_SINCE, m=merchant_id, s=staff_id, since=since):
            lock_case(db, merchant_id, row["case_id"])
            intent = read_intent(db, merchant_id, row["intent_id"], lock=True)
            if intent is not None and intent["state"] not in ("failed", "withdrawn", "reversed"):
                listed += _list_for_review(db, intent, "was in other hands")
    return held, listed


_LEFT_SINCE: Final = """
    SELECT DISTINCT i.case_id, i.intent_id, i.number FROM approvals a
    JOIN intents i ON i.merchant_id = a.merchant_id AND i.intent_id = a.intent_id
    WHERE a.merchant_id = :m AND a.staff_id = :s AND a.approved_at >= CAST(:since AS timestamptz)
        AND i.state IN ('submitting', 'unknown', 'pending', 'needs_review', 'succeeded') ORDER BY i.case_id, i.number
"""


def merchants_of(db: Connection, staff_id: UUID) -> list[UUID]:
    """Every merchant a person is or was a member of, in one order; reads only rows that are theirs."""
    db.exec_driver_sql("SELECT set_config('onceback.staff', %s, true)", (str(staff_id),))
    found = rows(db, "SELECT merchant_id FROM memberships WHERE staff_id = :s ORDER BY merchant_id", s=staff_id)
    db.exec_driver_sql("SELECT set_config('onceback.staff', '', true)")
    return [row["merchant_id"] for row in found]


_OVER: Final = """
    SELECT e.intent_id, i.case_id, i.number FROM (
        SELECT n.*, count(*) OVER w AS so_many, sum(n.amount_minor) OVER w AS so_much, x.exponent FROM approval_entries n
        JOIN intents x ON x.merchant_id = n.merchant_id AND x.intent_id = n.intent_id
        JOIN reviewer_windows r ON r.merchant_id = n.merchant_id AND r.staff_id = n.staff_id AND r.currency = n.currency
            AND r.span = :span AND n.at >= r.starts_at AND n.at < r.ends_at
        WHERE n.merchant_id = :m AND n.staff_id = :s WINDOW w AS (PARTITION BY n.currency, r.starts_at ORDER BY n.at)
    ) e
    JOIN intents i ON i.merchant_id = e.merchant_id AND i.intent_id = e.intent_id AND i.state IN ('approved', 'held')
    JOIN memberships ms ON ms.merchant_id = e.merchant_id AND ms.staff_id = e.staff_id
    CROSS JOIN LATERAL reviewer_limits(e.merchant_id, ms.role, e.currency, e.exponent) l
    WHERE l.span = :span AND (e.so_many > l.most OR e.so_much > l.most_minor) ORDER BY i.case_id, i.number
"""


def revoke_over_limits(db: Connection, merchant_id: UUID, actor: str) -> int:
    """After the limits of people fell: holds what was approved beyond the new ones and was not sent; returns how many.

    Those that fit, in the order of approval, go on. Locks the cases in turn, and each intent after its case.
    """
    held = 0
    for person in rows(db, "SELECT DISTINCT staff_id FROM reviewer_windows WHERE merchant_id = :m AND ends_at > now()"
                       " - interval '24 hours' ORDER BY staff_id", m=merchant_id):  # fmt: skip
        for span in ("hour", "day"):
            for row in rows(db, _OVER, m=merchant_id, s=person["staff_id"], span=span):
                case = lock_case(db, merchant_id, row["case_id"])
                intent = read_intent(db, merchant_id, row["intent_id"], lock=True)
                if intent is None or _paid_by_hand(db, intent):
                    continue
                if intent["state"] in ("approved", "held"):
                    held += hold_for_good(db, case, intent, actor, "left")
    return held


def hold_for_good(db: Connection, case: LockedCase, intent: RowMapping, actor: str, reason: str) -> bool:
    """approved → held for `reason`; a refund that another hold would let go by itself changes to this one. Both are locked.

    False for one that is held for a check already: nothing lets that go.
    """
    if intent["state"] == "held":
        if intent["state_reason"] not in _WOULD_GO:
            return False
        append(db, case, "intent.released", actor, intent_id=intent["intent_id"], move=("held", "approved"))
    hold(db, case, intent, actor, reason)
    return True


def _paid_by_hand(db: Connection, intent: RowMapping) -> bool:
    """It left already: held, it could neither be settled nor called back. The worker finds its approver gone instead."""
    return intent["act"] == "manual" and hand_record(db, intent["merchant_id"], intent["intent_id"]) is not None


def _still_may(db: Connection, intent: RowMapping, role: str | None) -> bool:
    return reaches_sum(role, read_sum(db, intent["merchant_id"], intent["intent_id"]))


def _role(db: Connection, merchant_id: UUID, staff_id: UUID) -> str | None:
    found: Sequence[RowMapping] = rows(
        db, "SELECT m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m"
        " AND m.staff_id = :s AND m.ended_at IS NULL AND s.disabled_at IS NULL", m=merchant_id, s=staff_id,
    )  # fmt: skip
    return str(found[0]["role"]) if found else None


def _list_for_review(db: Connection, intent: RowMapping, cause: str) -> int:
    """One open alarm for each refund, not one for all of them."""
    return run(
        db, "INSERT INTO alarms (merchant_id, alarm_id, kind, intent_id, text) SELECT :m, :a, 'approver_left', :i, :t"
        " WHERE NOT EXISTS (SELECT 1 FROM alarms WHERE merchant_id = :m AND kind = 'approver_left' AND intent_id = :i"
        " AND closed_at IS NULL)", m=intent["merchant_id"], a=uuid7(), i=intent["intent_id"],
        t=f"R-{intent['number']} had left when its approver {cause}: look at it"[:300],
    )  # fmt: skip


_BY_POLICY: Final = """
    SELECT i.case_id, i.intent_id FROM approvals a
    JOIN intents i ON i.merchant_id = a.merchant_id AND i.intent_id = a.intent_id
    WHERE a.merchant_id = :m AND a.staff_id IS NULL AND i.state IN ('approved', 'held') ORDER BY i.case_id, i.number
"""


def revoke_automatic(db: Connection, merchant_id: UUID, actor: str) -> int:
    """After another version of a policy came into force: holds what a policy approved and may approve no longer, unsent.

    Returns how many. A version that begins later is found by the check before each send. Locks the cases in turn, and each
    intent after its case.
    """
    held = 0
    for row in rows(db, _BY_POLICY, m=merchant_id):
        case = lock_case(db, merchant_id, row["case_id"])
        intent = read_intent(db, merchant_id, row["intent_id"], lock=True)
        if intent is None or intent["state"] not in ("approved", "held"):
            continue
        sum_ = read_sum(db, merchant_id, row["intent_id"])
        if reason := obstacle(db, merchant_id, row["intent_id"], sum_, approving=False):
            held += hold_for_good(db, case, intent, actor, HELD + reason)
    return held
