"""A database shared by the tests of one file that undo what they do, and a transaction of each role in it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from uuid import UUID

import pytest
from sqlalchemy import Connection

from ledger.database import transaction
from tests.emptied import Lender
from tests.stack import Stack
from tests.world import World, build_world

As = Callable[..., AbstractContextManager[Connection]]


@pytest.fixture(scope="module")
def shared(lender: Lender) -> Iterator[Stack]:
    with lender.lend() as lent:
        yield lent


@pytest.fixture(scope="module")
def harbour(shared: Stack) -> World:
    return build_world(shared)


@pytest.fixture(scope="module")
def northwind(shared: Stack) -> World:
    return build_world(shared, "northwind")


@pytest.fixture
def undone(shared: Stack) -> As:
    """A transaction of a role in the shared database that is always rolled back."""

    @contextmanager
    def begin(role: str, merchant_id: UUID | None = None) -> Iterator[Connection]:
        with transaction(shared.engine(role), merchant_id) as db:
            yield db
            db.rollback()

    return begin


@pytest.fixture
def db(undone: As, harbour: World) -> Iterator[Connection]:
    """The owner's transaction in the shared database, pinned to Harbour; what the owner cannot do, nobody can."""
    with undone("onceback_owner", harbour.merchant_id) as connection:
        yield connection
