"""The idempotency layer of /v1 (§3): the first result is kept and replayed, whatever it was.

| the key                                 | the answer                                            |
|-----------------------------------------|-------------------------------------------------------|
| new, or pruned, or only ever refused unkept | the operation runs                                |
| kept, same operation and parameters     | the kept status and body, ``Idempotent-Replayed: true`` |
| kept, other operation or parameters     | 400 ``idempotency_error``                             |
| its first request still runs            | 409 ``idempotency_key_in_use``                        |

A result is kept in the transaction of the change it reports, so after ``kill -9`` both are there or neither is.
"""

import hashlib
import sqlite3
import threading
from dataclasses import dataclass

from sandbox.errors import key_in_use, key_mismatch, not_valid
from sandbox.store import Store

LONGEST_KEY = 255


@dataclass(frozen=True, slots=True)
class Kept:
    """A first result: HTTP status, body bytes, and the request that made it."""

    status: int
    body: bytes
    request_id: str


def fingerprint(method: str, path: str, text: str) -> str:
    """What makes two requests the same: operation and parameters, in whatever order they came."""
    parts = "&".join(sorted(text.split("&")))
    return hashlib.sha256(f"{method} {path}?{parts}".encode()).hexdigest()


class Keys:
    """The keys of every account: those running now, and those whose result is kept."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._running: set[tuple[str, str]] = set()

    def claim(self, account: str, key: str, print_: str) -> Kept | None:
        """Take the key for one request, or give back the kept result. Raises the refusals of the table above.

        When it returns None the caller owns the key and calls ``release`` in the end.
        """
        if len(key) > LONGEST_KEY:
            raise not_valid(f"Idempotency keys can be at most {LONGEST_KEY} characters long.")
        with self._lock:
            if (account, key) in self._running:
                raise key_in_use(key)
            self._running.add((account, key))
        kept = False
        try:
            row = self._look_up(account, key)
            kept = row is not None
        finally:
            if kept:
                self.release(account, key)
        if row is None:
            return None
        if row["fingerprint"] != print_:
            raise key_mismatch(key)
        return Kept(row["status"], row["body"], row["request_id"])

    def _look_up(self, account: str, key: str) -> sqlite3.Row | None:
        youngest = self._store.now() - int(self._store.settings["idempotency_age_seconds"])
        with self._store.read() as db:
            row: sqlite3.Row | None = db.execute(
                "select * from idempotency where account = ? and key = ? and created > ?", (account, key, youngest)
            ).fetchone()
        return row

    def keep(self, db: sqlite3.Connection, account: str, key: str, print_: str, created: int, kept: Kept) -> None:
        """Write the first result, in the caller's transaction. A pruned one is overwritten."""
        db.execute(
            "insert or replace into idempotency values (?, ?, ?, ?, ?, ?, ?)",
            (account, key, print_, created, kept.status, kept.body, kept.request_id),
        )

    def release(self, account: str, key: str) -> None:
        """The request is over."""
        with self._lock:
            self._running.discard((account, key))
