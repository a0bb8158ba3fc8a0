"""A claim of a case is a lease: one person has it in hand until an instant, and then nobody has. Advice only.

Nothing that decides about money reads a lease. It keeps two people from reading the same case at once, and says who does;
whoever approves all the same is refused by nothing here (P6 decides).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, run
from ledger.errors import InHand, NotFound, WrongState
from ledger.two_managers import TWO_MANAGERS

# Long enough to read a case and decide it, short enough that one left at lunch is free again before anybody asks.
LEASE_MINUTES: Final = 15
# Between looking for a case and taking it another may have been quicker; each time is one fewer that is left.
MOST_TRIES: Final = 8


@dataclass(frozen=True)
class Lease:
    """Who has a case in hand, since when and until when."""

    case_id: UUID
    staff_id: UUID
    name: str
    taken_at: datetime
    until: datetime


# The second of two who take it at once waits for the first, then finds that row as it is now.
_TAKE: Final = """
    INSERT INTO case_leases AS l (merchant_id, case_id, staff_id, until, by_next)
    SELECT c.merchant_id, c.case_id, :s, now() + make_interval(mins => :minutes), :by_next FROM cases c
    WHERE c.merchant_id = :m AND c.case_id = :c AND c.closed_at IS NULL
    ON CONFLICT (merchant_id, case_id) DO UPDATE SET staff_id = excluded.staff_id, until = excluded.until,
        by_next = excluded.by_next AND (l.by_next OR l.staff_id <> excluded.staff_id OR l.until <= now()),
        taken_at = CASE WHEN l.staff_id = excluded.staff_id AND l.until > now() THEN l.taken_at ELSE now() END
    WHERE l.staff_id = excluded.staff_id OR l.until <= now() OR :over
"""


def claim_case(
    db: Connection, merchant_id: UUID, case_id: UUID, staff_id: UUID, *,
    by_next: bool = False, over: bool = False, minutes: int = LEASE_MINUTES,
) -> None:  # fmt: skip
    """Puts an open case into a person's hand for so many minutes from now; again is longer.

    `over` takes it out of another's hand. Locks the lease. Raises InHand (`lease`), WrongState (closed), NotFound.
    """
    keys = {"m": merchant_id, "c": case_id}
    if run(db, _TAKE, **keys, s=staff_id, minutes=minutes, by_next=by_next, over=over):
        return
    found = first(db, "SELECT closed_at FROM cases WHERE merchant_id = :m AND case_id = :c", **keys)
    if found is None:
        raise NotFound
    if found["closed_at"] is not None:
        raise WrongState("This case is closed: there is nothing to claim.")
    raise InHand(lease=read_lease(db, merchant_id, case_id))


def release_case(db: Connection, merchant_id: UUID, case_id: UUID, staff_id: UUID) -> bool:
    """Lets a case go that is in this person's hand; False when it is not. Locks the lease."""
    return run(
        db, "UPDATE case_leases SET until = now() WHERE merchant_id = :m AND case_id = :c AND staff_id = :s AND until > now()",
        m=merchant_id, c=case_id, s=staff_id,
    ) == 1  # fmt: skip


def read_lease(db: Connection, merchant_id: UUID, case_id: UUID) -> Lease | None:
    """Who has the case in hand now, or None."""
    found = first(
        db, "SELECT l.case_id, l.staff_id, s.name, l.taken_at, l.until FROM case_leases l"
        " JOIN staff s ON s.staff_id = l.staff_id WHERE l.merchant_id = :m AND l.case_id = :c AND l.until > now()",
        m=merchant_id, c=case_id,
    )  # fmt: skip
    return Lease(**found) if found else None


@dataclass(frozen=True)
class NextCase:
    """A case to go on with, in this person's hand now."""

    case_id: UUID
    number: int


# A row that is being decided this moment is locked, and skipped: it would not be ready any more.
_NEXT: Final = """
    SELECT c.case_id, c.number FROM cases c
    WHERE c.merchant_id = :m AND c.stage = 'ready' AND c.closed_at IS NULL AND c.opened_by <> :actor
        AND (c.snoozed_until IS NULL OR c.snoozed_until <= now()) AND (c.assigned_to IS NULL OR c.assigned_to = :s)
        AND (CAST(:after AS uuid) IS NULL OR (c.due_at, c.case_id) > (SELECT a.due_at, a.case_id FROM cases a
            WHERE a.merchant_id = :m AND a.case_id = :after))
        AND NOT EXISTS (SELECT 1 FROM case_leases l WHERE l.merchant_id = c.merchant_id AND l.case_id = c.case_id
            AND l.staff_id <> :s AND l.until > now())
        AND EXISTS (SELECT 1 FROM intents i WHERE i.merchant_id = c.merchant_id AND i.case_id = c.case_id AND i.state = 'proposed'
            AND i.requester <> :actor AND (i.route = 'desk' OR :managers)
            AND (i.route <> :two OR NOT EXISTS (SELECT 1 FROM approvals f WHERE f.merchant_id = i.merchant_id
                AND f.intent_id = i.intent_id AND f.staff_id = :s)))
    ORDER BY c.due_at, c.case_id LIMIT 1 FOR NO KEY UPDATE OF c SKIP LOCKED
"""


def take_next(
    db: Connection, merchant_id: UUID, staff_id: UUID, after: UUID | None, *, managers: bool
) -> NextCase | None:
    """Takes the ready case due soonest, after the case `after`, that this person may approve and nobody else has in hand.

    Two who ask together get two cases. What was taken so before is let go; what was claimed by hand stays. `managers`
    includes their route. Locks the case, then its lease. None when there is no such case.
    """
    names = {"m": merchant_id, "s": staff_id, "actor": f"staff:{staff_id}", "after": after, "two": TWO_MANAGERS}
    for _ in range(MOST_TRIES):
        row = first(db, _NEXT, **names, managers=managers)
        if row is None:
            break
        try:
            claim_case(db, merchant_id, row["case_id"], staff_id, by_next=True)
        except InHand:
            # Somebody took it after this statement had begun to look.
            continue
        _let_go_of_others(db, merchant_id, staff_id, row["case_id"])
        return NextCase(**row)
    _let_go_of_others(db, merchant_id, staff_id, None)
    return None


def _let_go_of_others(db: Connection, merchant_id: UUID, staff_id: UUID, but: UUID | None) -> None:
    run(
        db, "UPDATE case_leases SET until = now() WHERE merchant_id = :m AND staff_id = :s AND until > now() AND by_next"
        " AND case_id IS DISTINCT FROM CAST(:but AS uuid)", m=merchant_id, s=staff_id, but=but,
    )  # fmt: skip


def release_all(db: Connection, merchant_id: UUID, staff_id: UUID) -> int:
    """Lets go of everything in a person's hand; returns how many cases. Locks the leases."""
    return run(
        db, "UPDATE case_leases SET until = now() WHERE merchant_id = :m AND staff_id = :s AND until > now()",
        m=merchant_id, s=staff_id,
    )  # fmt: skip
