"""S84–S87: after an old backup was restored nothing is paid twice, and what was paid meanwhile is in the books again."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jobs import submitter, verify_captures
from jobs.recover import recover
from jobs.worker import Worker
from ledger.errors import AlreadyRefunded, LedgerError, MoreThanLeft, WrongState
from ledger.recovered_units import read_units
from sandbox.client import Running
from tests import lives
from tests.orders import TEE, Line
from tests.refunds import (
    Proposed,
    alarms,
    approved,
    as_administrator,
    balances,
    creates,
    make_due,
    paid_order,
    proposed,
    refunds_at,
    row_of,
    state_of,
    worker_at,
)
from tests.restores import back_up, forget, restore
from tests.stack import Stack
from tests.world import World


def run_recover(
    stack: Stack, sandbox: Running, world: World, *more: str, engineers: tuple[str, str] = ("Ute", "Ravi")
) -> Result:
    environment = {
        "ENVIRONMENT": "test", "DATABASE_URL": stack.owner_url, "PROVIDER_BASE_URL": sandbox.base_url,
        "PROVIDER_KEYS": json.dumps({world.slug: sandbox.secret_key}), "SEAL_KEY": None,
    }  # fmt: skip
    return CliRunner().invoke(recover, ["--engineers", *engineers, *more], env=environment)


def send(stack: Stack, sandbox: Running, world: World) -> None:
    with worker_at(stack, sandbox, world) as worker:
        submitter.run_once(worker)


def lets_everybody_in(stack: Stack) -> None:
    """What the engineers do by command after a recovery, and the two people who start again."""
    as_administrator(stack, "UPDATE staff SET disabled_at = NULL")
    as_administrator(stack, "UPDATE api_tokens SET revoked_at = NULL")
    as_administrator(stack, "UPDATE merchant_brakes SET paused_at = NULL, paused_by = NULL, paused_reason = NULL")


def ask_again(stack: Stack, world: World, one: Proposed, units: int) -> LedgerError:
    with pytest.raises(LedgerError) as refused:
        lives.open_case(stack, world, ((TEE, units),), order_ref=one.order.external_ref, reference="chat-again")
    return refused.value


def test_a_unit_refunded_after_the_backup_is_refused_again_with_what_was_paid(
    stack: Stack, world: World, sandbox: Running
) -> None:
    """Its case, evidence, intent and approval are all of after the backup: the provider's metadata is all there is."""
    order = paid_order(stack, world, sandbox)
    backup = back_up(stack)
    lost = approved(stack, world, sandbox, 2, order=order)
    send(stack, sandbox, world)
    ref = row_of(stack, lost)["provider_refund_ref"]
    restore(stack, backup)
    assert as_administrator(stack, "SELECT 1 FROM cases") == []

    done = run_recover(stack, sandbox, world)

    assert (done.exit_code, done.exception) == (0, None), done.output
    assert "harbour: 1 rebuilt" in done.output
    assert done.output.strip().endswith("GENERATION=2")
    assert balances(stack, lost) == (order.total_minor - lost.amount_minor, 0, lost.amount_minor)
    (case,) = as_administrator(stack, "SELECT * FROM cases")
    assert (case["case_id"], case["channel"], case["stage"]) == (lost.case_id, "recovered", "paid")
    assert case["closed_at"] is not None
    lets_everybody_in(stack)
    refused = ask_again(stack, world, lost, 3)
    assert [one["provider_refund_ref"] for one in refused.facts["refunds"]] == [ref]
    assert (type(refused), refused.facts["lines"][0]["left"]) == (MoreThanLeft, 1)
    separate = ((TEE, 1),)
    lives.open_case(stack, world, separate, order_ref=order.external_ref, reference="chat-third", relation="separate")
    assert isinstance(ask_again(stack, world, lost, 3), MoreThanLeft)
    assert refunds_at(sandbox, lost) == 1
    assert run_recover(stack, sandbox, world).output.count("rebuilt") == 0
    forget(backup)


def test_a_whole_line_refunded_after_the_backup_is_already_refunded(
    stack: Stack, world: World, sandbox: Running
) -> None:
    """Its case was in the backup, and its refund only proposed there: the lost approval is never made up."""
    lost = proposed(stack, world, sandbox, 3)
    backup = back_up(stack)
    lives.approve_as(stack, world, world.priya, lost.intent_id)
    send(stack, sandbox, world)
    assert state_of(stack, lost) == "succeeded"
    restore(stack, backup)
    assert state_of(stack, lost) == "proposed"

    done = run_recover(stack, sandbox, world)

    assert "harbour: 1 rebuilt" in done.output
    assert state_of(stack, lost) == "withdrawn"
    assert balances(stack, lost) == (0, 0, lost.amount_minor)
    lets_everybody_in(stack)
    refused = ask_again(stack, world, lost, 1)
    assert isinstance(refused, AlreadyRefunded)
    assert refused.facts["refunds"][0]["amount_minor"] == lost.amount_minor
    assert refunds_at(sandbox, lost) == 1
    forget(backup)


