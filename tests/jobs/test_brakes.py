"""S88: a pause in the database and the switch outside it, before the claim, between claim and call, and in every job."""

from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from jobs import daily_cap, reconciler, submitter
from jobs.switch import Switch
from jobs.worker import Worker
from ledger import brakes
from ledger.database import transaction
from ledger.events import append, lock_case_of_intent
from ledger.intents import cancel_before_send
from sandbox.client import Running
from tests import lives
from tests.refunds import (
    approved,
    as_administrator,
    balances,
    creates,
    grow_old,
    make_due,
    refunds_at,
    row_of,
    state_of,
    worker_at,
)
from tests.stack import Stack
from tests.world import World, build_world


def pause(stack: Stack, world: World, brake: str = "pause") -> None:
    with transaction(stack.console, world.merchant_id) as db:
        brakes.pull(db, world.merchant_id, brake, "A look at the till", staff_id=world.priya.staff_id)


@pytest.fixture
def switch(worker: Worker, tmp_path: Path) -> Path:
    """The file that stops this worker; not there yet."""
    worker.switch = Switch(tmp_path / "stop-sending")
    return tmp_path / "stop-sending"


@pytest.mark.parametrize("brake", ["pause", "all"])
def test_a_pause_stops_sending_and_two_people_start_it_again(
    stack: Stack, world: World, sandbox: Running, worker: Worker, brake: str
) -> None:
    one = approved(stack, world, sandbox)
    pause(stack, world, brake)
    assert (submitter.run_once(worker), refunds_at(sandbox, one)) == ({}, 0)
    lives.start_again(stack, world, brake)
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)


@pytest.mark.parametrize("which", ["database", "file"])
def test_a_brake_between_claim_and_call_gives_the_claim_back(
    stack: Stack, world: World, sandbox: Running, worker: Worker, switch: Path, which: str
) -> None:
    one = approved(stack, world, sandbox)
    (held,) = submitter.claim(worker, world.merchant_id, Counter())
    if which == "file":
        switch.touch()
    else:
        pause(stack, world)
    assert submitter.send(worker, held) == "not_accepted"
    said = as_administrator(stack, "SELECT outcome, code FROM attempt_results")
    assert said == [{"outcome": "not_accepted", "code": "paused"}]
    assert balances(stack, one)[1] == one.amount_minor
    make_due(stack)
    assert (submitter.run_once(worker), creates(sandbox)) == ({}, [])
    if which == "file":
        switch.unlink()
    else:
        lives.start_again(stack, world)
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)


def test_without_the_look_before_the_call_a_claimed_refund_leaves_after_the_pause(
    stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = approved(stack, world, sandbox)
    (held,) = submitter.claim(worker, world.merchant_id, Counter())
    pause(stack, world)
    monkeypatch.setattr(worker, "braked", lambda _: False)
    assert submitter.send(worker, held) == "confirmed"
    assert refunds_at(sandbox, one) == 1


def test_the_file_stops_claims_releases_and_repeats_whatever_the_database_says(
    stack: Stack, world: World, sandbox: Running, worker: Worker, switch: Path
) -> None:
    one = approved(stack, world, sandbox)
    switch.touch()
    assert (submitter.run_once(worker), daily_cap.run_once(worker)) == ({}, {})
    assert state_of(stack, one) == "approved"
    switch.unlink()
    sandbox.fault("lose_before", payment_intent=one.payment_intent)
    assert submitter.run_once(worker)["unknown"] == 1
    switch.touch()
    grow_old(stack, one, 0.1)
    make_due(stack)
    reconciler.run_once(worker)
    assert refunds_at(sandbox, one) == 0
    switch.unlink()
    for _ in range(3):
        make_due(stack)
        reconciler.run_once(worker)
        submitter.run_once(worker)
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)


def test_a_switch_that_cannot_be_looked_at_is_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert Switch(tmp_path / "file" / "below").on()
    assert not Switch(tmp_path / "nothing").on()
    assert not Switch(None).on()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert Switch(tmp_path / "link").on()


