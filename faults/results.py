"""What came of each cell of the kill matrix, kept line by line while it runs, so that a run that was stopped goes on."""

import json
import subprocess
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


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


class Results:
    """Outcomes by cell. With a `file` each is written as it comes, under what the run is `of` (commit and seed); `resume` takes
    up what such a file of the same run holds, and any other is begun anew."""

    def __init__(self, file: Path | None, of: str, *, resume: bool = False) -> None:
        self.commit = of.partition(" ")[0]
        self.seconds = 0.0
        self._found: dict[Cell, Outcome] = {}
        self._file = file
        if file is None:
            return
        if resume and file.exists():
            self._take_up(file.read_text(encoding="utf-8").splitlines(), of)
        if not self._found:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"of": of}) + "\n", encoding="utf-8")

    def _take_up(self, lines: list[str], of: str) -> None:
        whole = [json.loads(line) for line in lines if line.endswith("}")]
        if not whole or whole[0].get("of") != of:
            return
        for one in whole[1:]:
            self._put(_outcome(one))
        # What was stopped in the middle of a batch is run again whole.
        points: Counter[tuple[str, str]] = Counter()
        for cell in self._found:
            points[(cell.path, cell.fault)] += 0 if cell.fatal is None else len(cell.point.split(" = "))
        half = [
            course
            for course, one in self._found.items()
            if course.fatal is None and one.met and points[(course.path, course.fault)] < len(one.points)
        ]
        for course in half:
            for cell in [one for one in self._found if (one.path, one.fault) == (course.path, course.fault)]:
                del self._found[cell]

    def add(self, outcomes: list[Outcome]) -> None:
        """Those of one batch, whole or not at all."""
        for one in outcomes:
            self._put(one)
        if self._file is not None:
            text = "".join(json.dumps(asdict(one)) + "\n" for one in outcomes)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(text)

    def _put(self, one: Outcome) -> None:
        self._found[one.cell] = one

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._found

    def of(self, cell: Cell) -> Outcome | None:
        """What came of a cell, or None when it was not run."""
        return self._found.get(cell)

    @property
    def outcomes(self) -> list[Outcome]:
        return list(self._found.values())

    @property
    def kills(self) -> int:
        return sum(cell.fatal is not None for cell in self._found)

    @property
    def red(self) -> int:
        return sum(one.met and not one.good for one in self._found.values())


def _outcome(kept: dict[str, Any]) -> Outcome:
    lists: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    return Outcome(**lists | {"cell": Cell(**kept["cell"])})


def commit() -> str:
    """The commit that is checked out, in short."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607
    return done.stdout.strip() or "unknown"
