"""Refunds with real money behind them: orders whose captures are payments at the local provider, and steps on top of them.

`proposed` and `approved` go the whole way by the ledger's own commands: order, return, arrival, intent, approval. Rows that
no command would write (time passing, tampering) are written by `as_administrator`, whom no trigger and no policy binds.
"""

import atexit
import functools
import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

from pydantic import SecretStr

from jobs.liveness import Liveness
from jobs.standing import Standing
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from ledger.database import connect
from sandbox.client import SandboxClient
from tests import lives
from tests.orders import TEE, Line, Order
from tests.stack import Stack
from tests.world import Person, World, add_order

# Short, so that a call the provider does not answer ends soon.
READ_SECONDS = 1.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Proposed:
    """One intent and what it is about at the provider. Amounts in minor units."""

    case_id: UUID
    intent_id: UUID
    payment_intent: str
    charge: str
    amount_minor: int
    currency: str
    key: str
    order: Order


def paid_order(
    stack: Stack,
    world: World,
    sandbox: SandboxClient,
    lines: tuple[Line, ...] = (Line(TEE, 3, 7470),),
    *,
    currency: str = "GBP",
    exponent: int = 2,
    **payment: Any,
) -> Order:
    """An order of the merchant whose card capture is a payment at the provider; `payment` as in create_payment."""
    order = add_order(
        stack, world, f"P-{next(_numbers)}", lines=lines, currency=currency, exponent=exponent
    )  # fmt: skip
    made = sandbox.create_payment(payment.pop("amount", order.total_minor), currency.lower(), **payment)
    as_administrator(
        stack, "UPDATE captures SET payment_intent_ref = %s, charge_ref = %s WHERE capture_id = %s",
        made["payment_intent"], made["charge"], order.captures["card"],
    )  # fmt: skip
    return order


def proposed(
    stack: Stack,
    world: World,
    sandbox: SandboxClient,
    units: int = 1,
    *,
    line: str = TEE,
    order: Order | None = None,
    **payment: Any,
) -> Proposed:
    """A return of `units` of a line, opened in the chat and received: its one proposed intent."""
    order = order or paid_order(stack, world, sandbox, **payment)
    row = lives.propose(stack, world, ((line, units),), order=order, reference=f"chat-{next(_numbers)}")
    return Proposed(
        row["case_id"], row["intent_id"], row["payment_intent_ref"], row["charge_ref"], row["amount_minor"],
        row["currency"], row["provider_key"], order,
    )  # fmt: skip


def approved(
    stack: Stack,
    world: World,
    sandbox: SandboxClient,
    units: int = 1,
    *,
    by: Person | None = None,
    window: int = 0,
    **changes: Any,
) -> Proposed:
    """The same, approved by `by` (default Priya) and due after `window` seconds."""
    made = proposed(stack, world, sandbox, units, **changes)
    lives.approve_as(stack, world, by or world.priya, made.intent_id, window=window)
    return made


def as_administrator(stack: Stack, statement: LiteralString, *values: Any) -> list[dict[str, Any]]:
    """One statement past every trigger and policy; returns its rows, if it has any."""
    with stack.past_guards() as db:
        done = db.execute(statement, values or None)
        return done.fetchall() if done.description else []


def state_of(stack: Stack, one: Proposed) -> str:
    return str(row_of(stack, one)["state"])


def row_of(stack: Stack, one: Proposed) -> dict[str, Any]:
    return as_administrator(stack, "SELECT * FROM intents WHERE intent_id = %s", one.intent_id)[0]


def alarms(stack: Stack) -> set[str]:
    """The kinds of alarms that are open."""
    return {row["kind"] for row in as_administrator(stack, "SELECT kind FROM alarms WHERE closed_at IS NULL")}


def balances(stack: Stack, one: Proposed) -> tuple[int, int, int]:
    """available, reserved, refunded of the capture, in minor units."""
    row = as_administrator(
        stack, "SELECT available_minor, reserved_minor, refunded_minor FROM captures WHERE charge_ref = %s", one.charge
    )[0]  # fmt: skip
    return row["available_minor"], row["reserved_minor"], row["refunded_minor"]


