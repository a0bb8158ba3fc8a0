"""What a return is worth: the worked examples, the ceiling of what arrived, earlier refunds, and whose money goes back."""

import json
from dataclasses import replace
from typing import Any

import pytest

from ledger.allocation import Allocation
from ledger.entitlement import Entitlement, derive
from ledger.entitlement_facts import Allowance, CasePayment, Evidence, PriorClaim, Priors
from tests.engine import (
    ALL_BACK,
    NOON,
    TERMS,
    allocated,
    back,
    capture,
    captured_once,
    entitled,
    inspected,
    line,
    received,
    state,
    terms,
    units,
)


def design_order() -> Allocation:
    vat = {"code": "DE-19", "rate_ppm": 190_000}
    return allocated(
        [
            line(1, 2490, 3, sku="TEE-M", discounts=[{"id": "tee10", "minor": 747}], taxes=[vat | {"minor": 945}])
            | {"tax_minor": 945},
            line(2, 5800, sku="LAMP", tax_minor=815, taxes=[vat | {"minor": 815}]),
            line(3, 790, kind="shipping", tax_minor=126, taxes=[vat | {"minor": 126}]),
            line(4, 250, kind="fee", title="Gift wrap", tax_minor=40, taxes=[vat | {"minor": 40}]),
        ],
        12063,
        order_discounts=[{"id": "WELCOME15", "minor": 1500, "applies_to": ["L1", "L2"]}],
        captures=[capture("cap_gc", 3000, tender="gift_card"), capture("ch_9x", 9063)],
    )


DESIGN_CAPTURES = [state("cap_gc", 3000, tender="gift_card"), state("ch_9x", 9063)]


def found(entitlement: Entitlement) -> dict[str, tuple[str, str]]:
    """Rules that did not pass: id → (status, reason)."""
    return {rule.id: (rule.status, rule.reason_code) for rule in entitlement.rules if rule.status != "pass"}


def goods(entitlement: Entitlement) -> list[tuple[int, int]]:
    """Gross and tax of each goods line of the record."""
    lines = entitlement.record["lines"]
    return [(one["minor"], one["tax"]["minor"]) for one in lines if one["rule"] == "goods.units"]


def drawn(entitlement: Entitlement) -> dict[str, int]:
    return {draw.capture_id: draw.minor for draw in entitlement.draws}


def test_a_line_says_how_many_units_it_is_about_wherever_they_begin() -> None:
    record = entitled(design_order(), back(("L1", 1, 3)), DESIGN_CAPTURES).record
    assert record["lines"][0]["say"] == "2 of 3 TEE-M at what was paid"


def test_two_shirts_back_give_the_record_of_the_design() -> None:
    record = entitled(design_order(), back(("L1", 0, 2)), DESIGN_CAPTURES).record
    shirts = record["lines"][0]
    assert shirts["say"] == "2 of 3 TEE-M at what was paid"
    assert shirts["expr"] == ["sub", ["cut", 5918, 3, 2, 1], ["cut", 5918, 3, 0, 1]]
    assert shirts["tax"] == {
        "expr": ["sub", ["peel", 945, 5918, 3945], ["peel", 945, 5918, 0]],
        "minor": 630,
        "codes": {"DE-19": 630},
    }
    assert (record["total"], record["net"], record["tax"]) == (3945, 3315, 630)
    assert record["claimed"]["L1"] == 3945
    assert [draw["capture"] for draw in record["draws"]] == ["ch_9x"]
    assert record["outcome"] == "payable"
    assert record["route"] == {"level": "staff", "because": ["routes.auto_enabled=false"]}


