"""S36, S10: cause × state. What a person approved and was not sent stops when they may no longer; what left is listed."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from ledger import people
from ledger.caps import release_held
from ledger.database import run, transaction
from ledger.revocation import revoke_lost, revoke_over_limits
from ledger.settlement import Confirmed, NotAccepted, ProviderRefund, Unknown
from tests import lives
from tests.orders import Line
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import World, add_order, build_world, usual_policy

# A refund of 300.00 is a manager's, so that a manager who becomes a desk person may approve it no longer.
AMOUNT = 300_00


def switched_off(stack: Stack, world: World) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        people.switch_off(db, world.merchant_id, world.jonas.staff_id, world.ada.actor)


def disabled(stack: Stack, world: World) -> None:
    with transaction(stack.owner) as db:
        people.disable(db, world.jonas.staff_id)


def role_fell(stack: Stack, world: World) -> None:
    with transaction(stack.owner, world.merchant_id) as db:
        people.change_role(db, world.merchant_id, world.jonas.staff_id, "desk")


def added_again_lower(stack: Stack, world: World) -> None:
    with transaction(stack.owner, world.merchant_id) as db:
        people.add_person(
            db, world.merchant_id, email=world.jonas.email, name=world.jonas.name, role="reader", password_hash=""
        )


def limit_fell(stack: Stack, world: World) -> None:
    lower = {"manager": {"GBP": {"hour": {"count": 40, "minor": AMOUNT - 1}}}}
    as_administrator(
        stack, "UPDATE policies SET document = jsonb_set(document, '{limits}', %s::jsonb)", json.dumps(lower)
    )
    with transaction(stack.owner, world.merchant_id) as db:
        revoke_over_limits(db, world.merchant_id, "system")


CAUSES: list[Callable[[Stack, World], None]] = [switched_off, disabled, role_fell, added_again_lower, limit_fell]


def of_jonas(stack: Stack, world: World, state: str) -> UUID:
    """A refund that Jonas approved, in `state`."""
    order = add_order(stack, world, f"O-{state}", lines=(Line("LAMP", 1, AMOUNT),))
    intent = lives.propose(stack, world, (("LAMP", 1),), order=order, reference=f"chat-{state}")
    intent_id: UUID = intent["intent_id"]
    if state == "held":
        as_administrator(stack, "UPDATE caps SET limit_minor = 0")
    lives.approve_as(stack, world, world.jonas, intent_id)
    if state in ("approved", "held"):
        return intent_id
    (claimed,) = lives.claim(stack, world)
    refund = ProviderRefund(
        "re_1", "pending", AMOUNT, "GBP", intent["payment_intent_ref"], intent["charge_ref"], str(intent_id)
    )
    outcome: Any = {
        "submitting": NotAccepted("rate_limit", "later", 5),
        "unknown": Unknown("timeout", "no answer"),
        "pending": Confirmed(refund),
        "needs_review": Unknown("answer_differs", "another", needs_person=True),
        "succeeded": Confirmed(ProviderRefund(**{**vars(refund), "status": "succeeded"})),
    }[state]
    lives.record(stack, claimed, outcome)
    assert lives.state(stack, world, intent_id) == state
    return intent_id


@pytest.mark.parametrize("state", ["approved", "held", "submitting", "unknown", "pending", "needs_review", "succeeded"])
def test_each_cause_holds_what_was_not_sent_and_lists_what_was(stack: Stack, state: str) -> None:
    for number, cause in enumerate(CAUSES):
        world = build_world(stack, f"quay-{number}")
        intent_id = of_jonas(stack, world, state)
        cause(stack, world)
        row = as_administrator(stack, "SELECT state, state_reason FROM intents WHERE intent_id = %s", intent_id)[0]
        said = as_administrator(
            stack, "SELECT 1 FROM alarms WHERE kind = 'approver_left' AND intent_id = %s", intent_id
        )
        if state in ("approved", "held"):
            assert (row["state"], row["state_reason"], said) == ("held", "left", []), cause
            assert lives.claim(stack, world) == []
        else:
            assert row["state"] == state, cause
            # A lower limit says nothing about what left before it fell.
            assert len(said) == (0 if cause is limit_fell else 1), cause
        without(stack, "DELETE FROM alarms")


LONG_AGO, SHORTLY_AGO = timedelta(hours=60), timedelta(hours=30)


def lost(stack: Stack, world: World, ago: timedelta) -> tuple[int, int]:
    with transaction(stack.owner) as db:
        return revoke_lost(db, world.jonas.staff_id, "system", datetime.now(UTC) - ago)


def approved_ago(stack: Stack, intent_id: UUID, ago: timedelta) -> None:
    with stack.past_guards() as db:
        db.execute("UPDATE approvals SET approved_at = approved_at - %s WHERE intent_id = %s", (ago, intent_id))


@pytest.mark.parametrize("state", ["approved", "held"])
def test_an_account_that_was_lost_holds_what_was_approved_with_it_since_and_nothing_earlier(
    stack: Stack, state: str
) -> None:
    """Jonas has a new password and goes on. The approval is of 48 hours ago."""
    world = build_world(stack)
    intent_id = of_jonas(stack, world, state)
    approved_ago(stack, intent_id, timedelta(hours=48))
    assert lost(stack, world, SHORTLY_AGO) == (0, 0)
    assert lives.state(stack, world, intent_id) == state
    assert lost(stack, world, LONG_AGO) == (1, 0)
    row = as_administrator(stack, "SELECT state, state_reason FROM intents WHERE intent_id = %s", intent_id)
    assert row == [{"state": "held", "state_reason": "proof"}]
    assert lives.claim(stack, world) == []


@pytest.mark.parametrize("state", ["submitting", "unknown", "pending", "needs_review", "succeeded"])
def test_what_left_since_an_account_was_lost_is_listed_for_review_once(stack: Stack, state: str) -> None:
    world = build_world(stack)
    intent_id = of_jonas(stack, world, state)
    approved_ago(stack, intent_id, timedelta(hours=48))
    assert [lost(stack, world, ago) for ago in (SHORTLY_AGO, LONG_AGO, LONG_AGO)] == [(0, 0), (0, 1), (0, 0)]
    assert lives.state(stack, world, intent_id) == state
    assert as_administrator(stack, "SELECT intent_id FROM alarms WHERE kind = 'approver_left'") == [
        {"intent_id": intent_id}
    ]


def test_a_leaver_whose_account_was_lost_earlier_than_a_day_ago_has_that_listed_too(stack: Stack) -> None:
    world = build_world(stack)
    intent_id = of_jonas(stack, world, "succeeded")
    approved_ago(stack, intent_id, timedelta(hours=48))
    with transaction(stack.owner) as db:
        assert people.disable(db, world.jonas.staff_id) == (0, 0)
        assert people.disable(db, world.jonas.staff_id, datetime.now(UTC) - LONG_AGO) == (0, 1)


def test_what_a_leaver_s_refund_was_held_by_does_not_let_it_go(stack: Stack) -> None:
    world = build_world(stack)
    intent_id = of_jonas(stack, world, "held")
    switched_off(stack, world)
    as_administrator(stack, "UPDATE caps SET limit_minor = 1000000")
    as_administrator(stack, "UPDATE cap_days SET limit_minor = 1000000")
    with transaction(stack.worker, world.merchant_id) as db:
        assert not release_held(db, world.merchant_id)
    assert lives.state(stack, world, intent_id) == "held"


def test_whoever_still_may_keeps_what_they_approved(stack: Stack) -> None:
    """Jonas becomes a desk person: a refund that a desk person may approve goes on."""
    world = build_world(stack)
    order = add_order(stack, world, "O-small", lines=(Line("LAMP", 1, 20_00),))
    intent_id = lives.propose(stack, world, (("LAMP", 1),), order=order)["intent_id"]
    lives.approve_as(stack, world, world.jonas, intent_id)
    role_fell(stack, world)
    assert len(lives.claim(stack, world)) == 1


def test_a_limit_that_fell_lets_the_first_ones_go_that_still_fit(stack: Stack) -> None:
    world = build_world(
        stack, policy=usual_policy("harbour-usual") | {"routes": {"manager_from_minor": {"GBP": 10**6}}}
    )
    made = []
    for number in range(3):
        order = add_order(stack, world, f"O-{number}", lines=(Line("LAMP", 1, 100_00),))
        made.append(lives.propose(stack, world, (("LAMP", 1),), order=order, reference=f"c-{number}")["intent_id"])
        lives.approve_as(stack, world, world.jonas, made[-1])
    lower = {"manager": {"GBP": {"hour": {"count": 40, "minor": 200_00}}}}
    as_administrator(
        stack, "UPDATE policies SET document = jsonb_set(document, '{limits}', %s::jsonb)", json.dumps(lower)
    )
    with transaction(stack.owner, world.merchant_id) as db:
        assert revoke_over_limits(db, world.merchant_id, "system") == 1
    assert [lives.state(stack, world, one) for one in made] == ["approved", "approved", "held"]


def test_the_worker_refuses_too_when_a_role_was_taken_away_past_every_command(stack: Stack) -> None:
    """The control: an UPDATE of somebody's own holds nothing at once, and the check before the send does."""
    world = build_world(stack)
    intent_id = of_jonas(stack, world, "approved")
    with transaction(stack.owner, world.merchant_id) as db:
        run(db, "UPDATE memberships SET role = 'reader' WHERE staff_id = :s", s=world.jonas.staff_id)
    assert lives.state(stack, world, intent_id) == "approved"
    assert lives.claim(stack, world) == []
    assert lives.state(stack, world, intent_id) == "held"
