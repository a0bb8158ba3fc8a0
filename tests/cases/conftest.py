"""Fixtures of the cases: `desk`, a merchant with its worker at the real local provider, and our web process for its hooks.

One database, one provider and one web process serve them all; each is emptied before a test.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr
from werkzeug.serving import make_server

from sandbox.client import Running
from tests.api.web import web_app
from tests.cases.desk import HOOK_SECRET, Desk
from tests.emptied import Lender, empty
from tests.refunds import worker_at
from tests.stack import Stack
from tests.world import World, build_world, usual_policy

CAPS = dict.fromkeys(("EUR", "GBP", "INR", "PLN", "USD"), 1_000_000_00)


@pytest.fixture(scope="session")
def database(lender: Lender) -> Iterator[Stack]:
    with lender.lend() as lent:
        yield lent


@pytest.fixture(scope="session")
def hook_url(database: Stack) -> Iterator[str]:
    """The address of our web process that the provider is given."""
    served = make_server("127.0.0.1", 0, lambda *_: [], threaded=True)
    origin = f"http://127.0.0.1:{served.server_port}"
    secrets = {"harbour": (SecretStr(HOOK_SECRET),)}
    served.app = web_app(database, public_origin=origin, webhook_secrets=secrets)
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"{origin}/hooks/stripe/harbour"
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.fixture
def stack(database: Stack) -> Iterator[Stack]:
    yield database
    empty(database)


@pytest.fixture
def world(stack: Stack) -> World:
    """A merchant whose desk may approve anything up to ten thousand."""
    routes: dict[str, Any] = {"routes": {"manager_from_minor": dict.fromkeys(CAPS, 10_000_00)}}
    return build_world(stack, cap_minor=CAPS, policy=usual_policy("harbour-usual") | routes)


@pytest.fixture
def desk(
    stack: Stack, world: World, sandbox: Running, hook_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    # No test here is about a busy machine: a call that is answered is waited for.
    monkeypatch.setattr("tests.refunds.READ_SECONDS", 10.0)
    with worker_at(stack, sandbox, world) as worker:
        made = Desk(stack, world, sandbox, worker, hook_url)
        yield made
        # No hook of this test may arrive while the database is emptied.
        made.told()
