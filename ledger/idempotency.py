"""A caller's idempotency key, kept with the answer it produced: the row and the work commit together (DESIGN §2, rule 1).

Keys live per token (S64). A key is held by a transaction-level advisory lock while its request runs, so a second request
with it learns "still running" at once, and a crash lets go of it.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.canonical import canonical_bytes
from ledger.database import first, run, scalar
from ledger.errors import KeyInUse, KeyReused


@dataclass(frozen=True)
class Key:
    """One caller's key: `scope` names the caller, `text` is what it sent."""

    merchant_id: UUID
    scope: str
    text: str

    def number(self) -> int:
        """The 64 bits the advisory lock goes by."""
        name = b"\0".join((b"onceback.key.v1", self.merchant_id.bytes, self.scope.encode(), self.text.encode()))
        return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)


@dataclass(frozen=True)
class Kept:
    """An answer as it was given: HTTP status and JSON body."""

    status: int
    answer: dict[str, Any]


_FIND: Final = (
    "SELECT body_digest, status, answer FROM idempotency_keys WHERE merchant_id = :m AND scope = :s AND key = :k"
)


def request_digest(operation: str, body: dict[str, Any]) -> bytes:
    """SHA-256 of what was asked, in canonical form: spelling, field order and white space do not matter."""
    return hashlib.sha256(b"onceback.request.v1\0" + operation.encode() + b"\0" + canonical_bytes(body)).digest()


def take_key(db: Connection, key: Key, digest: bytes) -> Kept | None:
    """Holds the key until the transaction ends; returns the answer it already has, or None when the work is to be done.

    Raises KeyInUse while another request with it runs, KeyReused when it stands for another body.
    """
    if not scalar(db, "SELECT pg_try_advisory_xact_lock(:n)", n=key.number()):
        raise KeyInUse
    row = first(db, _FIND, m=key.merchant_id, s=key.scope, k=key.text)
    if row is None:
        return None
    if bytes(row["body_digest"]) != digest:
        raise KeyReused
    return Kept(row["status"], row["answer"])


def keep_answer(db: Connection, key: Key, digest: bytes, kept: Kept) -> None:
    """Stores the answer in the transaction that did the work. The key is held."""
    run(
        db, "INSERT INTO idempotency_keys (merchant_id, scope, key, body_digest, status, answer)"
        " VALUES (:m, :s, :k, :digest, :status, CAST(:answer AS jsonb))", m=key.merchant_id, s=key.scope, k=key.text,
        digest=digest, status=kept.status, answer=json.dumps(kept.answer),
    )  # fmt: skip
