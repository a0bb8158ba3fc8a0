"""`make killmatrix`: every commit and every provider call of every path, under every provider fault, killed there with SIGKILL.

For each path and fault one course is run whole and its points are recorded. Then, for each point, before and after it, the
path is set up anew, run until there and killed; what is left goes on by itself in another process; and both sides are asked.
"""

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
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
from faults.results import Cell, Outcome, Results, commit
from jobs import outside
from sandbox.faults import KINDS
from tests.stack import Server, running_server

NO_FAULT = "none"
# How each kind of the sandbox's faults is asked for; every kind there is takes part.
_DELAY = {"ms": 900}
OPTIONS: dict[str, dict[str, Any]] = {
    "delay_before": _DELAY, "delay_holding": _DELAY, "delay_after": _DELAY,
    "list_lag": {"seconds": 3600}, "refund_fails_late": {"after_seconds": 60}, "refund_settles_late": {"after_seconds": 60},
    "huge_body": {"bytes": 3 << 20},
}  # fmt: skip
FAULTS = (NO_FAULT, *(kind for kinds in KINDS.values() for kind in kinds))
SEED, OUT, KEPT = 20261130, File("build/killmatrix.html"), File("build/killmatrix.jsonl")
SAY_SECONDS = 15


_BY_NAME = {path.name: path for path in PATHS}
_place: Place | None = None
_guards_off: Sequence[str] = ()


def run_batch(course: Cell, kills: Sequence[Cell] | None, seed: int) -> list[Outcome]:
    """Kills of the course of a path under a fault; none named: the course whole, and then (None) a kill at each of its points.

    In this process's place. The stage is set once; each cell begins from what it left.
    """
    place, path, began = _lane(), _BY_NAME[course.path], time.monotonic()
    try:
        place.empty(seed)
        staged = path.stage(place)
        if path.warm:
            with place.worker() as worker:
                outside.run_once(worker)
        fault = _queue(place, path, course.fault)
        place.keep()
    except Exception:  # noqa: BLE001 - a stage that cannot be set is a red cell, and the rest goes on
        found = (f"the stage itself: {traceback.format_exc()[-3000:]}",)
        return [Outcome(course, False, True, "", found, (), time.monotonic() - began)]
    done: list[Outcome] = []
    if not kills:
        done.append(_run(place, path, staged, course, fault))
        if kills is None and done[0].met:
            kills = _kills(done[0])
    for cell in kills or ():
        if done:
            place.put_back()
        done.append(_run(place, path, staged, cell, fault))
    return done


def _kills(whole: Outcome) -> list[Cell]:
    """The kills of a course: one at each of its points. After one point and before the next nothing is written and nobody is
    called, so what a kill leaves is the same there, and one kill is both."""
    kills, same = [], ""
    for n, point in enumerate(whole.points):
        after = whole.points[n + 1] if n + 1 < len(whole.points) else ""
        if point.startswith("after") and after.startswith("before"):
            same = f"{point} = "
            continue
        kills.append(Cell(whole.cell.path, whole.cell.fault, n, same + point))
        same = ""
    return kills


def _queue(place: Place, path: Path, kind: str) -> int | None:
    """The fault the path's next call is to meet, by its number at the provider; None for no fault."""
    if kind == NO_FAULT:
        return None
    method, address = path.call
    wishes = OPTIONS.get(kind, {}) | ({"method": method} if method else {})
    if kind == "wrong_answer":
        wishes |= {"fields": dict(path.wrong)}
    return int(place.sandbox.fault(kind, path=address, **wishes)["seq"])


def _run(place: Place, path: Path, staged: Any, cell: Cell, fault: int | None) -> Outcome:
    began = time.monotonic()
    first = in_child(lambda say: _act(place, path, staged, say, cell.fatal))
    met = fault is None or all(one["seq"] != fault for one in place.sandbox.faults())
    points = tuple(_named(one["point"]) for one in first.said if isinstance(one, dict) and "point" in one)
    faults = [f"the course itself: {first.error}"] if first.error else []
    try:
        ended, found = _restart(place, path, staged, killed=first.killed)
    except Exception:  # noqa: BLE001 - whatever a restarted process raises is what this cell found
        ended, found = "", [f"after the restart: {traceback.format_exc()[-3000:]}"]
    seconds = time.monotonic() - began
    said = points if cell.fatal is None else ()
    return Outcome(cell, first.killed, met, ended, (*faults, *found), said, seconds)


def _named(point: Sequence[str]) -> str:
    kind, where, phase = point
    return f"{phase} {kind}: {where}"


def _act(place: Place, path: Path, staged: Any, say: Say, fatal: int | None) -> None:
    place.moved_in()
    with place.worker(in_flight=1) as worker, watched(Watch(say, fatal)):
        path.act(place, worker, staged)


def _restart(place: Place, path: Path, staged: Any, *, killed: bool) -> tuple[str, list[str]]:
    """What is left goes on, in this process, which is another than the one that was killed: a new lock, other connections. A
    person lifts the stop of a merchant whose credential works again."""
    with place.worker() as worker:
        if killed:
            path.again(place, worker, staged)
        place.work(worker, hooks=True)
        if place.as_administrator("SELECT 1 FROM merchant_brakes WHERE stopped_at IS NOT NULL"):
            place.as_administrator("UPDATE merchant_brakes SET stopped_at = NULL, stopped_reason = NULL")
            place.time_passes(600)
            place.work(worker, hooks=True)
    books = audit(place)
    faults = [*books.faults, *path.check(place)]
    if books.refunds > path.owed:
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

    @property
    def points(self) -> int:
        """How many points of a course the kills are at; some are at two, between which nothing happens."""
        return sum(len(one.cell.point.split(" = ")) for one in self.outcomes if one.cell.fatal is not None)


