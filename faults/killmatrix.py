"""`make killmatrix`: every commit and every provider call of every path, under every provider fault, killed there with SIGKILL.

For each path and fault one course is run whole and its points are recorded. Then, for each point, before and after it, the
path is set up anew, run until there and killed; what is left goes on by itself in another process; and both sides are asked.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.util import Finalize
from pathlib import Path as File
from typing import Any

from faults import report
from faults.books import audit
from faults.children import Say, be_silent, in_child
from faults.guards import GUARDS
from faults.path import Path
from faults.paths import PATHS
from faults.place import Place, a_place
from faults.points import Watch, watched
from sandbox.faults import KINDS
from tests.stack import Server, running_server

NO_FAULT = "none"
# How each kind of the sandbox's faults is asked for; every kind there is takes part.
_DELAY = {"ms": 900}
OPTIONS: dict[str, dict[str, Any]] = {
    "delay_before": _DELAY, "delay_holding": _DELAY, "delay_after": _DELAY,
    "list_lag": {"seconds": 3600}, "refund_fails_late": {"after_seconds": 60}, "refund_settles_late": {"after_seconds": 60},
    "huge_body": {"bytes": 3 << 20}, "wrong_answer": {"fields": {"currency": "eur"}},
}  # fmt: skip
FAULTS = (NO_FAULT, *(kind for kinds in KINDS.values() for kind in kinds))
SEED, OUT = 20261130, File("build/killmatrix.html")


@dataclass(frozen=True)
class Cell:
    """One kill. `fatal` None: the course is run whole. `point` is what was recorded at that number."""

    path: str
    fault: str
    fatal: int | None = None
    point: str = ""


@dataclass(frozen=True)
class Outcome:
    """`points`: those of a whole course. `met`: whether the fault was met. `ended`: what became of it, in words."""

    cell: Cell
    killed: bool
    met: bool
    ended: str
    faults: tuple[str, ...]
    points: tuple[str, ...]
    seconds: float

    @property
    def good(self) -> bool:
        return not self.faults


_BY_NAME = {path.name: path for path in PATHS}
_place: Place | None = None
_guards_off: Sequence[str] = ()


def run_cell(cell: Cell, seed: int) -> Outcome:
    """One cell in this process's place, from an empty shop to the audit."""
    place, path, began = _lane(), _BY_NAME[cell.path], time.monotonic()
    place.empty(seed)
    staged = path.stage(place)
    if cell.fault != NO_FAULT:
        place.sandbox.fault(cell.fault, path="/v1/refunds", **OPTIONS.get(cell.fault, {}))
    first = in_child(lambda say: _act(place, path, staged, say, cell.fatal))
    met = cell.fault == NO_FAULT or not any(one["kind"] == cell.fault for one in place.sandbox.faults())
    points = tuple(_named(one["point"]) for one in first.said if isinstance(one, dict) and "point" in one)
    faults = [f"the course itself: {first.error}"] if first.error else []
    then = in_child(lambda _say: _restart(place, path, staged, killed=first.killed))
    faults += [f"after the restart: {then.error}"] if then.error else []
    ended, found = then.said[-1] if then.said and not then.error else ("", [])
    return Outcome(
        cell, first.killed, met, ended, (*faults, *found), points, time.monotonic() - began
    )  # fmt: skip


def _named(point: Sequence[str]) -> str:
    kind, where, phase = point
    return f"{phase} {kind}: {where}"


def _act(place: Place, path: Path, staged: Any, say: Say, fatal: int | None) -> None:
    place.moved_in()
    with place.worker(in_flight=1) as worker, watched(Watch(say, fatal)):
        path.act(place, worker, staged)


def _restart(place: Place, path: Path, staged: Any, *, killed: bool) -> tuple[str, list[str]]:
    """What is left goes on; a person lifts the stop of a merchant whose credential works again."""
    place.moved_in()
    with place.worker() as worker:
        if killed:
            path.again(place, worker, staged)
        place.work(worker, hooks=True)
        if place.as_administrator("SELECT 1 FROM merchant_brakes WHERE stopped_at IS NOT NULL"):
            place.as_administrator("UPDATE merchant_brakes SET stopped_at = NULL, stopped_reason = NULL")
            place.time_passes(600)
            place.work(worker, hooks=True)
    books = audit(place)
    faults = list(books.faults)
    if books.refunds > path.owed and path.owed == 1:
        faults.append(f"{books.refunds} refunds stand where {path.owed} was owed")
    ended = ", ".join(f"{count} {state}" if count > 1 else state for state, count in sorted(books.ended.items()))
    return f"{books.refunds} paid back; {ended}", faults


def _lane() -> Place:
    if _place is None:
        raise RuntimeError("this process has no place")
    return _place


def _open_lane(server: Server, folder: str, guards_off: Sequence[str]) -> None:
    """Gives a process of the pool its own database and provider, for as long as it lives."""
    be_silent()
    global _place  # noqa: PLW0603 - one place a process
    held = ExitStack()
    mine = tempfile.mkdtemp(dir=folder)
    _place = held.enter_context(a_place(server, File(mine)))
    for statement in guards_off:
        _place.stack.server.run(statement.encode(), database=_place.stack.name)
    Finalize(None, held.close, exitpriority=10)


