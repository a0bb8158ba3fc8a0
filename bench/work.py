"""The work that is measured: a local stack with orders whose returns are ready to be approved or sent."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import psycopg
import structlog
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from bench.double import Double, running_double
from bench.measure import per_second
from bench.seed import like_the_first
from demo.local_stack import LocalStack
from demo.merchant import set_up
from demo.people import PASSWORD, DemoPerson
from demo.roles import CONSOLE, OWNER, WORKER
from ledger.approvals import Seen, approve
from ledger.cases import ReturnRequest, open_return
from ledger.database import connect, rows, transaction
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.order_document import order_facts
from ledger.orders import store_order

SLUG = "bench"
POLICY: dict[str, Any] = {
    "policy_id": "bench-returns", "version": 1, "refund_trigger": "announced", "pay_within_days": 14,
    "routes": {"manager_from_minor": {"EUR": 10_000_000}},
    "limits": {role: {"EUR": {"hour": {"count": 10**9, "minor": 10**15}}} for role in ("desk", "manager")},
}  # fmt: skip
# What pgbench works on: one hot row, and the bare shape of an approval.
TABLES = """
    CREATE SCHEMA bench;
    GRANT USAGE ON SCHEMA bench TO PUBLIC;
    CREATE TABLE bench.hot (id int PRIMARY KEY, n bigint);
    INSERT INTO bench.hot VALUES (1, 0);
    CREATE TABLE bench.intents (id int PRIMARY KEY, state int NOT NULL DEFAULT 0);
    INSERT INTO bench.intents SELECT n FROM generate_series(1, 100000) n;
    CREATE TABLE bench.transfers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, intent int NOT NULL, amount bigint NOT NULL);
    CREATE TABLE bench.events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, intent int NOT NULL, body jsonb NOT NULL);
    CREATE TABLE bench.outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, intent int NOT NULL, request jsonb NOT NULL);
