"""Running one measure and its counterpart in turn, and writing down what came out."""

import json
import re
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demo.postgres import EmbeddedPostgres

ROOT = Path(__file__).parents[1]
RUNS = 3


@dataclass(frozen=True)
class Result:
    """`value` and `against_value` are medians of `runs` and of their counterparts, in `unit`; `mark` None: none is set.

    `at_most`: the ratio has to stay below its mark, not above.
    """

    name: str
    value: float
    unit: str
    against: str
    against_value: float
    mark: float | None
    runs: tuple[float, ...]
    against_runs: tuple[float, ...] = field(default=())
    at_most: bool = False

    @property
    def ratio(self) -> float:
        return self.value / self.against_value

    @property
    def met(self) -> bool:
        """Whether the mark is reached; one that is not set is."""
        if self.mark is None:
            return True
        return self.ratio <= self.mark if self.at_most else self.ratio >= self.mark

    def line(self) -> str:
        """One line of the table, with the spread of both sides."""
        mark = ""
        if self.mark is not None:
            mark = f"   mark {'≤' if self.at_most else '≥'} {self.mark} {'reached' if self.met else 'MISSED'}"
        return (
            f"  {self.name:<58} {_figure(self.value)} {self.unit} ({_spread(self.runs)})\n"
            f"    against {self.against:<48} {_figure(self.against_value)} {self.unit} ({_spread(self.against_runs)})\n"
            f"    ratio {self.ratio:.3f}{mark}"
        )


def _figure(value: float) -> str:
    return f"{value:>9,.0f}" if value >= 100 else f"{value:>9,.2f}"


def _spread(runs: Sequence[float]) -> str:
    return f"{_figure(min(runs)).strip()}–{_figure(max(runs)).strip()}" if runs else "given"


def side_by_side(
    name: str,
    unit: str,
    ours: Callable[[], float],
    against: str,
    theirs: Callable[[], float],
    mark: float | None = None,
    *,
    at_most: bool = False,
) -> Result:
    """Warms both sides up once, then measures them alternately RUNS times."""
    ours()
    theirs()
    runs, others = [], []
    for _ in range(RUNS):
        runs.append(ours())
        others.append(theirs())
    return Result(
        name,
        statistics.median(runs),
        unit,
        against,
        statistics.median(others),
        mark,
        tuple(runs),
        tuple(others),
        at_most,
    )


def against_a_figure(
    name: str, unit: str, ours: Callable[[], float], against: str, figure: float, mark: float | None = None
) -> Result:
    """Warms up once, then measures RUNS times, beside a figure that needs no measuring."""
    ours()
    runs = tuple(ours() for _ in range(RUNS))
    return Result(name, statistics.median(runs), unit, against, figure, mark, runs)


def write(results: Sequence[Result], path: Path) -> None:
    """`{name: {value, unit, against, against_value, ratio, mark, runs}}`."""
    document = {
        result.name: {
            "value": result.value, "unit": result.unit, "against": result.against, "against_value": result.against_value,
            "ratio": round(result.ratio, 4), "mark": result.mark, "runs": list(result.runs),
        }
        for result in results
    }  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")


def per_second(count: int, threads: int, work: Callable[[int], None]) -> float:
    """Runs `work(0…count-1)` on `threads` threads released together; how many a second."""
    barrier = threading.Barrier(threads + 1)
    failures: list[BaseException] = []

    def run(first: int) -> None:
        barrier.wait()
        try:
            for number in range(first, count, threads):
                work(number)
        except Exception as failure:  # noqa: BLE001 told below, in the thread that measures
            failures.append(failure)

    started = [threading.Thread(target=run, args=(first,)) for first in range(threads)]
    for thread in started:
        thread.start()
    barrier.wait()
    began = time.perf_counter()
    for thread in started:
        thread.join()
    took = time.perf_counter() - began
    if failures:
        raise failures[0]
    return count / took


@dataclass(frozen=True)
class Finished:
    """A command that has run: peak of its resident memory, how long it took, what it printed, and its status."""

    peak_mib: float
    seconds: float
    printed: str
    status: int


def run_watched(command: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Runs a command in a process of its own, its peak of resident memory being what the system says of that process."""
    began, peak_kib = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT) as run:
            while run.poll() is None:
                peak_kib = max(peak_kib, _peak_kib(run.pid))
                time.sleep(0.05)
        took = time.perf_counter() - began
        output.seek(0)
        return Finished(peak_kib / 1024, took, output.read(), run.returncode)


def _peak_kib(pid: int) -> int:
    """The peak so far of a process's own memory. `wait4` would count what its parent had before the program was loaded."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) if found else 0


def pgbench(server: EmbeddedPostgres, url: str, script: str, clients: int, seconds: int = 4) -> float:
    """Transactions a second of a pgbench script on the same server, `clients` connections."""
    path = Path("build") / "pgbench.sql"
    path.parent.mkdir(exist_ok=True)
    path.write_text(script, encoding="utf-8")
    command = [str(server.program("pgbench")), "-n", "-M", "prepared", "-c", str(clients), "-j", "2", "-T", str(seconds),
               "-f", str(path), url.replace("postgresql+psycopg://", "postgresql://")]  # fmt: skip
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"tps = ([0-9.]+) \(without", output)
    if found is None:
        raise RuntimeError(f"pgbench said nothing about its rate: {output[-300:]}")
    return float(found[1])
