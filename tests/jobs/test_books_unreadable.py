"""One refund, movement or dispute that cannot be read holds up no run: it is named with why, and read again by the next run."""

import pytest

from jobs import outside
from jobs.worker import Worker
from sandbox.client import Running
from tests.books import days_pass, month, work
from tests.jobs.test_books_disputes import dispute
from tests.refunds import as_administrator, make_readings_due, refunds_at
from tests.stack import Stack
from tests.world import World


@pytest.mark.parametrize("broken", ["amount", "currency"])
def test_an_unreadable_refund_on_a_page_is_listed_and_all_others_are_compared(
    stack: Stack, sandbox: Running, world: World, worker: Worker, broken: str
) -> None:
    made = month(stack, sandbox, world, worker, refunds=3)
    odd, differing = made.ref(made.paid[1]), made.ref(made.paid[2])
    change = {
        "amount": "update refunds set amount = 1125899906842625 where id = ?",
        "currency": "update refunds set currency = '12' where id = ?",
    }[broken]
    made.at_provider(change, odd)
    made.at_provider("update refunds set amount = amount + 7 where id = ?", differing)

    run_id = made.run()

    assert made.kinds() == {"unreadable": [odd], "amount": [differing]}
    (row,) = [row for row in made.discrepancies() if row["kind"] == "unreadable"]
    assert (row["code"], "cannot be one" in row["theirs"]["reason"]) == (None, True)
    assert set(made.unexplained(run_id).values()) == {0}
    # Nothing is concluded from it.
    assert [refunds_at(sandbox, one) for one in made.paid] == [1, 1, 1]
    assert as_administrator(stack, "SELECT DISTINCT state FROM intents") == [{"state": "succeeded"}]

    made.at_provider("update refunds set amount = 2490, currency = 'gbp', status = 'succeeded' where id = ?", odd)
    again = made.run()

    codes = {row["kind"]: (row["code"], row["note"]) for row in made.discrepancies()}
    assert codes == {"unreadable": ("gone", "A later run could read it."), "amount": (None, None)}
    assert set(made.unexplained(again).values()) == {0}


def test_a_refund_whose_own_reading_fails_again_and_again_is_named_and_the_run_goes_on(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    """Its page and its movement are not there, so it is asked about by its id; the provider answers 503 for that one only."""
    made = month(stack, sandbox, world, worker, refunds=2)
    odd = made.ref(made.paid[0])
    made.at_provider("update refunds set created = created - 8640000 where id = ?", odd)
    made.at_provider("delete from balance_transactions where source = ?", odd)
    sandbox.fault("error_503", path=f"/v1/refunds/{odd}", method="GET", count=2)

    run_id = made.run()

    (row,) = made.discrepancies()
    assert (row["kind"], row["refund_ref"], row["intent_id"]) == ("unreadable", odd, made.paid[0].intent_id)
    assert row["theirs"]["reason"]
    assert made.totals(run_id) == {"refunds": (2490, 2490), "movements": (4980, 2490)}
    assert set(made.unexplained(run_id).values()) == {0}

    made.run()

    # Read now, it says what is wrong with it.
    assert {row["kind"]: row["code"] for row in made.discrepancies()} == {"unreadable": "gone", "missing_there": None}
    assert refunds_at(sandbox, made.paid[0]) == 1


def test_an_account_that_does_not_answer_at_all_is_waited_for_and_names_nothing(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=1)
    made.at_provider("update refunds set created = created - 8640000")
    made.at_provider("delete from balance_transactions")
    made.ask()
    # The page before was read; neither the refund nor the list that would prove that the account answers can be.
    sandbox.fault("error_503", path="/v1/refunds", method="GET", skip=1, count=2)

    assert work(worker)["no_answer"] == 1

    assert made.discrepancies() == []
    as_administrator(stack, "UPDATE reconciliation_runs SET lease_until = now()")
    assert work(worker)["runs"] == 1


def test_an_unreadable_dispute_is_named_and_hides_no_other(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=1)
    odd, missed = dispute(made), dispute(made, known=False)
    days_pass(made, 1)
    made.at_provider("update disputes set status = '' where id = ?", odd)

    run_id = made.run()

    found = {row["refund_ref"]: (row["about"], row["kind"], row["code"]) for row in made.discrepancies()}
    assert found == {odd: ("dispute", "unreadable", None), missed: ("dispute", "missing_here", "healed")}
    assert set(made.unexplained(run_id).values()) == {0}
    make_readings_due(stack)
    as_administrator(stack, "UPDATE account_readings SET done_to = NULL")
    assert outside.run_once(worker)["unreadable"] == 1
