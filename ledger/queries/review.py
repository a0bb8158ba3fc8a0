"""What the desk shows of settlements beside the open one: those that came to nothing, and who the people are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows, scalar
from ledger.errors import NotFound


@dataclass(frozen=True)
class Past:
    """A settlement that was turned down, or that no longer held when the worker came to it (`result` void)."""

    outcome: str
    proposed_by: str
    decided_by: str
    result: str
    reason: str


_PAST: Final = """
    SELECT s.outcome, p.name AS proposed_by, q.name AS decided_by, coalesce(r.result, '') AS result,
        coalesce(r.reason, d.reason) AS reason
    FROM settlements s
    JOIN settlement_decisions d ON d.merchant_id = s.merchant_id AND d.settlement_id = s.settlement_id
    JOIN staff p ON p.staff_id = s.proposed_by
    JOIN staff q ON q.staff_id = d.decided_by
    LEFT JOIN settlement_results r ON r.merchant_id = s.merchant_id AND r.settlement_id = s.settlement_id
    WHERE s.merchant_id = :m AND s.intent_id = :i AND (NOT d.confirmed OR r.result = 'void') ORDER BY s.n DESC LIMIT 10
"""


def past_settlements(db: Connection, merchant_id: UUID, intent_id: UUID) -> list[Past]:
    """Newest first."""
    return [Past(**row) for row in rows(db, _PAST, m=merchant_id, i=intent_id)]


def intent_of(db: Connection, merchant_id: UUID, settlement_id: UUID) -> UUID:
    """The intent that a settlement is of. Raises NotFound."""
    found: UUID | None = scalar(
        db,
        "SELECT intent_id FROM settlements WHERE merchant_id = :m AND settlement_id = :s",
        m=merchant_id,
        s=settlement_id,
    )
    if found is None:
        raise NotFound
    return found


def names(db: Connection, staff_ids: Sequence[UUID]) -> dict[UUID, str]:
    """The names of people."""
    found = rows(db, "SELECT staff_id, name FROM staff WHERE staff_id = ANY(:ids)", ids=list(staff_ids))
    return {row["staff_id"]: row["name"] for row in found}


def asked(db: Connection, merchant_id: UUID, intent_id: UUID) -> bool:
    """Whether the provider is to be asked now, or is being asked, and the answer is not there yet."""
    return bool(scalar(
        db, "SELECT 1 FROM outbox o JOIN intents i ON i.merchant_id = o.merchant_id AND i.intent_id = o.intent_id"
        " WHERE o.merchant_id = :m AND o.intent_id = :i AND o.done_at IS NULL"
        " AND (o.due_at <= now() OR (i.state = 'needs_review' AND o.due_at < 'infinity'))", m=merchant_id, i=intent_id,
    ))  # fmt: skip
