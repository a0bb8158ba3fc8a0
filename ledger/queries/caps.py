"""The daily cap desk: what waits for room, who used today's, and raises that wait for their second person."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows

MOST_HELD: Final = 200


@dataclass(frozen=True)
class HeldRefund:
    """A refund held by the cap. `amount_minor` in minor units of `currency`."""

    intent_id: UUID
    number: int
    customer: str
    approved_by: str
    approved_at: datetime
    amount_minor: int
    currency: str


_HELD: Final = """
    SELECT i.intent_id, i.number, coalesce(cu.name, '') AS customer, s.name AS approved_by, a.approved_at, i.amount_minor,
        i.currency
    FROM intents i
    JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    JOIN approvals a ON a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.seat = 1
    JOIN staff s ON s.staff_id = a.staff_id
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    WHERE i.merchant_id = :m AND i.state = 'held' AND i.state_reason = 'cap'
    ORDER BY o.approved_at, i.intent_id LIMIT :most
"""


def held_by_cap(db: Connection, merchant_id: UUID) -> list[HeldRefund]:
    """Refunds held by the cap in the order in which they go, at most MOST_HELD."""
    return [HeldRefund(**row) for row in rows(db, _HELD, m=merchant_id, most=MOST_HELD)]


@dataclass(frozen=True)
class Spender:
    """What one person approved into today's cap in one currency; `staff_id` is None for what a policy approved by itself."""

    staff_id: UUID | None
    name: str
    currency: str
    approvals: int
    amount_minor: int


# Not yet settled is still reserved; what came to nothing was returned and shows in neither figure.
_SPENT: Final = """
    SELECT e.currency, coalesce(sum(e.amount_minor) FILTER (WHERE i.state <> 'succeeded'), 0)::bigint AS reserved_minor
    FROM cap_entries e JOIN intents i ON i.merchant_id = e.merchant_id AND i.intent_id = e.intent_id
    WHERE e.merchant_id = :m AND e.business_day = :day GROUP BY e.currency
"""


def reserved_today(db: Connection, merchant_id: UUID, day: date) -> dict[str, int]:
    """By currency: what of the day's used cap is approved and not yet paid, in minor units."""
    return {row["currency"]: row["reserved_minor"] for row in rows(db, _SPENT, m=merchant_id, day=day)}


_WHO: Final = """
    SELECT s.staff_id, coalesce(s.name, policy_in_words(a.merchant_id, a.approver)) AS name, e.currency, count(*)::int AS approvals,
        sum(e.amount_minor)::bigint AS amount_minor
    FROM cap_entries e
    JOIN approvals a ON a.merchant_id = e.merchant_id AND a.intent_id = e.intent_id AND a.seat = 1
    LEFT JOIN staff s ON s.staff_id = a.staff_id
    WHERE e.merchant_id = :m AND e.business_day = :day AND e.step = 'reserve'
        AND NOT EXISTS (SELECT 1 FROM cap_entries r WHERE r.merchant_id = e.merchant_id AND r.intent_id = e.intent_id
            AND r.step = 'return')
    GROUP BY s.staff_id, 2, e.currency ORDER BY count(*) DESC, 2, e.currency
"""


def spenders(db: Connection, merchant_id: UUID, day: date) -> list[Spender]:
    """Who used the day's cap, by currency; what came back is left out."""
    return [Spender(**row) for row in rows(db, _WHO, m=merchant_id, day=day)]


@dataclass(frozen=True)
class OpenRaise:
    """A raise of a day's cap that waits for its second person."""

    raise_id: UUID
    currency: str
    business_day: date
    from_minor: int
    to_minor: int
    reason: str
    asked_by: UUID
    asked_by_name: str
    asked_at: datetime


_OPEN: Final = """
    SELECT r.raise_id, r.currency, r.business_day, r.from_minor, r.to_minor, r.reason, r.asked_by,
        s.name AS asked_by_name, r.asked_at
    FROM cap_raises r JOIN staff s ON s.staff_id = r.asked_by
    WHERE r.merchant_id = :m AND r.business_day = :day AND r.decided_at IS NULL ORDER BY r.asked_at, r.raise_id
"""


def open_raises(db: Connection, merchant_id: UUID, day: date) -> list[OpenRaise]:
    """Raises of the day that nobody has decided, oldest first."""
    return [OpenRaise(**row) for row in rows(db, _OPEN, m=merchant_id, day=day)]


@dataclass(frozen=True)
class Day:
    """The merchant's business day now: its date, its end in UTC, and the database's time."""

    business_day: date
    ends_at: datetime
    at: datetime


_DAY: Final = """
    SELECT (now() AT TIME ZONE zone)::date AS business_day,
        (date_trunc('day', now() AT TIME ZONE zone) + interval '1 day') AT TIME ZONE zone AS ends_at, now() AS at
    FROM merchants WHERE id = :m
"""


def business_day(db: Connection, merchant_id: UUID) -> Day:
    """The day the cap is counted on."""
    row = first(db, _DAY, m=merchant_id)
    if row is None:
        raise AssertionError("the merchant of the page exists")
    return Day(**row)
