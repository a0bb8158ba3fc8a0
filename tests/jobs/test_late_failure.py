"""A paid refund that comes back: everything it used is given back once, its case is a person's, and only a new approval pays."""

import hashlib
import random
from typing import Any

import pytest

from jobs import inbox, reconciler, submitter
from jobs.worker import Worker
from ledger.assessment import work_out_again
from ledger.database import run, transaction
from ledger.queries.overdue import overdue_cases
from ledger.settlement import CAME_BACK_HOURS
from sandbox.client import Running
from tests import lives
from tests.books import month
from tests.jobs.settling import agree
from tests.jobs.test_settling import asked_again, in_review
from tests.orders import LAMP, TEE, Line
from tests.refunds import (
    Proposed,
    approved,
    as_administrator,
    balances,
    paid_order,
    refunds_at,
    row_of,
    state_of,
    worker_at,
)
from tests.stack import Stack
from tests.world import World


def hints(stack: Stack, world: World, one: Proposed, *kinds: str) -> None:
    """Hooks about the payment, in the order given."""
    with transaction(stack.console, world.merchant_id) as db:
        for kind in kinds:
            run(
                db, "INSERT INTO provider_events (merchant_id, event_ref, kind, object_ref, payment_intent_ref, created_at,"
                " body_digest) VALUES (:m, :e, :kind, :o, :payment, now(), :digest)", m=world.merchant_id,
                e=f"evt_{random.getrandbits(64):x}", kind=kind, o=row_of(stack, one)["provider_refund_ref"],
                payment=one.payment_intent, digest=hashlib.sha256(b"x").digest(),
            )  # fmt: skip


def paid(stack: Stack, world: World, sandbox: Running, worker: Worker, units: int = 1, **changes: Any) -> Proposed:
    one = approved(stack, world, sandbox, units, **changes)
    submitter.run_once(worker)
    assert state_of(stack, one) == "succeeded"
    return one


def case_of(stack: Stack, one: Proposed) -> dict[str, Any]:
    return as_administrator(
        stack, "SELECT stage, closed_at IS NULL AS open, extract(epoch FROM due_at - now()) / 3600 AS due_hours FROM cases"
        " WHERE case_id = %s", one.case_id,
    )[0]  # fmt: skip


def cap_days(stack: Stack) -> dict[Any, int]:
    return {row["business_day"]: row["used_minor"] for row in as_administrator(stack, "SELECT * FROM cap_days")}


def journal(stack: Stack, one: Proposed) -> list[str]:
    """Every entry of the journals that the intent has, sorted."""
    tables = ("transfers", "line_claims", "cap_entries")
    return sorted(
        f"{table} {row['step']}"
        for table in tables
        for row in as_administrator(stack, f"SELECT step FROM {table} WHERE intent_id = %s", one.intent_id)  # noqa: S608
    )


BACK = sorted([
    "transfers reserve", "transfers settle", "transfers reverse", "line_claims claim", "line_claims release",
    "cap_entries reserve", "cap_entries return",
])  # fmt: skip


@pytest.mark.parametrize(
    ("status", "reason"), [("failed", "expired_or_canceled_card"), ("canceled", "merchant_request")]
)
def test_what_came_back_is_given_back_once_however_often_and_in_whatever_order_it_is_told(
    stack: Stack, world: World, sandbox: Running, worker: Worker, status: str, reason: str
) -> None:
    one = paid(stack, world, sandbox, worker)
    (day,) = cap_days(stack)
    assert cap_days(stack) == {day: one.amount_minor}
    # The money was counted on an earlier day, and goes back to that one.
    as_administrator(stack, "UPDATE cap_entries SET business_day = business_day - 3")
    as_administrator(stack, "UPDATE cap_days SET business_day = business_day - 3")
    sandbox.change_refund(row_of(stack, one)["provider_refund_ref"], status, reason)
    hints(
        stack, world, one, "refund.failed", "refund.updated", "refund.created", "charge.refund.updated", "refund.failed"
    )
    assert inbox.run_once(worker)["moved"] == 1
    for kinds in (("refund.created",), ("refund.failed", "refund.updated"), ("charge.refunded",)):
        hints(stack, world, one, *kinds)
        assert "moved" not in inbox.run_once(worker)
    assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("reversed", reason)
    assert journal(stack, one) == BACK
    assert balances(stack, one) == (one.order.total_minor, 0, 0)
    assert list(cap_days(stack).values()) == [0]
    assert sandbox.money(one.payment_intent)["refunded"] == 0
    assert refunds_at(sandbox, one) == 1


