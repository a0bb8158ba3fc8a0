"""`make bench`."""

import sys
from collections.abc import Callable
from pathlib import Path

from bench.measure import Result, pgbench, side_by_side, write
from bench.work import Bench

OUT = Path("build/bench.json")
HOT_ROW = "UPDATE bench_hot SET n = n + 1 WHERE id = 1;\n"
ONE_COMMIT = "INSERT INTO bench_commits (n) VALUES (1);\n"
# Claims come sixteen to a commit, results one by one, because money moved: 1 + 1/16 commits for each refund.
COMMITS_PER_REFUND = 1 + 1 / 16


def main() -> int:
    """Runs every measure, prints the table, writes the file."""
    results: list[Result] = []
    with Bench(Path("build/bench")) as bench:
        for measure in (approvals, drain):
            result = measure(bench)
            results.append(result)
            print(result.line(), flush=True)
    write(results, OUT)
    print(f"  written to {OUT}")
    return 0


def approvals(bench: Bench) -> Result:
    """F1's first figure: approvals through the ledger on one cap row, 8 threads, against one hot row under pgbench."""
    return side_by_side(
        "approvals on one cap row, 8 threads", "/s", bench.approvals(600, threads=8),
        "pgbench, one hot row, 8 clients", _pgbench(bench, HOT_ROW, 8),
    )  # fmt: skip


def drain(bench: Bench) -> Result:
    """The outbox drained by one worker, 16 in flight, against the commits that takes, made by pgbench."""
    commits = _pgbench(bench, ONE_COMMIT, 16)
    return side_by_side(
        "outbox drain, one worker, 16 in flight", "/s", bench.drain(400),
        "the commits it needs, pgbench, 16 clients", lambda: commits() / COMMITS_PER_REFUND,
    )  # fmt: skip


def _pgbench(bench: Bench, script: str, clients: int) -> Callable[[], float]:
    return lambda: pgbench(bench.stack.postgres, bench.url, script, clients)


if __name__ == "__main__":
    sys.exit(main())
