"""Approving by the policy itself, where a rule of it names the refund (S38). Everything else waits for a person.

The process that holds the policies' seal key makes it, in a transaction of its own right after the one that recorded the
evidence: the worker approves nothing (S26). Locks as a person's approval does: customer or order, case, intent, the day of the
policy, capture, cap day.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.approvals import Decision, Seen, sealed_approval, write_approval
from ledger.automatic_rule import OBSTACLES, actor_of, obstacle
from ledger.database import first, rows, scalar, together
from ledger.events import LockedCase, append, lock_case
from ledger.fingerprint import evidence_digest, fingerprint, not_sendable, read_intent
from ledger.limits import lock_payee_later, read_sum
from ledger.reservation import leaves_too_little, reserve_cap_later
from ledger.seals import Sealer

# Kept with the case: that the policy did not approve a refund that it names, and why.
LEFT: Final = "automatic.left"


@dataclass(frozen=True)
class Left:
    """A refund that is left to a person; `reason` is one of OBSTACLES."""

    intent_id: UUID
    reason: str


class _Refused(Exception):
    """The database refused what the policy approved; the message is one of OBSTACLES."""


_PROPOSED: Final = """
    SELECT i.intent_id FROM intents i CROSS JOIN LATERAL automatic_rule(i.merchant_id, i.intent_id) r
    WHERE i.merchant_id = :m AND i.case_id = :c AND i.state = 'proposed' AND r.most_minor IS NOT NULL ORDER BY i.number
"""


def approve_by_policy(
    db: Connection, merchant_id: UUID, case_id: UUID, sealer: Sealer, *, cancel_window_seconds: int, trace: str = ""
) -> Decision | Left | None:
    """Approves the one proposed refund of a case if a rule of its policy names it and nothing stands in the way.

    None when there is nothing to approve, or no rule names it. Left when a rule does and a person is needed all the same: the
    case's history says why, once for each reason. Repeated, it changes nothing. Raises NotFound.
    """
    found = rows(db, _PROPOSED, m=merchant_id, c=case_id)
    if not found:
        return None
    with together(db):
        lock_payee_later(db, merchant_id, found[0]["intent_id"])
    case = lock_case(db, merchant_id, case_id)
    intent = read_intent(db, merchant_id, found[0]["intent_id"], lock=True)
    if intent is None or intent["state"] != "proposed":
        return None
    reason = _stands_in_the_way(db, intent, several=len(found) > 1)
    if reason:
        return _leave(db, case, intent, reason)
    as_locked = replace(case)
    try:
        with db.begin_nested():
            return _approve(db, case, intent, sealer, cancel_window_seconds, trace)
    except _Refused as refused:
        return _leave(db, as_locked, intent, str(refused))


def _stands_in_the_way(db: Connection, intent: RowMapping, *, several: bool) -> str:
    merchant_id, intent_id = intent["merchant_id"], intent["intent_id"]
    others = scalar(db, _OTHERS, m=merchant_id, c=intent["case_id"], i=intent_id)
    if several or others or not_sendable(intent):
        return "not_plain"
    return obstacle(db, merchant_id, intent_id, read_sum(db, merchant_id, intent_id), approving=True)


_OTHERS: Final = """
    SELECT 1 FROM intents WHERE merchant_id = :m AND case_id = :c AND intent_id <> :i AND state = 'proposed' LIMIT 1
"""


def _approve(
    db: Connection, case: LockedCase, intent: RowMapping, sealer: Sealer, cancel_window_seconds: int, trace: str
) -> Decision:
    """Raises _Refused with what stands in the way, when the database knows better than what was asked before."""
    intent_id = intent["intent_id"]
    print_ = fingerprint(intent, evidence_digest(db, case.merchant_id, case.case_id))
    approval = sealed_approval(intent, None, Seen(print_, f"automatic-{intent_id.hex}"), sealer)
    sends_at = case.at + timedelta(seconds=cancel_window_seconds)
    try:
        with together(db):
            write_approval(db, case, intent, approval, sends_at, trace, rule="automatic")
            counted = reserve_cap_later(db, intent)
    except IntegrityError as error:
        raise _Refused(_reason_of(error)) from error
    if counted.count != 1:
        # A person may approve what the cap then holds; a policy leaves it to them.
        raise _Refused("cap")
    return Decision(intent_id, case.case_id, approval["approval_id"], "approved", sends_at, intent["provider_key"])


def _reason_of(error: IntegrityError) -> str:
    """What the database refused, as one of OBSTACLES. Raises the error itself when it is none of them."""
    diagnosis = getattr(error.orig, "diag", None)
    name, message = getattr(diagnosis, "constraint_name", "") or "", getattr(diagnosis, "message_primary", "") or ""
    if leaves_too_little(error):
        return "no_money"
    if name == "within_the_automatic_limit":
        return "day_limit"
    if name == "automatic_only_as_named" and message.rpartition(": ")[2] in OBSTACLES:
        return message.rpartition(": ")[2]
    if "capture_not_verified" in message:
        return "unread"
    raise error


_SAID: Final = """
    SELECT 1 FROM events WHERE merchant_id = :m AND case_id = :c AND intent_id = :i AND kind = :k AND reason = :r LIMIT 1
"""


def _leave(db: Connection, case: LockedCase, intent: RowMapping, reason: str) -> Left:
    said = first(db, _SAID, m=case.merchant_id, c=case.case_id, i=intent["intent_id"], k=LEFT, r=reason)
    if said is None:
        append(db, case, LEFT, actor_of(intent), intent_id=intent["intent_id"], reason=reason)
    return Left(intent["intent_id"], reason)
