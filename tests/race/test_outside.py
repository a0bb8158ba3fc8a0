"""Somebody acts at the provider in the very moment in which somebody acts here: real connections, released together."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, RowMapping

from ledger import approvals, external_refunds
from ledger.database import first, rows, transaction
from ledger.dispute_holds import HOLDS
from ledger.disputes import ProviderDispute, record_dispute
from ledger.errors import Stale
from ledger.events import append, lock_case_of_intent
from ledger.external_refunds import place_waiting, placeable, record_external
from ledger.settlement import Confirmed, ProviderRefund, Refused
from tests import lives
from tests.stack import Stack, without
from tests.world import World


def capture(stack: Stack, world: World) -> dict[str, object]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return dict(rows(db, "SELECT * FROM captures WHERE merchant_id = :m AND order_id = :o", m=world.merchant_id,
                         o=world.order.order_id)[0])  # fmt: skip


def find(stack: Stack, world: World, minor: int, seen_by: str = "hook") -> str:
    """What a worker records of a dashboard refund of `minor`."""
    paid = capture(stack, world)
    refund = ProviderRefund(
        "re_dashboard", "succeeded", minor, str(paid["currency"]), str(paid["payment_intent_ref"]),
        str(paid["charge_ref"]), "",
    )  # fmt: skip
    account = paid["provider_account_id"]
    assert isinstance(account, UUID)
    with transaction(stack.worker, world.merchant_id) as db:
        return record_external(db, world.merchant_id, account, refund, seen_by, lives.verifier())


def dispute(stack: Stack, world: World, status: str = "warning_needs_response") -> str:
    paid = capture(stack, world)
    account = paid["provider_account_id"]
    assert isinstance(account, UUID)
    minor = int(str(paid["captured_minor"]))
    found = ProviderDispute(
        "dp_bank", status, minor, str(paid["currency"]), str(paid["charge_ref"]), str(paid["payment_intent_ref"]),
        "fraudulent", datetime(2026, 11, 30, tzinfo=UTC), None,
    )  # fmt: skip
    with transaction(stack.worker, world.merchant_id) as db:
        return record_dispute(db, world.merchant_id, account, found, "poll")


@pytest.mark.parametrize("turn", range(4))
def test_a_dashboard_refund_found_while_a_reviewer_approves(stack: Stack, world: World, turn: int) -> None:
    """All of the payment left outside: whoever is first, nothing of it stays approved and nothing is counted twice."""
    intent = lives.propose(stack, world)
    seen = lives.see(stack, world, intent["intent_id"])
    whole = int(str(capture(stack, world)["captured_minor"]))
    calls = [lambda: find(stack, world, whole),
             lambda: lives.approve_as(stack, world, world.priya, intent["intent_id"], seen)]  # fmt: skip
    raced = lives.race(*(calls if turn % 2 else calls[::-1]))
    assert all(isinstance(refusal, Stale) for refusal in raced.refusals)
    assert "new" in raced.results
    assert lives.state(stack, world, intent["intent_id"]) == "withdrawn"
    paid = capture(stack, world)
    assert (paid["available_minor"], paid["reserved_minor"], paid["refunded_minor"]) == (0, 0, whole)


def test_control_without_the_room_that_waiting_refunds_make_the_payment_is_promised_twice(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.outside_places._make_room", lambda *_: {})
    intent = lives.propose(stack, world)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    whole = int(str(capture(stack, world)["captured_minor"]))
    assert find(stack, world, whole) == "new"
    assert lives.state(stack, world, intent["intent_id"]) == "approved"
    assert len(lives.claim(stack, world)) == 1


@pytest.mark.parametrize("turn", range(4))
def test_a_dispute_found_while_the_submitter_claims_is_sent_or_held_never_both(
    stack: Stack, world: World, turn: int
) -> None:
    intent = lives.propose(stack, world)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    calls = [lambda: dispute(stack, world), lambda: lives.claim(stack, world)]
    raced = lives.race(*(calls if turn % 2 else calls[::-1]))
    assert raced.refusals == []
    claimed = next(result for result in raced.results if result != "new")
    assert lives.state(stack, world, intent["intent_id"]) == ("submitting" if claimed else "held")
    assert lives.claim(stack, world) == []


def test_control_without_the_check_before_the_call_a_disputed_charge_is_claimed(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispute is known before the approval, so only the check in the claiming transaction stands in the way."""
    intent = lives.propose(stack, world)
    dispute(stack, world)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    assert lives.claim(stack, world) == []
    assert lives.state(stack, world, intent["intent_id"]) == "held"
    monkeypatch.setattr("ledger.approvals._APPROVALS", approvals._APPROVALS.replace(HOLDS, "false"))
    with transaction(stack.worker, world.merchant_id) as db:
        case = lock_case_of_intent(db, world.merchant_id, intent["intent_id"])
        append(db, case, "intent.released", "system", intent_id=intent["intent_id"], move=("held", "approved"))
    without(stack, "UPDATE outbox SET due_at = now()")
    with pytest.raises(Exception, match="nothing is sent on a disputed charge"):
        lives.claim(stack, world)
    without(stack, "ALTER TABLE events DISABLE TRIGGER not_while_disputed")
    assert len(lives.claim(stack, world)) == 1


