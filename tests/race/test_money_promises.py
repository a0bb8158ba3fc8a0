"""P2, P3, P4 and P11: two real connections released together, and the same race with the guard taken away."""

from typing import Any

import pytest
from sqlalchemy import RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.database import transaction
from ledger.errors import NotAllowed, NotEnoughMoneyLeft
from ledger.events import lock_case
from ledger.intents import Basis, Proposal, propose
from ledger.reservation import claim_lines
from ledger.settlement import Refused, Unknown
from tests.lives import Raced, approve_as, claim, count, race, record, state
from tests.lives import propose as proposed
from tests.orders import Line, Order
from tests.stack import Stack, without
from tests.world import World, add_order, build_world, usual_policy

# A hundred pounds taken for goods of a hundred and twenty: two refunds of sixty do not both fit.
SHORT_PAID = (Line("COAT", 1, 6000), Line("BOOTS", 1, 6000))


def two_refunds_of_sixty(stack: Stack, world: World, number: int) -> tuple[Order, RowMapping, RowMapping]:
    order = add_order(stack, world, f"S-{number}", lines=SHORT_PAID, captured={"card": 10000})
    coat = proposed(stack, world, (("COAT", 1),), order=order, reference=f"coat-{number}")
    boots = proposed(stack, world, (("BOOTS", 1),), order=order, reference=f"boots-{number}")
    return order, coat, boots


def approve_both(stack: Stack, world: World, one: RowMapping, other: RowMapping) -> Raced:
    return race(
        lambda: approve_as(stack, world, world.priya, one["intent_id"]),
        lambda: approve_as(stack, world, world.tobias, other["intent_id"]),
    )


def test_two_reviewers_at_once_never_reserve_more_than_was_captured(stack: Stack) -> None:
    world = build_world(stack, policy=generous())
    for number in range(10):
        order, coat, boots = two_refunds_of_sixty(stack, world, number)
        raced = approve_both(stack, world, coat, boots)
        assert len(raced.results) == 1
        assert [type(refusal) for refusal in raced.refusals] == [NotEnoughMoneyLeft]
        assert reserved(stack, world, order) == 6000
        assert sorted([state(stack, world, coat["intent_id"]), state(stack, world, boots["intent_id"])]) == [
            "approved",
            "proposed",
        ]


def test_without_the_check_on_balances_both_are_reserved(stack: Stack) -> None:
    world = build_world(stack, policy=generous())
    without(stack, "ALTER TABLE captures DROP CONSTRAINT balances_not_negative")
    order, coat, boots = two_refunds_of_sixty(stack, world, 0)
    assert len(approve_both(stack, world, coat, boots).results) == 2
    assert reserved(stack, world, order) == 12000


def reserved(stack: Stack, world: World, order: Order) -> int:
    return count(
        stack.console,
        world,
        "SELECT reserved_minor FROM captures WHERE order_id = :o",
        o=order.order_id,
    )


def generous() -> dict[str, Any]:
    return {**usual_policy("harbour-usual"), "routes": {"manager_from_minor": {"GBP": 10_000_00}}}


def propose_again(stack: Stack, world: World, intent: RowMapping) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        case = lock_case(db, world.merchant_id, intent["case_id"])
        basis = Basis(
            intent["entitlement_id"], bytes(intent["entitlement_digest"]), bytes(intent["evidence_digest"]),
            intent["policy_id"], intent["policy_version"], intent["units"], intent["route"], world.chat.actor,
        )  # fmt: skip
        propose(db, case, basis, Proposal(intent["capture_id"], "GBP", 100, 100, {}), "system")


def test_a_case_never_has_two_live_intents_on_one_capture(stack: Stack, world: World) -> None:
    intent = proposed(stack, world)
    raced = race(*[lambda: propose_again(stack, world, intent)] * 2)
    assert [type(refusal) for refusal in raced.refusals] == [IntegrityError, IntegrityError]
    assert live(stack, world, intent) == 1


def test_without_the_partial_index_a_case_has_three_live_intents(stack: Stack, world: World) -> None:
    without(
        stack,
        "DROP INDEX one_live_intent_per_case_and_capture",
        "ALTER TABLE intents DISABLE TRIGGER paid_within_entitlement",
    )
    intent = proposed(stack, world)
    assert len(race(*[lambda: propose_again(stack, world, intent)] * 2).results) == 2
    assert live(stack, world, intent) == 3


def live(stack: Stack, world: World, intent: RowMapping) -> int:
    return count(
        stack.console,
        world,
        "SELECT count(*) FROM intents WHERE case_id = :c AND state = 'proposed'",
        c=intent["case_id"],
    )


def claim_the_lamp(stack: Stack, world: World, intent: RowMapping) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        claim_lines(db, world.merchant_id, intent["intent_id"], {world.order.lines["LAMP"]: 5800})


