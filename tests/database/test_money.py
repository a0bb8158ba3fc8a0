"""P2–P4, P7, P8, P11 where nothing but the database stands: each guard, and for the gravest what happens without it."""

from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.database import run, scalar, transaction
from tests.database import rows as put
from tests.database.conftest import As
from tests.orders import LAMP, TEE
from tests.stack import CONSOLE, OWNER, WORKER, Stack, without
from tests.world import World, add_order, build_world

FULL = 13760  # what was captured for the usual order, in minor units
STATES = tuple(put.PATHS)


def test_more_than_was_captured_is_not_reserved(shared: Stack, undone: As, harbour: World) -> None:
    order = add_order(shared, harbour, "A-1")
    with undone(OWNER, harbour.merchant_id) as db:
        put.bring(db, harbour, "succeeded", FULL - 1, order)
        case_id = put.open_case(db, harbour, order)
        intent = put.propose(db, harbour, case_id, 2, order=order)

        with pytest.raises(IntegrityError, match="balances_not_negative"):
            put.move(db, intent, "reserve")


def test_without_the_checks_on_balances_and_lines_the_same_payment_is_refunded_twice(
    stack: Stack, world: World
) -> None:
    without(
        stack,
        "ALTER TABLE captures DROP CONSTRAINT balances_not_negative",
        "ALTER TABLE captures DROP CONSTRAINT balances_are_what_was_captured",
        "ALTER TABLE order_lines DROP CONSTRAINT claimed_within_allocated",
    )
    with transaction(stack.owner, world.merchant_id) as db:
        put.bring(db, world, "succeeded", FULL)
        second = put.bring(db, world, "succeeded", FULL)

        assert put.balances(db, second)["refunded"] == 2 * FULL


@pytest.mark.parametrize(
    ("step", "state"),
    [("settle", "approved"), ("settle", "submitting"), ("settle", "unknown"), ("settle", "pending"),
     ("release", "approved"), ("release", "held"), ("release", "submitting"), ("release", "unknown"),
     ("release", "pending"), ("release", "needs_review"), ("reverse", "succeeded")],
)  # fmt: skip
def test_money_goes_on_or_back_only_in_the_state_that_says_so(
    db: Connection, harbour: World, step: str, state: str
) -> None:
    intent = put.bring(db, harbour, state)

    with pytest.raises(IntegrityError, match="does not allow the step"):
        put.move(db, intent, step)


def test_nothing_is_settled_or_released_that_was_not_reserved(db: Connection, harbour: World) -> None:
    put.bring(db, harbour, "approved", 100)  # reserved money of somebody else's, which the step could take
    intent = put.bring(db, harbour, "withdrawn", 100)

    for step in ("release", "settle"):
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match="no matching earlier step"):
            put.move(db, intent, step)
        savepoint.rollback()


def test_an_intent_settles_or_releases_never_both(shared: Stack, undone: As, harbour: World) -> None:
    with undone(OWNER, harbour.merchant_id) as db:
        put.bring(db, harbour, "approved", 100)
        intent = put.bring(db, harbour, "succeeded", 100)
        with pytest.raises(IntegrityError, match="never both"):
            put.move(db, intent, "release")
    with undone(OWNER, harbour.merchant_id) as db:
        put.bring(db, harbour, "approved", 100)
        intent = put.bring(db, harbour, "failed", 100)
        with pytest.raises(IntegrityError, match="never both"):
            put.move(db, intent, "settle")


@pytest.mark.parametrize(("state", "step"), [("failed", "release"), ("succeeded", "settle"), ("reversed", "reverse")])
def test_no_step_is_done_twice(db: Connection, harbour: World, state: str, step: str) -> None:
    put.bring(db, harbour, "succeeded", 500)
    put.bring(db, harbour, "approved", 500)
    intent = put.bring(db, harbour, state, 500)

    with pytest.raises(IntegrityError, match="one_transfer_per_step"):
        put.move(db, intent, step)


