"""P2, P6 and P8 in the database: one live intent, exact from its first moment, under one key for its whole life."""

from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.database import run, transaction
from tests.database import rows as put
from tests.database.conftest import As
from tests.stack import CONSOLE, OWNER, WORKER, Stack
from tests.world import World, add_order


def test_a_second_live_intent_of_a_case_and_capture_is_refused(db: Connection, harbour: World) -> None:
    case_id = put.open_case(db, harbour)
    put.propose(db, harbour, case_id, 100)

    with pytest.raises(IntegrityError, match="one_live_intent_per_case_and_capture"):
        put.propose(db, harbour, case_id, 200, owed_minor=300)


@pytest.mark.parametrize("state", ["succeeded", "failed", "withdrawn", "reversed"])
def test_after_a_settled_intent_more_money_is_a_new_one(db: Connection, harbour: World, state: str) -> None:
    earlier = put.bring(db, harbour, state, 100)

    later = put.propose(db, harbour, earlier.case_id, 200, owed_minor=300)

    assert later.intent_id != earlier.intent_id


@pytest.mark.parametrize("state", ["proposed", "approved", "succeeded"])
def test_a_case_is_never_paid_more_than_is_owed_in_all(db: Connection, harbour: World, state: str) -> None:
    """What was paid counts too, which the index of live intents does not see."""
    earlier = put.bring(db, harbour, state, 100)

    with pytest.raises(IntegrityError, match="paid what its entitlement says in all"):
        put.propose(db, harbour, earlier.case_id, 101, owed_minor=200)


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