def two_intents_of_one_order(stack: Stack, world: World) -> tuple[RowMapping, RowMapping]:
    one = proposed(stack, world, (("TEE", 1),))
    other = proposed(stack, world, (("TEE", 1),), reference="chat-2", relation="separate")
    return one, other


def test_two_intents_never_claim_more_of_a_line_than_was_allocated(stack: Stack, world: World) -> None:
    one, other = two_intents_of_one_order(stack, world)
    raced = race(lambda: claim_the_lamp(stack, world, one), lambda: claim_the_lamp(stack, world, other))
    assert (len(raced.results), [type(refusal) for refusal in raced.refusals]) == (1, [IntegrityError])
    assert claimed(stack, world) == 5800


def test_without_the_check_on_lines_the_lamp_is_claimed_twice(stack: Stack, world: World) -> None:
    without(stack, "ALTER TABLE order_lines DROP CONSTRAINT claimed_within_allocated")
    one, other = two_intents_of_one_order(stack, world)
    race(lambda: claim_the_lamp(stack, world, one), lambda: claim_the_lamp(stack, world, other))
    assert claimed(stack, world) == 11600


def claimed(stack: Stack, world: World) -> int:
    return count(
        stack.console,
        world,
        "SELECT claimed_minor FROM order_lines WHERE line_id = :l",
        l=world.order.lines["LAMP"],
    )


# Check, then write, as a program would: two transactions both see the room that is there for one.
CHECK_THEN_WRITE = """
CREATE OR REPLACE FUNCTION apply_cap_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp AS $$
DECLARE used bigint; most bigint;
BEGIN
    INSERT INTO cap_days (merchant_id, currency, business_day, limit_minor)
        SELECT merchant_id, currency, NEW.business_day, limit_minor FROM caps
        WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency ON CONFLICT DO NOTHING;
    SELECT used_minor, limit_minor INTO used, most FROM cap_days
        WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency AND business_day = NEW.business_day;
    IF used + NEW.amount_minor > most THEN RETURN NULL; END IF;
    PERFORM pg_sleep(0.2);
    UPDATE cap_days SET used_minor = used_minor + NEW.amount_minor
        WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency AND business_day = NEW.business_day;
    RETURN NEW;
END $$"""


def two_refunds_over_the_cap(stack: Stack) -> tuple[World, list[RowMapping]]:
    world = build_world(stack, cap_minor={"GBP": 4000})
    # Two orders: on one capture the two would already meet at its row.
    waiting = [proposed(stack, world), proposed(stack, world, order=add_order(stack, world, "A-2"), reference="chat-2")]
    # The day's row exists before the race, as it does on every day but for its first refund.
    with transaction(stack.owner, world.merchant_id) as db:
        db.exec_driver_sql(
            "INSERT INTO cap_days SELECT merchant_id, currency, (now() AT TIME ZONE 'Europe/London')::date, limit_minor"
            " FROM caps"
        )
    return world, waiting


def test_two_approvals_at_once_never_pass_the_daily_cap_and_the_second_is_held(stack: Stack) -> None:
    world, (one, other) = two_refunds_over_the_cap(stack)
    raced = approve_both(stack, world, one, other)
    assert sorted(decision.state for decision in raced.results) == ["approved", "held"]
    assert used(stack, world) == 2490


def test_a_cap_that_is_checked_and_then_written_is_passed(stack: Stack) -> None:
    world, (one, other) = two_refunds_over_the_cap(stack)
    without(stack, "ALTER TABLE cap_days DROP CONSTRAINT used_within_cap", CHECK_THEN_WRITE)
    raced = approve_both(stack, world, one, other)
    assert [decision.state for decision in raced.results] == ["approved", "approved"]
    assert used(stack, world) == 4980


def used(stack: Stack, world: World) -> int:
    return count(stack.console, world, "SELECT sum(used_minor) FROM cap_days WHERE merchant_id = :m")


def test_a_refusal_gives_the_cap_back_and_an_unknown_outcome_does_not(stack: Stack, world: World) -> None:
    one, other = two_intents_of_one_order(stack, world)
    for intent in (one, other):
        approve_as(stack, world, world.priya, intent["intent_id"])
    first, second = claim(stack, world)
    record(stack, first, Refused("charge_already_refunded", "named by the provider", 400))
    record(stack, second, Unknown("timeout", "no answer"))
    assert [state(stack, world, done.intent_id) for done in (first, second)] == ["failed", "unknown"]
    assert used(stack, world) == 2490
    assert count(stack.console, world, "SELECT sum(reserved_minor) FROM captures WHERE merchant_id = :m") == 2490


@pytest.mark.parametrize("person", ["rita", "ada"])
def test_a_reader_and_an_admin_approve_nothing(stack: Stack, world: World, person: str) -> None:
    intent = proposed(stack, world)
    with pytest.raises(NotAllowed):
        approve_as(stack, world, getattr(world, person), intent["intent_id"])
    assert state(stack, world, intent["intent_id"]) == "proposed"
