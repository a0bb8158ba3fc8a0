"""F4, F5, F7 and F18: our outbox asked what job engines are asked, on the same server, at the same provider.

The engines do one bare POST for each job; ours claims, verifies, sends and settles a refund. The provider forgets keys, so
a call that is made twice pays twice, whoever makes it.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from bench.measure import RUNS, Result
from bench.peers.run import ENGINES, TAKEOVER_SECONDS, UNFINISHED_SECONDS, Killed, prepared, until
from bench.work import CALLS_IN_FLIGHT, Bench, Drained
from ledger.database import scalar, transaction

JOBS: Final = 1000
KILLED_JOBS: Final = 2000
# The double's lists show a refund at once, so absence is proven after this long and not after the provider's minute.
CONSISTENCY: Final = "5"
Drains = dict[str, list[Drained]]


def f4(bench: Bench) -> list[Result]:
    """A drain with full settlement beside bare POSTs, and what a refund costs the worker's processor."""
    found = _drains(bench, 0)
    ours = found["ours"]
    marks = {"procrastinate": 1.2, "pgqueuer": 1.0, "dbos": 3.0}
    return [
        _beside(f"F4 outbox drain, one worker, beside {engine}", ours, found[engine], marks[engine]) for engine in ENGINES
    ] + [_processor(ours, found["procrastinate"])]  # fmt: skip


def f5(bench: Bench) -> list[Result]:
    """The same at a provider that takes 20 ms, beside the best of the engines."""
    found = _drains(bench, 20)
    best = max(ENGINES, key=lambda engine: _rate(found[engine]))
    return [_beside(f"F5 outbox drain at 20 ms beside the best, {best}", found["ours"], found[best], 1.2)]


def _drains(bench: Bench, delay_ms: float) -> Drains:
    """One warm-up and RUNS runs of each in turn."""
    peers = [prepared(bench.stack.postgres, bench.double, engine) for engine in ENGINES]
    found: Drains = {name: [] for name in ("ours", *ENGINES)}
    for _ in range(RUNS + 1):
        found["ours"].append(bench.drain(JOBS, delay_ms))
        for peer in peers:
            drained = peer.drain(JOBS, delay_ms)
            found[peer.name].append(Drained(drained.rate, drained.cpu_ms))
    return {name: runs[1:] for name, runs in found.items()}


def _rate(runs: list[Drained]) -> float:
    return statistics.median(run.rate for run in runs)


def _beside(name: str, ours: list[Drained], theirs: list[Drained], mark: float) -> Result:
    rates, others = tuple(run.rate for run in ours), tuple(run.rate for run in theirs)
    return Result(name, _rate(ours), "/s", "one bare POST for each job", _rate(theirs), mark, rates, others)


def _processor(ours: list[Drained], theirs: list[Drained]) -> Result:
    mine, others = tuple(run.cpu_ms for run in ours), tuple(run.cpu_ms for run in theirs)
    return Result(
        "F4 processor time of the worker for each refund", statistics.median(mine), "ms", "procrastinate, for each job",
        statistics.median(others), 0.9, mine, others, at_most=True,
    )  # fmt: skip


def f7(bench: Bench) -> list[Result]:
    """How soon another worker takes up what a killed one had under way, and that it leaves a slow one alone."""
    ours = [_takeover_seconds(bench) for _ in range(RUNS)]
    results = []
    best = float(TAKEOVER_SECONDS)
    for engine in ENGINES:
        taken = prepared(bench.stack.postgres, bench.double, engine).takeover_seconds()
        told = f"{engine}, with its defaults" + ("" if taken is not None else f" (never in {TAKEOVER_SECONDS} s)")
        best = min(best, taken or TAKEOVER_SECONDS)
        results.append(
            _seconds(f"F7 takeover after kill -9, beside {engine}", ours, told, taken or TAKEOVER_SECONDS, None)
        )
    results.append(_seconds("F7 takeover after kill -9, beside the best", ours, "the best of them", best, 0.1))
    results.append(
        _none("F7 calls repeated while a slow worker is healthy", _calls_too_many(bench, CALLS_IN_FLIGHT, 12_000))
    )
    return results


def _seconds(name: str, ours: list[float], against: str, other: float, mark: float | None) -> Result:
    return Result(name, statistics.median(ours), "s", against, other, mark, tuple(ours), (other,), at_most=True)


def _none(name: str, found: int, against: str = "none may be") -> Result:
    """A count that has to be 0: its ratio is to one."""
    return Result(name, found, "", against, 1, 0, (found,), at_most=True)


