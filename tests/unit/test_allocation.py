"""What each line is worth, shared out once; and each gap in the facts by its one name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.allocation import Allocation
from ledger.allocation_shares import METHODS, discount_shares
from tests.engine import allocated, capture, line


def grosses(allocation: Allocation) -> list[int]:
    return [found.gross_minor for found in allocation.lines]


def names(allocation: Allocation) -> list[str]:
    return [found.name for found in allocation.discrepancies]


def discount(minor: int, *lines: str, **facts: Any) -> dict[str, Any]:
    return {"id": "SPRING", "minor": minor, "applies_to": list(lines)} | facts


def test_the_order_of_the_design_comes_out_as_the_shop_charged_it() -> None:
    allocation = allocated(
        [
            line(1, 2490, 3, discounts=[{"id": "tee10", "minor": 747}], tax_minor=945),
            line(2, 5800, tax_minor=815),
            line(3, 790, kind="shipping", tax_minor=126),
            line(4, 250, kind="fee", tax_minor=40),
        ],
        12063,
        order_discounts=[discount(1500, "L1", "L2")],
    )
    assert grosses(allocation) == [5918, 5105, 790, 250]
    assert dict(allocation.discount_shares)["SPRING"] == (("L1", 805), ("L2", 695))
    assert not allocation.discrepancies


def test_a_coupon_takes_its_share_of_each_line_by_value() -> None:
    lines = [line(1, 1999), line(2, 749), line(3, 3400)]
    allocation = allocated(lines, 5148, order_discounts=[discount(1000, "L1", "L2", "L3")])
    assert grosses(allocation) == [1674, 627, 2847]


@pytest.mark.parametrize(
    ("method", "left"),
    [("value.cumulative@1", [767, 766, 767]), ("value.largest_remainder@1", [766, 767, 767])],
)
def test_the_method_says_which_line_bears_the_odd_cent(method: str, left: list[int]) -> None:
    lines = [line(n, 900) for n in (1, 2, 3)]
    allocation = allocated(lines, 2300, order_discounts=[discount(400, "L1", "L2", "L3", method=method)])
    assert grosses(allocation) == left
    assert allocation.method.startswith(method)


def test_an_even_coupon_per_unit_is_capped_at_the_cheap_line() -> None:
    lines = [line(1, 100_000), line(2, 1000)]
    even = allocated(lines, 91_000, order_discounts=[discount(10_000, "L1", "L2", method="quantity.cumulative@1")])
    by_value = allocated(lines, 91_000, order_discounts=[discount(10_000, "L1", "L2")])
    assert grosses(even) == [91_000, 0]
    assert grosses(by_value) == [90_099, 901]


def test_the_shop_s_own_shares_are_taken_as_given() -> None:
    shares = {"L1": 1, "L2": 99}
    allocation = allocated(
        [line(1, 500), line(2, 500)],
        900,
        order_discounts=[discount(100, "L1", "L2", method="explicit@1", shares=shares)],
    )
    assert grosses(allocation) == [499, 401]
    assert allocation.method == "explicit@1+tax.as_charged@1"


def test_two_coupons_that_round_alike_never_push_a_line_below_zero() -> None:
    coupons = [discount(1, "L1", "L2"), discount(1, "L1", "L2") | {"id": "SUMMER"}]
    allocation = allocated([line(1, 1), line(2, 1)], 0, order_discounts=coupons)
    assert grosses(allocation) == [0, 0]
    assert not allocation.discrepancies


def test_stated_rates_compute_the_tax_once_and_net_is_the_rest() -> None:
    rate: dict[str, Any] = {"tax_minor": None, "taxes": [{"code": "VAT", "rate_ppm": 240_000}]}
    found = allocated([line(1, 210, **rate), line(2, 210, **rate)], 420).lines
    assert [(one.gross_minor, one.tax_minor, one.net_minor) for one in found] == [(210, 41, 169), (210, 41, 169)]


def test_a_rate_on_prices_without_tax_is_added_to_them() -> None:
    rate: dict[str, Any] = {"tax_minor": None, "taxes": [{"code": "VAT", "rate_ppm": 210_000}]}
    found = allocated([line(1, 750, **rate)], 908, price_mode="exclusive").lines[0]
    assert (found.gross_minor, found.net_minor, found.tax_minor) == (908, 750, 158)


def test_an_inclusive_discount_never_meets_the_tax_twice() -> None:
    cut: dict[str, Any] = {"tax_minor": None, "taxes": [{"code": "GB-20", "rate_ppm": 200_000}]}
    found = allocated([line(1, 12_000, discounts=[{"id": "club", "minor": 1200}], **cut)], 10_800).lines[0]
    assert (found.gross_minor, found.net_minor, found.tax_minor) == (10_800, 9000, 1800)


def test_several_rates_on_one_line_share_its_tax() -> None:
    rates = [{"code": "GST", "rate_ppm": 50_000}, {"code": "PST", "rate_ppm": 70_000}]
    found = allocated([line(1, 1000, tax_minor=None, taxes=rates)], 1120, price_mode="exclusive").lines[0]
    assert [(tax.code, tax.minor) for tax in found.taxes] == [("GST", 50), ("PST", 70)]


def test_lines_off_the_refund_step_are_spread_again_in_steps() -> None:
    kuwait = {"currency": "KWD", "captures": [capture("c1", 1000, "KWD", step_minor=10)]}
    allocation = allocated([line(1, 333), line(2, 667)], 1000, **kuwait)
    assert grosses(allocation) == [330, 670]
    assert names(allocation) == ["off_step"]
    assert allocation.step_minor == 10


def test_a_small_gap_above_becomes_a_rounding_line_and_one_below_comes_off_by_value() -> None:
    above = allocated([line(1, 100), line(2, 300)], 402)
    below = allocated([line(1, 100), line(2, 300)], 398)
    assert (grosses(above), above.lines[-1].fee_type) == ([100, 300, 2], "rounding")
    assert grosses(below) == [99, 299]
    assert names(above) == names(below) == ["line_gap_small"]


DOLLARS = [capture("c1", 1000, "USD")]
PLANTED: list[tuple[str, list[dict[str, Any]], int, dict[str, Any]]] = [
    ("line_gap_small", [line(1, 1000)], 1001, {}),
    ("line_gap_large", [line(1, 1000)], 1002, {}),
    ("negative_line", [line(1, 1200), line(2, -200)], 1000, {}),
    ("negative_line", [line(1, 1000, discounts=[{"id": "x", "minor": 1100}]), line(2, 1100)], 1000, {}),
    ("negative_line", [line(1, 1000)], 1000, {"order_discounts": [discount(1100, "L1")]}),
    ("explicit_mismatch", [line(1, 1100)], 1000, {"order_discounts": [discount(100, "L1", shares={"L1": 90})]}),
    ("tax_gap", [line(1, 1000, tax_minor=100, taxes=[{"code": "a", "minor": 99}])], 1000, {}),
    ("tax_gap", [line(1, 1000, tax_minor=100)], 1000, {"tax_total_minor": 99}),
    ("tax_over_gross", [line(1, 1000, tax_minor=1001)], 1000, {}),
    ("tax_unallocated", [line(1, 1000, tax_minor=None)], 1000, {"tax_total_minor": 160}),
    ("under_captured", [line(1, 1000)], 1000, {"captures": [capture("c1", 999)]}),
    ("under_captured", [line(1, 1000)], 1000, {"captures": []}),
    ("over_captured", [line(1, 1000)], 1000, {"captures": [capture("c1", 1001)]}),
    ("currency_mixed", [line(1, 1000)], 1000, {"captures": DOLLARS}),
    ("no_exponent", [line(1, 1000)], 1000, {"currency": "XTS"}),
    ("off_step", [line(1, 1005), line(2, 5)], 1010, {"captures": [capture("c1", 1010, step_minor=10)]}),
    ("total_off_step", [line(1, 1005)], 1005, {"captures": [capture("c1", 1005, step_minor=10)]}),
]


@pytest.mark.parametrize(("name", "lines", "total", "facts"), PLANTED)
def test_each_planted_mismatch_gets_its_one_name(
    name: str, lines: list[dict[str, Any]], total: int, facts: dict[str, Any]
) -> None:
    allocation = allocated(lines, total, **facts)
    assert names(allocation) == [name]
    assert all(0 <= found.tax_minor <= found.gross_minor for found in allocation.lines)


def test_only_gaps_that_leave_the_worth_of_a_line_open_block_the_order() -> None:
    blocking = {name for name, lines, total, facts in PLANTED if allocated(lines, total, **facts).blocked_by}
    assert blocking == {
        "line_gap_large",
        "explicit_mismatch",
        "negative_line",
        "currency_mixed",
        "no_exponent",
        "total_off_step",
    }


def test_tax_that_does_not_add_up_leaves_the_amount_and_says_the_tax_is_not_known() -> None:
    found = allocated([line(1, 1000, tax_minor=1001)], 1000).lines[0]
    assert (found.gross_minor, found.tax_minor, found.tax_known) == (1000, 0, False)


def test_a_tax_stated_for_the_whole_order_only_still_gives_whole_amounts() -> None:
    lines = [line(1, 1000, tax_minor=None), line(2, 500, tax_minor=None)]
    allocation = allocated(lines, 1785, price_mode="exclusive", tax_total_minor=285)
    assert grosses(allocation) == [1190, 595]
    assert names(allocation) == ["tax_unallocated"]


def test_a_stored_allocation_reads_back_equal_with_the_same_digest() -> None:
    allocation = allocated([line(1, 1999, tax_minor=319), line(2, 300, 3)], 2901, order_discounts=[discount(2, "L2")])
    again = Allocation.from_document(json.loads(json.dumps(allocation.document())))
    assert again == allocation
    assert again.digest == allocation.digest


values_and_quantities = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 50)), min_size=1, max_size=12)


@given(values_and_quantities, st.sampled_from(sorted(METHODS)), st.data())
def test_shares_of_every_method_sum_and_stay_inside_their_lines(
    lines: list[tuple[int, int]], method: str, data: st.DataObject
) -> None:
    values, quantities = [value for value, _ in lines], [quantity for _, quantity in lines]
    left = [value - data.draw(st.integers(0, value)) for value in values]
    minor = data.draw(st.integers(0, sum(left)))
    shares = discount_shares(method, minor, values, quantities, left)
    assert sum(shares) == minor
    assert all(0 <= share <= rest for share, rest in zip(shares, left, strict=True))


@given(values_and_quantities, st.data())
def test_largest_remainder_is_within_one_of_the_exact_share(lines: list[tuple[int, int]], data: st.DataObject) -> None:
    values = [value for value, _ in lines]
    minor, whole = data.draw(st.integers(0, sum(values))), sum(values)
    for value, share in zip(
        values, METHODS["value.largest_remainder@1"](minor, values, [1] * len(values)), strict=True
    ):
        assert abs(share * whole - minor * value) < max(whole, 1)


def test_a_coupon_by_units_over_many_lines_that_all_cap_ends_in_time() -> None:
    values = [10 + n * n for n in range(1500)]
    shares = METHODS["quantity.cumulative@1"](sum(values) - 5, values, [1] * len(values))
    assert sum(shares) == sum(values) - 5
    assert all(share <= value for share, value in zip(shares, values, strict=True))
