"""Facts of an order that contradict each other, and attributes that a return turns on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ledger.entitlement_facts import Evidence, Inspected, Opinion
from ledger.order_document import FactsRefused, parse_order
from ledger.policy_document import check_document
from ledger.sale_facts import Attributes
from tests.engine import ALL_BACK, allocated, back, capture, document, entitled, line, units
from tests.unit.test_owed_examples import EU
from tests.unit.test_owed_rules import DAY, SHOP, sent
from tests.unit.test_what_cannot_be import refused

PLACED = "2026-04-20T18:02:11Z"


def wrong(lines: list[dict[str, Any]], total: int, **facts: Any) -> list[str]:
    with pytest.raises(FactsRefused) as error:
        parse_order(json.dumps(document(lines, total, **facts)))
    return [problem.field for problem in error.value.problems]


def test_a_serial_is_on_one_line_of_an_order() -> None:
    lines = [line(1, 100, serials=["SN-1"]), line(2, 100, serials=["SN-2"])]
    parse_order(json.dumps(document(lines, 200)))
    lines[1]["serials"] = ["SN-1"]
    assert wrong(lines, 200) == ["lines[1].serials"]


def test_goods_do_not_arrive_before_they_were_sold_nor_are_paid_for_years_before() -> None:
    assert wrong([line(1, 100, delivered_at="2024-04-20T18:02:11Z")], 100, placed_at=PLACED) == [
        "lines[0].delivered_at"
    ]
    early = [capture("c1", 100, captured_at="2024-04-20T18:02:11Z")]
    assert wrong([line(1, 100)], 100, captures=early) == ["captures[0].captured_at"]
    deposit = [capture("c1", 100, captured_at="2025-11-01T00:00:00Z")]
    parse_order(json.dumps(document([line(1, 100, delivered_at=PLACED)], 100, captures=deposit)))


def test_nothing_captured_in_another_currency_pays_nothing_of_an_order() -> None:
    nothing = [capture("c1", 0, "USD", order_minor=2000)]
    assert wrong([line(1, 2000)], 2000, captures=nothing) == ["captures[0].order_minor"]


def test_of_two_opinions_on_one_unit_of_30_00_the_last_one_counts() -> None:
    """Half of it is lost by the first, 60 % by the other: 18.00, and not 15.00 beside it."""
    allocation = allocated([line(1, 3000)], 3000)
    twice = (Opinion("L1", 0, 1, 100, 50), Opinion("L1", 0, 1, 100, 40))
    evidence = Evidence("R-1", units(("L1", 0, 1)), kind="price_reduction", opinions=twice)
    assert entitled(allocation, evidence).total_minor == 1800
    assert entitled(allocation, replace(evidence, opinions=twice[:1])).total_minor == 1500


def test_two_discounts_of_a_line_have_two_names() -> None:
    both = [{"id": "tee10", "minor": 10}, {"id": "tee10", "minor": 5}]
    assert wrong([line(1, 100, discounts=both)], 85) == ["lines[0].discounts[1].id"]


def test_0_02_of_rounding_that_the_shop_states_goes_back_by_value_with_the_goods() -> None:
    """100.00 and 50.00 with 0.03 of rounding: 0.02 goes back with the first, 0.01 with the other."""
    fee = line(3, 3) | {"kind": "fee", "fee": {"type": "rounding"}}
    allocation = allocated([line(1, 10_000), line(2, 5000), fee], 15_003)
    assert allocation.discrepancies == ()
    assert entitled(allocation, back(("L1", 0, 1)), policy=ALL_BACK).total_minor == 10_002
    assert entitled(allocation, back(("L2", 0, 1)), policy=ALL_BACK).total_minor == 5001
    assert entitled(allocation, back(("L1", 0, 1), ("L2", 0, 1)), policy=ALL_BACK).total_minor == 15_003
    assert wrong([line(1, 100), fee | {"tax_minor": 1}], 103) == ["lines[1].tax_minor"]
    assert refused(fees={"rounding": "never"}) == ["fees"]


@pytest.mark.parametrize("fact", ["mixed", "press", "market_priced", "auction"])
def test_what_cannot_be_withdrawn_from_by_law_can_be_stated_and_is_refused(fact: str) -> None:
    for attributes, outcome in (({"final_sale": True}, "payable"), ({"final_sale": True, fact: True}, "refused")):
        allocation = allocated([line(1, 1000, attributes=attributes, **SHOP)], 1000, **EU)
        assert entitled(allocation, sent(DAY)).outcome == outcome
    check_document({"policy_id": "p", "version": 1, "excluded": [fact]})


def test_a_sealed_unit_that_nobody_graded_waits_for_a_person_to_look_at_its_seal() -> None:
    attributes = {"sealed_media": True, "final_sale": True}
    allocation = allocated([line(1, 1000, attributes=attributes, **SHOP)], 1000, **EU)
    seen = replace(sent(DAY), inspected=(Inspected("L1", 0, 1, "N"),))
    reasons = [
        [
            rule["reason_code"]
            for rule in entitled(allocation, evidence).record["rules"]
            if rule["status"] == "needs_review"
        ]
        for evidence in (sent(DAY), seen)
    ]
    assert ["seal_not_seen" in found for found in reasons] == [True, False]


def test_whether_a_replacement_is_in_stock_can_be_stated_and_excludes_nothing() -> None:
    allocation = allocated([line(1, 1000, attributes={"replacement_in_stock": False})], 1000)
    stated = allocation.line("L1")
    assert stated is not None
    assert stated.attributes == {"replacement_in_stock": False}
    assert Attributes(replacement_in_stock=True).replacement_in_stock
    assert refused(excluded=["replacement_in_stock"]) == ["excluded"]


def test_nobody_is_charged_for_a_replacement_and_a_policy_may_say_so() -> None:
    check_document({"policy_id": "p", "version": 1, "exchange": {"charge_unreturned": "never"}})
    assert refused(exchange={"charge_unreturned": "after_approval"}) == ["exchange.charge_unreturned"]
