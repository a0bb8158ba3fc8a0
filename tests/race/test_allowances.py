"""P4 of money kept and money returned: two real connections on one line in one instant, and the same with the guard taken away."""

from collections.abc import Callable
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from ledger import room
from ledger.database import rows, transaction
from ledger.errors import BadInput
from ledger.events import lock_case
from ledger.intents import propose
from tests import lives
from tests.allowances import generous_policy, give
from tests.orders import Line, Order
from tests.stack import Stack, without
from tests.world import World, add_order, build_world, usual_policy

ROUNDS = 6
P4 = ("ALTER TABLE order_lines DROP CONSTRAINT claimed_within_allocated", "DROP TRIGGER within_units ON line_claims")


@pytest.fixture
def world(stack: Stack) -> World:
    """What Priya gives on one order after the other does not add up: it is about one order here."""
    routes = usual_policy("harbour-usual")["routes"] | {"sum_over": ["order_lifetime", "customer_day"]}
    return build_world(stack, policy=generous_policy(goodwill={"max_minor": {"GBP": 100_00}}, routes=routes))


def waiting(stack: Stack, world: World, number: int, line: Line) -> tuple[Order, Callable[[], Any]]:
    """An order of which one unit is announced, and what the warehouse does when the parcel is in its hands."""
    order = add_order(stack, world, f"W-{number}", lines=(line,))
    opened = lives.open_case(stack, world, ((line.ref, 1),), order_ref=order.external_ref, reference=f"w-{number}")
    return order, lambda: lives.arrive(stack, world, opened.case_id, (line.ref, 1))


def claimed(stack: Stack, world: World, order: Order) -> int:
    return lives.count(
        stack.console, world,
        "SELECT coalesce(sum(claimed_minor), 0) FROM order_lines WHERE merchant_id = :m AND order_id = :o", o=order.order_id,
    )  # fmt: skip


def test_a_whole_return_and_goodwill_on_one_line_in_one_instant_never_pass_the_line(stack: Stack, world: World) -> None:
    """The one that comes second is refused (the goodwill) or pays the rest (the return)."""
    for number in range(ROUNDS):
        order, arrives = waiting(stack, world, number, Line("LAMP", 1, 58_00))
        raced = lives.race(arrives, partial(give, stack, world, order, "goodwill", "LAMP", 40_00))
        assert [type(one) for one in raced.refusals] in ([], [BadInput])
        assert claimed(stack, world, order) == 58_00


def unlocked(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    """A build that forgets to lock the order, whose two requests have both read before either writes."""
    barrier, read = Barrier(together, timeout=20), room.read_room

    def waits(*args: Any, **more: Any) -> Any:
        barrier.wait()
        return propose(*args, **more)

    def forgets(*args: Any, lock: bool, **more: Any) -> Any:
        return read(*args, **more)

    monkeypatch.setattr("ledger.assessment.propose", waits)
    monkeypatch.setattr("ledger.allowances.read_room", forgets)
    monkeypatch.setattr("ledger.assessment.lock_asker", lambda *_: None)
    monkeypatch.setattr("ledger.evidence.lock_order_and_case", lock_case)


@pytest.mark.parametrize(
    ("kind", "line", "minor"), [("goodwill", Line("LAMP", 1, 58_00), 40_00), ("goodwill", Line("TEE", 3, 74_70), 70_00)]
)
def test_without_the_lock_the_line_refuses_the_second_and_without_its_ceiling_both_are_claimed(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch, kind: str, line: Line, minor: int
) -> None:
    unlocked(monkeypatch, 2)
    order, arrives = waiting(stack, world, 1, line)
    raced = lives.race(arrives, lambda: give(stack, world, order, kind, line.ref, minor))
    assert len(raced.results) == len(raced.refusals) == 1
    assert isinstance(raced.refusals[0], BadInput | IntegrityError)
    assert claimed(stack, world, order) <= line.gross_minor
    without(stack, *P4)
    order, arrives = waiting(stack, world, 2, line)
    raced = lives.race(arrives, lambda: give(stack, world, order, kind, line.ref, minor))
    assert (len(raced.results), raced.refusals) == (2, [])
    assert claimed(stack, world, order) > line.gross_minor


def known(stack: Stack, world: World, ref: str, *lines: Line) -> Order:
    """An order of which something was derived before, so that nobody waits for anybody to store what it was derived from."""
    order = add_order(stack, world, ref, lines=(*(lines or (Line("TEE", 3, 74_70),)), Line("CAP", 1, 9_00)))
    lives.open_case(stack, world, (("CAP", 1),), order_ref=ref, reference=ref)
    return order


def test_three_allowances_for_one_unit_in_one_instant_never_pass_the_unit_and_without_its_guard_do(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the price for keeping one T-shirt of three: the line would hold it three times, the unit holds it twice."""
    order, other = (known(stack, world, ref) for ref in ("U-1", "U-2"))
    unlocked(monkeypatch, 3)
    raced = lives.race(*[lambda: give(stack, world, order, "keep_item", "TEE", 12_45)] * 3)
    assert (len(raced.results), [type(one) for one in raced.refusals]) == (2, [BadInput])
    assert claimed(stack, world, order) == 24_90
    without(stack, "DROP TRIGGER within_units ON line_claims")
    raced = lives.race(*[lambda: give(stack, world, other, "keep_item", "TEE", 12_45)] * 3)
    assert (len(raced.results), claimed(stack, world, other)) == (3, 37_35)


def routes(stack: Stack, world: World, order: Order) -> list[str]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = rows(db, "SELECT route FROM intents WHERE merchant_id = :m AND order_id = :o AND state = 'proposed'",
                     m=world.merchant_id, o=order.order_id)  # fmt: skip
    return sorted(row["route"] for row in found)


def test_two_goodwills_of_one_order_in_one_instant_never_stay_below_its_maximum_together_and_without_the_lock_do(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """60.00 on each of two lines, where an order may have 100.00: whichever comes second takes two managers."""
    lines = (Line("LAMP", 1, 98_00), Line("TEE", 1, 98_00))
    for number in range(ROUNDS):
        order = known(stack, world, f"G-{number}", *lines)
        raced = lives.race(*[partial(give, stack, world, order, "goodwill", line.ref, 60_00) for line in lines])
        assert raced.refusals == []
        assert routes(stack, world, order) == ["desk", "two_managers"]
    unlocked(monkeypatch, 2)
    order = known(stack, world, "G-control", *lines)
    lives.race(*[partial(give, stack, world, order, "goodwill", line.ref, 60_00) for line in lines])
    assert routes(stack, world, order) == ["desk", "desk"]
