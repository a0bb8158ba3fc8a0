"""The worker and what a person pays back: nothing leaves by itself, what was recorded settles, and nobody waits in a loop."""

from collections.abc import Callable
from uuid import UUID

import pytest

from jobs import by_hand, daily_cap, submitter
from jobs.schedule import until_quiet
from jobs.worker import Worker
from ledger.by_hand import Recorded, record
from ledger.database import transaction
from sandbox.client import Running
from tests import lives
from tests.orders import LAMP, TEE
from tests.refunds import as_administrator, creates, make_due
from tests.stack import Stack
from tests.world import World, add_order

Paid = Callable[[], UUID]


@pytest.fixture
def approved(stack: Stack, world: World) -> Paid:
    """Everything comes back of an order paid with a gift card: its refund, approved by Priya."""

    def made() -> UUID:
        order = add_order(stack, world, "G-1", captured={"gift_card": 137_60}, by_hand=frozenset({"gift_card"}))
        intent = lives.propose(stack, world, ((TEE, 3), (LAMP, 1)), order=order, reference="G-1")
        assert intent["act"] == "manual"
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
        return UUID(str(intent["intent_id"]))

    return made


def test_nothing_of_it_leaves_by_itself_and_the_worker_comes_to_rest(
    stack: Stack, world: World, worker: Worker, sandbox: Running, approved: Paid
) -> None:
    intent_id = approved()
    make_due(stack)
    assert "claimed" not in until_quiet(worker, 5)
    assert (lives.state(stack, world, intent_id), creates(sandbox)) == ("approved", [])


def test_what_was_recorded_is_settled_by_the_worker_and_the_provider_is_never_asked(
    stack: Stack, world: World, worker: Worker, sandbox: Running, approved: Paid
) -> None:
    intent_id = approved()
    with transaction(stack.console, world.merchant_id) as db:
        record(db, world.merchant_id, intent_id, world.tobias.staff_id, Recorded(reference="GC-7"))
    assert by_hand.run_once(worker) == {"by_hand_succeeded": 1}
    assert by_hand.run_once(worker) == {}
    (row,) = as_administrator(stack, "SELECT refunded_minor FROM captures c JOIN intents i USING (capture_id)"
                              " WHERE i.intent_id = %s", intent_id)  # fmt: skip
    assert row["refunded_minor"] == 132_70
    assert (creates(sandbox), sandbox.totals()) == ([], {})


def test_one_that_the_cap_held_waits_for_its_person_once_it_is_released(
    stack: Stack, world: World, worker: Worker, approved: Paid
) -> None:
    as_administrator(stack, "UPDATE caps SET limit_minor = 10000")
    intent_id = approved()
    assert lives.state(stack, world, intent_id) == "held"
    as_administrator(stack, "UPDATE caps SET limit_minor = 100000")
    as_administrator(stack, "UPDATE cap_days SET limit_minor = 100000")
    assert daily_cap.run_once(worker) == {"released": 1}
    assert (submitter.run_once(worker), lives.state(stack, world, intent_id)) == ({}, "approved")
