"""One scratch database with its provider, its web process and its worker, emptied before each use; and time that can be moved.

The process that owns a place starts no thread, so that it may fork at any moment. In a child, `moved_in` lets go of
whatever connection was the parent's.
"""

import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import requests
from argon2 import PasswordHasher
from flask import Flask
from psycopg import sql
from psycopg.rows import dict_row
from pydantic import SecretStr
from stripe import WebhookSignature

from app import create_app
from console import passwords
from console.installation import NAME
from jobs.liveness import Liveness
from jobs.schedule import PERIODIC, run_job
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Counts, Worker
from ledger.database import connect
from ledger.seals import Sealer, SealVerifier, new_key
from sandbox.client import Running, running
from settings import Settings
from tests import lives
from tests.emptied import KEPT, TABLES
from tests.stack import Server, Stack, fresh_stack
from tests.web.pages import Browser
from tests.world import Person, World, build_world, usual_policy

ORIGIN = "https://console.example"
HOOK_SECRET = "whsec_of_the_harness"  # noqa: S105 - made up
# Short, so that a call the provider does not answer ends soon; a machine under load only takes another course.
READ_SECONDS = 0.6
# Counts that say a round got nowhere.
IDLE = frozenset(("busy", "failed", "no_answer", "not_alive", "reads"))
MOST_ROUNDS = 120
# Past this much moved time what still waits does so on the provider or a person.
PATIENCE_SECONDS = 3 * 3600
DAY_CAP_MINOR = 1_000_000_00

# What lies in the past as much as the clock is moved on. Nothing that is sealed, hashed or signed is among it.
_CLOCKS = (
    ("outbox", "approved_at"), ("outbox", "due_at"), ("attempts", "started_at"), ("attempts", "lease_until"),
    ("attempt_results", "at"), ("looks", "at"), ("provider_events", "received_at"), ("intents", "state_at"),
)  # fmt: skip