def make_due(stack: Stack) -> None:
    """The wait of every unfinished outbox row is over; what is held stays held."""
    as_administrator(stack, "UPDATE outbox SET due_at = now() WHERE done_at IS NULL AND due_at <> 'infinity'")


def make_readings_due(stack: Stack) -> None:
    """The provider's lists are read at the next run, and so is every refund made outside and every open dispute."""
    as_administrator(stack, "UPDATE account_readings SET due_at = now(), read_at = NULL, let_be_until = NULL")
    as_administrator(stack, "UPDATE external_refunds SET next_look_at = now() WHERE next_look_at IS NOT NULL")
    as_administrator(stack, "UPDATE disputes SET next_look_at = now() WHERE next_look_at IS NOT NULL")


def grow_old(stack: Stack, one: Proposed, hours: float) -> None:
    """The approval and everything recorded since lie `hours` further back."""
    since = f"{hours} hours"
    as_administrator(
        stack, "UPDATE outbox SET approved_at = approved_at - %s::interval WHERE intent_id = %s", since, one.intent_id
    )  # fmt: skip
    as_administrator(
        stack, "UPDATE attempts SET started_at = started_at - %s::interval WHERE intent_id = %s", since, one.intent_id
    )
    as_administrator(
        stack, "UPDATE attempt_results SET at = at - %s::interval WHERE intent_id = %s", since, one.intent_id
    )


def creates(sandbox: SandboxClient) -> list[dict[str, Any]]:
    """The calls that asked the provider for a refund, in order."""
    return sandbox.requests(method="POST", path="/v1/refunds")


def refunds_at(sandbox: SandboxClient, one: Proposed) -> int:
    """How many refunds the provider made of a payment, whatever became of them."""
    return len(sandbox.money(one.payment_intent)["refunds"])


@contextmanager
def worker_at(stack: Stack, sandbox: SandboxClient, world: World, **options: Any) -> Iterator[Worker]:
    """A worker of this process with its own connections, lock and threads, as `jobs.commands` makes one."""
    keys = {world.slug: SecretStr(sandbox.secret_key)}
    engine = connect(stack.worker_url, pool_size=12, name="test-jobs")
    gateway = StripeGateway(keys, sandbox.base_url, 1, READ_SECONDS)
    if "standing" not in options:
        options["standing"] = Standing(engine, *deployment_of(stack), state_folder())
        # As at the start of a process: the mark is made before a test claims anything behind this worker's back.
        options["standing"].good()
    with (
        Liveness(stack.worker_url) as liveness,
        Worker(engine, gateway, liveness, lives.verifier(), in_flight=8, **options) as worker,
    ):
        yield worker


def deployment_of(stack: Stack) -> tuple[UUID, int]:
    """What a worker's settings say of the database: the deployment and its generation."""
    (row,) = as_administrator(stack, "SELECT deployment_id, generation FROM deployment")
    return row["deployment_id"], row["generation"]


@functools.cache
def state_folder() -> Path:
    """Where this run's workers keep their marks: one host."""
    folder = tempfile.TemporaryDirectory(prefix="onceback-state-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def worker_environment(stack: Stack, sandbox_url: str, world: World, secret_key: str, **more: str) -> dict[str, str]:
    """What `python -m jobs run` is given."""
    deployment_id, generation = deployment_of(stack)
    return {
        **os.environ,
        "ENVIRONMENT": "test",
        "DEPLOYMENT_ID": str(deployment_id),
        "GENERATION": str(generation),
        "STATE_DIR": str(state_folder()),
        "DATABASE_URL": stack.worker_url,
        "PROVIDER_BASE_URL": sandbox_url,
        "PROVIDER_KEYS": json.dumps({world.slug: secret_key}),
        "PROVIDER_READ_SECONDS": "20",
        "SEAL_PUBLIC_KEYS": json.dumps([lives.sealer().public_text()]),
        "CONSISTENCY_SECONDS": "0",
        **more,
    }
