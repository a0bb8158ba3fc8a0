"""What a person may approve: by the hour and the day, and by the sum of what one order or customer gets back (S22, S30).

The windows of a person are rows with a CHECK that the approvals themselves move (`reviewer_windows`). The route follows the
sum: this refund, what is live or paid of its order, and what its customer got in 24 hours. Whoever approves holds the
customer's row, or the order's where nobody is named, so that two at once cannot both pass. Lock order: order, customer, case.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import Later, first, rows, run_later

# One of the two finds a row: the customer of the intent's order, or the order itself when it names none.
_LOCK_CUSTOMER: Final = """
    SELECT 1 FROM customers c WHERE c.merchant_id = :m AND c.customer_id = (
        SELECT o.customer_id FROM intents i JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
        WHERE i.merchant_id = :m AND i.intent_id = :i) FOR NO KEY UPDATE
"""
_LOCK_ORDER: Final = """
    SELECT 1 FROM orders o WHERE o.merchant_id = :m AND o.customer_id IS NULL AND o.order_id = (
        SELECT i.order_id FROM intents i WHERE i.merchant_id = :m AND i.intent_id = :i) FOR NO KEY UPDATE
"""


def lock_payee_later(db: Connection, merchant_id: UUID, intent_id: UUID) -> None:
    """Locks the row under which refunds of one customer, or of one order without one, are summed. Before the case."""
    run_later(db, _LOCK_ORDER, m=merchant_id, i=intent_id)
    run_later(db, _LOCK_CUSTOMER, m=merchant_id, i=intent_id)


@dataclass(frozen=True)
class Sum:
    """What an intent is worth together with others, in minor units of its order's currency.

    `route` is who decides it: desk or manager. `manager_from_minor` is None where a manager decides whatever the amount.
    """

    intent_id: UUID
    currency: str
    order_minor: int
    others: int
    others_minor: int
    manager_from_minor: int | None
    base_route: str

    @property
    def together_minor(self) -> int:
        return self.order_minor + self.others_minor

    @property
    def route(self) -> str:
        by_sum = self.manager_from_minor is None or self.together_minor >= self.manager_from_minor
        return "manager" if self.base_route == "manager" or by_sum else "desk"


# An intent's refunds beside it, in the same currency: those of its order, and those of its customer in the 24 hours before.
# When it is approved: what was approved already, and what was proposed before it or with it. Before it is sent: what was
# approved before it (S30), so that a later approval never changes an earlier one.
_SUM: Final = """
    SELECT i.intent_id, o.currency, i.order_minor,
        (p.document->'routes'->'manager_from_minor'->>o.currency)::bigint AS manager_from_minor,
        CASE WHEN i.route = 'manager' OR e.record->'route'->>'level' <> 'staff' THEN 'manager' ELSE 'desk' END AS base_route,
        t.others, t.others_minor
    FROM intents i
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    JOIN entitlements e ON e.merchant_id = i.merchant_id AND e.entitlement_id = i.entitlement_id
    JOIN policies p ON p.merchant_id = i.merchant_id AND p.policy_id = i.policy_id AND p.version = i.policy_version
    LEFT JOIN approval_entries mine ON mine.merchant_id = i.merchant_id AND mine.intent_id = i.intent_id AND mine.seat = 1
    CROSS JOIN LATERAL (
        SELECT count(*)::int AS others, coalesce(sum(x.order_minor), 0)::bigint AS others_minor
        FROM orders xo JOIN intents x ON x.merchant_id = xo.merchant_id AND x.order_id = xo.order_id
        LEFT JOIN approval_entries n ON n.merchant_id = x.merchant_id AND n.intent_id = x.intent_id AND n.seat = 1
        WHERE xo.merchant_id = i.merchant_id AND (xo.order_id = o.order_id OR xo.customer_id = o.customer_id)
            AND xo.currency = o.currency AND x.intent_id <> i.intent_id AND x.state NOT IN ('withdrawn', 'failed', 'reversed')
            AND (xo.order_id = o.order_id OR coalesce(n.at, x.created_at) > coalesce(mine.at, now()) - interval '24 hours')
            AND (x.entitlement_id = i.entitlement_id OR n.at < mine.at
                OR (mine.at IS NULL AND (n.at IS NOT NULL OR x.number < i.number)))
    ) t
    WHERE i.merchant_id = :m AND i.intent_id = ANY(:ids)
