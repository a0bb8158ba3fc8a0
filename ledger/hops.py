"""What every line of the log about a refund has, so that its whole way is found by any of the three (S75)."""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first

_HOP: Final = """
    SELECT i.provider_key AS key, coalesce(o.trace, '') AS trace FROM intents i
    LEFT JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    WHERE i.merchant_id = :m AND i.intent_id = :i
"""


def hop(db: Connection, merchant_id: UUID, intent_id: UUID) -> dict[str, str]:
    """The fields `intent`, `key` and `trace` of a line about a refund; no trace before it was approved. For lines that are rare:
    it reads them. Locks nothing."""
    row = first(db, _HOP, m=merchant_id, i=intent_id)
    return {"intent": str(intent_id), **({"key": row["key"], "trace": row["trace"]} if row is not None else {})}
