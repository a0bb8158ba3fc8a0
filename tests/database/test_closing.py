"""The rest is not coming: what was paid stays taken, the rest is free, and nothing is closed that money still moves on."""

from typing import Any
from uuid import UUID

import pytest

from ledger.closing import close_rest
from ledger.database import rows, transaction
from ledger.errors import NotFound, WrongState
from ledger.ids import uuid7
from tests import lives
from tests.stack import Stack
from tests.web.desk import pay
from tests.world import World, build_world


def close(stack: Stack, world: World, case_id: UUID, merchant: World | None = None) -> Any:
    pinned = (merchant or world).merchant_id
    with transaction(stack.console, pinned) as db:
        return close_rest(db, pinned, case_id, world.priya.actor)


def items(stack: Stack, world: World, case_id: UUID) -> list[tuple[str, int, int, bool]]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = rows(
            db, "SELECT l.line_ref, lower(i.units) AS a, upper(i.units) AS b, i.live FROM case_items i"
            " JOIN order_lines l USING (merchant_id, line_id) WHERE i.case_id = :c ORDER BY l.position, lower(i.units)", c=case_id,
        )  # fmt: skip
    return [(row["line_ref"], row["a"], row["b"], row["live"]) for row in found]


def part_paid(stack: Stack, world: World, lines: tuple[tuple[str, int], ...], *arrived: tuple[str, int]) -> UUID:
    """A return of `lines` of which only `arrived` came, paid for."""
    opened = lives.open_case(stack, world, lines)
    lives.arrive(stack, world, opened.case_id, *arrived)
    pay(stack, world, lives.intents(stack, world, opened.case_id)[-1]["intent_id"])
    return opened.case_id


def test_two_of_three_came_and_the_third_is_free_again(stack: Stack, world: World) -> None:
    case_id = part_paid(stack, world, (("TEE", 3),), ("TEE", 2))
    case = close(stack, world, case_id)
    assert (case.stage, case.number) == ("paid", 20001)
    assert items(stack, world, case_id) == [("TEE", 0, 2, True)]

    again = lives.open_case(stack, world, (("TEE", 1),), reference="chat-2", relation="separate")
    assert (again.status, items(stack, world, again.case_id)) == ("opened", [("TEE", 2, 3, True)])


def test_a_line_of_which_nothing_came_ends(stack: Stack, world: World) -> None:
    case_id = part_paid(stack, world, (("TEE", 1), ("LAMP", 1)), ("TEE", 1))
    close(stack, world, case_id)
    assert items(stack, world, case_id) == [("TEE", 0, 1, True), ("LAMP", 0, 1, False)]
    assert lives.open_case(stack, world, (("LAMP", 1),), reference="chat-2").status == "opened"


def test_closing_writes_its_event_once_and_a_second_time_does_nothing(stack: Stack, world: World) -> None:
    case_id = part_paid(stack, world, (("TEE", 3),), ("TEE", 2))
    close(stack, world, case_id)
    close(stack, world, case_id)
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = rows(db, "SELECT body, actor FROM events WHERE case_id = :c AND kind = 'case.rest_closed'", c=case_id)
        closed = rows(db, "SELECT stage, closed_at FROM cases WHERE case_id = :c", c=case_id)[0]
    assert [row["body"] for row in found] == [{"units": [{"line": "TEE", "from": 2, "to": 3}]}]
    assert found[0]["actor"] == world.priya.actor
    assert (closed["stage"], closed["closed_at"] is None) == ("paid", False)


def test_nothing_closes_while_a_refund_is_live(stack: Stack, world: World) -> None:
    opened = lives.open_case(stack, world, (("TEE", 3),))
    lives.arrive(stack, world, opened.case_id, ("TEE", 2))
    with pytest.raises(WrongState, match="not settled"):
        close(stack, world, opened.case_id)
    lives.approve_as(stack, world, world.priya, lives.intents(stack, world, opened.case_id)[-1]["intent_id"])
    lives.claim(stack, world)
    with pytest.raises(WrongState, match="not settled"):
        close(stack, world, opened.case_id)
    assert items(stack, world, opened.case_id) == [("TEE", 0, 3, True)]


def test_a_case_of_which_nothing_was_paid_is_rejected_instead(stack: Stack, world: World) -> None:
    opened = lives.open_case(stack, world, (("TEE", 3),))
    with pytest.raises(WrongState, match="Reject it instead"):
        close(stack, world, opened.case_id)


def test_another_merchant_finds_no_such_case(stack: Stack, world: World) -> None:
    case_id = part_paid(stack, world, (("TEE", 3),), ("TEE", 2))
    with pytest.raises(NotFound):
        close(stack, world, case_id, merchant=build_world(stack, "northwind"))
    with pytest.raises(NotFound):
        close(stack, world, uuid7())
