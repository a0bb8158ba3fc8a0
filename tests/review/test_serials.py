"""Units sold under serials are claimed by serial: whichever is scanned first, each pays once, and a wrong scan is put right."""

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from ledger.database import rows, transaction
from ledger.errors import BadInput
from ledger.evidence import Arrival, Graded, ReceivedLine, report_arrival
from ledger.queries.orders import lines_at_bench
from tests.lives import arrive, count, intents, open_case, race
from tests.orders import Line
from tests.stack import Stack
from tests.world import World, add_order

# Two drills, 100.01 in all: the first is 50.01 of it and the second 50.00.
DRILLS = (Line("DRILL", 2, 10_001, sku="DRILL", title="Drill", serials=("S1", "S2")),)
HELD_TWICE = """
    SELECT count(*) FROM case_items a JOIN case_items b ON b.merchant_id = a.merchant_id AND b.line_id = a.line_id
        AND b.item_id > a.item_id AND b.units && a.units
    WHERE a.merchant_id = :m AND a.live AND b.live
"""


def announced(stack: Stack, world: World, units: int = 1, *, ref: str = "D-1", **changes: Any) -> UUID:
    return open_case(stack, world, (("DRILL", units),), order_ref=ref, reference=f"chat-{ref}", **changes).case_id


@pytest.fixture
def drills(stack: Stack, world: World) -> None:
    add_order(stack, world, "D-1", lines=DRILLS)


def scan(stack: Stack, world: World, case_id: UUID, received: int, *serials: str, grade: str = "A") -> None:
    found = tuple(Graded(1, grade, serial=serial) for serial in serials)
    with transaction(stack.console, world.merchant_id) as db:
        arrival = Arrival((ReceivedLine("DRILL", received, found),), "warehouse", world.warehouse.actor)
        report_arrival(db, world.merchant_id, case_id, arrival)


def owed(stack: Stack, world: World, case_id: UUID) -> tuple[str, int, list[Any]]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        newest = "SELECT record FROM entitlements WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1"
        (row,) = rows(db, newest, m=world.merchant_id, c=case_id)
    return row["record"]["outcome"], row["record"]["total"], row["record"]["units"]


@pytest.mark.usefixtures("drills")
def test_s1_and_s2_were_sold_one_is_announced_and_s2_comes_back_for_50_00(stack: Stack, world: World) -> None:
    case_id = announced(stack, world)
    scan(stack, world, case_id, 1, "S2")
    assert owed(stack, world, case_id) == ("payable", 5000, [["DRILL", 1, 2]])
    later = announced(stack, world, relation="separate", reason="size")
    scan(stack, world, later, 1, "S1")
    assert owed(stack, world, later) == ("payable", 5001, [["DRILL", 0, 1]])


@pytest.mark.usefixtures("drills")
@pytest.mark.parametrize("order", [("S1", "S2"), ("S2", "S1")])
def test_both_come_back_in_either_order_for_100_01(stack: Stack, world: World, order: tuple[str, str]) -> None:
    case_id = announced(stack, world, 2)
    scan(stack, world, case_id, 2, *order)
    assert owed(stack, world, case_id) == ("payable", 10_001, [["DRILL", 0, 2]])


@pytest.mark.usefixtures("drills")
def test_a_serial_of_a_unit_that_another_case_holds_pays_the_unit_announced_here_and_the_other_s_serial_there(
    stack: Stack, world: World
) -> None:
    first, second = announced(stack, world), announced(stack, world, relation="separate", reason="size")
    scan(stack, world, first, 1, "S2")
    scan(stack, world, second, 1, "S1")
    assert owed(stack, world, first) == ("payable", 5001, [["DRILL", 0, 1]])
    assert owed(stack, world, second) == ("payable", 5000, [["DRILL", 1, 2]])


@pytest.mark.usefixtures("drills")
def test_the_same_serial_under_two_units_pays_one_of_them(stack: Stack, world: World) -> None:
    case_id = announced(stack, world, 2)
    scan(stack, world, case_id, 2, "S2", "S2")
    assert owed(stack, world, case_id) == ("payable", 5000, [["DRILL", 1, 2]])


