"""pgqueuer: its entry points are coroutines, so the blocking call goes through a thread, as its own message advises."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import asyncpg
from common import DATABASE, IN_FLIGHT, count, pay, run
from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode


async def _with_queries(work: object) -> object:
    async with asyncpg.create_pool(DATABASE, min_size=2) as pool:
        return await work(Queries(AsyncpgPoolDriver(pool)))  # type: ignore[operator]


async def _install(queries: Queries) -> None:
    await queries.install()


async def _fill(queries: Queries) -> None:
    jobs = count()
    await queries.enqueue(["pay"] * jobs, [f"q{number}".encode() for number in range(jobs)], [0] * jobs)


async def _work(mode: QueueExecutionMode) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(IN_FLIGHT))
    async with asyncpg.create_pool(DATABASE, min_size=2) as pool:
        engine = PgQueuer(AsyncpgPoolDriver(pool))

        @engine.entrypoint("pay", concurrency_limit=IN_FLIGHT)
        async def pay_one(job: Job) -> None:
            await asyncio.to_thread(pay, (job.payload or b"").decode())

        await engine.qm.run(mode=mode, batch_size=IN_FLIGHT)


async def _ask(sql: str) -> int:
    async with asyncpg.create_pool(DATABASE, min_size=1) as pool:
        return int(await pool.fetchval(sql) or 0)


run({
    "setup": lambda: asyncio.run(_with_queries(_install)),
    "enqueue": lambda: asyncio.run(_with_queries(_fill)),
    "drain": lambda: asyncio.run(_work(QueueExecutionMode.drain)),
    "serve": lambda: asyncio.run(_work(QueueExecutionMode.continuous)),
    "unfinished": lambda: asyncio.run(_ask("SELECT count(*) FROM pgqueuer")),
    "empty": lambda: asyncio.run(_ask("WITH gone AS (DELETE FROM pgqueuer RETURNING 1) SELECT count(*) FROM gone")),
})  # fmt: skip
