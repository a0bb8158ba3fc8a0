"""Where payments go back to, as the provider names it."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows


@dataclass(frozen=True)
class Destination:
    """The card, account or card of the shop that a payment was made with."""

    kind: str
    brand: str
    last4: str


def destinations(db: Connection, merchant_id: UUID, captures: Sequence[UUID]) -> list[Destination]:
    """Those of some captures, in the order they were paid in."""
    found = rows(
        db, "SELECT destination_kind AS kind, destination_brand AS brand, destination_last4 AS last4 FROM captures"
        " WHERE merchant_id = :m AND capture_id = ANY(:ids) ORDER BY position", m=merchant_id, ids=list(captures),
    )  # fmt: skip
    return [Destination(**row) for row in found]
