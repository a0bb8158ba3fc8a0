"""The work that is measured: a local stack with orders whose returns are ready to be approved or sent."""

import secrets
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import structlog
from pydantic import SecretStr

from bench.measure import per_second
from demo.local_stack import LocalStack
from demo.merchant import set_up
from demo.people import PASSWORD, PEOPLE
from demo.roles import CONSOLE, OWNER
from jobs import submitter
from jobs.worker import running_worker
from ledger.approvals import Seen, approve
from ledger.cases import ReturnRequest, open_return
from ledger.database import connect, first, rows, transaction
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.order_document import order_facts
from ledger.orders import store_order
from settings import Settings

SLUG = "bench"
POLICY: dict[str, Any] = {
    "policy_id": "bench-returns", "version": 1, "refund_trigger": "announced", "pay_within_days": 14,
    "routes": {"manager_from_minor": {"EUR": 10_000_000}},
    "limits": {role: {"EUR": {"hour": {"count": 10**9, "minor": 10**15}}} for role in ("desk", "manager")},
}  # fmt: skip


class Bench:
    """One stack for the whole run; made anew each time, so that no run measures another's rows."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
        self.stack = LocalStack(folder, merchants=(SLUG,), environment="test")
        self._number = 0

    def __enter__(self) -> Self:
        self.stack.start_database()
        self.stack.start_provider()
        owner = connect(self.stack.role_urls[OWNER], pool_size=2, name="bench")
        self.merchant = set_up(
            owner, self.stack.folder, SLUG, "Bench", "Europe/Berlin", "DE", policy=POLICY, caps_minor={"EUR": 10**12},
            people=PEOPLE, password=PASSWORD,
        )  # fmt: skip
        self.m = self.merchant.merchant_id
        with owner.begin() as db:
            db.exec_driver_sql("CREATE TABLE bench_hot (id int PRIMARY KEY, n bigint)")
            db.exec_driver_sql("INSERT INTO bench_hot VALUES (1, 0)")
            db.exec_driver_sql("CREATE TABLE bench_commits (id bigserial PRIMARY KEY, n int)")
        owner.dispose()
        self.url = self.stack.role_urls[OWNER]
        self.console = connect(self.stack.role_urls[CONSOLE], pool_size=8, name="bench")
        self.sealer = self.stack.sealer()
        self.priya = self.merchant.staff["priya@hollowbrook.example"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.console.dispose()
        self.stack.stop()

    def approvals(self, count: int, threads: int) -> Callable[[], float]:
        """Approves `count` proposed refunds of as many orders; per second. Making them is not measured."""

        def measure() -> float:
            ready = [self._seen(intent_id) for intent_id in self._proposed(count)]

            def approve_one(number: int) -> None:
                intent_id, seen = ready[number]
                with transaction(self.console, self.m) as db:
                    approve(db, self.m, intent_id, self.priya, seen, self.sealer, cancel_window_seconds=0)

            return per_second(count, threads, approve_one)

        return measure

    def drain(self, count: int) -> Callable[[], float]:
        """Drains `count` approved refunds with full settlement; per second. All else that was due is drained before."""

        def measure() -> float:
            self._run_worker()
            for intent_id, seen in [self._seen(intent_id) for intent_id in self._proposed(count)]:
                with transaction(self.console, self.m) as db:
                    approve(db, self.m, intent_id, self.priya, seen, self.sealer, cancel_window_seconds=0)
            sent, took = self._run_worker()
            if sent != count:
                raise RuntimeError(f"{sent} of {count} refunds were paid")
            return count / took

        return measure

    def _run_worker(self) -> tuple[int, float]:
        given = self.stack.worker_environment()
        settings = Settings(
            environment="test", database_url=SecretStr(given["DATABASE_URL"]), state_dir=Path(given["STATE_DIR"]),
            deployment_id=UUID(given["DEPLOYMENT_ID"]), generation=int(given["GENERATION"]),
            seal_public_keys=(self.sealer.public_text(),), provider_base_url=self.stack.provider_url,
            provider_keys={SLUG: SecretStr(self.stack.secrets["provider_keys"][SLUG])},
        )  # fmt: skip
        before = self._paid()
        with running_worker(settings) as worker:
            began = time.perf_counter()
            while sum(submitter.run_once(worker).values()):
                pass
            took = time.perf_counter() - began
        return self._paid() - before, took

    def _paid(self) -> int:
        with transaction(self.console, self.m, read_only=True) as db:
            row = first(db, "SELECT count(*) AS n FROM intents WHERE state = 'succeeded'")
        return int(row["n"]) if row else 0

    def _proposed(self, count: int) -> list[UUID]:
        start, self._number = self._number, self._number + count
        taken = self.stack.provider(SLUG).create_payments([{"amount": 5000, "currency": "eur"}] * count)
        actor = f"token:{self.merchant.tokens['chat'].split('_')[2]}"
        for number, payment in enumerate(taken, start):
            with transaction(self.console, self.m) as db:
                store_order(db, self.m, order_facts(_order(number, payment)))
                open_return(
                    db, self.m, ReturnRequest(f"B-{number}", (("L1", 1),), "size", "chat", f"c-{number}", actor)
                )
        with transaction(self.console, self.m, read_only=True) as db:
            found = rows(
                db, "SELECT intent_id FROM intents WHERE state = 'proposed' ORDER BY number DESC LIMIT :n", n=count
            )
        return [row["intent_id"] for row in found]

    def _seen(self, intent_id: UUID) -> tuple[UUID, Seen]:
        with transaction(self.console, self.m, read_only=True) as db:
            intent = read_intent(db, self.m, intent_id)
            if intent is None:
                raise RuntimeError("the proposed intent is gone")
            shown = fingerprint(intent, evidence_digest(db, self.m, intent["case_id"]))
        return intent_id, Seen(shown, secrets.token_hex(16))


def _order(number: int, payment: dict[str, Any]) -> dict[str, Any]:
    at = datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    return {
        "external_ref": f"B-{number}", "currency": "EUR", "total_minor": 5000, "placed_at": at, "zone": "Europe/Berlin",
        "channel": "web", "price_mode": "inclusive", "customer": {"external_ref": f"K-{number}", "name": f"Customer {number}"},
        "lines": [{"line_ref": "L1", "position": 1, "kind": "goods", "sku": "SKU", "title": "A thing", "quantity": 2,
                   "unit_price_minor": 2500, "tax_minor": 798}],
        "captures": [{"capture_ref": f"B-{number}-1", "tender": "card", "currency": "EUR", "captured_minor": 5000,
                      "captured_at": at, "payment_intent_ref": payment["payment_intent"], "charge_ref": payment["charge"],
                      "destination": {"kind": "card", "brand": "visa", "last4": "4242"}}],
    }  # fmt: skip