def test_the_case_is_a_persons_again_with_a_time_and_a_desk(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = paid(stack, world, sandbox, worker)
    as_administrator(stack, "UPDATE cases SET due_at = now() - interval '20 days'")
    sandbox.change_refund(row_of(stack, one)["provider_refund_ref"], "failed")
    hints(stack, world, one, "refund.failed")
    inbox.run_once(worker)
    case = case_of(stack, one)
    assert (case["stage"], case["open"]) == ("came_back", True)
    assert CAME_BACK_HOURS - 1 < case["due_hours"] <= CAME_BACK_HOURS
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        assert overdue_cases(db, world.merchant_id) == []
    as_administrator(stack, "UPDATE cases SET due_at = due_at - interval '25 hours'")
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        (late,) = overdue_cases(db, world.merchant_id)
    assert (late.case_id, late.state, late.owner) == (one.case_id, "came_back", "returns desk")
    assert refunds_at(sandbox, one) == 1


def test_it_is_paid_again_only_by_a_persons_click_and_a_new_approval_linked_to_the_old(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """Nothing about the evidence has changed: the same is owed, and by itself nothing is proposed, approved or sent."""
    one = paid(stack, world, sandbox, worker)
    sandbox.change_refund(row_of(stack, one)["provider_refund_ref"], "failed")
    hints(stack, world, one, "refund.failed")
    inbox.run_once(worker)
    assert (submitter.run_once(worker), len(lives.intents(stack, world, one.case_id))) == ({}, 1)
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, one.case_id, world.tobias.actor)
    (_, again) = lives.intents(stack, world, one.case_id)
    assert (again["state"], again["replaces"], again["amount_minor"]) == ("proposed", one.intent_id, one.amount_minor)
    assert again["provider_key"] != one.key
    assert submitter.run_once(worker) == {}
    lives.approve_as(stack, world, world.priya, again["intent_id"])
    submitter.run_once(worker)
    assert lives.state(stack, world, again["intent_id"]) == "succeeded"
    assert balances(stack, one) == (one.order.total_minor - one.amount_minor, 0, one.amount_minor)
    assert sandbox.money(one.payment_intent)["refunded"] == one.amount_minor
    assert list(cap_days(stack).values()) == [one.amount_minor]


def test_a_part_that_came_back_leaves_the_other_parts_paid(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """One unit of three came back; the two of another case stay paid, and the one is owed again."""
    order = paid_order(stack, world, sandbox)
    one = paid(stack, world, sandbox, worker, 1, order=order)
    rest = lives.propose(stack, world, ((TEE, 2),), order=order, relation="separate", reference="the rest")
    lives.approve_as(stack, world, world.priya, rest["intent_id"])
    submitter.run_once(worker)
    sandbox.change_refund(row_of(stack, one)["provider_refund_ref"], "failed")
    hints(stack, world, one, "refund.failed")
    inbox.run_once(worker)
    assert (state_of(stack, one), lives.state(stack, world, rest["intent_id"])) == ("reversed", "succeeded")
    assert balances(stack, one) == (one.amount_minor, 0, rest["amount_minor"])
    assert sandbox.money(one.payment_intent)["refunded"] == rest["amount_minor"]


def test_a_case_that_meanwhile_has_a_second_refund_keeps_it_and_still_shows_what_came_back(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """The lamp came in late and is proposed; then the shirt's refund comes back. The lamp's is neither lost nor doubled."""
    order = paid_order(stack, world, sandbox, lines=(Line(TEE, 1, 2490), Line(LAMP, 1, 5800)))
    opened = lives.open_case(stack, world, ((TEE, 1), (LAMP, 1)), order_ref=order.external_ref, reference="two")
    lives.arrive(stack, world, opened.case_id, (TEE, 1))
    shirt = lives.intents(stack, world, opened.case_id)[0]
    lives.approve_as(stack, world, world.priya, shirt["intent_id"])
    submitter.run_once(worker)
    lives.arrive(stack, world, opened.case_id, (LAMP, 1))
    one = Proposed(opened.case_id, shirt["intent_id"], shirt["payment_intent_ref"], shirt["charge_ref"],
                   shirt["amount_minor"], "GBP", shirt["provider_key"], order)  # fmt: skip
    lamp = lives.intents(stack, world, opened.case_id)[-1]
    assert (lamp["state"], lamp["amount_minor"]) == ("proposed", 5800)
    sandbox.change_refund(row_of(stack, one)["provider_refund_ref"], "failed")
    hints(stack, world, one, "refund.failed")
    inbox.run_once(worker)
    assert (state_of(stack, one), case_of(stack, one)["stage"]) == ("reversed", "came_back")
    lives.approve_as(stack, world, world.priya, lives.intents(stack, world, opened.case_id)[-1]["intent_id"])
    submitter.run_once(worker)
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, opened.case_id, world.tobias.actor)
    for row in lives.intents(stack, world, opened.case_id):
        if row["state"] == "proposed":
            lives.approve_as(stack, world, world.mara, row["intent_id"])
    submitter.run_once(worker)
    paid_for = [
        row["amount_minor"] for row in lives.intents(stack, world, opened.case_id) if row["state"] == "succeeded"
    ]
    assert sorted(paid_for) == [2490, 5800]
    assert balances(stack, one) == (0, 0, order.total_minor)
    assert sandbox.money(one.payment_intent)["refunded"] == order.total_minor


def test_without_any_hook_the_nightly_run_of_the_books_notices_it(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    made = month(stack, sandbox, world, worker, refunds=2)
    back, stays = made.paid
    sandbox.change_refund(made.ref(back), "failed", "lost_or_stolen_card")
    made.run()
    assert (state_of(stack, back), row_of(stack, back)["state_reason"]) == ("reversed", "lost_or_stolen_card")
    assert case_of(stack, back)["stage"] == "came_back"
    assert (state_of(stack, stays), refunds_at(sandbox, back), refunds_at(sandbox, stays)) == ("succeeded", 1, 1)
    assert balances(stack, back) == (back.order.total_minor, 0, 0)


def test_a_refund_whose_mark_was_taken_off_is_ours_by_its_reference_also_when_it_comes_back(
    stack: Stack, world: World, sandbox: Running
) -> None:
    """Two people said that it is this one; a hook then neither books it as made elsewhere, nor overlooks its end."""
    with worker_at(stack, sandbox, world, consistency_seconds=0) as worker:
        one = in_review(stack, world, sandbox, worker, acted=False)
        by_hand = sandbox.dashboard_refund(one.payment_intent, one.amount_minor)["id"]
        asked_again(stack, world, worker, one)
        agree(stack, world, one, f"succeeded:{by_hand}")
        reconciler.run_once(worker)
        assert state_of(stack, one) == "succeeded"
        hints(stack, world, one, "refund.updated")
        inbox.run_once(worker)
        assert as_administrator(stack, "SELECT 1 FROM external_refunds") == []
        assert balances(stack, one) == (one.order.total_minor - one.amount_minor, 0, one.amount_minor)
        sandbox.change_refund(by_hand, "failed")
        hints(stack, world, one, "refund.failed")
        inbox.run_once(worker)
        assert state_of(stack, one) == "reversed"
        assert balances(stack, one) == (one.order.total_minor, 0, 0)
        assert (sandbox.money(one.payment_intent)["refunded"], refunds_at(sandbox, one)) == (0, 1)


@pytest.mark.parametrize("elsewhere", ["refund", "dispute"])
def test_a_refusal_that_shows_somebody_acted_elsewhere_has_the_payment_read_again_at_once(
    stack: Stack, world: World, sandbox: Running, worker: Worker, elsewhere: str
) -> None:
    """No hook ever comes; the hint is the worker's own."""
    one = approved(stack, world, sandbox, 3)
    if elsewhere == "refund":
        sandbox.dashboard_refund(one.payment_intent)
        submitter.run_once(worker)
        assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("failed", "charge_already_refunded")
        assert inbox.run_once(worker)["hints"] == 1
        assert len(as_administrator(stack, "SELECT 1 FROM external_refunds")) == 1
        assert balances(stack, one) == (0, 0, one.order.total_minor)
    else:
        sandbox.open_dispute(one.payment_intent)
        submitter.run_once(worker)
        inbox.run_once(worker)
        assert len(as_administrator(stack, "SELECT 1 FROM disputes")) == 1
        assert state_of(stack, one) in ("held", "failed")
    ours = [
        refund for refund in sandbox.money(one.payment_intent)["refunds"] if "onceback_intent" in refund["metadata"]
    ]
    assert ours == []
