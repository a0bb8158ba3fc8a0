"""Refusals that come before money moves: a blocked order, and units that were paid for while others are left."""

import pytest

from ledger.caps import release_held
from ledger.database import transaction
from ledger.errors import MoreThanLeft, WrongState
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import pay
from tests.world import World


def test_a_refund_of_an_order_whose_figures_changed_is_not_approved(stack: Stack, world: World) -> None:
    one = lives.propose(stack, world)
    seen = lives.see(stack, world, one["intent_id"])
    as_administrator(stack, "UPDATE orders SET blocked = true, discrepancies = '{import_changed}'")
    with pytest.raises(WrongState, match="in question"):
        lives.approve_as(stack, world, world.priya, one["intent_id"], seen)
    assert lives.state(stack, world, one["intent_id"]) == "proposed"
    as_administrator(stack, "UPDATE orders SET blocked = false, discrepancies = '{}'")
    assert lives.approve_as(stack, world, world.priya, one["intent_id"], seen).state == "approved"


def test_asking_for_more_than_is_left_names_the_refund_that_took_the_rest(stack: Stack, world: World) -> None:
    one = lives.propose(stack, world)
    pay(stack, world, one["intent_id"])
    with pytest.raises(MoreThanLeft) as refused:
        lives.open_case(stack, world, (("TEE", 3),), reference="chat-2")
    (paid,) = refused.value.facts["refunds"]
    assert (paid["amount_minor"], paid["channel"], paid["approver_name"]) == (2490, "chat", "Priya Raman")
    assert paid["units"] == [{"line": "TEE", "from": 0, "to": 1}]


def test_what_another_reason_holds_is_not_released_by_the_cap(stack: Stack, world: World) -> None:
    one = lives.propose(stack, world)
    lives.approve_as(stack, world, world.priya, one["intent_id"])
    as_administrator(stack, "UPDATE orders SET blocked = true")
    assert lives.claim(stack, world) == []
    with transaction(stack.worker, world.merchant_id) as db:
        assert release_held(db, world.merchant_id) is False
    assert lives.state(stack, world, one["intent_id"]) == "held"
