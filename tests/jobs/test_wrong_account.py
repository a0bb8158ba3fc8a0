"""A key that opens another account than the merchant's reads nothing there and takes nothing up, whatever asks (S68)."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs import books, holds, inbox, outside, reconciler, submitter, verify_captures
from jobs.worker import Worker
from ledger.database import transaction
from ledger.errors import BadInput
from ledger.merchants import NewMerchant, add_merchant
from ledger.reconciliation_run import ask_run
from ledger.settlement import Unknown
from sandbox.client import Running
from sandbox.ids import account_id
from tests import lives
from tests.jobs.test_inbox import hint
from tests.jobs.test_recover import run_recover
from tests.refunds import (
    Proposed,
    alarms,
    approved,
    as_administrator,
    make_due,
    make_readings_due,
    paid_order,
    proposed,
    refunds_at,
)
from tests.stack import Stack
from tests.world import World

JOBS = {
    "submitter": submitter.run_once, "reconciler": reconciler.run_once, "inbox": inbox.run_once, "outside": outside.run_once,
    "holds": holds.run_once, "books": books.run_once, "verify": verify_captures.run_once,
}  # fmt: skip


def expects(stack: Stack, account_ref: str) -> None:
    as_administrator(stack, "UPDATE provider_accounts SET expected_account_ref = %s", account_ref)


@pytest.fixture
def everything_due(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    """Each job has something to ask the provider about: what was found outside before, and what is new there."""
    known = proposed(stack, world, sandbox)
    sandbox.dashboard_refund(known.payment_intent, 100)
    sandbox.open_dispute(known.payment_intent, inquiry=True)
    outside.run_once(worker)
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    lives.record(stack, claimed, Unknown("no_answer", "ReadTimeout"))
    approved(stack, world, sandbox)
    sandbox.dashboard_refund(one.payment_intent, 100)
    hint(stack, world, one, one.charge, kind="charge.refunded")
    held = paid_order(stack, world, sandbox)
    as_administrator(stack, "UPDATE captures SET next_read_at = now() WHERE order_id = %s", held.order_id)
    as_administrator(
        stack, "INSERT INTO recoveries (generation, first_engineer, second_engineer, backup_at, finished_at)"
        " VALUES (2, 'Ute', 'Ravi', now(), now())",
    )  # fmt: skip
    as_administrator(stack, "UPDATE captures SET verified_generation = 0")
    ends = datetime.now(UTC) - timedelta(days=1)
    with transaction(stack.console, world.merchant_id) as db:
        ask_run(db, world.merchant_id, ends - timedelta(days=1), ends, world.farah.actor)
    make_due(stack)
    make_readings_due(stack)
    sandbox.clear_requests()
    return one


@pytest.mark.parametrize("job", JOBS)
def test_no_job_reads_or_writes_anything_with_a_key_that_opens_another_account(
    stack: Stack, world: World, sandbox: Running, worker: Worker, everything_due: Proposed, job: str
) -> None:
    expects(stack, "acct_1OfSomebodyElse")
    before = as_administrator(stack, "SELECT charge_ref FROM external_refunds")
    JOBS[job](worker)
    asked = [call["path"] for call in sandbox.requests()]
    assert set(asked) == {"/v1/account"}
    assert as_administrator(stack, "SELECT charge_ref FROM external_refunds") == before
    # What was approved for another account than the row names now is not even asked about.
    assert alarms(stack) & {"submitter_stopped", "look_refused", "not_sent_fingerprint"}


@pytest.mark.parametrize("job", JOBS)
def test_control_with_the_key_of_the_account_each_job_reads_on_once_that_is_proven(
    stack: Stack, world: World, sandbox: Running, worker: Worker, everything_due: Proposed, job: str
) -> None:
    expects(stack, account_id(sandbox.secret_key))
    JOBS[job](worker)
    asked = [call["path"] for call in sandbox.requests()]
    assert asked.count("/v1/account") == 1
    assert len(asked) > 1


def test_a_recovery_takes_nothing_up_from_another_account_and_does_not_go_on(
    stack: Stack, world: World, sandbox: Running
) -> None:
    one = proposed(stack, world, sandbox)
    sandbox.dashboard_refund(one.payment_intent, 100)
    expects(stack, "acct_1OfSomebodyElse")
    done = run_recover(stack, sandbox, world)
    assert done.exit_code == 1
    assert "The provider could not be read for harbour: wrong_account" in done.output
    assert as_administrator(stack, "SELECT 1 FROM external_refunds") == []
    assert as_administrator(stack, "SELECT finished_at FROM recoveries") == [{"finished_at": None}]
    expects(stack, account_id(sandbox.secret_key))
    assert run_recover(stack, sandbox, world).exit_code == 0
    assert refunds_at(sandbox, one) == len(as_administrator(stack, "SELECT 1 FROM external_refunds")) == 1


def test_a_live_merchant_names_the_account_its_key_opens(stack: Stack) -> None:
    as_administrator(stack, "UPDATE deployment SET livemode = true")
    new = NewMerchant("quay", "Quay", "Europe/London", "GB", "quay", livemode=True)
    with pytest.raises(BadInput, match="name the account the key opens"), transaction(stack.owner) as db:
        add_merchant(db, new)
