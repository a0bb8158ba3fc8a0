"""The loop around the jobs: one table of periodic work, run by APScheduler, or round after round until nothing is due.

Any number of workers may run this; each job is right when two run it at once, and none overlaps itself in one worker.
"""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Final

from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler

from jobs import (
    books,
    by_hand,
    charges,
    daily_cap,
    erasure,
    holds,
    inbox,
    mailer,
    metrics,
    outside,
    overdue,
    reconciler,
    self_check,
    submitter,
    verify_captures,
)
from jobs.logs import log
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.brakes import may_send
from ledger.database import scalar, transaction

# Rounds that count nothing but these got nowhere.
NO_PROGRESS: Final = frozenset(
    ("busy", "failed", "no_answer", "not_alive", "not_standing", "reads", "disputes_unread", "waits", "lost", "differs")
)
PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True)
class Periodic:
    """One line of the table: `run` is called every `seconds`, for this `reason`."""

    name: str
    run: Callable[[Worker], Counts]
    seconds: float
    reason: str


def prove_life(worker: Worker) -> Counts:
    """Asks for this worker's lock and takes a new one if it is gone. Counts: renewed, not_alive."""
    if worker.liveness.alive():
        return Counter()
    return Counter(["renewed" if worker.liveness.renew() else "not_alive"])


PERIODIC: Final = (
    Periodic("liveness", prove_life, 2, "a lost lock stops all sending; the server is asked cheaply"),
    Periodic("submitter", submitter.run_once, 0.5, "an approved refund leaves right after its cancel window"),
    Periodic("reconciler", reconciler.run_once, 1, "what a dead worker left is looked up within about a second"),
    Periodic("inbox", inbox.run_once, 2, "a hint is worth a read within seconds, and many of them the same read"),
    Periodic("by_hand", by_hand.run_once, 2, "what a person paid back by hand shows as paid while they look"),
    Periodic(
        "outside", outside.run_once, 5, "each account's lists have their own times; what waits for room is placed soon"
    ),
    Periodic("charges", charges.run_once, 1, "somebody waits at the counter for what is read of a charge"),
    Periodic("holds", holds.run_once, 60, "an authorisation lapses after days; a minute later it is known"),
    Periodic("daily_cap", daily_cap.run_once, 5, "a raise or a new business day shows at the caps desk at once"),
    Periodic("books", books.run_once, 10, "a run that was asked for begins while the person still looks at the page"),
    Periodic(
        "self_check", self_check.run_once, 300, "once a night for each merchant; asked often, for nights differ by zone"
    ),
    Periodic(
        "erasure", erasure.run_once, 900, "months and days are over within the quarter hour; a request waits no longer"
    ),
    Periodic("verify", verify_captures.run_once, 10, "after a recovery each approval waits for its payment to be read"),
    Periodic(
        "mailer", mailer.run_once, 5, "who was signed in for, or had a factor changed, is told within a minute (S37)"
    ),
    Periodic("overdue", overdue.run_once, 60, "limits are minutes and days; a minute late is soon enough to say so"),
)


class NotQuiet(Exception):
    """Work stays due and nothing moves it."""


def run_job(periodic: Periodic, worker: Worker) -> Counts:
    """One run and, when it counted anything, one line in the log. A database that is away is waited out: counts busy."""
    began = time.monotonic()
    try:
        counts = periodic.run(worker)
    except BUSY as error:
        log.warning("database_away", job=periodic.name, error=error, code=sqlstate(error))
        metrics.ran(periodic.name, Counter(["busy"]), time.monotonic() - began, time.time())
        return Counter(["busy"])
    metrics.ran(periodic.name, counts, time.monotonic() - began, time.time())
    if counts:
        seconds = round(time.monotonic() - began, 3)
        log.info("run", job=periodic.name, counts=dict(counts), seconds=seconds, worker=worker.liveness.worker_id)
    return counts