@pytest.mark.parametrize(
    ("lines", "total", "facts", "expected"),
    [
        ([line(1, 1795, 3, tax_minor=478)], 5863, {"price_mode": "exclusive"}, [(1954, 159), (1955, 160), (1954, 159)]),
        ([line(1, 10_000, gross_minor=10_000, quantity=3, tax_minor=909)], 10_000, {"currency": "JPY"}, None),
    ],
)
def test_units_come_back_one_by_one_at_what_was_paid(
    lines: list[dict[str, Any]], total: int, facts: dict[str, Any], expected: list[tuple[int, int]] | None
) -> None:
    allocation = allocated(lines, total, **facts)
    one_by_one = [goods(entitled(allocation, back(("L1", k, k + 1))))[0] for k in range(3)]
    assert one_by_one == (expected or [(3333, 303), (3334, 303), (3333, 303)])


def test_a_range_of_a_discounted_line_equals_its_units() -> None:
    lines = [line(1, 349, 7, discounts=[{"id": "x", "minor": 122}], tax_minor=152)]
    allocation = allocated(lines, 2321)
    assert goods(entitled(allocation, back(("L1", 2, 5)))) == [(995, 66)]
    one_by_one = [goods(entitled(allocation, back(("L1", k, k + 1))))[0][0] for k in range(7)]
    assert one_by_one == [332, 331, 332, 331, 332, 331, 332]


def test_a_hundred_units_for_six_cents_never_carry_more_tax_than_price() -> None:
    allocation = allocated([line(1, 0, 100, gross_minor=6, tax_minor=1)], 6)
    assert goods(entitled(allocation, back(("L1", 49, 50)))) == [(0, 0)]


def test_kuwaiti_units_are_paid_in_steps_of_ten_fils() -> None:
    kuwait = {"currency": "KWD", "captures": [capture("c1", 22450, "KWD", step_minor=10)]}
    allocation = allocated([line(1, 0, 4, gross_minor=22450)], 22450, **kuwait)
    found_minor = [
        entitled(allocation, back(("L1", k, k + 1)), captured_once(allocation)).total_minor for k in range(4)
    ]
    assert found_minor == [5610, 5620, 5610, 5610]


def test_an_allowance_given_earlier_comes_off_the_unit_it_was_given_on() -> None:
    allocation = allocated([line(1, 0, 4, gross_minor=8999, tax_minor=1500)], 8999)
    given = (Allowance("L1", 300, 0, 2),)
    first = entitled(allocation, back(("L1", 1, 2)), [state("c1", 8999, available_minor=8699)], allowances=given)
    assert goods(first) == [(2100, 350)]
    beside = entitled(allocation, back(("L1", 1, 4)), [state("c1", 8999, available_minor=8699)], allowances=given)
    assert [minor for minor, _ in goods(beside)] == [2100, 4499]


def test_an_allowance_on_a_whole_line_is_shared_by_its_units() -> None:
    allocation = allocated([line(1, 1000, 3)], 3000)
    given = (Allowance("L1", 300),)
    captures = [state("c1", 3000, available_minor=2700)]
    assert entitled(allocation, back(("L1", 0, 1)), captures, allowances=given).total_minor == 900
    assert entitled(allocation, back(("L1", 0, 3)), captures, allowances=given).total_minor == 2700


def test_received_goods_are_the_ceiling_and_a_foreign_unit_claims_nothing() -> None:
    allocation = allocated([line(1, 1800, 5)], 9000)
    evidence = Evidence("R-1", units(("L1", 0, 5)), received(("L1", 3)), inspected(("L1", 1, 2, "X")))
    entitlement = entitled(allocation, evidence)
    assert entitlement.total_minor == 3600
    assert entitlement.record["units"] == [["L1", 0, 1], ["L1", 2, 3]]
    assert found(entitlement) == {
        "evidence.quantity": ("fail", "not_received"),
        "evidence.grade": ("fail", "not_our_unit"),
        "evidence.conflict": ("needs_review", "another_item_came_back"),
    }


def test_announced_three_received_two_pays_two_and_one_stays_open() -> None:
    allocation = allocated([line(1, 0, 3, gross_minor=26997)], 26997)
    entitlement = entitled(allocation, Evidence("R-1", units(("L1", 0, 3)), received(("L1", 2))))
    assert entitlement.total_minor == 17998
    assert next(rule.until for rule in entitlement.rules if rule.id == "evidence.quantity") == "received:L1"


