"""What a person may approve: by the hour and the day, and by the sum of what one order or customer gets back (S22, S30).

The windows of a person are rows with a CHECK that the approvals themselves move (`reviewer_windows`). The route follows the
sum: this refund, what is live or paid of its order, and what its customer got in 24 hours. Whoever approves holds the
customer's row, or the order's where nobody is named, so that two at once cannot both pass; whoever asks by opinion does so one at
a time. Lock order: order, customer, case, asker.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import Later, first, rows, run_later, scalar

# One of the two has a row: the customer of the intent's order, or the order itself when it names none.
_LOCK_PAYEE: Final = """
    WITH whose AS MATERIALIZED (
        SELECT o.order_id, o.customer_id FROM intents i JOIN orders o ON o.merchant_id = :m AND o.order_id = i.order_id
        WHERE i.merchant_id = :m AND i.intent_id = :i),
    nobody AS (SELECT 1 FROM orders o WHERE o.merchant_id = :m AND o.customer_id IS NULL
        AND o.order_id = (SELECT order_id FROM whose WHERE customer_id IS NULL) FOR NO KEY UPDATE),
    customer AS (SELECT 1 FROM customers c WHERE c.merchant_id = :m AND c.customer_id = (SELECT customer_id FROM whose)
        FOR NO KEY UPDATE)
    SELECT (SELECT count(*) FROM nobody) + (SELECT count(*) FROM customer)
"""


def lock_payee_later(db: Connection, merchant_id: UUID, intent_id: UUID) -> None:
    """Locks the row under which refunds of one customer, or of one order without one, are summed. Before the case."""
    run_later(db, _LOCK_PAYEE, m=merchant_id, i=intent_id)


# Who decides, the stricter the later.
ROUTES: Final = ("desk", "manager", "two_managers")


def route_by_amount(minor: int, manager_from_minor: int | None, two_managers_from_minor: int | None) -> str:
    """Who decides an amount, by inclusive lower bounds: a currency without the first is a manager's (ENTITLEMENT §8)."""
    if two_managers_from_minor is not None and minor >= two_managers_from_minor:
        return "two_managers"
    return "manager" if manager_from_minor is None or minor >= manager_from_minor else "desk"


@dataclass(frozen=True)
class Sum:
    """What an intent is worth together with others, in minor units of its order's currency.

    `others_minor`: its order's and its customer's; `asked_minor`: what its requester asked for by opinion that day, of others.
    `route` is who decides it: desk, manager or two_managers; `bound` whom the intent itself waits for. `manager_from_minor` is
    None where a manager decides whatever the amount, `two_managers_from_minor` where no amount takes two. `strength` is how strong
    each approval has to be: session, factor or passkey.
    """

    intent_id: UUID
    currency: str
    order_minor: int
    others: int
    others_minor: int
    asked_minor: int
    manager_from_minor: int | None
    two_managers_from_minor: int | None
    base_route: str
    bound: str
    strength: str

    @property
    def together_minor(self) -> int:
        return self.order_minor + self.others_minor + self.asked_minor

    @property
    def route(self) -> str:
        limits = (self.manager_from_minor, self.two_managers_from_minor)
        return max(self.base_route, route_by_amount(self.together_minor, *limits), key=ROUTES.index)

    @property
    def takes_one_more(self) -> bool:
        """Whether two managers decide the sum, and the intent waits for one."""
        return self.route == ROUTES[-1] != self.bound


# The refunds around a customer are found from the few rows of that customer outward, each step behind OFFSET 0: left to
# choose, the planner that knows a table as small reads all refunds of a merchant, and keeps that plan while they grow.
_ORDERS_OF_CUSTOMER: Final = """
    SELECT c.order_id FROM orders c WHERE c.merchant_id = :m AND c.customer_id = o.customer_id AND c.currency = o.currency OFFSET 0
"""
_INTENTS_OF_ORDER: Final = """
    SELECT c.* FROM intents c WHERE c.merchant_id = :m AND c.order_id = xo.order_id
        AND c.state NOT IN ('withdrawn', 'failed', 'reversed') OFFSET 0
"""
_APPROVED: Final = """
    SELECT c.at FROM approval_entries c WHERE c.merchant_id = :m AND c.intent_id = {of}.intent_id AND c.seat = 1 OFFSET 0
"""
_APPROVED_OTHER: Final = _APPROVED.format(of="x")

