"""DESIGN §2, rule 1: the same key gives the stored answer, another body 422, a running request 409; per token (S64)."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from flask import Flask
from sqlalchemy.exc import OperationalError

from ledger import cases, idempotency
from ledger.database import transaction
from tests.api.conftest import Caller, add_token, fact, wish
from tests.api.paying import paid
from tests.lives import count, race
from tests.stack import Stack
from tests.world import Token, World, add_order

CASES = "SELECT count(*) FROM cases WHERE merchant_id = :m"
KEYS = "SELECT count(*) FROM idempotency_keys WHERE merchant_id = :m"


def test_the_same_key_and_body_give_the_stored_answer(chat: Caller, stack: Stack, world: World) -> None:
    first = chat.open(("TEE", 2), key="order-desk-1")
    again = chat.open(("TEE", 2), key="order-desk-1")
    assert (again.status_code, fact(again)) == (first.status_code, fact(first)) == (201, fact(first))
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert count(stack.console, world, CASES) == 1
    assert count(stack.console, world, "SELECT count(*) FROM conversations WHERE merchant_id = :m") == 1


def test_another_spelling_of_the_same_request_is_the_same_request(chat: Caller) -> None:
    first = chat.open(("TEE", 2), key="k")
    body = dict(reversed(wish(("TEE", 2)).items())) | {"relation": None}
    body["conversation"]["text"] = ""
    spelled = json.dumps(body, indent=3).replace("TEE", "\\u0054EE")
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    again = chat.call("POST", "/api/v1/returns", data=spelled, headers=headers)
    assert fact(again) == fact(first)
    assert again.headers["Idempotent-Replayed"] == "true"


def test_the_same_key_with_another_body_or_act_is_refused(chat: Caller, stack: Stack, world: World) -> None:
    chat.open(("TEE", 2), key="k")
    other = chat.open(("TEE", 3), key="k")
    assert (other.status_code, fact(other)["code"]) == (422, "idempotency-key-reused")
    assert count(stack.console, world, CASES) == 1


def test_two_tokens_may_use_one_key_each_for_its_own_request(
    app: Flask, chat: Caller, stack: Stack, world: World
) -> None:
    voice = Caller(app, add_token(stack, world, "voice", ("cases:open",)))
    one = chat.open(("TEE", 1), key="1")
    two = voice.open(("LAMP", 1), reference="call-1", key="1", relation="separate")
    assert (one.status_code, two.status_code) == (201, 201)
    assert fact(one)["case"] != fact(two)["case"]
    assert fact(chat.open(("TEE", 1), key="1"))["case"] == fact(one)["case"]
    with stack.admin() as admin:
        keys = admin.execute("SELECT provider_key FROM intents").fetchall()
    assert all("onceback-refund-" in key for (key,) in keys)


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "ключ", "two words"])
def test_a_post_without_a_usable_key_does_nothing(chat: Caller, key: str, stack: Stack, world: World) -> None:
    headers = {"Idempotency-Key": key.encode().decode("latin-1")} if key else {}
    refused = chat.call("POST", "/api/v1/returns", json=wish(), headers=headers)
    assert (refused.status_code, fact(refused)["code"]) == (400, "key-missing")
    assert count(stack.console, world, CASES) == 0


def test_a_ruling_is_stored_and_stays_what_it_was(chat: Caller, stack: Stack, world: World) -> None:
    case = fact(chat.open(("LAMP", 1)))["case"]
    paid(stack, world, case, ("LAMP", 1))
    refused = chat.open(("LAMP", 1), reference="r2", key="again")
    replayed = chat.open(("LAMP", 1), reference="r2", key="again")
    assert fact(refused)["code"] == "already-refunded"
    assert fact(replayed) == fact(refused)
    assert chat.open(("LAMP", 1), reference="r2", key="again", customer="C-1001").status_code == 422
    assert fact(chat.open(("LAMP", 1), reference="r2", key="proven", customer="C-1001"))["refunds"]
    assert replayed.content_type == "application/problem+json"
    assert replayed.headers["Idempotent-Replayed"] == "true"


def test_a_ruling_leaves_nothing_of_its_work_behind(chat: Caller, stack: Stack, world: World) -> None:
    chat.open(("TEE", 1), reference="r1")
    before = count(stack.console, world, "SELECT count(*) FROM events WHERE merchant_id = :m")
    assert chat.open(("TEE", 1), reference="r2").status_code == 409
    assert count(stack.console, world, "SELECT count(*) FROM events WHERE merchant_id = :m") == before
    assert count(stack.console, world, "SELECT count(*) FROM conversations WHERE merchant_id = :m") == 1


def test_what_is_not_final_keeps_the_key_usable(chat: Caller, stack: Stack, world: World) -> None:
    assert chat.open(("TEE", 1), order="A-LATE", key="k").status_code == 404
    assert chat.open(("SOCKS", 1), key="k2").status_code == 422
    assert count(stack.console, world, KEYS) == 0
    add_order(stack, world, "A-LATE")
    assert chat.open(("TEE", 1), order="A-LATE", key="k").status_code == 201


def test_a_request_that_is_still_running_is_said_to_be(chat: Caller, stack: Stack, world: World) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        assert idempotency.take_key(db, idempotency.Key(world.merchant_id, world.chat.actor, "k"), bytes(32)) is None
        busy = chat.open(("TEE", 1), key="k")
        assert (busy.status_code, fact(busy)["code"]) == (409, "idempotency-key-in-use")
        assert int(busy.headers["Retry-After"]) >= 1
        assert chat.open(("TEE", 1), key="other").status_code == 201
    # Ended without an answer, as a crash would: the key is free.
    assert chat.open(("LAMP", 1), reference="r2", key="k").status_code == 201


def test_the_same_key_twice_at_once_does_the_work_once(chat: Caller, stack: Stack, world: World) -> None:
    for number in range(15):
        order = add_order(stack, world, f"B-{number}").external_ref
        raced = race(*[partial(chat.open, ("TEE", 1), order=order, key=f"race-{order}")] * 2)
        assert raced.refusals == []
        statuses = sorted(answer.status_code for answer in raced.results)
        # The other one waits for nobody: it is told to come back, or comes after and gets the stored answer.
        assert statuses in ([201, 201], [201, 409])
        done = [fact(answer) for answer in raced.results if answer.status_code == 201]
        assert all(answer == done[0] for answer in done)
        assert fact(chat.open(("TEE", 1), order=order, key=f"race-{order}")) == done[0]
    assert count(stack.console, world, CASES) == 15
    assert count(stack.console, world, KEYS) == 15


def test_without_the_lock_on_the_key_both_do_the_work(
    chat: Caller, stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control. Units are then kept apart by the order's lock alone, and each request counts as one of its own."""
    work: list[int] = []
    opened = cases.open_return

    def counted(*asked: Any) -> Any:
        work.append(1)
        return opened(*asked)

    monkeypatch.setattr("console.api.returns.open_return", counted)
    race(*[lambda: chat.open(("TEE", 1), key="guarded")] * 2)
    assert len(work) == 1
    monkeypatch.setattr("console.api.idempotency.take_key", lambda *_: None)
    monkeypatch.setattr("console.api.idempotency.keep_answer", lambda *_: None)
    work.clear()
    race(*[lambda: chat.open(("TEE", 1), key="unguarded")] * 2)
    assert len(work) == 2