"""
# One for each thread that approves: a person looks at one refund at a time, and what is shared by all is the cap's row.
REVIEWERS = tuple(
    DemoPerson(f"reviewer-{number}@bench.example", f"Reviewer {number}", "desk", "returns desk") for number in range(32)
)
CALLS_IN_FLIGHT = 16
# Approvals on each connection that are not measured, before those that are.
PLANS_AGAIN = 4


@dataclass(frozen=True)
class Ready:
    """A proposed refund of a merchant, who decides it, and what that person, who looks at it now, would send back."""

    merchant_id: UUID
    intent_id: UUID
    staff_id: UUID
    seen: Seen


@dataclass(frozen=True)
class Drained:
    """Refunds a second of all workers together, and processor time of the workers for each, in milliseconds."""

    rate: float
    cpu_ms: float


class Bench:
    """One stack for the whole run; made anew each time, so that no run measures another's rows."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
        self.stack = LocalStack(folder, merchants=(SLUG,), environment="test", web_workers=2, cancel_window_seconds=0)
        self._number = 0

    def __enter__(self) -> Self:
        self.stack.start_database()
        owner = connect(self.stack.role_urls[OWNER], pool_size=2, name="bench")
        self.merchant = set_up(
            owner, self.stack.folder, SLUG, "Bench", "Europe/Berlin", "DE", policy=POLICY, caps_minor={"EUR": 10**12},
            people=REVIEWERS, password=PASSWORD,
        )  # fmt: skip
        self.m = self.merchant.merchant_id
        owner.dispose()
        self.url = self.stack.role_urls[OWNER]
        with self.as_administrator() as db:
            db.execute(TABLES)
            db.execute("GRANT ALL ON ALL TABLES IN SCHEMA bench TO PUBLIC")
        self.console = self.engine(8)
        self.worker_engine = connect(self.stack.role_urls[WORKER], pool_size=1, name="bench")
        self.sealer = self.stack.sealer()
        self.reviewers = [self.merchant.staff[one.email] for one in REVIEWERS]
        self._double = running_double()
        self.double: Double = self._double.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._double.__exit__(kind, error, trace)
        self.console.dispose()
        self.worker_engine.dispose()
        self.stack.stop()

    def engine(self, connections: int) -> Engine:
        """The console's role, with that many connections."""
        return connect(self.stack.role_urls[CONSOLE], pool_size=connections, name="bench")

    def as_administrator(self) -> psycopg.Connection:
        """Past row-level security and triggers: for seeding what no command would make so many of."""
        url = make_url(self.stack.postgres.admin_url).set(drivername="postgresql", database=make_url(self.url).database)
        return psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)

    def more_merchants(self, count: int) -> list[UUID]:
        """As many more merchants, each like the first with its people, account, policy and cap."""
        with self.as_administrator() as db:
            return like_the_first(db, self.m, count)

    def approvals(
        self, count: int, threads: int, merchants: Sequence[UUID] = (), engine: Engine | None = None
    ) -> Callable[[], float]:
        """Approves `count` proposed refunds of as many orders, of each merchant in turn; per second, their making left out.

        Some more go first on the same threads: after ANALYZE each connection plans each statement once again.
        """
        console = engine or self.console
        first = threads * PLANS_AGAIN

        def measure() -> float:
            ready = self.ready(first + count, merchants)
            per_second(first, threads, lambda number: self.approve(ready[number], console))
            return per_second(count, threads, lambda number: self.approve(ready[first + number], console))

        return measure

    def approve(self, one: Ready, engine: Engine) -> None:
        """Through the ledger's own function, in its own transaction."""
        with transaction(engine, one.merchant_id) as db:
            approve(
                db,
                one.merchant_id,
                one.intent_id,
                one.staff_id,
                one.seen,
                self.sealer,
                cancel_window_seconds=0,
                last=True,
            )

    def drain(self, count: int, delay_ms: float, workers: int = 1) -> Drained:
        """Drains `count` approved refunds with full settlement, each worker a process of its own.

        They are started before, and drain what was due until then.
        """
        with ExitStack() as running:
            started = [running.enter_context(self._worker()) for _ in range(workers)]
            self.double.forget(delay_ms)
            for one in self.ready(count):
                self.approve(one, self.console)
            for process in started:
                _tell(process, "go")
            said = [_answer(process) for process in started]
        paid = self.double.counts()
        if (paid["paid"], paid["paid_twice"], sum(one["confirmed"] for one in said)) != (count, 0, count):
            raise RuntimeError(f"of {count} refunds the provider paid {paid}; the workers say {said}")
        seconds = max(one["ended"] for one in said) - min(one["began"] for one in said)
        return Drained(count / seconds, sum(one["cpu"] for one in said) / count * 1000)

    @contextmanager
    def _worker(self) -> Iterator[subprocess.Popen[str]]:
        environment = {
            **os.environ, **self.stack.worker_environment(), "PROVIDER_BASE_URL": self.double.url,
            "SUBMITTER_IN_FLIGHT": str(CALLS_IN_FLIGHT), "PUBLIC_ORIGIN": self.stack.origin,
        }  # fmt: skip
        with subprocess.Popen(
            [sys.executable, "-m", "bench.draining"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:  # fmt: skip
            try:
                _answer(process)
                yield process
            finally:
                process.communicate()

    def ready(self, count: int, merchants: Sequence[UUID] = ()) -> list[Ready]:
        """Proposed refunds of new orders, one order each; of the given merchants in turn."""
        whose = merchants or (self.m,)
        start, self._number = self._number, self._number + count
        made = [
            self._propose(whose[number % len(whose)], start + number, self.reviewers[number % len(self.reviewers)])
            for number in range(count)
        ]
        with self.as_administrator() as db:
            # What a server that runs for a minute has done by itself.
            db.execute("ANALYZE")
        return made

    def _propose(self, merchant_id: UUID, number: int, staff_id: UUID) -> Ready:
        actor = f"token:{self.merchant.tokens['chat'].split('_')[2]}"
        wanted = ReturnRequest(f"B-{number}", (("L1", 1),), "size", "chat", f"c-{number}", actor)
        with transaction(self.console, merchant_id) as db:
            store_order(db, merchant_id, order_facts(_order(number)))
            opened = open_return(db, merchant_id, wanted)
            (found,) = rows(db, "SELECT intent_id FROM intents WHERE case_id = :c", c=opened.case_id)
            intent = read_intent(db, merchant_id, found["intent_id"])
            if intent is None:
                raise RuntimeError("the proposed intent is gone")
            shown = fingerprint(intent, evidence_digest(db, merchant_id, opened.case_id))
        return Ready(merchant_id, found["intent_id"], staff_id, Seen(shown, secrets.token_hex(16)))


def _tell(process: subprocess.Popen[str], word: str) -> None:
    if process.stdin is None:
        raise RuntimeError("the worker has no input")
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _answer(process: subprocess.Popen[str]) -> dict[str, float]:
    if process.stdout is None:
        raise RuntimeError("the worker has no output")
    said: dict[str, float] = json.loads(process.stdout.readline())
    return said


def _order(number: int) -> dict[str, Any]:
    at = datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    return {
        "external_ref": f"B-{number}", "currency": "EUR", "total_minor": 5000, "placed_at": at, "zone": "Europe/Berlin",
        "channel": "web", "price_mode": "inclusive", "customer": {"external_ref": f"K-{number}", "name": f"Customer {number}"},
        "lines": [{"line_ref": "L1", "position": 1, "kind": "goods", "sku": "SKU", "title": "A thing", "quantity": 2,
                   "unit_price_minor": 2500, "tax_minor": 798}],
        "captures": [{"capture_ref": f"B-{number}-1", "tender": "card", "currency": "EUR", "captured_minor": 5000,
                      "captured_at": at, "payment_intent_ref": f"pi_bench{number}", "charge_ref": f"ch_bench{number}",
                      "destination": {"kind": "card", "brand": "visa", "last4": "4242"}}],
    }  # fmt: skip
