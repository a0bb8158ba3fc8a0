"""Orders as shops have them: bundles, pinned discounts, gifts, tax by rate, cash, and gaps that a person settles at import."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.allocation import Allocation, allocate
from ledger.allocation_methods import Methods, Settlement
from ledger.order_document import FactsRefused
from ledger.orders import money_digest
from tests.engine import allocated, back, capture, entitled, line, order

Lines = list[dict[str, Any]]


def names(allocation: Allocation) -> list[str]:
    return [found.name for found in allocation.discrepancies]


def grosses(allocation: Allocation) -> list[int]:
    return [found.gross_minor for found in allocation.lines]


def kit(*parts: tuple[int, int, dict[str, Any]], price: int = 3000, quantity: int = 1) -> Lines:
    """A bundle L1 of components (per bundle, stand-alone price, further facts of the line)."""
    found = [line(1, price, quantity)]
    for number, (per, alone, facts) in enumerate(parts, 2):
        bundle = {"id": "k", "per_bundle": per, "parent_line": "L1"} | facts.pop("bundle", {})
        found.append(line(number, alone, per * quantity, bundle=bundle, tax_minor=None) | facts)
    return found


@pytest.mark.parametrize(
    ("method", "parts", "expected"),
    [
        ("bundle.ssp@1", ((1, 3000, {}), (2, 500, {})), [0, 2250, 750]),
        ("bundle.equal@1", ((1, 3000, {}), (2, 500, {})), [0, 1500, 1500]),
        (
            "bundle.weights@1",
            ((1, 1, {"bundle": {"weight_minor": 4}}), (2, 1, {"bundle": {"weight_minor": 1}})),
            [0, 2000, 1000],
        ),
        ("bundle.explicit@1", ((1, 0, {"gross_minor": 2900}), (2, 0, {"gross_minor": 100})), [0, 2900, 100]),
    ],
)
def test_a_bundle_s_price_is_on_its_components_by_the_approved_method(
    method: Any, parts: tuple[tuple[int, int, dict[str, Any]], ...], expected: list[int]
) -> None:
    copied = [
        (per, alone, {name: dict(v) if isinstance(v, dict) else v for name, v in facts.items()})
        for per, alone, facts in parts
    ]
    allocation = allocate(order(kit(*copied), 3000), Methods(bundle=method))
    assert (grosses(allocation), names(allocation)) == (expected, [])
    assert allocation.method.endswith(method)


def test_a_bundle_s_tax_goes_with_its_price_code_by_code() -> None:
    lines = kit((1, 2000, {}), (1, 1000, {}))
    lines[0] |= {"tax_minor": 479, "taxes": [{"code": "A", "minor": 400}, {"code": "B", "minor": 79}]}
    allocation = allocated(lines, 3000)
    assert [(one.gross_minor, one.tax_minor) for one in allocation.lines] == [(0, 0), (2000, 319), (1000, 160)]
    assert [[tax.minor for tax in one.taxes] for one in allocation.lines[1:]] == [[266, 53], [134, 26]]
    assert not allocation.discrepancies


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("bundle.ssp@1", ((1, 0, {}), (1, 0, {}))),
        ("bundle.explicit@1", ((1, 0, {"gross_minor": 2000}), (1, 0, {"gross_minor": 999}))),
    ],
)
def test_a_bundle_that_cannot_be_shared_owes_nothing_until_it_is_settled(method: Any, parts: Any) -> None:
    allocation = allocate(
        order(kit(*((per, alone, dict(facts)) for per, alone, facts in parts)), 3000), Methods(bundle=method)
    )
    assert names(allocation)[0] == "explicit_mismatch"
    assert entitled(allocation, back(("L2", 0, 1))).outcome == "needs_review"


BAD: dict[str, tuple[Lines, str]] = {
    "another count than the bundles hold": (
        [line(1, 100, 2), line(2, 50, 3, bundle={"id": "k", "per_bundle": 2, "parent_line": "L1"})],
        "lines[1].quantity",
    ),
    "a bundle that is not there": (
        [line(1, 100), line(2, 50, bundle={"id": "k", "per_bundle": 1, "parent_line": "L9"})],
        "lines[1].bundle.parent_line",
    ),
    "a serial for some units only": ([line(1, 100, 2, serials=["S1"])], "lines[0].serials"),
    "one serial twice": ([line(1, 100, 2, serials=["S1", "S1"])], "lines[0].serials"),
    "a fee for a line that is not there": (
        [line(1, 100), line(2, 5, kind="fee", fee={"type": "eco", "for_lines": ["L7"]})],
        "lines[1].fee.for_lines",
    ),
    "a fee of no known kind": ([line(1, 100), line(2, 5, kind="fee", fee={"type": "magic"})], "lines[1].fee.type"),
    "shipping facts on goods": ([line(1, 100, shipping={"flat": True})], "lines[0].shipping"),
    "a discount on more units than there are": (
        [line(1, 100, 2, discounts=[{"id": "x", "minor": 5, "units": 3}])],
        "lines[0].discounts[0].units",
    ),
    "a negative list price": ([line(1, 100, list_price_minor=-1)], "lines[0].list_price_minor"),
    "a decimal list price": ([line(1, 100, list_price_minor=1.5)], "lines[0].list_price_minor"),
    "no day of delivery": ([line(1, 100, delivered_at="2026-06-31T10:00:00Z")], "lines[0].delivered_at"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_input_is_refused_with_the_field_s_name(fault: str) -> None:
    lines, name = BAD[fault]
    with pytest.raises(FactsRefused) as refused:
        order(lines, 100)
    assert [problem.field for problem in refused.value.problems] == [name]


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ({"type": "threshold_amount", "min_goods_minor": 1, "off_minor": 1, "off_bps": 1}, "off_minor"),
        ({"type": "threshold_amount", "min_goods_minor": 1}, "off_minor"),
        (
            {
                "type": "quantity_break",
                "tiers": [{"from_quantity": 5, "unit_minor": 1}, {"from_quantity": 5, "unit_minor": 2}],
            },
            "tiers",
        ),
        ({"type": "free_gift", "gift_line": "L9"}, "gift_line"),
        ({"type": "buy_get", "buy": 0, "get": 1}, "buy"),
    ],
)
def test_a_promotion_that_cannot_be_followed_is_refused_by_its_field(rule: dict[str, Any], name: str) -> None:
    with pytest.raises(FactsRefused) as refused:
        order([line(1, 100)], 100, order_discounts=[{"id": "P", "minor": 0, "applies_to": ["L1"], "promo": rule}])
    assert refused.value.problems[0].field.endswith(name)


def test_units_of_a_pinned_discount_have_ranges_with_totals_of_their_own_that_sum_to_the_line() -> None:
    discounts = [{"id": "a", "minor": 500, "units": 1}, {"id": "b", "minor": 300, "units": 2}, {"id": "c", "minor": 10}]
    allocation = allocate(
        order([line(1, 2000, 4, discounts=discounts)], 7190), Methods(part_discount="unit_attributed")
    )
    segments = allocation.lines[0].segments
    assert [(one.a, one.b, one.gross_minor) for one in segments] == [(0, 1, 1347), (1, 2, 1848), (2, 4, 3995)]
    for a, b, minor in ((0, 1, 1347), (0, 2, 3195), (1, 4, 5843), (2, 3, 1998), (3, 4, 1997)):
        assert entitled(allocation, back(("L1", a, b))).total_minor == minor
    assert Allocation.from_document(json.loads(json.dumps(allocation.document()))) == allocation


def test_tax_stated_by_code_for_the_whole_order_is_shared_by_taxable_value() -> None:
    codes = [{"code": "STATE", "rate_ppm": 60_000}, {"code": "CITY", "rate_ppm": 10_000}]
    lines = [line(1, 1000, tax_minor=None, taxes=codes), line(2, 500, tax_minor=None, taxes=codes[:1]), line(3, 300)]
    totals = [{"code": "STATE", "minor": 90}, {"code": "CITY", "minor": 10}]
    allocation = allocated(lines, 1900, price_mode="exclusive", tax_totals=totals)
    assert [(one.gross_minor, one.tax_minor) for one in allocation.lines] == [(1070, 70), (530, 30), (300, 0)]
    assert allocation.method == "value.cumulative@1+tax.as_charged@1+tax.by_rate@1"
    assert not allocation.discrepancies


VAT = {"code": "DE-19", "rate_ppm": 190_000}


@pytest.mark.parametrize(("method", "expected"), [("tax.as_charged@1", [16, 16, 16]), ("tax.by_rate@1", [16, 16, 15])])
def test_a_policy_by_rate_rounds_the_tax_of_a_rate_once_and_not_on_each_line(method: Any, expected: list[int]) -> None:
    lines = [
        line(number, 98 if number < 3 else 95, tax_minor=None, taxes=[VAT | {"minor": 16}]) for number in (1, 2, 3)
    ]
    allocation = allocate(order(lines, 291, tax_totals=[VAT | {"minor": 47}]), Methods(tax=method))
    assert [one.tax_minor for one in allocation.lines] == expected
    assert allocation.method.endswith(method)
    assert [one.tax_minor for one in Allocation.from_document(allocation.document()).lines] == expected


def test_a_policy_by_rate_shares_the_sum_of_a_code_whose_total_nobody_states_by_taxable_value() -> None:
    lines = [
        line(1, 1000, tax_minor=None, taxes=[VAT | {"minor": 200}]),
        line(2, 3000, tax_minor=None, taxes=[VAT | {"minor": 400}]),
        line(3, 500, tax_minor=None, taxes=[{"code": "DE-7", "rate_ppm": 70_000}]),
        line(4, 250, tax_minor=40),
    ]
    allocation = allocate(order(lines, 4750), Methods(tax="tax.by_rate@1"))
    assert [one.tax_minor for one in allocation.lines] == [150, 450, 33, 40]
    assert names(allocation) == []


@pytest.mark.parametrize(("paid", "expected"), [(1000, [330, 670]), (1005, [335, 665, 5])])
def test_cash_rounded_to_its_smallest_coin_is_named_and_booked(paid: int, expected: list[int]) -> None:
    lines = [line(1, 333), line(2, 669)]
    allocation = allocated(lines, 1002, captures=[capture("c1", paid, tender="cash", step_minor=5)])
    assert names(allocation) == ["cash_rounding", "off_step"]
    assert grosses(allocation) == expected
    assert (allocation.total_minor, allocation.blocked_by) == (paid, ())


def test_cash_further_off_than_a_coin_is_no_rounding() -> None:
    allocation = allocated([line(1, 1000)], 1000, captures=[capture("c1", 995, tender="cash", step_minor=5)])
    assert names(allocation) == ["under_captured"]


def test_a_payment_not_tied_to_the_order_counts_nothing_of_it_and_is_named() -> None:
    captures = [capture("c1", 1000), capture("c2", 1000, linked=False)]
    allocation = allocated([line(1, 1000)], 1000, captures=captures)
    assert (names(allocation), allocation.blocked_by) == (["capture_unlinked"], ())


def test_a_large_gap_is_a_persons_who_may_spread_it_by_value_or_the_policy_does() -> None:
    facts = order([line(1, 1000), line(2, 500)], 1600)
    assert names(allocate(facts)) == ["line_gap_large"]
    settled = allocate(facts, settle=Settlement("staff:ilse", "the shop said so", stands="total"))
    assert (grosses(settled), names(settled), settled.blocked_by) == ([1000, 500, 100], ["line_gap_settled"], ())
    assert settled.settled is not None
    assert settled.settled["by"] == "staff:ilse"
    assert grosses(allocate(facts, Methods(gap_over="by_value"))) == [1000, 500, 100]
    below = allocate(order([line(1, 1000), line(2, 500)], 1200), Methods(gap_over="by_value"))
    assert grosses(below) == [800, 400]


def test_shares_that_do_not_sum_are_settled_by_a_named_method() -> None:
    discount = {"id": "P", "minor": 300, "applies_to": ["L1", "L2"], "shares": {"L1": 100}}
    facts = order([line(1, 1000), line(2, 500)], 1200, order_discounts=[discount])
    assert names(allocate(facts))[0] == "explicit_mismatch"
    settled = allocate(facts, settle=Settlement("staff:ilse", "typo", methods={"P": "value.cumulative@1"}))
    assert (grosses(settled), names(settled)) == ([800, 400], [])


def test_a_line_below_zero_is_settled_by_naming_what_it_takes_from() -> None:
    facts = order([line(1, 1000), line(2, 500), line(3, -300)], 1200)
    assert names(allocate(facts)) == ["negative_line"]
    settled = allocate(facts, settle=Settlement("staff:ilse", "a credit line", targets={"L3": ("L1", "L2")}))
    assert (grosses(settled), names(settled)) == ([800, 400, 0], [])


def test_the_policy_s_method_shares_discounts_that_name_none() -> None:
    discount = {"id": "P", "minor": 400, "applies_to": ["L1", "L2", "L3"]}
    facts = order([line(n, 900) for n in (1, 2, 3)], 2300, order_discounts=[discount])
    allocation = allocate(facts, Methods(order_discount="value.largest_remainder@1"))
    assert [share for _, share in allocation.discount_shares[0][1]] == [134, 133, 133]
    assert allocation.method.startswith("value.largest_remainder@1")


def test_the_same_facts_give_the_same_allocation_and_a_new_fact_gives_another_digest() -> None:
    lines = [line(1, 1000, 2, list_price_minor=1200, delivered_at="2026-05-02T12:00:00+02:00")]
    first, again = order(lines, 2000), order(lines, 2000)
    assert (allocate(first), money_digest(first)) == (allocate(again), money_digest(again))
    assert allocate(first).lines[0].delivered_at == "2026-05-02T10:00:00Z"
    other = order([lines[0] | {"list_price_minor": 1201}], 2000)
    assert money_digest(other) != money_digest(first)
    assert allocate(other).digest != allocate(first).digest


def test_an_order_of_before_keeps_the_document_and_digest_it_was_stored_with() -> None:
    stored = {
        "order_ref": "A-1", "method": "value.cumulative@1+tax.as_charged@1", "inputs_digest": "sha256:00", "currency": "EUR",
        "exponent": 2, "total_minor": 100, "step_minor": 1, "discount_shares": {}, "discrepancies": [],
        "lines": [{"line_id": "L1", "position": 1, "kind": "goods", "sku": "S", "title": "T", "quantity": 1, "gross_minor": 100,
                   "tax_minor": 0, "taxes": [], "tax_known": True, "discount_minor": 0, "fee_type": None}],
    }  # fmt: skip
    allocation = Allocation.from_document(stored)
    assert allocation.document() == stored
    assert entitled(allocation, back(("L1", 0, 1))).total_minor == 100


def test_a_tax_known_in_total_only_is_spread_over_no_line_while_one_is_below_zero() -> None:
    lines = [line(1, 1000, tax_minor=None), line(2, -300, tax_minor=None)]
    allocation = allocated(lines, 770, price_mode="exclusive", tax_total_minor=70)
    assert names(allocation) == ["negative_line"]
    assert grosses(allocation) == [1000, 0]