@dataclass
class Matrix:
    """The cells that were run, by path and fault, and those combinations whose fault no call of the path meets."""

    outcomes: list[Outcome]
    unmet: list[tuple[str, str]]
    seed: int
    commit: str
    seconds: float
    sample: int | None

    @property
    def red(self) -> list[Outcome]:
        return [one for one in self.outcomes if not one.good]


def run_matrix(
    server: Server, *, seed: int = SEED, sample: int | None = None, paths: Sequence[str] = (), faults: Sequence[str] = (),
    lanes: int = 2, guards_off: Sequence[str] = (), quiet: bool = False,
) -> Matrix:  # fmt: skip
    """All cells of the paths and faults (default: all), or a sample of that many kills chosen by the seed."""
    began = time.monotonic()
    choice = random.Random(seed)
    courses = [
        Cell(path.name, fault)
        for path in PATHS if not paths or path.name in paths
        for fault in FAULTS if not faults or fault in faults
    ]  # fmt: skip
    if sample is not None:
        courses = _spread(courses, max(4, sample // 3), choice)
    outcomes: list[Outcome] = []
    unmet: list[tuple[str, str]] = []
    with (
        tempfile.TemporaryDirectory(prefix="killmatrix-") as folder,
        ProcessPoolExecutor(lanes, get_context("fork"), _open_lane, (server, folder, guards_off)) as pool,
    ):
        kills: list[Cell] = []
        for course in _each(pool, courses, seed, quiet=quiet, what="courses"):
            if not course.met:
                unmet.append((course.cell.path, course.cell.fault))
                continue
            outcomes.append(course)
            kills += [Cell(course.cell.path, course.cell.fault, n, point) for n, point in enumerate(course.points)]
        kills.sort(key=lambda cell: (cell.path, cell.fault, cell.fatal or 0))
        if sample is not None:
            kills = choice.sample(kills, min(sample, len(kills)))
        outcomes += _each(pool, kills, seed, quiet=quiet, what="kills")
    return Matrix(outcomes, unmet, seed, _commit(), time.monotonic() - began, sample)


def _spread(courses: list[Cell], most: int, choice: random.Random) -> list[Cell]:
    """Every path once with no fault or another, and every fault at some path, as far as `most` goes."""
    paths, faults = list(dict.fromkeys(one.path for one in courses)), list(dict.fromkeys(one.fault for one in courses))
    choice.shuffle(paths)
    choice.shuffle(faults)
    pairs = [(paths[n % len(paths)], faults[n % len(faults)]) for n in range(most)]
    return [Cell(path, fault) for path, fault in dict.fromkeys(pairs)]


def _each(pool: Executor, cells: Iterable[Cell], seed: int, *, quiet: bool, what: str) -> Iterator[Outcome]:
    waiting: list[Future[Outcome]] = [pool.submit(run_cell, cell, seed) for cell in cells]
    red = 0
    for done, future in enumerate(as_completed(waiting), 1):
        outcome = future.result()
        red += not outcome.good
        if not quiet and (done % 25 == 0 or done == len(waiting)):
            print(f"\r  {what}: {done} of {len(waiting)}, {red} red ", end="", file=sys.stderr, flush=True)
        yield outcome
    if not quiet and waiting:
        print(file=sys.stderr)


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607
    return done.stdout.strip() or "unknown"


def lines(matrix: Matrix) -> list[str]:
    """The matrix in words: a line per path, then every red cell, then the totals."""
    kills = [one for one in matrix.outcomes if one.cell.fatal is not None]
    said = []
    for path in dict.fromkeys(one.cell.path for one in matrix.outcomes):
        of = [one for one in matrix.outcomes if one.cell.path == path]
        ended = Counter(one.ended.partition(";")[0] for one in of)
        counts = ", ".join(f"{count} × {what}" for what, count in sorted(ended.items()))
        said.append(f"  {path:<48} {sum(one.cell.fatal is not None for one in of):>5} kills  {counts}")
    for one in matrix.red:
        said.append(f"  RED {one.cell.path} / {one.cell.fault} / {one.cell.point or 'whole'}")
        said += [f"      {text}" for text in one.faults]
    at_their_point = sum(one.killed for one in kills)
    said.append(
        f"  {len(kills)} kills ({at_their_point} by SIGKILL at their point) and {len(matrix.outcomes) - len(kills)}"
        f" whole courses; {len(matrix.red)} red; seed {matrix.seed}; commit {matrix.commit}; {matrix.seconds:.0f} s"
    )
    return said


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: no cell is red."""
    parser = argparse.ArgumentParser(prog="make killmatrix", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--sample", type=int, help="this many kills, chosen by the seed; default: all")
    parser.add_argument("--path", action="append", default=[], choices=[path.name for path in PATHS])
    parser.add_argument("--fault", action="append", default=[], choices=FAULTS)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--out", type=File, default=OUT)
    parser.add_argument("--guard", choices=GUARDS, help="take this guard out of the scratch databases first")
    given = parser.parse_args(arguments)
    with running_server() as server:
        matrix = run_matrix(
            server, seed=given.seed, sample=given.sample, paths=given.path, faults=given.fault, lanes=given.lanes,
            guards_off=GUARDS[given.guard].off if given.guard else (),
        )  # fmt: skip
    report.write(matrix, given.out)
    print("\n".join(lines(matrix)))
    print(f"  written to {given.out}")
    return 1 if matrix.red else 0


if __name__ == "__main__":
    sys.exit(main())
