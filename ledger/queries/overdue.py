"""Every row that stayed too long in a state that is not final (P16). Empty is healthy."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows
from ledger.states import BY_HAND, BY_HAND_LIMIT, DISPUTED, DISPUTED_LIMIT, TIME_LIMITS

MOST_OVERDUE: Final = 200


@dataclass(frozen=True)
class Overdue:
    """A refund intent, or a case that waits for one. `since` it is over its limit; `desk` shows it; `owner` works it.

    `intent_id` is None for a case: then `number` is the case's. `state` is the intent's state or the case's stage.
    """

    case_id: UUID
    intent_id: UUID | None
    number: int
    state: str
    since: datetime
    desk: str
    owner: str


# Who answers for a state: the worker for what it does by itself, people by role for the rest.
OWNERS: Final = {
    "proposed": "returns desk", "approved": "worker", "held": "managers", "submitting": "worker", "unknown": "worker",
    "pending": "worker", "needs_review": "a manager with finance",
}  # fmt: skip
_INTENTS: Final = """
    SELECT i.case_id, i.intent_id, i.number, i.state, l.state AS waits_as,
        (CASE l.state WHEN 'approved' THEN coalesce(o.due_at, i.state_at) ELSE i.state_at END) + l.limit_for AS since
    FROM unnest(CAST(:states AS text[]), CAST(:limits AS interval[])) AS l(state, limit_for)
    JOIN intents i ON i.merchant_id = :m
        AND i.state = CASE l.state WHEN 'by_hand' THEN 'approved' WHEN 'disputed' THEN 'held' ELSE l.state END
        AND (l.state = 'by_hand') = (i.state = 'approved' AND i.act = 'manual')
        AND (l.state = 'disputed') = (i.state = 'held' AND i.state_reason = 'disputed')
    LEFT JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    WHERE i.state_at + l.limit_for < now()
        AND (l.state <> 'approved' OR coalesce(o.due_at, i.state_at) + l.limit_for < now())
    ORDER BY since, i.intent_id LIMIT :most
"""
# A case without a live intent waits for goods, for a person or for another attempt, until its own due time.
_CASES: Final = """
    SELECT c.case_id, NULL::uuid AS intent_id, c.number, c.stage AS state, c.due_at AS since FROM cases c
    WHERE c.merchant_id = :m AND c.closed_at IS NULL AND c.due_at < now()
        AND c.stage IN ('waiting_goods', 'reading', 'needs_person', 'nothing_due', 'came_back', 'refused')
    ORDER BY c.due_at, c.case_id LIMIT :most
"""


def overdue_intents(db: Connection, merchant_id: UUID) -> list[Overdue]:
    """Intents past the limit of their state in states.TIME_LIMITS, longest first."""
    limits = {**TIME_LIMITS, BY_HAND: BY_HAND_LIMIT, DISPUTED: DISPUTED_LIMIT}
    owners = {**OWNERS, BY_HAND: "returns desk", DISPUTED: "finance"}
    found = rows(
        db, _INTENTS, m=merchant_id, states=list(limits), limits=[limit for limit, _ in limits.values()], most=MOST_OVERDUE
    )  # fmt: skip
    return [
        Overdue(**{name: value for name, value in row.items() if name != "waits_as"},
                desk=limits[row["waits_as"]][1], owner=owners[row["waits_as"]])
        for row in found
    ]  # fmt: skip


def overdue_cases(db: Connection, merchant_id: UUID) -> list[Overdue]:
    """Open cases past their due time that no live intent carries, longest first."""
    return [
        Overdue(**row, desk="queue", owner="returns desk") for row in rows(db, _CASES, m=merchant_id, most=MOST_OVERDUE)
    ]
