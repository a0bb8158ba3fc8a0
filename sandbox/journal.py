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
    "trace",
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
    trace: str | None = None


class Journal:
    """Calls in the order they arrived, gathered in memory and written a few times a second.

    ``kill -9`` of the sandbox can lose the calls of the last fifth of a second here; never the money they moved.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._running: set[Entry] = set()
        self._over: deque[Entry] = deque()

    def arrived(
        self, method: str, path: str, query: str, key: str | None, body: bytes, request_id: str, trace: str | None
    ) -> Entry:
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
            trace=trace,
        )
        with self._lock:
            self._running.add(entry)
        return entry

    def over(self, entry: Entry, status: int | None, outcome: str) -> None:
        entry.took_ms = round((time.monotonic() - entry.started) * 1000)
        entry.status, entry.outcome = status, outcome
        with self._lock:
            if entry in self._running:  # not when the journal was cleared meanwhile
                self._running.remove(entry)
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
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """Calls in the order of arrival, also those still running; ``path`` is a prefix, ``limit`` takes the newest."""
        self.flush()
        given = {"account": account, "method": method, "idempotency_key": key}
        matching = {name: value for name, value in given.items() if value is not None}
        conditions = ["substr(path, 1, ?) = ?", *(f"{name} = ?" for name in matching)]
        beginning = path or ""
        with self._store.read() as db:
            rows = db.execute(
                f"select * from requests where {' and '.join(conditions)} order by arrived desc limit ?",  # noqa: S608
                (len(beginning), beginning, *matching.values(), -1 if limit is None else limit),
            ).fetchall()
        found = [{name: row[name] for name in _COLUMNS} for row in rows]
        with self._lock:
            running = [{name: getattr(entry, name) for name in _COLUMNS} for entry in self._running]
        found += [
            call
            for call in running
            if call["path"].startswith(beginning) and all(call[name] == value for name, value in matching.items())
        ]
        return sorted(found, key=lambda call: float(call["arrived"]))

    def clear(self) -> None:
        """Forget every call that has arrived so far."""
        with self._store.write() as db:
            with self._lock:
                self._over.clear()
                self._running.clear()
            db.execute("delete from requests")
