"""A run that is cut off goes on where it stands, and two workers at once count nothing twice."""

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from typing import Any

import pytest

from jobs import books
from jobs.worker import Counts, Worker
from ledger.database import transaction
from ledger.reconciliation_run import Overtaken, next_place, take_run
from sandbox.client import Running
from tests.books import Month, month, work
from tests.jobs.processes import ROOT, wait_until
from tests.refunds import as_administrator, worker_at, worker_environment
from tests.stack import Stack
from tests.world import World


def sides(stack: Stack) -> dict[str, dict[str, Any]]:
    """Those of the run that was asked for last."""
    return {
        row["side"]: row
        for row in as_administrator(
            stack,
            "SELECT s.* FROM reconciliation_sides s"
            " JOIN reconciliation_runs r ON r.run_id = s.run_id ORDER BY r.asked_at, s.position",
        )
    }


def command(made: Month) -> list[str]:
    """`flask reconcile run` over the month, by days as a person writes them."""
    days = (made.since.date().isoformat(), (made.until.date() - timedelta(days=1)).isoformat())
    return [
        sys.executable,
        "-m",
        "flask",
        "reconcile",
        "run",
        "--merchant",
        made.world.slug,
        "--from",
        days[0],
        "--to",
        days[1],
    ]


def environment(made: Month) -> dict[str, str]:
    given = worker_environment(made.stack, made.sandbox.base_url, made.world, made.sandbox.secret_key)
    return {**given, "FLASK_APP": "app:application"}


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row a page, so that a few refunds make many pages."""
    monkeypatch.setattr("jobs.stripe_lists.PAGE", 1)
    monkeypatch.setattr("ledger.reconciliation_ours.BATCH", 1)


def test_a_run_stopped_after_any_page_ends_as_one_that_was_not(
    stack: Stack, sandbox: Running, world: World, worker: Worker, small_pages: None
) -> None:
    made = month(stack, sandbox, world, worker, refunds=2)
    made.at_provider("update refunds set amount = amount + 7 where id = ?", made.ref(made.paid[0]))
    whole = made.run()
    run_id, pages = made.ask(), 0
    for number in range(100):
        # Each page is another worker's: the one before died right after its commit.
        with worker_at(stack, sandbox, world) as other:
            with transaction(other.engine, world.merchant_id) as db:
                held = take_run(db, world.merchant_id, other.liveness.worker_id, run_id)
                assert held is not None, number
                place = next_place(db, held)
            if place is None:
                break
            books.turn(other, held, place)
            pages += 1
    assert pages == sum(row["pages"] for row in sides(stack).values())
    assert pages > len(sides(stack))

    assert work(worker)["runs"] == 1

    assert made.totals(run_id) == made.totals(whole)
    assert set(made.unexplained(run_id).values()) == {0}
    assert [row["kind"] for row in made.discrepancies()] == ["amount"]


def test_two_workers_at_one_page_turn_it_once(
    stack: Stack, sandbox: Running, world: World, worker: Worker, small_pages: None
) -> None:
    made = month(stack, sandbox, world, worker, refunds=2)
    run_id = made.ask()
    with transaction(worker.engine, world.merchant_id) as db:
        held = take_run(db, world.merchant_id, worker.liveness.worker_id, run_id)
    assert held is not None
    with transaction(worker.engine, world.merchant_id) as db:
        place = next_place(db, held)
    assert place is not None
    barrier, ends = threading.Barrier(2), []

    def turn() -> None:
        barrier.wait()
        try:
            books.turn(worker, held, place)
            ends.append("turned")
        except Overtaken:
            ends.append("overtaken")

    threads = [threading.Thread(target=turn) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(ends) == ["overtaken", "turned"]
    assert (sides(stack)["refunds"]["pages"], sides(stack)["refunds"]["rows_read"]) == (1, 1)
    assert made.totals(run_id)["refunds"] == (2490, 2490)


def test_two_workers_share_the_runs_and_a_held_one_is_left_alone(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=2)
    run_id = made.ask()
    with worker_at(stack, sandbox, world) as other:
        with transaction(other.engine, world.merchant_id) as db:
            assert take_run(db, world.merchant_id, other.liveness.worker_id, run_id) is not None
        assert work(worker) == Counts()
    # The other has ended, and its lock with it: nobody waits for its lease.
    assert work(worker)["runs"] == 1
    paid = sum(one.amount_minor for one in made.paid)
    assert made.totals(run_id)["refunds"] == (paid, paid)


def test_a_provider_that_cannot_be_asked_is_waited_for_and_nothing_is_concluded(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=1)
    run_id = made.ask()
    sandbox.fault("error_503", path="/v1/balance_transactions", method="GET")

    assert work(worker)["no_answer"] == 1

    (row,) = as_administrator(stack, "SELECT * FROM reconciliation_runs")
    assert (row["finished_at"], row["waits_for"] != "") == (None, True)
    assert made.discrepancies() == []
    as_administrator(stack, "UPDATE reconciliation_runs SET lease_until = now()")
    assert work(worker)["runs"] == 1
    assert made.totals(run_id)["movements"] == (2490, 2490)


def test_the_command_killed_in_the_middle_is_finished_by_the_same_command(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=2)
    sandbox.dashboard_refund(made.paid[0].payment_intent, 250)
    made.at_provider("update refunds set created = created - 172800 where idempotency_key is null")
    made.at_provider(
        "update balance_transactions set created = created - 172800 where source in"
        " (select id from refunds where idempotency_key is null)"
    )
    # The second side waits at the provider; the first is committed.
    sandbox.fault("delay_before", ms=20_000, path="/v1/balance_transactions", method="GET")
    with subprocess.Popen(command(made), cwd=ROOT, env=environment(made), stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: sides(stack) and sides(stack)["refunds"]["done_at"], "the first side")
        os.kill(process.pid, signal.SIGKILL)
    before = sides(stack)["refunds"]

    again = subprocess.run(
        command(made), check=False, cwd=ROOT, env=environment(made), capture_output=True, text=True, timeout=60
    )

    assert again.returncode == 0, again.stdout + again.stderr
    assert sides(stack)["refunds"] == before
    (row,) = as_administrator(stack, "SELECT finished_at IS NOT NULL AS over FROM reconciliation_runs")
    assert row["over"]
    assert list(made.kinds()) == ["missing_here"]
    paid = sum(one.amount_minor for one in made.paid)
    assert (
        f"refunds   GBP: ours {paid + 250}, theirs {paid + 250} minor units, difference 0, explained 0" in again.stdout
    )
    assert "missing_here 1" in again.stdout
