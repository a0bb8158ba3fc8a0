"""P9 and P10 with their controls: what a program without them does with a time-out, and the money that costs."""

from jobs import reconciler, submitter
from jobs.worker import Worker
from ledger.assessment import work_out_again
from ledger.database import transaction
from ledger.settlement import Refused
from sandbox.client import Running
from tests import lives
from tests.refunds import Proposed, approved, balances, refunds_at, state_of
from tests.stack import Stack
from tests.world import World


def timed_out(stack: Stack, world: World, sandbox: Running) -> Proposed:
    """Approved; the provider will do it and answer after the caller's patience."""
    one = approved(stack, world, sandbox)
    sandbox.fault("delay_after", ms=1500, charge=one.charge)
    return one


def test_a_time_out_is_unknown_and_the_refund_that_was_made_is_adopted(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = timed_out(stack, world, sandbox)
    assert submitter.run_once(worker) == {"claimed": 1, "unknown": 1}
    assert (state_of(stack, one), balances(stack, one)[1]) == ("unknown", one.amount_minor)
    assert reconciler.run_once(worker) == {"looks": 1, "found": 1}
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)


def test_control_a_time_out_taken_for_a_failure_is_paid_twice(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = timed_out(stack, world, sandbox)
    time_out_means_failed(stack, world, worker)
    assert state_of(stack, one) == "failed"
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, one.case_id, world.tobias.actor)
    again = lives.intents(stack, world, one.case_id)[-1]
    lives.approve_as(stack, world, world.priya, again["intent_id"])
    submitter.run_once(worker)
    assert refunds_at(sandbox, one) == 2
    assert sandbox.money(one.payment_intent)["refunded"] == 2 * one.amount_minor


def time_out_means_failed(stack: Stack, world: World, worker: Worker) -> None:
    """The submitter of a program that has no fourth outcome."""
    for claimed in lives.claim(stack, world):
        outcome = worker.gateway.refund(claimed.request, claimed.key)
        lives.record(stack, claimed, Refused("timeout", outcome.detail if hasattr(outcome, "detail") else "", 0))


def test_control_a_reconciler_that_takes_one_empty_list_for_proof_and_a_new_key_pays_twice(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    sandbox.fault("list_lag", seconds=3600)
    (claimed,) = lives.claim(stack, world)
    worker.gateway.refund(claimed.request, claimed.key)
    assert reconciler.run_once(worker) == {"orphans": 1, "looks": 1, "absent": 1}
    assert refunds_at(sandbox, one) == 1
    worker.gateway.refund(claimed.request, "onceback-refund-made-up-on-the-spot")
    assert refunds_at(sandbox, one) == 2
