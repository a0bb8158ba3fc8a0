"""Who made a refund is told by our rows alone, and one in our name that we did not send stops the merchant (S68)."""

import uuid
from collections import Counter
from typing import Any

import pytest

from jobs import inbox, outside, submitter
from jobs.stripe_gateway import LookFailed
from jobs.worker import Worker
from ledger.database import transaction
from ledger.external_matching import mark_unrelated, match_to_case
from ledger.settlement import Refused
from sandbox.client import Running
from tests import lives
from tests.jobs.calls import ACCOUNT
from tests.jobs.test_inbox import hint, results
from tests.refunds import (
    Proposed,
    alarms,
    approved,
    as_administrator,
    balances,
    make_readings_due,
    proposed,
    refunds_at,
    state_of,
)
from tests.stack import Stack
from tests.world import World


def marks(stack: Stack, world: World, intent: Any, **other: str) -> dict[str, str]:
    """The metadata of a refund of ours."""
    (row,) = as_administrator(stack, "SELECT deployment_id FROM deployment")
    return {
        "onceback_deployment": str(row["deployment_id"]), "onceback_merchant": str(world.merchant_id),
        "onceback_intent": str(intent), **other,
    }  # fmt: skip


def forge(worker: Worker, one: Proposed, metadata: dict[str, str], amount_minor: int = 100) -> None:
    """Somebody who holds our key makes a refund with these marks."""
    request = {
        "account": "", "credential": "harbour", "livemode": False, "payment_intent": one.payment_intent,
        "charge": one.charge, "amount_minor": str(amount_minor), "currency": "GBP", "metadata": metadata,
    }  # fmt: skip
    worker.gateway.refund(request, uuid.uuid4().hex)


def stopped(stack: Stack) -> str | None:
    (row,) = as_administrator(stack, "SELECT stopped_reason FROM merchant_brakes")
    return None if row["stopped_reason"] is None else str(row["stopped_reason"])


@pytest.mark.parametrize("named", ["nobody", "proposed", "approved", "paid", "planted"])
def test_a_refund_in_our_name_that_we_did_not_send_is_an_incident_and_stops_the_merchant(
    stack: Stack, world: World, sandbox: Running, worker: Worker, named: str
) -> None:
    one = proposed(stack, world, sandbox)
    if named in ("approved", "paid", "planted"):
        lives.approve_as(stack, world, world.priya, one.intent_id)
    if named == "paid":
        submitter.run_once(worker)
    if named == "planted":
        # An attempt and an approval that somebody wrote into the database: the seal is not ours.
        lives.claim(stack, world)
        as_administrator(stack, "UPDATE approvals SET note = 'approved by phone'")
    before = balances(stack, one)
    forge(worker, one, marks(stack, world, uuid.uuid4() if named == "nobody" else one.intent_id))
    assert outside.run_once(worker) == {"external": 1}
    assert (stopped(stack), alarms(stack)) == ("unsealed_refund", {"unsealed_refund"})
    assert as_administrator(stack, "SELECT kind FROM external_refunds") == [{"kind": "unsealed"}]
    assert balances(stack, one)[2] == before[2] + 100
    assert not submitter.run_once(worker)["claimed"]
    make_readings_due(stack)
    as_administrator(stack, "UPDATE merchant_brakes SET stopped_at = NULL, stopped_reason = NULL")
    assert (outside.run_once(worker), stopped(stack)) == ({}, None)