def test_nothing_arrived_yet_waits_for_the_parcel() -> None:
    entitlement = entitled(design_order(), Evidence("R-1", units(("L1", 0, 2))), DESIGN_CAPTURES)
    assert (entitlement.outcome, entitlement.until, entitlement.draws) == ("wait", "received:L1", ())


def test_a_policy_that_pays_after_inspection_waits_for_the_grade() -> None:
    allocation, policy = allocated([line(1, 1000, 2)], 2000), terms(refund_trigger="inspected")
    arrived = Evidence("R-1", units(("L1", 0, 2)), received(("L1", 2)))
    waiting = entitled(allocation, arrived, policy=policy)
    assert (waiting.outcome, waiting.until) == ("wait", "inspected:L1[0,2)")
    half = entitled(allocation, replace(arrived, inspected=inspected(("L1", 0, 1, "A"))), policy=policy)
    assert (half.outcome, half.total_minor) == ("payable", 1000)


def test_a_policy_that_pays_on_announcement_still_stops_at_what_was_booked_in() -> None:
    allocation, policy = allocated([line(1, 1000, 3)], 3000), terms(refund_trigger="announced")
    announced = Evidence("R-1", units(("L1", 0, 3)))
    assert entitled(allocation, announced, policy=policy).total_minor == 3000
    assert entitled(allocation, replace(announced, received=received(("L1", 2))), policy=policy).total_minor == 2000
    assert entitled(allocation, replace(announced, received=received(("L1", 0))), policy=policy).total_minor == 0


def test_more_received_than_announced_pays_what_was_announced_and_asks_a_manager() -> None:
    allocation = allocated([line(1, 1000, 5), line(2, 500)], 5500)
    evidence = Evidence("R-1", units(("L1", 0, 2)), received(("L1", 3), ("L2", 1)))
    entitlement = entitled(allocation, evidence)
    assert (entitlement.outcome, entitlement.total_minor) == ("payable", 2000)
    assert entitlement.record["route"]["level"] == "manager"


def test_a_later_grade_replaces_an_earlier_one_and_a_far_one_is_a_conflict() -> None:
    allocation = allocated([line(1, 1000)], 1000)
    arrived = Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)))
    corrected = replace(arrived, inspected=inspected(("L1", 0, 1, "X"), ("L1", 0, 1, "A")))
    entitlement = entitled(allocation, corrected)
    assert entitlement.total_minor == 1000
    assert found(entitlement)["evidence.conflict"] == ("needs_review", "grades_differ")
    close = replace(arrived, inspected=inspected(("L1", 0, 1, "N"), ("L1", 0, 1, "A")))
    assert "evidence.conflict" not in found(entitled(allocation, close))


def test_units_another_case_holds_are_refused_and_named() -> None:
    allocation = allocated([line(1, 1000, 3)], 3000)
    held = (PriorClaim("R-0", "L1", 0, 2, 2000),)
    entitlement = entitled(allocation, back(("L1", 0, 2)), [state("c1", 3000, available_minor=1000)], claims=held)
    assert (entitlement.outcome, entitlement.total_minor) == ("refused", 0)
    assert next(rule for rule in entitlement.rules if rule.id == "unit.free").facts == ("case:R-0",)


def test_units_and_lines_the_order_does_not_have_are_refused() -> None:
    allocation = design_order()
    for claim in (("L1", 3, 5), ("L9", 0, 1), ("L3", 0, 1)):
        assert entitled(allocation, back(claim), DESIGN_CAPTURES).outcome == "refused"


def test_a_line_never_gives_back_more_than_was_charged_for_it() -> None:
    allocation = allocated([line(1, 1500, 2), line(2, 6000)], 9000)
    held = (PriorClaim("R-0", "L1", 0, 0, 2500),)
    entitlement = entitled(allocation, back(("L1", 1, 2)), claims=held)
    assert entitlement.total_minor == 500
    assert found(entitlement)["line.ceiling"] == ("needs_review", "cut_to_what_is_left")
    assert entitlement.record["route"]["level"] == "manager"


