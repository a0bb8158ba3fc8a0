"""Each second writer is refused by its guard, and let once that is taken away, which the audit then finds."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from faults.books import audit
from faults.guards import GUARDS, Guard, attempt
from faults.place import READ_SECONDS, Place, a_place
from jobs.stripe_gateway import StripeGateway
from ledger import recovery
from ledger.database import transaction
from ledger.events import lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.intents import cancel_before_send
from ledger.settlement import apply_refund
from tests.orders import Line
from tests.refunds import approved, make_readings_due, paid_order, proposed
from tests.restores import back_up, forget
from tests.stack import Server

WITH_ROGUE = [guard for guard in GUARDS.values() if guard.rogue is not None]


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with a_place(server, tmp_path_factory.mktemp("place")) as made:
        yield made


def every_state(place: Place) -> None:
    """One refund in each state a second writer may want, none of which anybody goes on with."""
    place.empty()
    approve = (place.stack, place.world, place.sandbox)
    place.sandbox.fault("wrong_amount", path="/v1/refunds", method="POST")
    approved(*approve, units=1)
    with place.worker() as worker:
        place.work(worker)
    sold = (Line("THING", 3, 9000), Line("OTHER", 1, 5000))
    approved(*approve, line="THING", order=paid_order(*approve, lines=sold, amount=40000))
    with place.worker() as worker:
        place.work(worker)
    place.sandbox.open_dispute(approved(*approve).payment_intent)
    make_readings_due(place.stack)
    with place.worker() as worker:
        place.work(worker)
    place.sandbox.fault("refund_pending", path="/v1/refunds", method="POST")
    approved(*approve)
    with place.worker() as worker:
        place.work(worker)
    approved(*approve, window=3000)
    proposed(*approve)


@pytest.fixture(scope="module")
def staged(place: Place) -> Place:
    every_state(place)
    assert audit(place).duplicates == []
    place.sandbox.keep()
    return place


@pytest.fixture
def copy(staged: Place) -> Iterator[Place]:
    """The same rows in a database of this test, and the provider as it was."""
    staged.sandbox.put_back()
    staged.let_go()
    stack = back_up(staged.stack)
    made = replace(staged, stack=stack)
    made.world = staged.world
    yield made
    made.let_go()
    forget(stack)


def in_state(place: Place, *states: str) -> dict[str, Any]:
    return place.as_administrator(
        "SELECT * FROM intents WHERE state = ANY(%s) AND state_reason <> 'cap' ORDER BY number DESC LIMIT 1",
        list(states),
    )[0]


def wanted(place: Place, guard: Guard) -> dict[str, Any]:
    return in_state(place, *guard.wants)


def gateway_of(place: Place) -> StripeGateway:
    keys = {place.world.slug: SecretStr(place.sandbox.secret_key)}
    return StripeGateway(keys, place.sandbox.base_url, 1, READ_SECONDS)


@pytest.mark.parametrize("guard", WITH_ROGUE, ids=lambda guard: guard.name)
def test_a_second_writer_is_refused_and_let_once_its_guard_is_gone_and_the_audit_finds_it(
    copy: Place, guard: Guard
) -> None:
    gateway = gateway_of(copy)
    before = audit(copy)
    assert (before.duplicates, before.wrong) == ([], [])
    intent = wanted(copy, guard)
    assert attempt(guard, copy, gateway, intent) == "refused"
    for statement in guard.off:
        copy.stack.server.run(statement.encode(), database=copy.stack.name)
    assert attempt(guard, copy, gateway, intent) == "let"
    with copy.worker() as worker:
        copy.work(worker)
    found = audit(copy)
    assert found.duplicates or found.wrong


@pytest.mark.parametrize("guard", [one for one in WITH_ROGUE if "approved" in one.wants], ids=lambda guard: guard.name)
def test_a_refund_called_back_since_it_was_read_is_no_duplicate_that_a_second_writer_was_let(
    copy: Place, guard: Guard
) -> None:
    intent = in_state(copy, "approved")
    with transaction(copy.stack.console, copy.world.merchant_id) as db:
        cancel_before_send(db, copy.world.merchant_id, intent["intent_id"], copy.world.mara.actor, "not_yet")
    assert attempt(guard, copy, gateway_of(copy), intent) != "let"
    assert audit(copy).duplicates == []


@pytest.mark.parametrize("guard", [one for one in WITH_ROGUE if "succeeded" in one.wants], ids=lambda guard: guard.name)
def test_a_refund_the_bank_sent_back_since_it_was_read_is_no_duplicate_that_a_second_writer_was_let(
    copy: Place, guard: Guard
) -> None:
    intent = in_state(copy, "succeeded")
    copy.sandbox.change_refund(intent["provider_refund_ref"], "failed")
    with transaction(copy.stack.owner) as db:
        (account,) = recovery.accounts(db)
    refund = gateway_of(copy).retrieve(account, intent["provider_refund_ref"])
    with transaction(copy.stack.worker, copy.world.merchant_id) as db:
        case = lock_case_of_intent(db, copy.world.merchant_id, intent["intent_id"])
        read = read_intent(db, copy.world.merchant_id, intent["intent_id"], lock=True)
        assert read is not None
        apply_refund(db, case, read, refund)
    (now,) = copy.as_administrator("SELECT state FROM intents WHERE intent_id = %s", intent["intent_id"])
    assert now["state"] == "reversed"
    assert attempt(guard, copy, gateway_of(copy), intent) != "let"
    assert audit(copy).duplicates == []
