"""Where the database stands: which one it is, and how far its books go (S84).

A worker compares this with what it keeps outside the database. Nothing here decides; it only reads.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, scalar


@dataclass(frozen=True)
class Position:
    """The deployment's row, and the server under it: `log_position` is that of the write-ahead log, in bytes."""

    deployment_id: UUID
    generation: int
    system_identifier: str
    timeline: int
    log_position: int


# A server of which no backup can be told from another server is none for production; the control functions are
# everybody's to call (PostgreSQL 9.6 and later).
_POSITION: Final = """
    SELECT d.deployment_id, d.generation, CAST(s.system_identifier AS text) AS system_identifier, c.timeline_id AS timeline,
        CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS bigint) AS log_position
    FROM deployment d, pg_control_system() s, pg_control_checkpoint() c
"""


def read_position(db: Connection) -> Position | None:
    """The position now; None while the deployment has no row."""
    row = first(db, _POSITION)
    return Position(**row) if row is not None else None


def deployment(db: Connection) -> tuple[UUID, int] | None:
    """Id and generation of the deployment, for the settings of its workers; None before its first merchant."""
    row = first(db, "SELECT deployment_id, generation FROM deployment")
    return (row["deployment_id"], row["generation"]) if row is not None else None


def attempt_exists(db: Connection, merchant_id: UUID, intent_id: UUID, attempt_no: int) -> bool:
    """Whether the books know an attempt that was made. They never forget one, unless they are older than it."""
    found: Any = scalar(
        db, "SELECT 1 FROM attempts WHERE merchant_id = :m AND intent_id = :i AND attempt_no = :n",
        m=merchant_id, i=intent_id, n=attempt_no,
    )  # fmt: skip
    return found is not None


def attempted_in_generation(db: Connection, merchant_id: UUID) -> bool:
    """Whether anything of this merchant was sent since the last recovery began, or ever when there was none.

    What a recovery itself wrote down as sent, as nobody's worker, was sent before it.
    """
    found: Any = scalar(db, _SENT, m=merchant_id)
    return found is not None


_SENT: Final = """
    SELECT 1 FROM attempts WHERE merchant_id = :m AND worker_id <> 0
        AND started_at > coalesce((SELECT max(started_at) FROM recoveries), '-infinity') LIMIT 1
"""
