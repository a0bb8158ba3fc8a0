"""Approving every proposed refund of one case at once: all of them are bound, or none is.

Each keeps its own approval, fingerprint, key and fate afterwards. Lock order: customer or order, case, intents by
number, captures by id, cap days.
"""

import hmac
from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.approvals import (
    Decision,
    Seen,
    check_may_approve,
    check_sum,
    current_evidence,
    decided_or_stale,
    hold,
    refuse_no_duplicate,
    refuse_not_sendable,
    refused_as_said,
    role_of,
    sealed_approval,
    stale,
    write_approval,
)
from ledger.database import rows, together
from ledger.errors import AlreadyDecided, NotFound, Stale, WrongState
from ledger.events import LockedCase, lock_case
from ledger.fingerprint import fingerprint, read_intent
from ledger.limits import lock_payee_later, read_sum
from ledger.reservation import reserve_cap_later
from ledger.seals import Sealer
from ledger.two_managers import TWO_MANAGERS

ONE_BY_ONE: Final = (
    "This amount takes more than your session: approve each refund by itself, with your code or passkey."
)


def approve_together(
    db: Connection,
    merchant_id: UUID,
    case_id: UUID,
    staff_id: UUID,
    seen: Mapping[UUID, Seen],
    sealer: Sealer,
    *,
    cancel_window_seconds: int,
    trace: str = "",
) -> list[Decision]:
    """Binds `seen` (by intent) to the proposed refunds of a case if that is still what the rows say; else changes nothing.

    Raises as `approvals.approve` does, for the first that is refused: NotFound, NotAllowed, SamePerson, NotEnoughMoneyLeft,
    WrongState; AlreadyDecided when each of them was approved before; Stale, with a list of what changed in `facts["all"]`,
    when one of them changed or is gone, or another is proposed that the page did not show.
    """
    for intent_id in list(seen)[:1]:
        lock_payee_later(db, merchant_id, intent_id)
    case = lock_case(db, merchant_id, case_id)
    intents = [_read(db, merchant_id, intent_id) for intent_id in seen]
    if not intents or any(intent["case_id"] != case_id for intent in intents):
        raise NotFound
    intents.sort(key=lambda intent: intent["number"])
    _still_as_seen(db, case, intents, staff_id, seen)
    decided = {}
    sends_at = case.at + timedelta(seconds=cancel_window_seconds)
    with refused_as_said(), together(db):
        for intent in sorted(intents, key=lambda intent: intent["capture_id"]):
            approval = sealed_approval(intent, staff_id, seen[intent["intent_id"]], sealer)
            write_approval(db, case, intent, approval, sends_at, trace)
            decided[intent["intent_id"]] = approval["approval_id"]
        counted = {intent["intent_id"]: reserve_cap_later(db, intent) for intent in intents}
    kept = {intent_id for intent_id, entry in counted.items() if entry.count == 1}
    for intent in intents:
        if intent["intent_id"] not in kept:
            hold(db, case, intent, "system", "cap")
    return [
        Decision(one, case_id, approval_id, "approved" if one in kept else "held", sends_at if one in kept else None)
        for one, approval_id in decided.items()
    ]


def _read(db: Connection, merchant_id: UUID, intent_id: UUID) -> RowMapping:
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None:
        raise NotFound
    return intent


def _still_as_seen(
    db: Connection, case: LockedCase, intents: list[RowMapping], staff_id: UUID, seen: Mapping[UUID, Seen]
) -> None:
    refused = [
        decided_or_stale(db, intent) if intent["state"] != "proposed" else _changed(db, intent, seen)
        for intent in intents
    ]
    if all(isinstance(one, AlreadyDecided) for one in refused):
        raise refused[0]  # type: ignore[misc]
    role = role_of(db, case.merchant_id, staff_id)
    for intent in intents:
        check_may_approve(intent, staff_id, role)
        sum_ = read_sum(db, case.merchant_id, intent["intent_id"])
        check_sum(role, sum_)
        if sum_ is not None and sum_.strength != "session":
            raise WrongState(ONE_BY_ONE)
    changed = [
        one if isinstance(one, Stale) else stale(db, intent)
        for one, intent in zip(refused, intents, strict=True)
        if one is not None
    ]
    more = rows(db, _PROPOSED, m=case.merchant_id, c=case.case_id, seen=list(seen))
    if changed or more:
        first = changed[0] if changed else stale(db, intents[0])
        raise Stale(**first.facts, all=[one.facts for one in changed], more=[dict(row) for row in more])
    for intent in intents:
        refuse_not_sendable(intent)
        refuse_no_duplicate(db, intent)
        if intent["route"] == TWO_MANAGERS:
            raise WrongState("Two managers decide this: each of its refunds is approved by itself, by both.")
    if intents[0]["blocked"]:
        raise WrongState("The figures of this order are in question. Nothing of it is paid until that is settled.")


def _changed(db: Connection, intent: RowMapping, seen: Mapping[UUID, Seen]) -> Stale | None:
    now_print = fingerprint(intent, current_evidence(db, intent))
    same = hmac.compare_digest(now_print, seen[intent["intent_id"]].fingerprint)
    return None if same else stale(db, intent)


_PROPOSED = """
    SELECT intent_id, number, amount_minor, currency FROM intents
    WHERE merchant_id = :m AND case_id = :c AND state = 'proposed' AND intent_id <> ALL(:seen) ORDER BY number
"""