# What a person names an amount of: money for keeping, goodwill and the like, and another amount than the computed one.
KINDS_BY_OPINION: Final = ("keep_item", "price_adjustment", "goodwill", "shipping_only")
_BY_OPINION: Final = f"""({{of}}.override_id IS NOT NULL OR (
    SELECT k.kind FROM cases k WHERE k.merchant_id = :m AND k.case_id = {{of}}.case_id) IN {KINDS_BY_OPINION})
"""  # noqa: S608 - constants
# Of its order, and of its customer in the 24 hours before, an intent `i` is summed with each other `x` that was approved before it;
# while it waits itself (`mine` of it is none) also with what was proposed before it or with it.
_BESIDE_IT: Final = """
    (xo.order_id = o.order_id OR coalesce(n.at, x.created_at) > coalesce(mine.at, now()) - interval '24 hours')
        AND (x.entitlement_id = i.entitlement_id OR n.at < mine.at
            OR (mine.at IS NULL AND (n.at IS NOT NULL OR x.number < i.number)))
"""
# A person's opinions of a day add up, whoever they are for (`staff_day`): what was asked for before counts, so that of two at once
# one sees the other (`lock_asker`). What is summed with its order or its customer is not counted again; what is so no longer, for
# the customer's day is over, is.
_ASKED: Final = f"""
    SELECT coalesce(sum(x.order_minor), 0)::bigint FROM intents x
    JOIN orders xo ON xo.merchant_id = :m AND xo.order_id = x.order_id AND xo.currency = o.currency
    LEFT JOIN LATERAL ({_APPROVED_OTHER}) n ON true
    WHERE x.merchant_id = :m AND x.requester = {{who}} AND x.requester LIKE 'staff:%'
        AND x.created_at > {{at}} - interval '24 hours' AND {{before}}
        AND x.state NOT IN ('withdrawn', 'failed', 'reversed')
        AND NOT ((xo.order_id = o.order_id OR xo.customer_id = o.customer_id) IS TRUE AND ({{counted}}) IS TRUE)
        AND {_BY_OPINION.format(of="x")}
"""  # noqa: S608 - constants
_ASKED_BEFORE: Final = _ASKED.format(
    who="i.requester", at="i.created_at", before="x.number < i.number", counted=_BESIDE_IT
)
_ASKED_NOW: Final = _ASKED.format(
    who=":r", at="now()", before="x.case_id IS DISTINCT FROM CAST(:c AS uuid)", counted="true"
)


def lock_asker(db: Connection, merchant_id: UUID, actor: str) -> None:
    """Lets one proposal of a person's opinions go at a time, until the transaction ends: the next one sees it (`staff_day`).

    After order and case, before order lines, captures and cap day. No row is locked: the worker proposes too.
    """
    scalar(db, "SELECT pg_advisory_xact_lock(hashtextextended(:a, 0))", a=f"asked {merchant_id} {actor}")