@pytest.mark.parametrize("turn", range(4))
def test_a_hook_and_the_list_that_find_the_same_refund_at_once_write_one_row_and_one_move(
    stack: Stack, world: World, turn: int
) -> None:
    del turn
    raced = lives.race(*(lambda by=by: find(stack, world, 700, by) for by in ("hook", "poll", "hook", "poll")))
    assert (raced.refusals, Counter(raced.results)) == ([], Counter(new=1, known=3))
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        moves = rows(db, "SELECT step, amount_minor FROM transfers WHERE merchant_id = :m", m=world.merchant_id)
    assert [dict(move) for move in moves] == [{"step": "external", "amount_minor": 700}]
    assert capture(stack, world)["refunded_minor"] == 700


def test_what_cannot_be_touched_leaves_the_rest_unplaced_said_aloud_and_placed_when_it_may(
    stack: Stack, world: World
) -> None:
    """The claimed refund may have left: the outside refund takes what is there, and the rest when the answer is known."""
    intent = lives.propose(stack, world)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    (claimed,) = lives.claim(stack, world)
    whole = int(str(capture(stack, world)["captured_minor"]))
    assert find(stack, world, whole) == "new"
    paid = capture(stack, world)
    assert (paid["available_minor"], paid["reserved_minor"]) == (0, intent["amount_minor"])
    with transaction(stack.worker, world.merchant_id) as db:
        found = rows(db, "SELECT amount_minor - placed_minor AS left FROM external_refunds")
        said = rows(db, "SELECT kind FROM alarms")
    assert ([row["left"] for row in found], [row["kind"] for row in said]) == (
        [intent["amount_minor"]],
        ["outside_unplaced"],
    )
    assert lives.record(stack, claimed, Refused("charge_already_refunded", "nothing left", 400))
    with transaction(stack.worker, world.merchant_id) as db:
        ((account, charge),) = placeable(db, world.merchant_id, 10)
        place_waiting(db, world.merchant_id, account, charge)
        assert placeable(db, world.merchant_id, 10) == []
    paid = capture(stack, world)
    assert (paid["available_minor"], paid["reserved_minor"], paid["refunded_minor"]) == (0, 0, whole)
    with transaction(stack.worker, world.merchant_id) as db:
        steps = rows(db, "SELECT step, part, amount_minor FROM transfers WHERE step = 'external' ORDER BY part")
    assert [row["part"] for row in steps] == [1, 2]


def test_a_refund_adopted_between_the_two_reads_of_whose_it_is_stays_ours_and_stops_nobody(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook asks by reference, the sender writes the answer down, and then the hook asks by the intent."""
    intent = lives.propose(stack, world)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    (claimed,) = lives.claim(stack, world)
    asked = claimed.request
    marks = asked["metadata"]
    refund = ProviderRefund(
        "re_of_ours", "succeeded", int(asked["amount_minor"]), asked["currency"], asked["payment_intent"], asked["charge"],
        marks["onceback_intent"], deployment_id=marks["onceback_deployment"], merchant_id=marks["onceback_merchant"],
    )  # fmt: skip

    def read_and_let_the_sender_in(db: Connection, sql: str, /, **values: Any) -> RowMapping | None:
        found = first(db, sql, **values)
        if sql == external_refunds._BY_REFERENCE:
            assert found is None
            assert lives.record(stack, claimed, Confirmed(refund))
        return found

    monkeypatch.setattr("ledger.external_refunds.first", read_and_let_the_sender_in)
    account = capture(stack, world)["provider_account_id"]
    assert isinstance(account, UUID)
    with transaction(stack.worker, world.merchant_id) as db:
        assert record_external(db, world.merchant_id, account, refund, "hook", lives.verifier()) == "ours"
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        assert rows(db, "SELECT kind FROM alarms") == []
        assert rows(db, "SELECT 1 FROM merchant_brakes WHERE stopped_at IS NOT NULL") == []
