"""The history of a case as another reader checks it: every event as it was written, none missing, none added (S48)."""

from typing import LiteralString
from uuid import UUID

import pytest

from ledger.database import transaction
from ledger.errors import NotFound
from ledger.events import broken_link
from ledger.ids import uuid7
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import pay
from tests.world import World, build_world


def broken(stack: Stack, world: World, case_id: UUID) -> int | None:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return broken_link(db, world.merchant_id, case_id)


@pytest.fixture
def case_id(stack: Stack, world: World) -> UUID:
    """A return that was opened, received, approved and paid."""
    one = lives.propose(stack, world)
    pay(stack, world, one["intent_id"])
    return UUID(str(one["case_id"]))


def test_a_whole_life_is_found_as_it_was_written(stack: Stack, world: World, case_id: UUID) -> None:
    assert broken(stack, world, case_id) is None
    count = as_administrator(stack, "SELECT head_number AS n FROM cases")[0]["n"]
    assert count >= 8


EDITS: tuple[LiteralString, ...] = (
    "UPDATE events SET actor = 'system' WHERE kind = 'intent.approved'",
    "UPDATE events SET at = at - interval '1 microsecond' WHERE kind = 'intent.approved'",
    "UPDATE events SET reason = 'by phone' WHERE kind = 'intent.approved'",
    "UPDATE events SET body = jsonb_set(body, '{amount_minor}', '\"1\"') WHERE kind = 'intent.approved'",
    "UPDATE events SET case_stage = 'paid' WHERE kind = 'intent.approved'",
    "UPDATE events SET to_state = 'held' WHERE kind = 'intent.approved'",
    "DELETE FROM events WHERE kind = 'intent.approved'",
)


@pytest.mark.parametrize("edit", EDITS)
def test_an_event_that_was_edited_or_taken_out_is_named(
    stack: Stack, world: World, case_id: UUID, edit: LiteralString
) -> None:
    number = as_administrator(stack, "SELECT number AS n FROM events WHERE kind = 'intent.approved'")[0]["n"]
    as_administrator(stack, edit)
    assert broken(stack, world, case_id) == number


def test_a_tail_that_was_cut_is_named(stack: Stack, world: World, case_id: UUID) -> None:
    last = as_administrator(stack, "SELECT head_number AS n FROM cases")[0]["n"]
    as_administrator(stack, "DELETE FROM events WHERE number = %s", last)
    assert broken(stack, world, case_id) == last


def test_another_merchants_case_is_not_there(stack: Stack, world: World, case_id: UUID) -> None:
    with pytest.raises(NotFound):
        broken(stack, build_world(stack, "northwind"), case_id)
    with pytest.raises(NotFound):
        broken(stack, world, uuid7())