@pytest.mark.parametrize("minor", [2489, 2491])
def test_a_reservation_is_for_exactly_the_amount_of_its_intent(db: Connection, harbour: World, minor: int) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour), 2490)

    with pytest.raises(IntegrityError, match="exactly the amount"):
        put.move(db, intent, "reserve", minor)


def test_another_amount_than_was_reserved_is_not_released(db: Connection, harbour: World) -> None:
    put.bring(db, harbour, "approved", 100)
    intent = put.bring(db, harbour, "submitting", 2490)
    put.say(db, intent, "submitting", "failed")

    with pytest.raises(IntegrityError, match="no matching earlier step"):
        put.move(db, intent, "release", 10)


def test_a_move_between_balances_that_are_not_its_steps_is_refused(db: Connection, harbour: World) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour))

    with pytest.raises(IntegrityError, match="listed_moves"):
        put.move(db, intent, "reserve", from_balance="available", to_balance="refunded")


@pytest.mark.parametrize("step", ["external_reverse", "dispute_won"])
def test_what_happened_outside_goes_back_only_if_it_happened(db: Connection, harbour: World, step: str) -> None:
    """Otherwise money that a refund of ours paid would show as available, and be paid again."""
    intent = put.bring(db, harbour, "succeeded", 2490)
    first = "external" if step == "external_reverse" else "dispute"
    put.move(db, intent, first, 700, intent_id=None, source_ref="re_dashboard")

    for source, minor in (("re_other", 700), ("re_dashboard", 701)):
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match=r"no matching earlier step|balances_not_negative"):
            put.move(db, intent, step, minor, intent_id=None, source_ref=source)
        savepoint.rollback()
    put.move(db, intent, step, 700, intent_id=None, source_ref="re_dashboard")

    assert put.balances(db, intent) == {"available": FULL - 2490, "reserved": 0, "refunded": 2490, "disputed": 0}


def test_an_external_refund_is_never_booked_on_an_intent(db: Connection, harbour: World) -> None:
    intent = put.bring(db, harbour, "approved")

    with pytest.raises(IntegrityError, match="transfers_check"):
        put.move(db, intent, "external")


def test_every_balance_is_what_its_transfers_say(db: Connection, harbour: World) -> None:
    intents = [put.bring(db, harbour, state, 500) for state in STATES]

    out = {"approved", "held", "submitting", "unknown", "pending", "needs_review"}
    expected = {"reserved": 500 * len(out), "refunded": 500, "disputed": 0}
    assert put.balances(db, intents[0]) == {"available": FULL - sum(expected.values()), **expected}


def test_more_than_a_line_was_sold_for_is_not_claimed(db: Connection, harbour: World) -> None:
    first = put.propose(db, harbour, put.open_case(db, harbour), 7000)
    second = put.propose(db, harbour, put.open_case(db, harbour), 1000)
    put.claim(db, first, harbour.order.lines[TEE], 7000)

    with pytest.raises(IntegrityError, match="claimed_within_allocated"):
        put.claim(db, second, harbour.order.lines[TEE], 471)


def test_without_its_check_a_line_is_claimed_above_its_price(stack: Stack, world: World) -> None:
    without(stack, "ALTER TABLE order_lines DROP CONSTRAINT claimed_within_allocated")
    with transaction(stack.owner, world.merchant_id) as db:
        for _ in range(2):
            put.claim(db, put.propose(db, world, put.open_case(db, world), 7470), world.order.lines[TEE], 7470)

        assert scalar(db, "SELECT claimed_minor FROM order_lines WHERE line_id = :l", l=world.order.lines[TEE]) == 14940


def test_a_claim_on_a_line_of_another_order_is_refused(shared: Stack, undone: As, harbour: World) -> None:
    other = add_order(shared, harbour, "A-2")
    with undone(OWNER, harbour.merchant_id) as db:
        intent = put.propose(db, harbour, put.open_case(db, harbour))

        with pytest.raises(IntegrityError, match="no line of the order"):
            put.claim(db, intent, other.lines[LAMP], 100)