def test_a_process_killed_before_its_commit_leaves_nothing_and_the_repeat_does_it(
    chat: Caller, stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as broken:
        broken.setattr("console.api.idempotency.keep_answer", killed)
        with pytest.raises(SystemExit):
            chat.open(("TEE", 1), key="k")
    nothing_and_then_once(chat, stack, world)


def test_a_connection_lost_before_the_commit_is_told_as_not_known_and_the_repeat_does_it(
    chat: Caller, stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        _die_at_commit(broken, stack)
        lost = chat.open(("TEE", 1), key="k")
        assert (lost.status_code, fact(lost)["code"]) == (503, "try-again")
        assert "is not known" in fact(lost)["detail"]
    nothing_and_then_once(chat, stack, world)


def test_a_connection_lost_after_the_commit_is_told_as_not_known_and_the_repeat_says_what_was_done(
    chat: Caller, stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = psycopg.Connection.commit

    def and_lose(raw: psycopg.Connection[Any]) -> None:
        writes = raw.info.user == "onceback_console" and raw.execute(_WROTE).fetchone() != (0,)
        commit(raw)
        if writes:
            raw.close()
            raise psycopg.OperationalError("the connection is lost")

    with monkeypatch.context() as broken:
        broken.setattr(psycopg.Connection, "commit", and_lose)
        lost = chat.open(("TEE", 1), key="k")
    assert (lost.status_code, "is not known" in fact(lost)["detail"]) == (503, True)
    assert count(stack.console, world, CASES) == 1
    again = chat.open(("TEE", 1), key="k")
    assert (again.status_code, "Idempotent-Replayed" in again.headers) == (201, True)
    assert count(stack.console, world, CASES) == 1


_WROTE = "SELECT count(*) FROM idempotency_keys"


def nothing_and_then_once(chat: Caller, stack: Stack, world: World) -> None:
    assert count(stack.console, world, CASES) == 0
    assert count(stack.console, world, KEYS) == 0
    again = chat.open(("TEE", 1), key="k")
    assert again.status_code == 201
    assert "Idempotent-Replayed" not in again.headers


def _die_at_commit(broken: pytest.MonkeyPatch, stack: Stack) -> None:
    """The server ends the connection after the work and before its commit."""
    keep: Callable[..., None] = idempotency.keep_answer

    def keep_and_lose_the_connection(db: Any, *kept: Any) -> None:
        keep(db, *kept)
        pid = db.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        with stack.admin() as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])

    broken.setattr("console.api.idempotency.keep_answer", keep_and_lose_the_connection)


def test_an_answer_lost_after_the_commit_is_found_again(
    chat: Caller, stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as broken:
        broken.setattr("console.api.idempotency.answer", lost)
        with pytest.raises(SystemExit):
            chat.open(("TEE", 2), key="k")
    assert count(stack.console, world, CASES) == 1
    again = chat.open(("TEE", 2), key="k")
    assert (again.status_code, fact(again)["result"]) == (201, "opened")
    assert again.headers["Idempotent-Replayed"] == "true"


def test_an_error_of_ours_is_not_stored_and_shows_nothing(
    chat: Caller, stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken_work(*_: Any) -> Any:
        raise ZeroDivisionError("secret detail of ilse@example.org")

    with monkeypatch.context() as broken:
        broken.setattr("console.api.returns.open_return", broken_work)
        failed = chat.open(("TEE", 1), key="k")
    assert (failed.status_code, fact(failed)["code"]) == (500, "internal")
    assert "secret detail" not in failed.get_data(as_text=True) + capsys.readouterr().out
    assert fact(failed)["reference"] in fact(failed)["detail"]
    assert count(stack.console, world, KEYS) == 0
    assert chat.open(("TEE", 1), key="k").status_code == 201


def test_a_busy_database_is_said_to_be_busy(chat: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy(Exception):
        sqlstate = "55P03"

    def waiting(*_: Any) -> Any:
        raise OperationalError("SELECT secret", {}, Busy())

    monkeypatch.setattr("console.api.returns.open_return", waiting)
    busy = chat.open()
    assert (busy.status_code, fact(busy)["code"]) == (503, "try-again")
    assert "was not carried out" in fact(busy)["detail"]
    assert "SELECT" not in busy.get_data(as_text=True)


def test_keys_are_kept_under_the_token_that_sent_them(
    calls: Callable[[Token | None], Caller], stack: Stack, world: World
) -> None:
    calls(world.chat).open(key="k")
    with stack.admin() as admin:
        assert admin.execute("SELECT scope, key FROM idempotency_keys").fetchall() == [(world.chat.actor, "k")]
