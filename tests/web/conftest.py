"""Fixtures of the web tests: `app` on the test's own database, and `browser()` for each person at a machine."""

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from argon2 import PasswordHasher
from flask import Flask

from app import create_app
from console import passwords
from ledger.seals import new_key
from settings import Settings
from tests.stack import Server, Stack, fresh_stack
from tests.web.desk import Desk
from tests.web.pages import Browser
from tests.world import World, build_world

ORIGIN = "https://console.example"
COOKIE_KEY = "Vq7-test-only-Jx0e2LrW8sYzKd4uTn6hPb1m"

REAL = passwords._hasher


def web_settings(stack: Stack, **other: Any) -> Settings:
    """Settings of a web process of this stack; `other` replaces some."""
    usual: dict[str, Any] = {
        "environment": "test",
        "database_url": stack.console_url,
        "public_origin": ORIGIN,
        "cookie_key": COOKIE_KEY,
        "seal_key": new_key("seal-test"),
        "web_pool_size": 8,
    }
    return Settings(**(usual | other))


@pytest.fixture
def quick_hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2id at its smallest. A test that measures or shows the real work asks for `real_hashing`."""
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr(passwords, "_nobody", cache(passwords._nobody.__wrapped__))


@pytest.fixture
def real_hashing(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The console's own parameters."""
    monkeypatch.setattr(passwords, "_hasher", REAL)
    monkeypatch.setattr(passwords, "_nobody", cache(passwords._nobody.__wrapped__))
    passwords.prepare()


@pytest.fixture
def app(stack: Stack, world: World, quick_hashing: None) -> Iterator[Flask]:
    made = create_app(web_settings(stack))
    yield made
    made.extensions["onceback"].engine.dispose()


@pytest.fixture
def open_browser(app: Flask) -> Callable[..., Browser]:
    """Makes a browser; each has its own cookies, address and name."""

    def opened(**other: Any) -> Browser:
        return Browser(app, ORIGIN, **other)

    return opened


@pytest.fixture
def desk(stack: Stack, world: World, open_browser: Callable[..., Browser]) -> Desk:
    """Harbour's desks with the people of the world at them."""
    return Desk(stack, world, open_browser)


_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def shared_stack(server: Server) -> Iterator[Stack]:
    """One database for the tests of a file that each keep to a merchant of their own."""
    with fresh_stack(server) as made:
        yield made


@pytest.fixture(scope="module")
def shared_app(shared_stack: Stack) -> Iterator[Flask]:
    build_world(shared_stack, "first")
    made = create_app(web_settings(shared_stack))
    yield made
    made.extensions["onceback"].engine.dispose()


@pytest.fixture
def shared_desk(shared_stack: Stack, shared_app: Flask, quick_hashing: None) -> Desk:
    """The desks of a new merchant in the file's database, on the file's web process."""
    world = build_world(shared_stack, f"harbour-{next(_numbers)}")
    return Desk(shared_stack, world, lambda **other: Browser(shared_app, ORIGIN, **other))
