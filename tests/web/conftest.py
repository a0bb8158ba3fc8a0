"""Fixtures of the web tests: `app` on the test's own database, and `browser()` for each person at a machine."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from app import create_app
from ledger.seals import new_key
from settings import Settings
from tests.stack import Stack
from tests.web.pages import Browser
from tests.world import World

ORIGIN = "https://console.example"
COOKIE_KEY = "Vq7-test-only-Jx0e2LrW8sYzKd4uTn6hPb1m"


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
def app(stack: Stack, world: World) -> Flask:
    made = create_app(web_settings(stack))
    yield made
    made.extensions["onceback"].engine.dispose()


@pytest.fixture
def browser(app: Flask) -> Callable[..., Browser]:
    """Makes a browser; each has its own cookies, address and name."""

    def opened(**other: Any) -> Browser:
        return Browser(app, ORIGIN, **other)

    return opened
