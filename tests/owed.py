"""What is so of every entitlement, for the properties on generated orders (`tests.tape`)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hypothesis import strategies as st

from ledger.entitlement import Entitlement
from tests.tape import Made

# Long enough for an order, its policy and its returns: of shorter ones most are an order of one plain line.
tapes = st.binary(min_size=40, max_size=72)
NEGATIVE = ("deductions", "promo", "allowances.exchange")


def examples(usual: int) -> int:
    """The usual number; all are as many as OWED_EXAMPLES says: more for `make properties`, fewer for `make mutate`."""
    return int(os.environ.get("OWED_EXAMPLES", usual))


def groups(made: Made) -> Iterator[list[tuple[str, int, int]]]:
    """The parts in cases of one to three."""
    left = list(made.parts)
    while left:
        count = 1 + made.tape.pick(3)
        yield left[:count]
        left = left[count:]


def holds(found: Entitlement, step: int) -> None:
    """What is so of every record."""
    record = found.record
    assert found.total_minor >= 0
    assert 0 <= found.tax_minor <= found.total_minor
    for line in record["lines"]:
        assert line["minor"] >= 0 or line["rule"].startswith(NEGATIVE), line
        assert line["minor"] % step == 0, line
    assert all(draw.minor % step == 0 for draw in found.draws)
    assert found.total_minor == sum(found.payable_by_line.values())
