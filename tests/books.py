"""A merchant's month: refunds paid through the local provider, some days ago on both sides, and what can differ between them."""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from jobs import books, submitter
from jobs.worker import Counts, Worker
from ledger.database import rows, transaction
from ledger.reconciliation_run import ask_run
from sandbox.client import Running
from tests.refunds import Proposed, approved, as_administrator
from tests.stack import Stack
from tests.world import World

DAYS_AGO = 10


@dataclass(frozen=True)
class Month:
    """Paid refunds, all of them DAYS_AGO days old; the period around them is `since` to `until`."""

    stack: Stack
    world: World
    sandbox: Running
    worker: Worker
    paid: list[Proposed]
    since: datetime
    until: datetime

    def run(self) -> UUID:
        """Asks for a run over the period and works it to its end."""
        run_id = self.ask()
        assert work(self.worker)["runs"] == 1
        return run_id

    def ask(self) -> UUID:
        with transaction(self.stack.worker, self.world.merchant_id) as db:
            (run_id,) = ask_run(db, self.world.merchant_id, self.since, self.until, "command")
        return run_id

    def ref(self, one: Proposed) -> str:
        """The provider's reference of a refund of ours."""
        row = as_administrator(
            self.stack, "SELECT provider_refund_ref AS ref FROM intents WHERE intent_id = %s", one.intent_id
        )
        return str(row[0]["ref"])

    def at_provider(self, statement: str, *values: Any) -> None:
        """Changes the provider's own rows, as no caller could."""
        with sqlite3.connect(self.sandbox.db, timeout=10) as db:
            db.execute(statement, values)

    def discrepancies(self) -> list[dict[str, Any]]:
        """All there are, oldest first, with the code that resolved each."""
        return as_administrator(
            self.stack, "SELECT d.*, a.code, a.note, a.actor FROM discrepancies d LEFT JOIN discrepancy_acts a"
            " ON a.discrepancy_id = d.discrepancy_id AND a.kind = 'resolved' ORDER BY d.number",
        )  # fmt: skip

    def kinds(self) -> dict[str, list[str]]:
        """The references of each kind of discrepancy."""
        found: dict[str, list[str]] = {}
        for row in self.discrepancies():
            found.setdefault(row["kind"], []).append(row["refund_ref"])
        return found

    def unexplained(self, run_id: UUID) -> dict[tuple[str, str], int]:
        """By part and currency: theirs less ours less what the discrepancies of the run are; all 0 when explained."""
        with transaction(self.stack.console, self.world.merchant_id, read_only=True) as db:
            found = rows(
                db, "SELECT t.part, t.currency, t.theirs_minor - t.ours_minor - coalesce((SELECT sum(f.difference_minor)"
                " FROM reconciliation_findings f WHERE f.merchant_id = t.merchant_id AND f.run_id = t.run_id"
                " AND f.part = t.part AND f.currency = t.currency), 0)::bigint AS rest FROM reconciliation_totals t"
                " WHERE t.merchant_id = :m AND t.run_id = :r", m=self.world.merchant_id, r=run_id,
            )  # fmt: skip
        return {(row["part"], row["currency"]): row["rest"] for row in found}

    def totals(self, run_id: UUID, currency: str = "GBP") -> dict[str, tuple[int, int]]:
        """Ours and theirs in minor units, by part."""
        found = as_administrator(
            self.stack, "SELECT * FROM reconciliation_totals WHERE run_id = %s AND currency = %s", run_id, currency
        )
        return {row["part"]: (row["ours_minor"], row["theirs_minor"]) for row in found}


def work(worker: Worker) -> Counts:
    """Works every run there is; the night is not asked about, for it depends on the hour of the test."""
    counts: Counts = Counts()
    for merchant_id in worker.merchants():
        books.work_runs(worker, merchant_id, counts)
    return counts


def month(stack: Stack, sandbox: Running, world: World, worker: Worker, refunds: int = 2) -> Month:
    """`refunds` refunds of one unit each, approved, sent and paid, and then time passes on both sides."""
    paid = [approved(stack, world, sandbox) for _ in range(refunds)]
    assert submitter.run_once(worker)["confirmed"] == refunds
    since = datetime.now(UTC) - timedelta(days=2 * DAYS_AGO)
    made = Month(stack, world, sandbox, worker, paid, since, datetime.now(UTC) + timedelta(hours=1))
    days_pass(made)
    return made


def days_pass(made: Month, days: int = DAYS_AGO) -> None:
    """Every refund and movement so far is that much older, here and there."""
    as_administrator(made.stack, "UPDATE transfers SET at = at - %s::interval", f"{days} days")
    as_administrator(made.stack, "UPDATE disputes SET created_at = created_at - %s::interval", f"{days} days")
    for table in ("refunds", "balance_transactions", "disputes"):
        made.at_provider(f"update {table} set created = created - ?", days * 86_400)  # noqa: S608 - of the line above