def f18(bench: Bench) -> list[Result]:
    """A worker killed halfway through a drain and started again; and a second worker starting beside a healthy one."""
    results = _told("ours", _killed_in_mid_drain(bench, KILLED_JOBS), 0)
    results.append(_none("F18 extra calls when a second worker starts", _calls_too_many(bench, 64, 500)))
    for engine in (*ENGINES, "apscheduler"):
        peer = prepared(bench.stack.postgres, bench.double, engine)
        results += _told(engine, peer.killed_in_mid_drain(KILLED_JOBS), None)
        results.append(_count(f"F18 {engine}: extra calls when a second worker starts", peer.calls_too_many(64)))
    return results


def _told(who: str, killed: Killed, mark: float | None) -> list[Result]:
    named = (
        ("paid twice", killed.paid_twice), ("never paid", killed.never_paid),
        (f"unfinished after {UNFINISHED_SECONDS} s", killed.unfinished),
    )  # fmt: skip
    return [
        (_count if mark is None else _none)(f"F18 {who}: {what}, of {KILLED_JOBS:,} after kill -9", number)
        for what, number in named
    ]


def _count(name: str, found: int) -> Result:
    return Result(name, found, "", "one", 1, None, (found,))


def _ready(bench: Bench, count: int, delay_ms: float) -> None:
    """Nothing due but `count` approved refunds, at a provider that answers `delay_ms` late."""
    bench.drain(1, 0)
    bench.double.forget(delay_ms)
    for one in bench.ready(count):
        bench.approve(one, bench.console)


@contextmanager
def _workers(bench: Bench) -> Iterator[Callable[[str], None]]:
    """Starts workers by name as the product starts them; those not killed meanwhile are killed at the end."""

    def start(name: str) -> None:
        bench.stack.start_worker(
            name, PROVIDER_BASE_URL=bench.double.url, SUBMITTER_IN_FLIGHT=str(CALLS_IN_FLIGHT), CONSISTENCY_SECONDS=CONSISTENCY
        )  # fmt: skip

    try:
        yield start
    finally:
        for name in [name for name in bench.stack.processes if name in ("one", "two")]:
            bench.stack.kill(name)


def _takeover_seconds(bench: Bench) -> float:
    """From the kill -9 of a worker in mid-call until another has made its refunds `unknown`, which is looking them up."""
    _ready(bench, CALLS_IN_FLIGHT, 9000)
    with _workers(bench) as start:
        start("one")
        until(lambda: bench.double.counts()["paid"] == CALLS_IN_FLIGHT, 30)
        start("two")
        time.sleep(4)
        bench.stack.kill("one")
        killed = time.monotonic()
        until(lambda: not _unsettled(bench, "submitting"), TAKEOVER_SECONDS)
        took = time.monotonic() - killed
        until(lambda: not _unsettled(bench), UNFINISHED_SECONDS)
    counts = bench.double.counts()
    if (counts["calls"], _unsettled(bench)) != (CALLS_IN_FLIGHT, 0):
        raise RuntimeError(
            f"after a takeover the provider counts {counts}, and {_unsettled(bench)} refunds are not settled"
        )
    return took


def _killed_in_mid_drain(bench: Bench, jobs: int) -> Killed:
    _ready(bench, jobs, 20)
    with _workers(bench) as start:
        start("one")
        until(lambda: bench.double.counts()["calls"] >= jobs // 2, 120)
        bench.stack.kill("one")
        start("one")
        until(lambda: not _unsettled(bench), UNFINISHED_SECONDS, pause=0.2)
    counts = bench.double.counts()
    return Killed(counts["paid_twice"], jobs - counts["paid"], _unsettled(bench))


def _calls_too_many(bench: Bench, jobs: int, delay_ms: float) -> int:
    _ready(bench, jobs, delay_ms)
    with _workers(bench) as start:
        start("one")
        until(lambda: bench.double.counts()["calls"] >= CALLS_IN_FLIGHT, 30)
        start("two")
        until(lambda: not _unsettled(bench), UNFINISHED_SECONDS, pause=0.2)
    return bench.double.counts()["calls"] - jobs


def _unsettled(bench: Bench, state: str = "") -> int:
    with transaction(bench.console, bench.m, read_only=True) as db:
        return int(scalar(
            db, "SELECT count(*) FROM intents WHERE state IN ('approved', 'held', 'submitting', 'unknown', 'pending',"
            " 'needs_review') AND (:state = '' OR state = :state)", state=state,
        ))  # fmt: skip
