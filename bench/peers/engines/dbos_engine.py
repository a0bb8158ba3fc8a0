"""DBOS: a workflow of one step on a queue, in one executor with its default identity."""

import os
import time

import psycopg
from common import DATABASE, IN_FLIGHT, count, pay, run
from dbos import DBOS, DBOSClient, DBOSConfig

config: DBOSConfig = {
    "name": "peer",
    "system_database_url": DATABASE,
    "application_version": "bench",
    "log_level": "ERROR",
    # Two workers of one application need names of their own; with the default name each recovers the other's work.
    **({"executor_id": os.environ["PEER_WORKER"]} if "PEER_WORKER" in os.environ else {}),
}
DBOS(config=config)


@DBOS.step()
def pay_step(job: str) -> None:
    pay(job)


@DBOS.workflow()
def pay_one(job: str) -> None:
    pay_step(job)


def _launch() -> None:
    DBOS.launch()
    # Its default looks once a second and takes no more than runs at once: sixteen a second, whatever a job costs.
    DBOS.register_queue("pay", worker_concurrency=IN_FLIGHT, polling_interval_sec=0.02)


def _enqueue() -> None:
    client = DBOSClient(system_database_url=DATABASE)
    where = {"queue_name": "pay", "workflow_name": "pay_one", "app_version": "bench", "application_name": "peer"}
    for number in range(count()):
        client.enqueue(where, f"d{number}")
    client.destroy()


def _unfinished() -> int:
    with psycopg.connect(DATABASE) as db:
        row = db.execute("SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'").fetchone()
    return int(row[0]) if row else 0


def _drain() -> None:
    _launch()
    while _unfinished():
        time.sleep(0.05)


def _serve() -> None:
    _launch()
    while True:
        time.sleep(1)


def _setup() -> None:
    _launch()
    DBOS.destroy()


def _empty() -> None:
    with psycopg.connect(DATABASE) as db:
        db.execute("TRUNCATE dbos.workflow_status CASCADE")


run(
    {"setup": _setup, "enqueue": _enqueue, "drain": _drain, "serve": _serve, "unfinished": _unfinished, "empty": _empty}
)
os._exit(0)
