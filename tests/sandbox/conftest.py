"""Fixtures: `sandbox` (one process, emptied before each test), `shop` at it, `anywhere` also at Stripe."""

from collections.abc import Iterator

import pytest

from sandbox.client import Running, running
from tests.sandbox.shop import CheckedClient, Shop, opened, stripe_client, stripe_key


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("sandbox") / "provider.sqlite") as process:
        yield process


@pytest.fixture
def sandbox(started: Running) -> Running:
    started.reset()
    return started


@pytest.fixture
def shop(sandbox: Running) -> Iterator[Shop]:
    """A shop whose every exchange is held against Stripe's specification."""
    with opened(sandbox.base_url, sandbox.secret_key, sandbox) as made:
        yield made


@pytest.fixture
def rough(sandbox: Running) -> Shop:
    """A shop that gets what a fault makes of an answer, unchecked, and waits two seconds for it."""
    transport = CheckedClient(checked=False, read_seconds=2)
    return Shop(stripe_client(sandbox.base_url, sandbox.secret_key, transport), sandbox)


@pytest.fixture(params=["sandbox", "stripe"] if stripe_key() else ["sandbox"])
def anywhere(request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A shop at the sandbox and, when STRIPE_API_KEY is a test key, the same test at Stripe."""
    key = stripe_key()
    if request.param == "sandbox" or key is None:
        yield request.getfixturevalue("shop")
        return
    with opened(None, key, None) as made:
        yield made
