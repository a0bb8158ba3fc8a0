"""Each test starts from the rows of one checkpoint, lets a worker go on from there, and asks how many refunds exist."""

import time
from collections import Counter
from dataclasses import replace

import pytest

from jobs import reconciler, submitter
from jobs.liveness import Liveness
from jobs.worker import Worker
from ledger.database import transaction
from ledger.outbox import claim_due
from ledger.settlement import NotAccepted, Unknown
from sandbox.client import Running
from tests import lives
from tests.refunds import (
    Proposed,
    alarms,
    approved,
    as_administrator,
    balances,
    creates,
    grow_old,
    make_due,
    refunds_at,
    row_of,
    state_of,
)
from tests.stack import Stack
from tests.world import World


def left_by_dead_worker(stack: Stack, world: World, sandbox: Running, worker: Worker, *, acted: bool) -> Proposed:
    """Claimed by a worker that is gone; with `acted` the provider did what it was asked before that."""
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    if acted:
        worker.gateway.refund(claimed.request, claimed.key)
    return one


def left_unknown(stack: Stack, world: World, sandbox: Running, worker: Worker, *, acted: bool) -> Proposed:
    """Recorded as unknown, a look due."""
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    if acted:
        worker.gateway.refund(claimed.request, claimed.key)
    lives.record(stack, claimed, Unknown("no_answer", "ReadTimeout"))
    return one


def paid_once(stack: Stack, sandbox: Running, one: Proposed) -> None:
    assert state_of(stack, one) == "succeeded"
    assert refunds_at(sandbox, one) == 1
    assert sandbox.money(one.payment_intent)["refunded"] == one.amount_minor
    assert balances(stack, one) == (one.order.total_minor - one.amount_minor, 0, one.amount_minor)


