"""Looks of a job that fail: what is said of them, and that none of them holds up what others wait for.

One object that cannot be read holds up no other of its account; and an account that does not answer is let be for the rest of
the run, so that other accounts, of this merchant and of the next, have their turn.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, TypeVar
from uuid import UUID

from sqlalchemy import Connection

from jobs.logs import log
from jobs.stripe_gateway import LookFailed
from jobs.worker import Counts, Worker
from ledger.database import transaction
from ledger.outbox import raise_alarm

R = TypeVar("R")

# One object may fail time after time where all others can be read; an account that failed so often in a row is silent. Each
# failure may take as long as a call does.
IN_A_ROW: Final = 3


class Asking:
    """The looks of one merchant's turn. A door is whatever answers, or fails, as one: an account, or one kind of its objects.

    Counts: no_answer.
    """

    def __init__(self, worker: Worker, merchant_id: UUID, counts: Counts) -> None:
        self._worker = worker
        self._merchant_id = merchant_id
        self._counts = counts
        self._failed: Counter[Hashable] = Counter()

    def ask(self, door: Hashable, look: Callable[[], R]) -> R | LookFailed:
        """What a look shows, or why there is nothing: it failed, or its door is closed and it was not made."""
        if not self.open(door):
            return LookFailed("not_asked")
        try:
            found = look()
        except LookFailed as failure:
            self._fail(door, failure)
            return failure
        # What failed before was not the door.
        del self._failed[door]
        return found

    def open(self, door: Hashable) -> bool:
        """Whether a door is worth asking in this run."""
        return self._failed[door] < IN_A_ROW

    def _fail(self, door: Hashable, failure: LookFailed) -> None:
        """Counts and logs a failed look; a refused credential is an alarm, and closes the door at once."""
        self._counts["no_answer"] += 1
        log.warning("no_answer", merchant=str(self._merchant_id), code=failure.code)
        if failure.refused:
            self._failed[door] = IN_A_ROW
            with transaction(self._worker.engine, self._merchant_id) as db:
                say_refused(db, self._merchant_id, failure)
        elif not failure.of_one:
            self._failed[door] += 1


def say_refused(db: Connection, merchant_id: UUID, failure: LookFailed) -> None:
    """Raises the alarm that the provider does not let us ask, if that is what the failure says."""
    if failure.refused:
        raise_alarm(
            db,
            merchant_id,
            "look_refused",
            None,
            f"The provider cannot be asked: {failure.code}. Check the key of the account",
        )
