"""The specification's list of properties on generated orders: both price modes, steps 1 and 10, 1–80,000 units, exponents 0, 2, 3.

The life that holds most of them runs 10,000 examples in every run, the others here and in the files beside it a thousand, and
`make properties` 10,000 of each; the strategy is one draw of bytes (`tests.tape`).
"""

from __future__ import annotations

from hypothesis import given, settings

import tests.profiles  # noqa: F401
from ledger.allocation_lines import Allocation
from tests.engine import Shop
from tests.owed import examples, groups, holds, tapes
from tests.tape import make, returned


@settings(max_examples=examples(10_000))
@given(tapes)
def test_any_returns_in_any_order_under_any_policy_stay_inside_what_was_charged_and_owe_nothing_once_paid(
    data: bytes,
) -> None:
    made = make(data)
    if made.allocation.blocked_by:
        return
    shop = Shop(made.allocation, made.captures, made.policy)
    for number, parts in enumerate(groups(made)):
        evidence = returned(made.tape, f"R-{number}", parts)
        found = shop.take_back(evidence)
        holds(found, made.allocation.step_minor)
        assert shop.derive(evidence).payable_now_minor == 0
    assert shop.paid_minor() <= made.allocation.total_minor
    assert all(held.available_minor >= 0 for held in shop.captures)
    for line in made.allocation.lines:
        claimed = sum(c.minor for claims in shop.claims.values() for c in claims if c.line_id == line.line_id)
        assert claimed <= line.gross_minor


@settings(max_examples=examples(1_000))
@given(tapes)
def test_without_deductions_every_order_of_returns_ends_at_the_total_its_tax_and_its_captures(data: bytes) -> None:
    made = make(data, plain=True)
    if made.allocation.blocked_by or made.allocation.total_minor == 0:
        return
    shop = Shop(made.allocation, made.captures, made.policy)
    for number, parts in enumerate(groups(made)):
        holds(shop.take_back(returned(made.tape, f"R-{number}", parts, plain=True)), made.allocation.step_minor)
    back = made.allocation.total_minor - _never_back(made.allocation)
    assert shop.paid_minor() == back
    if back == made.allocation.total_minor:
        assert sum(shop.tax.values()) == sum(line.tax_minor for line in made.allocation.lines)
        assert all(held.available_minor == 0 for held in shop.captures)


def _never_back(allocation: Allocation) -> int:
    """Rounding of an order without goods of any worth lies on nothing that comes back."""
    worth = sum(line.gross_minor for line in allocation.lines if line.kind == "goods")
    return 0 if worth else sum(line.gross_minor for line in allocation.lines if line.fee_type == "rounding")