@pytest.mark.usefixtures("drills")
def test_a_wrong_scan_owes_nothing_until_the_unit_is_scanned_again(stack: Stack, world: World) -> None:
    case_id = announced(stack, world)
    scan(stack, world, case_id, 1, "S9")
    assert owed(stack, world, case_id) == ("refused", 0, [])
    scan(stack, world, case_id, 0, "S1")
    assert owed(stack, world, case_id) == ("payable", 5001, [["DRILL", 0, 1]])
    with pytest.raises(BadInput, match="more units are graded"):
        scan(stack, world, case_id, 0, "S8")


@pytest.mark.usefixtures("drills")
def test_units_that_were_looked_at_without_their_serials_are_scanned_afterwards(stack: Stack, world: World) -> None:
    case_id = announced(stack, world, 2)
    arrive(stack, world, case_id, ("DRILL", 2))
    assert owed(stack, world, case_id) == ("wait", 0, [])
    scan(stack, world, case_id, 0, "S2")
    assert owed(stack, world, case_id) == ("payable", 5000, [["DRILL", 1, 2]])
    scan(stack, world, case_id, 0, "S1")
    assert owed(stack, world, case_id) == ("payable", 10_001, [["DRILL", 0, 2]])


@pytest.mark.usefixtures("drills")
def test_the_bench_offers_again_what_was_scanned_wrongly_and_nothing_that_was_scanned_well(
    stack: Stack, world: World
) -> None:
    case_id = announced(stack, world, 2)
    scan(stack, world, case_id, 2, "S1", "S9")

    def graded() -> list[tuple[int, int]]:
        with transaction(stack.console, world.merchant_id, read_only=True) as db:
            (line,) = lines_at_bench(db, world.merchant_id, case_id)
        return [(row["a"], row["b"]) for row in line.graded]

    assert graded() == [(0, 1)]
    scan(stack, world, case_id, 0, "S2")
    assert graded() == [(0, 1), (1, 2), (1, 2)]


@pytest.mark.usefixtures("drills")
def test_a_wrong_scan_of_the_other_unit_is_put_right_too(stack: Stack, world: World) -> None:
    case_id = announced(stack, world)
    scan(stack, world, case_id, 1, "S9")
    scan(stack, world, case_id, 0, "S2")
    assert owed(stack, world, case_id) == ("payable", 5000, [["DRILL", 1, 2]])


def test_a_claim_with_money_on_its_way_does_not_move(stack: Stack, world: World) -> None:
    add_order(stack, world, "D-2", lines=(Line("DRILL", 3, 15_000, serials=("S1", "S2", "S3")),))
    case_id = announced(stack, world, 2, ref="D-2")
    held = "SELECT count(*) FROM case_items WHERE merchant_id = :m AND live AND units = '[0,2)'"
    scan(stack, world, case_id, 1, "S1")
    assert len(intents(stack, world, case_id)) == 1
    scan(stack, world, case_id, 1, "S3")
    assert count(stack.console, world, held) == 1
    assert owed(stack, world, case_id) == ("payable", 10_000, [["DRILL", 0, 2]])


def test_two_cases_of_one_order_scan_each_other_s_serials_at_once_and_no_unit_is_held_twice(
    stack: Stack, world: World
) -> None:
    for number in range(10):
        ref = f"R-{number}"
        add_order(stack, world, ref, lines=(Line("DRILL", 3, 15_000, serials=("S1", "S2", "S3")),))
        first = announced(stack, world, ref=ref)
        second = announced(stack, world, ref=ref, relation="separate", reason="size")
        raced = race(partial(scan, stack, world, first, 1, "S3"), partial(scan, stack, world, second, 1, "S3"))
        assert raced.refusals == []
        assert sorted(owed(stack, world, case)[1] for case in (first, second)) == [0, 5000]
    assert count(stack.console, world, HELD_TWICE) == 0
