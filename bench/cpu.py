"""Processor time of an approval: what else runs on the machine changes it less than how long one takes.

Beside it stands that of the bare shape of one in the same run, for a busy machine makes both dearer.
"""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from bench.figures import APPROVE_SHAPE
from bench.measure import per_second, pgbench
from bench.work import PLANS_AGAIN, Bench

APPROVED = 800
SHAPE_SECONDS = 4


@dataclass(frozen=True)
class Spent:
    """Milliseconds of a processor for each: of the client with all its threads, and of all processes of the server."""

    client: float
    server: float

    def line(self, name: str) -> str:
        """One line of the table."""
        together = self.client + self.server
        return f"  {name:<46} client {self.client:.2f} ms + server {self.server:.2f} ms = {together:.2f} ms"


def print_cpu(bench: Bench) -> None:
    """An approval and the shape of one, by one client and by eight, and how many shapes an approval costs."""
    for clients in (1, 8):
        shape = _spent(bench, partial(_shapes, bench, clients))
        print(shape.line(f"pgbench, the shape of an approval, {clients} at once"), flush=True)
        approval = _approval(bench, clients)
        print(approval.line(f"approvals, {clients} at once"))
        print(
            f"    {(approval.client + approval.server) / (shape.client + shape.server):.2f} times as much", flush=True
        )


def _shapes(bench: Bench, clients: int) -> int:
    return round(pgbench(bench.stack.postgres, bench.url, APPROVE_SHAPE, clients, SHAPE_SECONDS) * SHAPE_SECONDS)


def _approval(bench: Bench, threads: int) -> Spent:
    first = threads * PLANS_AGAIN
    ready = bench.ready(first + APPROVED)

    def approve(numbers: range) -> int:
        per_second(len(numbers), threads, lambda number: bench.approve(ready[numbers[number]], bench.console))
        return len(numbers)

    approve(range(first))
    return _spent(bench, lambda: approve(range(first, first + APPROVED)))


def _spent(bench: Bench, work: Callable[[], int]) -> Spent:
    client, server = _of_client(), _of_server(bench)
    count = work()
    # A connection that is ending is counted again once the server has seen its end.
    time.sleep(0.5)
    return Spent((_of_client() - client) / count * 1000, (_of_server(bench) - server) / count * 1000)


def _of_client() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _of_server(bench: Bench) -> float:
    """Seconds of the server's processes, those that ended with their connection included."""
    postmaster = psutil.Process(int((bench.stack.postgres.data / "postmaster.pid").read_text("utf-8").splitlines()[0]))
    ended = postmaster.cpu_times()
    # The scheduler counts in nanoseconds; the other figures are in hundredths of a second.
    running = [Path(f"/proc/{one.pid}/schedstat").read_text("ascii").split()[0] for one in postmaster.children()]
    return ended.children_user + ended.children_system + sum(map(int, running)) / 1e9
