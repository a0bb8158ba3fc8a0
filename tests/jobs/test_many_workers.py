"""Several workers at once, and a person calling back what a worker is about to send."""

from collections import Counter
from functools import partial

from jobs import reconciler, submitter
from jobs.worker import Worker
from ledger.database import transaction
from ledger.errors import WrongState
from ledger.intents import cancel_before_send
from sandbox.client import Running
from tests import lives
from tests.orders import Line
from tests.refunds import (
    Proposed,
    approved,
    as_administrator,
    creates,
    make_due,
    paid_order,
    refunds_at,
    state_of,
    worker_at,
)
from tests.stack import Stack
from tests.world import World


def test_two_workers_send_thirty_due_refunds_once_each(stack: Stack, world: World, sandbox: Running) -> None:
    ones = [approved(stack, world, sandbox) for _ in range(30)]
    sandbox.settings(latency_ms=20)
    with worker_at(stack, sandbox, world) as first, worker_at(stack, sandbox, world) as second:
        raced = lives.race(lambda: submitter.run_once(first), lambda: submitter.run_once(second))
    assert raced.refusals == []
    assert sum((Counter(counts) for counts in raced.results), Counter()) == {"claimed": 30, "confirmed": 30}
    assert Counter(call["idempotency_key"] for call in creates(sandbox)) == {one.key: 1 for one in ones}
    assert {state_of(stack, one) for one in ones} == {"succeeded"}
    assert sandbox.totals()["gbp"]["refunded"] == sum(one.amount_minor for one in ones)


def test_two_reconcilers_at_once_send_an_absent_refund_once(stack: Stack, world: World, sandbox: Running) -> None:
    ones = [approved(stack, world, sandbox) for _ in range(8)]
    with (
        worker_at(stack, sandbox, world, consistency_seconds=0) as first,
        worker_at(stack, sandbox, world, consistency_seconds=0) as second,
    ):
        lives.claim(stack, world)
        for _ in range(3):
            raced = lives.race(lambda: reconciler.run_once(first), lambda: reconciler.run_once(second))
            assert raced.refusals == []
            age_results(stack)
    assert {state_of(stack, one) for one in ones} == {"succeeded"}
    assert Counter(call["idempotency_key"] for call in creates(sandbox)) == {one.key: 1 for one in ones}


def age_results(stack: Stack) -> None:
    as_administrator(stack, "UPDATE attempt_results SET at = at - interval '5 seconds'")
    make_due(stack)


def test_refunds_of_one_charge_are_sent_one_after_the_other(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """The provider would turn the second away with lock_timeout."""
    lines = tuple(Line(f"L{number}", 1, 1000) for number in range(5))
    order = paid_order(stack, world, sandbox, lines)
    ones = [approved(stack, world, sandbox, line=line.ref, order=order) for line in lines]
    sandbox.settings(lock_wait_seconds=0, latency_ms=20)
    assert submitter.run_once(worker) == {"claimed": 5, "confirmed": 5}
    assert {state_of(stack, one) for one in ones} == {"succeeded"}
    assert sandbox.money(ones[0].payment_intent)["refunded"] == 5000


def test_calling_back_races_the_submitter_and_one_of_them_wins(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    lines = tuple(Line(f"L{number}", 1, 1000) for number in range(50))
    order = paid_order(stack, world, sandbox, lines)
    paid = 0
    for line in lines:
        one = approved(stack, world, sandbox, line=line.ref, order=order)
        raced = lives.race(partial(call_back, stack, world, one), partial(submitter.run_once, worker))
        called_back = "called back" in raced.results
        paid += not called_back
        assert [type(refusal) for refusal in raced.refusals] == ([] if called_back else [WrongState])
        assert state_of(stack, one) == ("withdrawn" if called_back else "succeeded")
        assert refunds_at(sandbox, one) == paid
    assert submitter.run_once(worker) == {}
    assert sandbox.totals()["gbp"]["refunded"] == 1000 * paid
    balance = as_administrator(
        stack, "SELECT reserved_minor, refunded_minor FROM captures WHERE order_id = %s", order.order_id
    )
    assert balance == [{"reserved_minor": 0, "refunded_minor": 1000 * paid}]


def call_back(stack: Stack, world: World, one: Proposed) -> str:
    with transaction(stack.console, world.merchant_id) as db:
        cancel_before_send(db, world.merchant_id, one.intent_id, world.priya.actor, "not_yet")
    return "called back"
