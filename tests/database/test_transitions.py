"""P5: an intent moves only along the listed transitions, each with its event; the events of a case are one chain."""

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from ledger.database import rows, run, scalar, transaction
from ledger.ids import uuid7
from ledger.states import TRANSITIONS
from tests.database import rows as put
from tests.orders import sha256
from tests.stack import Stack, without
from tests.world import World

STATES = tuple(put.PATHS)


def _refused(db: Connection, intent: put.Intent, start: str, end: str, actor: str) -> DBAPIError | None:
    """The refusal of one move, undone; None when the database let it through."""
    savepoint = db.begin_nested()
    try:
        if start == "needs_review" and end in TRANSITIONS[start]:
            put.settle(db, intent, end)
        put.say(db, intent, start, end, actor=actor)
        assert put.state_of(db, intent) == end
    except DBAPIError as refusal:
        return refusal
    finally:
        savepoint.rollback()
    return None


def test_the_list_in_the_code_is_the_list_in_the_database(db: Connection) -> None:
    stored = {(row["from_state"], row["to_state"]) for row in rows(db, "SELECT * FROM intent_transitions")}

    assert stored == {(start, end) for start, ends in TRANSITIONS.items() for end in ends}


@pytest.mark.parametrize("start", STATES)
def test_from_each_state_exactly_the_listed_moves_are_possible(db: Connection, harbour: World, start: str) -> None:
    intent = put.bring(db, harbour, start)
    if start == "proposed":
        put.sign(db, intent, harbour.jonas)

    possible = {end for end in STATES if _refused(db, intent, start, end, harbour.jonas.actor) is None}

    assert possible == set(TRANSITIONS.get(start, ()))


@pytest.mark.parametrize("real", STATES)
def test_an_event_that_starts_from_another_state_than_the_intents_is_refused(
    db: Connection, harbour: World, real: str
) -> None:
    intent = put.bring(db, harbour, real)
    lies = [(start, end) for start, ends in TRANSITIONS.items() for end in ends if start not in (real, "new")]

    told = [_refused(db, intent, start, end, harbour.jonas.actor) for start, end in lies]

    assert all(isinstance(refusal, OperationalError | IntegrityError) for refusal in told)
    assert put.state_of(db, intent) == real


@pytest.mark.parametrize("real", STATES)
def test_an_intent_is_said_to_be_proposed_once_only(db: Connection, harbour: World, real: str) -> None:
    intent = put.bring(db, harbour, real)

    with pytest.raises((IntegrityError, OperationalError)):
        put.say(db, intent, "new", "proposed")


def test_nobody_moves_a_state_without_an_event(shared: Stack, harbour: World) -> None:
    with transaction(shared.owner, harbour.merchant_id) as db:
        intent = put.bring(db, harbour, "proposed", 101)

    for engine in (shared.console, shared.worker):
        with pytest.raises(DBAPIError, match="permission denied"), transaction(engine, harbour.merchant_id) as db:
            run(db, "UPDATE intents SET state = 'approved' WHERE intent_id = :i", i=intent.intent_id)
    # The owner has no grant to lose, but even so an unlisted move is refused.
    with pytest.raises(IntegrityError, match="no transition"), transaction(shared.owner, harbour.merchant_id) as db:
        run(db, "UPDATE intents SET state = 'succeeded' WHERE intent_id = :i", i=intent.intent_id)


def test_an_intent_is_born_proposed(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)

    with pytest.raises(IntegrityError, match="starts as proposed"):
        put.propose(db, harbour, case_id, state="approved")


def test_a_hole_in_the_chain_is_refused(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)
    put.say(db, None, None, None, case_id=case_id, merchant_id=harbour.merchant_id)
    head = scalar(db, "SELECT head_hash FROM cases WHERE case_id = :c", c=case_id)

    with pytest.raises(IntegrityError, match="chained"):
        put.say(db, None, None, None, case_id=case_id, merchant_id=harbour.merchant_id,
                number=3, previous_number=2, previous_hash=head)  # fmt: skip


def test_a_chain_begins_with_number_one(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)

    with pytest.raises(IntegrityError, match="chained"):
        put.say(db, None, None, None, case_id=case_id, merchant_id=harbour.merchant_id,
                number=2, previous_number=1, previous_hash=bytes(32))  # fmt: skip


def test_an_event_that_names_another_hash_than_the_last_is_refused(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)
    put.say(db, None, None, None, case_id=case_id, merchant_id=harbour.merchant_id)

    with pytest.raises(IntegrityError, match="chained"):
        put.say(db, None, None, None, case_id=case_id, merchant_id=harbour.merchant_id, previous_hash=sha256(b"other"))


def test_a_second_event_with_the_same_number_is_refused(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)
    put.say(db, None, None, None, case_id=case_id, merchant_id=harbour.merchant_id)

    with pytest.raises(IntegrityError, match="events_pkey"):
        put.say(db, None, None, None, case_id=case_id, merchant_id=harbour.merchant_id,
                number=1, previous_number=None, previous_hash=None)  # fmt: skip


def test_two_chains_cannot_be_spliced(db: Connection, harbour: World) -> None:
    first, second = put.open_case(db, harbour), put.open_case(db, harbour)
    for case_id in (first, second):
        put.say(db, None, None, None, case_id=case_id, merchant_id=harbour.merchant_id)
    others = scalar(db, "SELECT head_hash FROM cases WHERE case_id = :c", c=second)

    with pytest.raises(IntegrityError, match="chained"):
        put.say(db, None, None, None, case_id=first, merchant_id=harbour.merchant_id, previous_hash=others)


def test_an_event_of_one_case_cannot_move_the_intent_of_another(db: Connection, harbour: World) -> None:
    intent = put.bring(db, harbour, "submitting")
    other = put.open_case(db, harbour)

    with pytest.raises(IntegrityError, match="violates foreign key"):
        put.say(db, intent, "submitting", "failed", case_id=other)


def test_without_its_key_to_the_list_an_unlisted_move_would_be_written(stack: Stack, world: World) -> None:
    """The control of the tests above: what refuses is the foreign key and the trigger, not the test's own rows."""
    without(stack, "ALTER TABLE events DROP CONSTRAINT listed_transitions", "DROP TRIGGER exact ON intents")
    with transaction(stack.owner, world.merchant_id) as db:
        intent = put.bring(db, world, "failed")
        put.say(db, intent, "failed", "succeeded")

        assert put.state_of(db, intent) == "succeeded"


def test_without_the_chain_key_and_trigger_a_hole_would_be_written(stack: Stack, world: World) -> None:
    without(stack, "ALTER TABLE events DROP CONSTRAINT chained", "DROP TRIGGER moves_state ON events")
    with transaction(stack.owner, world.merchant_id) as db:
        case_id = put.open_case(db, world)
        put.say(db, None, None, None, case_id=case_id, merchant_id=world.merchant_id,
                number=7, previous_number=6, previous_hash=uuid7().bytes * 2)  # fmt: skip

        assert scalar(db, "SELECT count(*) FROM events WHERE case_id = :c", c=case_id) == 1
