"""What policies approve by themselves: how far today's limits are used, and which cases they approved."""

from dataclasses import dataclass
from datetime import date
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows


@dataclass(frozen=True)
class AutomaticToday:
    """One currency of the policy in force: the most at once and in the business day, and what of it is used, in minor units."""

    currency: str
    policy: str
    business_day: date
    most_minor: int
    day_minor: int
    used_count: int
    used_minor: int


# Only where exactly one version is in force is anything approved by it for the orders of today.
_TODAY: Final = """
    SELECT c.currency, p.policy_id || '@' || p.version AS policy, d.day AS business_day, t.most_minor, t.day_minor,
        coalesce(a.used_count, 0) AS used_count, coalesce(a.used_minor, 0) AS used_minor
    FROM policies p JOIN merchants m ON m.id = p.merchant_id
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE m.zone)::date AS day) d
    CROSS JOIN LATERAL jsonb_object_keys(CASE jsonb_typeof(p.document->'automatic') WHEN 'object' THEN p.document->'automatic'
        ELSE '{}' END) c(currency)
    CROSS JOIN LATERAL automatic_terms(p.document, c.currency) t
    LEFT JOIN automatic_days a ON a.merchant_id = p.merchant_id AND a.currency = c.currency AND a.business_day = d.day
    WHERE p.merchant_id = :m AND p.effective @> now()
        AND (SELECT count(*) FROM policies o WHERE o.merchant_id = :m AND o.effective @> now()) = 1
    ORDER BY c.currency
"""


def automatic_today(db: Connection, merchant_id: UUID) -> list[AutomaticToday]:
    """By currency; empty where the policy in force names nothing."""
    return [AutomaticToday(**row) for row in rows(db, _TODAY, m=merchant_id)]


_BY_POLICY: Final = """
    SELECT DISTINCT i.case_id FROM intents i
    JOIN approvals a ON a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.staff_id IS NULL
    WHERE i.merchant_id = :m AND i.case_id = ANY(:cases) AND i.state NOT IN ('proposed', 'withdrawn')
"""


def approved_by_policy(db: Connection, merchant_id: UUID, cases: list[UUID]) -> set[UUID]:
    """Those of the cases with a refund that a policy approved and nobody called back."""
    return {row["case_id"] for row in rows(db, _BY_POLICY, m=merchant_id, cases=cases)}
