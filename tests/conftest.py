"""Fixtures of every test: `server` (session), `stack` (a fresh migrated database) and `world` (one merchant in it)."""

from collections.abc import Iterator

import pytest

from tests.stack import Server, Stack, fresh_stack, running_server
from tests.world import World, build_world


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def stack(server: Server) -> Iterator[Stack]:
    with fresh_stack(server) as made:
        yield made


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack)
