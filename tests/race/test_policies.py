"""Property 20 under two hands: two managers who publish at once never leave one sale under two policies."""

from uuid import UUID

import pytest

from ledger.errors import WrongState
from tests import lives
from tests.policies import answered, drafted, versions
from tests.stack import Stack, without
from tests.world import World

FRENCH = {"select": {"regions": ["FR", "DE"]}, "window": {"days": 10}}
GERMAN = {"select": {"regions": ["DE", "AT"]}, "window": {"days": 20}}


def both(stack: Stack, world: World, first: UUID, second: UUID) -> lives.Raced:
    """Jonas approves what Mara drafted, and Mara what Jonas drafted, released together."""
    return lives.race(
        lambda: answered(stack, world, first, world.jonas), lambda: answered(stack, world, second, world.mara)
    )


def two_drafts(stack: Stack, world: World) -> tuple[UUID, UUID]:
    """Each fits what is in force now; an order from Germany would fall under both alike."""
    return (
        drafted(stack, world, {"policy_id": "french", **FRENCH}, by=world.mara),
        drafted(stack, world, {"policy_id": "german", **GERMAN}, by=world.jonas),
    )


@pytest.mark.parametrize("turn", range(3))
def test_two_managers_who_publish_at_once_leave_one_policy_for_each_sale(stack: Stack, world: World, turn: int) -> None:
    raced = both(stack, world, *two_drafts(stack, world))
    assert len(raced.results) == 1
    assert [type(refused) for refused in raced.refusals] == [WrongState]
    assert "two policies alike" in str(raced.refusals[0])
    assert len(versions(stack, world)) == 2


def test_without_the_guard_both_come_into_force(stack: Stack, world: World) -> None:
    without(stack, "DROP TRIGGER one_decides ON policies")
    raced = both(stack, world, *two_drafts(stack, world))
    assert raced.refusals == []
    assert len(versions(stack, world)) == 3


def test_two_versions_of_one_policy_at_once_are_one(stack: Stack, world: World) -> None:
    raced = both(
        stack, world, drafted(stack, world, {"window": {"days": 10}}, by=world.mara),
        drafted(stack, world, {"window": {"days": 20}}, by=world.jonas),
    )  # fmt: skip
    assert len(raced.results) == 1
    assert [type(refused) for refused in raced.refusals] == [WrongState]
    assert len(versions(stack, world)) == 2
