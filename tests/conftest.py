"""Fixtures of every test: `server` (session), `stack` (an empty migrated database) and `world` (one merchant in it).

`lender` lends such a database to a whole file. `sandbox` is the local provider, one process for the run.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.client import Running, running
from tests.emptied import Lender
from tests.spread import ByPart, turn_of
from tests.stack import Server, Stack, running_server
from tests.world import World, build_world


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByPart:
    return ByPart(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors, for tests often wait for another process."""
    return min(4, (os.cpu_count() or 1) + 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: turn_of(item.nodeid))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="session")
def lender(server: Server) -> Iterator[Lender]:
    made = Lender(server)
    yield made
    made.close()


@pytest.fixture
def stack(lender: Lender) -> Iterator[Stack]:
    with lender.lend() as lent:
        yield lent


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack)


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("provider") / "provider.sqlite") as process:
        yield process


@pytest.fixture
def sandbox(provider: Running) -> Running:
    """The local provider, emptied before each test."""
    provider.reset()
    return provider
