"""P11 in the database: the day's cap is one figure that every refund goes through, raised by two people."""

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from ledger.database import run, scalar, transaction
from tests.database import rows as put
from tests.database.conftest import As
from tests.stack import CONSOLE, OWNER, Stack, without
from tests.world import World, build_world


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
