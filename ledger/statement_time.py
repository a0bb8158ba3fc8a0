"""When a customer said something that is written down later: windows count from it (ENTITLEMENT §1, `statement_sent_at`)."""

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection

from ledger.database import scalar
from ledger.errors import BadInput

FIELD: Final = "statement_sent_at"
STATED_DAYS: Final = 31
"""How long ago a customer may have said what is written down now."""


def check_stated(db: Connection, placed_at: datetime, stated_at: datetime | None) -> None:
    """Raises BadInput (naming the field) unless it was said after the sale, and not long ago; None is now."""
    if stated_at is None:
        return
    now: datetime = scalar(db, "SELECT now()")
    if stated_at > now:
        raise BadInput(FIELD, "the customer said it today or before")
    if stated_at < placed_at - timedelta(days=1):
        raise BadInput(FIELD, "the customer said it after the order was placed")
    if stated_at < now - timedelta(days=STATED_DAYS):
        raise BadInput(FIELD, f"more than {STATED_DAYS} days ago: leave it out, and a person looks at what was said")
