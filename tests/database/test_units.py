"""P1 in the database: a unit on a live row is spoken for, and one that was paid for stays so."""

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.database import run, scalar, transaction
from tests.database import rows as put
from tests.database.conftest import As
from tests.orders import LAMP
from tests.stack import CONSOLE, WORKER, Stack, without
from tests.world import World

RELEASE = "UPDATE case_items SET live = false WHERE item_id = :item"


@pytest.mark.parametrize("units", ["[0,1)", "[0,3)", "[1,2)", "[0,2)"])
def test_units_of_a_live_case_are_not_claimed_again(db: Connection, harbour: World, units: str) -> None:
    put.hold_units(db, harbour, put.open_case(db, harbour), "[0,2)")

    with pytest.raises(IntegrityError, match="units_returned_once"):
        put.hold_units(db, harbour, put.open_case(db, harbour), units)


def test_the_units_that_are_left_are_free(db: Connection, harbour: World) -> None:
    put.hold_units(db, harbour, put.open_case(db, harbour), "[0,2)")
    put.hold_units(db, harbour, put.open_case(db, harbour), "[2,3)")

    assert scalar(db, "SELECT count(*) FROM case_items") == 2


@pytest.mark.parametrize("units", ["[0,4)", "[3,4)", "[-1,1)", "empty", "[0,)", "(,2)", "(,)"])
def test_units_are_some_of_those_that_were_sold(db: Connection, harbour: World, units: str) -> None:
    case_id = put.open_case(db, harbour)

    with pytest.raises(IntegrityError, match=r"units_check|case_items_check"):
        put.hold_units(db, harbour, case_id, units)


def test_a_line_of_another_order_is_not_returned_with_this_one(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)

    with pytest.raises(IntegrityError, match="foreign key"):
        run(
            db, "INSERT INTO case_items (merchant_id, item_id, case_id, order_id, line_id, line_quantity, units)"
            " VALUES (:m, gen_random_uuid(), :c, :o, :line, 3, '[0,1)')",
            m=harbour.merchant_id, c=case_id, o=harbour.order.order_id, line=harbour.order.lines[LAMP],
        )  # fmt: skip


@pytest.mark.parametrize("state", [state for state in put.PATHS if state not in ("withdrawn", "failed", "reversed")])
def test_units_with_money_paid_or_on_its_way_are_not_released(db: Connection, harbour: World, state: str) -> None:
    intent = put.bring(db, harbour, state)
    item = put.hold_units(db, harbour, intent.case_id, "[0,1)")

    with pytest.raises(IntegrityError, match="not released"):
        run(db, RELEASE, item=item)


@pytest.mark.parametrize("state", ["withdrawn", "failed", "reversed"])
def test_units_are_free_again_when_the_money_came_to_nothing(db: Connection, harbour: World, state: str) -> None:
    intent = put.bring(db, harbour, state)
    item = put.hold_units(db, harbour, intent.case_id, "[0,1)")

    assert run(db, RELEASE, item=item) == 1
    put.hold_units(db, harbour, put.open_case(db, harbour), "[0,1)")


def test_released_units_are_never_revived(db: Connection, harbour: World) -> None:
    item = put.hold_units(db, harbour, put.open_case(db, harbour), "[0,1)")
    run(db, RELEASE, item=item)

    with pytest.raises(IntegrityError, match="never revived"):
        run(db, "UPDATE case_items SET live = true WHERE item_id = :item", item=item)


def test_nobody_moves_the_units_of_a_row(shared: Stack, undone: As, harbour: World) -> None:
    with transaction(shared.owner, harbour.merchant_id) as db:
        put.hold_units(db, harbour, put.open_case(db, harbour), "[0,1)", LAMP)

    for role in (CONSOLE, WORKER):
        for change in ("SET line_id = gen_random_uuid()", "SET case_id = gen_random_uuid()"):
            with undone(role, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
                run(db, f"UPDATE case_items {change}")
        with undone(role, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
            run(db, "DELETE FROM case_items")


def test_without_the_exclusion_constraint_a_unit_is_returned_twice(stack: Stack, world: World) -> None:
    without(stack, "ALTER TABLE case_items DROP CONSTRAINT units_returned_once")
    with transaction(stack.owner, world.merchant_id) as db:
        for _ in range(2):
            put.hold_units(db, world, put.open_case(db, world), "[0,1)")

        assert scalar(db, "SELECT count(*) FROM case_items WHERE live AND units @> 0") == 2
