"""ENTITLEMENT §8 with S22: the limit of two managers sees a sum as well, and so does what one person asks for in a day."""

import threading
from functools import partial
from typing import Any

import pytest

from ledger.allowances import Given, open_allowance
from ledger.assessment import work_out_again
from ledger.database import transaction
from ledger.errors import AlreadyDecided, SumTakesTwo, SumTooHigh
from ledger.limits import read_sum
from tests import lives
from tests.allowances import asked, generous_policy, give, intent_of
from tests.orders import Line, Order
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


def goodwill(stack: Stack, world: World, number: int) -> Any:
    """Priya gives a customer of her own each time 15.00 for the trouble."""
    return intent_of(
        stack, world, give(stack, world, order_of_another(stack, world, number), "goodwill", "LAMP", 15_00)
    )


def order_of_another(stack: Stack, world: World, number: int) -> Order:
    customer = add_customer(stack, world, f"K-{number}")
    return add_order(stack, world, f"G-{number}", customer_id=customer, lines=(Line("LAMP", 1, 58_00),))


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


def orders_of_a_day(stack: Stack, world: World) -> tuple[Order, Order]:
    """Two orders of other customers. What both proposals are derived from was stored before: storing it waits for nobody."""
    earlier, mine, other = (order_of_another(stack, world, number) for number in (3, 1, 2))
    give(stack, world, earlier, "goodwill", "LAMP", 1_00, actor=world.jonas.actor)
    return mine, other


def asked_while_another_is_open(stack: Stack, world: World) -> tuple[Any, Any]:
    """Priya asks for goodwill in two windows: the second begins while the first is not committed. Both refunds, the first first."""
    mine, other = orders_of_a_day(stack, world)
    found: list[Given] = []
    second = threading.Thread(target=lambda: found.append(give(stack, world, other, "goodwill", "LAMP", 15_00)))
    with transaction(stack.console, world.merchant_id) as db:
        first = open_allowance(db, world.merchant_id, asked(world, mine, "goodwill", "LAMP", 15_00))
        second.start()
        waits_or_ends(stack, second)
    second.join()
    return intent_of(stack, world, first), intent_of(stack, world, found[0])


def waits_or_ends(stack: Stack, thread: threading.Thread) -> None:
    """Until the other connection waits for a lock, or is done."""
    for _ in range(500):
        waiting = as_administrator(stack, "SELECT 1 AS n FROM pg_locks WHERE NOT granted AND locktype = 'advisory'")
        if waiting or not thread.is_alive():
            return
        thread.join(0.01)
    raise AssertionError("the second neither waits nor ends")


def test_an_opinion_waits_for_one_of_the_same_person_that_is_not_committed_and_sees_it(stack: Stack) -> None:
    world = build_world(stack, policy=generous())
    first, second = asked_while_another_is_open(stack, world)
    assert (first["route"], second["route"]) == ("desk", "manager")


def test_without_the_lock_both_pass_at_the_desk(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: numbers are no commit order, so the one with the higher number may be approved before the other is there."""
    monkeypatch.setattr("ledger.assessment.lock_asker", lambda *_: None)
    world = build_world(stack, policy=generous())
    mine, other = orders_of_a_day(stack, world)
    with transaction(stack.console, world.merchant_id) as db:
        first = open_allowance(db, world.merchant_id, asked(world, mine, "goodwill", "LAMP", 15_00))
        second = intent_of(stack, world, give(stack, world, other, "goodwill", "LAMP", 15_00))
        assert lives.approve_as(stack, world, world.tobias, second["intent_id"]).state == "approved"
    last = lives.approve_as(stack, world, world.tobias, intent_of(stack, world, first)["intent_id"])
    assert (last.state, routes(stack)) == ("approved", ["desk"] * 3)


@pytest.mark.parametrize(
    ("customer_hours", "person_hours", "together"),
    [(23, 23, 30_00), (25, 23, 30_00), (25, 25, 15_00)],
    ids=["in the customer's day", "past the customer's day, in the person's", "past both"],
)
def test_what_the_customer_s_day_counts_no_more_counts_in_the_person_s_day(
    stack: Stack, customer_hours: int, person_hours: int, together: int
) -> None:
    """Goodwill for Omar, asked for `person_hours` before another for him, which is looked at `customer_hours` after the first."""
    world = build_world(stack, policy=generous())
    intents = []
    for number in (1, 2):
        order = add_order(stack, world, f"O-{number}", customer_id=world.omar, lines=(Line("LAMP", 1, 58_00),))
        intents.append(intent_of(stack, world, give(stack, world, order, "goodwill", "LAMP", 15_00))["intent_id"])
    for intent_id, hours in zip(intents, (customer_hours, customer_hours - person_hours), strict=True):
        as_administrator(
            stack, "UPDATE intents SET created_at = created_at - make_interval(hours => %s) WHERE intent_id = %s", hours, intent_id
        )  # fmt: skip
    with transaction(stack.console, world.merchant_id) as db:
        found = read_sum(db, world.merchant_id, intents[1])
    assert found is not None
    assert found.together_minor == together
