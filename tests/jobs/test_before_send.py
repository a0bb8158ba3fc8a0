"""What keeps an approved refund from being sent: a pause, a forged or outdated approval, the daily cap (P6, P11)."""

from typing import LiteralString

import psycopg
import pytest

from jobs import daily_cap, submitter
from jobs.worker import Worker
from ledger.approvals import Seen, approve
from ledger.caps import ask_raise, decide_raise
from ledger.database import transaction
from ledger.seals import Sealer, new_key
from sandbox.client import Running
from tests import lives
from tests.refunds import (
    Proposed,
    alarms,
    approved,
    as_administrator,
    balances,
    creates,
    proposed,
    refunds_at,
    row_of,
    state_of,
    worker_at,
)
from tests.stack import Server, Stack, fresh_stack, without
from tests.world import World, build_world


def held_without_a_call(stack: Stack, sandbox: Running, one: Proposed, reason: str) -> None:
    row = row_of(stack, one)
    assert (row["state"], row["state_reason"]) == ("held", reason)
    assert creates(sandbox) == []
    assert alarms(stack) == {f"not_sent_{reason}"}
    assert balances(stack, one)[1] == one.amount_minor


def test_nothing_is_sent_while_the_merchant_is_paused(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    as_administrator(stack, "UPDATE merchant_brakes SET paused_at = now(), paused_by = 'Jonas Okonjo'")
    assert (submitter.run_once(worker), sandbox.requests()) == ({}, [])
    as_administrator(stack, "UPDATE merchant_brakes SET paused_at = NULL, paused_by = NULL")
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert refunds_at(sandbox, one) == 1


def test_a_pause_holds_from_the_moment_it_is_committed(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """Claimed before the pause committed: sent. Claimed after: not. The claim reads the pause in its own transaction."""
    first = approved(stack, world, sandbox)
    with psycopg.connect(stack.admin_url) as pausing:
        pausing.execute("UPDATE merchant_brakes SET paused_at = now(), paused_by = 'Jonas Okonjo'")
        assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    second = approved(stack, world, sandbox)
    assert submitter.run_once(worker) == {}
    assert (refunds_at(sandbox, first), refunds_at(sandbox, second)) == (1, 0)


def test_a_refused_credential_stops_the_merchant_and_says_so(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one, other = approved(stack, world, sandbox), approved(stack, world, sandbox)
    sandbox.fault("unauthorized", payment_intent=one.payment_intent)
    sandbox.fault("unauthorized", payment_intent=other.payment_intent)
    assert submitter.run_once(worker)["not_accepted"] == 2
    as_administrator(stack, "UPDATE outbox SET due_at = now()")
    assert submitter.run_once(worker) == {}
    assert alarms(stack) == {"submitter_stopped"}
    as_administrator(stack, "UPDATE merchant_brakes SET stopped_at = NULL, stopped_reason = NULL")
    assert submitter.run_once(worker) == {"claimed": 2, "confirmed": 2}
    assert (refunds_at(sandbox, one), refunds_at(sandbox, other)) == (1, 1)


def test_an_approval_written_without_the_key_sends_nothing(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """Every column is right and the key id is known; only the seal was made by somebody who has not the key (S26)."""
    one = proposed(stack, world, sandbox)
    seen = lives.see(stack, world, one.intent_id)
    forger = Sealer.from_text(new_key(lives.sealer().key_id))
    with transaction(stack.console, world.merchant_id) as db:
        approve(db, world.merchant_id, one.intent_id, world.priya.staff_id, seen, forger, cancel_window_seconds=0)
    submitter.run_once(worker)
    held_without_a_call(stack, sandbox, one, "seal")


TAMPERED: list[tuple[str, LiteralString, str]] = [
    ("evidence", "UPDATE evidence SET note = 'looks new' WHERE number = 2", "fingerprint"),
    ("grade", "UPDATE evidence SET grade = 'N' WHERE grade IS NOT NULL", "fingerprint"),
    ("amount", "UPDATE intents SET amount_minor = amount_minor + 1", "fingerprint"),
    ("charge", "UPDATE intents SET charge_ref = 'ch_mine'", "fingerprint"),
    ("request", "UPDATE outbox SET request = jsonb_set(request, '{amount_minor}', '\"7470\"')", "fingerprint"),
    ("key", "UPDATE intents SET provider_key = 'onceback-refund-' || intent_id", "fingerprint"),
    ("approver", "UPDATE approvals SET note = 'approved by phone'", "seal"),
    ("expiry", "UPDATE approvals SET expires_at = expires_at + interval '1 year'", "seal"),
    ("disabled", "UPDATE staff SET disabled_at = now() WHERE name = 'Priya Raman'", "left"),
    ("demoted", "UPDATE memberships SET role = 'reader'", "left"),
    ("blocked", "UPDATE orders SET blocked = true", "blocked"),
]


def test_what_changed_after_the_approval_is_held_and_not_sent(stack: Stack, sandbox: Running) -> None:
    for number, (what, statement, reason) in enumerate(TAMPERED):
        world = build_world(stack, f"quay-{number}")
        one = approved(stack, world, sandbox)
        as_administrator(stack, statement)
        with worker_at(stack, sandbox, world) as worker:
            submitter.run_once(worker)
        row = row_of(stack, one)
        assert (row["state"], row["state_reason"]) == ("held", reason), what
        said = as_administrator(stack, "SELECT kind FROM alarms WHERE intent_id = %s", one.intent_id)
        assert said == [{"kind": f"not_sent_{reason}"}], what
    assert creates(sandbox) == []


def test_without_the_fingerprint_an_edited_amount_would_be_paid(
    stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = approved(stack, world, sandbox)
    as_administrator(stack, "UPDATE intents SET amount_minor = 7470")
    as_administrator(stack, "UPDATE outbox SET request = jsonb_set(request, '{amount_minor}', '\"7470\"')")
    monkeypatch.setattr("ledger.outbox.fault_before_send", lambda *_: "")
    submitter.run_once(worker)
    assert sandbox.money(one.payment_intent)["refunded"] == 7470 > one.amount_minor


def next_business_day(stack: Stack) -> None:
    """Everything the cap counted was counted a day earlier."""
    as_administrator(stack, "UPDATE cap_entries SET business_day = business_day - 1")
    # In two steps: a day would meet the one before it that has not moved yet.
    as_administrator(stack, "UPDATE cap_days SET business_day = business_day - 1000")
    as_administrator(stack, "UPDATE cap_days SET business_day = business_day + 999")


@pytest.fixture
def capped(stack: Stack, sandbox: Running) -> World:
    """A merchant that pays back 30.00 a day."""
    return build_world(stack, "quay", cap_minor={"GBP": 3000})


def test_refunds_over_the_cap_leave_in_order_when_the_next_business_days_open(
    stack: Stack, sandbox: Running, capped: World
) -> None:
    ones = [approved(stack, capped, sandbox) for _ in range(3)]
    with worker_at(stack, sandbox, capped) as worker:
        seen: list[list[str]] = []
        for _ in range(3):
            assert daily_cap.run_once(worker) == ({"released": 1} if seen else {})
            submitter.run_once(worker)
            seen.append([state_of(stack, one) for one in ones])
            next_business_day(stack)
    assert seen == [
        ["succeeded", "held", "held"],
        ["succeeded", "succeeded", "held"],
        ["succeeded", "succeeded", "succeeded"],
    ]
    assert [refunds_at(sandbox, one) for one in ones] == [1, 1, 1]
    assert as_administrator(stack, "SELECT max(used_minor) AS used FROM cap_days")[0]["used"] == 2490


def test_a_smaller_refund_never_overtakes_the_one_held_before_it(stack: Stack, sandbox: Running, capped: World) -> None:
    approved(stack, capped, sandbox)
    large, small = approved(stack, capped, sandbox, 1), approved(stack, capped, sandbox, 1)
    as_administrator(stack, "UPDATE cap_days SET used_minor = 600, limit_minor = 3000")
    as_administrator(stack, "UPDATE intents SET amount_minor = 500 WHERE intent_id = %s", small.intent_id)
    with worker_at(stack, sandbox, capped) as worker:
        assert daily_cap.run_once(worker) == {}
    assert (state_of(stack, large), state_of(stack, small)) == ("held", "held")


def test_a_raise_by_two_managers_releases_what_was_held_and_one_manager_alone_does_not(
    stack: Stack, sandbox: Running, capped: World
) -> None:
    ones = [approved(stack, capped, sandbox) for _ in range(3)]
    with worker_at(stack, sandbox, capped) as worker:
        submitter.run_once(worker)
        with transaction(stack.console, capped.merchant_id) as db:
            asked = ask_raise(db, capped.merchant_id, capped.jonas.staff_id, "GBP", 5000, "a lot came back today")
        assert daily_cap.run_once(worker) == {}
        with transaction(stack.console, capped.merchant_id) as db:
            assert decide_raise(db, capped.merchant_id, asked, capped.mara.staff_id, granted=True)
        assert daily_cap.run_once(worker) == {"released": 1}
        submitter.run_once(worker)
    assert [state_of(stack, one) for one in ones] == ["succeeded", "succeeded", "held"]
    assert sum(refunds_at(sandbox, one) for one in ones) == 2


def test_two_workers_release_no_more_than_fits(stack: Stack, sandbox: Running, capped: World) -> None:
    ones = [approved(stack, capped, sandbox) for _ in range(4)]
    as_administrator(stack, "UPDATE cap_days SET limit_minor = 6000")
    with worker_at(stack, sandbox, capped) as one_worker, worker_at(stack, sandbox, capped) as other:
        raced = lives.race(lambda: daily_cap.run_once(one_worker), lambda: daily_cap.run_once(other))
    assert raced.refusals == []
    assert [state_of(stack, one) for one in ones] == ["approved", "approved", "held", "held"]


def test_without_the_cap_in_the_database_more_than_the_cap_would_leave(server: Server, sandbox: Running) -> None:
    with fresh_stack(server) as stack:
        capped = build_world(stack, "quay", cap_minor={"GBP": 3000})
        without(
            stack,
            "ALTER TABLE cap_days DROP CONSTRAINT used_within_cap",
            "ALTER TABLE cap_entries DISABLE TRIGGER moves_cap",
        )
        ones = [approved(stack, capped, sandbox) for _ in range(2)]
        with worker_at(stack, sandbox, capped) as worker:
            submitter.run_once(worker)
        assert sum(sandbox.money(one.payment_intent)["refunded"] for one in ones) == 4980 > 3000


def test_a_form_with_another_fingerprint_approves_nothing(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = proposed(stack, world, sandbox)
    with pytest.raises(Exception, match="changed while you were reading"):
        lives.approve_as(stack, world, world.priya, one.intent_id, Seen(bytes(32), "k" * 32))
    assert (submitter.run_once(worker), creates(sandbox)) == ({}, [])
