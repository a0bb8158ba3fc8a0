"""Money that was authorised and not taken: what the database itself keeps of it, with the guard on and off."""

import json
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.database import first, run
from ledger.ids import uuid7
from tests.database import rows as put
from tests.database.conftest import As
from tests.stack import CONSOLE, WORKER, Stack
from tests.world import World


def held(db: Connection, world: World, minor: int = 5800, captured: int = 0) -> UUID:
    """A card capture of the world's order of which `minor` is held and `captured` taken."""
    capture_id = uuid7()
    run(
        db, "INSERT INTO captures (merchant_id, capture_id, order_id, position, capture_ref, tender, provider_account_id,"
        " payment_intent_ref, charge_ref, destination_kind, currency, captured_minor, order_minor, captured_at, available_minor,"
        " held_minor) VALUES (:m, :c, :o, 7, :ref, 'card', :a, :pi, :ch, 'card', 'GBP', :taken, :minor, now(), :taken, :minor)",
        m=world.merchant_id, c=capture_id, o=world.order.order_id, ref=f"h-{capture_id}", a=world.provider_account_id,
        pi=f"pi_{capture_id.hex}", ch=f"ch_{capture_id.hex}", minor=minor, taken=captured,
    )  # fmt: skip
    return capture_id


def fact(db: Connection, world: World, capture_id: UUID, kind: str, minor: int) -> None:
    run(
        db, "INSERT INTO capture_facts (merchant_id, fact_id, capture_id, kind, amount_minor, payment_status)"
        " VALUES (:m, :f, :c, :kind, :minor, 'succeeded')", m=world.merchant_id, f=uuid7(), c=capture_id, kind=kind, minor=minor,
    )  # fmt: skip


def figures(db: Connection, world: World, capture_id: UUID) -> tuple[int, ...]:
    """captured, available, held, releasing, released."""
    row = first(db, "SELECT captured_minor, available_minor, held_minor, releasing_minor, released_minor FROM captures"
                " WHERE merchant_id = :m AND capture_id = :c", m=world.merchant_id, c=capture_id)  # fmt: skip
    assert row is not None
    return tuple(int(value) for value in dict(row).values())


@pytest.fixture
def capture(db: Connection, harbour: World) -> UUID:
    return held(db, harbour)


def test_what_is_captured_of_a_hold_becomes_available_and_the_rest_stays_held(
    db: Connection, harbour: World, capture: UUID
) -> None:
    fact(db, harbour, capture, "captured", 2000)
    assert figures(db, harbour, capture) == (2000, 2000, 3800, 0, 0)
    fact(db, harbour, capture, "released", 3800)
    assert figures(db, harbour, capture) == (2000, 2000, 0, 0, 3800)


@pytest.mark.parametrize(("kind", "minor"), [("captured", 5801), ("released", 5801), ("not_captured", 1)])
def test_no_fact_takes_more_than_there_is(db: Connection, harbour: World, capture: UUID, kind: str, minor: int) -> None:
    with pytest.raises(IntegrityError, match=r"holds_not_negative|balances_not_negative"):
        fact(db, harbour, capture, kind, minor)


def test_no_role_changes_what_was_captured_but_by_a_fact_and_the_console_writes_none(
    undone: As, shared: Stack, harbour: World
) -> None:
    for role, statement in (
        (CONSOLE, "UPDATE captures SET captured_minor = captured_minor + 1"),
        (WORKER, "UPDATE captures SET held_minor = 0"),
        (CONSOLE, "INSERT INTO capture_facts (merchant_id) VALUES (gen_random_uuid())"),
    ):
        with undone(role, harbour.merchant_id) as db, pytest.raises(DBAPIError, match="permission denied"):
            run(db, statement)


def cancel(db: Connection, world: World, capture_id: UUID, minor: int = 5800, **other: Any) -> put.Intent:
    """A proposed cancel of the capture."""
    case = put.open_case(db, world)
    return put.propose(db, world, case, minor, capture_id=capture_id, act="cancel_payment",
                       units=json.dumps([{"line": "TEE", "from": 0, "to": 1}]), **other)  # fmt: skip


def test_a_cancel_is_of_the_whole_hold_and_only_where_nothing_was_taken(db: Connection, harbour: World) -> None:
    for capture_id, minor in ((held(db, harbour), 5799), (held(db, harbour, captured=100), 5800)):
        with pytest.raises(IntegrityError, match="as that stands"), db.begin_nested():
            cancel(db, harbour, capture_id, minor)
    assert cancel(db, harbour, held(db, harbour)).amount_minor == 5800


def test_a_refund_moves_nothing_that_is_only_held(db: Connection, harbour: World) -> None:
    intent = put.propose(db, harbour, put.open_case(db, harbour), 100)
    with pytest.raises(IntegrityError, match="a cancel moves what is held"):
        put.move(db, intent, "reserve", from_balance="held", to_balance="releasing")


def test_a_cancel_moves_nothing_that_was_taken(db: Connection, harbour: World, capture: UUID) -> None:
    intent = cancel(db, harbour, capture)
    with pytest.raises(IntegrityError, match="a cancel moves what is held"):
        put.move(db, intent, "reserve")


def test_control_without_that_guard_the_reservation_of_a_cancel_takes_money_that_was_taken(
    db: Connection, harbour: World, capture: UUID
) -> None:
    fact(db, harbour, capture, "captured", 5800)
    run(db, "ALTER TABLE intents DISABLE TRIGGER exact_insert")
    intent = cancel(db, harbour, capture)
    run(db, "ALTER TABLE transfers DISABLE TRIGGER of_its_act")
    put.move(db, intent, "reserve")
    assert put.balances(db, intent)["reserved"] == 5800


def test_a_reservation_holds_the_hold_and_what_happens_at_the_provider_goes_before_it(
    db: Connection, harbour: World, capture: UUID
) -> None:
    intent = cancel(db, harbour, capture)
    put.move(db, intent, "reserve", from_balance="held", to_balance="releasing")
    assert figures(db, harbour, capture) == (0, 0, 0, 5800, 0)
    fact(db, harbour, capture, "captured", 5800)
    assert figures(db, harbour, capture) == (5800, 5800, 0, 0, 0)
