"""One scratch database with its provider, its web process and its worker, emptied before each use; and time that can be moved.

The process that owns a place starts no thread, so that it may fork at any moment. In a child, `moved_in` lets go of
whatever connection was the parent's.
"""

import copy
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
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
from sqlalchemy import Engine
from stripe import WebhookSignature

from app import create_app
from console import passwords
from console.installation import NAME
from faults import snapshot
from jobs.inbox import READS_A_MINUTE
from jobs.liveness import Liveness
from jobs.schedule import NO_PROGRESS, PERIODIC, run_job
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Counts, Worker
from ledger.database import connect
from ledger.seals import Sealer, SealVerifier, new_key
from sandbox.client import Running, running
from settings import Settings
from tests import lives
from tests.compiled import keep_compiled
from tests.stack import Server, Stack, fresh_stack
from tests.web.pages import Browser
from tests.world import Person, World, build_world, usual_policy

ORIGIN = "https://console.example"
HOOK_SECRET = "whsec_of_the_harness"  # noqa: S105 - made up
# Short, so that a call the provider does not answer ends soon; a machine under load only takes another course.
READ_SECONDS = 0.6
MOST_ROUNDS = 120
MOST_IN_FLIGHT = 8
# A job that runs so often is part of every round.
OFTEN_SECONDS = 5
# Past this much moved time what still waits does so on the provider or a person.
PATIENCE_SECONDS = 3 * 3600
SAFE_AGE_SECONDS = 26 * 3600
DAY_CAP_MINOR = 1_000_000_00

# What is to be done at a time that nobody sees. Put back with the rest, it is due as late as it was.
_SCHEDULES = (
    ("account_readings", "due_at"), ("account_readings", "read_at"), ("captures", "next_read_at"), ("disputes", "next_look_at"),
    ("external_refunds", "next_look_at"),
)  # fmt: skip
# What lies in the past as much as the clock is moved on. Nothing that is sealed, hashed or signed is among it.
_CLOCKS = (
    ("outbox", "approved_at"), ("outbox", "due_at"), ("attempts", "started_at"), ("attempts", "lease_until"),
    ("attempt_results", "at"), ("looks", "at"), ("provider_events", "received_at"), ("intents", "state_at"),
    ("charge_readings", "due_at"), ("payment_reads", "minute_at"),
)  # fmt: skip


@dataclass(frozen=True)
class _Kept:
    """A moment of a place: rows, when it was, how far time was moved, the state of its chance, cookies by person."""

    rows: snapshot.Rows
    at: float
    moved_seconds: float
    chance: tuple[Any, ...]
    cookies: dict[UUID, Any]


def _round(worker: Worker, *, often: bool) -> Counts:
    """Each job once: those that are asked at least every few seconds, or the others."""
    counts: Counts = Counter()
    for periodic in PERIODIC:
        if (periodic.seconds <= OFTEN_SECONDS) == often:
            counts.update(run_job(periodic, worker))
    return counts


def _moved(total: Counts, counts: Counts) -> bool:
    """Adds what a round counted; whether it got anywhere."""
    total.update(counts)
    return any(name not in NO_PROGRESS for name in counts)


def _not_yet(close: bool = True) -> None:
    """The connections go on to the next worker of this process."""


