"""The web process of a test, and channels that call it. Every refusal has to be a whole problem document."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from ledger.api_tokens import mint, secret_hash
from tests.api.web import web_app
from tests.stack import Stack
from tests.world import Token, World

_numbers = itertools.count(1)
_APPS = pytest.StashKey[dict[str, Flask]]()


@dataclass
class Caller:
    """One channel: a token and the address it calls from. Keys are new unless one is given."""

    app: Flask
    token: Token | None
    address: str = "127.0.0.1"
    headers: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, path: str, **more: Any) -> TestResponse:
        headers = {**self.headers, **more.pop("headers", {})}
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token.text}")
        environ = {"REMOTE_ADDR": self.address}
        answer = self.app.test_client(use_cookies=False).open(
            path, method=method, headers=headers, environ_overrides=environ, **more
        )
        if answer.status_code >= 400:
            assert answer.content_type == "application/problem+json"
            told = answer.get_json(force=True)
            assert told["status"] == answer.status_code
            assert told["type"] == f"/api/v1/problems/{told['code']}"
            assert all(told[name] for name in ("title", "detail", "what_to_do"))
        return answer

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.call("GET", f"/api/v1{path}", **more)

    def put(self, path: str, body: Any, **more: Any) -> TestResponse:
        return self.call("PUT", f"/api/v1{path}", json=body, **more)

    def post(self, path: str, body: Any, key: str | None = None, **more: Any) -> TestResponse:
        headers = {"Idempotency-Key": key or f"key-{next(_numbers)}", **more.pop("headers", {})}
        return self.call("POST", f"/api/v1{path}", json=body, headers=headers, **more)

    def open(
        self, *lines: tuple[str, int], order: str = "A-20417", key: str | None = None, **more: Any
    ) -> TestResponse:
        """Ilse's return, asked by this channel."""
        headers = more.pop("headers", {})
        return self.post("/returns", wish(*lines, order=order, **more), key, headers=headers)


def wish(*lines: tuple[str, int], order: str = "A-20417", reference: str = "talk-1", **more: Any) -> dict[str, Any]:
    """The body of a return of (line, quantity)."""
    asked = [{"line": line, "quantity": quantity} for line, quantity in lines or (("TEE", 1),)]
    return {"order": order, "lines": asked, "reason": "size", "conversation": {"reference": reference}} | more


def fact(answer: TestResponse) -> Any:
    return answer.get_json(force=True)


def add_token(stack: Stack, world: World, channel: str, scopes: tuple[str, ...]) -> Token:
    """Another token of the merchant, put there by its owner."""
    made, _ = mint("test")
    with stack.admin() as admin:
        admin.execute(
            "INSERT INTO api_tokens (merchant_id, token_id, secret_hash, name, channel, scopes, expires_at)"
            " VALUES (%s, %s, %s, %s, %s, %s, now() + interval '30 days')",
            [world.merchant_id, made.token_id, secret_hash(made.secret), channel, channel, list(scopes)],
        )
    return Token(made.token_id, made.secret, channel, scopes)


@pytest.fixture
def app(stack: Stack, request: pytest.FixtureRequest) -> Flask:
    """One web process for all tests that have this database one after the other."""
    made = request.config.stash.setdefault(_APPS, {})
    if stack.name not in made:
        made[stack.name] = web_app(stack)
    return made[stack.name]


@pytest.fixture
def calls(app: Flask) -> Callable[[Token | None], Caller]:
    return lambda token: Caller(app, token)


@pytest.fixture
def chat(app: Flask, world: World) -> Caller:
    return Caller(app, world.chat)


@pytest.fixture
def warehouse(app: Flask, world: World) -> Caller:
    return Caller(app, world.warehouse)


@pytest.fixture
def shop(app: Flask, world: World) -> Caller:
    return Caller(app, world.shop)
