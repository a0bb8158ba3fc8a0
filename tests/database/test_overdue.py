"""P16: every state that is not final has a limit, a desk and an owner; empty is healthy."""

import pytest

from ledger.database import transaction
from ledger.queries.overdue import OWNERS, Overdue, overdue_cases, overdue_intents
from ledger.states import FINAL, TIME_LIMITS, TRANSITIONS
from tests import lives
from tests.database import rows as put
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, build_world


def overdue(stack: Stack, world: World) -> list[Overdue]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [*overdue_intents(db, world.merchant_id), *overdue_cases(db, world.merchant_id)]


def test_every_state_that_can_move_on_by_itself_or_by_a_person_has_a_limit_and_an_owner() -> None:
    waits = set(TRANSITIONS) - FINAL - {"new", "succeeded"}
    assert waits == set(TIME_LIMITS) == set(OWNERS)


@pytest.mark.parametrize("state", TIME_LIMITS)
def test_a_refund_past_the_limit_of_its_state_is_listed_with_its_desk(stack: Stack, world: World, state: str) -> None:
    with transaction(stack.owner, world.merchant_id) as db:
        intent = put.bring(db, world, state)
    limit, desk = TIME_LIMITS[state]
    assert overdue(stack, world) == []
    just, past = f"{int(limit.total_seconds()) - 60} s", "120 s"
    for since, expected in ((just, []), (past, [intent.intent_id])):
        as_administrator(stack, "UPDATE intents SET state_at = state_at - %s::interval", since)
        as_administrator(stack, "UPDATE outbox SET due_at = due_at - %s::interval", since)
        assert [late.intent_id for late in overdue(stack, world)] == expected
    (late,) = overdue(stack, world)
    assert (late.state, late.desk, late.owner) == (state, desk, OWNERS[state])
    assert overdue(stack, build_world(stack, "northwind")) == []


def test_a_refund_held_for_a_dispute_waits_for_the_bank_at_its_own_desk(stack: Stack, world: World) -> None:
    with transaction(stack.owner, world.merchant_id) as db:
        intent = put.bring(db, world, "held")
    as_administrator(stack, "UPDATE intents SET state_reason = 'disputed', state_at = now() - interval '119 days'")
    assert overdue(stack, world) == []
    as_administrator(stack, "UPDATE intents SET state_at = now() - interval '121 days'")
    (late,) = overdue(stack, world)
    assert (late.intent_id, late.desk, late.owner) == (intent.intent_id, "disputes", "finance")


def test_an_open_case_past_its_due_time_is_listed_until_it_is_closed(stack: Stack, world: World) -> None:
    opened = lives.open_case(stack, world)
    assert overdue(stack, world) == []
    as_administrator(stack, "UPDATE cases SET due_at = now() - interval '1 hour'")
    (late,) = overdue(stack, world)
    assert (late.case_id, late.intent_id, late.desk, late.owner) == (opened.case_id, None, "queue", "returns desk")
    as_administrator(stack, "UPDATE cases SET closed_at = now()")
    assert overdue(stack, world) == []
