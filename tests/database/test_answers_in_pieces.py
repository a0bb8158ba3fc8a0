"""Answers that arrive in two pieces, as on a busy machine: what leaves together fails and is over all the same."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from psycopg import _pipeline_base
from sqlalchemy import Engine, make_url
from sqlalchemy.exc import DBAPIError

from ledger.database import commit_later, connect, run, run_later, scalar, together, transaction
from tests.stack import Stack

# The server's refusal is here and the end of its answers is not: looked for after the one, before the other.
REFUSED_WITHIN_SECONDS = 0.03
ENDS_AFTER_SECONDS = 0.1
END = b"Z"


def _read(stream: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        piece = stream.recv(length - len(found))
        if not piece:
            raise ConnectionError("the other side is gone")
        found += piece
    return found


def _whole(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            to.sendall(piece)
        to.shutdown(socket.SHUT_WR)


def _message_by_message(source: socket.socket, to: socket.socket) -> None:
    """Each message of the server's: a letter, its length, the rest. The one that ends its answers comes late."""
    with suppress(OSError):
        while True:
            head = _read(source, 5)
            message = head + _read(source, int.from_bytes(head[1:]) - 4)
            if head[:1] == END:
                time.sleep(ENDS_AFTER_SECONDS)
            to.sendall(message)


@pytest.fixture
def slow_line(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The owner's engine, whose server ends its answers late, and who is kept from looking at once."""
    real = vars(_pipeline_base)["pipeline_communicate"]

    def looks_later(*args: Any) -> Any:
        time.sleep(REFUSED_WITHIN_SECONDS)
        return (yield from real(*args))

    monkeypatch.setattr(_pipeline_base, "pipeline_communicate", looks_later)
    url = make_url(stack.owner_url)
    place, port = url.query["host"], url.query.get("port", "5432")
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(tmp_path / f".s.PGSQL.{port}"))
    door.listen()

    def answer() -> None:
        with suppress(OSError):
            while True:
                client, _ = door.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(f"{place}/.s.PGSQL.{port}")
                threading.Thread(target=_whole, args=(client, server), daemon=True).start()
                threading.Thread(target=_message_by_message, args=(server, client), daemon=True).start()

    threading.Thread(target=answer, daemon=True).start()
    changed = url.update_query_dict({"host": str(tmp_path), "port": port})
    engine = connect(changed.render_as_string(hide_password=False), pool_size=1, name="test-slow-line")
    yield engine
    engine.dispose()
    door.close()


def left(engine: Engine) -> object:
    with transaction(engine) as db:
        return scalar(db, "SELECT to_regclass('left_behind')")


@pytest.mark.parametrize("after", ["nothing", "more", "commit", "waited for"])
def test_a_refusal_in_the_middle_is_told_as_it_is_and_the_connection_goes_on(slow_line: Engine, after: str) -> None:
    def leave() -> None:
        with transaction(slow_line) as db, together(db):
            run_later(db, "CREATE TABLE left_behind (id int PRIMARY KEY)")
            refused = run_later(db, "INSERT INTO left_behind VALUES (1), (1)")
            if after == "more":
                run_later(db, "SELECT 1")
            elif after == "commit":
                commit_later(db)
            elif after == "waited for":
                refused.rows()

    for _ in range(3):
        with pytest.raises(DBAPIError) as told:
            leave()
        assert getattr(told.value.orig, "sqlstate", None) == "23505"
        assert left(slow_line) is None


def test_what_is_not_refused_is_kept(slow_line: Engine) -> None:
    with transaction(slow_line) as db, together(db):
        run_later(db, "CREATE TABLE left_behind (id int PRIMARY KEY)")
        run_later(db, "INSERT INTO left_behind VALUES (1)")
        commit_later(db)
    assert left(slow_line) == "left_behind"
    with transaction(slow_line) as db:
        run(db, "DROP TABLE left_behind")
