"""Every call under /v1, from its arrival: what a test reads to say that none was made, or that two were alike."""

import hashlib
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from sandbox.store import Store

_LONGEST_BODY = 4000
_COLUMNS = (
    "account",
    "method",
    "path",
    "query",
    "idempotency_key",
    "digest",
    "body",
    "request_id",
    "arrived",
    "took_ms",
    "status",
    "outcome",
)


@dataclass(slots=True, eq=False)
class Entry:
    """One call. ``outcome`` is ``running`` until it is over; ``status`` is None when no byte was answered."""

    method: str
    path: str
    query: str
    idempotency_key: str | None
    digest: str
    body: str
    request_id: str
    arrived: float
    started: float
    account: str | None = None
    took_ms: int | None = None
    status: int | None = None
    outcome: str = "running"


class Journal:
    """Calls in the order they arrived, gathered in memory and written a few times a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._running: set[Entry] = set()
        self._over: deque[Entry] = deque()

    def arrived(self, method: str, path: str, query: str, key: str | None, body: bytes, request_id: str) -> Entry:
        entry = Entry(
            method=method,
            path=path,
            query=query,
            idempotency_key=key,
            digest=hashlib.sha256(body).hexdigest(),
            body=body[:_LONGEST_BODY].decode("utf-8", "replace"),
            request_id=request_id,
            arrived=self._store.moment(),
            started=time.monotonic(),
        )
        with self._lock:
            self._running.add(entry)
        return entry

    def over(self, entry: Entry, status: int | None, outcome: str) -> None:
        entry.took_ms = round((time.monotonic() - entry.started) * 1000)
        entry.status, entry.outcome = status, outcome
        with self._lock:
            self._running.discard(entry)
            self._over.append(entry)

    def flush(self) -> None:
        """Write what is over."""
        if not self._over:
            return
        with self._store.write() as db:
            with self._lock:
                done, self._over = self._over, deque()
            statement = f"insert into requests ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
            db.executemany(statement, [tuple(getattr(entry, name) for name in _COLUMNS) for entry in done])

    def listed(
        self,
        account: str | None = None,
        method: str | None = None,
        path: str | None = None,
        key: str | None = None,
        limit: int = 10_000,
    ) -> list[dict[str, Any]]:
        """Calls in the order of arrival, also those still running; ``path`` is a prefix."""
        self.flush()
        with self._store.read() as db:
            rows = db.execute("select * from requests order by arrived desc limit ?", (limit,)).fetchall()
        found = [{name: row[name] for name in _COLUMNS} for row in rows]
        with self._lock:
            found += [{name: getattr(entry, name) for name in _COLUMNS} for entry in self._running]
        found.sort(key=lambda call: float(call["arrived"]))
        return [
            call
            for call in found
            if account in (None, call["account"])
            and method in (None, call["method"])
            and call["path"].startswith(path or "")
            and key in (None, call["idempotency_key"])
        ]

    def clear(self) -> None:
        """Forget the calls that are over."""
        with self._store.write() as db:
            with self._lock:
                self._over.clear()
            db.execute("delete from requests")
