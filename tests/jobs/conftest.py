"""Fixtures of the jobs: `sandbox` (one process, emptied before each test) and `worker`, a worker of this process."""

from collections.abc import Iterator

import pytest

from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from sandbox.client import Running, running
from tests.jobs.calls import gateway_at
from tests.refunds import worker_at
from tests.stack import Stack
from tests.world import World


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("provider") / "provider.sqlite") as process:
        yield process


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