def test_what_was_approved_in_the_backup_and_paid_after_it_is_adopted_and_the_rest_is_held(
    stack: Stack, world: World, sandbox: Running
) -> None:
    send(stack, sandbox, world)
    under_way = approved(stack, world, sandbox)
    lives.claim(stack, world)
    paid = [approved(stack, world, sandbox) for _ in range(3)]
    waiting = approved(stack, world, sandbox, window=3000)
    backup = back_up(stack)
    send(stack, sandbox, world)
    assert [state_of(stack, one) for one in paid] == ["succeeded"] * 3
    restore(stack, backup)
    calls = len(creates(sandbox))

    done = run_recover(stack, sandbox, world)

    assert done.exit_code == 0, done.output
    assert "harbour: 3 adopted" in done.output
    assert "harbour: 1 held, 1 given to a person" in done.output
    assert [state_of(stack, one) for one in paid] == ["succeeded"] * 3
    assert [refunds_at(sandbox, one) for one in paid] == [1, 1, 1]
    assert (state_of(stack, waiting), row_of(stack, waiting)["state_reason"]) == ("held", "recovery")
    assert state_of(stack, under_way) == "needs_review"
    assert len(creates(sandbox)) == calls

    # Even when everything is let go on, a voided approval sends nothing.
    lets_everybody_in(stack)
    as_administrator(stack, "UPDATE intents SET state = 'approved' WHERE intent_id = %s", waiting.intent_id)
    as_administrator(stack, "UPDATE outbox SET due_at = now() WHERE intent_id = %s", waiting.intent_id)
    send(stack, sandbox, world)
    assert (state_of(stack, waiting), refunds_at(sandbox, waiting)) == ("held", 0)
    assert "not_sent_generation" in alarms(stack)
    forget(backup)


def test_everything_of_before_is_powerless_and_paused(stack: Stack, world: World, sandbox: Running) -> None:
    approved(stack, world, sandbox)
    as_administrator(
        stack, "INSERT INTO sessions (session_hash, staff_id, user_agent_hash, address) VALUES (sha256('s'), %s, 'x', '127.0.0.1')",
        world.priya.staff_id,
    )  # fmt: skip
    (numbers,) = as_administrator(stack, "SELECT last_value FROM case_number")
    done = run_recover(stack, sandbox, world, "--backup-at", "2026-11-30T02:00")
    assert done.exit_code == 0, done.output
    for left in ("sessions WHERE ended_at IS NULL", "staff WHERE disabled_at IS NULL", "api_tokens WHERE revoked_at IS NULL",
                 "merchant_brakes WHERE paused_at IS NULL"):  # fmt: skip
        assert as_administrator(stack, f"SELECT 1 FROM {left}") == [], left  # noqa: S608
    assert len(as_administrator(stack, "SELECT 1 FROM void_approvals")) == 1
    (later,) = as_administrator(stack, "SELECT last_value FROM case_number")
    assert later["last_value"] >= numbers["last_value"] + 100_000
    (row,) = as_administrator(stack, "SELECT * FROM recoveries")
    assert (row["generation"], row["first_engineer"], row["second_engineer"]) == (2, "Ute", "Ravi")
    assert row["backup_at"] == datetime(2026, 11, 30, 2, tzinfo=UTC)
    assert row["finished_at"] - row["started_at"] < timedelta(minutes=5)


def test_nothing_is_approved_before_its_payment_was_read_again(stack: Stack, world: World, sandbox: Running) -> None:
    one = proposed(stack, world, sandbox)
    assert run_recover(stack, sandbox, world).exit_code == 0
    lets_everybody_in(stack)

    with pytest.raises(WrongState, match="is read again at the provider first"):
        lives.approve_as(stack, world, world.priya, one.intent_id)

    as_administrator(stack, "UPDATE alarms SET closed_at = now()")
    with worker_at(stack, sandbox, world) as worker:
        assert verify_captures.run_once(worker)["verified"] >= 1
        assert verify_captures.run_once(worker)["verified"] == 0
        lives.approve_as(stack, world, world.priya, one.intent_id)
        assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert refunds_at(sandbox, one) == 1


