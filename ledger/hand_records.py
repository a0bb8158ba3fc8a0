"""What a person recorded as paid by hand, as the evidence on which two people settle it: no provider lists such a refund."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first


@dataclass(frozen=True)
class HandRecord:
    """A payment in another system, as `name` (staff `recorded_by`) wrote it down. `tender`: gift_card, store_credit or cash."""

    tender: str
    reference: str
    recorded_by: UUID
    name: str
    recorded_at: datetime

    def content(self) -> dict[str, str]:
        """What a digest covers: everything but the name, which a person may change."""
        return {
            "tender": self.tender, "reference": self.reference, "recorded_by": str(self.recorded_by),
            "recorded_at": self.recorded_at.isoformat(),
        }  # fmt: skip


_RECORD: Final = """
    SELECT h.tender, h.reference, h.recorded_by, s.name, h.recorded_at AT TIME ZONE 'UTC' AS recorded_at
    FROM manual_settlements h JOIN staff s ON s.staff_id = h.recorded_by
    WHERE h.merchant_id = :m AND h.intent_id = :i AND h.outcome = 'done'
"""


def hand_record(db: Connection, merchant_id: UUID, intent_id: UUID) -> HandRecord | None:
    """The record of a payment by hand; None when there is none, or it says that nothing was paid."""
    row = first(db, _RECORD, m=merchant_id, i=intent_id)
    return HandRecord(**row) if row else None
