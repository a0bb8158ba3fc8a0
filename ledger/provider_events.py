"""Hints of the provider that something changed there: kept once by event id, never believed, read again by a worker (S66)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, pin_tenant, rows, run


@dataclass(frozen=True)
class Endpoint:
    """The merchant behind an address: whether this deployment moves real money, and the account names it goes by."""

    merchant_id: UUID
    livemode: bool
    account_refs: frozenset[str]


@dataclass(frozen=True)
class Hint:
    """What is kept of an event: which, of what kind, about which object and payment, when, and the body's SHA-256."""

    event_ref: str
    kind: str
    object_ref: str
    payment_intent_ref: str
    created_at: datetime
    body_digest: bytes


def endpoint(db: Connection, slug: str) -> Endpoint | None:
    """The merchant of a hook's address, to which the transaction is then pinned; None when there is none."""
    row = first(db, "SELECT m.id, d.livemode FROM merchants m CROSS JOIN deployment d WHERE m.slug = :slug", slug=slug)
    if row is None:
        return None
    pin_tenant(db, row["id"])
    accounts = rows(
        db, "SELECT account_ref FROM provider_accounts WHERE merchant_id = :m AND account_ref <> ''", m=row["id"]
    )
    return Endpoint(row["id"], row["livemode"], frozenset(account["account_ref"] for account in accounts))


_KEEP: Final = """
    INSERT INTO provider_events (merchant_id, event_ref, kind, object_ref, payment_intent_ref, created_at, body_digest)
    VALUES (:m, :event, :kind, :object, :payment, :created, :digest) ON CONFLICT DO NOTHING
"""


def keep(db: Connection, merchant_id: UUID, hint: Hint) -> bool:
    """Stores a hint once; False when it is here already."""
    kept = run(
        db, _KEEP, m=merchant_id, event=hint.event_ref, kind=hint.kind, object=hint.object_ref,
        payment=hint.payment_intent_ref, created=hint.created_at, digest=hint.body_digest,
    )  # fmt: skip
    return kept == 1
