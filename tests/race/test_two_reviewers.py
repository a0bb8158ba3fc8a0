"""Two reviewers at once on one refund, on two real connections: one decision, one key, one reservation; both learn it (P6).

The control is the same race without the guard, and there the refund is decided and reserved twice.
"""

import re
import threading
from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger import approvals, events
from ledger.database import Later, run_later
from ledger.errors import AlreadyDecided
from tests import lives
from tests.stack import Stack, without
from tests.world import World, add_order, build_world

ROUNDS = 200


def figures(stack: Stack, world: World) -> Counter[str]:
    """How many approvals, outbox rows, reservations and provider keys there are."""
    return Counter(
        {
            table: lives.count(stack.console, world, f"SELECT count(*) FROM {table} WHERE merchant_id = :m")  # noqa: S608
            for table in ("approvals", "outbox", "transfers", "cap_entries", "intents")
        }
        | {
            "keys": lives.count(
                stack.console, world, "SELECT count(DISTINCT provider_key) FROM intents WHERE merchant_id = :m"
            )
        }
    )


def test_two_reviewers_released_together_make_one_decision_in_200_rounds(stack: Stack) -> None:
    world = build_world(stack, cap_minor={"GBP": 10_000_000})
    for number in range(ROUNDS):
        raced = approve_both(stack, world, order=add_order(stack, world, f"R-{number}"), reference=f"chat-{number}")
        assert len(raced.results) == 1, (number, raced.refusals)
        (refused,) = raced.refusals
        assert isinstance(refused, AlreadyDecided), (number, refused)
        assert refused.facts["approval"]["approval_id"] == raced.results[0].approval_id
    assert figures(stack, world) == Counter(
        dict.fromkeys(("approvals", "outbox", "transfers", "cap_entries", "intents", "keys"), ROUNDS)
    )


def test_one_reviewer_pressing_twice_makes_one_decision(stack: Stack) -> None:
    world = build_world(stack)
    intent = lives.propose(stack, world)["intent_id"]
    seen = lives.see(stack, world, intent)
    raced = lives.race(*[lambda: lives.approve_as(stack, world, world.priya, intent, seen)] * 4)
    assert len(raced.results) == 1
    assert {type(refusal) for refusal in raced.refusals} == {AlreadyDecided}
    assert figures(stack, world)["approvals"] == figures(stack, world)["transfers"] == 1


def let_both_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code's own guard off: no row is locked, and neither goes on before both have seen a proposal."""
    sql = events._LOCK_OF_INTENT.replace("FOR NO KEY UPDATE", "")
    met = threading.Barrier(2)

    def look(db: Connection, merchant_id: UUID, intent_id: UUID) -> Later:
        return run_later(db, sql, merchant_id=merchant_id, intent_id=intent_id)

    def wait_for_the_other(intent: RowMapping, staff_id: UUID, role: str | None) -> None:
        allowed(intent, staff_id, role)
        met.wait(timeout=10)

    allowed = approvals.check_may_approve
    monkeypatch.setattr(approvals, "lock_payee_later", lambda *_: None)
    monkeypatch.setattr(approvals, "lock_case_of_intent_later", look)
    monkeypatch.setattr(approvals, "_LOCK_INTENT_FOR", approvals._LOCK_INTENT_FOR.replace("FOR NO KEY UPDATE OF i", ""))
    monkeypatch.setattr(approvals, "check_may_approve", wait_for_the_other)


def approve_both(stack: Stack, world: World, **changes: Any) -> lives.Raced:
    """Priya and Tobias, released together on one new refund that both have on their screens."""
    intent = lives.propose(stack, world, **changes)["intent_id"]
    one, other = lives.see(stack, world, intent), lives.see(stack, world, intent)
    return lives.race(
        lambda: lives.approve_as(stack, world, world.priya, intent, one),
        lambda: lives.approve_as(stack, world, world.tobias, intent, other),
    )


def test_without_the_locks_of_the_code_the_database_still_keeps_one(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_both_look(monkeypatch)
    raced = approve_both(stack, world)
    assert len(raced.results) == 1
    assert [type(refusal) for refusal in raced.refusals] == [IntegrityError]
    # Which of the two guards is met depends on whether the first has committed when the second comes.
    assert re.search("approved_once_per_seat|only a proposed intent is approved", str(raced.refusals[0]))
    assert figures(stack, world)["approvals"] == figures(stack, world)["transfers"] == 1


def test_without_the_guards_of_the_database_either_it_is_approved_and_reserved_twice(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(
        stack,
        "ALTER TABLE approvals DROP CONSTRAINT approved_once_per_seat",
        "ALTER TABLE approvals DISABLE TRIGGER counts_for_its_person",
        "ALTER TABLE approvals DISABLE TRIGGER of_what_stands",
        "ALTER TABLE events DISABLE TRIGGER USER",
        "ALTER TABLE events DROP CONSTRAINT events_pkey",
        "ALTER TABLE transfers DROP CONSTRAINT one_transfer_per_step",
        "ALTER TABLE outbox DROP CONSTRAINT outbox_pkey CASCADE",
        "ALTER TABLE cap_entries DISABLE TRIGGER USER",
        "ALTER TABLE cap_entries DROP CONSTRAINT cap_entries_pkey",
    )
    let_both_look(monkeypatch)
    raced = approve_both(stack, world)
    assert len(raced.results) == 2, raced.refusals
    found = figures(stack, world)
    assert found["approvals"] == found["outbox"] == found["transfers"] == 2
    assert lives.count(stack.console, world, "SELECT reserved_minor FROM captures WHERE merchant_id = :m") == 2 * 2490