def test_reading_again_finds_what_was_made_outside_and_what_the_recovery_missed(
    stack: Stack, world: World, sandbox: Running
) -> None:
    one = proposed(stack, world, sandbox, 1)
    missed = paid_order(stack, world, sandbox)
    backup = back_up(stack)
    lost = approved(stack, world, sandbox, order=missed)
    send(stack, sandbox, world)
    sandbox.dashboard_refund(one.payment_intent, 700)
    restore(stack, backup)
    assert run_recover(stack, sandbox, world).exit_code == 0
    # As if the recovery had not seen it: the reading is the net under it.
    for table in (
        "recovered_refunds",
        "external_allocations",
        "external_refund_states",
        "external_refunds",
        "case_items",
    ):
        as_administrator(stack, f"DELETE FROM {table} WHERE true")  # noqa: S608
    lets_everybody_in(stack)

    with worker_at(stack, sandbox, world) as worker:
        counts = verify_captures.run_once(worker)

    assert counts["lost"] == 1
    assert "refund_lost" in alarms(stack)
    outside = as_administrator(stack, "SELECT kind, amount_minor FROM external_refunds")
    assert [(row["kind"], row["amount_minor"]) for row in outside] == [("outside", 700)]
    (capture,) = as_administrator(stack, "SELECT verified_generation FROM captures WHERE charge_ref = %s", lost.charge)
    assert capture["verified_generation"] == 1
    assert refunds_at(sandbox, lost) == 1
    forget(backup)


def test_an_order_that_is_not_here_and_a_list_of_units_that_is_too_long_are_for_people(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    worker.close()
    many = tuple(Line(f"LINE-{number:03d}-{'x' * 20}", 1, 100) for number in range(30))
    long = paid_order(stack, world, sandbox, lines=many)
    backup = back_up(stack)
    digest = _approved_whole(stack, world, sandbox, long, many)
    absent = approved(stack, world, sandbox)
    send(stack, sandbox, world)
    assert (state_of(stack, digest), state_of(stack, absent)) == ("succeeded", "succeeded")
    restore(stack, backup)

    done = run_recover(stack, sandbox, world)

    assert done.exit_code == 0, done.output
    assert "2 by hand" in done.output
    assert "a digest of it" in done.output
    assert "its order is not here" in done.output
    assert balances(stack, digest)[2] == digest.amount_minor
    assert "recovered_by_hand" in alarms(stack)
    assert (refunds_at(sandbox, digest), refunds_at(sandbox, absent)) == (1, 1)
    forget(backup)


def _approved_whole(stack: Stack, world: World, sandbox: Running, order: Any, lines: tuple[Line, ...]) -> Proposed:
    row = lives.propose(stack, world, tuple((line.ref, 1) for line in lines), order=order, reference="chat-long")
    lives.approve_as(stack, world, world.mara, row["intent_id"])
    return Proposed(
        row["case_id"], row["intent_id"], row["payment_intent_ref"], row["charge_ref"], row["amount_minor"], row["currency"],
        row["provider_key"], order,
    )  # fmt: skip


def test_a_recovery_needs_two_engineers_no_worker_and_the_owner(stack: Stack, world: World, sandbox: Running) -> None:
    alone = run_recover(stack, sandbox, world, engineers=("Ute", "ute "))
    assert (alone.exit_code, "name two people" in alone.output) == (1, True)
    with worker_at(stack, sandbox, world):
        busy = run_recover(stack, sandbox, world)
        assert (busy.exit_code, "stop every worker first" in busy.output) == (1, True)
    other = CliRunner().invoke(
        recover, ["--engineers", "Ute", "Ravi"],
        env={"ENVIRONMENT": "test", "DATABASE_URL": stack.worker_url, "PROVIDER_KEYS": '{"harbour": "sk_test_x"}',
             "SEAL_KEY": None},
    )  # fmt: skip
    assert (other.exit_code, "This runs as onceback_owner" in other.output) == (1, True)
    assert as_administrator(stack, "SELECT generation FROM deployment") == [{"generation": 1}]


def test_a_recovery_that_the_provider_did_not_answer_goes_on_when_it_is_run_again(
    stack: Stack, world: World, sandbox: Running
) -> None:
    order = paid_order(stack, world, sandbox)
    backup = back_up(stack)
    lost = approved(stack, world, sandbox, order=order)
    send(stack, sandbox, world)
    restore(stack, backup)
    sandbox.fault("error_503", path="/v1/refunds")
    stopped = run_recover(stack, sandbox, world)
    assert (stopped.exit_code, "Run this again" in stopped.output) == (1, True)
    assert as_administrator(stack, "SELECT 1 FROM recoveries WHERE finished_at IS NOT NULL") == []
    with worker_at(stack, sandbox, world) as worker:
        assert verify_captures.run_once(worker) == {}
    again = run_recover(stack, sandbox, world, engineers=("Noor", "Sam"))
    assert (again.exit_code, "Going on with generation 2" in again.output) == (0, True), again.output
    assert balances(stack, lost)[2] == lost.amount_minor
    make_due(stack)
    assert refunds_at(sandbox, lost) == 1
    forget(backup)


@pytest.mark.parametrize(
    ("text", "units"),
    [("1[0,2)", [("1", 0, 2)]), ("a;b[c][0,1);2[3,9)", [("a;b[c]", 0, 1), ("2", 3, 9)]), ("sha256:00ff", None), ("", None),
     ("1[2,2)", None), ("1[0,1) and more", None)],
)  # fmt: skip
def test_units_are_read_back_as_they_were_written(text: str, units: list[tuple[str, int, int]] | None) -> None:
    assert read_units(text) == units
