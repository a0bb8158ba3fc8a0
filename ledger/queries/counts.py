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
                AND a.kind = 'resolved') LIMIT :most) x) AS reconciliation
"""


def desk_counts(db: Connection, merchant_id: UUID) -> dict[str, int]:
    """Open cases (`queue`), refunds whose outcome a person has to watch (`unknown`) and open discrepancies
    (`reconciliation`); at most MOST_COUNTED + 1 each."""
    return dict(first(db, _COUNTS, m=merchant_id, most=MOST_COUNTED + 1) or {})
