"""Proof that this worker lives: a session advisory lock under its id, on a connection of its own.

Others read `pg_locks` (ledger.outbox): when this process dies, its connection goes and so does the lock, and what it had
under way is looked up at once. A worker that lost the connection looks dead to the others, so it sends nothing until it
has a new id and a new lock.
"""

import secrets
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, LiteralString, Self
from uuid import UUID

import psycopg
from sqlalchemy.engine import make_url

# The lock is asked about at most this often; a call that starts within it still ends long before a takeover could send.
CHECK_SECONDS: Final = 0.5
# First halves of the locks of one job at one merchant; ids of workers are locks of the other kind, of one bigint.
INBOX_LOCKS: Final = 7_302_191
SELF_CHECK_LOCKS: Final = 7_302_192
_OPTIONS: Final = "-c statement_timeout=5000 -c lock_timeout=2000 -c timezone=UTC -c idle_session_timeout=0"


class Liveness:
    """Holds the lock while open. `worker_id` is a random positive bigint, another one after each reconnection."""

    def __init__(self, database_url: str) -> None:
        """`database_url` as for the engine; it has to be a direct one, for a pooler would lend the lock to others."""
        url = make_url(database_url).set(drivername="postgresql")
        self._url = url.render_as_string(hide_password=False)
        self._guard = threading.Lock()
        self._connection: psycopg.Connection | None = None
        self._proven_at = float("-inf")
        self.worker_id = 0

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Takes the lock under a new id. Raises psycopg.OperationalError when the database does not answer."""
        with self._guard:
            self._let_go()
            connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=5, options=_OPTIONS, application_name="onceback-alive",
                keepalives_idle=5, keepalives_interval=2, keepalives_count=3, tcp_user_timeout=10_000,
            )  # fmt: skip
            worker_id = secrets.randbelow(2**63 - 1) + 1
            connection.execute("SELECT pg_advisory_lock(%s)", (worker_id,))
            self._connection, self.worker_id, self._proven_at = connection, worker_id, time.monotonic()

    def alive(self, worker_id: int | None = None) -> bool:
        """Whether the lock of `worker_id` (default: the present one) is still held; asks the server twice a second."""
        with self._guard:
            if worker_id not in (None, self.worker_id) or self._connection is None:
                return False
            if time.monotonic() - self._proven_at < CHECK_SECONDS:
                return True
            try:
                self._connection.execute("SELECT 1")
            except psycopg.Error:
                self._let_go()
                return False
            self._proven_at = time.monotonic()
            return True

    def renew(self) -> bool:
        """Takes a new lock if the old one is gone; False while the database does not answer."""
        if self.alive():
            return True
        try:
            self.connect()
        except psycopg.OperationalError:
            return False
        return True

    @contextmanager
    def singleton(self, merchant_id: UUID, locks: int = INBOX_LOCKS) -> Iterator[bool]:
        """Yields whether this worker is now the only one at a merchant's inbox (or another job's `locks`); never waits."""
        taken = self._ask("SELECT pg_try_advisory_lock(%s, %s)", merchant_id, locks)
        try:
            yield taken
        finally:
            if taken:
                self._ask("SELECT pg_advisory_unlock(%s, %s)", merchant_id, locks)

    def _ask(self, sql: LiteralString, merchant_id: UUID, locks: int) -> bool:
        with self._guard:
            if self._connection is None:
                return False
            try:
                row = self._connection.execute(sql, (locks, zlib.crc32(merchant_id.bytes) - 2**31)).fetchone()
            except psycopg.Error:
                self._let_go()
                return False
        return row is not None and bool(row[0])

    def close(self) -> None:
        """Gives the lock back. What was under way under its id then belongs to whoever looks first."""
        with self._guard:
            self._let_go()

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self.worker_id = None, 0
