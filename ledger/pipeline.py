"""The inside of psycopg where it has no other way: statements that leave in one piece, as the locked release has it.

psycopg keeps the commands of a pipeline, sends one at a time and looks for answers after each, which lets go of the
interpreter as often; and at its end it waits once more, also when everything was answered already.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import PipelineStatus


@contextmanager
def pipeline(raw: psycopg.Connection[Any]) -> Iterator[None]:
    """`raw.pipeline()` for `Queued` cursors: what they run leaves together when an answer is waited for, or at the end."""
    if raw._pipeline is None:  # noqa: SLF001 - where `pipeline()` looks for one
        raw._pipeline = _InOnePiece(raw)  # noqa: SLF001
    with raw.pipeline():
        yield


def answered(raw: psycopg.Connection[Any]) -> None:
    """Waits for the answers to what was sent so far; does nothing outside of a pipeline."""
    if (open_one := raw._pipeline) is not None:  # noqa: SLF001 - `pipeline()` would wait once more, for its own end
        open_one.sync()


def send(raw: Any, command: str) -> None:
    """Sends BEGIN inside a pipeline: a statement would say it by itself first, and wait for that."""
    raw.wait(raw._exec_command(command))  # noqa: SLF001


class _AtOnce(deque[Callable[[], None]]):
    """Commands wait in libpq's buffer instead of here. `since_sync`: whether some are, or were, after the last Sync."""

    since_sync = False

    def append(self, command: Callable[[], None]) -> None:
        self.since_sync = True
        command()


class _InOnePiece(psycopg.Pipeline):
    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        super().__init__(raw)
        self.command_queue: _AtOnce = _AtOnce()

    def _enqueue_sync(self) -> None:
        super()._enqueue_sync()
        self.command_queue.since_sync = False

    def _exit_gen(self) -> Any:
        # After a COMMIT that was waited for there is nothing more to ask. Without a Sync after a failure the server would hear
        # nothing more, and after anything else libpq would not know whether a transaction is open.
        if self.command_queue.since_sync or self.result_queue:
            # Whatever failed, every answer is taken: the refusal may come in one piece and the end of the block in the next.
            yield from super()._exit_gen()


class Queued(psycopg.RawCursor[Any]):
    """Inside a pipeline it waits for nothing, and shares with the others of its connection how values are written and read.

    A cursor of its own would look up how to write each type it sends and read each column it gets, for every statement anew.
    """

    def _execute_gen(
        self, query: Any, params: Any = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Any:
        connection: Any = self._conn
        if connection.pgconn.pipeline_status == PipelineStatus.OFF:
            yield from super()._execute_gen(query, params, prepare=prepare, binary=binary)
            return
        yield from self._start_query(query)
        self._tx = _shared(connection)
        yield from self._maybe_prepare_gen(self._convert_query(query, params), prepare=prepare, binary=binary)
        yield from connection._prepared.maintain_gen(connection)  # noqa: SLF001

    def fetchall(self) -> list[Any]:
        """All rows. Another statement's answer may have come since this one's, so what reads them is told whose they are."""
        if self.pgresult is not None:
            self._tx.set_pgresult(self.pgresult)
        return super().fetchall()


def _shared(connection: Any) -> Any:
    if not hasattr(connection, "_shared_transformer"):
        connection._shared_transformer = Transformer(connection)  # noqa: SLF001 - ends with the connection
    return connection._shared_transformer  # noqa: SLF001
