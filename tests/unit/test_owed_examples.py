"""The specification's worked examples, each with its arithmetic as its name; the checker accepts every record."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ledger.allocation import Allocation, allocate
from ledger.allocation_methods import Methods
from ledger.entitlement import Entitlement, derive
from ledger.entitlement_facts import (
    Allowance,
    Ask,
    CaptureState,
    CaseUnits,
    Evidence,
    Inspected,
    Opinion,
    Priors,
    Received,
    Sent,
)
from ledger.policy_terms import PolicyTerms
from tests.engine import (
    NOON,
    Shop,
    allocated,
    back,
    capture,
    captured_once,
    entitled,
    line,
    order,
    received,
    state,
    terms,
    units,
)

EU: dict[str, Any] = {
    "customer_type": "consumer",
    "sale_mode": "distance",
    "disclosures": {
        "withdrawal_info_at": "2026-04-20T18:02:20Z",
        "return_cost_on_consumer": True,
        "restocking_fee": True,
    },
}
DELIVERED: dict[str, Any] = {"delivered_at": "2026-05-02T10:40:00Z"}


def promo(minor: int, rule: dict[str, Any], *lines: str, name: str = "PROMO", **facts: Any) -> dict[str, Any]:
    return {"order_discounts": [{"id": name, "minor": minor, "applies_to": list(lines), "promo": rule} | facts]}


def totals(allocation: Allocation, policy: PolicyTerms, *cases: list[tuple[str, int, int]]) -> list[int]:
    """What each case pays, one after the other."""
    shop = Shop(allocation, captured_once(allocation), policy)
    return [shop.take_back(back(*parts, case=f"R-{n}")).total_minor for n, parts in enumerate(cases)]


def pieces(entitlement: Entitlement, rule: str) -> list[tuple[int, int]]:
    """Amount and tax of the lines under a rule."""
    return [(one["minor"], one["tax"]["minor"]) for one in entitlement.record["lines"] if one["rule"] == rule]


def test_1_us_three_at_17_95_plus_tax_4_78_come_back_as_19_54_19_55_19_54_and_net_17_95_each() -> None:
    allocation = allocated([line(1, 1795, 3, tax_minor=478)], 5863, price_mode="exclusive")
    found = [pieces(entitled(allocation, back(("L1", k, k + 1))), "goods.units")[0] for k in range(3)]
    assert found == [(1954, 159), (1955, 160), (1954, 159)]
    assert [gross - tax for gross, tax in found] == [1795, 1795, 1795]


def test_2_a_coupon_of_10_00_on_19_99_7_49_34_00_leaves_16_74_6_27_28_47() -> None:
    facts = {"order_discounts": [{"id": "TEN", "minor": 1000, "applies_to": ["L1", "L2", "L3"]}]}
    allocation = allocated([line(1, 1999), line(2, 749), line(3, 3400)], 5148, **facts)
    assert [one.gross_minor for one in allocation.lines] == [1674, 627, 2847]
    assert [share for _, share in allocation.discount_shares[0][1]] == [325, 122, 553]


def test_2_four_off_three_nines_is_1_33_1_34_1_33_cumulative_and_1_34_1_33_1_33_by_largest_remainder() -> None:
    for method, shares in (("value.cumulative@1", [133, 134, 133]), ("value.largest_remainder@1", [134, 133, 133])):
        facts = {"order_discounts": [{"id": "4", "minor": 400, "applies_to": ["L1", "L2", "L3"], "method": method}]}
        allocation = allocated([line(n, 900) for n in (1, 2, 3)], 2300, **facts)
        assert [share for _, share in allocation.discount_shares[0][1]] == shares


def test_3_five_cents_over_eight_units_are_1_0_1_1_0_1_0_1_and_none_is_below_zero() -> None:
    allocation = allocated([line(1, 0, 8, gross_minor=5)], 5)
    assert totals(allocation, terms(), *[[("L1", k, k + 1)] for k in range(8)]) == [1, 0, 1, 1, 0, 1, 0, 1]


def test_4_kuwaiti_22_450_over_four_in_steps_of_ten_is_5_610_5_620_5_610_5_610() -> None:
    kuwait = {"currency": "KWD", "captures": [capture("c1", 22450, "KWD", step_minor=10)]}
    allocation = allocated([line(1, 0, 4, gross_minor=22450)], 22450, **kuwait)
    assert totals(allocation, terms(), *[[("L1", k, k + 1)] for k in range(4)]) == [5610, 5620, 5610, 5610]


def test_4_yen_10_000_over_three_with_tax_909_is_3_333_3_334_3_333_with_tax_303_each() -> None:
    allocation = allocated([line(1, 0, 3, gross_minor=10_000, tax_minor=909)], 10_000, currency="JPY")
    found = [pieces(entitled(allocation, back(("L1", k, k + 1))), "goods.units")[0] for k in range(3)]
    assert found == [(3333, 303), (3334, 303), (3333, 303)]


def test_5_seven_at_3_49_less_1_22_is_23_21_and_three_of_them_are_9_95_with_tax_0_66() -> None:
    allocation = allocated([line(1, 349, 7, discounts=[{"id": "x", "minor": 122}], tax_minor=152)], 2321)
    assert pieces(entitled(allocation, back(("L1", 2, 5))), "goods.units") == [(995, 66)]
    assert totals(allocation, terms(), *[[("L1", k, k + 1)] for k in range(7)]) == [332, 331, 332, 331, 332, 331, 332]


def test_6_an_allowance_of_3_00_on_two_units_leaves_unit_1_at_21_00_with_tax_3_50() -> None:
    allocation = allocated([line(1, 0, 4, gross_minor=8999, tax_minor=1500)], 8999)
    given = (Allowance("L1", 300, 0, 2),)
    one = entitled(allocation, back(("L1", 1, 2)), [state("c1", 8999, available_minor=8699)], allowances=given)
    assert pieces(one, "goods.units") == [(2100, 350)]


def kits(methods: Methods | None = None) -> Allocation:
    lines = [
        line(1, 4990, 2, sku="KIT"),
        line(2, 2990, 2, sku="A", bundle={"id": "k", "per_bundle": 1, "parent_line": "L1"}),
        line(3, 1250, 4, sku="B", bundle={"id": "k", "per_bundle": 2, "parent_line": "L1"}),
    ]
    return allocate(order(lines, 9980), methods or Methods())


def test_7_two_kits_at_49_90_give_lines_54_35_and_45_45_one_b_11_36_and_kits_49_91_and_49_89() -> None:
    allocation = kits()
    assert [one.gross_minor for one in allocation.lines] == [0, 5435, 4545]
    assert allocation.method == "value.cumulative@1+tax.as_charged@1+bundle.ssp@1"
    assert not allocation.discrepancies
    assert entitled(allocation, back(("L3", 0, 1))).total_minor == 1136
    assert totals(allocation, terms(), [("L1", 0, 1)], [("L1", 1, 2)]) == [4991, 4989]
    assert totals(allocation, terms(), [("L2", 0, 1), ("L3", 0, 2)], [("L2", 1, 2), ("L3", 2, 4)]) == [4991, 4989]


def buy_three() -> Allocation:
    rule = {"type": "buy_get", "buy": 2, "get": 1}
    return allocated([line(1, 4500), line(2, 3000), line(3, 2400)], 7500, **promo(2400, rule, "L1", "L2", "L3"))


def test_8_cheapest_of_three_free_the_45_00_back_is_34_09_kept_and_75_00_less_54_00_is_21_00_repriced() -> None:
    assert totals(buy_three(), terms(), [("L1", 0, 1)]) == [3409]
    assert totals(buy_three(), terms(promo={"buy_get": "reprice_kept"}), [("L1", 0, 1)]) == [2100]


def test_8_all_or_nothing_refuses_a_part_and_pays_75_00_for_the_whole() -> None:
    policy = terms(promo={"buy_get": "all_or_nothing"})
    part = entitled(buy_three(), back(("L1", 0, 1)), policy=policy)
    assert (part.outcome, part.total_minor) == ("wait", 0)
    assert totals(buy_three(), policy, [("L1", 0, 1), ("L2", 0, 1), ("L3", 0, 1)]) == [7500]


def test_9_25_00_off_from_120_00_back_in_turn_17_83_24_32_64_85_kept_and_0_00_27_00_80_00_repriced() -> None:
    rule = {"type": "threshold_amount", "min_goods_minor": 12_000, "off_minor": 2500}
    lines = [line(1, 8000), line(2, 3000), line(3, 2200)]
    allocation = allocated(lines, 10_700, **promo(2500, rule, "L1", "L2", "L3"))
    cases = [[("L3", 0, 1)], [("L2", 0, 1)], [("L1", 0, 1)]]
    assert totals(allocation, terms(), *cases) == [1783, 2432, 6485]
    assert totals(allocation, terms(promo={"threshold": "reprice_kept"}), *cases) == [0, 2700, 8000]


def test_10_twelve_at_a_break_price_of_4_20_four_back_13_60_five_more_21_80_the_last_15_00() -> None:
    tiers = [
        {"from_quantity": 1, "unit_minor": 500},
        {"from_quantity": 5, "unit_minor": 460},
        {"from_quantity": 10, "unit_minor": 420},
    ]
    allocation = allocated([line(1, 420, 12)], 5040, **promo(0, {"type": "quantity_break", "tiers": tiers}, "L1"))
    cases = [[("L1", 0, 4)], [("L1", 4, 9)], [("L1", 9, 12)]]
    assert totals(allocation, terms(), *cases) == [1680, 2100, 1260]
    assert totals(allocation, terms(promo={"quantity_break": "reprice_kept"}), *cases) == [1360, 2180, 1500]


def gifted(methods: Methods | None = None) -> Allocation:
    rule = {"type": "free_gift", "gift_line": "L2"}
    facts = promo(1900, rule, "L1", "L2", name="GIFT") | {"disclosures": {"gift_condition": True}}
    return allocate(order([line(1, 15_000), line(2, 1900)], 15_000, **facts), methods or Methods())


def test_11_item_150_00_with_a_gift_of_19_00_kept_is_150_00_or_131_00_or_133_14_spread() -> None:
    assert totals(gifted(), terms(), [("L1", 0, 1)]) == [15_000]
    assert totals(gifted(), terms(promo={"gift_kept": "deduct_value"}), [("L1", 0, 1)]) == [13_100]
    spread = gifted(Methods(free_gift="spread"))
    assert totals(spread, terms(), [("L1", 0, 1)], [("L2", 0, 1)]) == [13_314, 1686]


def test_11_the_gift_that_arrives_later_releases_the_19_00() -> None:
    policy = terms(promo={"gift_kept": "deduct_value"})
    assert totals(gifted(), policy, [("L1", 0, 1)], [("L2", 0, 1)]) == [13_100, 1900]
    held = entitled(gifted(), back(("L1", 0, 1)), policy=terms(promo={"gift_kept": "hold"}))
    assert (held.outcome, held.until) == ("wait", "received:L2")


def withdrawn(
    region: str, said: str = "2026-03-03T09:00:00Z", sent: str | None = "2026-03-06T09:00:00Z"
) -> Entitlement:
    lines = [
        line(1, 6400, delivered_at="2026-03-01T09:00:00Z"),
        line(2, 990, kind="shipping", shipping={"standard_offered_minor": 490, "service": "express"}),
    ]
    zone = {"DE": "Europe/Berlin", "GB": "Europe/London"}[region]
    told = EU | {"disclosures": {"withdrawal_info_at": "2026-02-20T18:02:20Z"}}
    allocation = allocated(lines, 7390, region=region, zone=zone, placed_at="2026-02-20T18:00:00Z", **told)
    evidence = Evidence(
        "R-1", (CaseUnits("L1", 0, 1, sent_at=said),), (Received("L1", 1, at="2026-03-09T09:00:00Z"),),
        sent=(Sent(sent),) if sent else (),
    )  # fmt: skip
    return entitled(allocation, evidence, policy=terms(shipping={"full_return": "standard"}))


def test_12_eu_withdrawal_of_64_00_with_standard_shipping_4_90_is_68_90_due_17_march_eu_20_march_uk() -> None:
    eu, uk = withdrawn("DE"), withdrawn("GB")
    assert (eu.total_minor, uk.total_minor) == (6890, 6890)
    assert eu.record["track"]["statute"] == "eu_withdrawal@1"
    assert (eu.due_at, uk.due_at) == ("2026-03-17T22:59:59Z", "2026-03-20T23:59:59Z")


def test_12_delivered_saturday_2_may_the_window_ends_monday_18_may_eu_saturday_16_may_uk() -> None:
    for region, zone, last in (
        ("DE", "Europe/Berlin", "2026-05-18T21:59:59Z"),
        ("GB", "Europe/London", "2026-05-16T22:59:59Z"),
    ):
        allocation = allocated([line(1, 6400, **DELIVERED)], 6400, region=region, zone=zone, **EU)
        policy = terms(window={"days": 3}, holiday_calendar="DE@2026" if region == "DE" else None)
        late = last.replace(":59:59Z", ":59:59.5Z").replace("T21", "T22").replace("T22:59:59.5", "T23:59:59")
        for sent, outcome in ((last, "payable"), (late, "refused")):
            evidence = Evidence("R-1", (CaseUnits("L1", 0, 1, sent_at=sent),), received(("L1", 1)))
            assert entitled(allocation, evidence, policy=policy).outcome == outcome, (region, sent)


def test_13_goods_40_00_and_10_00_with_shipping_5_95_are_40_00_15_95_or_44_76_11_19() -> None:
    allocation = allocated([line(1, 4000), line(2, 1000), line(3, 595, kind="shipping")], 5595)
    cases = [[("L1", 0, 1)], [("L2", 0, 1)]]
    for partial, expected in (
        ("on_last_unit", [4000, 1595]),
        ("pro_rata_value", [4476, 1119]),
        ("with_first_unit", [4595, 1000]),
        ("pro_rata_unless_flat", [4476, 1119]),
        ("none", [4000, 1595]),
    ):
        assert totals(allocation, terms(shipping={"partial_return": partial}), *cases) == expected, partial


def american(**policy: Any) -> Entitlement:
    facts = {"region": "US-WA", "price_mode": "exclusive", "disclosures": {"restocking_fee": True}}
    allocation = allocated([line(1, 24_000, tax_minor=2040)], 26_040, currency="USD", **facts)
    return entitled(allocation, back(("L1", 0, 1)), policy=terms(restocking={"bps": 1500}, **policy))


def test_14_us_240_00_plus_20_40_restocking_15_percent_260_40_less_36_00_is_224_40_with_tax_20_40() -> None:
    found = american()
    assert (found.total_minor, found.tax_minor) == (22_440, 2040)


def test_14_with_reduces_taxable_it_is_221_34_with_tax_17_34() -> None:
    found = american(fee_tax_treatment="reduces_taxable")
    assert (found.total_minor, found.tax_minor) == (22_134, 1734)


def test_14_a_fee_with_a_tax_of_its_own_of_10_percent_is_260_40_less_39_60() -> None:
    found = american(fee_tax_treatment="separate_taxed", fee_tax_ppm=100_000)
    assert (found.total_minor, found.tax_minor) == (22_080, 2040)


def graded(photos: int = 2, note: str = "worn", **facts: Any) -> Entitlement:
    vat = {"tax_minor": None, "taxes": [{"code": "DE-19", "rate_ppm": 190_000}]}
    allocation = allocated([line(1, 5900, 2, **vat)], 11_800, **(EU | facts))
    looked = (Inspected("L1", 0, 1, "A"), Inspected("L1", 1, 2, "C", 4000, photos=photos, note=note))
    evidence = Evidence("R-1", units(("L1", 0, 2)), received(("L1", 2)), looked)
    return entitled(allocation, evidence, policy=terms(grade_bps={"C": 4000, "D": 10_000}))


def test_15_eu_two_at_59_00_grades_a_and_c_assessed_40_percent_118_00_less_23_60_is_94_40_tax_9_42_and_5_65() -> None:
    found = graded()
    assert (found.total_minor, found.tax_minor) == (9440, 942 + 565)
    assert found.record["retained"]["L1"] == 2360
    assert found.record["track"] == {
        "chosen": "statutory", "merchant_total": 9440, "statutory_total": 9440, "statute": "eu_withdrawal@1",
    }  # fmt: skip


def test_15_not_informed_or_without_a_photo_it_is_118_00() -> None:
    assert graded(disclosures={}).total_minor == 11_800
    assert graded(photos=0).total_minor == 11_800
    assert graded(note="").total_minor == 11_800


def labelled(price: int, quantity: int = 1, **policy: Any) -> Entitlement:
    allocation = allocated([line(1, price, quantity)], price * quantity)
    evidence = Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)), parcels_on_our_label=1)
    return entitled(allocation, evidence, policy=terms(label={"minor": {"EUR": 650}}, **policy))


def test_16_unit_4_20_with_a_label_of_6_50_is_0_00_with_clip_2_30_and_no_provider_call() -> None:
    found = labelled(420)
    assert (found.total_minor, found.outcome, found.draws) == (0, "nothing_due", ())
    assert found.record["clipped"] == [["case", "deductions.label", 230]]


def test_16_the_next_case_of_30_00_bears_only_its_own_label() -> None:
    assert labelled(3000, 2).total_minor == 2350


def split_tender(order_of: str) -> list[dict[str, int]]:
    """100.00 = gift card 35.00, then card 65.00; refunds of 48.00 and 52.00."""
    captures = [capture("gift", 3500, tender="gift_card"), capture("card", 6500)]
    allocation = allocated([line(1, 4800), line(2, 5200)], 10_000, captures=captures)
    states = [state("gift", 3500, tender="gift_card", position=1), state("card", 6500, position=2)]
    shop = Shop(allocation, states, terms(tender_order=order_of))
    found = [shop.take_back(back((name, 0, 1), case=name)) for name in ("L1", "L2")]
    return [{draw.capture_id: draw.minor for draw in one.draws} for one in found]


def test_17_external_first_is_card_48_then_card_17_gift_35() -> None:
    assert split_tender("external_first") == [{"card": 4800}, {"card": 1700, "gift": 3500}]
    assert split_tender("last_paid_first") == [{"card": 4800}, {"card": 1700, "gift": 3500}]


def test_17_store_value_first_is_gift_35_card_13_then_card_52() -> None:
    for order_of in ("store_value_first", "first_paid_first", "smallest_first"):
        assert split_tender(order_of) == [{"gift": 3500, "card": 1300}, {"card": 5200}]


def test_17_pro_rata_is_gift_16_80_card_31_20_then_gift_18_20_card_33_80() -> None:
    assert split_tender("pro_rata") == [{"gift": 1680, "card": 3120}, {"gift": 1820, "card": 3380}]


def test_18_captures_50_20_30_owed_62_00_is_50_and_12_owed_68_00_leaves_3_00_to_a_manager() -> None:
    captures = [
        state("a", 5000),
        state("b", 2000, available_minor=1500, drawn_order_minor=500),
        state("c", 3000, available_minor=0, disputed_minor=3000),
    ]
    for owed, drawn, short in ((6200, {"a": 5000, "b": 1200}, 0), (6800, {"a": 5000, "b": 1500}, 300)):
        found = entitled(allocated([line(1, owed), line(2, 10_000 - owed)], 10_000), back(("L1", 0, 1)), captures)
        assert {draw.capture_id: draw.minor for draw in found.draws} == drawn
        assert (found.shortfall_minor, found.record["route"]["level"]) == (short, "manager")


def test_19_84_00_dollars_paid_by_77_53_euros_come_back_as_25_84_25_85_25_84_euros() -> None:
    allocation = allocated([line(1, 2800, 3)], 8400, currency="USD", captures=[capture("c1", 7753, order_minor=8400)])
    shop = Shop(allocation, [state("c1", 7753, order_minor=8400)])
    paid = [shop.take_back(back(("L1", k, k + 1), case=f"R-{k}")).draws[0].minor for k in range(3)]
    assert paid == [2584, 2585, 2584]


def test_20_five_at_18_00_received_three_one_grade_x_is_36_00_one_quarantined_two_open() -> None:
    allocation = allocated([line(1, 1800, 5)], 9000)
    evidence = Evidence("R-1", units(("L1", 0, 5)), received(("L1", 3)), (Inspected("L1", 1, 2, "X"),))
    found = entitled(allocation, evidence)
    said = {one.reason_code: one.facts for one in found.rules}
    assert found.total_minor == 3600
    assert said["not_our_unit"] == ("quarantined:1",)
    assert said["not_received"] == ("announced:5", "received:3")


def test_20_proof_of_sending_for_five_before_booking_is_for_a_person() -> None:
    allocation = allocated([line(1, 1800, 5)], 9000, **EU)
    evidence = Evidence("R-1", units(("L1", 0, 5)), sent=(Sent("2026-05-06T09:00:00Z"),))
    found = entitled(allocation, evidence)
    assert (found.outcome, found.total_minor) == ("needs_review", 9000)


def test_21_paid_162_00_worth_180_00_and_120_00_is_54_00_off_and_a_later_return_108_00() -> None:
    allocation = allocated([line(1, 16_200)], 16_200)
    opinions = (Opinion("L1", 0, 1, 18_000, 12_000),)
    reduced = Evidence("R-1", units(("L1", 0, 1)), kind="price_reduction", opinions=opinions)
    assert entitled(allocation, reduced).total_minor == 5400
    later = entitled(allocation, back(("L1", 0, 1)), [left(16_200, 5400)], allowances=(Allowance("L1", 5400, 0, 1),))
    assert later.total_minor == 10_800


def left(minor: int, paid: int) -> CaptureState:
    return state("c1", minor, available_minor=minor - paid, drawn_order_minor=paid)


def test_22_two_at_39_95_now_33_95_is_an_allowance_of_12_00_and_a_unit_back_later_33_95() -> None:
    allocation = allocated([line(1, 3995, 2)], 7990)
    policy = terms(price_adjust={"days": 14})
    asked = Evidence(
        "R-1", (CaseUnits("L1", 0, 2, sent_at="2026-05-01T10:00:00Z"),), kind="price_adjustment",
        asks=(Ask("L1", 0, 2, new_unit_minor=3395),),
    )  # fmt: skip
    assert entitled(allocation, asked, policy=policy).total_minor == 1200
    given = (Allowance("L1", 1200, 0, 2),)
    assert entitled(allocation, back(("L1", 0, 1)), [left(7990, 1200)], allowances=given).total_minor == 3395
    again = entitled(allocation, asked, [left(7990, 1200)], policy, allowances=given)
    assert (again.total_minor, again.outcome) == (0, "nothing_due")


def test_22_asked_on_the_15th_day_of_14_it_is_nothing() -> None:
    allocation = allocated([line(1, 3995, 2)], 7990)
    for day, expected in (("2026-05-04T21:59:59Z", 1200), ("2026-05-04T22:00:00Z", 0)):
        asked = Evidence("R-1", (CaseUnits("L1", 0, 2, sent_at=day),), kind="price_adjustment",
                         asks=(Ask("L1", 0, 2, new_unit_minor=3395),))  # fmt: skip
        assert entitled(allocation, asked, policy=terms(price_adjust={"days": 14})).total_minor == expected


def test_23_an_exchange_of_70_00_for_62_50_refunds_7_50_and_the_replacement_back_62_50_to_the_first_capture() -> None:
    allocation = allocated([line(1, 7000)], 7000)
    swapped = Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)), kind="exchange", asks=(Ask("L1", minor=6250),))
    found = entitled(allocation, swapped)
    assert (found.total_minor, found.record["retained"]) == (750, {"L1": 6250})
    replacement = allocated([line(1, 6250)], 6250, captures=[capture("c1", 7000, order_minor=6250)])
    drawn = entitled(replacement, back(("L1", 0, 1)), [state("c1", 7000, order_minor=6250, available_minor=6250)]).draws
    assert [(draw.minor, draw.available_minor - draw.minor) for draw in drawn] == [(6250, 0)]


def test_23_an_exchange_for_something_dearer_owes_nothing_and_charges_nothing() -> None:
    allocation = allocated([line(1, 7000)], 7000)
    swapped = Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)), kind="exchange", asks=(Ask("L1", minor=8000),))
    found = entitled(allocation, swapped)
    assert (found.total_minor, found.outcome) == (0, "nothing_due")
    assert found.record["clipped"] == [["case", "allowances.exchange", 1000]]


def test_23_a_warranty_of_60_months_after_41_on_149_00_is_47_18() -> None:
    allocation = allocated([line(1, 14_900, delivered_at="2022-01-10T10:00:00Z")], 14_900)
    failed = Evidence("R-1", units(("L1", 0, 1)), kind="warranty", asks=(Ask("L1", failed_at="2025-06-12T10:00:00Z"),))
    terms_of = {"months": 60, "full_months": 24, "method": "prorata"}
    assert entitled(allocation, failed, policy=terms(warranty=terms_of)).total_minor == 4718
    assert entitled(allocation, failed, policy=terms(warranty=terms_of | {"method": "full"})).total_minor == 14_900
    assert entitled(allocation, failed, policy=terms(warranty=terms_of | {"months": 41})).total_minor == 0
    assert entitled(allocation, failed).total_minor == 0


def test_24_goodwill_15_00_typed_net_on_64_50_plus_4_19_is_15_97_with_tax_0_97_typed_gross_15_00_with_0_91() -> None:
    allocation = allocated([line(1, 6450, tax_minor=419)], 6869, price_mode="exclusive")
    for entry, minor, tax in (("net", 1597, 97), ("gross", 1500, 91)):
        given = Evidence("R-1", (), kind="goodwill", asks=(Ask("L1", minor=1500, entry=entry),))  # type: ignore[arg-type]
        found = entitled(allocation, given, policy=terms(goodwill={"max_minor": {"EUR": 2000}}))
        assert (found.total_minor, found.tax_minor, found.outcome) == (minor, tax, "payable")
        assert found.record["route"]["level"] == "staff"


@pytest.mark.parametrize(
    ("before", "asked", "level"), [(0, 2000, "staff"), (500, 1500, "staff"), (500, 1501, "two_managers")]
)
def test_goodwill_of_other_cases_of_the_order_counts_against_its_maximum(before: int, asked: int, level: str) -> None:
    allocation = allocated([line(1, 5000), line(2, 5000)], 10000)
    given = Evidence("R-1", (), kind="goodwill", asks=(Ask("L1", minor=asked),))
    others = (Allowance("L2", before, goodwill=True), Allowance("L2", 900, 0, 1)) if before else ()
    found = entitled(allocation, given, policy=terms(goodwill={"max_minor": {"EUR": 2000}}), allowances=others)
    assert (found.record["route"]["level"], found.total_minor) == (level, asked)


def test_24_goodwill_above_the_line_is_cut_to_it_and_takes_two_managers() -> None:
    allocation = allocated([line(1, 1500), line(2, 6000)], 7500)
    given = Evidence("R-1", (), kind="goodwill", asks=(Ask("L1", minor=5100),))
    found = entitled(allocation, given, policy=terms(goodwill={"max_minor": {"EUR": 9000}}))
    assert (found.total_minor, found.record["route"]["level"]) == (1500, "two_managers")


def test_9_the_adjustment_says_what_was_paid_less_what_the_kept_goods_would_have_cost() -> None:
    rule = {"type": "threshold_amount", "min_goods_minor": 12_000, "off_minor": 2500}
    allocation = allocated([line(1, 8000), line(2, 3000), line(3, 2200)], 10_700, **promo(2500, rule, "L1", "L2", "L3"))
    record = entitled(allocation, back(("L3", 0, 1)), policy=terms(promo={"threshold": "reprice_kept"})).record
    found = next(one for one in record["lines"] if one["rule"] == "promo.adjustment")
    assert found["expr"][1] == ["min", 1783, ["max0", ["sub", 10_700, 11_000]]]
    assert (found["minor"], record["promo_retained"]) == (-1783, [["PROMO", "L3", 1783]])


def calls(quantity: int, units_back: int) -> int:
    """How many functions a derivation calls, for a line of so many units of which so many come back worn."""
    allocation = allocated([line(1, 1990, quantity), line(2, 590, kind="shipping")], 1990 * quantity + 590)
    found = (Inspected("L1", 0, units_back, "C", photos=1, note="worn"),)
    evidence = Evidence("R-1", units(("L1", 0, units_back)), received(("L1", units_back)), found)
    policy, priors = terms(grade_bps={"C": 3000}), Priors((state("c1", allocation.total_minor),))
    derive(allocation, evidence, priors, policy, NOON)
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    try:
        derive(allocation, evidence, priors, policy, NOON)
    finally:
        sys.setprofile(None)
    return counted


def test_a_line_of_80_000_units_costs_what_a_line_of_one_unit_costs() -> None:
    one = calls(2, 1)
    assert calls(80_000, 40_000) <= one * 11 // 10
    assert one < 2_000
