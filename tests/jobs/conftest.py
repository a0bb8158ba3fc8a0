"""Fixtures of the jobs: `stack` (here one database a file), `sandbox` (one process), both emptied between tests, and
`worker`, a worker of this process."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from sandbox.client import Running, running
from tests.jobs.calls import gateway_at
from tests.refunds import as_administrator, worker_at
from tests.stack import Server, Stack, fresh_stack
from tests.world import World


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("provider") / "provider.sqlite") as process:
        yield process


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[Stack]:
    with fresh_stack(server) as made:
        yield made


@pytest.fixture
def stack(database: Stack) -> Iterator[Stack]:
    """A test that switches a guard off takes a `fresh_stack` of its own."""
    yield database
    tables = as_administrator(
        database, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    kept = {"intent_transitions", "alembic_version"}
    with psycopg.connect(database.admin_url, autocommit=True) as db:
        emptied = [
            sql.SQL("DELETE FROM {}").format(sql.Identifier(row["relname"]))
            for row in tables
            if row["relname"] not in kept
        ]
        db.execute(sql.SQL("; ").join([sql.SQL("SET session_replication_role = replica"), *emptied]))


@pytest.fixture
def sandbox(provider: Running) -> Running:
    provider.reset()
    return provider


@pytest.fixture
def worker(stack: Stack, sandbox: Running, world: World) -> Iterator[Worker]:
    with worker_at(stack, sandbox, world) as made:
        yield made


@pytest.fixture
def gateway(sandbox: Running) -> StripeGateway:
    return gateway_at(sandbox.base_url, sandbox.secret_key)
