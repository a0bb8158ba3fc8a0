"""Every commit that writes and every call to the provider of a process, found where they happen; and SIGKILL at one of them.

A commit is any `commit()` of a database connection whose transaction was given a number by the server, which is what a
transaction gets when it changes or locks a row. A call is any request that leaves through the provider's session; "after"
is when the provider has acted and answered, and nothing of the answer is read.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import requests

from jobs.stripe_session import ProviderSession

ROOT = str(Path(__file__).parents[1]) + "/"
_WHERE = ("jobs/", "console/", "ledger/")
_PLAYED = ("tests/", "faults/paths")
_NOT_A_PLACE = ("ledger/database.py", "jobs/worker.py", "jobs/stripe_session.py", "console/gate.py")


@dataclass(frozen=True)
class Point:
    """`kind` is commit or call; `where` the function it happens in; `phase` before or after it."""

    kind: str
    where: str
    phase: str

    def __str__(self) -> str:
        return f"{self.phase} {self.kind} in {self.where}"


@dataclass
class Watch:
    """Counts points as they come; kills this process at number `fatal` (from 0), or never."""

    say: Callable[[Any], None]
    fatal: int | None = None
    seen: int = 0
    guard: threading.RLock = field(default_factory=threading.RLock)

    def reach(self, kind: str, phase: str) -> None:
        with self.guard:
            self.say({"point": [kind, _where(), phase]})
            if self.seen == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            self.seen += 1


def _where() -> str:
    """The innermost function of the product, or of what plays a person here, that is not mere machinery."""
    frame: FrameType | None = sys._getframe(2)
    played = "elsewhere"
    while frame is not None:
        path = frame.f_code.co_filename.removeprefix(ROOT)
        name = f"{path.removesuffix('.py').replace('/', '.')}.{frame.f_code.co_name}"
        if path.startswith(_WHERE) and path not in _NOT_A_PLACE:
            return name
        if played == "elsewhere" and path.startswith(_PLAYED):
            played = name
        frame = frame.f_back
    return played


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Puts the instruments in for the length of a block. Only ever in a child."""
    commit, send = psycopg.Connection.commit, requests.Session.send

    def watched_commit(connection: psycopg.Connection[Any]) -> None:
        if not _writes(connection):
            commit(connection)
            return
        watch.reach("commit", "before")
        commit(connection)
        # One that left along with other statements is over when all of them were answered.
        with connection.pipeline():
            pass
        watch.reach("commit", "after")

    def watched_send(session: requests.Session, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        if not isinstance(session, ProviderSession):
            return send(session, request, **kwargs)
        watch.reach("call", "before")
        try:
            return send(session, request, **kwargs)
        finally:
            watch.reach("call", "after")

    psycopg.Connection.commit = watched_commit  # type: ignore[method-assign, assignment]
    requests.Session.send = watched_send  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        psycopg.Connection.commit = commit  # type: ignore[method-assign]
        requests.Session.send = send  # type: ignore[method-assign]


def _writes(connection: psycopg.Connection[Any]) -> bool:
    # Active: statements that were sent along are not answered yet.
    status = psycopg.pq.TransactionStatus
    if connection.info.transaction_status not in (status.INTRANS, status.ACTIVE):
        return False
    with psycopg.ClientCursor(connection) as cursor:
        row = cursor.execute("SELECT pg_current_xact_id_if_assigned() IS NOT NULL").fetchone()
    return row is not None and bool(row[0])
