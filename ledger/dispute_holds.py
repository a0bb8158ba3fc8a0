"""The one question asked right before the call: does the bank dispute, or ask about, this charge now?"""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first

_HOLDS: Final = """
    SELECT d.dispute_ref, d.status FROM disputes d
    WHERE d.merchant_id = :m AND d.charge_ref = :charge AND d.provider_account_id = :a
        AND d.status NOT IN ('won', 'prevented', 'warning_closed')
        AND (dispute_takes(d.status) OR NOT EXISTS (SELECT 1 FROM dispute_rulings r
            WHERE r.merchant_id = d.merchant_id AND r.dispute_ref = d.dispute_ref))
    ORDER BY d.created_at LIMIT 1
"""


def holding(db: Connection, merchant_id: UUID, account_id: UUID, charge_ref: str) -> RowMapping | None:
    """The dispute for which nothing is sent on this charge now, or None. Read inside the claiming transaction."""
    return first(db, _HOLDS, m=merchant_id, charge=charge_ref, a=account_id)
