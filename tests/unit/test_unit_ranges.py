"""Unit ranges behave like the sets of units they stand for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.unit_ranges import Ranges, first, minus, size, union, within, written

pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


def members(ranges: Ranges) -> set[int]:
    return {unit for a, b in ranges for unit in range(a, b)}


def is_tidy(ranges: Ranges) -> bool:
    return all(a < b for a, b in ranges) and all(one[1] < two[0] for one, two in pairwise(ranges))


@given(pairs, pairs, st.integers(0, 40))
def test_ranges_are_the_sets_of_their_units(
    some: list[tuple[int, int]], others: list[tuple[int, int]], count: int
) -> None:
    ranges = union(some)
    expected = {unit for a, b in some for unit in range(a, b)}
    other = {unit for a, b in others for unit in range(a, b)}
    assert members(ranges) == expected
    assert members(minus(ranges, others)) == expected - other
    assert members(within(ranges, others)) == expected & other
    assert members(first(ranges, count)) == set(sorted(expected)[:count])
    assert size(ranges) == len(expected)
    assert all(is_tidy(found) for found in (ranges, minus(ranges, others), first(ranges, count)))


def test_ranges_are_written_for_people() -> None:
    assert written(((0, 2), (3, 5))) == "[0,2)[3,5)"
    assert written(()) == "none"