def test_a_refund_of_another_deployment_or_without_marks_is_external_and_stops_nobody(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = proposed(stack, world, sandbox)
    forge(worker, one, marks(stack, world, uuid.uuid4(), onceback_deployment=str(uuid.uuid4())))
    forge(worker, one, marks(stack, world, uuid.uuid4(), onceback_merchant=str(uuid.uuid4())))
    forge(worker, one, {"ticket": "17"})
    sandbox.dashboard_refund(one.payment_intent, 100)
    assert outside.run_once(worker) == {"external": 4}
    assert (stopped(stack), alarms(stack), balances(stack, one)[2]) == (None, set(), 400)
    assert as_administrator(stack, "SELECT DISTINCT kind FROM external_refunds") == [{"kind": "outside"}]


def test_our_own_refund_is_ours_before_its_answer_is_written_and_after(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    answer = worker.gateway.refund(claimed.request, claimed.key)
    hint(stack, world, one, one.charge, kind="charge.refunded")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1}
    assert outside.run_once(worker) == {}
    assert lives.record(stack, claimed, answer)
    make_readings_due(stack)
    assert (outside.run_once(worker), state_of(stack, one), refunds_at(sandbox, one)) == ({}, "succeeded", 1)
    assert as_administrator(stack, "SELECT 1 FROM external_refunds") == []


def test_a_list_that_cannot_be_read_is_said_aloud_and_read_from_where_it_stood(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = proposed(stack, world, sandbox)
    sandbox.dashboard_refund(one.payment_intent, 100)
    for fault in ("error_503", "garbage_200", "lose_reply"):
        sandbox.fault(fault, path="/v1/refunds")
        assert outside.run_once(worker) == {"no_answer": 1}
        make_readings_due(stack)
    as_administrator(stack, "UPDATE account_readings SET failing_since = now() - interval '2 minutes'")
    sandbox.fault("error_503", path="/v1/refunds")
    outside.run_once(worker)
    assert alarms(stack) == {"refunds_unread"}
    make_readings_due(stack)
    # It can be read again, and the alarm ends by itself, with a row that says so.
    assert outside.run_once(worker) == {"external": 1, "ended": 1}
    assert alarms(stack) == set()
    (row,) = as_administrator(stack, "SELECT because FROM alarm_endings")
    assert row["because"] == "The provider's list of refunds can be read again."
    make_readings_due(stack)
    assert outside.run_once(worker) == {}


def test_a_payment_told_of_again_and_again_is_read_a_dozen_times_a_minute(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """Forty hooks with forty ids, each in a run of its own; the rest waits, is not lost, and costs one reading."""
    one = proposed(stack, world, sandbox)
    sandbox.clear_requests()
    counts: Counter[str] = Counter()
    for number in range(40):
        hint(stack, world, one, f"{one.charge}_{number}", kind="charge.updated")
        counts += inbox.run_once(worker)
    assert counts["reads"] == len(sandbox.requests()) == inbox.READS_A_MINUTE
    assert results(stack) == {"read", None}
    as_administrator(stack, "UPDATE payment_reads SET minute_at = minute_at - interval '1 minute'")
    assert inbox.run_once(worker) == {"hints": 40 - inbox.READS_A_MINUTE, "reads": 1}
    assert results(stack) == {"read"}


def test_an_event_about_nothing_we_read_is_put_aside_without_a_call(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = proposed(stack, world, sandbox)
    sandbox.clear_requests()
    hint(stack, world, one, "po_1", kind="payout.paid")
    assert inbox.run_once(worker) == {"hints": 1}
    assert (sandbox.requests(), results(stack)) == ([], {"not_about_money_back"})


def test_a_hook_that_says_won_while_the_provider_says_open_changes_nothing(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    dispute = sandbox.open_dispute(one.payment_intent)["id"]
    hint(stack, world, one, dispute, kind="charge.dispute.closed")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1, "moved": 1}
    hint(stack, world, one, dispute, 2, kind="charge.dispute.funds_reinstated", ref="again")
    assert inbox.run_once(worker) == {"hints": 2, "reads": 1}
    assert (state_of(stack, one), submitter.run_once(worker), refunds_at(sandbox, one)) == ("held", {}, 0)
    assert as_administrator(stack, "SELECT status FROM disputes") == [{"status": "needs_response"}]


def test_a_dispute_that_is_not_there_is_put_aside_and_one_that_cannot_be_is_never_asked_for(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    hint(stack, world, one, "dp_nobody", kind="charge.dispute.created")
    assert inbox.run_once(worker) == {"hints": 1, "reads": 1, "no_answer": 1}
    sandbox.clear_requests()
    with pytest.raises(LookFailed, match="no_dispute_ref"):
        worker.gateway.dispute(ACCOUNT, "../refunds")
    assert sandbox.requests() == []


@pytest.mark.parametrize("answer", ["for none of the goods", "for this case"])
def test_finance_answers_for_a_dashboard_refund_although_room_for_the_rest_of_it_was_made_a_moment_ago(
    stack: Stack, world: World, sandbox: Running, worker: Worker, answer: str
) -> None:
    """What a person says moves no money: the console's role may not, and the worker does it seconds later."""
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    made = sandbox.dashboard_refund(one.payment_intent)
    outside.run_once(worker)
    assert balances(stack, one) == (0, 2490, 4980)
    lives.record(stack, claimed, Refused("charge_already_refunded", "refunded elsewhere", 400))
    assert balances(stack, one) == (2490, 0, 4980)
    (case,) = as_administrator(stack, "SELECT number FROM cases")

    with transaction(stack.console, world.merchant_id) as db:
        if answer == "for this case":
            match_to_case(db, world.merchant_id, made["id"], case["number"], world.farah.actor, "told by the till")
        else:
            mark_unrelated(db, world.merchant_id, made["id"], world.farah.actor, "goodwill")

    assert balances(stack, one) == (2490, 0, 4980)
    outside.run_once(worker)
    assert balances(stack, one) == (0, 0, 7470)
    assert state_of(stack, one) == "failed"
