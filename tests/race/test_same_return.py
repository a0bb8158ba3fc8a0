"""P1: the chat and the counter ask for the same units in one instant; one case comes of it. And what comes of it unguarded."""

from functools import partial

import pytest
from sqlalchemy import Connection

from ledger import cases, database
from ledger.cases import Opened
from ledger.errors import AskCustomer
from tests.lives import Raced, count, open_case, race
from tests.stack import Stack, without
from tests.world import World, add_order

ROUNDS = 50
CASES = "SELECT count(*) FROM cases c JOIN orders o USING (merchant_id, order_id) WHERE merchant_id = :m AND external_ref = :r"
HELD_TWICE = """
    SELECT count(*) FROM case_items a JOIN case_items b ON b.merchant_id = a.merchant_id AND b.line_id = a.line_id
        AND b.item_id > a.item_id AND b.units && a.units
    WHERE a.merchant_id = :m AND a.live AND b.live
"""


def both_ask(stack: Stack, world: World, ref: str, lines: tuple[tuple[str, int], ...] = (("LAMP", 1),)) -> Raced:
    """The chat and Priya at the counter, each on a connection of its own, released together."""
    chat = partial(open_case, stack, world, lines, order_ref=ref, channel="chat", reference=f"chat-{ref}")
    counter = partial(
        open_case,
        stack,
        world,
        lines,
        order_ref=ref,
        channel="counter",
        reference=f"slip-{ref}",
        actor=world.priya.actor,
    )
    return race(chat, counter)


def test_the_same_return_at_chat_and_counter_in_one_instant_is_one_case(stack: Stack, world: World) -> None:
    for number in range(ROUNDS):
        ref = add_order(stack, world, f"R-{number}").external_ref
        raced = both_ask(stack, world, ref)
        assert raced.refusals == []
        opened: list[Opened] = raced.results
        assert sorted(one.status for one in opened) == ["joined", "opened"]
        assert len({one.case_id for one in opened}) == 1
        assert count(stack.console, world, CASES, r=ref) == 1
    assert count(stack.console, world, HELD_TWICE) == 0
    assert count(stack.console, world, "SELECT count(*) FROM conversations WHERE merchant_id = :m") == 2 * ROUNDS


def test_one_unit_of_three_asked_for_twice_in_one_instant_is_one_case_and_one_question(
    stack: Stack, world: World
) -> None:
    for number in range(10):
        ref = add_order(stack, world, f"Q-{number}").external_ref
        raced = both_ask(stack, world, ref, (("TEE", 1),))
        assert [one.status for one in raced.results] == ["opened"]
        assert [type(refusal) for refusal in raced.refusals] == [AskCustomer]
        assert count(stack.console, world, CASES, r=ref) == 1


def test_with_the_order_unlocked_the_units_themselves_refuse_the_second_case(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first guard off, the last one on: the exclusion constraint of the database."""
    unlock(monkeypatch)
    met = 0
    for number in range(20):
        ref = add_order(stack, world, f"U-{number}").external_ref
        raced = both_ask(stack, world, ref)
        met += len(raced.refusals)
        assert all("units_returned_once" in str(refusal) for refusal in raced.refusals)
        assert count(stack.console, world, CASES, r=ref) == 1
    assert met > 0
    assert count(stack.console, world, HELD_TWICE) == 0


def test_without_the_lock_and_the_constraint_one_lamp_is_in_two_cases(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: both guards off."""
    unlock(monkeypatch)
    without(stack, "ALTER TABLE case_items DROP CONSTRAINT units_returned_once")
    for number in range(20):
        both_ask(stack, world, add_order(stack, world, f"X-{number}").external_ref)
    assert count(stack.console, world, HELD_TWICE) > 0
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") > 20


def unlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads the order without its lock."""
    locked = database.first

    def unlocked(db: Connection, sql: str, /, **values: object) -> object:
        return locked(db, sql.replace("FOR NO KEY UPDATE", "") if "FROM orders" in sql else sql, **values)

    monkeypatch.setattr(cases, "first", unlocked)