def test_after_the_payment_the_same_facts_owe_nothing() -> None:
    allocation = allocated([line(1, 1000, 3)], 3000)
    paid = (CasePayment("c1", 2000, 2000),)
    entitlement = entitled(allocation, back(("L1", 0, 2)), [state("c1", 3000, available_minor=1000)], paid=paid)
    assert (entitlement.total_minor, entitlement.payable_now_minor, entitlement.outcome) == (2000, 0, "nothing_due")


def test_new_evidence_after_a_payment_pays_the_difference_only() -> None:
    allocation = allocated([line(1, 1000, 3)], 3000)
    paid = (CasePayment("c1", 2000, 2000),)
    entitlement = entitled(allocation, back(("L1", 0, 3)), [state("c1", 3000, available_minor=1000)], paid=paid)
    assert (entitlement.total_minor, entitlement.payable_now_minor) == (3000, 1000)
    assert drawn(entitlement) == {"c1": 1000}


def test_a_lower_entitlement_after_a_payment_claws_nothing_back_and_asks_a_person() -> None:
    allocation = allocated([line(1, 1000, 3)], 3000)
    paid = (CasePayment("c1", 3000, 3000),)
    evidence = Evidence("R-1", units(("L1", 0, 3)), received(("L1", 2)))
    entitlement = entitled(allocation, evidence, [state("c1", 3000, available_minor=0)], paid=paid)
    assert (entitlement.outcome, entitlement.overpaid_minor, entitlement.draws) == ("needs_review", 1000, ())


def test_a_refund_made_outside_and_on_no_line_blocks_the_order_or_only_lowers_its_capture() -> None:
    allocation = allocated([line(1, 4000), line(2, 3500), line(3, 2500)], 10_000)
    held = (PriorClaim("R-0", "L1", 0, 1, 4000),)
    captures = [state("c1", 10_000, available_minor=3500, drawn_order_minor=4000, external_unallocated_minor=2500)]
    evidence = back(("L2", 0, 1), ("L3", 0, 1))
    blocked = entitled(allocation, evidence, captures, claims=held)
    assert (blocked.outcome, blocked.total_minor) == ("needs_review", 6000)
    lowered = entitled(allocation, evidence, captures, terms(external_unallocated="cap_only"), claims=held)
    assert (lowered.outcome, drawn(lowered), lowered.shortfall_minor) == ("payable", {"c1": 3500}, 2500)


def test_a_blocking_discrepancy_pays_nothing_until_it_is_settled() -> None:
    allocation = allocated([line(1, 1000, 2)], 2500)
    entitlement = entitled(allocation, back(("L1", 0, 1)))
    assert (entitlement.outcome, entitlement.total_minor, entitlement.draws) == ("needs_review", 0, ())
    assert found(entitlement)["alloc.balanced"] == ("fail", "line_gap_large")


def test_a_free_line_owes_nothing_and_draws_nothing() -> None:
    entitlement = entitled(allocated([line(1, 0), line(2, 500)], 500), back(("L1", 0, 1)))
    assert (entitlement.outcome, entitlement.draws) == ("nothing_due", ())


def test_shipping_comes_with_the_last_goods_unit_of_the_order_and_once() -> None:
    allocation = design_order()
    alone = entitled(allocation, back(("L1", 0, 3)), DESIGN_CAPTURES, ALL_BACK)
    assert alone.total_minor == 5918
    assert "LAMP is not back" in str(alone.record["lines"])
    earlier = (PriorClaim("R-1", "L1", 0, 3, 5918),)
    last = entitled(allocation, back(("L2", 0, 1), case="R-2"), DESIGN_CAPTURES, ALL_BACK, claims=earlier)
    assert (last.total_minor, last.tax_minor) == (5105 + 790, 815 + 126)
    taken = (*earlier, PriorClaim("R-2", "L2", 0, 1, 5105), PriorClaim("R-2", "L3", 0, 1, 790))
    again = entitled(
        allocation, back(("L1", 0, 3)), DESIGN_CAPTURES, ALL_BACK, claims=tuple(c for c in taken if c.case_ref == "R-2")
    )
    assert again.total_minor == 5918