@pytest.mark.parametrize("state", [state for state in STATES if state not in ("withdrawn", "failed", "reversed")])
def test_a_line_is_given_back_only_by_an_intent_that_came_to_nothing(
    db: Connection, harbour: World, state: str
) -> None:
    intent = put.bring(db, harbour, state)

    with pytest.raises(IntegrityError, match="came to nothing"):
        put.give_back(db, intent)


def test_a_line_is_given_back_exactly_and_once(db: Connection, harbour: World) -> None:
    intent = put.bring(db, harbour, "submitting")
    put.say(db, intent, "submitting", "failed")
    savepoint = db.begin_nested()
    with pytest.raises(IntegrityError, match="exactly what was claimed"):
        put.claim(db, intent, harbour.order.lines[TEE], -2489)
    savepoint.rollback()
    put.claim(db, intent, harbour.order.lines[TEE], -2490)

    with pytest.raises(IntegrityError, match="line_claims"):
        put.claim(db, intent, harbour.order.lines[TEE], -2490)


def test_over_the_cap_no_row_is_inserted_and_nothing_is_raised(stack: Stack) -> None:
    world = build_world(stack, cap_minor={"GBP": 5000})
    with transaction(stack.owner, world.merchant_id) as db:
        first = put.propose(db, world, put.open_case(db, world), 3000)
        second = put.propose(db, world, put.open_case(db, world), 2001)
        third = put.propose(db, world, put.open_case(db, world), 2000)

        assert [put.count(db, intent) for intent in (first, second, third)] == [1, 0, 1]
        assert scalar(db, "SELECT used_minor FROM cap_days") == 5000
        assert scalar(db, "SELECT count(*) FROM cap_entries") == 2


def test_a_currency_without_a_cap_has_no_room(db: Connection, harbour: World) -> None:
    run(db, "DELETE FROM caps WHERE currency = 'GBP'")
    intent = put.propose(db, harbour, put.open_case(db, harbour))

    assert put.count(db, intent) == 0


def test_without_its_check_and_condition_the_cap_is_overrun(stack: Stack) -> None:
    """The control: the CHECK alone refuses too, when the condition in the trigger is gone."""
    world = build_world(stack, cap_minor={"GBP": 5000})
    with transaction(stack.owner, world.merchant_id) as db:
        put.count(db, put.propose(db, world, put.open_case(db, world), 4000))
    over = "UPDATE cap_days SET used_minor = used_minor + 2000"
    with pytest.raises(IntegrityError, match="used_within_cap"), transaction(stack.owner, world.merchant_id) as db:
        run(db, over)
    without(stack, "ALTER TABLE cap_days DROP CONSTRAINT used_within_cap")
    with transaction(stack.owner, world.merchant_id) as db:
        assert run(db, over) == 1


@pytest.mark.parametrize("minor", [1, 2489, 2491])
def test_a_cap_entry_is_for_exactly_the_amount_of_its_intent(db: Connection, harbour: World, minor: int) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour), 2490)

    with pytest.raises(IntegrityError, match="exactly its intent"):
        put.count(db, intent, minor=minor)


@pytest.mark.parametrize("state", ["approved", "submitting", "unknown", "pending", "needs_review", "succeeded"])
def test_the_cap_is_given_back_only_after_a_definite_failure(db: Connection, harbour: World, state: str) -> None:
    intent = put.bring(db, harbour, state)

    with pytest.raises(IntegrityError, match="came to nothing"):
        put.count(db, intent, "return")


@pytest.mark.parametrize("later_days", [-1, 1, 365])
def test_a_refund_counts_on_todays_cap_and_on_no_other(db: Connection, harbour: World, later_days: int) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour))

    with pytest.raises(IntegrityError, match="counts on the business day"):
        put.count(db, intent, later_days=later_days)


