"""The arithmetic of a record in words that a clerk reads on the case page."""

import pytest

from console.workings import working


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (["neg", ["bps", 5840, 0]], "nothing off 58.40"),
        (["neg", ["bps", 5840, 3000]], "−30.00 % of 58.40"),
        (["min", 4684, 4194], "the smaller of 46.84 and 41.94"),
        (["sub", ["cut", 7470, 3, 2, 1], ["cut", 7470, 3, 0, 1]], "2 of 3 units of 74.70"),
    ],
)
def test_a_formula_reads_as_a_sentence(expression: list[object], said: str) -> None:
    assert working(expression, "EUR") == said
