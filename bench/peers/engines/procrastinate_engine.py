"""procrastinate: a synchronous task, run in threads by its worker."""

import asyncio

import psycopg
from common import DATABASE, IN_FLIGHT, count, pay, run
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=DATABASE, max_size=IN_FLIGHT + 4))


@app.task(name="pay_one")
def pay_one(job: str) -> None:
    pay(job)


async def _setup() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def _enqueue(jobs: int) -> None:
    async with app.open_async():
        await pay_one.batch_defer_async(*({"job": f"p{number}"} for number in range(jobs)))


async def _work(wait: bool) -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=IN_FLIGHT, wait=wait)


def _unfinished() -> int:
    with psycopg.connect(DATABASE) as db:
        row = db.execute("SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'").fetchone()
    return int(row[0]) if row else 0


def _empty() -> None:
    with psycopg.connect(DATABASE) as db:
        db.execute("TRUNCATE procrastinate_jobs CASCADE")


run({
    "setup": lambda: asyncio.run(_setup()),
    "enqueue": lambda: asyncio.run(_enqueue(count())),
    "drain": lambda: asyncio.run(_work(wait=False)),
    "serve": lambda: asyncio.run(_work(wait=True)),
    "unfinished": _unfinished,
    "empty": _empty,
})  # fmt: skip
