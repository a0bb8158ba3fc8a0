"""How often a sign-in may be tried (S2). A try is counted before the password is looked at, so 200 at once count as 200.

A browser that this person has signed in from before has a bucket of its own: a stranger who guesses cannot lock out a desk.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import run, scalar
from ledger.ids import uuid7

ACCOUNT_MISSES: Final = 10
ACCOUNT_MINUTES: Final = 30
ADDRESS_MISSES: Final = 100
ADDRESS_MINUTES: Final = 60
FACTOR_MISSES: Final = 5
FACTOR_MINUTES: Final = 15


@dataclass(frozen=True)
class Try:
    """A try that was counted. `verdict`: "go", "locked" (the account), "flood" (the address)."""

    verdict: str
    bucket: bytes
    misses: tuple[UUID, ...] = ()


def take(db: Connection, key: str, *, email: str, address: str, device: str | None) -> Try:
    """Counts a try of this account from this address, or says why it may not be made.

    Locks the account's bucket, then the address's, until the transaction ends. `device`: the id in a device cookie of that
    very person; it takes the place of both buckets. `key` keeps a dump from telling which addresses were tried.
    """
    if device is not None:
        own = _bucket(key, "device", device)
        if _count(db, own, ACCOUNT_MINUTES) >= ACCOUNT_MISSES:
            return Try("locked", own)
        return Try("go", own, (_miss(db, own),))
    account, network = _bucket(key, "account", email), _bucket(key, "address", address)
    locked = _count(db, account, ACCOUNT_MINUTES) >= ACCOUNT_MISSES
    if _count(db, network, ADDRESS_MINUTES) >= ADDRESS_MISSES:
        return Try("flood", account)
    if locked:
        return Try("locked", account, (_miss(db, network),))
    return Try("go", account, (_miss(db, account), _miss(db, network)))


def take_factor(db: Connection, key: str, person: str) -> Try:
    """Counts a try of a signed-in person at showing who they are, or says that they have to wait. Locks their bucket."""
    own = _bucket(key, "factor", person)
    if _count(db, own, FACTOR_MINUTES) >= FACTOR_MISSES:
        return Try("locked", own)
    return Try("go", own, (_miss(db, own),))


def forgive(db: Connection, tried: Try) -> None:
    """The try was right: its own count and the misses of its account are gone; other misses of the address stay."""
    run(
        db,
        "DELETE FROM sign_in_misses WHERE bucket = :b OR miss_id = ANY(:ids)",
        b=tried.bucket,
        ids=list(tried.misses),
    )


def _count(db: Connection, bucket: bytes, minutes: int) -> int:
    # Two tries at once would both see nine misses: the second waits here for the first to be counted.
    scalar(db, "SELECT pg_advisory_xact_lock(:k)", k=int.from_bytes(bucket[:8], "big", signed=True))
    run(db, "DELETE FROM sign_in_misses WHERE bucket = :b AND at < now() - interval '1 day'", b=bucket)
    found: int = scalar(
        db, "SELECT count(*) FROM sign_in_misses WHERE bucket = :b AND at > now() - make_interval(mins => :m)",
        b=bucket, m=minutes,
    )  # fmt: skip
    return found


def _miss(db: Connection, bucket: bytes) -> UUID:
    miss_id = uuid7()
    run(db, "INSERT INTO sign_in_misses (miss_id, bucket) VALUES (:i, :b)", i=miss_id, b=bucket)
    return miss_id


def _bucket(key: str, kind: str, name: str) -> bytes:
    return hmac.new(key.encode(), f"{kind}\0{name}".encode(), hashlib.sha256).digest()
