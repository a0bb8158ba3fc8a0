"""One account's trouble at the provider holds up no other: each of two merchants, or of two accounts of one, has its turn.

Nor does one object that cannot be read hold up what else there is to read.
"""

from uuid import UUID

import pytest
from pydantic import SecretStr

from jobs import holds, inbox, outside, submitter, verify_captures
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from ledger.ids import uuid7
from sandbox.client import Running, SandboxClient
from tests.cases.platform import SELLER
from tests.jobs.test_inbox import hint, results
from tests.jobs.test_outside import forge, marks
from tests.refunds import (
    READ_SECONDS,
    Proposed,
    alarms,
    approved,
    as_administrator,
    make_readings_due,
    paid_order,
    proposed,
    refunds_at,
    state_of,
)
from tests.stack import Stack
from tests.world import World, build_world, usual_policy


@pytest.fixture
def northwind(stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> World:
    """A second merchant with a key of its own, whose turn is always after Harbour's."""
    made = build_world(stack, "northwind", policy=usual_policy("northwind-usual"))
    keys = {slug: SecretStr(sandbox.secret_key) for slug in (world.slug, made.slug)}
    worker.gateway = StripeGateway(keys, sandbox.base_url, 1, READ_SECONDS)
    monkeypatch.setattr(Worker, "merchants", lambda _worker: [world.merchant_id, made.merchant_id])
    return made


def a_sellers(stack: Stack, world: World, sandbox: Running) -> SandboxClient:
    """The merchant's payments are on a connected account from now on; that account at the provider."""
    sandbox.connect_account(SELLER)
    as_administrator(
        stack, "UPDATE provider_accounts SET charge_type = 'direct', account_ref = %s WHERE merchant_id = %s",
        SELLER, world.merchant_id,
    )  # fmt: skip
    return SandboxClient(sandbox.base_url, SELLER)


@pytest.mark.parametrize("fault", ["error_503", "garbage_200", "lose_reply"])
def test_a_seller_whose_account_cannot_be_asked_for_holds_up_no_other_merchant(
    stack: Stack, world: World, sandbox: Running, worker: Worker, northwind: World, fault: str
) -> None:
    of_seller = approved(stack, world, a_sellers(stack, world, sandbox))
    healthy = approved(stack, northwind, sandbox)
    sandbox.fault(fault, path="/v1/account", account=SELLER)
    assert submitter.run_once(worker) == {"disputes_unread": 1, "claimed": 1, "confirmed": 1}
    assert (state_of(stack, of_seller), state_of(stack, healthy)) == ("approved", "succeeded")
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert (refunds_at(sandbox, of_seller), refunds_at(sandbox, healthy)) == (1, 1)


def test_a_seller_whose_account_stays_unreadable_is_said_aloud(
    stack: Stack, world: World, sandbox: Running, worker: Worker, northwind: World
) -> None:
    approved(stack, world, a_sellers(stack, world, sandbox))
    sandbox.fault("error_503", path="/v1/account", account=SELLER, count=2)
    submitter.run_once(worker)
    assert alarms(stack) == set()
    as_administrator(stack, "UPDATE account_readings SET failing_since = now() - interval '2 minutes'")
    assert submitter.run_once(worker) == {"disputes_unread": 1}
    assert alarms(stack) == {"disputes_unread"}


@pytest.fixture
def second_account(stack: Stack, world: World, sandbox: Running, worker: Worker) -> UUID:
    """Harbour has two accounts at the provider, and a key for the second only."""
    account_id = uuid7()
    as_administrator(
        stack, "INSERT INTO provider_accounts (merchant_id, provider_account_id, provider, livemode, credential)"
        " VALUES (%s, %s, 'stripe', false, 'harbour_two')", world.merchant_id, account_id,
    )  # fmt: skip
    worker.gateway = StripeGateway({"harbour_two": SecretStr(sandbox.secret_key)}, sandbox.base_url, 1, READ_SECONDS)
    return account_id


def told_of(stack: Stack, world: World, sandbox: Running, account_id: UUID | None = None, number: int = 1) -> Proposed:
    """A payment, of the second account if given, of which 1.00 was refunded at the provider; the hook told so."""
    one = proposed(stack, world, sandbox)
    if account_id:
        as_administrator(
            stack, "UPDATE captures SET provider_account_id = %s WHERE charge_ref = %s", account_id, one.charge
        )
    sandbox.dashboard_refund(one.payment_intent, 100)
    hint(stack, world, one, one.charge, kind="charge.refunded", ref=f"of_{number}")
    return one


@pytest.mark.parametrize("batch", [1000, 2], ids=["all in one batch", "a whole batch of the first account"])
def test_hints_of_an_account_without_a_key_hold_up_those_of_no_other_account(
    stack: Stack, world: World, sandbox: Running, worker: Worker, second_account: UUID, batch: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(inbox, "HINT_BATCH", batch)
    for number in range(3):
        told_of(stack, world, sandbox, number=number)
    readable = told_of(stack, world, sandbox, second_account, 4)
    assert inbox.run_once(worker) == {"reads": 2, "no_answer": 1, "hints": 1, "moved": 1}
    found = as_administrator(stack, "SELECT charge_ref FROM external_refunds")
    assert found == [{"charge_ref": readable.charge}]
    assert alarms(stack) == {"look_refused"}


def test_a_key_that_may_not_read_disputes_still_reads_what_is_told_of_refunds(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = proposed(stack, world, sandbox)
    hint(stack, world, one, "dp_first", kind="charge.dispute.created")
    hint(stack, world, one, "dp_second", kind="charge.dispute.created")
    told_of(stack, world, sandbox)
    sandbox.fault("forbidden", path="/v1/disputes", count=9)
    assert inbox.run_once(worker) == {"reads": 2, "no_answer": 1, "hints": 1, "moved": 1}
    assert (alarms(stack), results(stack)) == ({"look_refused"}, {None, "read"})


@pytest.mark.parametrize("dispute", ["dp_of/../another", "po_1"])
def test_a_dispute_that_could_be_none_is_put_aside_and_the_others_are_read(
    stack: Stack, world: World, sandbox: Running, worker: Worker, dispute: str
) -> None:
    one = proposed(stack, world, sandbox)
    hint(stack, world, one, dispute, kind="charge.dispute.created")
    told_of(stack, world, sandbox)
    assert inbox.run_once(worker) == {"reads": 2, "no_answer": 1, "hints": 2, "moved": 1}
    assert (alarms(stack), results(stack)) == (set(), {"no_such_payment", "read"})


def test_an_account_that_answers_nothing_is_let_be_after_three_payments_and_its_hints_wait(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    for number in range(4):
        told_of(stack, world, sandbox, number=number)
    sandbox.fault("error_503", path="/v1/refunds", count=3)
    assert inbox.run_once(worker) == {"reads": 3, "no_answer": 3}
    assert results(stack) == {None}
    assert inbox.run_once(worker) == {"reads": 4, "hints": 4, "moved": 4}


@pytest.fixture
def held(stack: Stack, world: World, sandbox: Running) -> list[str]:
    """Four payments whose holds are due to be read, the first in line first."""
    orders = [paid_order(stack, world, sandbox) for _ in range(4)]
    for order in orders:
        as_administrator(stack, "UPDATE captures SET next_read_at = now() WHERE order_id = %s", order.order_id)
    rows = as_administrator(
        stack, "SELECT payment_intent_ref FROM captures WHERE next_read_at IS NOT NULL ORDER BY next_read_at"
    )
    return [row["payment_intent_ref"] for row in rows]


def due_again(stack: Stack) -> list[int]:
    """In how many minutes each payment that is still read is due, as whole days or less."""
    rows = as_administrator(
        stack, "SELECT extract(epoch FROM next_read_at - now())::int / 60 AS minutes FROM captures"
        " WHERE next_read_at IS NOT NULL ORDER BY 1",
    )  # fmt: skip
    return [row["minutes"] for row in rows]


def test_a_hold_that_cannot_be_read_leaves_no_other_unread_until_tomorrow(
    stack: Stack, world: World, sandbox: Running, worker: Worker, held: list[str]
) -> None:
    sandbox.fault("wrong_answer", path="/v1/payment_intents", payment_intent=held[0], fields={"amount": "much"})
    assert holds.run_once(worker) == {"held_reads": 4, "no_answer": 1}
    (minutes,) = due_again(stack)
    assert minutes > 60 * 23


def test_holds_of_an_account_that_does_not_answer_are_read_again_in_minutes(
    stack: Stack, world: World, sandbox: Running, worker: Worker, held: list[str]
) -> None:
    sandbox.fault("error_503", path="/v1/payment_intents", count=3)
    assert holds.run_once(worker) == {"held_reads": 3, "no_answer": 3}
    assert all(minutes < 11 for minutes in due_again(stack))
    assert len(due_again(stack)) == len(held)


def test_looks_at_an_account_that_does_not_answer_end_after_three_and_are_made_again_in_minutes(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    for number in range(4):
        told_of(stack, world, sandbox, number=number)
    assert outside.run_once(worker) == {"external": 4}
    as_administrator(stack, "UPDATE external_refunds SET next_look_at = now()")
    sandbox.clear_requests()
    sandbox.fault("error_503", path="/v1/refunds/re_", count=4)
    assert outside.run_once(worker) == {"no_answer": 3}
    assert len(sandbox.requests(path="/v1/refunds/re_")) == 3
    waits = "SELECT bool_and(next_look_at < now() + interval '11 minutes') AS soon, count(*) AS n FROM external_refunds"
    assert as_administrator(stack, waits) == [{"soon": True, "n": 4}]


def test_after_a_recovery_a_payment_the_provider_does_not_have_is_named_and_holds_up_no_other(
    stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One payment a run: the one that is not there is read first, once, and the next run comes to the other."""
    monkeypatch.setattr(verify_captures, "BATCH", 1)
    gone, there = proposed(stack, world, sandbox), proposed(stack, world, sandbox)
    as_administrator(
        stack, "INSERT INTO recoveries (generation, first_engineer, second_engineer, backup_at, finished_at)"
        " VALUES (2, 'Ute', 'Ravi', now(), now())",
    )  # fmt: skip
    as_administrator(stack, "UPDATE deployment SET generation = 2")
    as_administrator(stack, "UPDATE captures SET verified_generation = 2 WHERE charge_ref <> ALL(%s)",
                     [gone.charge, there.charge])  # fmt: skip
    as_administrator(
        stack, "UPDATE captures SET payment_intent_ref = 'pi_nobody', captured_at = now() + interval '1 day'"
        " WHERE charge_ref = %s", gone.charge,
    )  # fmt: skip
    assert verify_captures.run_once(worker) == {"differs": 1}
    assert verify_captures.run_once(worker) == {"verified": 1}
    found = as_administrator(stack, "SELECT kind, refund_ref FROM discrepancies")
    assert found == [{"kind": "missing_there", "refund_ref": gone.charge}]


def test_of_two_shops_on_one_account_neither_has_the_refunds_of_the_other_on_its_desk(
    stack: Stack, world: World, sandbox: Running, worker: Worker, northwind: World
) -> None:
    """B143: each finds what was made on its own charges, in the other's name too, and nothing of the other's charges."""
    ours, theirs = approved(stack, world, sandbox), approved(stack, northwind, sandbox)
    assert submitter.run_once(worker) == {"claimed": 2, "confirmed": 2}
    make_readings_due(stack)
    assert outside.run_once(worker) == {}
    assert as_administrator(stack, "SELECT 1 FROM external_refunds") == []
    forge(worker, ours, marks(stack, northwind, theirs.intent_id))
    make_readings_due(stack)
    assert outside.run_once(worker) == {"external": 2}
    found = as_administrator(stack, "SELECT merchant_id, kind, charge_ref FROM external_refunds ORDER BY kind")
    assert found == [
        {"merchant_id": world.merchant_id, "kind": "outside", "charge_ref": ours.charge},
        # Somebody holds Northwind's marks: that is an incident of Northwind's, wherever the charge is.
        {"merchant_id": northwind.merchant_id, "kind": "unsealed", "charge_ref": ours.charge},
    ]
