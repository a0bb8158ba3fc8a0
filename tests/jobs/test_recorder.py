"""Answers are written down several to a commit, each as if it were alone; one that cannot be is the only one left out."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from jobs import recorder, submitter
from jobs.worker import Worker
from ledger.recording import Answer, record_outcomes
from ledger.reservation import return_cap
from ledger.settlement import Confirmed, ProviderRefund, Refused, Unknown
from sandbox.client import Running
from tests import lives
from tests.orders import TEE
from tests.refunds import Proposed, approved, paid_order, refunds_at, state_of
from tests.stack import Stack
from tests.world import World


def all_at_once(worker: Worker, world: World) -> list[str]:
    """Claims and calls, and only then lets the recorder begin: all the answers wait for it."""
    go = threading.Event()
    worker.recorder._thread.submit(go.wait)
    held = submitter.claim(worker, world.merchant_id, Counter())
    futures = [submitter.hand_over(worker, one) for one in held]
    go.set()
    return [future.result() for future in futures]


def noted(monkeypatch: pytest.MonkeyPatch, broken: UUID | None = None) -> list[int]:
    """How many answers each commit took; one with `broken` in it is refused by the database."""
    sizes: list[int] = []

    def record(db: Connection, merchant_id: UUID, answers: Sequence[Answer]) -> list[bool]:
        if broken in [answer.intent_id for answer in answers]:
            raise IntegrityError("", None, Exception())
        sizes.append(len(answers))
        return record_outcomes(db, merchant_id, answers)

    monkeypatch.setattr(recorder, "record_outcomes", record)
    return sizes


def six(stack: Stack, world: World, sandbox: Running) -> list[Proposed]:
    return [approved(stack, world, sandbox) for _ in range(6)]


def test_answers_that_wait_are_written_in_one_commit(
    stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = six(stack, world, sandbox)
    sizes = noted(monkeypatch)
    assert (all_at_once(worker, world), sizes) == (["confirmed"] * 6, [6])
    assert [(state_of(stack, one), refunds_at(sandbox, one)) for one in ones] == [("succeeded", 1)] * 6


def test_one_that_cannot_be_written_is_left_to_the_look_and_the_others_are_written_alone(
    stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = six(stack, world, sandbox)
    sizes = noted(monkeypatch, broken=ones[2].intent_id)
    assert (Counter(all_at_once(worker, world)), sizes) == ({"confirmed": 5, "not_recorded": 1}, [1] * 5)
    assert [state_of(stack, one) for one in ones] == ["succeeded"] * 2 + ["submitting"] + ["succeeded"] * 3
    assert [refunds_at(sandbox, one) for one in ones] == [1] * 6


def test_an_answer_that_was_given_is_written_before_the_worker_ends(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    (held,) = submitter.claim(worker, world.merchant_id, Counter())
    given: Any = submitter.hand_over(worker, held)
    worker.close()
    assert (given.done(), given.result(), state_of(stack, one)) == (True, "confirmed", "succeeded")


def test_a_refusal_beside_a_payment_makes_no_circle_with_who_approves(
    stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer gives its sum back to the cap day, the next settles a capture; Priya approves another return of that capture."""
    refused = approved(stack, world, sandbox)
    order = paid_order(stack, world, sandbox)
    paid = approved(stack, world, sandbox, order=order)
    third = lives.propose(stack, world, ((TEE, 1),), order=order, reference="again", relation="separate")["intent_id"]
    seen = lives.see(stack, world, third)
    held = {one.claimed.intent_id: one for one in submitter.claim(worker, world.merchant_id, Counter())}
    day_is_locked = threading.Event()

    def slowly(db: Connection, intent: Any) -> None:
        return_cap(db, intent)
        day_is_locked.set()
        time.sleep(0.5)

    monkeypatch.setattr("ledger.reservation.return_cap", slowly)

    def record() -> list[str]:
        go = threading.Event()
        worker.recorder._thread.submit(go.wait)
        answers = [
            worker.recorder.give(held[refused.intent_id], Refused("charge_disputed", "no", 400)),
            worker.recorder.give(held[paid.intent_id], Confirmed(ProviderRefund(
                "re_1", "succeeded", paid.amount_minor, paid.currency, paid.payment_intent, paid.charge, str(paid.intent_id)
            ))),
        ]  # fmt: skip
        go.set()
        return [answer.result() for answer in answers]

    def approve() -> str:
        assert day_is_locked.wait(5)
        return lives.approve_as(stack, world, world.priya, third, seen).state

    raced = lives.race(record, approve)
    assert (raced.refusals, ["refused", "confirmed"] in raced.results, "approved" in raced.results) == ([], True, True)
    assert [state_of(stack, one) for one in (refused, paid)] == ["failed", "succeeded"]
    assert lives.state(stack, world, third) == "approved"


def test_a_turn_that_comes_before_its_place_writes_its_own_answer(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """Many threads hand over at once: one that waits behind a whole batch may have its turn first."""
    one = approved(stack, world, sandbox)
    (held,) = submitter.claim(worker, world.merchant_id, Counter())
    before = [
        recorder._Given(replace(held, claimed=replace(held.claimed, attempt_no=100 + n)), Unknown("timeout", ""))
        for n in range(recorder.RECORD_BATCH)
    ]
    worker.recorder._waiting += before
    said = worker.recorder.give(held, Unknown("timeout", "no answer came")).result()
    worker.recorder._waiting.clear()
    assert (said, state_of(stack, one)) == ("unknown", "unknown")