@dataclass(frozen=True)
class Wish:
    """Which cells are run, in how many processes at once. `sample`: so many kills, chosen by the seed."""

    seed: int = SEED
    sample: int | None = None
    paths: Sequence[str] = ()
    faults: Sequence[str] = ()
    jobs: int = 2
    guards_off: Sequence[str] = ()

    def courses(self) -> list[Cell]:
        return [
            Cell(path.name, fault)
            for path in PATHS if not self.paths or path.name in self.paths
            for fault in FAULTS if not self.faults or fault in self.faults
        ]  # fmt: skip


def run_matrix(server: Server, wish: Wish, kept: Results) -> Matrix:
    """All cells of the wish but those that are kept already; what is run is kept as it comes."""
    began, choice = time.monotonic(), random.Random(wish.seed)
    courses = wish.courses()
    with (
        tempfile.TemporaryDirectory(prefix="killmatrix-") as folder,
        ProcessPoolExecutor(wish.jobs, get_context("fork"), _open_lane, (server, folder, wish.guards_off)) as pool,
    ):
        if wish.sample is None:
            todo = [course for course in courses if course not in kept]
            # The long ones first, so that no process is left alone with one at the end.
            choice.shuffle(todo)
            _each(pool, [(course, None) for course in todo], wish.seed, kept, len(courses))
        else:
            courses = _spread(courses, max(4, wish.sample // 2), choice)
            _each(pool, [(course, []) for course in courses], wish.seed, kept, len(courses))
            batches = _sampled(courses, kept, wish.sample, choice)
            _each(pool, batches, wish.seed, kept, len(batches))
    outcomes = [one for one in kept.outcomes if one.met]
    outcomes.sort(key=lambda one: (one.cell.path, one.cell.fault, -1 if one.cell.fatal is None else one.cell.fatal))
    unmet = [(one.cell.path, one.cell.fault) for one in kept.outcomes if not one.met and one.cell.fatal is None]
    return Matrix(outcomes, unmet, wish.seed, kept.commit, kept.seconds + time.monotonic() - began, wish.sample)


def _sampled(
    courses: Sequence[Cell], kept: Results, sample: int, choice: random.Random
) -> list[tuple[Cell, list[Cell]]]:
    """So many kills of what the courses showed, by course."""
    kills = [
        Cell(course.path, course.fault, n, point)
        for course in sorted(courses, key=lambda one: (one.path, one.fault))
        if (whole := kept.of(course)) is not None and whole.met
        for n, point in enumerate(whole.points)
    ]  # fmt: skip
    batches: dict[Cell, list[Cell]] = {}
    for kill in choice.sample(kills, min(sample, len(kills))):
        batches.setdefault(Cell(kill.path, kill.fault), []).append(kill)
    return list(batches.items())


def _spread(courses: list[Cell], most: int, choice: random.Random) -> list[Cell]:
    """Every path once with no fault or another, and every fault at some path, as far as `most` goes."""
    paths, faults = list(dict.fromkeys(one.path for one in courses)), list(dict.fromkeys(one.fault for one in courses))
    choice.shuffle(paths)
    choice.shuffle(faults)
    pairs = [(paths[n % len(paths)], faults[n % len(faults)]) for n in range(most)]
    return [Cell(path, fault) for path, fault in dict.fromkeys(pairs)]


def _each(
    pool: Executor, batches: Sequence[tuple[Cell, list[Cell] | None]], seed: int, kept: Results, of: int
) -> None:  # fmt: skip
    """Runs the batches and keeps what comes of each; says now and then how far it is and how long the rest may take."""
    waiting: list[Future[list[Outcome]]] = [pool.submit(run_batch, course, kills, seed) for course, kills in batches]
    began, said = time.monotonic(), 0.0
    for done, future in enumerate(as_completed(waiting), 1):
        kept.add(future.result())
        now = time.monotonic()
        if now - said > SAY_SECONDS or done == len(waiting):
            said, left = now, (now - began) / done * (len(waiting) - done)
            before = of - len(waiting)
            print(
                f"  {before + done} of {of} courses, {kept.kills} kills, {kept.red} red; about {left / 60:.0f} min left",
                file=sys.stderr, flush=True,
            )  # fmt: skip


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
        f"  {matrix.points} points of {len(matrix.outcomes) - len(kills)} courses, each killed at under its fault"
        if matrix.sample is None
        else f"  a sample of {matrix.points} points"
    )
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
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="processes at once; default: one a core")
    parser.add_argument(
        "--resume", action="store_true", help=f"go on with an interrupted run of this commit, from {KEPT}"
    )
    parser.add_argument("--out", type=File, default=OUT)
    parser.add_argument("--guard", choices=GUARDS, help="take this guard out of the scratch databases first")
    given = parser.parse_args(arguments)
    wish = Wish(
        given.seed, given.sample, given.path, given.fault, given.jobs, GUARDS[given.guard].off if given.guard else ()
    )  # fmt: skip
    # A sample, or part of it, is quickly run again; only a run of everything is worth going on with.
    whole = given.sample is None and not given.guard
    kept = Results(given.out.with_suffix(".jsonl") if whole else None, f"{commit()} {given.seed}", resume=given.resume)
    with running_server() as server:
        matrix = run_matrix(server, wish, kept)
    report.write(matrix, given.out)
    print("\n".join(lines(matrix)))
    print(f"  written to {given.out}")
    return 1 if matrix.red else 0


if __name__ == "__main__":
    sys.exit(main())