# Routes are today's (ENTITLEMENT §8): those of the version of its policy in force now, where there is one. Of several policies that
# decide one return the lowest limit and the greatest strength count, and one that names no limit makes it a manager's.
# An intent's refunds beside it are in the same currency. Before it is sent they are those that were approved before it (S30), so
# that a later approval never changes an earlier one.
_SUM: Final = f"""
    SELECT i.intent_id, o.currency, i.order_minor,
        CASE WHEN under.unnamed THEN NULL ELSE least(under.minor, (now_in.routes->'manager_from_minor'->>o.currency)::bigint) END
            AS manager_from_minor,
        least(under.two_minor, (now_in.routes->'two_managers_from_minor'->>o.currency)::bigint) AS two_managers_from_minor,
        CASE WHEN i.route <> 'desk' OR e.record->'route'->>'level' <> 'staff' THEN 'manager' ELSE 'desk' END AS base_route,
        i.route AS bound, t.others, t.others_minor, asked.minor AS asked_minor, (
            SELECT s FROM unnest(array_append(under.routes, now_in.routes)) r
            CROSS JOIN LATERAL (SELECT strength_for(r, o.currency, together.minor, i.route = 'two_managers') AS s) strengths
            ORDER BY array_position(ARRAY['passkey', 'factor', 'session'], s) LIMIT 1) AS strength
    FROM unnest((SELECT CAST(:ids AS uuid[]))) wanted(id)
    JOIN LATERAL (SELECT * FROM intents c WHERE c.merchant_id = :m AND c.intent_id = wanted.id OFFSET 0) i ON true
    JOIN orders o ON o.merchant_id = :m AND o.order_id = i.order_id
    JOIN entitlements e ON e.merchant_id = :m AND e.entitlement_id = i.entitlement_id
    JOIN policies p ON p.merchant_id = :m AND p.policy_id = i.policy_id AND p.version = i.policy_version
    LEFT JOIN LATERAL (SELECT t.document FROM policies t WHERE t.merchant_id = :m AND t.policy_id = i.policy_id
        AND t.effective @> now() LIMIT 1) today ON true
    CROSS JOIN LATERAL (SELECT coalesce(today.document, p.document)->'routes' AS routes) now_in
    LEFT JOIN LATERAL ({_APPROVED.format(of="i")}) mine ON true
    CROSS JOIN LATERAL (SELECT CASE WHEN i.requester LIKE 'staff:%' AND coalesce(now_in.routes->'sum_over' @> '"staff_day"', true)
        AND {_BY_OPINION.format(of="i")} THEN ({_ASKED_BEFORE}) ELSE 0 END AS minor OFFSET 0) asked
    CROSS JOIN LATERAL (SELECT min(other.minor) AS minor, min(other.two_minor) AS two_minor, array_agg(other.routes) AS routes,
            coalesce(bool_or(other.minor IS NULL), false) OR (now_in.routes->'manager_from_minor'->>o.currency) IS NULL AS unnamed
        FROM jsonb_array_elements(e.record->'policies') part CROSS JOIN LATERAL (
            SELECT (coalesce(t.document, w.document)->'routes'->'manager_from_minor'->>o.currency)::bigint AS minor,
                (coalesce(t.document, w.document)->'routes'->'two_managers_from_minor'->>o.currency)::bigint AS two_minor,
                coalesce(t.document, w.document)->'routes' AS routes
            FROM policies w
            LEFT JOIN policies t ON t.merchant_id = :m AND t.policy_id = w.policy_id AND t.effective @> now()
            WHERE w.merchant_id = :m AND w.policy_id || '@' || w.version = part->>'policy') other) under
    CROSS JOIN LATERAL (
        SELECT count(*)::int AS others, coalesce(sum(x.order_minor), 0)::bigint AS others_minor
        FROM (SELECT o.order_id UNION ({_ORDERS_OF_CUSTOMER})) xo
        JOIN LATERAL ({_INTENTS_OF_ORDER}) x ON true
        LEFT JOIN LATERAL ({_APPROVED_OTHER}) n ON true
        WHERE x.intent_id <> i.intent_id AND {_BESIDE_IT}
    ) t
    CROSS JOIN LATERAL (SELECT i.order_minor + t.others_minor + asked.minor AS minor OFFSET 0) together
"""  # noqa: S608 - constants


def sums_later(db: Connection, merchant_id: UUID, intent_ids: Sequence[UUID]) -> Later:
    """What `read_sum` reads, of many intents and together with other statements; give its rows to `sums_of`."""
    return run_later(db, _SUM, m=merchant_id, ids=list(intent_ids))


