"""Two returns of one order worked out in the same instant see each other: the order is locked first (DESIGN §4)."""

import time
from typing import Any
from uuid import UUID

import pytest

from ledger.assessment import work_out_again
from ledger.database import rows, transaction
from ledger.intents import propose
from tests import lives
from tests.orders import LAMP, TEE
from tests.stack import Stack
from tests.world import World, build_world, usual_policy


@pytest.fixture
def world(stack: Stack) -> World:
    """Shipping goes back with the last unit, and a manager decides from 100.00 in all."""
    policy = {
        **usual_policy("harbour-usual"),
        "shipping": "on_last_unit",
        "routes": {"manager_from_minor": {"GBP": 10000}},
    }
    return build_world(stack, policy=policy)


def both_at_once(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch, first: Any, second: Any
) -> list[dict[str, Any]]:
    """Runs the second while the first has worked its amount out and is not committed; returns every intent."""

    def slowly(*given: Any) -> Any:
        time.sleep(0.6)
        return propose(*given)

    def later() -> None:
        time.sleep(0.3)
        second()

    monkeypatch.setattr("ledger.assessment.propose", slowly)
    raced = lives.race(first, later)
    assert raced.refusals == []
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [dict(row) for row in rows(db, "SELECT * FROM intents WHERE state = 'proposed' ORDER BY number")]


def two_cases(stack: Stack, world: World) -> tuple[UUID, UUID]:
    shirts = lives.open_case(stack, world, ((TEE, 3),))
    return shirts.case_id, lives.open_case(stack, world, ((LAMP, 1),), reference="chat-2").case_id


def test_the_last_goods_of_an_order_bring_its_shipping_whoever_is_first(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shirts, lamp = two_cases(stack, world)
    found = both_at_once(
        stack, world, monkeypatch, lambda: lives.arrive(stack, world, shirts, (TEE, 3)),
        lambda: lives.arrive(stack, world, lamp, (LAMP, 1)),
    )  # fmt: skip
    assert [intent["amount_minor"] for intent in found] == [7470, 5800 + 490]


def test_two_that_are_below_a_limit_alone_do_not_both_pass_it(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shirts, lamp = two_cases(stack, world)
    found = both_at_once(
        stack, world, monkeypatch, lambda: lives.arrive(stack, world, shirts, (TEE, 3)),
        lambda: lives.arrive(stack, world, lamp, (LAMP, 1)),
    )  # fmt: skip
    assert [intent["route"] for intent in found] == ["desk", "manager"]


def test_an_amount_asked_for_again_waits_for_news_of_another_case(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shirts, lamp = two_cases(stack, world)
    lives.arrive(stack, world, lamp, (LAMP, 1))

    def again() -> None:
        with transaction(stack.console, world.merchant_id) as db:
            work_out_again(db, world.merchant_id, lamp, world.priya.actor)

    found = both_at_once(stack, world, monkeypatch, lambda: lives.arrive(stack, world, shirts, (TEE, 3)), again)
    assert sum(intent["amount_minor"] for intent in found) == world.order.total_minor
