"""An order is shared out by the methods of the policy in force when it was placed, whichever way it comes in."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from flask import Flask

from ledger.database import rows, transaction
from ledger.order_document import parse_order
from ledger.order_import import store_orders
from tests import lives
from tests.api.conftest import Caller, fact
from tests.engine import document, line
from tests.policies import decided, in_force
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, build_world, usual_policy

SPREAD: dict[str, Any] = {"promo": {"free_gift": "spread"}}
BY_UNIT: dict[str, Any] = {"promo": {"part_discount": "unit_attributed"}}
OFF: list[dict[str, Any]] = [{"id": "one", "minor": 500, "units": 1}]
GROSSES = """
    SELECT l.gross_minor FROM order_lines l JOIN orders o USING (merchant_id, order_id)
    WHERE o.merchant_id = :m AND o.external_ref = :r ORDER BY l.position
"""


def gifted(ref: str = "G-1", **facts: Any) -> dict[str, Any]:
    """150.00 EUR, and a gift of 19.00 with it (example 11)."""
    gift = {"id": "GIFT", "minor": 1900, "applies_to": ["L1", "L2"], "promo": {"type": "free_gift", "gift_line": "L2"}}
    return paid(document([line(1, 15_000), line(2, 1900)], 15_000, external_ref=ref, order_discounts=[gift], **facts))


def pinned() -> dict[str, Any]:
    """Three at 20.00, 5.00 off one of them (B026)."""
    return paid(document([line(1, 2000, 3, discounts=OFF)], 5500, external_ref="G-1"))


def paid(made: dict[str, Any]) -> dict[str, Any]:
    ref = made["external_ref"]
    made["captures"][0] |= {"payment_intent_ref": f"pi_{ref}", "charge_ref": f"ch_{ref}"}
    return made


@pytest.fixture
def merchant(stack: Stack) -> Callable[[dict[str, Any]], World]:
    """A merchant whose policy differs from the usual one by these fields; its days run from a delivery that nobody states."""
    usual = usual_policy("nord-usual") | {"window": {"days": 30, "starts": "delivered"}}
    return lambda changes: build_world(stack, "nord", policy=usual | changes)


def put(app: Flask, world: World, made: dict[str, Any]) -> list[str]:
    answer = Caller(app, world.shop).put(f"/orders/{made['external_ref']}", made)
    assert answer.status_code == 201
    discrepancies: list[str] = fact(answer)["discrepancies"]
    return discrepancies


def grosses(stack: Stack, world: World, ref: str = "G-1") -> list[int]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [row["gross_minor"] for row in rows(db, GROSSES, m=world.merchant_id, r=ref)]


def back(stack: Stack, world: World, *lines: tuple[str, int]) -> int:
    """What is owed once these came back, in minor units."""
    opened = lives.open_case(stack, world, lines, order_ref="G-1", reference=str(lines), relation="separate")
    lives.arrive(stack, world, opened.case_id, *lines)
    return _total(stack, world, opened.case_id)


def _total(stack: Stack, world: World, case_id: UUID) -> int:
    return int(decided(stack, world, case_id)["total_minor"])


def test_a_gift_that_is_spread_leaves_133_14_for_the_item_and_16_86_for_the_gift(
    app: Flask, stack: Stack, merchant: Callable[[dict[str, Any]], World]
) -> None:
    nord = merchant(SPREAD)
    assert put(app, nord, gifted()) == []
    assert grosses(stack, nord) == [13_314, 1686]
    assert (back(stack, nord, ("L1", 1)), back(stack, nord, ("L2", 1))) == (13_314, 1686)


def test_without_such_a_policy_the_item_is_worth_150_00(
    app: Flask, stack: Stack, merchant: Callable[[dict[str, Any]], World]
) -> None:
    nord = merchant({})
    put(app, nord, gifted())
    assert (grosses(stack, nord), back(stack, nord, ("L1", 1))) == ([15_000, 0], 15_000)


@pytest.mark.parametrize(("terms", "owed"), [(BY_UNIT, (3500, 2000)), ({}, (3667, 1833))])
def test_5_00_off_one_of_three_is_that_ones_where_the_policy_says_so(
    app: Flask, stack: Stack, merchant: Callable[[dict[str, Any]], World], terms: dict[str, Any], owed: tuple[int, int]
) -> None:
    nord = merchant(terms)
    put(app, nord, pinned())
    assert (back(stack, nord, ("L1", 2)), back(stack, nord, ("L1", 1))) == owed


def test_an_order_placed_before_the_policy_began_is_shared_out_as_usual_by_either_way_in(
    app: Flask, stack: Stack, merchant: Callable[[dict[str, Any]], World]
) -> None:
    nord = merchant(SPREAD)
    sales = {"G-1": "2025-12-31T23:59:59Z", "G-2": "2026-01-01T00:00:00Z"}
    for ref, placed_at in sales.items():
        put(app, nord, gifted(ref, placed_at=placed_at))
    found = [grosses(stack, nord, ref) for ref in sales]
    assert found == [[15_000, 0], [13_314, 1686]]

    filed = {f"F-{ref}": placed_at for ref, placed_at in sales.items()}
    batch = [parse_order(json.dumps(gifted(ref, placed_at=placed_at))) for ref, placed_at in filed.items()]
    with transaction(stack.console, nord.merchant_id) as db:
        assert [one.status for one in store_orders(db, nord.merchant_id, batch)] == ["created", "created"]
    assert [grosses(stack, nord, ref) for ref in filed] == found


def test_the_policy_for_most_of_the_goods_shares_the_order_out(app: Flask, stack: Stack, world: World) -> None:
    toys = {"policy_id": "harbour-toys", "select": {"categories": ["toys"]}, **SPREAD}
    in_force(stack, world, toys)
    as_administrator(stack, "UPDATE policies SET effective = tstzrange('2026-01-01', upper(effective))")
    for ref, categories in (("G-1", ("toys", "books")), ("G-2", ("books", "toys"))):
        made = gifted(ref)
        for of_one, category in zip(made["lines"], categories, strict=True):
            of_one["attributes"] = {"category": category}
        put(app, world, made)
    assert (grosses(stack, world), grosses(stack, world, "G-2")) == ([13_314, 1686], [15_000, 0])


def test_shares_that_the_policy_leaves_to_the_shop_and_it_did_not_say_are_a_persons(
    app: Flask, stack: Stack, merchant: Callable[[dict[str, Any]], World]
) -> None:
    nord = merchant({"allocation": {"order_discount": "explicit@1"}})
    made = gifted()
    del made["order_discounts"][0]["promo"]
    assert "explicit_mismatch" in put(app, nord, made)


def test_an_order_comes_in_as_usual_under_a_policy_that_cannot_be_read(
    app: Flask, stack: Stack, merchant: Callable[[dict[str, Any]], World]
) -> None:
    nord = merchant({"promo": {"free_gift": "half"}})
    put(app, nord, gifted())
    assert grosses(stack, nord) == [15_000, 0]


def test_a_policy_of_today_does_not_share_out_again_what_is_stored(
    app: Flask, stack: Stack, merchant: Callable[[dict[str, Any]], World]
) -> None:
    nord = merchant({})
    made = gifted()
    put(app, nord, made)
    in_force(stack, nord, SPREAD)
    as_administrator(stack, "DELETE FROM policies WHERE version = 1")
    as_administrator(stack, "UPDATE policies SET effective = tstzrange('2026-01-01', NULL)")
    assert fact(Caller(app, nord.shop).put("/orders/G-1", made))["result"] == "unchanged"
    put(app, nord, gifted("G-2"))
    assert (grosses(stack, nord), grosses(stack, nord, "G-2")) == ([15_000, 0], [13_314, 1686])
