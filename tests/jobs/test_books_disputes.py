"""Disputes in a run: what is planted on either side is named once, healed on the normal way where there is one, and adds up."""

import pytest

from jobs import books, outside
from jobs.worker import Worker
from ledger.database import transaction
from ledger.reconciliation_run import next_place, take_run
from sandbox.client import Running
from tests.books import Month, days_pass, month
from tests.jobs.test_books_interrupted import sides
from tests.refunds import as_administrator, make_readings_due, paid_order, refunds_at, worker_at
from tests.stack import Stack
from tests.world import World


def dispute(made: Month, *, inquiry: bool = False, known: bool = True) -> str:
    """A dispute about the payment of an order of its own, days ago; `known`: the account's list was read since."""
    order = paid_order(made.stack, made.world, made.sandbox)
    capture = as_administrator(
        made.stack, "SELECT payment_intent_ref AS ref FROM captures WHERE capture_id = %s", order.captures["card"]
    )[0]
    ref = str(made.sandbox.open_dispute(capture["ref"], inquiry=inquiry)["id"])
    if known:
        make_readings_due(made.stack)
        outside.run_once(made.worker)
    return ref


def named(made: Month) -> dict[tuple[str, str], tuple[str, str | None]]:
    """(about, reference) to (kind, code that resolved it)."""
    return {(row["about"], row["refund_ref"]): (row["kind"], row["code"]) for row in made.discrepancies()}


def test_disputes_that_both_sides_know_add_up(stack: Stack, sandbox: Running, world: World, worker: Worker) -> None:
    made = month(stack, sandbox, world, worker, refunds=1)
    dispute(made)
    dispute(made, inquiry=True)
    days_pass(made, 1)

    run_id = made.run()

    assert made.discrepancies() == []
    # A bank's question takes nothing on either side.
    assert made.totals(run_id)["disputes"] == (7470, 7470)
    assert set(made.unexplained(run_id).values()) == {0}


def test_one_of_each_difference_of_disputes_is_named_once_and_the_sums_are_explained(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=1)
    absent, amount, currency, won = (dispute(made) for _ in range(4))
    missed = dispute(made, known=False)
    days_pass(made, 1)
    made.at_provider("delete from disputes where id = ?", absent)
    made.at_provider("update disputes set amount = amount + 7 where id = ?", amount)
    made.at_provider("update disputes set currency = 'eur' where id = ?", currency)
    sandbox.close_dispute(won, "won")
    before = sandbox.totals()

    run_id = made.run()

    assert named(made) == {
        ("dispute", absent): ("missing_there", None), ("dispute", amount): ("amount", None),
        ("dispute", currency): ("currency", None), ("dispute", won): ("state", "healed"),
        ("dispute", missed): ("missing_here", "healed"),
    }  # fmt: skip
    assert set(made.unexplained(run_id).values()) == {0}
    states = {row["dispute_ref"]: row["status"] for row in as_administrator(stack, "SELECT * FROM disputes")}
    assert (states[won], states[missed], states[absent]) == ("won", "needs_response", "needs_response")
    (row,) = as_administrator(stack, "SELECT disputed_minor FROM captures c JOIN disputes d USING (charge_ref)"
                              " WHERE d.dispute_ref = %s", missed)  # fmt: skip
    assert row["disputed_minor"] == 7470
    assert sandbox.totals() == before
    assert refunds_at(sandbox, made.paid[0]) == 1

    again = made.run()

    assert {key: code for key, (_, code) in named(made).items()} == {
        ("dispute", absent): None, ("dispute", amount): None, ("dispute", currency): None, ("dispute", won): "healed",
        ("dispute", missed): "healed",
    }  # fmt: skip
    assert set(made.unexplained(again).values()) == {0}


def test_disputes_are_read_on_by_another_worker_after_each_page(
    stack: Stack, sandbox: Running, world: World, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.stripe_lists.PAGE", 1)
    monkeypatch.setattr("ledger.reconciliation_disputes.BATCH", 1)
    made = month(stack, sandbox, world, worker, refunds=1)
    absent = dispute(made)
    dispute(made)
    days_pass(made, 1)
    made.at_provider("delete from disputes where id = ?", absent)
    run_id = made.ask()
    for _ in range(40):
        with worker_at(stack, sandbox, world) as other:
            with transaction(other.engine, world.merchant_id) as db:
                held = take_run(db, world.merchant_id, other.liveness.worker_id, run_id)
                assert held is not None
                place = next_place(db, held)
            if place is None:
                break
            books.turn(other, held, place)
    read = {side: (row["pages"], row["rows_read"]) for side, row in sides(stack).items() if "disputes" in side}
    # One at the provider, two here, and the page that says that none follows.
    assert read == {"disputes": (1, 1), "our_disputes": (3, 2)}
    assert made.totals(run_id)["disputes"] == (2 * 7470, 7470)
    assert list(named(made).values()) == [("missing_there", None)]
