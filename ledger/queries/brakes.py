"""The brakes' page: alarms that are open, and what was done about the last ones."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows

MOST_ALARMS: Final = 100
MOST_CLOSED: Final = 20


@dataclass(frozen=True)
class Alarm:
    """An open alarm; `intent_id` is None for one about the merchant."""

    alarm_id: UUID
    kind: str
    intent_id: UUID | None
    text: str
    raised_at: datetime


@dataclass(frozen=True)
class ClosedAlarm:
    """One that a person closed, and what they did."""

    text: str
    did: str
    closed_by: str
    closed_at: datetime


def open_alarms(db: Connection, merchant_id: UUID) -> list[Alarm]:
    """Oldest first, at most MOST_ALARMS."""
    found = rows(
        db, "SELECT alarm_id, kind, intent_id, text, raised_at FROM alarms WHERE merchant_id = :m AND closed_at IS NULL"
        " ORDER BY raised_at, alarm_id LIMIT :most", m=merchant_id, most=MOST_ALARMS,
    )  # fmt: skip
    return [Alarm(**row) for row in found]


def closed_alarms(db: Connection, merchant_id: UUID) -> list[ClosedAlarm]:
    """The last ones that were closed, newest first, at most MOST_CLOSED."""
    return [ClosedAlarm(**row) for row in rows(db, _CLOSED, m=merchant_id, most=MOST_CLOSED)]


_CLOSED: Final = """
    SELECT a.text, n.did, n.closed_by, n.at AS closed_at FROM (
        SELECT c.merchant_id, c.alarm_id, c.did, s.name AS closed_by, c.at FROM alarm_closings c
        JOIN staff s ON s.staff_id = c.staff_id WHERE c.merchant_id = :m
        UNION ALL SELECT e.merchant_id, e.alarm_id, e.because, '', e.at FROM alarm_endings e WHERE e.merchant_id = :m) n
    JOIN alarms a ON a.merchant_id = n.merchant_id AND a.alarm_id = n.alarm_id
    ORDER BY n.at DESC, n.alarm_id LIMIT :most
"""


@dataclass(frozen=True)
class ShadowSum:
    """What shadow mode kept from being sent in one currency, ever; `kept` is how many of them it still holds."""

    currency: str
    refunds: int
    amount_minor: int
    kept: int


_SHADOW: Final = """
    SELECT n.currency, count(*)::int AS refunds, sum(n.amount_minor)::bigint AS amount_minor,
        count(*) FILTER (WHERE i.state = 'held' AND i.state_reason = 'shadow')::int AS kept
    FROM shadow_sends n JOIN intents i ON i.merchant_id = n.merchant_id AND i.intent_id = n.intent_id
    WHERE n.merchant_id = :m GROUP BY n.currency ORDER BY n.currency
"""


def shadow_sums(db: Connection, merchant_id: UUID) -> list[ShadowSum]:
    """By currency; empty when shadow mode never kept anything."""
    return [ShadowSum(**row) for row in rows(db, _SHADOW, m=merchant_id)]