def test_shipping_is_not_paid_to_a_case_whose_goods_are_refused() -> None:
    allocation = allocated([line(1, 1000), line(2, 500, kind="shipping")], 1500)
    held = (PriorClaim("R-0", "L1", 0, 1, 1000),)
    refused = entitled(allocation, back(("L1", 0, 1)), policy=ALL_BACK, claims=held)
    assert (refused.outcome, refused.total_minor) == ("refused", 0)


def test_units_announced_but_not_back_keep_shipping_waiting() -> None:
    allocation = allocated([line(1, 1000, 2), line(2, 500, kind="shipping")], 2500)
    waiting = (PriorClaim("R-0", "L1", 1, 2, 0, returned=False),)
    assert entitled(allocation, back(("L1", 0, 1)), policy=ALL_BACK, claims=waiting).total_minor == 1000


def test_a_policy_without_shipping_and_a_fee_say_so_in_the_record() -> None:
    record = entitled(design_order(), back(("L1", 0, 3), ("L2", 0, 1)), DESIGN_CAPTURES).record
    said = {one["rule"]: one["say"] for one in record["lines"]}
    assert said["shipping.none"] == "shipping is not refunded under this policy"
    assert said["fees.kept"] == "Gift wrap is a fee and is not refunded with goods"


def test_the_card_is_paid_back_before_the_gift_card() -> None:
    allocation = allocated([line(1, 4800), line(2, 5200)], 10_000)
    first = entitled(allocation, back(("L1", 0, 1)), [state("gift", 3500, tender="gift_card"), state("card", 6500)])
    assert drawn(first) == {"card": 4800}
    rest = [
        state("gift", 3500, tender="gift_card"),
        state("card", 6500, available_minor=1700, drawn_order_minor=4800),
    ]
    assert drawn(entitled(allocation, back(("L2", 0, 1), case="R-2"), rest)) == {"card": 1700, "gift": 3500}


def test_the_largest_capture_goes_first_and_a_disputed_one_bears_nothing() -> None:
    captures = [
        state("a", 5000),
        state("b", 2000, available_minor=1500, drawn_order_minor=500),
        state("c", 3000, available_minor=0, disputed_minor=3000),
    ]
    enough = entitled(allocated([line(1, 6200), line(2, 3800)], 10_000), back(("L1", 0, 1)), captures)
    assert (drawn(enough), enough.shortfall_minor) == ({"a": 5000, "b": 1200}, 0)
    short = entitled(allocated([line(1, 6800), line(2, 3200)], 10_000), back(("L1", 0, 1)), captures)
    assert (drawn(short), short.shortfall_minor) == ({"a": 5000, "b": 1500}, 300)
    assert (short.outcome, short.record["route"]["level"]) == ("payable", "manager")


def test_captures_that_hold_nothing_leave_the_whole_amount_to_a_person() -> None:
    allocation = allocated([line(1, 1000)], 1000)
    entitlement = entitled(allocation, back(("L1", 0, 1)), [state("c1", 1000, available_minor=0)])
    assert (entitlement.outcome, entitlement.shortfall_minor, entitlement.draws) == ("needs_review", 1000, ())


def test_an_order_in_dollars_captured_in_euros_is_paid_back_in_euros_to_the_cent() -> None:
    euros = capture("c1", 7753, "EUR", order_minor=8400)
    allocation = allocated([line(1, 2800, 3)], 8400, currency="USD", captures=[euros])
    paid: list[int] = []
    for k in range(3):
        held = state("c1", 7753, order_minor=8400, available_minor=7753 - sum(paid), drawn_order_minor=2800 * k)
        paid.append(drawn(entitled(allocation, back(("L1", k, k + 1), case=f"R-{k}"), [held]))["c1"])
    assert paid == [2584, 2585, 2584]


