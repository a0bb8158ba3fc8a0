"""The ledger against itself, once a night for each merchant (ledger.self_check). What it finds is said aloud and never mended."""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from sqlalchemy import Engine

from jobs.each_merchant import each_merchant
from jobs.liveness import SELF_CHECK_LOCKS
from jobs.logs import log
from jobs.worker import Counts, Worker
from ledger.database import run, scalar, transaction
from ledger.self_check import ALL_CHECKS, FIRST_KEY, Fault, check_step, raise_alarms

# After the night's run has begun, and before the day's work.
NIGHT_HOUR: Final = 4
# What is kept of the faults; of thousands of one kind the first tell the story.
MOST_KEPT: Final = 1000
_TONIGHT: Final = """
    SELECT (now() AT TIME ZONE m.zone)::date FROM merchants m
    WHERE m.id = :m AND extract(hour FROM now() AT TIME ZONE m.zone) >= :hour
        AND m.created_at < CAST((now() AT TIME ZONE m.zone)::date AS timestamp) AT TIME ZONE m.zone
        AND NOT EXISTS (SELECT 1 FROM self_checks s WHERE s.merchant_id = m.id AND s.night = (now() AT TIME ZONE m.zone)::date)
"""


def walk(engine: Engine, merchant_id: UUID) -> Iterator[tuple[int, list[Fault]]]:
    """Every check over every row of a merchant, step by step, each in a transaction of its own.

    Yields how many checks are over, and what the step found.
    """
    for number, check in enumerate(ALL_CHECKS, 1):
        after: UUID | None = FIRST_KEY
        while after is not None:
            with transaction(engine, merchant_id, read_only=True) as db:
                step = check_step(db, merchant_id, check, after)
            after = step.after
            yield number if after is None else number - 1, step.faults


def run_once(worker: Worker) -> Counts:
    """Checks each merchant whose night it is and that was not checked in it. Counts: checked, faults."""
    return each_merchant(worker, "self_check", _one_merchant)


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with worker.liveness.singleton(merchant_id, SELF_CHECK_LOCKS) as alone:
        if alone:
            _check_tonight(worker, merchant_id, counts)


def _check_tonight(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        night = scalar(db, _TONIGHT, m=merchant_id, hour=NIGHT_HOUR)
    if night is None:
        return
    kept: list[Fault] = []
    found = 0
    for _, faults in walk(worker.engine, merchant_id):
        if worker.stopping.is_set():
            return
        found += len(faults)
        kept += faults[: MOST_KEPT - len(kept)]
    with transaction(worker.engine, merchant_id) as db:
        raise_alarms(db, merchant_id, kept)
        run(
            db, "INSERT INTO self_checks (merchant_id, night, faults) VALUES (:m, :night, :n) ON CONFLICT DO NOTHING",
            m=merchant_id, night=night, n=found,
        )  # fmt: skip
    counts["checked"] += 1
    counts["faults"] += found
    for fault in kept:
        log.error("self_check_fault", merchant=str(merchant_id), kind=fault.kind)
