"""kill -9 of a worker at each step of a send; another one goes on; each refund exists once. With its control (P8)."""

import os
import signal
from collections import Counter

import psycopg
import pytest

from ledger.canonical import canonical_bytes
from ledger.database import transaction
from ledger.fingerprint import evidence_digest, fingerprint, frozen_request, read_intent, request_digest
from ledger.intents import new_provider_key
from sandbox.client import Running
from tests import lives
from tests.jobs.processes import call_about, jobs_process, lines_of, run_until_quiet, wait_until
from tests.orders import Line
from tests.refunds import Proposed, approved, as_administrator, creates, paid_order, refunds_at, state_of
from tests.stack import Stack
from tests.world import World


def made_for(sandbox: Running, one: Proposed) -> int:
    """Refunds at the provider that name this intent."""
    refunds = sandbox.money(one.payment_intent)["refunds"]
    return [refund["metadata"]["onceback_intent"] for refund in refunds].count(str(one.intent_id))


def test_a_worker_killed_at_any_step_of_a_send_leaves_one_refund_each(
    stack: Stack, world: World, sandbox: Running
) -> None:
    order = paid_order(stack, world, sandbox, (Line("ACTING", 1, 1000), Line("WAITING", 1, 2000)))
    acting = approved(stack, world, sandbox, order=order, line="ACTING")
    answered, unrecorded = approved(stack, world, sandbox), approved(stack, world, sandbox)
    # Claimed and committed, and its call waits for the one before it on the same charge.
    not_called = approved(stack, world, sandbox, order=order, line="WAITING")
    sandbox.fault("delay_before", ms=5000, charge=acting.charge)
    sandbox.fault("delay_after", ms=5000, charge=answered.charge)
    sandbox.fault("delay_after", ms=1500, charge=unrecorded.charge)
    with jobs_process(stack, sandbox, world) as worker, psycopg.connect(stack.admin_url) as blocker:
        wait_until(lambda: call_about(sandbox, unrecorded), "the call of the third")
        blocker.execute("SELECT 1 FROM cases WHERE case_id = %s FOR UPDATE", (unrecorded.case_id,))
        wait_until(lambda: (call_about(sandbox, unrecorded) or {}).get("status"), "its answer")
        wait_until(lambda: call_about(sandbox, acting) and call_about(sandbox, answered), "the other calls")
        states = {state_of(stack, one) for one in (acting, answered, unrecorded, not_called)}
        assert (states, call_about(sandbox, not_called)) == ({"submitting"}, None)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    assert sandbox.money(unrecorded.payment_intent)["refund_count"] == 1
    run_until_quiet(stack, sandbox, world)
    for one in (acting, answered, unrecorded, not_called):
        assert (state_of(stack, one), made_for(sandbox, one)) == ("succeeded", 1)
        assert set(Counter(call["idempotency_key"] for call in creates(sandbox))) >= {one.key}
    assert sandbox.totals()["gbp"]["refunds"] == 4
    rows = as_administrator(
        stack, "SELECT sum(reserved_minor) AS reserved, sum(refunded_minor) AS refunded FROM captures"
    )
    assert rows == [{"reserved": 0, "refunded": 3000 + 2 * answered.amount_minor}]


@pytest.mark.parametrize("fresh_key", [False, True], ids=["one key for its life", "control: a fresh key per attempt"])
def test_a_killed_workers_refund_that_no_list_shows_is_paid_once_because_of_its_key(
    stack: Stack, world: World, sandbox: Running, fresh_key: bool
) -> None:
    one = approved(stack, world, sandbox)
    sandbox.fault("list_lag", seconds=3600)
    sandbox.fault("delay_after", ms=4000, charge=one.charge)
    with jobs_process(stack, sandbox, world, "--once", "submitter") as worker:
        wait_until(lambda: refunds_at(sandbox, one), "the refund")
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    if fresh_key:
        mint_another_key(stack, world, one)
    run_until_quiet(stack, sandbox, world)
    assert refunds_at(sandbox, one) == (2 if fresh_key else 1)
    assert state_of(stack, one) == "succeeded"


def mint_another_key(stack: Stack, world: World, one: Proposed) -> None:
    """What a program without P8 would do between two attempts, with everything else made to agree again."""
    as_administrator(
        stack, "UPDATE intents SET provider_key = %s WHERE intent_id = %s", new_provider_key(), one.intent_id
    )
    with transaction(stack.console, world.merchant_id) as db:
        intent = read_intent(db, world.merchant_id, one.intent_id)
        assert intent is not None
        print_ = fingerprint(intent, evidence_digest(db, world.merchant_id, one.case_id))
        request = frozen_request(intent, print_)
    as_administrator(
        stack, "UPDATE outbox SET request = %s::jsonb, request_digest = %s", canonical_bytes(request).decode(),
        request_digest(request),
    )  # fmt: skip
    approval = as_administrator(stack, "UPDATE approvals SET fingerprint = %s RETURNING *", print_)[0]
    as_administrator(stack, "UPDATE approvals SET seal = %s", lives.sealer().seal(approval))


def test_a_worker_told_to_stop_ends_its_calls_records_them_and_claims_nothing_more(
    stack: Stack, world: World, sandbox: Running
) -> None:
    one = approved(stack, world, sandbox)
    sandbox.fault("delay_after", ms=1500, charge=one.charge)
    with jobs_process(stack, sandbox, world) as worker:
        wait_until(lambda: call_about(sandbox, one), "the call")
        worker.send_signal(signal.SIGTERM)
        later = approved(stack, world, sandbox)
        printed, _ = worker.communicate(timeout=30)
    assert worker.returncode == 0, printed
    assert (state_of(stack, one), state_of(stack, later)) == ("succeeded", "approved")
    said = lines_of(printed)
    assert [line["event"] for line in said][-1] == "worker_stopped"
    assert {line["key"] for line in said if line["event"] == "sent"} == {one.key}
    assert world.ilse.hex not in printed
