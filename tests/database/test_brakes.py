"""The brakes in the database: nobody takes one off alone, whatever the process does (S88)."""

from uuid import UUID

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger import brakes
from ledger.brakes import brakes_on, may_send
from ledger.database import run, transaction
from ledger.errors import NotAllowed
from ledger.ids import uuid7
from tests.database.conftest import As
from tests.stack import CONSOLE, WORKER, Stack, without
from tests.world import Person, World, build_world


def pause(stack: Stack, world: World, brake: str = "pause", by: Person | None = None) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        brakes.pull(db, world.merchant_id, brake, "A look", staff_id=(by or world.priya).staff_id)


def ask(stack: Stack, world: World, by: Person, brake: str = "pause") -> UUID:
    with transaction(stack.console, world.merchant_id) as db:
        return brakes.ask_release(db, world.merchant_id, brake, by.staff_id, "It is right again")


def answer_row(db: Connection, world: World, ask_id: UUID, asked: Person, by: Person, **other: str) -> None:
    """The bare insert, as a process with SQL of its own would try it."""
    run(
        db, "INSERT INTO brake_answers (merchant_id, ask_id, brake, asked_by, asked_role, staff_id, role, granted)"
        " VALUES (:m, :i, 'pause', :a, :ar, :s, :r, true)", m=world.merchant_id, i=ask_id, a=asked.staff_id, ar=asked.role,
        s=by.staff_id, r=other.get("role", by.role),
    )  # fmt: skip


def test_a_brake_is_taken_off_by_no_update_not_even_the_owners(stack: Stack) -> None:
    world = build_world(stack)
    pause(stack, world)
    off = "UPDATE merchant_brakes SET paused_at = NULL, paused_by = NULL"
    for engine, refused in ((stack.console, "permission denied"), (stack.owner, "two people take a brake off")):
        with pytest.raises(DBAPIError, match=refused), transaction(engine, world.merchant_id) as db:
            run(db, off)
    with pytest.raises(DBAPIError, match="append-only"), transaction(stack.owner, world.merchant_id) as db:
        run(db, "DELETE FROM merchant_brakes")
    without(stack, "ALTER TABLE merchant_brakes DISABLE TRIGGER two_people")
    with transaction(stack.owner, world.merchant_id) as db:
        assert run(db, off) == 1


@pytest.mark.parametrize(
    ("asks", "answers", "role", "refused"),
    [
        ("farah", "farah", "finance", "two_people_start_again"),
        ("jonas", "mara", "manager", "one_of_them_is_finance"),
        ("jonas", "mara", "finance", "in the role they have"),
        ("jonas", "priya", "finance", "in the role they have"),
    ],
)
def test_one_person_two_managers_or_a_borrowed_role_start_nothing(
    stack: Stack, asks: str, answers: str, role: str, refused: str
) -> None:
    world = build_world(stack)
    pause(stack, world)
    first, second = getattr(world, asks), getattr(world, answers)
    ask_id = ask(stack, world, first)
    with pytest.raises(IntegrityError, match=refused), transaction(stack.console, world.merchant_id) as db:
        answer_row(db, world, ask_id, first, second, role=role)
    with transaction(stack.worker, world.merchant_id) as db:
        assert brakes_on(db, world.merchant_id)


def test_without_the_constraint_one_person_would_start_again(stack: Stack) -> None:
    world = build_world(stack)
    pause(stack, world)
    without(stack, "ALTER TABLE brake_answers DROP CONSTRAINT two_people_start_again")
    with transaction(stack.console, world.merchant_id) as db:
        answer_row(db, world, brakes.ask_release(db, world.merchant_id, "pause", world.farah.staff_id, "x"), world.farah,
                   world.farah)  # fmt: skip
    with transaction(stack.worker, world.merchant_id) as db:
        assert not brakes_on(db, world.merchant_id)


@pytest.mark.parametrize("who", ["rita"])
def test_a_reader_pauses_nothing(stack: Stack, who: str) -> None:
    world = build_world(stack)
    with pytest.raises(NotAllowed), transaction(stack.console, world.merchant_id) as db:
        brakes.pull(db, world.merchant_id, "pause", "No", staff_id=getattr(world, who).staff_id)


def test_a_pause_of_every_merchant_holds_for_each_and_a_pause_of_one_for_that(stack: Stack) -> None:
    harbour, quay = build_world(stack), build_world(stack, "quay")
    pause(stack, harbour)
    for world, on in ((harbour, True), (quay, False)):
        with transaction(stack.worker, world.merchant_id) as db:
            assert brakes_on(db, world.merchant_id) is on
    pause(stack, harbour, "all")
    for world in (harbour, quay):
        with transaction(stack.worker, world.merchant_id) as db:
            assert brakes_on(db, world.merchant_id)
            assert not may_send(db, world.merchant_id)
    with pytest.raises(DBAPIError, match="two people"), transaction(stack.owner, quay.merchant_id) as db:
        run(db, "DELETE FROM deployment_brakes")


def test_a_merchant_without_its_row_of_brakes_is_not_let_go(db: Connection) -> None:
    assert brakes_on(db, uuid7())


def test_the_brake_of_all_is_out_of_reach_of_the_processes(undone: As) -> None:
    for role in (CONSOLE, WORKER):
        with pytest.raises(DBAPIError, match="permission denied"), undone(role) as db:
            run(db, "DELETE FROM deployment_brakes")
