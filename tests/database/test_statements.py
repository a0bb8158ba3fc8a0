"""How statements reach the server: names and casts as they are written, errors as SQLAlchemy's, lost connections replaced."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError, InternalError, OperationalError

from ledger import database
from ledger.database import (
    commit_later,
    first,
    rows,
    run,
    run_later,
    run_many,
    scalar,
    together,
    transaction,
    transaction_that_asks,
)
from tests.stack import Stack

ADD: Final = "INSERT INTO sign_in_misses (miss_id, bucket) VALUES (:i, sha256('door'))"


def test_names_are_bound_and_all_else_stays_as_it_is_written(db: Connection) -> None:
    found = first(
        db, "SELECT :a::text AS a, CAST(:b AS int) + :b AS twice, '07:30:00'::time::text AS at, '100 %s %(a)s' AS percent,"
        " '{\"a\":1}'::jsonb AS body, int4range(1, 3) AS units", a="it's :b", b=21,
    )  # fmt: skip

    assert found is not None
    assert dict(found) == {
        "a": "it's :b", "twice": 42, "at": "07:30:00", "percent": "100 %s %(a)s", "body": {"a": 1}, "units": found["units"],
    }  # fmt: skip
    assert (found["units"].lower, found["units"].upper) == (1, 3)
    assert [type(row["x"]) for row in rows(db, "SELECT :x AS x", x=uuid4())] == [UUID]
    assert scalar(db, "SELECT 1 WHERE false") is None


def test_an_error_is_one_of_sqlalchemy_and_says_nothing_of_what_was_bound(db: Connection) -> None:
    with pytest.raises(DBAPIError) as told:
        scalar(db, "SELECT CAST(:secret AS text) || 1 / 0", secret="Ilse Brandt")

    assert told.value.orig is not None
    assert getattr(told.value.orig, "sqlstate", None) == "22012"
    assert "Ilse" not in str(told.value)


def _table(db: Connection) -> None:
    run(db, "CREATE TEMPORARY TABLE seen (id int PRIMARY KEY, what text) ON COMMIT DROP")


def test_many_and_together_run_in_their_order_and_count_what_they_did(db: Connection) -> None:
    _table(db)
    run_many(db, "INSERT INTO seen VALUES (:id, :what)", [{"id": 2, "what": "b"}, {"id": 1, "what": "a"}])
    with together(db):
        changed = run_later(db, "UPDATE seen SET what = what || 'x'")
        added = run_later(db, "INSERT INTO seen VALUES (:i, 'c'), (:j, 'd')", i=3, j=4)
        assert run(db, "DELETE FROM seen WHERE id = :i", i=4) == 1
        gone = run_later(db, "DELETE FROM seen WHERE id = 9")

    assert (changed.count, added.count, gone.count) == (2, 2, 0)
    assert [row["what"] for row in rows(db, "SELECT what FROM seen ORDER BY id")] == ["ax", "bx", "c"]


def _insert_together(db: Connection, *ids: int) -> None:
    with together(db):
        for number in ids:
            run_later(db, "INSERT INTO seen VALUES (:i, 'a')", i=number)


def test_answers_together_are_each_their_own_whenever_they_are_read(db: Connection) -> None:
    with together(db):
        when = run_later(
            db, "SELECT CAST(:d AS date) AS day, CAST(:u AS uuid) AS id", d="2026-12-01", u=str(UUID(int=7))
        )
        numbers = run_later(db, "SELECT n, CAST(n AS text) AS said FROM generate_series(1, :most) n", most=3)
        first_number = numbers.first()
        none = run_later(db, "SELECT 1 AS one WHERE false")

    assert none.rows() == []
    assert first_number is not None
    assert dict(first_number) == {"n": 1, "said": "1"}
    assert when.rows() == [{"day": date(2026, 12, 1), "id": UUID(int=7)}]
    assert numbers.rows() == []  # taken once, as from any cursor


def test_after_the_one_that_fails_none_of_those_together_runs(db: Connection) -> None:
    _table(db)
    savepoint = db.begin_nested()
    with pytest.raises(IntegrityError) as told:
        _insert_together(db, 1, 1, 2)
    savepoint.rollback()

    assert getattr(told.value.orig, "sqlstate", None) == "23505"
    assert scalar(db, "SELECT count(*) FROM seen") == 0


def _ask_after_a_failure(stack: Stack) -> None:
    with transaction(stack.console) as db, together(db):
        run_later(db, "SELECT 1 / 0")
        scalar(db, "SELECT 1")


def test_a_failure_that_is_met_in_the_middle_of_those_together_ends_them_and_the_connection_goes_on(
    stack: Stack,
) -> None:
    with transaction(stack.console) as db:
        backend = scalar(db, "SELECT pg_backend_pid()")
    with pytest.raises(DBAPIError):
        _ask_after_a_failure(stack)

    with transaction(stack.console) as db:
        assert scalar(db, "SELECT pg_backend_pid()") == backend


def test_what_was_only_asked_for_together_is_of_the_transaction_that_began_with_it(stack: Stack) -> None:
    miss = uuid4()
    with transaction(stack.console) as db:
        with together(db):
            run(db, "INSERT INTO sign_in_misses (miss_id, bucket) VALUES (:i, sha256('door'))", i=miss)
        assert scalar(db, "SELECT 1") == 1

    with transaction(stack.console) as db:
        assert scalar(db, "SELECT count(*) FROM sign_in_misses WHERE miss_id = :i", i=miss) == 1


def test_a_failure_together_leaves_nothing_of_the_transaction(stack: Stack) -> None:
    def leave() -> None:
        with transaction(stack.owner) as db, together(db):
            run_later(db, "CREATE TABLE left_behind (id int PRIMARY KEY)")
            run_later(db, "INSERT INTO left_behind VALUES (1), (1)")

    with pytest.raises(IntegrityError):
        leave()
    with transaction(stack.owner) as db:
        assert scalar(db, "SELECT to_regclass('left_behind')") is None


def test_a_commit_that_leaves_with_the_statements_before_it_keeps_all_of_them_or_none(stack: Stack) -> None:
    kept, lost = uuid4(), uuid4()
    add = "INSERT INTO sign_in_misses (miss_id, bucket) VALUES (:i, sha256('door'))"
    with transaction(stack.console) as db:
        with together(db):
            run_later(db, add, i=kept)
            commit_later(db)
        with pytest.raises(AssertionError, match="committed with the act"):
            scalar(db, "SELECT 1")
    with pytest.raises(DBAPIError):
        _add_fail_and_commit(stack, add, lost)

    with transaction(stack.console) as db:
        found = rows(db, "SELECT miss_id FROM sign_in_misses WHERE miss_id = ANY(:ids)", ids=[kept, lost])
    assert [row["miss_id"] for row in found] == [kept]


def _add_fail_and_commit(stack: Stack, add: str, miss_id: UUID) -> None:
    with transaction(stack.console) as db, together(db):
        run_later(db, add, i=miss_id)
        run_later(db, "SELECT 1 / 0")
        commit_later(db)


def test_a_statement_that_failed_and_was_passed_over_is_an_error_at_the_end_and_nothing_is_kept(stack: Stack) -> None:
    lost = uuid4()

    def passed_over() -> None:
        with transaction(stack.console) as db:
            run(db, ADD, i=lost)
            with suppress(DBAPIError):
                scalar(db, "SELECT 1 / 0")

    def passed_over_along() -> None:
        with transaction_that_asks(stack.console, uuid4(), "SELECT 1") as (db, _said):
            run(db, ADD, i=lost)
            with suppress(DBAPIError):
                db.execute(text("SELECT 1 / 0"))

    for leaves in (passed_over, passed_over_along):
        with pytest.raises(InternalError, match="nothing of it can be kept"):
            leaves()
    with transaction(stack.console) as db:
        assert scalar(db, "SELECT count(*) FROM sign_in_misses WHERE miss_id = :i", i=lost) == 0


def test_what_failed_in_a_savepoint_alone_is_passed_over(stack: Stack) -> None:
    kept = uuid4()
    with transaction(stack.console) as db:
        run(db, ADD, i=kept)
        with suppress(DBAPIError), db.begin_nested():
            scalar(db, "SELECT 1 / 0")
    with transaction(stack.console) as db:
        assert scalar(db, "SELECT count(*) FROM sign_in_misses WHERE miss_id = :i", i=kept) == 1


@pytest.mark.parametrize("inside", [True, False], ids=["in the block", "before it"])
def test_a_commit_after_a_failed_statement_that_was_passed_over_is_an_error(stack: Stack, *, inside: bool) -> None:
    lost = uuid4()

    def leaves() -> None:
        with transaction(stack.console) as db:
            if not inside:
                with suppress(DBAPIError):
                    scalar(db, "SELECT 1 / 0")
            with together(db):
                run_later(db, "SELECT 1")
                if inside:
                    with suppress(DBAPIError):
                        scalar(db, "SELECT 1 / 0")
                else:
                    run_later(db, ADD, i=lost)
                commit_later(db)

    with pytest.raises(DBAPIError):
        leaves()
    with transaction(stack.console) as db:
        assert scalar(db, "SELECT count(*) FROM sign_in_misses WHERE miss_id = :i", i=lost) == 0


BY_SQLALCHEMY: dict[str, Callable[[Connection], Any]] = {
    "text": lambda db: db.execute(text("SELECT 1")),
    "as the driver takes it": lambda db: db.exec_driver_sql("SELECT 1"),
    "without parameters": lambda db: db.execution_options(no_parameters=True).exec_driver_sql("SELECT 1"),
    "many": lambda db: db.execute(text("SELECT set_config('onceback.merchant', :m, true)"), [{"m": ""}, {"m": ""}]),
}


@pytest.mark.parametrize("how", BY_SQLALCHEMY)
def test_no_statement_of_any_kind_follows_a_commit_that_left_with_the_act(stack: Stack, how: str) -> None:
    with transaction(stack.console) as db:
        with together(db):
            run_later(db, "SELECT 1")
            commit_later(db)
        with pytest.raises(AssertionError, match="committed with the act"):
            BY_SQLALCHEMY[how](db)


@pytest.mark.parametrize("how", BY_SQLALCHEMY)
def test_whatever_the_first_statement_is_the_tenant_is_set_before_it(stack: Stack, how: str) -> None:
    merchant = uuid4()
    with transaction(stack.console, merchant, read_only=True) as db:
        if how == "many":
            db.execute(text("SELECT set_config('onceback.token', :m, true)"), [{"m": "a"}, {"m": "b"}])
        else:
            BY_SQLALCHEMY[how](db)
        found = first(
            db, "SELECT current_setting('onceback.merchant') AS m, current_setting('transaction_read_only') AS r"
        )
        assert found is not None
        assert dict(found) == {"m": str(merchant), "r": "on"}
        if how == "many":
            assert scalar(db, "SELECT current_setting('onceback.token')") == "b"


def test_a_read_only_transaction_cannot_write(stack: Stack) -> None:
    with pytest.raises(InternalError, match="read-only"), transaction(stack.owner, read_only=True) as db:
        run(db, "CREATE TABLE written (id int)")


def test_no_tenant_is_left_over_and_none_is_smuggled_in(stack: Stack) -> None:
    merchant = uuid4()
    token = "x', true), set_config('onceback.merchant', 'y"
    with transaction(stack.owner, merchant, token_id=token) as db:
        found = first(db, "SELECT current_setting('onceback.merchant') AS m, current_setting('onceback.token') AS t")
        assert found is not None
        assert (found["m"], found["t"]) == (str(merchant), token)
    with transaction(stack.owner) as db:
        assert scalar(db, "SELECT current_setting('onceback.merchant')") == ""


def test_what_is_asked_along_with_the_begin_is_answered_in_the_tenant_and_smuggles_nothing_in(stack: Stack) -> None:
    merchant, word = uuid4(), "O'Brien'); SELECT set_config('onceback.merchant', '', true); --"
    asks = "SELECT :w || '·' || current_setting('onceback.merchant') WHERE :yes"
    with transaction_that_asks(stack.console, merchant, asks, w=word, yes=True) as (db, said):
        assert said == f"{word}·{merchant}"
        assert scalar(db, "SELECT current_setting('onceback.merchant')") == str(merchant)
    with transaction_that_asks(stack.console, merchant, asks, w=word, yes=False) as (_db, said):
        assert said is None


def test_a_question_that_fails_along_with_the_begin_fails_the_transaction_and_no_later_one(stack: Stack) -> None:
    with pytest.raises(DBAPIError), transaction_that_asks(stack.console, uuid4(), "SELECT 1 / (:n - 1)", n=1):
        raise AssertionError("it began")
    with transaction(stack.console) as db:
        assert scalar(db, "SELECT 1") == 1


def test_a_connection_the_server_ended_while_it_rested_is_replaced_unseen(stack: Stack) -> None:
    with transaction(stack.console) as db:
        backend = scalar(db, "SELECT pg_backend_pid()")
    stack.server.run(f"SELECT pg_terminate_backend({backend}, 5000)".encode())
    with transaction(stack.console) as db:
        assert scalar(db, "SELECT pg_backend_pid()") != backend


def test_a_connection_that_ends_inside_a_transaction_fails_it_and_no_later_one(stack: Stack) -> None:
    def ended() -> None:
        with transaction(stack.console) as db:
            stack.server.run(f"SELECT pg_terminate_backend({scalar(db, 'SELECT pg_backend_pid()')}, 5000)".encode())
            scalar(db, "SELECT 1")

    with pytest.raises(OperationalError) as told:
        ended()
    assert told.value.connection_invalidated
    with transaction(stack.console) as db:
        assert scalar(db, "SELECT 1") == 1


def test_a_server_that_goes_away_while_a_transaction_begins_is_an_error_that_may_be_tried_again(stack: Stack) -> None:
    with stack.worker.connect() as db:
        raw = db.connection.driver_connection
        assert raw is not None
        with socket.socket(fileno=os.dup(raw.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)
        with pytest.raises(OperationalError):
            database._begin(db, (False, "", "", ""))
        assert db.invalidated