def test_an_approved_refund_is_sent_once(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = approved(stack, world, sandbox)
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert submitter.run_once(worker) == {}
    paid_once(stack, sandbox, one)
    assert [call["idempotency_key"] for call in creates(sandbox)] == [one.key]


def test_nothing_leaves_inside_the_cancel_window(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = approved(stack, world, sandbox, window=30)
    assert submitter.run_once(worker) == {}
    assert (state_of(stack, one), creates(sandbox)) == ("approved", [])


def test_what_a_dead_worker_had_sent_is_adopted(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = left_by_dead_worker(stack, world, sandbox, worker, acted=True)
    assert reconciler.run_once(worker) == {"orphans": 1, "looks": 1, "found": 1}
    paid_once(stack, sandbox, one)
    assert len(creates(sandbox)) == 1


def test_what_a_dead_worker_had_not_sent_is_sent_after_the_window(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = left_by_dead_worker(stack, world, sandbox, worker, acted=False)
    assert reconciler.run_once(worker) == {"orphans": 1, "looks": 1, "absent": 1}
    assert (state_of(stack, one), creates(sandbox)) == ("unknown", [])
    grow_old(stack, one, hours=0.02)
    make_due(stack)
    assert reconciler.run_once(worker) == {"looks": 1, "absent": 1, "resent": 1, "confirmed": 1}
    paid_once(stack, sandbox, one)


def test_a_slow_worker_that_lives_is_not_taken_over(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    with Liveness(stack.worker_url) as slow:
        held_by = slow.worker_id
        with transaction(stack.worker, world.merchant_id) as db:
            (claimed,) = claim_due(db, world.merchant_id, slow.worker_id, lives.verifier(), 1)
        assert (reconciler.run_once(worker), submitter.run_once(worker)) == ({}, {})
        assert state_of(stack, one) == "submitting"
    assert claimed.intent_id == one.intent_id
    server_notices_the_end_of(stack, held_by)
    assert reconciler.run_once(worker) == {"orphans": 1, "looks": 1, "absent": 1}


def server_notices_the_end_of(stack: Stack, worker_id: int) -> None:
    """A closed connection's lock is gone a moment later, on a machine under load."""
    held = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = %s"
    for _ in range(100):
        if not as_administrator(stack, held, worker_id):
            return
        time.sleep(0.05)
    raise AssertionError("the lock of a closed connection stays")


def test_a_worker_that_hangs_past_its_lease_is_taken_over_and_cannot_record_any_more(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    with Liveness(stack.worker_url) as hung:
        with transaction(stack.worker, world.merchant_id) as db:
            (claimed,) = claim_due(db, world.merchant_id, hung.worker_id, lives.verifier(), 1)
        as_administrator(stack, "UPDATE attempts SET lease_until = now()")
        answer = worker.gateway.refund(claimed.request, claimed.key)
        assert reconciler.run_once(worker) == {"orphans": 1, "looks": 1, "found": 1}
        assert not lives.record(stack, claimed, answer)
    paid_once(stack, sandbox, one)


def test_a_call_turned_away_is_sent_again_under_its_key(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    lives.record(stack, claimed, NotAccepted("rate_limit", "", 300, 429))
    assert (submitter.run_once(worker), state_of(stack, one)) == ({}, "submitting")
    make_due(stack)
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    paid_once(stack, sandbox, one)


def test_an_unknown_refund_that_exists_is_adopted(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = left_unknown(stack, world, sandbox, worker, acted=True)
    assert reconciler.run_once(worker) == {"looks": 1, "found": 1}
    paid_once(stack, sandbox, one)
    assert row_of(stack, one)["provider_refund_ref"] == sandbox.money(one.payment_intent)["refunds"][0]["id"]


def test_an_unknown_refund_is_not_sent_again_inside_the_consistency_window(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = left_unknown(stack, world, sandbox, worker, acted=False)
    for _ in range(3):
        assert reconciler.run_once(worker) == {"looks": 1, "absent": 1}
        make_due(stack)
    assert (state_of(stack, one), creates(sandbox)) == ("unknown", [])
    assert balances(stack, one)[1] == one.amount_minor


def test_an_unknown_refund_that_no_list_shows_in_time_is_sent_again_under_its_key(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    """The provider did it, and its list lags behind the window: the key is what keeps it to one refund."""
    sandbox.fault("list_lag", seconds=3600)
    one = left_unknown(stack, world, sandbox, patient, acted=True)
    as_administrator(stack, "UPDATE attempt_results SET at = at - interval '2 seconds'")
    assert reconciler.run_once(patient) == {"looks": 1, "absent": 1, "resent": 1, "confirmed": 1}
    assert [call["outcome"] for call in creates(sandbox)] == ["+list_lag", "replayed"]
    paid_once(stack, sandbox, one)


def test_a_key_past_its_safe_age_is_never_sent_again(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = left_unknown(stack, world, sandbox, patient, acted=False)
    grow_old(stack, one, hours=23)
    assert reconciler.run_once(patient) == {"looks": 1, "absent": 1}
    assert (state_of(stack, one), creates(sandbox)) == ("needs_review", [])
    make_due(stack)
    assert (reconciler.run_once(patient), submitter.run_once(patient)) == ({}, {})
    assert refunds_at(sandbox, one) == 0


def test_an_approval_whose_key_was_never_sent_is_still_good_after_the_safe_age_of_a_key(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """A key ages from its first attempt, which is committed before any call."""
    one = approved(stack, world, sandbox)
    grow_old(stack, one, hours=23)
    submitter.run_once(worker)
    assert (state_of(stack, one), len(creates(sandbox))) == ("succeeded", 1)
    assert (refunds_at(sandbox, one), alarms(stack)) == (1, set())


def test_a_refund_past_the_safe_age_is_still_adopted_when_the_list_shows_it(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = left_unknown(stack, world, sandbox, worker, acted=True)
    grow_old(stack, one, hours=30)
    assert reconciler.run_once(worker) == {"looks": 1, "found": 1}
    paid_once(stack, sandbox, one)


@pytest.mark.parametrize(("shown", "then"), [("succeeded", "succeeded"), ("failed", "failed"), ("canceled", "failed")])
def test_a_pending_refund_settles_as_the_provider_shows(
    stack: Stack, world: World, sandbox: Running, worker: Worker, shown: str, then: str
) -> None:
    sandbox.fault("refund_pending")
    one = approved(stack, world, sandbox)
    submitter.run_once(worker)
    assert state_of(stack, one) == "pending"
    sandbox.change_refund(row_of(stack, one)["provider_refund_ref"], shown)
    assert reconciler.run_once(worker) == {}
    make_due(stack)
    assert reconciler.run_once(worker) == {"looks": 1, "found": 1}
    assert state_of(stack, one) == then
    assert refunds_at(sandbox, one) == 1
    refunded = one.amount_minor if then == "succeeded" else 0
    assert balances(stack, one) == (one.order.total_minor - refunded, 0, refunded)


def test_a_pending_refund_the_provider_no_longer_knows_is_a_persons(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    sandbox.fault("refund_pending")
    one = approved(stack, world, sandbox)
    submitter.run_once(worker)
    as_administrator(stack, "UPDATE intents SET provider_refund_ref = 're_gone'")
    make_due(stack)
    assert reconciler.run_once(worker)["found"] == 1
    assert state_of(stack, one) == "needs_review"
    assert alarms(stack) == {"answer_differs"}
    assert balances(stack, one)[1] == one.amount_minor


def test_a_provider_that_cannot_be_asked_proves_nothing(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = left_unknown(stack, world, sandbox, patient, acted=False)
    grow_old(stack, one, hours=1)
    for fault in ("error_503", "garbage_200", "truncated_body", "lose_reply", "unauthorized", "rate_limit"):
        sandbox.fault(fault)
        assert reconciler.run_once(patient) == {"looks": 1, "no_answer": 1}, fault
        make_due(stack)
    assert (state_of(stack, one), creates(sandbox)) == ("unknown", [])
    assert alarms(stack) == {"look_refused"}


def test_two_refunds_of_one_intent_at_the_provider_are_a_persons(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = left_unknown(stack, world, sandbox, worker, acted=True)
    request = as_administrator(stack, "SELECT request FROM outbox")[0]["request"]
    worker.gateway.refund(request, "a-key-that-is-not-its-own")
    assert reconciler.run_once(worker) == {"looks": 1, "two_refunds": 1}
    assert state_of(stack, one) == "needs_review"
    assert alarms(stack) == {"two_refunds"}


def test_a_refusal_gives_everything_back(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = approved(stack, world, sandbox)
    sandbox.dashboard_refund(one.payment_intent)
    assert submitter.run_once(worker) == {"claimed": 1, "refused": 1}
    row = row_of(stack, one)
    assert (row["state"], row["state_reason"]) == ("failed", "charge_already_refunded")
    assert balances(stack, one) == (one.order.total_minor, 0, 0)
    assert refunds_at(sandbox, one) == 1


def test_a_claim_that_waited_too_long_is_given_back_unsent(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """Sent so late, it could still be under way when its lease ends and another worker takes it over."""
    one = approved(stack, world, sandbox)
    (held,) = submitter.claim(worker, world.merchant_id, Counter())
    late = replace(held, send_until=time.monotonic() - 1)
    assert submitter.send(worker, late) == "not_accepted"
    assert (state_of(stack, one), creates(sandbox)) == ("submitting", [])
    make_due(stack)
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    paid_once(stack, sandbox, one)


def test_a_claim_under_a_lost_lock_is_given_back_unsent(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    (held,) = submitter.claim(worker, world.merchant_id, Counter())
    worker.liveness.connect()
    assert submitter.send(worker, held) == "not_accepted"
    assert (state_of(stack, one), creates(sandbox)) == ("submitting", [])
