"""One SQLite file: a single writer under a lock, readers beside it, the clock and the settings.

The journal is a write-ahead log with ``synchronous = off``: a commit survives ``kill -9`` of the process (the bytes
are with the operating system), not a loss of power, which a sandbox need not survive.
"""

import fcntl
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sandbox.schema import NAMES, TABLES

DEFAULTS: dict[str, Any] = {
    "clock_offset_seconds": 0,
    "idempotency_age_seconds": 24 * 3600,  # §3: kept at least a day, then pruned
    "lock_wait_seconds": 0.5,
    "latency_ms": 0,
    "refunds_per_second": 0,  # §6: Stripe takes 25 a second of an account; 0 does not count
    "list_lag_seconds": 0,
    "webhooks_paused": False,
    "webhooks_copies": 1,
    "webhooks_reorder": False,
    "webhooks_retry_seconds": 1.0,
    "webhooks_tries": 6,
    "webhooks_clock_skew_seconds": 0,
}


_LATER_COLUMNS = (
    ("requests", "trace text"),
    ("payments", "transfer_destination text"),
    ("payments", "application_fee integer"),
    ("payments", "transfer_reversed integer not null default 0"),
    ("payments", "fee_refunded integer not null default 0"),
)


# Everything but the accounts.
_EMPTIED = (*NAMES, "settings", "endpoints")


class SandboxBusyError(Exception):
    """Another sandbox already runs on this file. Stop it, or give this one another --db."""


class Store:
    """The rows of the sandbox. ``write()`` holds the only writer; ``read()`` never waits for it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._claim_file()
        self._writer_lock = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._kept: dict[str, list[tuple[Any, ...]]] = {}
        self._writer = self._connect()
        self._writer.executescript(TABLES)
        # A file of an earlier version lacks what its journal has come to keep.
        for table, column in _LATER_COLUMNS:
            with suppress(sqlite3.OperationalError):
                self._writer.execute(f"alter table {table} add column {column}")
        self.settings = dict(DEFAULTS)
        for name, value in self._writer.execute("select name, value from settings"):
            self.settings[name] = json.loads(value)

    def _claim_file(self) -> None:
        self._claim = Path(self.path + ".lock").open("w")  # noqa: SIM115 - held as long as the store
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SandboxBusyError(SandboxBusyError.__doc__) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        connection.row_factory = sqlite3.Row
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = off")
        connection.execute("pragma temp_store = memory")
        return connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the only writer: committed at the end, rolled back when anything is raised."""
        with self._writer_lock:
            self._writer.execute("begin immediate")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("rollback")
                raise
            self._writer.execute("commit")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A reading connection that sees everything committed so far."""
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            self._readers.append(connection)

    def moment(self) -> float:
        """Now on the sandbox's clock, in Unix seconds."""
        return time.time() + float(self.settings["clock_offset_seconds"])

    def now(self) -> int:
        """Now on the sandbox's clock, in whole Unix seconds, Stripe's grain."""
        return int(self.moment())

    def change_settings(self, changes: dict[str, Any]) -> None:
        """Keep new values of settings. Raises ``KeyError`` with the name of an unknown setting."""
        for name in changes:
            if name not in DEFAULTS:
                raise KeyError(name)
        with self.write() as db:
            for name, value in changes.items():
                db.execute("insert or replace into settings values (?, ?)", (name, json.dumps(value)))
        self.settings.update(changes)

    def empty(self) -> None:
        """Forget everything but the accounts; settings go back to their defaults."""
        with self.write() as db:
            for name in _EMPTIED:
                db.execute(f"delete from {name}")  # noqa: S608 - names are constants of this package
        self.settings.clear()
        self.settings.update(DEFAULTS)

    def keep(self) -> None:
        """Remember everything as it is now, until the process ends or this is called again."""
        with self._writer_lock:
            self._kept = {
                name: [tuple(row) for row in self._writer.execute(f"select * from {name}")]  # noqa: S608 - constants
                for name in _EMPTIED
            }

    def put_back(self) -> None:
        """Make everything but the accounts what was kept, settings and clock too. Raises ``KeyError`` when nothing was."""
        with self.write() as db:
            for name in _EMPTIED:
                db.execute(f"delete from {name}")  # noqa: S608 - constants
                rows = self._kept[name]
                if rows:
                    places = ", ".join("?" * len(rows[0]))
                    db.executemany(f"insert into {name} values ({places})", rows)  # noqa: S608 - constants
        self.settings = dict(DEFAULTS)
        for name, value in self._writer.execute("select name, value from settings"):
            self.settings[name] = json.loads(value)

    def close(self) -> None:
        """Fold the write-ahead log into the file and let it go."""
        with self._writer_lock, suppress(sqlite3.OperationalError):
            self._writer.execute("pragma wal_checkpoint(truncate)")
        self._writer.close()
        self._claim.close()
