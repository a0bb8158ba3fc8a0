"""Every row that stayed too long in a state that is not final (P16). Empty is healthy."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows
from ledger.states import TIME_LIMITS

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
    "pending": "worker", "needs_review": "managers",
}  # fmt: skip
_INTENTS: Final = """
    SELECT i.case_id, i.intent_id, i.number, i.state,
        (CASE i.state WHEN 'approved' THEN coalesce(o.due_at, i.state_at) ELSE i.state_at END) + l.limit_for AS since
    FROM unnest(CAST(:states AS text[]), CAST(:limits AS interval[])) AS l(state, limit_for)
    JOIN intents i ON i.merchant_id = :m AND i.state = l.state
    LEFT JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    WHERE i.state_at + l.limit_for < now()
        AND (i.state <> 'approved' OR coalesce(o.due_at, i.state_at) + l.limit_for < now())
    ORDER BY since, i.intent_id LIMIT :most
"""
# A case without a live intent waits for goods, for a person or for another attempt, until its own due time.
_CASES: Final = """
    SELECT c.case_id, NULL::uuid AS intent_id, c.number, c.stage AS state, c.due_at AS since FROM cases c
    WHERE c.merchant_id = :m AND c.closed_at IS NULL AND c.due_at < now()
        AND c.stage IN ('waiting_goods', 'needs_person', 'nothing_due', 'came_back', 'refused')
    ORDER BY c.due_at, c.case_id LIMIT :most
"""


def overdue_intents(db: Connection, merchant_id: UUID) -> list[Overdue]:
    """Intents past the limit of their state in states.TIME_LIMITS, longest first."""
    states = list(TIME_LIMITS)
    found = rows(
        db, _INTENTS, m=merchant_id, states=states, limits=[TIME_LIMITS[state][0] for state in states], most=MOST_OVERDUE
    )  # fmt: skip
    return [Overdue(**row, desk=TIME_LIMITS[row["state"]][1], owner=OWNERS[row["state"]]) for row in found]


def overdue_cases(db: Connection, merchant_id: UUID) -> list[Overdue]:
    """Open cases past their due time that no live intent carries, longest first."""
    return [
        Overdue(**row, desk="queue", owner="returns desk") for row in rows(db, _CASES, m=merchant_id, most=MOST_OVERDUE)
    ]