def test_the_cap_is_given_back_once_even_when_conflicts_are_ignored(db: Connection, harbour: World) -> None:
    put.bring(db, harbour, "approved", 2490)
    intent = put.bring(db, harbour, "failed", 2490)

    with pytest.raises(IntegrityError, match="once"):
        run(
            db, "INSERT INTO cap_entries (merchant_id, intent_id, step, currency, business_day, amount_minor)"
            " VALUES (:m, :i, 'return', 'GBP', :day, -2490) ON CONFLICT DO NOTHING",
            m=harbour.merchant_id, i=intent.intent_id, day=put.today(db, harbour.merchant_id),
        )  # fmt: skip


NEW_DAY = "INSERT INTO cap_days (merchant_id, currency, business_day, limit_minor) VALUES (:m, 'GBP', CAST(:d AS date), :minor)"


def test_the_limit_of_a_day_is_raised_by_two_people_or_not_at_all(shared: Stack, undone: As, harbour: World) -> None:
    with undone(OWNER, harbour.merchant_id) as db:
        put.count(db, put.propose(db, harbour, put.open_case(db, harbour), 100))
        with pytest.raises(IntegrityError, match="granted raise"):
            run(db, "UPDATE cap_days SET limit_minor = limit_minor + 1")
    with undone(CONSOLE, harbour.merchant_id) as db, pytest.raises(IntegrityError, match="granted raise"):
        run(db, NEW_DAY, m=harbour.merchant_id, d=put.today(db, harbour.merchant_id), minor=99999999)


RAISE = (
    "INSERT INTO cap_raises (merchant_id, raise_id, currency, business_day, from_minor, to_minor, reason, asked_by)"
    " VALUES (:m, gen_random_uuid(), 'GBP', :d, 1000000, 2000000, 'the sale', :who)"
)
DECIDE = "UPDATE cap_raises SET decided_by = :who, decided_at = now(), granted = :yes"


def test_nobody_grants_the_raise_they_asked_for(undone: As, harbour: World) -> None:
    with undone(CONSOLE, harbour.merchant_id) as db:
        run(db, RAISE, m=harbour.merchant_id, d=put.today(db, harbour.merchant_id), who=harbour.mara.staff_id)
        with pytest.raises(IntegrityError, match="a_second_person_decides"):
            run(db, DECIDE, who=harbour.mara.staff_id, yes=True)


def test_a_raise_is_decided_once(undone: As, harbour: World) -> None:
    with undone(CONSOLE, harbour.merchant_id) as db:
        run(db, RAISE, m=harbour.merchant_id, d=put.today(db, harbour.merchant_id), who=harbour.mara.staff_id)
        run(db, DECIDE, who=harbour.jonas.staff_id, yes=False)
        with pytest.raises(IntegrityError, match="decided once"):
            run(db, DECIDE, who=harbour.jonas.staff_id, yes=True)


def test_a_granted_raise_lifts_the_day(undone: As, harbour: World) -> None:
    with undone(CONSOLE, harbour.merchant_id) as db:
        run(db, RAISE, m=harbour.merchant_id, d=put.today(db, harbour.merchant_id), who=harbour.mara.staff_id)
        run(db, DECIDE, who=harbour.jonas.staff_id, yes=True)
        run(db, NEW_DAY, m=harbour.merchant_id, d=put.today(db, harbour.merchant_id), minor=2000000)

        assert (
            scalar(db, "SELECT limit_minor FROM cap_days WHERE business_day = :d", d=put.today(db, harbour.merchant_id))
            == 2000000
        )


def test_a_second_live_intent_of_a_case_and_capture_is_refused(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)
    put.propose(db, harbour, case_id, 100)

    with pytest.raises(IntegrityError, match="one_live_intent_per_case_and_capture"):
        put.propose(db, harbour, case_id, 200)


