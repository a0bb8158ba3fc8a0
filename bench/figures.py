"""What each figure measures, beside what, and its mark (PERFORMANCE of the design)."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench import engines, entitlements, pages
from bench.measure import Result, against_a_figure, per_second, pgbench, side_by_side
from bench.over_http import Browser
from bench.reconciliation import f15
from bench.seed import settled_intents
from bench.work import CALLS_IN_FLIGHT, PLANS_AGAIN, REVIEWERS, SLUG, Bench
from ledger.database import rows, transaction
from ledger.due import merchants_with_due
from ledger.outbox import _DUE

THREADS = 8
APPROVED = 400
DRAINED = 1000
MERCHANTS = 1000
# What a claim looks for, without its locks, so that asking changes nothing.
DUE_READ = _DUE.replace("FOR NO KEY UPDATE OF c SKIP LOCKED", "")
HOT_ROW = "UPDATE bench.hot SET n = n + 1 WHERE id = 1;\n"
APPROVE_SHAPE = r"""\set id random(1, 100000)
BEGIN;
SELECT state FROM bench.intents WHERE id = :id FOR UPDATE;
INSERT INTO bench.transfers (intent, amount) VALUES (:id, 1);
INSERT INTO bench.transfers (intent, amount) VALUES (:id, 1);
UPDATE bench.hot SET n = n + 1 WHERE id = 1;
INSERT INTO bench.events (intent, body) VALUES (:id, '{"kind": "approved"}');
INSERT INTO bench.outbox (intent, request) VALUES (:id, '{"amount": "1"}');
COMMIT;
"""


def f1(bench: Bench) -> list[Result]:
    """Approvals through the ledger's own function beside the bare shape of one."""
    return [side_by_side(
        "F1 approvals, one cap row, 8 threads", "/s", bench.approvals(APPROVED, THREADS),
        "pgbench, the shape of an approval, 8 clients", lambda: _pgbench(bench, APPROVE_SHAPE, 8), 0.30,
    )]  # fmt: skip


def f2(bench: Bench) -> list[Result]:
    """The same through the console."""
    with _console(bench) as browsers:
        return [side_by_side(
            "F2 approvals over HTTP, 2 × 8 threads, 8 clients", "/s", lambda: _approvals_over_http(bench, browsers, APPROVED),
            "pgbench, one hot row, 8 clients", lambda: _pgbench(bench, HOT_ROW, 8), 0.10,
        )]  # fmt: skip


@contextmanager
def _console(bench: Bench) -> Iterator[list[Browser]]:
    bench.stack.start_web()
    try:
        browsers = [Browser(bench.stack.origin) for _ in range(THREADS)]
        for browser, reviewer in zip(browsers, REVIEWERS, strict=False):
            browser.sign_in(reviewer.email, f"/{SLUG}/sessions")
        yield browsers
    finally:
        bench.stack.kill("web")


def _approvals_over_http(bench: Bench, browsers: list[Browser], count: int) -> float:
    # Two processes of eight connections each, of which an approval uses two: all of them plan again before it counts.
    first = 2 * THREADS * PLANS_AGAIN
    ready = bench.ready(first + count)
    for browser in browsers:
        browser.rest()

    def approve(number: int) -> None:
        one = ready[number]
        status = browsers[number % THREADS].approve(
            SLUG, str(one.intent_id), one.seen.fingerprint.hex(), one.seen.operation_key
        )
        if status != 303:
            raise RuntimeError(f"an approval was answered with {status}")

    per_second(first, THREADS, approve)
    return per_second(count, THREADS, lambda number: approve(first + number))


def f3(bench: Bench) -> list[Result]:
    """The cap row is held shortly: sharing it with everybody costs next to nothing."""
    many = bench.more_merchants(MERCHANTS)
    crowd = bench.engine(32)
    try:
        return [
            side_by_side(
                "F3 approvals of one merchant, 8 threads", "/s", bench.approvals(APPROVED, THREADS),
                "of 1,000 merchants", bench.approvals(APPROVED, THREADS, many), 0.9,
            ),
            side_by_side(
                "F3 approvals of one merchant, 32 threads", "/s", bench.approvals(APPROVED, 32, engine=crowd),
                "8 threads", bench.approvals(APPROVED, THREADS), 0.9,
            ),
        ]  # fmt: skip
    finally:
        crowd.dispose()


def f5(bench: Bench) -> list[Result]:
    """The outbox against a provider that takes its time: the calls in flight are the ceiling."""
    return [against_a_figure(
        "F5 outbox drain, one worker, 20 ms provider", "/s", lambda: drain_rate(bench, DRAINED, 20),
        "16 calls in flight ÷ 20 ms", CALLS_IN_FLIGHT / 0.020, 0.8,
    )]  # fmt: skip


def f6(bench: Bench) -> list[Result]:
    """A second worker on a second core."""
    return [side_by_side(
        "F6 outbox drain, two workers, 20 ms provider", "/s", lambda: drain_rate(bench, DRAINED, 20, workers=2),
        "one worker", lambda: drain_rate(bench, DRAINED, 20), 1.6,
    )]  # fmt: skip


def drain_rate(bench: Bench, count: int, delay_ms: float, workers: int = 1) -> float:
    """Refunds a second, claimed, sent and settled."""
    return bench.drain(count, delay_ms, workers).rate


def f8(bench: Bench, settled: int) -> list[Result]:
    """Due work is found as fast among all that was ever paid."""
    bench.drain(1, 0)
    for one in bench.ready(32):
        bench.approve(one, bench.console)
    with bench.as_administrator() as db:
        settled_intents(db, bench.m, 0, 10_000)
        among_few = [_finding(bench) for _ in range(4)][1:]
        settled_intents(db, bench.m, 10_000, settled - 10_000)
    among_all = [_finding(bench) for _ in range(4)][1:]
    return [Result(
        f"F8 finding due work among {settled:,} settled refunds", statistics.median(among_all), "ms",
        "among 10,000", statistics.median(among_few), 1.2, tuple(among_all), tuple(among_few), at_most=True,
    )]  # fmt: skip


def _finding(bench: Bench) -> float:
    """Milliseconds to find the merchants with something due, and what of the first is; the median of two hundred."""
    taken = []
    for _ in range(200):
        began = time.perf_counter()
        merchants_with_due(bench.worker_engine, [bench.m])
        with transaction(bench.worker_engine, bench.m, read_only=True) as db:
            found = rows(db, DUE_READ, m=bench.m, batch=32, accounts=None)
        taken.append((time.perf_counter() - began) * 1000)
        if len(found) != 32:
            raise RuntimeError(f"{len(found)} of 32 due refunds were found")
    return statistics.median(taken)


def _pgbench(bench: Bench, script: str, clients: int) -> float:
    return pgbench(bench.stack.postgres, bench.url, script, clients)


FIGURES: dict[str, Callable[..., list[Result]]] = {
    "F1": f1,
    "F2": f2,
    "F3": f3,
    "F4": engines.f4,
    "F5": lambda bench: f5(bench) + engines.f5(bench),
    "F6": f6,
    "F7": engines.f7,
    "F18": engines.f18,
    "F8": f8,
    "F14": entitlements.f14,
    "F15": f15,
    # The small shop first: what is added stays.
    "F10": pages.f10,
    "F9": pages.f9,
    "F11": pages.f11,
    "F16": pages.f16,
    "F17": pages.f17,
}
