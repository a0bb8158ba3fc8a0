"""P3 and P4 where nothing but the database stands: each guard, and for the gravest what happens without it."""

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from ledger.database import run, scalar, transaction
from tests.database import rows as put
from tests.database.conftest import As
from tests.orders import LAMP, TEE, insert_order
from tests.stack import OWNER, Stack, without
from tests.world import World, add_order

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
    put.found(db, intent, "re_dashboard", 700, first)
    put.found(db, intent, "re_other", 700, first)
    put.move(db, intent, first, 700, intent_id=None, source_ref="re_dashboard")
    savepoint = db.begin_nested()
    with pytest.raises(IntegrityError, match="names nothing that was found"):
        put.move(db, intent, step, 700, intent_id=None, source_ref="re_dashboard")
    savepoint.rollback()
    for ref in ("re_dashboard", "re_other"):
        put.stands(db, intent, ref, put.FOUND[first][-1], first)

    for source, minor in (("re_other", 700), ("re_dashboard", 701)):
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match=r"no matching earlier step|balances_not_negative"):
            put.move(db, intent, step, minor, intent_id=None, source_ref=source)
        savepoint.rollback()
    put.move(db, intent, step, 700, intent_id=None, source_ref="re_dashboard")

    assert put.balances(db, intent) == {"available": FULL - 2490, "reserved": 0, "refunded": 2490, "disputed": 0}


@pytest.mark.parametrize("step", ["external", "dispute"])
def test_nothing_leaves_for_outside_that_was_not_found_there(db: Connection, harbour: World, step: str) -> None:
    intent = put.bring(db, harbour, "succeeded", 2490)
    put.found(db, intent, "re_dashboard", 700, step)

    for source, minor in (("re_nobody", 700), ("re_dashboard", 701)):
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match=r"names nothing that was found|placed_within"):
            put.move(db, intent, step, minor, intent_id=None, source_ref=source)
        savepoint.rollback()
    put.move(db, intent, step, 300, intent_id=None, source_ref="re_dashboard")
    put.move(db, intent, step, 400, intent_id=None, source_ref="re_dashboard", part=2)
    with pytest.raises(IntegrityError, match="placed_within"):
        put.move(db, intent, step, 1, intent_id=None, source_ref="re_dashboard", part=3)


@pytest.mark.parametrize("step", ["external", "dispute"])
def test_what_left_outside_and_is_not_placed_is_not_reserved_either(db: Connection, harbour: World, step: str) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour), 2490)
    put.found(db, intent, "re_dashboard", FULL - 2489, step)

    with pytest.raises(IntegrityError, match="nothing is reserved of what left outside"):
        put.move(db, intent, "reserve")


def test_what_was_found_never_changes_and_is_never_without_its_first_state(db: Connection, harbour: World) -> None:
    intent = put.bring(db, harbour, "succeeded")
    for step, (table, name, *_) in put.FOUND.items():
        put.found(db, intent, "found_1", 700, step)
        for change in ("amount_minor = 1", "charge_ref = 'ch_other'", f"{name} = 'found_2'"):
            savepoint = db.begin_nested()
            with pytest.raises(IntegrityError, match="never changes"):
                run(db, f"UPDATE {table} SET {change}")  # noqa: S608 - of the list above
            savepoint.rollback()
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match="append-only"):
            run(db, f"DELETE FROM {table}")  # noqa: S608
        savepoint.rollback()
    put.stands(db, intent, "found_1", "failed")
    with pytest.raises(IntegrityError, match="none follows its failure"):
        put.stands(db, intent, "found_1", "succeeded")


ALLOCATE = (
    "INSERT INTO external_allocations (merchant_id, allocation_id, refund_ref, step, kind, case_id, line_id, amount_minor,"
    " order_minor, reason, actor) VALUES (:m, gen_random_uuid(), 're_dashboard', 'claim', 'case', :c, :l, :minor, :minor,"
    " 'seen there', 'system')"
)


def test_lines_paid_for_outside_are_claimed_once_and_no_further_than_they_were_sold_for(
    db: Connection, harbour: World
) -> None:
    case = put.open_case(db, harbour)
    item = put.hold_units(db, harbour, case, "[0,1)")
    intent = put.propose(db, harbour, case, 2490)
    put.found(db, intent, "re_dashboard", 7471)
    names = {"m": harbour.merchant_id, "c": case, "l": harbour.order.lines[TEE]}
    for minor, why in ((7471, "claimed_within_allocated"), (7472, "claimed_within_allocated|allocated_within_refund")):
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match=why):
            run(db, ALLOCATE, minor=minor, **names)
        savepoint.rollback()
    run(db, ALLOCATE, minor=4980, **names)
    assert scalar(db, "SELECT claimed_minor FROM order_lines WHERE line_id = :l", l=harbour.order.lines[TEE]) == 4980
    for change in ("live = false", "units = int4range(0, 1) * int4range(0, 0)"):
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match=r"not released|case_items"):
            run(db, f"UPDATE case_items SET {change} WHERE item_id = :i", i=item)  # noqa: S608 - of this list
        savepoint.rollback()
    other = add_order_case(db, harbour)
    with pytest.raises(IntegrityError, match="lines of the order"):
        run(db, ALLOCATE, minor=1, **{**names, **other})


def add_order_case(db: Connection, world: World) -> dict[str, object]:
    """A case of another order of the merchant, and a line of that."""
    order = insert_order(db, world.merchant_id, world.provider_account_id, world.ilse, "A-other")
    return {"c": put.open_case(db, world, order), "l": order.lines[TEE]}


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
