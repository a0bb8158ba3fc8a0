"""APScheduler 3 with its jobs in PostgreSQL: each job is due at once and runs in a pool of threads."""

import time
from datetime import UTC, datetime

import psycopg
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from common import DATABASE, IN_FLIGHT, count, run


def _scheduler(paused: bool) -> BackgroundScheduler:
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(DATABASE.replace("postgresql://", "postgresql+psycopg://"))},
        executors={"default": ThreadPoolExecutor(IN_FLIGHT)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )
    scheduler.start(paused=paused)
    return scheduler


def _enqueue() -> None:
    scheduler = _scheduler(paused=True)
    for number in range(count()):
        scheduler.add_job("common:pay", "date", args=(f"a{number}",), run_date=datetime.now(UTC))
    scheduler.shutdown()


def _unfinished() -> int:
    with psycopg.connect(DATABASE) as db:
        row = db.execute("SELECT count(*) FROM apscheduler_jobs").fetchone()
    return int(row[0]) if row else 0


def _serve() -> None:
    _scheduler(paused=False)
    while True:
        time.sleep(1)


def _drain() -> None:
    scheduler = _scheduler(paused=False)
    while _unfinished():
        time.sleep(0.05)
    scheduler.shutdown(wait=True)


def _empty() -> None:
    with psycopg.connect(DATABASE) as db:
        db.execute("TRUNCATE apscheduler_jobs")


run({
    "setup": lambda: _scheduler(paused=True).shutdown(),
    "enqueue": _enqueue, "drain": _drain, "serve": _serve, "unfinished": _unfinished, "empty": _empty,
})  # fmt: skip
