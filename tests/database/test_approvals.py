"""P6 and P7 in the database: an approval answers a proposal, is another person's, and nothing goes without."""

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.database import run, transaction
from tests.database import rows as put
from tests.database.conftest import As
from tests.orders import TEE
from tests.stack import CONSOLE, WORKER, Stack, without
from tests.world import World


def test_nobody_approves_what_they_asked_for(db: Connection, harbour: World) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour), requester=harbour.jonas.actor)

    with pytest.raises(IntegrityError, match="nobody_approves_what_they_asked_for"):
        put.sign(db, intent, harbour.jonas)


def test_nobody_approves_for_a_case_they_opened(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour, opened_by=harbour.jonas.actor)
    intent = put.propose(db, harbour, case_id, requester=harbour.priya.actor)

    with pytest.raises(IntegrityError, match="nobody_approves_what_they_asked_for"):
        put.sign(db, intent, harbour.jonas)


def test_an_approval_cannot_name_another_requester_than_its_intent(db: Connection, harbour: World) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour), requester=harbour.jonas.actor)

    with pytest.raises(IntegrityError, match="foreign key"):
        put.sign(db, intent, harbour.jonas, requester=harbour.priya.actor)


def test_a_person_written_in_capitals_is_refused_not_taken_for_another(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)
    shouted = f"staff:{str(harbour.jonas.staff_id).upper()}"

    with pytest.raises(IntegrityError, match="intents_requester_check"):
        put.propose(db, harbour, case_id, requester=shouted)


def test_an_approver_is_the_person_of_the_row(db: Connection, harbour: World) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour), requester=harbour.jonas.actor)

    with pytest.raises(IntegrityError, match="a_persons_or_a_policys"):
        put.sign(db, intent, harbour.jonas, approver=harbour.mara.actor)


def test_one_person_never_takes_both_seats(db: Connection, harbour: World) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour))
    put.sign(db, intent, harbour.jonas)

    with pytest.raises(IntegrityError, match="one_seat_per_person"):
        put.sign(db, intent, harbour.jonas, seat=2)


def test_a_seat_is_taken_once(db: Connection, harbour: World) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour))
    put.sign(db, intent, harbour.jonas)

    with pytest.raises(IntegrityError, match="approved_once_per_seat"):
        put.sign(db, intent, harbour.mara)


def test_somebody_who_is_not_the_merchants_approves_nothing(db: Connection, harbour: World, northwind: World) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour))

    with pytest.raises(IntegrityError, match="foreign key"):
        put.sign(db, intent, northwind.jonas)


@pytest.mark.parametrize("state", [state for state in put.PATHS if state != "proposed"])
def test_only_a_proposed_intent_is_approved(db: Connection, harbour: World, state: str) -> None:
    intent = put.bring(db, harbour, state)

    with pytest.raises(IntegrityError, match="only a proposed intent"):
        put.sign(db, intent, harbour.mara, seat=2)


def test_nothing_is_approved_without_an_approval(db: Connection, harbour: World) -> None:
    intent = put.bring(db, harbour, "proposed")

    with pytest.raises(IntegrityError, match="without the approval of its actor"):
        put.say(db, intent, "proposed", "approved", actor=harbour.jonas.actor)


def test_nothing_is_approved_in_the_name_of_somebody_who_did_not(db: Connection, harbour: World) -> None:
    intent = put.bring(db, harbour, "proposed")
    put.sign(db, intent, harbour.jonas)

    with pytest.raises(IntegrityError, match="without the approval of its actor"):
        put.say(db, intent, "proposed", "approved", actor=harbour.mara.actor)


@pytest.mark.parametrize("carried", [0, 2489])
def test_nothing_is_approved_that_the_lines_do_not_carry(db: Connection, harbour: World, carried: int) -> None:
    """Else P4 would rest on the program: an intent without claims could be paid again and again."""
    intent = put.propose(db, harbour, put.open_case(db, harbour), 2490)
    if carried:
        put.claim(db, intent, harbour.order.lines[TEE], carried)
    put.sign(db, intent, harbour.jonas)

    with pytest.raises(IntegrityError, match="do not carry"):
        put.say(db, intent, "proposed", "approved", actor=harbour.jonas.actor)


def test_nothing_is_sent_that_is_not_reserved_and_counted(db: Connection, harbour: World) -> None:
    for leave_out in ("capture", "cap"):
        intent = put.bring(db, harbour, "proposed", 100)
        put.sign(db, intent, harbour.jonas)
        put.say(db, intent, "proposed", "approved", actor=harbour.jonas.actor)
        if leave_out == "capture":
            put.count(db, intent)
        else:
            put.move(db, intent, "reserve")
        savepoint = db.begin_nested()
        with pytest.raises(IntegrityError, match="not reserved and counted"):
            put.say(db, intent, "approved", "submitting")
        savepoint.rollback()


def test_the_worker_never_approves_and_withdraws_only_for_the_reasons_that_are_its_own(
    shared: Stack, undone: As, harbour: World
) -> None:
    """It proposes a smaller refund when money left elsewhere; a person approves that one too."""
    with transaction(shared.owner, harbour.merchant_id) as db:
        intent = put.bring(db, harbour, "proposed", 101)
        put.sign(db, intent, harbour.jonas)

    for start, end in (("proposed", "approved"), ("proposed", "withdrawn")):
        with undone(WORKER, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="row-level security"):
            put.say(db, intent, start, end, actor=harbour.jonas.actor)
    with undone(WORKER, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
        put.sign(db, intent, harbour.mara, seat=2)
    with undone(WORKER, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="row-level security"):
        put.move(db, intent, "reserve")


def test_the_console_neither_sends_nor_settles(shared: Stack, undone: As, harbour: World) -> None:
    with transaction(shared.owner, harbour.merchant_id) as db:
        approved = put.bring(db, harbour, "approved", 102)
        sent = put.bring(db, harbour, "submitting", 103)

    with undone(CONSOLE, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="row-level security"):
        put.say(db, approved, "approved", "submitting")
    for end in ("succeeded", "failed", "unknown", "pending"):
        with undone(CONSOLE, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="row-level security"):
            put.say(db, sent, "submitting", end)
    for step in ("settle", "reverse"):
        with undone(CONSOLE, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="row-level security"):
            put.move(db, sent, step)
    for table in ("attempts", "attempt_results", "looks"):
        with undone(CONSOLE, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
            run(db, f"INSERT INTO {table} DEFAULT VALUES")


def test_without_the_constraint_a_person_approves_their_own_request(stack: Stack, world: World) -> None:
    without(stack, "ALTER TABLE approvals DROP CONSTRAINT nobody_approves_what_they_asked_for")
    with transaction(stack.owner, world.merchant_id) as db:
        intent = put.propose(db, world, put.open_case(db, world), requester=world.jonas.actor)
        put.carry(db, intent)
        put.sign(db, intent, world.jonas)
        put.say(db, intent, "proposed", "approved", actor=world.jonas.actor)

        assert put.state_of(db, intent) == "approved"
