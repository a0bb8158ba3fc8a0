"""Two workers claim in the same instant: what one read before the other's commit is not sent a second time (P10)."""

import threading

import pytest

from ledger import outbox
from ledger.database import rows, transaction
from ledger.outbox import Claimed, claim_due
from ledger.settlement import NotAccepted
from tests import lives
from tests.jobs.processes import wait_until
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World


def claim_between_reading_and_locking(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Claimed], list[Claimed]]:
    """One worker's statement rests between its snapshot and its first lock; another claims and commits meanwhile."""
    usual = outbox._DUE
    slow = usual.replace("o.done_at IS NULL", "(SELECT pg_sleep(1.5)) IS NOT NULL AND o.done_at IS NULL", 1)
    assert slow != usual
    late: list[Claimed] = []

    def read_early() -> None:
        with transaction(stack.worker, world.merchant_id) as db:
            late.extend(claim_due(db, world.merchant_id, lives.WORKER + 1, lives.verifier(), 16))

    monkeypatch.setattr(outbox, "_DUE", slow)
    thread = threading.Thread(target=read_early)
    thread.start()
    rests = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
    wait_until(lambda: as_administrator(stack, rests), "the first worker's statement at rest")
    monkeypatch.setattr(outbox, "_DUE", usual)
    first = lives.claim(stack, world)
    thread.join()
    return first, late


def attempts(stack: Stack, world: World) -> list[int]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [row["attempt_no"] for row in rows(db, "SELECT attempt_no FROM attempts ORDER BY attempt_no")]


def test_an_approved_refund_that_another_worker_just_claimed_is_left_to_it(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives.approve_as(stack, world, world.priya, lives.propose(stack, world)["intent_id"])
    first, late = claim_between_reading_and_locking(stack, world, monkeypatch)
    assert ([one.attempt_no for one in first], late) == ([1], [])
    assert attempts(stack, world) == [1]


def test_a_refund_that_was_turned_away_is_tried_again_by_one_of_two(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives.approve_as(stack, world, world.priya, lives.propose(stack, world)["intent_id"])
    (turned_away,) = lives.claim(stack, world)
    assert lives.record(stack, turned_away, NotAccepted("rate_limit", "", 0, 429))
    first, late = claim_between_reading_and_locking(stack, world, monkeypatch)
    assert ([one.attempt_no for one in first], late) == ([2], [])
    assert attempts(stack, world) == [1, 2]
