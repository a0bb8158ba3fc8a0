"""What leaves as a file, on the record: who, what, under which filter and why before the first byte, the count and digest after
the last (S60). An export without an end was broken off, and its file is not whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.canonical import canonical_bytes
from ledger.card_numbers import mask_card_numbers
from ledger.database import rows, run, scalar
from ledger.errors import WrongState
from ledger.ids import uuid7

MOST_ROWS: Final = 50_000
LONGEST_REASON: Final = 300


def only_export(db: Connection, merchant_id: UUID) -> None:
    """Holds the merchant's one place for an export until the transaction ends. Raises WrongState while another is leaving."""
    free = scalar(db, "SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 0))", name=f"export:{merchant_id}")
    if not free:
        raise WrongState("Another file of this shop is leaving just now: wait until it is there, then ask again.")


def begin_export(
    db: Connection, merchant_id: UUID, staff_id: UUID, what: str, asked: Mapping[str, Any], reason: str
) -> UUID:
    """Records that somebody takes `what` out, with its filter (JSON of strings) and reason. Locks nothing.

    Raises IntegrityError for anybody who is not of finance now.
    """
    export_id = uuid7()
    run(
        db, "INSERT INTO exports (merchant_id, export_id, what, filter, reason, staff_id)"
        " VALUES (:m, :id, :what, CAST(:filter AS jsonb), :reason, :staff)", m=merchant_id, id=export_id, what=what,
        filter=canonical_bytes(dict(asked)).decode(), reason=mask_card_numbers(reason.strip())[:LONGEST_REASON], staff=staff_id,
    )  # fmt: skip
    return export_id


def end_export(db: Connection, merchant_id: UUID, export_id: UUID, count: int, sha256: bytes) -> None:
    """Records that all of it left: rows without the head, and the digest of every byte of the file."""
    run(
        db, "INSERT INTO export_ends (merchant_id, export_id, rows, sha256) VALUES (:m, :id, :n, :digest)",
        m=merchant_id, id=export_id, n=count, digest=sha256,
    )  # fmt: skip


@dataclass(frozen=True)
class Export:
    """One file that left; `ended_at`, `rows` and `sha256` are None for one that was broken off, or is leaving still."""

    export_id: UUID
    what: str
    filter: dict[str, Any]
    reason: str
    by: str
    at: datetime
    ended_at: datetime | None
    rows: int | None
    sha256: bytes | None


_LAST: Final = """
    SELECT x.export_id, x.what, x.filter, x.reason, s.name AS by, x.at, e.at AS ended_at, e.rows, e.sha256
    FROM exports x JOIN staff s ON s.staff_id = x.staff_id
    LEFT JOIN export_ends e ON e.merchant_id = x.merchant_id AND e.export_id = x.export_id
    WHERE x.merchant_id = :m ORDER BY x.export_id DESC LIMIT :most
"""


def last_exports(db: Connection, merchant_id: UUID, most: int) -> list[Export]:
    """The newest first."""
    return [Export(**row) for row in rows(db, _LAST, m=merchant_id, most=most)]
