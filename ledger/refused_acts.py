"""What the console refused because it was done already or had changed: counted, for the act itself left nothing behind."""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import run
from ledger.errors import AlreadyRefunded, LedgerError, Stale
from ledger.ids import uuid7

_KINDS: Final[dict[type[LedgerError], str]] = {AlreadyRefunded: "already_refunded", Stale: "stale"}


def kind_of(refused: LedgerError) -> str | None:
    """What a refusal is counted as; None for one that is not."""
    return next((kind for error, kind in _KINDS.items() if isinstance(refused, error)), None)


def count_refused(db: Connection, merchant_id: UUID, actor: str, refused: LedgerError) -> None:
    """Adds one row for a refusal that is counted. In a transaction that commits, which that of the act does not. Locks nothing."""
    kind = kind_of(refused)
    if kind is not None:
        run(
            db, "INSERT INTO refused_acts (merchant_id, refusal_id, kind, actor) VALUES (:m, :id, :kind, :actor)",
            m=merchant_id, id=uuid7(), kind=kind, actor=actor,
        )  # fmt: skip
