"""Fixtures of the jobs: `worker` of this process, `patient`, which waits for no list, and `gateway`, its calls alone."""

from collections.abc import Iterator

import pytest

from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from sandbox.client import Running
from tests.jobs.calls import gateway_at
from tests.refunds import worker_at
from tests.stack import Stack
from tests.world import World


@pytest.fixture
def worker(stack: Stack, sandbox: Running, world: World) -> Iterator[Worker]:
    with worker_at(stack, sandbox, world) as made:
        yield made


@pytest.fixture
def patient(stack: Stack, sandbox: Running, world: World) -> Iterator[Worker]:
    """A worker that believes a list at once: its consistency window is over when the look is made."""
    with worker_at(stack, sandbox, world, consistency_seconds=0) as made:
        yield made


@pytest.fixture
def gateway(sandbox: Running) -> StripeGateway:
    return gateway_at(sandbox.base_url, sandbox.secret_key)
