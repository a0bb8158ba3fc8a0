"""Writes down the answers to calls beside the calls: up to sixteen of one merchant in a commit, or one when only one is there.

A crash loses what was not written yet, which the look-up finds at the provider, and never more than WAITING_MOST of them.
"""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from jobs.busy import BUSY, sqlstate
from jobs.logs import log
from ledger.database import transaction
from ledger.outbox import Claimed
from ledger.recording import Answer, record_outcomes
from ledger.settlement import Outcome, gives_back

RECORD_BATCH: Final = 16
# Calls wait when this many answers are not written down yet.
WAITING_MOST: Final = 64


@dataclass(frozen=True)
class Held:
    """A claim in this process: by which id of the worker, and until when (monotonic seconds) it may still be sent."""

    claimed: Claimed
    worker_id: int
    send_until: float


@dataclass(eq=False)
class _Given:
    """One answer; `counted` once it is written down, or given up."""

    held: Held
    outcome: Outcome
    counted: str = ""
    single: bool = False
    error: SQLAlchemyError | None = None


class Recorder:
    """One thread with a turn for each answer: the first to come takes the others that wait along."""

    def __init__(self, engine: Engine, patiently: Callable[..., Any]) -> None:
        self._engine = engine
        self._patiently = patiently
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="record")
        self._room = threading.BoundedSemaphore(WAITING_MOST)
        self._guard = threading.Lock()
        self._waiting: list[_Given] = []

    def give(self, held: Held, outcome: Outcome) -> Future[str]:
        """Hands an answer over; the future says what it counts as. Waits while too many are not written down yet."""
        self._room.acquire()
        # Its lines, its capture and then the cap day are locked. Another's capture after that day would be a circle with whoever
        # approves, who waits for that day with that capture.
        given = _Given(held, outcome, single=gives_back(outcome))
        with self._guard:
            self._waiting.append(given)
        return self._thread.submit(contextvars.copy_context().run, self._turn, given)

    def close(self) -> None:
        """Returns when all that was given is written down."""
        self._thread.shutdown(wait=True)

    def _turn(self, mine: _Given) -> str:
        try:
            if not mine.counted:
                self._write(mine)
        finally:
            with self._guard:
                self._waiting.remove(mine)
            self._room.release()
        _say(mine)
        return mine.counted

    def _write(self, mine: _Given) -> None:
        batch = self._others_of_its_merchant(mine)
        try:
            recorded = self._patiently(self._in_one_transaction, batch)
        except BUSY as error:
            # The answers are lost here and not at the provider: when their leases end, the look-up finds them.
            for given in batch:
                _give_up(given, error)
        except SQLAlchemyError as error:
            if len(batch) == 1:
                _give_up(mine, error)
            else:
                self._alone(mine)
        else:
            for given, added in zip(batch, recorded, strict=True):
                given.counted = _NAMES[type(given.outcome).__name__] if added else "taken_over"

    def _alone(self, mine: _Given) -> None:
        """One of a batch cannot be written down: each then in its own turn, so that it is the only one left out."""
        with self._guard:
            for given in self._waiting:
                given.single = True
        self._write(mine)

    def _others_of_its_merchant(self, mine: _Given) -> list[_Given]:
        if mine.single:
            return [mine]
        with self._guard:
            merchant_id = mine.held.claimed.merchant_id
            found = [
                given for given in self._waiting
                if given is not mine and not given.counted and not given.single
                and given.held.claimed.merchant_id == merchant_id
            ]  # fmt: skip
        # Its own turn is its last: turns do not come quite in the order in which answers began to wait.
        return [mine, *found[: RECORD_BATCH - 1]]

    def _in_one_transaction(self, batch: list[_Given]) -> list[bool]:
        merchant_id = batch[0].held.claimed.merchant_id
        answers = [
            Answer(given.held.claimed.intent_id, given.held.claimed.attempt_no, given.held.worker_id, given.outcome)
            for given in batch
        ]
        with transaction(self._engine, merchant_id) as db:
            return record_outcomes(db, merchant_id, answers)


_NAMES: Final = {"Confirmed": "confirmed", "Refused": "refused", "NotAccepted": "not_accepted", "Unknown": "unknown"}


def _give_up(given: _Given, error: SQLAlchemyError) -> None:
    given.counted, given.error = "not_recorded", error


def _say(given: _Given) -> None:
    """Within the trace of the answer, whoever wrote it down."""
    claimed, outcome = given.held.claimed, given.outcome
    about = {"intent": str(claimed.intent_id), "key": claimed.key, "attempt": claimed.attempt_no}
    if given.error is not None:
        log.error("not_recorded", **about, error=given.error, code=sqlstate(given.error))
    log.info(
        "sent", merchant=str(claimed.merchant_id), **about, outcome=given.counted, code=getattr(outcome, "code", ""),
        http_status=outcome.http_status, request=outcome.request_ref,
    )  # fmt: skip
