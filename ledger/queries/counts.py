"""The counts beside the desks' names, capped so that a large queue costs no more than a small one."""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first

MOST_COUNTED: Final = 500

_COUNTS: Final = """
    SELECT
        (SELECT count(*) FROM (SELECT FROM cases WHERE merchant_id = :m AND closed_at IS NULL LIMIT :most) c) AS queue,
        (SELECT count(*) FROM (SELECT FROM intents WHERE merchant_id = :m AND state IN ('unknown', 'needs_review')
            LIMIT :most) i) AS unknown,
        (SELECT count(*) FROM (SELECT FROM discrepancies d WHERE d.merchant_id = :m AND NOT EXISTS (
            SELECT FROM discrepancy_acts a WHERE a.merchant_id = d.merchant_id AND a.discrepancy_id = d.discrepancy_id
                AND a.kind = 'resolved') LIMIT :most) x) AS reconciliation,
        (SELECT count(*) FROM (SELECT FROM external_refunds e JOIN captures cp ON cp.merchant_id = e.merchant_id
            AND cp.provider_account_id = e.provider_account_id AND cp.charge_ref = e.charge_ref
            WHERE e.merchant_id = :m AND e.status NOT IN ('failed', 'canceled') AND e.allocated_minor < e.amount_minor
            LIMIT :most) e) AS outside,
        (SELECT count(*) FROM (SELECT FROM disputes WHERE merchant_id = :m
            AND status NOT IN ('won', 'lost', 'prevented', 'warning_closed') LIMIT :most) d) AS disputes,
        (SELECT count(*) FROM (SELECT FROM orders WHERE merchant_id = :m AND blocked LIMIT :most) o) AS in_question,
        (SELECT count(*) FROM (SELECT FROM unmatched_receipts WHERE merchant_id = :m AND answered_at IS NULL
            LIMIT :most) r) AS receipts
"""


def desk_counts(db: Connection, merchant_id: UUID) -> dict[str, int]:
    """Open cases (`queue`), refunds whose outcome a person has to watch (`unknown`), open discrepancies (`reconciliation`),
    refunds made outside that nobody answered for (`outside`), open disputes, orders in question and goods put aside
    (`receipts`); at most MOST_COUNTED + 1 each."""
    return dict(first(db, _COUNTS, m=merchant_id, most=MOST_COUNTED + 1) or {})
