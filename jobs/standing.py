"""Whether this worker may send to the provider at all (S84): is this the database it thinks it is, and as new as it was?

The worker is configured with the deployment and its generation, and keeps a mark outside the database: the last attempt it
was allowed to make, and how far the server's log had come. A database that lacks that attempt, or whose log, server or
timeline is another, is an old backup, a copy or a failover that lost something: nothing is sent until `flask recover`.
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Engine

from jobs.logs import log
from ledger.database import rows, transaction
from ledger.outbox import Claimed, close_alarms, raise_alarm
from ledger.position import Position, attempt_exists, attempted_in_generation, read_position

# How long a look at the database is believed (S84). The brakes and the seals are read at every claim besides.
CHECK_SECONDS: Final = 60
ALARM: Final = "sending_refused"
# Faults as sentences for alarm and log; each ends with what to do in docs/operations.md, "After a backup was restored".
FAULTS: Final = {
    "no_deployment": "the database has no deployment: add a merchant first",
    "other_deployment": "the database is another deployment's than DEPLOYMENT_ID says",
    "other_generation": "the database is of another generation than GENERATION says",
    "other_server": "the database runs on another server than before: a backup or a copy",
    "other_timeline": "the database server went on from an earlier point of time, or another one took over",
    "log_behind": "the database's log is behind what this worker has seen: an older backup was restored",
    "attempt_missing": "the database lacks the last refund this worker sent: an older backup was restored",
    "no_mark": "this host has no mark of a database that has sent refunds before: run `flask jobs begin` on it once",
    "mark_unreadable": "the mark in STATE_DIR cannot be read: restore it, or run `flask jobs begin`",
    "mark_not_kept": "the mark cannot be written to STATE_DIR: make room or rights there",
}


@dataclass(frozen=True)
class Mark:
    """What is kept outside the database. `merchant`, `intent`, `attempt`: the last attempt that was to be sent, or none."""

    deployment_id: str
    generation: int
    system_identifier: str
    timeline: int
    log_position: int
    merchant: str = ""
    intent: str = ""
    attempt: int = 0


class Standing:
    """Guards the sending of one worker process. Several processes of a host share the mark of `state_dir`."""

    def __init__(
        self, engine: Engine, deployment_id: UUID, generation: int, state_dir: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._deployment_id = deployment_id
        self._generation = generation
        self._path = state_dir / f"{deployment_id}.json"
        self._clock = clock
        self._guard = threading.Lock()
        self._checked_at = float("-inf")
        # Nothing is sent before the first look.
        self.fault = "start"

    def good(self) -> bool:
        """Whether sending is allowed, by a look at the database at most CHECK_SECONDS old.

        A look that finds a fault is made again each time, so that sending starts by itself once it is mended.
        """
        with self._guard:
            if not self.fault and self._clock() - self._checked_at < CHECK_SECONDS:
                return True
            before, self.fault = self.fault, self._look()
            self._checked_at = self._clock()
            if self.fault != before or self.fault:
                self._say(before)
            return not self.fault

    def note(self, claimed: Claimed) -> bool:
        """Keeps the mark of an attempt before it is sent; False when it cannot be kept, and the attempt must not be sent."""
        with self._guard:
            try:
                with self._held():
                    mark = self._read()
                    if mark is None or mark.generation != self._generation:
                        return False
                    self._write(replace(
                        mark, merchant=str(claimed.merchant_id), intent=str(claimed.intent_id), attempt=claimed.attempt_no
                    ))  # fmt: skip
            except (OSError, ValueError) as error:
                log.error("mark_not_kept", error=error)
                self.fault = "mark_not_kept"
                return False
        return True

    def begin(self) -> str:
        """Makes this host's mark anew at the database as it stands; the fault that stays, or "". A person decides this."""
        with self._guard:
            position = self._position()
            fault = self._is_other(position)
            if fault or position is None:
                return fault
            with self._held():
                self._write(_mark_of(position))
            return ""

    def _look(self) -> str:
        try:
            # Held before the database is asked: a position read earlier would be behind another process's mark.
            with self._held():
                position = self._position()
                fault = self._is_other(position)
                if fault or position is None:
                    return fault
                mark = self._read()
                if mark is None or mark.generation < self._generation:
                    # A first start, or the first after a recovery: only while nothing of this generation was sent.
                    if any(self._ask_each(attempted_in_generation)):
                        return "no_mark"
                    self._write(_mark_of(position))
                    return ""
                fault = self._is_older(position, mark)
                if not fault:
                    self._write(replace(mark, log_position=position.log_position))
                return fault
        except OSError:
            return "mark_not_kept"
        except ValueError:
            return "mark_unreadable"

    def _position(self) -> Position | None:
        with transaction(self._engine, read_only=True) as db:
            return read_position(db)

    def _is_other(self, position: Position | None) -> str:
        if position is None:
            return "no_deployment"
        if position.deployment_id != self._deployment_id:
            return "other_deployment"
        return "other_generation" if position.generation != self._generation else ""

    def _is_older(self, position: Position, mark: Mark) -> str:
        if mark.generation > position.generation:
            return "other_generation"
        if mark.system_identifier != position.system_identifier:
            return "other_server"
        if mark.timeline != position.timeline:
            return "other_timeline"
        if position.log_position < mark.log_position:
            return "log_behind"
        if not mark.attempt:
            return ""
        merchant, intent = UUID(mark.merchant), UUID(mark.intent)
        with transaction(self._engine, merchant, read_only=True) as db:
            return "" if attempt_exists(db, merchant, intent, mark.attempt) else "attempt_missing"

    def _ask_each(self, ask: Callable[[Any, UUID], bool]) -> Iterator[bool]:
        with transaction(self._engine, read_only=True) as db:
            merchants = [row["id"] for row in rows(db, "SELECT id FROM merchants ORDER BY id")]
        for merchant in merchants:
            with transaction(self._engine, merchant, read_only=True) as db:
                yield ask(db, merchant)

    def _say(self, before: str) -> None:
        """One line in the log at each change, and one open alarm a merchant while nothing may be sent."""
        if self.fault != before:
            if self.fault:
                log.error("sending_refused", code=self.fault)
            else:
                log.info("sending_allowed", reason=before)
        with transaction(self._engine, read_only=True) as db:
            merchants = [row["id"] for row in rows(db, "SELECT id FROM merchants ORDER BY id")]
        for merchant in merchants:
            with transaction(self._engine, merchant) as db:
                if self.fault:
                    raise_alarm(db, merchant, ALARM, None, f"Nothing is sent: {FAULTS[self.fault]}"[:300])
                else:
                    close_alarms(db, merchant, ALARM, "The database is the one it was: sending is allowed.")

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The mark's lock, which ends with the process that holds it."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> Mark | None:
        try:
            return Mark(**json.loads(self._path.read_text(encoding="ascii")))
        except FileNotFoundError:
            return None
        except TypeError as error:
            raise ValueError("no mark") from error

    def _write(self, mark: Mark) -> None:
        """Whole or not at all, and on the disk when this returns: a mark that a power cut forgets is none."""
        unfinished = self._path.with_suffix(".new")
        with unfinished.open("w", encoding="ascii") as file:
            json.dump(asdict(mark), file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)


def _mark_of(position: Position) -> Mark:
    return Mark(
        str(position.deployment_id), position.generation, position.system_identifier, position.timeline,
        position.log_position,
    )  # fmt: skip