def test_a_paused_merchant_repeats_nothing_and_releases_nothing(stack: Stack, sandbox: Running) -> None:
    world = build_world(stack, "quay", cap_minor={"GBP": 3000})
    first, held = approved(stack, world, sandbox), approved(stack, world, sandbox)
    sandbox.fault("lose_before", payment_intent=first.payment_intent)
    with worker_at(stack, sandbox, world, consistency_seconds=0) as worker:
        assert submitter.run_once(worker)["unknown"] == 1
        pause(stack, world)
        grow_old(stack, first, 0.1)
        as_administrator(stack, "UPDATE cap_days SET limit_minor = 10000")
        make_due(stack)
        assert daily_cap.run_once(worker) == {}
        assert "resent" not in reconciler.run_once(worker)
        assert (row_of(stack, held)["state_reason"], refunds_at(sandbox, first)) == ("cap", 0)
        lives.start_again(stack, world)
        make_due(stack)
        assert daily_cap.run_once(worker) == {"released": 1}
        assert reconciler.run_once(worker)["resent"] == 1
        submitter.run_once(worker)
    assert (refunds_at(sandbox, first), refunds_at(sandbox, held)) == (1, 1)


def test_in_shadow_mode_all_is_checked_recorded_and_held_and_nothing_is_sent(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    sent, one, forged = (
        approved(stack, world, sandbox),
        approved(stack, world, sandbox),
        approved(stack, world, sandbox),
    )
    sandbox.fault("lose_before", payment_intent=sent.payment_intent)
    as_administrator(stack, "UPDATE outbox SET due_at = 'infinity' WHERE intent_id <> %s", sent.intent_id)
    assert submitter.run_once(worker) == {"claimed": 1, "unknown": 1}
    as_administrator(stack, "UPDATE outbox SET due_at = now()")
    as_administrator(stack, "UPDATE approvals SET note = 'edited' WHERE intent_id = %s", forged.intent_id)
    pause(stack, world, "shadow")
    grow_old(stack, sent, 0.1)
    make_due(stack)
    calls = len(sandbox.requests(method="POST"))
    assert submitter.run_once(worker) == {}
    assert "resent" not in reconciler.run_once(worker)
    assert len(sandbox.requests(method="POST")) == calls
    held = [(row_of(stack, each)["state"], row_of(stack, each)["state_reason"]) for each in (one, forged)]
    assert held == [("held", "shadow"), ("held", "seal")]
    kept = as_administrator(stack, "SELECT n.intent_id, n.amount_minor, n.request_digest = o.request_digest AS same"
                            " FROM shadow_sends n JOIN outbox o USING (merchant_id, intent_id)")  # fmt: skip
    assert kept == [{"intent_id": one.intent_id, "amount_minor": one.amount_minor, "same": True}]
    assert balances(stack, one)[1] == one.amount_minor
    lives.start_again(stack, world, "shadow")
    make_due(stack)
    for _ in range(2):
        daily_cap.run_once(worker)
        submitter.run_once(worker)
    assert (state_of(stack, one), refunds_at(sandbox, one), refunds_at(sandbox, forged)) == ("held", 0, 0)
    reconciler.run_once(worker)
    assert refunds_at(sandbox, sent) == 1


def test_no_event_lets_go_what_shadow_mode_kept(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = approved(stack, world, sandbox)
    pause(stack, world, "shadow")
    submitter.run_once(worker)
    lives.start_again(stack, world, "shadow")
    with transaction(stack.worker, world.merchant_id) as db:
        case = lock_case_of_intent(db, world.merchant_id, one.intent_id)
        with pytest.raises(DBAPIError, match="only by a new approval"):
            append(db, case, "intent.released", "system", intent_id=one.intent_id, move=("held", "approved"))
        db.rollback()
    with transaction(stack.console, world.merchant_id) as db:
        cancel_before_send(db, world.merchant_id, one.intent_id, world.priya.actor, "not_yet")
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("withdrawn", 0)