@dataclass
class Place:
    """`world` is the merchant of the present use; `seal_key` is the web process's, whose public half the worker has."""

    stack: Stack
    sandbox: Running
    app: Flask
    seal_key: str
    world: World = field(init=False)
    chance: random.Random = field(default_factory=random.Random)
    moved_seconds: float = 0.0
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _browsers: dict[UUID, Browser] = field(default_factory=dict)
    _admin: psycopg.Connection[dict[str, Any]] | None = None

    def empty(self, seed: int = 0, **world: Any) -> None:
        """Forgets everything on both sides and opens the shop again."""
        with self.stack.admin() as admin:
            names = [sql.Identifier(name) for (name,) in admin.execute(TABLES, [list(KEPT)]).fetchall()]
            emptied = [sql.SQL("DELETE FROM {}").format(name) for name in names]
            admin.execute(sql.SQL("; ").join([sql.SQL("SET session_replication_role = replica"), *emptied]))
        self.sandbox.reset()
        self.chance, self.moved_seconds = random.Random(seed), 0.0
        self._browsers.clear()
        routes = {"routes": {"manager_from_minor": {"GBP": 10_000_00}}}
        usual = {"cap_minor": {"GBP": DAY_CAP_MINOR}, "policy": usual_policy("harbour-usual") | routes}
        self.world = build_world(self.stack, **(usual | world))

    def number(self) -> int:
        """A number not used before in this place."""
        return next(self._numbers)

    def moved_in(self) -> None:
        """Called first in a child: the parent's connections are left alone and new ones made."""
        for name in ("owner", "console", "worker"):
            engine = self.stack.__dict__.pop(name, None)
            if engine is not None:
                engine.dispose(close=False)
        self.app.extensions[NAME].engine.dispose(close=False)
        self.sandbox._session = requests.Session()
        self.sandbox._session.trust_env = False
        self._admin = None

    def as_administrator(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """One statement past every trigger and policy, on a connection that stays open; returns its rows, if it has any."""
        if self._admin is None:
            self._admin = psycopg.connect(self.stack.admin_url, autocommit=True, row_factory=dict_row)
            self._admin.execute("SET session_replication_role = replica")
        done = self._admin.execute(statement.encode(), values or None)
        return done.fetchall() if done.description else []

    # The worker

    @contextmanager
    def worker(self, *, in_flight: int = 4) -> Iterator[Worker]:
        """A worker of this process with its own connections, lock and threads."""
        keys = {self.world.slug: SecretStr(self.sandbox.secret_key)}
        engine = connect(self.stack.worker_url, pool_size=in_flight + 4, name="harness-jobs")
        gateway = StripeGateway(keys, self.sandbox.base_url, 1, READ_SECONDS)
        verifier = SealVerifier([lives.sealer().public_text(), _public(self.seal_key)])
        with (
            Liveness(self.stack.worker_url) as liveness,
            Worker(engine, gateway, liveness, verifier, in_flight=in_flight) as worker,
        ):
            yield worker

    def work(self, worker: Worker, *, hooks: bool = False) -> Counts:
        """Every job, round after round, until nothing moves; time is moved on to whatever is due next."""
        total: Counts = Counter()
        for _ in range(MOST_ROUNDS):
            if hooks:
                self.tell()
            counts: Counts = Counter()
            for periodic in PERIODIC:
                counts.update(run_job(periodic, worker))
            total.update(counts)
            if any(name not in IDLE for name in counts):
                continue
            wait = self.next_due_seconds()
            if wait is None or self.moved_seconds + wait > PATIENCE_SECONDS:
                break
            self.time_passes(max(1.0, wait))
        return total

    def next_due_seconds(self) -> float | None:
        """Until an outbox row is due; None when none will be."""
        (row,) = self.as_administrator(
            "SELECT min(extract(epoch FROM due_at - now()))::float8 AS s FROM outbox"
            " WHERE done_at IS NULL AND due_at <> 'infinity'"
        )
        return None if row["s"] is None else max(0.0, row["s"]) + 0.01

    def time_passes(self, seconds: float) -> None:
        """On both sides: what was recorded so far lies further back, and the provider's clock is further on."""
        for table, column in _CLOCKS:
            self.as_administrator(
                f"UPDATE {table} SET {column} = {column} - make_interval(secs => %s) WHERE {column} <> 'infinity'",  # noqa: S608
                seconds,
            )
        self.sandbox.advance(seconds)
        self.moved_seconds += seconds

    def next_business_day(self) -> None:
        """What was approved so far was approved yesterday."""
        for table in ("cap_entries", "cap_days"):
            self.as_administrator(f"UPDATE {table} SET business_day = business_day - 1")  # noqa: S608

    # The web process

    def browser(self, person: Person) -> Browser:
        """The person's browser, signed in at its first use."""
        if person.staff_id not in self._browsers:
            made = self._browsers[person.staff_id] = Browser(self.app, ORIGIN)
            made.sign_in(person)
        return self._browsers[person.staff_id]

    def tell(self, copies: int = 2) -> int:
        """Every event of the provider reaches the web process, `copies` times and in any order. Returns how many were new."""
        url = f"{self.sandbox.base_url}/v1/events?limit=100"
        events = self.sandbox._session.get(url, auth=(self.sandbox.secret_key, ""), timeout=10).json()["data"]
        known = {row["event_ref"] for row in self.as_administrator("SELECT event_ref FROM provider_events")}
        new = [event for event in events if event["id"] not in known]
        told = [event for event in new for _ in range(copies)]
        self.chance.shuffle(told)
        for event in told:
            self.tell_one(event)
        return len(new)

    def tell_one(self, event: dict[str, Any]) -> None:
        """One hook, signed now."""
        text = json.dumps(event)
        signed = str(WebhookSignature.generate_signature_header(text, HOOK_SECRET, int(time.time())))
        answer = self.app.test_client().post(
            f"/hooks/stripe/{self.world.slug}", base_url=ORIGIN, data=text.encode(),
            headers={"Content-Type": "application/json", "Stripe-Signature": signed},
        )  # fmt: skip
        if answer.status_code != 200:
            raise RuntimeError(f"the hook was refused: {answer.status_code}")


def _public(key: str) -> str:
    return Sealer.from_text(key).public_text()


@contextmanager
def a_place(server: Server, folder: Path) -> Iterator[Place]:
    """A place on a database of its own, with a provider of its own whose file is in `folder`."""
    # Made here, so that every process forked from this one has the same.
    lives.sealer()
    passwords._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    seal_key = new_key("harness-1")
    with fresh_stack(server) as stack, running(folder / "provider.sqlite") as sandbox:
        settings = Settings(
            environment="test", database_url=SecretStr(stack.console_url), public_origin=ORIGIN, seal_key=SecretStr(seal_key),
            cookie_key=SecretStr("Vq7-harness-only-Jx0e2LrW8sYzKd4uTn6hPb1"), web_pool_size=4,
            webhook_secrets={"harbour": (SecretStr(HOOK_SECRET),)},
        )  # fmt: skip
        app = create_app(settings)
        yield Place(stack, sandbox, app, seal_key)
        app.extensions[NAME].engine.dispose()