def run_forever(worker: Worker) -> None:
    """Runs the table until SIGTERM or SIGINT: claims nothing more then, and returns when the calls in flight are recorded."""
    scheduler = BlockingScheduler(timezone="UTC", executors={"default": ThreadPoolExecutor(len(PERIODIC))})
    for periodic in PERIODIC:
        scheduler.add_job(
            run_job, "interval", (periodic, worker), seconds=periodic.seconds, id=periodic.name, max_instances=1,
            coalesce=True, misfire_grace_time=None, next_run_time=datetime.now(UTC),
        )  # fmt: skip
    scheduler.add_listener(_say_failed, EVENT_JOB_ERROR)
    stop_on_signals(worker, lambda: threading.Thread(target=scheduler.shutdown).start())
    log.info("worker_started", worker=worker.liveness.worker_id)
    scheduler.start()
    log.info("worker_stopped", worker=worker.liveness.worker_id)


def stop_on_signals(worker: Worker, then: Callable[[], object]) -> None:
    """On the first SIGTERM or SIGINT stops claiming and calls `then`; later ones change nothing."""

    def stop(number: int, _frame: FrameType | None) -> None:
        if worker.stopping.is_set():
            return
        worker.stopping.set()
        log.info("worker_stopping", signal=signal.Signals(number).name)
        then()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _say_failed(event: JobExecutionEvent) -> None:
    """A run that raised is a mistake of ours: its kind and place are said, never its text, which may hold anything."""
    metrics.raised(event.job_id)
    at = event.exception.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f"{at.tb_frame.f_code.co_qualname}:{at.tb_lineno}" if at is not None else ""
    log.error("run_failed", job=event.job_id, error=event.exception, where=where)


def until_quiet(worker: Worker, horizon_seconds: float) -> Counts:
    """Runs every job round after round until all count nothing and nothing is due within the horizon; returns the sums.

    Raises NotQuiet when nothing moved for as long as the horizon.
    """
    total: Counts = Counter()
    moved_at = time.monotonic()
    while not worker.stopping.is_set():
        round_: Counts = Counter()
        for periodic in PERIODIC:
            round_.update(run_job(periodic, worker))
        total.update(round_)
        if any(name not in NO_PROGRESS for name in round_):
            moved_at = time.monotonic()
            continue
        try:
            wait_seconds = next_due_seconds(worker, horizon_seconds)
        except BUSY:
            round_["busy"] += 1
            wait_seconds = None
        if wait_seconds is None and not round_:
            break
        if time.monotonic() - moved_at > horizon_seconds + PAUSE_SECONDS:
            raise NotQuiet(f"nothing moved for {horizon_seconds:g} s although work is due: {dict(round_)}")
        worker.stopping.wait(max(PAUSE_SECONDS, min(wait_seconds or 0, 1)))
    return total


_NEXT: Final = """
    SELECT least(
        (SELECT min(extract(epoch FROM o.due_at - now())) FROM outbox o
            WHERE o.merchant_id = :m AND o.done_at IS NULL AND o.due_at <= now() + make_interval(secs => :horizon)),
        (SELECT 0 FROM provider_events WHERE merchant_id = :m AND done_at IS NULL LIMIT 1),
        (SELECT min(extract(epoch FROM due_at - now())) FROM charge_readings
            WHERE merchant_id = :m AND done_at IS NULL AND due_at <= now() + make_interval(secs => :horizon)))
"""


def next_due_seconds(worker: Worker, horizon_seconds: float) -> float | None:
    """Seconds until the next thing is due in any merchant that is not paused or stopped; None past the horizon."""
    nearest: list[float] = []
    if worker.switch.on():
        return None
    for merchant_id in worker.merchants():
        with transaction(worker.engine, merchant_id, read_only=True) as db:
            seconds = scalar(db, _NEXT, m=merchant_id, horizon=horizon_seconds) if may_send(db, merchant_id) else None
        if seconds is not None:
            nearest.append(float(seconds))
    return max(min(nearest), 0.0) if nearest else None
