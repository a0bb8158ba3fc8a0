"""What the metrics show of one merchant, read cheaply from rows. No figure is about a customer, an order or a person."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows
from ledger.queries.waiting import late


@dataclass(frozen=True)
class Figure:
    """One number. `label` says which of its kind: a state, a currency, a kind of alarm; "" when there is only one."""

    name: str
    label: str
    value: float


# One statement, so that a scrape is one round trip a merchant and its figures are of one moment.
_FIGURES: Final = """
    SELECT 'intents' AS name, s.state AS label, count(i.intent_id)::double precision AS value
    FROM unnest(ARRAY['proposed', 'approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review']) s(state)
    LEFT JOIN intents i ON i.merchant_id = :m AND i.state = s.state GROUP BY s.state
    UNION ALL
    SELECT 'intent_age', s.state, coalesce(extract(epoch FROM now() - min(i.state_at)), 0)::double precision
    FROM unnest(ARRAY['approved', 'held', 'submitting', 'unknown', 'pending', 'needs_review']) s(state)
    LEFT JOIN intents i ON i.merchant_id = :m AND i.state = s.state GROUP BY s.state
    UNION ALL
    SELECT 'outbox_due', '', count(*)::double precision FROM outbox WHERE merchant_id = :m AND done_at IS NULL AND due_at <= now()
    UNION ALL
    SELECT 'outbox_lag', '', coalesce(extract(epoch FROM now() - min(due_at)), 0)::double precision FROM outbox
    WHERE merchant_id = :m AND done_at IS NULL AND due_at <= now()
    UNION ALL
    SELECT 'cap_limit', c.currency, coalesce(d.limit_minor, c.limit_minor)::double precision
    FROM caps c JOIN merchants m ON m.id = c.merchant_id
    LEFT JOIN cap_days d ON d.merchant_id = c.merchant_id AND d.currency = c.currency
        AND d.business_day = (now() AT TIME ZONE m.zone)::date WHERE c.merchant_id = :m
    UNION ALL
    SELECT 'cap_used', c.currency, coalesce(d.used_minor, 0)::double precision
    FROM caps c JOIN merchants m ON m.id = c.merchant_id
    LEFT JOIN cap_days d ON d.merchant_id = c.merchant_id AND d.currency = c.currency
        AND d.business_day = (now() AT TIME ZONE m.zone)::date WHERE c.merchant_id = :m
    UNION ALL
    SELECT n.name, a.currency, n.value::double precision FROM automatic_days a JOIN merchants m ON m.id = a.merchant_id
    CROSS JOIN LATERAL (VALUES ('automatic_count', a.used_count), ('automatic_used', a.used_minor),
        ('automatic_limit', a.limit_minor)) n(name, value)
    WHERE a.merchant_id = :m AND a.business_day = (now() AT TIME ZONE m.zone)::date
    UNION ALL
    SELECT 'discrepancies', d.kind, count(*)::double precision FROM discrepancies d WHERE d.merchant_id = :m AND NOT EXISTS (
        SELECT 1 FROM discrepancy_acts a WHERE a.merchant_id = d.merchant_id AND a.discrepancy_id = d.discrepancy_id
            AND a.kind = 'resolved') GROUP BY d.kind
    UNION ALL
    SELECT 'alarms', kind, count(*)::double precision FROM alarms WHERE merchant_id = :m AND closed_at IS NULL GROUP BY kind
    UNION ALL
    SELECT 'hooks_waiting', '', count(*)::double precision FROM provider_events WHERE merchant_id = :m AND done_at IS NULL
    UNION ALL
    SELECT 'hook_lag', '', coalesce(extract(epoch FROM now() - min(received_at)), 0)::double precision FROM provider_events
    WHERE merchant_id = :m AND done_at IS NULL
    UNION ALL
    SELECT 'brake', b.brake, CAST(CAST(b.on_ AS integer) AS double precision)
    FROM merchant_brakes mb LEFT JOIN deployment_brakes db ON true
    CROSS JOIN LATERAL (VALUES ('pause', mb.paused_at IS NOT NULL), ('stop', mb.stopped_at IS NOT NULL),
        ('shadow', mb.shadow_at IS NOT NULL), ('all', db.paused_at IS NOT NULL)) b(brake, on_) WHERE mb.merchant_id = :m
    UNION ALL
    SELECT 'unverified', '', count(*)::double precision FROM captures c CROSS JOIN deployment d WHERE c.merchant_id = :m
        AND c.provider_account_id IS NOT NULL AND c.verified_generation <> d.generation
        AND EXISTS (SELECT 1 FROM recoveries)
"""


def figures(db: Connection, merchant_id: UUID) -> list[Figure]:
    """The merchant's figures: counts, seconds, and minor units of the currency a label names. Locks nothing."""
    found = [Figure(**row) for row in rows(db, _FIGURES, m=merchant_id)]
    backlog = next(one.value for one in found if (one.name, one.label) == ("intents", "needs_review"))
    found.append(Figure("review_backlog", "", backlog))
    return found + [Figure("overdue", one.kind, one.count) for one in late(db, merchant_id)]