@dataclass
class Place:
    """`world` is the merchant of the present use; the seal keys are the web process's, whose public halves the worker has."""

    stack: Stack
    sandbox: Running
    app: Flask
    seal_key: str
    automatic_seal_key: str
    world: World = field(init=False)
    chance: random.Random = field(default_factory=random.Random)
    moved_seconds: float = 0.0
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _browsers: dict[UUID, Browser] = field(default_factory=dict)
    _admin: psycopg.Connection[dict[str, Any]] | None = None
    _workers: Engine | None = None
    _kept: "_Kept | None" = None

    def empty(self, seed: int = 0, **world: Any) -> None:
        """Forgets everything on both sides and opens the shop again."""
        snapshot.empty(self.administrator)
        self.sandbox.reset()
        self.chance, self.moved_seconds = random.Random(seed), 0.0
        self._browsers.clear()
        routes = {"routes": {"manager_from_minor": {"GBP": 10_000_00}}}
        usual = {"cap_minor": {"GBP": DAY_CAP_MINOR}, "policy": usual_policy("harbour-usual") | routes}
        self.world = build_world(self.stack, **(usual | world))

    def keep(self) -> None:
        """Remembers both sides as they are now."""
        self.sandbox.keep()
        cookies = {who: copy.deepcopy(browser.client._cookies) for who, browser in self._browsers.items()}
        self._kept = _Kept(
            snapshot.take(self.administrator), time.time(), self.moved_seconds, self.chance.getstate(), cookies
        )

    def put_back(self) -> None:
        """Makes both sides what they were when they were kept; what was due in a while then is due in the same while now."""
        kept = self._kept
        if kept is None:
            raise RuntimeError("nothing was kept")
        snapshot.put_back(self.administrator, kept.rows)
        self.sandbox.put_back()
        self._move_clocks(kept.at - time.time(), _CLOCKS + _SCHEDULES)
        self.moved_seconds = kept.moved_seconds
        self.chance.setstate(kept.chance)
        # Whoever signed in since is not signed in any more.
        self._browsers = {who: browser for who, browser in self._browsers.items() if who in kept.cookies}
        for who, browser in self._browsers.items():
            browser.client._cookies = copy.deepcopy(kept.cookies[who])

    def number(self) -> int:
        """A number not used before in this place."""
        return next(self._numbers)

    def moved_in(self) -> None:
        """Called first in a child: the parent's connections are left alone and new ones made."""
        for name in ("owner", "console", "worker"):
            engine = self.stack.__dict__.pop(name, None)
            if engine is not None:
                engine.dispose(close=False)
        self.stack.forget_past_guards()
        self.app.extensions[NAME].engine.dispose(close=False)
        if self._workers is not None:
            Engine.dispose(self._workers, close=False)
        self.sandbox._session = requests.Session()
        self.sandbox._session.trust_env = False
        self._admin = self._workers = None

    def let_go(self) -> None:
        """Closes every connection of this process; the next use opens new ones."""
        self.stack.close()
        for name in ("owner", "console", "worker"):
            self.stack.__dict__.pop(name, None)
        self.app.extensions[NAME].engine.dispose()
        if self._workers is not None:
            Engine.dispose(self._workers)
        if self._admin is not None:
            self._admin.close()
        self._admin = self._workers = None

    @property
    def administrator(self) -> psycopg.Connection[dict[str, Any]]:
        """A connection past every trigger and policy, which stays open."""
        if self._admin is None or self._admin.closed:
            self._admin = psycopg.connect(self.stack.admin_url, autocommit=True, row_factory=dict_row)
            self._admin.execute("SET session_replication_role = replica")
        return self._admin

    def as_administrator(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """One statement past every trigger and policy; returns its rows, if it has any."""
        done = self.administrator.execute(statement.encode(), values or None)
        return done.fetchall() if done.description else []

    # The worker

    @contextmanager
    def worker(self, *, in_flight: int = 4) -> Iterator[Worker]:
        """A worker of this process with its own lock and threads; its connections go on to the next one of this process."""
        keys = {self.world.slug: SecretStr(self.sandbox.secret_key)}
        gateway = StripeGateway(keys, self.sandbox.base_url, 1, READ_SECONDS)
        verifier = SealVerifier(
            [lives.sealer().public_text(), _public(self.seal_key)], [_public(self.automatic_seal_key)]
        )
        with (
            Liveness(self.stack.worker_url) as liveness,
            Worker(self._worker_engine(), gateway, liveness, verifier, in_flight=in_flight) as worker,
        ):
            yield worker

    def _worker_engine(self) -> Engine:
        if self._workers is None:
            self._workers = connect(self.stack.worker_url, pool_size=MOST_IN_FLIGHT + 4, name="harness-jobs")
            # A worker closes what it was given when it ends.
            self._workers.dispose = _not_yet  # type: ignore[method-assign]
        return self._workers

    def work(self, worker: Worker, *, hooks: bool = False) -> Counts:
        """Every job, round after round, until nothing moves; time is moved on to whatever is due next."""
        total: Counts = Counter()
        longer = 1.0
        for _ in range(MOST_ROUNDS):
            if hooks:
                self.tell()
            # What is asked about once a minute or once a night waits until the rest is quiet.
            if _moved(total, _round(worker, often=True)) or _moved(total, _round(worker, often=False)):
                longer = 1.0
                continue
            wait = self.next_due_seconds()
            if wait is None:
                break
            # What is due and does not go, as behind a brake, is not asked about each second of the hours it waits.
            self.time_passes(max(longer, wait))
            longer *= 2
        return total

    def next_due_seconds(self) -> float | None:
        """Until something is due that is worth waiting for; None when nothing will be.

        What nobody knows yet is waited for until a person has it, past the safe age of its key.
        """
        (row,) = self.as_administrator(
            "SELECT min(s) AS any, min(s) FILTER (WHERE state IN ('submitting', 'unknown')) AS unknown FROM ("
            " SELECT i.state, extract(epoch FROM o.due_at - now())::float8 AS s FROM outbox o"
            " JOIN intents i USING (merchant_id, intent_id) WHERE o.done_at IS NULL AND o.due_at <> 'infinity'"
            " UNION ALL SELECT 'reading', extract(epoch FROM due_at - now())::float8 FROM charge_readings"
            " WHERE done_at IS NULL"
            # A payment about which much is told is read again in its next minute.
            " UNION ALL SELECT 'reading', extract(epoch FROM r.minute_at + interval '1 minute' - now())::float8"
            " FROM payment_reads r JOIN provider_events e USING (merchant_id, payment_intent_ref)"
            " WHERE e.done_at IS NULL AND r.reads >= %s) due",
            READS_A_MINUTE,
        )
        for wait, patience in ((row["any"], PATIENCE_SECONDS), (row["unknown"], SAFE_AGE_SECONDS)):
            if wait is not None and self.moved_seconds + max(0.0, wait) <= patience:
                return max(0.0, float(wait)) + 0.01
        return None

    def time_passes(self, seconds: float) -> None:
        """On both sides: what was recorded so far lies further back, and the provider's clock is further on."""
        self._move_clocks(seconds, _CLOCKS)
        self.sandbox.advance(seconds)
        self.moved_seconds += seconds

    def _move_clocks(self, seconds: float, clocks: Iterable[tuple[str, str]]) -> None:
        moves = sql.SQL("; ").join(
            sql.SQL("UPDATE {t} SET {c} = {c} - make_interval(secs => {s}) WHERE {c} <> 'infinity'").format(
                t=sql.Identifier(table), c=sql.Identifier(column), s=sql.Literal(seconds)
            )
            for table, column in clocks
        )
        self.administrator.execute(moves)

    def next_business_day(self) -> None:
        """What was approved so far was approved yesterday."""
        # In two steps: a day would meet the one before it that has not moved yet.
        for table, days in itertools.product(("cap_entries", "cap_days"), (-1000, 999)):
            self.as_administrator(f"UPDATE {table} SET business_day = business_day + {days}")  # noqa: S608

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
    seal_key, automatic_seal_key = new_key("harness-1"), new_key("harness-automatic-1")
    with fresh_stack(server) as stack, running(folder / "provider.sqlite") as sandbox:
        settings = Settings(
            environment="test", database_url=SecretStr(stack.console_url), public_origin=ORIGIN, seal_key=SecretStr(seal_key),
            automatic_seal_key=SecretStr(automatic_seal_key),
            cookie_key=SecretStr("Vq7-harness-only-Jx0e2LrW8sYzKd4uTn6hPb1"), web_pool_size=4,
            webhook_secrets={"harbour": (SecretStr(HOOK_SECRET),)},
        )  # fmt: skip
        app = keep_compiled(create_app(settings))
        yield Place(stack, sandbox, app, seal_key, automatic_seal_key)
        app.extensions[NAME].engine.dispose()
