"""ENTITLEMENT §8 with S22: the limit of two managers sees a sum as well, and so does what one person asks for in a day."""

from functools import partial
from typing import Any

import pytest

from ledger.assessment import work_out_again
from ledger.database import transaction
from ledger.errors import AlreadyDecided, SumTakesTwo, SumTooHigh
from tests import lives
from tests.allowances import generous_policy, give, intent_of
from tests.orders import Line
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, add_customer, add_order, build_world, usual_policy

LIMITS = {"manager_from_minor": {"GBP": 250_00}, "two_managers_from_minor": {"GBP": 1000_00}}


def policy(**routes: Any) -> dict[str, Any]:
    return usual_policy("harbour-usual") | {"routes": LIMITS | routes}


def proposed(stack: Stack, world: World, reference: str, minor: int = 600_00) -> Any:
    """A refund to Omar, on an order of its own."""
    order = add_order(stack, world, reference, customer_id=world.omar, lines=(Line("LAMP", 1, minor),))
    return lives.propose(stack, world, (("LAMP", 1),), order=order, reference=f"chat-{reference}")["intent_id"]


def routes(stack: Stack) -> list[str]:
    return [
        row["route"]
        for row in as_administrator(stack, "SELECT route FROM intents WHERE state <> 'withdrawn' ORDER BY number")
    ]


def test_two_refunds_of_600_in_a_day_pass_1000_so_the_second_takes_two_managers(stack: Stack) -> None:
    world = build_world(stack, policy=policy())
    first, second = (proposed(stack, world, f"T-{n}") for n in (1, 2))
    assert routes(stack) == ["manager", "two_managers"]
    assert lives.approve_as(stack, world, world.mara, first).state == "approved"
    assert lives.approve_as(stack, world, world.mara, second).state == "proposed"
    with pytest.raises(AlreadyDecided):
        lives.approve_as(stack, world, world.mara, second)
    assert lives.approve_as(stack, world, world.jonas, second).state == "approved"
    assert len(lives.claim(stack, world)) == 2


def test_two_cases_of_one_order_that_pass_the_limit_together_take_two_managers_for_the_second(stack: Stack) -> None:
    world = build_world(stack, policy=policy())
    order = add_order(
        stack, world, "T-1", customer_id=world.omar, lines=(Line("LAMP", 1, 600_00), Line("RUG", 1, 450_00))
    )
    lives.propose(stack, world, (("LAMP", 1),), order=order, reference="chat-1")
    lives.propose(stack, world, (("RUG", 1),), order=order, reference="chat-2", relation="separate")
    assert routes(stack) == ["manager", "two_managers"]


def test_one_manager_is_not_enough_for_what_passes_the_limit_with_another_approved_since(stack: Stack) -> None:
    """The later one was approved first: together with it the earlier one takes two, and waits for one."""
    world = build_world(stack, policy=policy())
    first, second = (proposed(stack, world, f"T-{n}") for n in (1, 2))
    for manager in (world.mara, world.jonas):
        lives.approve_as(stack, world, manager, second)
    with pytest.raises(SumTakesTwo, match="two managers"):
        lives.approve_as(stack, world, world.mara, first)
    (row,) = as_administrator(stack, "SELECT case_id FROM intents WHERE intent_id = %s", first)
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, row["case_id"], world.tobias.actor)
    assert routes(stack) == ["two_managers", "two_managers"]
    (anew,) = as_administrator(stack, "SELECT intent_id FROM intents WHERE state = 'proposed'")
    for manager in (world.mara, world.jonas):
        lives.approve_as(stack, world, manager, anew["intent_id"])
    assert len(lives.claim(stack, world)) == 2


def test_one_manager_s_approval_of_what_takes_two_by_now_is_not_sent(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S30: a build that forgets the sum at the approval; the worker derives it anew."""
    world = build_world(stack, policy=policy())
    first, second = (proposed(stack, world, f"T-{n}") for n in (1, 2))
    for manager in (world.mara, world.jonas):
        lives.approve_as(stack, world, manager, second)
    monkeypatch.setattr("ledger.approvals.check_sum", lambda *_: None)
    lives.approve_as(stack, world, world.mara, first)
    assert [one.intent_id for one in lives.claim(stack, world)] == [second]
    held = as_administrator(stack, "SELECT intent_id, state_reason FROM intents WHERE state = 'held'")
    assert held == [{"intent_id": first, "state_reason": "strength"}]


def goodwill(stack: Stack, world: World, number: int, minor: int = 15_00) -> Any:
    """Priya gives a customer of her own each time something for the trouble."""
    customer = add_customer(stack, world, f"K-{number}")
    order = add_order(stack, world, f"G-{number}", customer_id=customer, lines=(Line("LAMP", 1, 58_00),))
    return intent_of(stack, world, give(stack, world, order, "goodwill", "LAMP", minor))


def generous(**routes: Any) -> dict[str, Any]:
    return generous_policy(
        routes={"manager_from_minor": {"GBP": 25_00, "EUR": 25_00}, "always": {"allowance.goodwill": "staff"}, **routes}
    )


def test_goodwill_that_one_person_splits_over_customers_of_a_day_goes_to_a_manager(stack: Stack) -> None:
    world = build_world(stack, policy=generous())
    first, second = (goodwill(stack, world, number) for number in (1, 2))
    assert routes(stack) == ["desk", "manager"]
    lives.approve_as(stack, world, world.tobias, first["intent_id"])
    with pytest.raises(Exception, match="Hand it to a manager"):
        lives.approve_as(stack, world, world.tobias, second["intent_id"])
    lives.approve_as(stack, world, world.mara, second["intent_id"])
    assert len(lives.claim(stack, world)) == 2


def test_a_policy_may_leave_out_what_one_person_asks_for_in_a_day(stack: Stack) -> None:
    world = build_world(stack, policy=generous(sum_over=["order_lifetime", "customer_day"]))
    for number in (1, 2):
        goodwill(stack, world, number)
    assert routes(stack) == ["desk", "desk"]


def test_what_a_clerk_takes_in_is_no_opinion_however_much_it_is(stack: Stack) -> None:
    """The amounts of returns are computed: a day at the counter does not add up to a manager's."""
    world = build_world(stack, policy=policy())
    for number in (1, 2, 3):
        customer = add_customer(stack, world, f"K-{number}")
        order = add_order(stack, world, f"C-{number}", customer_id=customer, lines=(Line("LAMP", 1, 149_00),))
        lives.propose(stack, world, (("LAMP", 1),), order=order, reference=f"counter-{number}", actor=world.priya.actor)
    assert routes(stack) == ["desk", "desk", "desk"]


def test_of_two_opinions_asked_for_in_one_instant_one_sees_the_other(stack: Stack) -> None:
    """Even if neither was there when the other was worked out, and both wait at the desk: the second's approval finds the first."""
    world = build_world(stack, policy=generous())
    raced = lives.race(partial(goodwill, stack, world, 1), partial(goodwill, stack, world, 2))
    assert len(raced.results) == 2, raced.refusals
    as_administrator(stack, "UPDATE intents SET route = 'desk'")
    first, second = sorted(raced.results, key=lambda row: row["number"])
    lives.approve_as(stack, world, world.tobias, first["intent_id"])
    with pytest.raises(SumTooHigh):
        lives.approve_as(stack, world, world.tobias, second["intent_id"])