def sums_of(found: Iterable[RowMapping]) -> dict[UUID, Sum]:
    """The answer of `sums_later` by intent; one that is not there is missing."""
    return {row["intent_id"]: Sum(**row) for row in found}


def read_sum(db: Connection, merchant_id: UUID, intent_id: UUID) -> Sum | None:
    """The sum that decides who may approve an intent; for one that is approved, as it was then by the rows of now."""
    return sums_of(rows(db, _SUM, m=merchant_id, ids=[intent_id])).get(intent_id)


_BESIDE: Final = f"""
    SELECT (SELECT coalesce(sum(x.order_minor), 0)::bigint FROM (SELECT o.order_id) xo CROSS JOIN LATERAL ({_INTENTS_OF_ORDER}) x
            WHERE x.case_id IS DISTINCT FROM CAST(:c AS uuid)) AS order_minor,
        (SELECT coalesce(sum(x.order_minor), 0)::bigint FROM ({_ORDERS_OF_CUSTOMER}) xo
            CROSS JOIN LATERAL ({_INTENTS_OF_ORDER}) x
            LEFT JOIN LATERAL ({_APPROVED_OTHER}) n ON true
            WHERE xo.order_id <> o.order_id AND coalesce(n.at, x.created_at) > now() - interval '24 hours') AS customer_minor,
        CASE WHEN CAST(:r AS text) LIKE 'staff:%' THEN ({_ASKED_NOW}) ELSE 0 END AS asked_minor
    FROM orders o WHERE o.merchant_id = :m AND o.order_id = :o
"""  # noqa: S608 - constants


@dataclass(frozen=True)
class Beside:
    """What else goes back or went back, in minor units of an order's currency: other cases of the order, its customer's other
    orders in 24 hours, and what one person asked for by opinion in 24 hours for anybody else."""

    order_minor: int
    customer_minor: int
    asked_minor: int


def beside(db: Connection, merchant_id: UUID, order_id: UUID, case_id: UUID | None, by: str | None) -> Beside:
    """What joins the sum of a case (None: one that is not there yet). `by`: who asks by opinion; None where nobody does."""
    row = first(db, _BESIDE, m=merchant_id, o=order_id, c=case_id, r=by)
    return Beside(**row) if row else Beside(0, 0, 0)


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

    def takes(self, amount_minor: int, count: int = 1) -> bool:
        """Whether so many more approvals, of this amount together, fit."""
        return self.used_count + count <= self.limit_count and self.used_minor + amount_minor <= self.limit_minor


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
    """The refunds a customer is getting or got in 24 hours in one currency: two or more, whatever came of the cases.

    What one case pays back to several cards is one refund of it.
    """

    case_id: UUID
    currency: str
    refunds: int
    minor: int


_DAYS: Final = f"""
    SELECT o.case_id, o.currency, count(DISTINCT x.case_id)::int AS refunds, sum(x.order_minor)::bigint AS minor
    FROM (SELECT c.case_id, c.customer_id, c.currency FROM cases c WHERE c.merchant_id = :m AND c.case_id = ANY(:cases)) o
    CROSS JOIN LATERAL ({_ORDERS_OF_CUSTOMER}) xo
    CROSS JOIN LATERAL ({_INTENTS_OF_ORDER}) x
    LEFT JOIN LATERAL ({_APPROVED_OTHER}) n ON true
    WHERE coalesce(n.at, x.created_at) > now() - interval '24 hours'
    GROUP BY o.case_id, o.currency HAVING count(DISTINCT x.case_id) > 1
"""  # noqa: S608 - constants


def customer_days(db: Connection, merchant_id: UUID, cases: list[UUID]) -> dict[UUID, CustomerDay]:
    """By case, for those whose customer has several refunds in 24 hours: the sign that one is split into many (S22)."""
    return {row["case_id"]: CustomerDay(**row) for row in rows(db, _DAYS, m=merchant_id, cases=cases)}
