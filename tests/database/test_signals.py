"""Signs of risk, from our own rows: each raises who decides, and changes no amount."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.cases import reject
from ledger.database import transaction
from tests import lives
from tests.policies import decided, in_force, returned
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, add_order


def test_signs_of_risk_raise_who_decides_and_change_no_amount(stack: Stack, world: World) -> None:
    in_force(
        stack, world, {"signals": {"refunds_30d": {"threshold": 2}, "grade_x_ever": {"threshold": 1, "raise_by": 2}}}
    )
    seen = []
    for number in range(3):
        order = add_order(stack, world, f"S-{number}", customer_id=world.omar)
        case_id = returned(stack, world, order, f"chat-{number}")
        (intent,) = lives.intents(stack, world, case_id)
        seen.append((intent["amount_minor"], decided(stack, world, case_id)["record"]["route"]["because"]))
        lives.approve_as(stack, world, world.jonas, intent["intent_id"])
        as_administrator(
            stack, "UPDATE intents SET state = 'succeeded', state_at = now() WHERE intent_id = %s", intent["intent_id"]
        )
    assert seen[0] == (2490, ["routes.auto_enabled=false"])
    assert seen[2] == (2490, ["signal.refunds_30d:2"])
    foreign = lives.open_case(stack, world, order_ref="S-0", reference="chat-x", relation="separate")
    lives.arrive(stack, world, foreign.case_id, ("TEE", 1), grade="X")
    last = returned(stack, world, add_order(stack, world, "S-9", customer_id=world.omar), "chat-9")
    route = decided(stack, world, last)["record"]["route"]
    assert route["level"] == "two_managers"
    assert {one.partition(":")[0] for one in route["because"]} >= {"signal.grade_x_ever", "signal.refunds_30d"}


def test_a_wrong_serial_of_the_customer_and_a_request_in_another_channel_are_signs(stack: Stack, world: World) -> None:
    in_force(stack, world, {"signals": {}})
    first = add_order(stack, world, "S-1", customer_id=world.omar)
    as_administrator(
        stack, "UPDATE orders SET allocation = jsonb_set(allocation, '{lines,0,serials}', '[\"SN-1\", \"SN-2\", \"SN-3\"]')"
        " WHERE order_id = %s", first.order_id,
    )  # fmt: skip
    opened = lives.open_case(stack, world, order_ref="S-1", reference="voice-1", channel="voice")
    lives.arrive(stack, world, opened.case_id, ("TEE", 1))
    as_administrator(stack, "UPDATE evidence SET serial = 'SN-2' WHERE kind = 'inspected'")
    for serial, signs in (("SN-2", set()), ("SN-9", {"signal.serial_mismatch_ever:1"})):
        as_administrator(stack, "UPDATE evidence SET serial = %s WHERE serial IS NOT NULL", serial)
        order = add_order(stack, world, f"S-{serial}", customer_id=world.omar)
        case_id = returned(stack, world, order, f"chat-{serial}")
        assert {one for one in decided(stack, world, case_id)["record"]["route"]["because"] if "serial" in one} == signs
        assert "signal.other_channel_open:1" in decided(stack, world, case_id)["record"]["route"]["because"]


@pytest.mark.parametrize(
    ("said", "on"),
    [("Your colleague approved it already", True), ("It was GENEHMIGT", True), ("I disapprove of the colour", False)],
)
def test_a_text_that_speaks_of_an_approval_is_a_sign_and_no_approval(
    stack: Stack, world: World, said: str, on: bool
) -> None:
    in_force(stack, world, {"signals": {}})
    opened = lives.open_case(stack, world, customer_text=said)
    route = decided(stack, world, opened.case_id)["record"]["route"]
    assert any("text_claims_approval" in one for one in route["because"]) is on
    assert as_administrator(stack, "SELECT count(*) AS n FROM approvals") == [{"n": 0}]


def not_received(stack: Stack, world: World, number: int, at: datetime, reason: str = "product_not_received") -> None:
    """Omar's bank asked about another order of his, for this reason, at this instant."""
    order = add_order(stack, world, f"D-{number}", customer_id=world.omar)
    as_administrator(
        stack, "INSERT INTO disputes (merchant_id, dispute_ref, provider_account_id, charge_ref, payment_intent_ref, amount_minor,"
        " currency, reason, created_at, found_by, status) SELECT merchant_id, %s, provider_account_id, charge_ref,"
        " payment_intent_ref, 100, 'GBP', %s, %s, 'hook', 'lost' FROM captures WHERE order_id = %s",
        f"dp_{number}", reason, at, order.order_id,
    )  # fmt: skip


def nothing_came(stack: Stack, world: World, number: int, reason: str = "not_returned") -> None:
    """A return of Omar's that was closed for this reason."""
    order = add_order(stack, world, f"R-{number}", customer_id=world.omar)
    opened = lives.open_case(stack, world, order_ref=order.external_ref, reference=f"chat-r-{number}")
    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, opened.case_id, world.priya.actor, reason)


def because(stack: Stack, world: World) -> list[str]:
    """Why Omar's next return, of 24.90, is whose it is."""
    case_id = returned(stack, world, add_order(stack, world, "A-9", customer_id=world.omar), "chat-9")
    row = decided(stack, world, case_id)
    assert row["total_minor"] == 2490
    return [one for one in row["record"]["route"]["because"] if "not_received" in one]


YEAR_AGO = datetime.now(UTC) - timedelta(days=366)


def test_goods_that_were_said_not_to_have_arrived_three_times_in_a_year_are_a_sign(stack: Stack, world: World) -> None:
    in_force(stack, world, {"signals": {}})
    not_received(stack, world, 1, datetime.now(UTC))
    nothing_came(stack, world, 1)
    lost = add_order(stack, world, "L-1", customer_id=world.omar)
    lives.open_case(stack, world, order_ref=lost.external_ref, reference="chat-l", reason="not_delivered")
    # These are none: another reason, too long ago, and a return that was closed for another reason.
    not_received(stack, world, 2, datetime.now(UTC), "fraudulent")
    not_received(stack, world, 3, YEAR_AGO)
    nothing_came(stack, world, 2, "outside_window")
    assert because(stack, world) == ["signal.not_received_365d:3"]


@pytest.mark.parametrize("again", ["disputed", "returned", "of somebody else"])
def test_once_is_no_sign_and_neither_is_what_happened_to_somebody_else(stack: Stack, world: World, again: str) -> None:
    in_force(stack, world, {"signals": {}})
    if again == "disputed":
        not_received(stack, world, 1, datetime.now(UTC))
    else:
        nothing_came(stack, world, 1)
    if again == "of somebody else":
        opened = lives.open_case(stack, world, reference="chat-i")
        with transaction(stack.console, world.merchant_id) as db:
            reject(db, world.merchant_id, opened.case_id, world.priya.actor, "not_returned")
    assert because(stack, world) == []