def test_a_foreign_capture_that_cannot_bear_it_all_pays_what_it_holds() -> None:
    allocation = allocated([line(1, 8400)], 8400, currency="USD", captures=[capture("c1", 7753, order_minor=8400)])
    held = state("c1", 7753, order_minor=8400, available_minor=5000)
    entitlement = entitled(allocation, back(("L1", 0, 1)), [held])
    assert drawn(entitlement)["c1"] <= 5000
    assert drawn(entitlement)["c1"] >= 4999
    assert entitlement.shortfall_minor > 0


def test_a_capture_that_also_paid_another_order_gives_only_its_part() -> None:
    allocation = allocated([line(1, 6000)], 6000, captures=[capture("c1", 10_000, order_minor=6000)])
    held = [state("c1", 10_000, order_minor=6000)]
    assert drawn(entitled(allocation, back(("L1", 0, 1)), held)) == {"c1": 6000}


def test_the_manager_decides_from_the_limit_on_over_the_whole_order() -> None:
    allocation = allocated([line(1, 12_500, 2)], 25_000)
    alone = entitled(allocation, back(("L1", 0, 1)))
    assert alone.record["route"]["level"] == "staff"
    earlier = (PriorClaim("R-0", "L1", 1, 2, 12_500),)
    assert entitled(allocation, back(("L1", 0, 1)), claims=earlier).record["route"]["level"] == "manager"
    assert entitled(allocation, back(("L1", 0, 1)), policy=terms(routes={})).record["route"] == {
        "level": "manager",
        "because": ["routes.manager_from_minor: EUR is not named"],
    }


def test_the_orders_rounding_goes_back_with_its_goods_whatever_the_order_of_returns() -> None:
    allocation = allocated([line(1, 1000, 2), line(2, 1000)], 3002)
    parts = [("L1", 0, 1), ("L1", 1, 2), ("L2", 0, 1)]
    single = [entitled(allocation, back(part, case=f"R-{part}")).total_minor for part in parts]
    assert sum(single) == 3002
    assert entitled(allocation, back(*parts)).total_minor == 3002


def test_the_same_facts_later_say_the_same_except_for_the_instant() -> None:
    allocation, evidence = design_order(), back(("L1", 0, 2))
    priors = Priors(tuple(DESIGN_CAPTURES))
    now, later = (derive(allocation, evidence, priors, TERMS, NOON.replace(hour=hour)) for hour in (12, 13))
    assert now.digest != later.digest
    assert now.substance_digest == later.substance_digest
    other = derive(allocation, back(("L1", 0, 3)), priors, TERMS, NOON)
    assert other.substance_digest != now.substance_digest


def test_the_order_of_rows_in_priors_and_a_trip_through_json_change_no_byte() -> None:
    allocation, evidence = design_order(), back(("L1", 0, 2))
    first = derive(allocation, evidence, Priors(tuple(DESIGN_CAPTURES)), TERMS, NOON)
    stored = Allocation.from_document(json.loads(json.dumps(allocation.document())))
    second = derive(stored, evidence, Priors(tuple(reversed(DESIGN_CAPTURES))), TERMS, NOON)
    assert second.canonical() == first.canonical()
    assert json.loads(first.canonical()) == first.record


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        derive(design_order(), back(("L1", 0, 1)), Priors(()), TERMS, NOON.replace(tzinfo=None))


def test_part_of_what_is_only_authorised_is_said_to_be_without_a_payment_and_all_of_it_is_let_go() -> None:
    allocation = allocated([line(1, 2490, 2)], 4980)
    held = state("c1", 4980, held_minor=4980, available_minor=0)
    part = entitled(allocation, back(("L1", 0, 1)), [held])
    assert (part.draws, part.shortfall_minor, part.outcome) == ((), 2490, "needs_review")
    whole = entitled(allocation, back(("L1", 0, 2)), [held])
    assert ([draw.minor for draw in whole.draws], whole.shortfall_minor) == ([4980], 0)