@pytest.mark.parametrize("state", ["succeeded", "failed", "withdrawn", "reversed"])
def test_after_a_settled_intent_more_money_is_a_new_one(db: Connection, harbour: World, state: str) -> None:
    earlier = put.bring(db, harbour, state, 100)

    later = put.propose(db, harbour, earlier.case_id, 200)

    assert later.intent_id != earlier.intent_id


@pytest.mark.parametrize(
    ("column", "value"),
    [("provider_key", "'onceback-refund-another-key'"), ("amount_minor", "1"), ("destination_last4", "'0000'"),
     ("requester", "'token:other'"), ("payment_intent_ref", "'pi_other'"), ("route", "'manager'"),
     ("entitlement_digest", "'\\x00'"), ("created_at", "now() - interval '1 day'"), ("number", "1"),
     ("units", "'[1]'")],
)  # fmt: skip
def test_the_terms_of_an_intent_never_change_not_even_for_the_owner(
    shared: Stack, undone: As, harbour: World, column: str, value: str
) -> None:
    with transaction(shared.owner, harbour.merchant_id) as db:
        intent = put.bring(db, harbour, "proposed", 100)
    change = f"UPDATE intents SET {column} = {value} WHERE intent_id = :i"  # noqa: S608 - of this list

    with undone(OWNER, harbour.merchant_id) as db, pytest.raises(IntegrityError, match="terms never change"):
        run(db, change, i=intent.intent_id)
    for role in (CONSOLE, WORKER):
        with undone(role, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
            run(db, change, i=intent.intent_id)


def test_a_provider_key_is_used_for_one_intent_only(db: Connection, harbour: World, northwind: World) -> None:
    key = "onceback-refund-of-a-test"
    put.propose(db, harbour, put.open_case(db, harbour), provider_key=key)

    with pytest.raises(IntegrityError, match="provider_key"):
        put.propose(db, harbour, put.open_case(db, harbour), provider_key=key)


def test_the_providers_refund_of_an_intent_is_written_once(db: Connection, harbour: World) -> None:
    intent = put.bring(db, harbour, "pending")
    named = "UPDATE intents SET provider_refund_ref = :ref WHERE intent_id = :i"
    assert run(db, named, ref="re_1", i=intent.intent_id) == 1

    with pytest.raises(IntegrityError, match="never changes"):
        run(db, named, ref="re_2", i=intent.intent_id)


@pytest.mark.parametrize(
    "lie",
    [{"payment_intent_ref": "pi_other"}, {"charge_ref": "ch_other"}, {"destination_last4": "6666"},
     {"destination_kind": "bank"}],
)  # fmt: skip
def test_an_intent_pays_back_to_its_capture_as_that_stands(db: Connection, harbour: World, lie: dict[str, Any]) -> None:
    case_id = put.open_case(db, harbour)

    with pytest.raises(IntegrityError, match="capture of its own order"):
        put.propose(db, harbour, case_id, **lie)


def test_an_intent_never_draws_on_the_payment_of_another_order(shared: Stack, undone: As, harbour: World) -> None:
    other = add_order(shared, harbour, "A-3")
    with undone(OWNER, harbour.merchant_id) as db:
        case_id = put.open_case(db, harbour)

        with pytest.raises(IntegrityError, match="capture of its own order"):
            put.propose(db, harbour, case_id, order=other, order_id=harbour.order.order_id)


def test_an_intent_pays_what_its_entitlement_says_or_less(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)
    entitlement_id = put.derive(db, harbour, case_id, 2490)
    lies: list[dict[str, Any]] = [
        {"amount_minor": 2491, "order_minor": 2491}, {"amount_minor": 2491, "order_minor": 2490},
        {"entitlement_digest": bytes(32)}, {"evidence_digest": bytes(32)},
    ]  # fmt: skip
    for lie in lies:
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match="what its entitlement says"):
            put.propose(db, harbour, case_id, **{"amount_minor": 2490, "entitlement_id": entitlement_id, **lie})
        savepoint.rollback()

    put.propose(db, harbour, case_id, 2490, entitlement_id=entitlement_id)
