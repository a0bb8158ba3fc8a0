"""Charts as numbers for an svg: bars and lines in a box of SIDE by SIDE units that the page stretches to its width.

Words stay outside of the picture, in HTML, so that they keep their size at every width; each chart has a sentence that says what
it shows and a table with the same figures (macros/chart_parts.html). Whole numbers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

SIDE: Final = 1000
_MOST_STEPS: Final = 4
# Of the width of a place, what the bars take.
_BARS_TAKE: Final = 72


@dataclass(frozen=True)
class Bar:
    """One rectangle of a series; `says` is what it stands for."""

    series: int
    x: int
    y: int
    width: int
    height: int
    says: str


@dataclass(frozen=True)
class Line:
    """One line of a series: its points as an svg path."""

    series: int
    path: str


@dataclass(frozen=True)
class Chart:
    """What macros/chart_parts.html draws. `ticks`: figures from the top down to 0, evenly apart; `labels`: words evenly apart,
    each at the beginning of several places where those are `stretched`."""

    bars: tuple[Bar, ...]
    lines: tuple[Line, ...]
    ticks: tuple[int, ...]
    labels: tuple[str, ...]
    names: tuple[str, ...]
    says: str
    stretched: bool


def bars(
    names: Sequence[str], places: Sequence[str], values: Sequence[Sequence[int]], says: str, labels: Sequence[str] = (), *,
    stacked: bool = False, least_top: int = 0,
) -> Chart:  # fmt: skip
    """Bars of `values[series][place]`, none below 0; beside each other or stacked. `labels` under it, the places' own otherwise.

    The scale goes to `least_top` at least.
    """
    most = max((sum(one) if stacked else max(one) for one in zip(*values, strict=True)), default=0)
    top, ticks = scale(max(most, least_top))
    made = []
    wide = SIDE * _BARS_TAKE // 100 // max(len(places), 1) // (1 if stacked else len(values))
    for place, name in enumerate(places):
        left = SIDE * place // len(places) + SIDE * (100 - _BARS_TAKE) // 200 // len(places)
        below = 0
        for series, row in enumerate(values):
            high = row[place] * SIDE // top
            x = left if stacked else left + series * wide
            made.append(
                Bar(series, x, SIDE - below - high, max(wide, 1), high, f"{name}: {row[place]} {names[series]}")
            )
            below += high if stacked else 0
    return Chart(tuple(made), (), ticks, tuple(labels or places), tuple(names), says, 0 < len(labels) < len(places))


def lines(names: Sequence[str], values: Sequence[Sequence[int]], says: str, labels: Sequence[str]) -> Chart:
    """Lines of `values[series][place]`, none below 0."""
    top, ticks = scale(max((max(row) for row in values), default=0))
    made = tuple(Line(series, _path(row, top)) for series, row in enumerate(values))
    return Chart((), made, ticks, tuple(labels), tuple(names), says, len(labels) < len(values[0]))


def _path(row: Sequence[int], top: int) -> str:
    points = (
        f"{SIDE * (2 * place + 1) // (2 * len(row))} {SIDE - value * SIDE // top}" for place, value in enumerate(row)
    )
    return "M" + "L".join(points)


def scale(most: int) -> tuple[int, tuple[int, ...]]:
    """The top of an axis that holds `most`, and its ticks from there down to 0: 1, 2 or 5 of some power of ten apart, few."""
    most = max(most, 1)
    for power in count():
        for step in (10**power, 2 * 10**power, 5 * 10**power):
            steps = -(-most // step)
            if steps <= _MOST_STEPS:
                return steps * step, tuple(range(steps * step, -1, -step))
    raise AssertionError("a power of ten holds every number")
