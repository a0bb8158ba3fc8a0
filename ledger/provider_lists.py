"""What a whole list of the provider showed for one payment, kept beside our intent as evidence for people."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.canonical import canonical_bytes
from ledger.database import first, rows, run, run_many
from ledger.ids import uuid7
from ledger.settlement import ProviderRefund

TAG: Final = b"onceback.list.v1\0"
# No read-after-write promise is documented for the provider's lists; a minute is many times what was ever observed.
CONSISTENCY_SECONDS: Final = 60


@dataclass(frozen=True)
class ListedRefund:
    """One refund as a list showed it. `marked` is the intent its metadata names, "" without a mark of ours."""

    refund_ref: str
    status: str
    amount_minor: int
    currency: str
    charge_ref: str
    marked: str
    created_at: datetime | None

    @property
    def stands(self) -> bool:
        """Whether money is away, or on its way, by it. A status that is not listed counts as standing."""
        return self.status not in ("failed", "canceled")


@dataclass(frozen=True)
class Shown:
    """One whole list: asked for at `asked_at`, kept at `taken_at`, newest refund first. `digest` covers its content only."""

    list_id: UUID
    asked_at: datetime
    taken_at: datetime
    digest: bytes
    refunds: tuple[ListedRefund, ...]


def content_digest(listed: Sequence[ProviderRefund]) -> bytes:
    """The same for two lists that show the same refunds with the same status, amount, currency, charge and mark."""
    content = sorted(
        [one.refund_ref, one.status, str(one.amount_minor), one.currency, one.charge_ref, one.intent_id]
        for one in listed
    )
    return hashlib.sha256(TAG + canonical_bytes(content)).digest()


def keep_list(
    db: Connection, merchant_id: UUID, intent_id: UUID, listed: Sequence[ProviderRefund], asked_at: datetime
) -> None:
    """Keeps a whole list that was asked for at `asked_at` by the database's clock. Append-only; locks nothing."""
    list_id = uuid7()
    run(
        db, "INSERT INTO provider_lists (merchant_id, list_id, intent_id, asked_at, refunds, digest)"
        " VALUES (:m, :l, :i, least(:asked, now()), :n, :digest)",
        m=merchant_id, l=list_id, i=intent_id, asked=asked_at, n=len(listed), digest=content_digest(listed),
    )  # fmt: skip
    run_many(db, _INSERT, [
        {"m": merchant_id, "l": list_id, "ref": one.refund_ref, "status": one.status[:40], "minor": one.amount_minor,
         "currency": one.currency[:3], "charge": one.charge_ref[:100], "marked": one.intent_id[:80], "created": one.created_at}
        for one in listed
    ])  # fmt: skip


_INSERT: Final = """
    INSERT INTO listed_refunds (merchant_id, list_id, refund_ref, status, amount_minor, currency, charge_ref, marked, created_at)
    VALUES (:m, :l, :ref, :status, :minor, :currency, :charge, :marked, :created)
"""
_REFUNDS: Final = """
    SELECT refund_ref, status, amount_minor, currency, charge_ref, marked, created_at FROM listed_refunds
    WHERE merchant_id = :m AND list_id = :l ORDER BY created_at DESC NULLS LAST, refund_ref
"""


def newest_list(db: Connection, merchant_id: UUID, intent_id: UUID) -> Shown | None:
    """The newest whole list that was kept for an intent."""
    row: RowMapping | None = first(
        db, "SELECT list_id, asked_at, taken_at, digest FROM provider_lists WHERE merchant_id = :m AND intent_id = :i"
        " ORDER BY taken_at DESC, list_id DESC LIMIT 1", m=merchant_id, i=intent_id,
    )  # fmt: skip
    if row is None:
        return None
    refunds = tuple(ListedRefund(**one) for one in rows(db, _REFUNDS, m=merchant_id, l=row["list_id"]))
    return Shown(row["list_id"], row["asked_at"], row["taken_at"], bytes(row["digest"]), refunds)
