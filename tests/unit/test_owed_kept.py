"""What kept goods would have cost under a promotion: other discounts stay off them, and a bundle is worth its own price."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.allocation_lines import Allocation
from ledger.entitlement_facts import Allowance, Ask, Evidence, PriorClaim
from tests.engine import allocated, back, capture, entitled, line, state, terms, units
from tests.tape import BREAKABLE

REPRICED = terms(promo=dict.fromkeys(BREAKABLE, "reprice_kept"))
FROM_100 = {"type": "threshold_amount", "min_goods_minor": 10_000, "off_minor": 1000}
PARTS: dict[str, Any] = {"bundle": {"id": "k", "per_bundle": 1, "parent_line": "L1"}}


def discount(name: str, minor: int, *refs: str, rule: dict[str, Any] | None = None) -> dict[str, Any]:
    found = {"id": name, "minor": minor, "applies_to": list(refs), "method": "value.cumulative@1"}
    return found | ({"promo": rule} if rule else {})


def loyalty_beside_a_threshold() -> Allocation:
    """100.00 + 30.00 + 20.00, 10.00 off from 100.00 and 15.00 of loyalty: 125.00."""
    lines, refs = [line(1, 10_000), line(2, 3000), line(3, 2000)], ("L1", "L2", "L3")
    off = [discount("P", 1000, *refs, rule=FROM_100), discount("LOYAL", 1500, *refs)]
    return allocated(lines, 12_500, order_discounts=off)


def coupon_beside_free_shipping() -> Allocation:
    """100.00 + 50.00 with a coupon of 15.00; shipping is free from 50.00."""
    rule = {"type": "free_shipping", "min_goods_minor": 5000, "shipping_minor": 500}
    off = [discount("P", 0, "L1", "L2", rule=rule), discount("COUPON", 1500, "L1", "L2")]
    return allocated([line(1, 10_000), line(2, 5000)], 13_500, order_discounts=off)


def coupon_beside_a_tier() -> Allocation:
    """12 at 4.20 instead of 5.00 from 10 on, and 10 % by coupon: 45.36."""
    rule = {"type": "quantity_break", "tiers": [{"from_quantity": 10, "unit_minor": 420}]}
    off = [discount("P", 0, "L1", rule=rule), discount("COUPON", 504, "L1")]
    return allocated([line(1, 420, 12, list_price_minor=500)], 4536, order_discounts=off)


def coupon_beside_three_for_two() -> Allocation:
    """Six at 10.00, each third free, and 4.00 by coupon: 36.00."""
    off = [discount("P", 2000, "L1", rule={"type": "buy_get", "buy": 2, "get": 1}), discount("COUPON", 400, "L1")]
    return allocated([line(1, 1000, 6)], 3600, order_discounts=off)


@pytest.mark.parametrize(
    ("order", "ref", "units", "paid"),
    [
        # 130.00 are kept and pass: 120.00 less 15.00 × 130/150, so 18.00 is free, of which 20.00 × 125/150 were paid.
        (loyalty_beside_a_threshold, "L3", 1, 1667),
        (coupon_beside_free_shipping, "L2", 1, 4500),
        (coupon_beside_a_tier, "L1", 2, 756),
        # Three are kept: 20.00 less half the coupon, so half of what was paid goes back.
        (coupon_beside_three_for_two, "L1", 3, 1800),
    ],
)
def test_a_promotion_that_still_holds_takes_nothing_back_whatever_other_discount_the_order_has(
    order: Any, ref: str, units: int, paid: int
) -> None:
    allocation = order()
    assert allocation.discrepancies == ()
    for policy in (terms(), REPRICED):
        assert entitled(allocation, back((ref, 0, units)), policy=policy).total_minor == paid


def test_a_promotion_that_breaks_leaves_the_other_discount_on_what_is_kept() -> None:
    """L1 back: 50.00 are kept, less 5.00 of loyalty; 125.00 − 45.00 = 80.00, and it was 100.00 × 125/150 = 83.33 with both."""
    allocation = loyalty_beside_a_threshold()
    assert entitled(allocation, back(("L1", 0, 1)), policy=REPRICED).total_minor == 8000
    assert entitled(allocation, back(("L1", 0, 1))).total_minor == 8333


def test_a_kept_bundle_is_worth_its_own_price_and_not_that_of_its_parts_alone() -> None:
    """90.00 for two parts of 60.00, and 30.00; 10.00 off from 100.00. The 30.00 back: 110.00 − 90.00 = 20.00."""
    lines = [line(1, 9000), line(2, 6000, **PARTS), line(3, 6000, **PARTS), line(4, 3000)]
    allocation = allocated(lines, 11_000, order_discounts=[discount("P", 1000, "L1", "L4", rule=FROM_100)])
    assert entitled(allocation, back(("L4", 0, 1)), policy=REPRICED).total_minor == 2000
    assert entitled(allocation, back(("L4", 0, 1))).total_minor == 2750


def test_a_bundle_given_away_with_a_promotion_counts_as_nothing_kept() -> None:
    lines = [line(1, 0), line(2, 0, **PARTS), line(3, 0, **PARTS), line(4, 12_000)]
    allocation = allocated(lines, 11_000, order_discounts=[discount("P", 1000, "L1", "L4", rule=FROM_100)])
    assert entitled(allocation, back(("L4", 0, 1)), policy=REPRICED).total_minor == 11_000


def test_money_given_before_on_goods_of_a_repriced_promotion_is_for_a_person() -> None:
    """90.00 and 30.00, 10.00 off from 100.00, and 5.00 given on the 30.00 before: the promotion would give it once more."""
    allocation = allocated(
        [line(1, 9000), line(2, 3000)], 11_000, order_discounts=[discount("P", 1000, "L1", "L2", rule=FROM_100)]
    )
    given = (Allowance("L2", 500, 0, 1),)
    found = entitled(allocation, back(("L2", 0, 1)), policy=REPRICED, allowances=given)
    assert found.outcome == "needs_review"
    assert "credited_under_promotion" in {rule.reason_code for rule in found.rules}
    assert entitled(allocation, back(("L2", 0, 1)), allowances=given).outcome == "payable"


@pytest.mark.parametrize("others", [(), (PriorClaim("R-9", "L1", 1, 2, 0), PriorClaim("R-9", "L1", 0, 0, 1000))])
def test_what_was_typed_for_three_units_is_given_once_though_another_case_has_the_one_in_the_middle(
    others: tuple[PriorClaim, ...],
) -> None:
    asked = Evidence("R-1", units(("L1", 0, 3)), kind="keep_item", asks=(Ask("L1", 0, 3, minor=300),))
    policy = terms(keep_item={"max_bps": 10_000})
    found = entitled(allocated([line(1, 1000, 3)], 3000), asked, policy=policy, claims=others)
    assert found.total_minor == 300


def test_rounding_of_an_order_goes_back_on_the_currency_s_step() -> None:
    """Ten lines of 1.001 KWD that came to 10.020: the ten fils of rounding go back at once, on half of the goods."""
    paid = [capture("c1", 10_020, "KWD", step_minor=10)]
    lines = [line(n, 1001, tax_minor=0) for n in range(1, 11)]
    allocation = allocated(lines, 10_020, currency="KWD", captures=paid)
    held = [state("c1", 10_020, currency="KWD", step_minor=10)]
    policy = terms(routes={"manager_from_minor": {}})
    refs = [f"L{n}" for n in range(1, 11)]
    given = []
    for back_of in (refs[:1], refs[:5], refs):
        found = entitled(allocation, back(*((ref, 0, 1) for ref in back_of)), held, policy)
        given.append(sum(one["minor"] for one in found.record["lines"] if one["rule"] == "fees.rounding"))
        assert found.shortfall_minor == 0
    assert given == [0, 10, 10]
