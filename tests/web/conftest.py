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
from tests.compiled import keep_compiled
from tests.emptied import Lender
from tests.stack import Stack
from tests.web.desk import Desk
from tests.web.pages import Browser
from tests.world import World, build_world

ORIGIN = "https://console.example"
COOKIE_KEY = "Vq7-test-only-Jx0e2LrW8sYzKd4uTn6hPb1m"

REAL = passwords._hasher
_APPS = pytest.StashKey[dict[str, Flask]]()


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
def own_web() -> None:
    """Asked for by a test that adds views to its web process or changes it in another way: `app` is then nobody else's."""


@pytest.fixture
def app(request: pytest.FixtureRequest, stack: Stack, world: World, quick_hashing: None) -> Iterator[Flask]:
    """A web process; one for all tests that have this database one after the other, but for those with `own_web`."""
    if "own_web" in request.fixturenames:
        made = keep_compiled(create_app(web_settings(stack)))
        yield made
        made.extensions["onceback"].engine.dispose()
        return
    made = _shared_web(stack, request.config)
    before = dict(made.view_functions), made.wsgi_app
    yield made
    assert (made.view_functions, made.wsgi_app) == before, "the test changes its web process: let it ask for own_web"


def _shared_web(stack: Stack, config: pytest.Config) -> Flask:
    kept = config.stash.setdefault(_APPS, {})
    if stack.name not in kept:
        for other in kept.values():  # of a database that is gone, or that will be lent again later
            other.extensions["onceback"].engine.dispose()
        kept[stack.name] = keep_compiled(create_app(web_settings(stack)))
    return kept[stack.name]


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
def shared_stack(lender: Lender) -> Iterator[Stack]:
    """One database for the tests of a file that each keep to a merchant of their own."""
    with lender.lend() as lent:
        yield lent


@pytest.fixture(scope="module")
def shared_app(shared_stack: Stack, request: pytest.FixtureRequest) -> Flask:
    build_world(shared_stack, "first")
    return _shared_web(shared_stack, request.config)


@pytest.fixture
def shared_desk(shared_stack: Stack, shared_app: Flask, quick_hashing: None) -> Desk:
    """The desks of a new merchant in the file's database, on the file's web process."""
    world = build_world(shared_stack, f"harbour-{next(_numbers)}")
    return Desk(shared_stack, world, lambda **other: Browser(shared_app, ORIGIN, **other))
