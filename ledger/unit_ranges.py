"""Sets of units as half-open ranges [a,b): sorted, disjoint, and as few as possible, so 80,000 units cost as one."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int, int]
Ranges = tuple[Range, ...]


def union(ranges: Iterable[Range]) -> Ranges:
    """The units in any of `ranges`, joined where they touch; empty ranges vanish."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)


def minus(ranges: Ranges, taken: Iterable[Range]) -> Ranges:
    """The units of `ranges` that are not in `taken`."""
    left: list[Range] = []
    holes = union(taken)
    at = 0
    for start, end in ranges:
        while at < len(holes) and holes[at][1] <= start:
            at += 1
        i = at
        while i < len(holes) and holes[i][0] < end:
            if start < holes[i][0]:
                left.append((start, holes[i][0]))
            start = max(start, holes[i][1])
            i += 1
        if start < end:
            left.append((start, end))
    return tuple(left)


def within(ranges: Ranges, others: Iterable[Range]) -> Ranges:
    """The units in both."""
    return minus(ranges, minus(ranges, others))


def first(ranges: Ranges, count: int) -> Ranges:
    """The `count` lowest units of `ranges`, or all of them when there are fewer."""
    taken: list[Range] = []
    for start, end in ranges:
        if count <= 0:
            break
        taken.append((start, min(end, start + count)))
        count -= end - start
    return tuple(taken)


def size(ranges: Iterable[Range]) -> int:
    """How many units."""
    return sum(end - start for start, end in ranges)


def written(ranges: Iterable[Range]) -> str:
    """ "[0,2)[3,5)"; "none" for no units."""
    return "".join(f"[{start},{end})" for start, end in ranges) or "none"
