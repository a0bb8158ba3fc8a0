"""Webhooks are hints: what they say is not believed, what they point at is read once (S66)."""

import hashlib
from typing import Any

import pytest

from jobs import inbox, submitter
from jobs.worker import Worker
from ledger.database import run, transaction
from ledger.settlement import Unknown
from sandbox.client import Running
from tests import lives
from tests.refunds import Proposed, alarms, approved, as_administrator, balances, refunds_at, row_of, state_of
from tests.stack import Stack
from tests.world import World


def hint(
    stack: Stack, world: World, one: Proposed, object_ref: str, count: int = 1, ref: str = "", **changes: Any
) -> None:
    """What the web process keeps of signed webhooks about this payment."""
    usual = {"kind": "refund.updated", "payment": one.payment_intent}
    with transaction(stack.console, world.merchant_id) as db:
        for number in range(count):
            run(
                db, "INSERT INTO provider_events (merchant_id, event_ref, kind, object_ref, payment_intent_ref,"
                " created_at, body_digest) VALUES (:m, :e, :kind, :o, :payment, now(), :digest)", m=world.merchant_id,
                e=f"evt_{ref or object_ref}_{number}", o=object_ref, digest=hashlib.sha256(b"body").digest(),
                **{**usual, **changes},
            )  # fmt: skip


def results(stack: Stack) -> set[str | None]:
    found = as_administrator(
        stack, "SELECT CASE WHEN done_at IS NOT NULL THEN result END AS result FROM provider_events"
    )
    return {row["result"] for row in found}


@pytest.fixture
def paid(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    one = approved(stack, world, sandbox)
    submitter.run_once(worker)
    assert state_of(stack, one) == "succeeded"
    return one


def refund_of(stack: Stack, one: Proposed) -> str:
    return str(row_of(stack, one)["provider_refund_ref"])


def test_a_late_failure_is_noticed_and_the_money_is_owed_again(
    stack: Stack, world: World, sandbox: Running, worker: Worker, paid: Proposed
) -> None:
    sandbox.change_refund(refund_of(stack, paid), "failed", "expired_or_canceled_card")
    hint(stack, world, paid, refund_of(stack, paid))
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1, "moved": 1}
    row = row_of(stack, paid)
    assert (row["state"], row["state_reason"]) == ("reversed", "expired_or_canceled_card")
    assert balances(stack, paid) == (paid.order.total_minor, 0, 0)
    assert sandbox.money(paid.payment_intent)["refunded"] == 0


def test_a_hint_that_is_not_true_changes_nothing(
    stack: Stack, world: World, sandbox: Running, worker: Worker, paid: Proposed
) -> None:
    hint(stack, world, paid, refund_of(stack, paid), kind="refund.failed")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1}
    assert (state_of(stack, paid), results(stack)) == ("succeeded", {"read"})


def test_a_thousand_hints_about_one_payment_cost_one_read(
    stack: Stack, world: World, sandbox: Running, worker: Worker, paid: Proposed
) -> None:
    hint(stack, world, paid, refund_of(stack, paid), count=1000)
    sandbox.clear_requests()
    assert inbox.run_once(worker) == {"hints": 1000, "reads": 1}
    assert len(sandbox.requests()) == 1
    assert (inbox.run_once(worker), results(stack)) == ({}, {"read"})


def test_a_hint_settles_a_pending_refund_at_once(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    sandbox.fault("refund_pending")
    one = approved(stack, world, sandbox)
    submitter.run_once(worker)
    hint(stack, world, one, refund_of(stack, one))
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1}
    assert state_of(stack, one) == "pending"
    sandbox.change_refund(refund_of(stack, one), "succeeded")
    hint(stack, world, one, one.charge, kind="charge.refunded", payment="")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1, "moved": 1}
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)


def test_a_hint_adopts_what_was_unknown(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    worker.gateway.refund(claimed.request, claimed.key)
    lives.record(stack, claimed, Unknown("no_answer", "ReadTimeout"))
    hint(stack, world, one, sandbox.money(one.payment_intent)["refunds"][0]["id"], kind="refund.created")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1, "moved": 1}
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)


def test_an_intent_under_way_is_left_to_its_own_call(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    answer = worker.gateway.refund(claimed.request, claimed.key)
    hint(stack, world, one, one.charge, kind="charge.refunded")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1}
    assert state_of(stack, one) == "submitting"
    assert lives.record(stack, claimed, answer)
    assert state_of(stack, one) == "succeeded"


def test_a_refund_made_elsewhere_moves_nothing_of_ours(
    stack: Stack, world: World, sandbox: Running, worker: Worker, paid: Proposed
) -> None:
    made = sandbox.dashboard_refund(paid.payment_intent, 100)
    hint(stack, world, paid, str(made.get("id", paid.charge)))
    assert inbox.run_once(worker)["reads"] == 1
    assert state_of(stack, paid) == "succeeded"


def test_a_refund_of_an_intent_that_failed_here_is_an_alarm(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    request = as_administrator(stack, "SELECT request FROM outbox")[0]["request"]
    sandbox.fault("insufficient_balance", refuse=True)
    submitter.run_once(worker)
    assert state_of(stack, one) == "failed"
    worker.gateway.refund(request, "somebody-elses-key")
    hint(stack, world, one, one.charge)
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1, "moved": 1}
    assert (state_of(stack, one), alarms(stack)) == ("failed", {"refund_not_expected"})
    assert balances(stack, one) == (one.order.total_minor - one.amount_minor, 0, one.amount_minor)


def test_a_hint_waits_for_a_provider_that_cannot_be_asked_and_for_a_list_that_lags(
    stack: Stack, world: World, sandbox: Running, worker: Worker, paid: Proposed
) -> None:
    hint(stack, world, paid, refund_of(stack, paid))
    sandbox.fault("error_503")
    assert inbox.run_once(worker) == {"reads": 1, "no_answer": 1}
    hint(stack, world, paid, "re_notlistedyet")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1}
    assert results(stack) == {"read", None}
    as_administrator(stack, "UPDATE provider_events SET received_at = now() - interval '11 minutes'")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1}
    assert results(stack) == {"read"}


def test_a_hint_about_another_shops_payment_is_put_aside_without_a_call(
    stack: Stack, world: World, sandbox: Running, worker: Worker, paid: Proposed
) -> None:
    sandbox.clear_requests()
    hint(stack, world, paid, "re_x", payment="pi_of_nobody_here")
    assert inbox.run_once(worker) == {"hints": 1}
    assert (sandbox.requests(), results(stack)) == ([], {"not_our_payment"})


def test_a_payment_that_cannot_be_asked_about_holds_up_no_other(
    stack: Stack, world: World, sandbox: Running, worker: Worker, paid: Proposed
) -> None:
    # A payment of the time before payment intents: the shop gave its charge for both references.
    as_administrator(
        stack, "UPDATE captures SET payment_intent_ref = charge_ref WHERE capture_id = %s", world.order.captures["card"]
    )
    hint(stack, world, paid, "ch_A-20417_card", kind="charge.updated", payment="")
    sandbox.change_refund(refund_of(stack, paid), "failed", "expired_or_canceled_card")
    hint(stack, world, paid, refund_of(stack, paid))
    assert inbox.run_once(worker) == {"hints": 2, "reads": 2, "no_answer": 1, "moved": 1}
    assert (state_of(stack, paid), results(stack)) == ("reversed", {"no_such_payment", "read"})