"""


def sums_later(db: Connection, merchant_id: UUID, intent_ids: Sequence[UUID]) -> Later:
    """What `read_sum` reads, of many intents and together with other statements; give its rows to `sums_of`."""
    return run_later(db, _SUM, m=merchant_id, ids=list(intent_ids))


def sums_of(found: Iterable[RowMapping]) -> dict[UUID, Sum]:
    """The answer of `sums_later` by intent; one that is not there is missing."""
    return {row["intent_id"]: Sum(**row) for row in found}


def read_sum(db: Connection, merchant_id: UUID, intent_id: UUID) -> Sum | None:
    """The sum that decides who may approve an intent; for one that is approved, as it was then by the rows of now."""
    return sums_of(rows(db, _SUM, m=merchant_id, ids=[intent_id])).get(intent_id)


_BESIDE: Final = """
    SELECT coalesce(sum(x.order_minor), 0)::bigint AS minor FROM orders o
    JOIN orders xo ON xo.merchant_id = o.merchant_id AND xo.customer_id = o.customer_id AND xo.currency = o.currency
    JOIN intents x ON x.merchant_id = xo.merchant_id AND x.order_id = xo.order_id
    LEFT JOIN approval_entries n ON n.merchant_id = x.merchant_id AND n.intent_id = x.intent_id AND n.seat = 1
    WHERE o.merchant_id = :m AND o.order_id = :o AND xo.order_id <> o.order_id
        AND x.state NOT IN ('withdrawn', 'failed', 'reversed') AND coalesce(n.at, x.created_at) > now() - interval '24 hours'
"""


def beside_minor(db: Connection, merchant_id: UUID, order_id: UUID) -> int:
    """What the order's customer is getting or got back in 24 hours on other orders, in minor units of this one's currency."""
    row = first(db, _BESIDE, m=merchant_id, o=order_id)
    return int(row["minor"]) if row else 0


@dataclass(frozen=True)
class Window:
    """What is left of a person's hour or day in one currency, in minor units; `ends_at` is when it frees."""

    span: str
    currency: str
    limit_count: int
    limit_minor: int
    used_count: int
    used_minor: int
    ends_at: datetime

    def takes(self, amount_minor: int) -> bool:
        """Whether one more approval of this amount fits."""
        return self.used_count < self.limit_count and self.used_minor + amount_minor <= self.limit_minor


_WINDOWS: Final = """
    SELECT l.span, CAST(:c AS text) AS currency, l.most AS limit_count, l.most_minor AS limit_minor,
        coalesce(w.used_count, 0) AS used_count, coalesce(w.used_minor, 0) AS used_minor, z.ends_at
    FROM memberships ms JOIN merchants g ON g.id = ms.merchant_id
    CROSS JOIN LATERAL reviewer_limits(ms.merchant_id, ms.role, CAST(:c AS text), CAST(:e AS integer)) l
    CROSS JOIN LATERAL (SELECT CASE l.span WHEN 'hour' THEN date_trunc('hour', now()) + interval '1 hour'
        ELSE ((now() AT TIME ZONE g.zone)::date + 1)::timestamp AT TIME ZONE g.zone END AS ends_at) z
    LEFT JOIN reviewer_windows w ON w.merchant_id = ms.merchant_id AND w.staff_id = ms.staff_id AND w.currency = :c
        AND w.span = l.span AND w.ends_at = z.ends_at
    WHERE ms.merchant_id = :m AND ms.staff_id = :s AND ms.ended_at IS NULL ORDER BY l.span DESC
"""


def windows(db: Connection, merchant_id: UUID, staff_id: UUID, currency: str, exponent: int) -> list[Window]:
    """The person's hour and day in a currency as they stand, the hour first; empty for a role that approves nothing."""
    return [Window(**row) for row in rows(db, _WINDOWS, m=merchant_id, s=staff_id, c=currency, e=exponent)]


@dataclass(frozen=True)
class CustomerDay:
    """The refunds a customer is getting or got in 24 hours in one currency: two or more, whatever came of the cases."""

    case_id: UUID
    currency: str
    refunds: int
    minor: int


_DAYS: Final = """
    SELECT c.case_id, xo.currency, count(*)::int AS refunds, sum(x.order_minor)::bigint AS minor FROM cases c
    JOIN orders xo ON xo.merchant_id = c.merchant_id AND xo.customer_id = c.customer_id AND xo.currency = c.currency
    JOIN intents x ON x.merchant_id = xo.merchant_id AND x.order_id = xo.order_id
    LEFT JOIN approval_entries n ON n.merchant_id = x.merchant_id AND n.intent_id = x.intent_id AND n.seat = 1
    WHERE c.merchant_id = :m AND c.case_id = ANY(:cases) AND x.state NOT IN ('withdrawn', 'failed', 'reversed')
        AND coalesce(n.at, x.created_at) > now() - interval '24 hours'
    GROUP BY c.case_id, xo.currency HAVING count(*) > 1
"""


def customer_days(db: Connection, merchant_id: UUID, cases: list[UUID]) -> dict[UUID, CustomerDay]:
    """By case, for those whose customer has several refunds in 24 hours: the sign that one is split into many (S22)."""
    return {row["case_id"]: CustomerDay(**row) for row in rows(db, _DAYS, m=merchant_id, cases=cases)}
