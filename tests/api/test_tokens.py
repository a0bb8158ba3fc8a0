"""S62–S64: who a channel is, what its token may do, and what a stranger learns by asking (nothing)."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from structlog.testing import capture_logs
from werkzeug.test import TestResponse

from console.api import bodies
from ledger.api_tokens import MAX_MISSES, mint, parse_token, secret_hash
from tests.api.conftest import Caller, add_token, fact, wish
from tests.api.web import web_app
from tests.lives import count
from tests.stack import Stack
from tests.world import Token, World, build_world

Calls = Callable[[Token | None], Caller]


def change(stack: Stack, token: Token, setting: str) -> None:
    with stack.admin() as admin:
        admin.execute(f"UPDATE api_tokens SET {setting} WHERE token_id = %s", [token.token_id])  # noqa: S608


def face(answer: TestResponse) -> tuple[int, bytes, list[tuple[str, str]]]:
    """Everything a caller can see, but for the random nonce of its content policy."""
    headers = [(name, re.sub("nonce-[^']+", "nonce", value)) for name, value in answer.headers.to_wsgi_list()]
    return answer.status_code, answer.get_data(), sorted(headers)


def test_every_unusable_token_is_told_the_same(calls: Calls, stack: Stack, world: World) -> None:
    usable = calls(world.chat)
    assert usable.open().status_code == 201
    faces = [face(calls(None).open())]
    faces += [
        face(usable.open(headers={"Authorization": text}))
        for text in ("Bearer", "Basic Y2hhdDpjaGF0", "Bearer ob_test_x_y")
    ]
    faces.append(face(calls(dataclasses.replace(world.chat, secret="0" * 64)).open()))
    faces.append(face(calls(dataclasses.replace(world.chat, token_id="a" * 12)).open()))
    faces.append(
        face(usable.open(headers={"Authorization": f"Bearer {world.chat.text.replace('ob_test', 'ob_live')}"}))
    )
    change(stack, world.chat, "networks = '{10.1.0.0/16}'")
    faces.append(face(usable.open()))
    change(stack, world.chat, "networks = '{10.1.0.0/16,127.0.0.0/8}'")
    assert usable.open().status_code == 200
    for setting in ("expires_at = now() - interval '1 second'", "revoked_at = now()"):
        change(stack, world.chat, "created_at = now() - interval '2 days'")
        change(stack, world.chat, setting)
        faces.append(face(usable.open()))
    assert faces[0][0] == 401
    assert set(map(str, faces)) == {str(faces[0])}


def test_a_token_works_from_its_own_networks_only(app: Flask, stack: Stack, world: World) -> None:
    change(stack, world.chat, "networks = '{192.0.2.0/24,2001:db8::/32}'")
    asked = {address: Caller(app, world.chat, address).open().status_code
             for address in ("192.0.2.9", "2001:db8::5", "::ffff:192.0.2.9", "192.0.3.9", "unknown")}  # fmt: skip
    assert asked == {"192.0.2.9": 201, "2001:db8::5": 200, "::ffff:192.0.2.9": 200, "192.0.3.9": 401, "unknown": 401}


def test_use_is_shown(chat: Caller, stack: Stack, world: World) -> None:
    used = "SELECT count(*) FROM api_tokens WHERE merchant_id = :m AND token_id = :t AND last_used_at > now() - interval '1 minute'"
    assert count(stack.console, world, used, t=world.chat.token_id) == 0
    chat.open()
    assert count(stack.console, world, used, t=world.chat.token_id) == 1


@pytest.mark.parametrize("path", ["returns/C-1?token={}", "returns/{}", "nowhere/{}", "openapi.json?{}"])
def test_a_token_in_the_address_is_refused_and_revoked(calls: Calls, path: str, world: World, stack: Stack) -> None:
    stranger = calls(None)
    answer = stranger.call("GET", "/api/v1/" + path.format(world.chat.text))
    assert (answer.status_code, fact(answer)["code"]) == (400, "token-in-address")
    assert world.chat.secret not in answer.get_data(as_text=True)
    assert calls(world.chat).open().status_code == 401
    revoked = "SELECT count(*) FROM api_tokens WHERE merchant_id = :m AND revoked_at IS NOT NULL"
    assert count(stack.console, world, revoked) == 1


def test_who_knows_only_the_id_of_a_token_cannot_have_it_revoked(calls: Calls, world: World) -> None:
    guessed = dataclasses.replace(world.chat, secret="1" * 64)
    assert calls(None).call("GET", f"/api/v1/returns/{guessed.text}").status_code == 400
    assert calls(world.chat).open().status_code == 201


def test_a_token_revoked_while_its_request_runs_does_nothing(
    app: Flask, chat: Caller, stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = bodies.read_body

    def read_and_lose_the_token(*asked: Any) -> Any:
        change(stack, world.chat, "revoked_at = now()")
        return read(*asked)

    monkeypatch.setattr("console.api.returns.read_body", read_and_lose_the_token)
    assert chat.open().status_code == 401
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == 0


def test_each_act_needs_its_own_scope(chat: Caller, warehouse: Caller, shop: Caller) -> None:
    receipt = {"order": "A-20417", "lines": [{"line": "TEE", "received": 1}]}
    answers = [
        chat.post("/receipts", receipt), chat.put("/orders/A-9", {}), warehouse.open(), warehouse.get("/returns/C-20001"),
        warehouse.put("/orders/A-9", {}), shop.open(), shop.get("/returns/C-20001"), shop.post("/receipts", receipt),
    ]  # fmt: skip
    assert {(answer.status_code, fact(answer)["code"]) for answer in answers} == {(403, "not-allowed")}


def test_a_staff_cookie_beside_a_token_is_refused(chat: Caller) -> None:
    answer = chat.open(headers={"Cookie": "__Host-onceback=abc"})
    assert (answer.status_code, fact(answer)["code"]) == (400, "two-identities")


def test_a_body_that_names_another_merchant_or_channel_is_refused_and_its_own_is_not(
    chat: Caller, shop: Caller
) -> None:
    for foreign in ({"merchant": "northwind"}, {"channel": "counter"}, {"merchant": None}):
        answer = chat.post("/returns", wish(("TEE", 1), **foreign))
        assert (answer.status_code, fact(answer)["code"]) == (400, "other-merchant")
    assert shop.put("/orders/A-9", {"merchant": "northwind"}).status_code == 400
    assert chat.post("/returns", wish(("TEE", 1), merchant="harbour", channel="chat")).status_code == 201


@pytest.mark.parametrize(
    "field", ["amount", "amount_minor", "currency", "destination", "actor", "role", "strength", "case_id", "approved"]
)
def test_what_is_decided_here_is_never_taken_from_a_body(chat: Caller, warehouse: Caller, field: str) -> None:
    body = wish(("TEE", 1))
    line, talk = {**body["lines"][0], field: 1}, {**body["conversation"], field: "x"}
    for foreign in ({**body, field: 1}, {**body, "lines": [line]}, {**body, "conversation": talk}):
        answer = chat.post("/returns", foreign)
        assert answer.status_code == 422
        assert fact(answer)["errors"][0]["field"].endswith(field)
    receipt = {"order": "A-20417", "lines": [{"line": "TEE", "received": 1}], field: 1}
    assert warehouse.post("/receipts", receipt).status_code == 422


def test_an_absent_and_a_foreign_return_look_the_same(app: Flask, stack: Stack, world: World) -> None:
    northwind = build_world(stack, "northwind")
    own = fact(Caller(app, world.chat).open())["case"]
    foreign = fact(Caller(app, northwind.chat).open())["case"]
    with stack.admin() as admin:
        opened = admin.execute("SELECT count(*) FROM cases").fetchone()
    asked = [
        Caller(app, northwind.chat).get(f"/returns/{number}")
        for number in (own, "C-99999", "C-0", "nothing", "C-१", "9" * 40)
    ]
    assert len({str(face(answer)) for answer in asked}) == 1
    assert asked[0].status_code == 404
    assert Caller(app, northwind.chat).get(f"/returns/{foreign}").status_code == 200
    assert opened == (2,)


def test_a_return_of_another_channel_of_the_same_merchant_is_not_shown(
    chat: Caller, app: Flask, stack: Stack, world: World
) -> None:
    case = fact(chat.open(("LAMP", 1)))["case"]
    voice = Caller(app, add_token(stack, world, "voice", ("cases:open", "cases:read")))
    hidden, absent = voice.get(f"/returns/{case}"), voice.get("/returns/C-99999")
    assert face(hidden) == face(absent)
    assert voice.open(("LAMP", 1), reference="voice-1").status_code == 200
    assert voice.get(f"/returns/{case}").status_code == 200


def test_another_merchants_order_looks_like_none(app: Flask, stack: Stack, world: World) -> None:
    northwind = build_world(stack, "northwind")
    assert northwind.order.external_ref == world.order.external_ref
    with stack.admin() as admin:
        admin.execute("UPDATE orders SET external_ref = 'N-1' WHERE merchant_id = %s", [northwind.merchant_id])
    asked = [Caller(app, world.chat).open(order=order) for order in ("N-1", "N-2")]
    assert face(asked[0]) == face(asked[1])
    assert asked[0].status_code == 404


def test_guessing_references_is_limited_and_raises_one_alarm(chat: Caller, stack: Stack, world: World) -> None:
    statuses = [chat.open(order=f"G-{number}").status_code for number in range(MAX_MISSES + 3)]
    assert statuses == [404] * MAX_MISSES + [429] * 3
    limited = chat.open()
    assert limited.status_code == 429
    assert int(limited.headers["Retry-After"]) > 0
    alarms = "SELECT count(*) FROM alarms WHERE merchant_id = :m AND kind = 'reference_guessing'"
    assert count(stack.console, world, alarms) == 1


def test_no_token_and_no_word_of_a_customer_is_in_the_log(calls: Calls, world: World) -> None:
    body = wish(("TEE", 1), reference="talk-marked")
    body["conversation"]["text"] = "marked words of Ilse"
    stranger = calls(dataclasses.replace(world.chat, secret="5ec2e7" * 11))
    with capture_logs() as logged:
        calls(world.chat).post("/returns", body, "key-marked")
        calls(world.chat).post("/returns", body | {"relation": "separate", "order": "A-MARKED"}, "key-marked-2")
        stranger.post("/returns", body)
        calls(world.warehouse).post("/returns", body)
        calls(None).call("GET", f"/api/v1/returns/{world.chat.text}")
    assert {entry["event"] for entry in logged} == {"api_refused", "token_in_address"}
    text = repr(logged)
    assert not [secret for secret in (world.chat.secret, "5ec2e7", "marked", "MARKED", "Bearer") if secret in text]


def test_a_production_web_process_takes_live_tokens_only(stack: Stack, world: World) -> None:
    production = web_app(stack, environment="production", public_origin="https://desk.example")
    assert Caller(production, world.chat).open().status_code == 401
    live = world.chat.text.replace("ob_test", "ob_live")
    assert Caller(production, None).open(headers={"Authorization": f"Bearer {live}"}).status_code == 201


def test_a_minted_token_reads_back_and_shows_no_secret() -> None:
    token, text = mint("test")
    assert parse_token(text) == token
    assert token.secret not in repr(token)
    assert len(token.secret) == 64
    assert len(secret_hash(token.secret)) == 32
    assert parse_token(f"{text}!") is None
