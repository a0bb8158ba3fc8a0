"""The rules one by one: each passes, fails or sends to a person, says why, and until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ledger.allocation_shares import discount_shares
from ledger.calendar_days import (
    add_months,
    end_of_day,
    holidays,
    local_day,
    months_between,
    next_working_day,
    parse,
    text,
    working_days_after,
)
from ledger.entitlement import Entitlement, derive
from ledger.entitlement_check import check
from ledger.entitlement_draws import draws_of
from ledger.entitlement_facts import (
    Allowance,
    Ask,
    CaseUnits,
    Cure,
    Evidence,
    Inspected,
    PriorClaim,
    Priors,
    Received,
    Sent,
)
from ledger.policy_terms import TermsRefused, read_terms
from tests.engine import BASE, NOON, TERMS, allocated, back, capture, entitled, line, received, state, terms, units
from tests.unit.test_owed_examples import EU, pieces, promo

SHOP: dict[str, Any] = {"delivered_at": "2026-05-02T10:00:00Z"}
DAY = "2026-05-05T10:00:00Z"


def said(found: Entitlement) -> dict[str, str]:
    """Rules that did not pass, by reason: reason → status."""
    return {one.reason_code: one.status for one in found.rules if one.status != "pass" and "track" not in one.scope}


def sent(at: str, reason: str = "changed_mind", **facts: Any) -> Evidence:
    return Evidence(
        "R-1", (CaseUnits("L1", 0, 1, reason, at),), (Received("L1", 1, at=facts.pop("booked", None)),), **facts
    )


@pytest.mark.parametrize(
    ("window", "last"),
    [
        ({"days": 30}, "2026-06-01"),
        ({"days": 30, "starts": "placed"}, "2026-05-20"),
        ({"days": 30, "starts": "last_delivered"}, "2026-06-09"),
        ({"days": 30, "grace_days": 3}, "2026-06-04"),
        ({"days": 30, "fixed_until": "2027-01-31"}, "2027-01-31"),
        ({"days": 30, "fixed_until": "2026-01-31"}, "2026-06-01"),
    ],
)
def test_the_last_second_of_the_last_day_is_in_time_and_the_next_is_not(window: dict[str, Any], last: str) -> None:
    allocation = allocated([line(1, 1000, **SHOP), line(2, 500, delivered_at="2026-05-10T10:00:00Z")], 1500)
    policy = terms(window=window)
    winter = last.startswith("2027-01")
    at, after = (f"{last}T22:59:59Z", f"{last}T23:00:00Z") if winter else (f"{last}T21:59:59Z", f"{last}T22:00:00Z")
    assert entitled(allocation, sent(at), policy=policy).outcome == "payable"
    late = entitled(allocation, sent(after), policy=policy)
    assert (late.outcome, said(late)["announced_too_late"]) == ("refused", "fail")


def test_goods_of_which_delivery_is_not_known_have_no_window_and_a_missing_announcement_is_a_persons() -> None:
    assert entitled(allocated([line(1, 1000)], 1000), sent("2030-01-01T00:00:00Z")).outcome == "payable"
    unsaid = entitled(allocated([line(1, 1000, **SHOP)], 1000), back(("L1", 0, 1)))
    assert said(unsaid) == {"statement_time_unknown": "needs_review"}


@pytest.mark.parametrize(
    ("day", "last"),
    [
        ("2026-05-02T10:00:00Z", "2026-05-18"),  # Saturday 16 May
        ("2026-04-17T10:00:00Z", "2026-05-04"),  # Friday 1 May is a holiday
        ("2024-02-15T10:00:00Z", "2024-02-29"),  # a leap day
        ("2026-03-16T10:00:00Z", "2026-03-30"),  # over the change of the clocks
        ("2026-12-11T10:00:00Z", "2026-12-28"),  # Christmas Day and Boxing Day, then a Sunday
        ("2026-05-11T10:00:00Z", "2026-05-26"),  # Whit Monday
    ],
)
def test_fourteen_days_to_withdraw_end_on_a_working_day(day: str, last: str) -> None:
    told = {"disclosures": {"withdrawal_info_at": "2024-01-01T00:00:00Z"}}
    allocation = allocated([line(1, 1000, delivered_at=day)], 1000, **(EU | told))
    policy = terms(window={"days": 0}, holiday_calendar="DE@2026")
    inside = end_of_day(local_day(f"{last}T12:00:00Z", "Europe/Berlin"), "Europe/Berlin")
    outside = text(parse(inside) + timedelta(seconds=1))
    assert entitled(allocation, sent(inside), policy=policy).outcome == "payable"
    assert entitled(allocation, sent(outside), policy=policy).outcome == "refused"


def test_without_being_told_the_consumer_has_twelve_months_more_and_from_being_told_fourteen_days() -> None:
    untold = allocated([line(1, 1000, **SHOP)], 1000, **(EU | {"disclosures": {}}))
    told = allocated(
        [line(1, 1000, **SHOP)], 1000, **(EU | {"disclosures": {"withdrawal_info_at": "2026-08-01T10:00:00Z"}})
    )
    policy = terms(window={"days": 0})
    outcomes = [
        entitled(one, sent(at), policy=policy).outcome
        for one, at in (
            (untold, "2027-05-18T10:00:00Z"),  # the 16th is a Sunday and the 17th Whit Monday
            (untold, "2027-05-19T10:00:00Z"),
            (told, "2026-08-17T10:00:00Z"),
            (told, "2026-08-18T10:00:00Z"),
        )
    ]
    assert outcomes == ["payable", "refused", "payable", "refused"]


def test_goods_sent_back_more_than_fourteen_days_after_the_announcement_are_a_persons() -> None:
    allocation = allocated([line(1, 1000, **SHOP)], 1000, **EU)
    policy = terms(window={"days": 0})
    on_time = entitled(allocation, sent(DAY, sent=(Sent("2026-05-19T10:00:00Z"),)), policy=policy)
    late = entitled(allocation, sent(DAY, sent=(Sent("2026-05-20T10:00:00Z"),)), policy=policy)
    assert "goods_sent_back_late" not in said(on_time)
    assert said(late)["goods_sent_back_late"] == "needs_review"


@pytest.mark.parametrize(
    ("facts", "statute"),
    [
        ({}, "eu_withdrawal@1"),
        ({"region": "GB"}, "uk_cancellation@1"),
        ({"region": "US-CA"}, "us_default@1"),
        ({"region": "US-TX"}, None),
        ({"customer_type": "business"}, None),
        ({"sale_mode": "in_store"}, None),
    ],
)
def test_the_law_s_track_follows_from_what_the_sale_states(facts: dict[str, Any], statute: str | None) -> None:
    found = entitled(allocated([line(1, 1000)], 1000, **(EU | facts)), sent(DAY))
    assert found.record["track"]["statute"] == statute
    assert found.record["track"]["chosen"] == ("statutory" if statute else "merchant")


def test_final_sale_stops_the_merchant_s_track_and_custom_made_the_law_s_and_neither_faulty_goods() -> None:
    policy = terms(window={"days": 100})
    cases: list[tuple[dict[str, Any], Evidence, str]] = [
        ({"final_sale": True}, sent(DAY), "payable"),
        ({"custom_made": True}, sent(DAY), "payable"),
        ({"final_sale": True, "custom_made": True}, sent(DAY), "refused"),
        ({"final_sale": True, "custom_made": True}, faulty(), "payable"),
    ]
    for attributes, evidence, outcome in cases:
        allocation = allocated([line(1, 1000, attributes=attributes, **SHOP)], 1000, **EU)
        assert entitled(allocation, evidence, policy=policy).outcome == outcome, attributes


def faulty(**facts: Any) -> Evidence:
    return sent(DAY, "faulty", inspected=(Inspected("L1", 0, 1, "M", reason="faulty"),), **facts)


def test_sealed_goods_come_back_unopened_only() -> None:
    allocation = allocated([line(1, 1000, attributes={"sealed_hygiene": True, "final_sale": True}, **SHOP)], 1000, **EU)
    unopened, opened = (replace(sent(DAY), inspected=(Inspected("L1", 0, 1, grade),)) for grade in ("N", "A"))
    assert entitled(allocation, unopened).outcome == "payable"
    assert entitled(allocation, opened).outcome == "refused"


def test_a_repair_comes_first_where_the_policy_says_so_and_is_done_failed_or_waived() -> None:
    allocation = allocated([line(1, 1000, **SHOP)], 1000)
    policy = terms(faulty={"refund_first": False})
    first = entitled(allocation, faulty(), policy=policy)
    assert (first.outcome, first.until) == ("wait", "cure")
    assert entitled(allocation, faulty(cures=(Cure("L1", "failed"),)), policy=policy).outcome == "payable"
    assert entitled(allocation, faulty(cures=(Cure("L1", "waived"),)), policy=policy).outcome == "payable"
    assert entitled(allocation, faulty(cures=(Cure("L1", "done"),)), policy=policy).outcome == "refused"
    assert entitled(allocation, faulty()).outcome == "payable"


def test_thirty_days_to_reject_need_no_repair_first_in_the_united_kingdom() -> None:
    allocation = allocated([line(1, 1000, **SHOP)], 1000, **(EU | {"region": "GB", "zone": "Europe/London"}))
    policy = terms(faulty={"refund_first": False})
    for at, outcome in (("2026-06-01T10:00:00Z", "payable"), ("2026-06-02T10:00:00Z", "wait")):
        evidence = replace(faulty(), units=(CaseUnits("L1", 0, 1, "faulty", at),))
        assert entitled(allocation, evidence, policy=policy).outcome == outcome


def test_after_a_year_a_fault_is_not_presumed_and_after_two_the_law_s_time_is_over() -> None:
    allocation = allocated([line(1, 1000, **SHOP)], 1000, **EU)
    policy = terms(window={"days": 0})
    for at, reasons, outcome in (
        ("2027-05-01T10:00:00Z", set(), "payable"),
        ("2027-05-02T10:00:00Z", {"fault_no_longer_presumed"}, "payable"),
        ("2028-05-03T10:00:00Z", {"announced_too_late"}, "refused"),
    ):
        found = entitled(allocation, replace(faulty(), units=(CaseUnits("L1", 0, 1, "faulty", at),)), policy=policy)
        assert (found.outcome, reasons <= said(found).keys()) == (outcome, True)


CONFLICTS: dict[str, tuple[Evidence, str]] = {
    "more than announced": (Evidence("R", units(("L1", 0, 1)), received(("L1", 2))), "received_more_than_announced"),
    "nobody announced it": (
        Evidence("R", units(("L1", 0, 1)), received(("L1", 1), ("L2", 1))),
        "received_without_announcement",
    ),
    "one parcel booked in twice": (
        Evidence("R", units(("L1", 0, 2)), (Received("L1", 1, "P-7"), Received("L1", 1, "P-7"))),
        "parcel_booked_in_twice",
    ),
    "the wrong item": (replace(back(("L1", 0, 1)), inspected=(Inspected("L1", 0, 1, "X"),)), "another_item_came_back"),
    "two gradings": (
        replace(back(("L1", 0, 1)), inspected=(Inspected("L1", 0, 1, "A"), Inspected("L1", 0, 1, "D"))),
        "grades_differ",
    ),
    "one serial twice": (
        replace(
            back(("L1", 0, 2)),
            inspected=(Inspected("L1", 0, 1, "A", serial="S"), Inspected("L1", 1, 2, "A", serial="S")),
        ),
        "serial_recorded_twice",
    ),
}


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_a_conflict_is_said_and_is_a_manager_s(conflict: str) -> None:
    evidence, reason = CONFLICTS[conflict]
    found = entitled(allocated([line(1, 1000, 3), line(2, 500)], 3500), evidence)
    assert said(found)[reason] == "needs_review"
    assert found.record["route"]["level"] == "manager"
    assert f"evidence.conflict:{reason}" in found.record["route"]["because"]


def test_one_parcel_booked_in_twice_pays_one_arrival() -> None:
    evidence, _ = CONFLICTS["one parcel booked in twice"]
    assert entitled(allocated([line(1, 1000, 3), line(2, 500)], 3500), evidence).total_minor == 1000


def test_another_reason_found_than_given_is_a_persons() -> None:
    evidence = replace(faulty(), units=(CaseUnits("L1", 0, 1, "changed_mind", DAY),))
    assert said(entitled(allocated([line(1, 1000)], 1000), evidence)) == {"another_reason_was_found": "needs_review"}


def test_a_customer_s_word_makes_no_fault_and_a_person_s_finding_does() -> None:
    allocation = allocated([line(1, 1000), line(2, 500, kind="shipping")], 1500)
    policy = terms(shipping={"full_return": "none"})
    claimed = sent(DAY, "faulty")
    assert entitled(allocation, claimed, policy=policy).total_minor == 1000
    assert entitled(allocation, faulty(), policy=policy).total_minor == 1500


FEES = [
    ("gift_wrap", 100),
    ("payment_surcharge", 100),
    ("tip", 0),
    ("donation", 0),
    ("handling", 0),
    ("other", 0),
    ("duty", 100),
]


@pytest.mark.parametrize(("kind", "minor"), FEES)
def test_half_the_goods_take_half_a_fee_along_by_its_type(kind: str, minor: int) -> None:
    allocation = allocated([line(1, 1000, 2), line(2, 200, kind="fee", fee={"type": kind})], 2200)
    assert entitled(allocation, back(("L1", 0, 1))).total_minor == 1000 + minor
    changed = terms(fees={kind: "on_last_unit"}, shipping={"full_return": "full"})
    assert entitled(allocation, back(("L1", 0, 1)), policy=changed).total_minor == 1000
    assert entitled(allocation, back(("L1", 0, 2)), policy=changed).total_minor == 2200


def test_a_fee_for_one_line_goes_back_with_that_line() -> None:
    wrap = {"type": "gift_wrap", "for_lines": ["L2"]}
    allocation = allocated([line(1, 1000), line(2, 500), line(3, 250, kind="fee", fee=wrap)], 1750)
    assert entitled(allocation, back(("L1", 0, 1))).total_minor == 1000
    assert entitled(allocation, back(("L2", 0, 1))).total_minor == 750


@pytest.mark.parametrize(("used", "minor"), [(True, 1000), (False, 1200), (None, 1000)])
def test_an_insurance_goes_back_unused_and_is_a_persons_while_nobody_knows(used: bool | None, minor: int) -> None:
    allocation = allocated([line(1, 1000), line(2, 200, kind="fee", fee={"type": "insurance"})], 1200)
    facts = (("L2", used),) if used is not None else ()
    found = entitled(allocation, replace(back(("L1", 0, 1)), used_fees=facts))
    assert found.total_minor == minor
    assert ("not_known_whether_it_was_used" in said(found)) == (used is None)


def test_what_was_cancelled_before_dispatch_comes_back_whole_with_shipping_and_fees_and_nothing_off() -> None:
    lines = [line(1, 1000, 2), line(2, 590, kind="shipping"), line(3, 200, kind="fee", fee={"type": "insurance"})]
    policy = terms(restocking={"bps": 2000}, label={"minor": {"EUR": 300}})
    allocation = allocated(lines, 2790, disclosures={"restocking_fee": True})
    evidence = Evidence("R-1", units(("L1", 0, 2)), kind="cancellation", parcels_on_our_label=1, not_delivered=("L1",))
    assert entitled(allocation, evidence, policy=policy).total_minor == 2790


def test_goods_that_were_not_delivered_are_cancelled_and_not_returned() -> None:
    found = entitled(allocated([line(1, 1000)], 1000), replace(back(("L1", 0, 1)), not_delivered=("L1",)))
    assert (found.outcome, found.until) == ("wait", "cancellation")


@pytest.mark.parametrize(
    ("policy", "sale", "minor"),
    [
        ({"bps": 1500}, {"restocking_fee": True}, 8500),
        ({"bps": 1500}, {"restocking_fee": False}, 10_000),
        ({"bps": 1500}, {}, 10_000),
        ({"bps": 1500, "flat_minor": {"EUR": 200}}, {"restocking_fee": True}, 8300),
        ({"bps": 1500, "max_minor": {"EUR": 900}}, {"restocking_fee": True}, 9100),
        ({"flat_minor": {"EUR": 200}}, {"restocking_fee": True}, 9800),
        ({"bps": 1500, "reasons": ["size"]}, {"restocking_fee": True}, 10_000),
    ],
)
def test_a_restocking_fee_is_what_was_told_at_the_sale(
    policy: dict[str, Any], sale: dict[str, Any], minor: int
) -> None:
    allocation = allocated([line(1, 10_000, tax_minor=1597)], 10_000, disclosures=sale)
    assert entitled(allocation, back(("L1", 0, 1)), policy=terms(restocking=policy)).total_minor == minor


def test_no_restocking_fee_for_a_fault_nor_on_a_withdrawal() -> None:
    policy = terms(restocking={"bps": 1500, "reasons": ["faulty", "changed_mind"]}, window={"days": 300})
    told = {"disclosures": {"restocking_fee": True, "withdrawal_info_at": "2026-04-20T18:02:20Z"}}
    consumer = allocated([line(1, 10_000, **SHOP)], 10_000, **(EU | told))
    broken = allocated([line(1, 10_000)], 10_000, **told)
    assert entitled(consumer, sent(DAY), policy=policy).total_minor == 10_000
    assert entitled(broken, faulty(), policy=policy).total_minor == 10_000


def test_grade_c_of_the_merchant_s_policy_comes_off_its_own_unit_and_a_missing_photo_is_said() -> None:
    allocation = allocated([line(1, 1000, 4, tax_minor=639)], 4000)
    evidence = replace(back(("L1", 0, 4)), inspected=(Inspected("L1", 0, 2, "A"), Inspected("L1", 2, 4, "C")))
    found = entitled(allocation, evidence, policy=terms(grade_bps={"C": 3000}))
    assert pieces(found, "deductions.diminished") == [(-600, -96)]
    assert (found.record["claimed"], found.record["retained"], found.payable_by_line) == (
        {"L1": 4000},
        {"L1": 600},
        {"L1": 3400},
    )
    assert said(found) == {"no_photo_or_note": "needs_review"}
    assert found.record["route"]["level"] == "staff"


def test_several_tax_codes_are_peeled_one_after_the_other_and_sum_to_the_tax() -> None:
    codes = [{"code": "GST", "rate_ppm": 50_000}, {"code": "PST", "rate_ppm": 70_000}]
    allocation = allocated([line(1, 1000, 3, tax_minor=None, taxes=codes)], 3360, price_mode="exclusive")
    evidence = replace(back(("L1", 0, 2)), inspected=(Inspected("L1", 1, 2, "C"),))
    found = entitled(allocation, evidence, policy=terms(grade_bps={"C": 3333}))
    for one in found.record["lines"]:
        assert sum(one["tax"]["codes"].values()) == one["tax"]["minor"]
    assert found.record["lines"][-1]["tax"]["codes"] == {"GST": -17, "PST": -23}


def test_an_allowance_that_settled_its_unit_leaves_a_later_arrival_nothing() -> None:
    allocation = allocated([line(1, 1000, 2)], 2000)
    kept = Evidence("R-1", units(("L1", 0, 1)), kind="keep_item", asks=(Ask("L1", 0, 1, minor=900),))
    policy = terms(keep_item={"max_bps": 5000, "max_minor": {"EUR": 400}})
    first = entitled(allocation, kept, policy=policy)
    assert (first.total_minor, said(first)) == (400, {"above_the_policy_s_maximum": "needs_review"})
    later = entitled(allocation, back(("L1", 0, 2)), allowances=(Allowance("L1", 400, 0, 1, closes=True),))
    assert (later.total_minor, said(later)["settled_by_an_allowance"]) == (1000, "fail")


def test_signals_raise_the_route_step_by_step_and_change_no_amount() -> None:
    allocation, evidence = allocated([line(1, 1000)], 1000), back(("L1", 0, 1))
    for signals, level in (
        ((), "staff"),
        ((("refunds_30d", 2),), "staff"),
        ((("refunds_30d", 3),), "manager"),
        ((("account_age_days", 6),), "manager"),
        ((("account_age_days", 7),), "staff"),
        ((("refunds_30d", 3), ("grade_x_ever", 1)), "two_managers"),
    ):
        found = entitled(allocation, evidence, signals=signals)
        assert (found.record["route"]["level"], found.total_minor) == (level, 1000), signals


def test_thresholds_see_what_is_paid_beside_it_and_two_managers_decide_the_largest() -> None:
    policy = terms(routes={"manager_from_minor": {"EUR": 5000}, "two_managers_from_minor": {"EUR": 9000}})
    allocation, evidence = allocated([line(1, 1000)], 1000), back(("L1", 0, 1))
    for beside, level in ((0, "staff"), (3999, "staff"), (4000, "manager"), (8000, "two_managers")):
        assert entitled(allocation, evidence, policy=policy, beside_minor=beside).record["route"]["level"] == level


def test_money_before_receipt_above_the_policy_s_maximum_is_a_manager_s() -> None:
    policy = terms(refund_trigger="announced", advance_max_minor={"EUR": 1000})
    for price, level in ((1000, "staff"), (1001, "manager")):
        found = entitled(allocated([line(1, price)], price), Evidence("R-1", units(("L1", 0, 1))), policy=policy)
        assert (found.record["route"]["level"], found.outcome) == (level, "payable")


@pytest.mark.parametrize(
    ("trigger", "proof", "outcome"),
    [
        ("proof_of_sending", (Sent(DAY),), "payable"),
        ("proof_of_sending", (), "wait"),
        ("carrier_scan", (Sent(DAY),), "wait"),
        ("carrier_scan", (Sent(DAY, by_carrier=True),), "payable"),
        ("received", (Sent(DAY, by_carrier=True),), "wait"),
    ],
)
def test_the_policy_says_which_proof_sets_the_refund_off(trigger: str, proof: tuple[Sent, ...], outcome: str) -> None:
    evidence = Evidence("R-1", units(("L1", 0, 1)), sent=proof)
    assert entitled(allocated([line(1, 1000)], 1000), evidence, policy=terms(refund_trigger=trigger)).outcome == outcome


def test_without_a_policy_nothing_is_decided() -> None:
    found = derive(allocated([line(1, 1000)], 1000), back(("L1", 0, 1)), Priors((state("c1", 1000),)), None, NOON)
    assert check(found.record) == []
    assert (found.outcome, found.total_minor, said(found)["no_policy_in_force"]) == ("needs_review", 0, "needs_review")


def test_another_customer_s_order_owes_nothing() -> None:
    evidence = replace(back(("L1", 0, 1)), customer_ref="c_000")
    assert entitled(allocated([line(1, 1000)], 1000), evidence).outcome == "refused"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"refund_trigger": "whenever"}, "refund_trigger"),
        ({"window": {"days": -1}}, "window.days"),
        ({"window": {"days": "30"}}, "window.days"),
        ({"grade_bps": {"C": 10_001}}, "grade_bps.C"),
        ({"restocking": {"bps": 1.5}}, "restocking.bps"),
        ({"label": {"minor": {"euro": 3}}}, "label.minor.euro.[key]"),
        ({"generous": True}, "generous"),
        ({"policy_id": "Two Words"}, "policy_id"),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused_by_the_field_s_name(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(TermsRefused) as refused:
        read_terms(BASE | changed)
    assert [problem.field for problem in refused.value.problems] == [field]


def test_the_defaults_are_the_specification_s_and_are_cited_with_their_digest() -> None:
    found = read_terms({"policy_id": "p", "version": 1})
    assert (found.refund_trigger, found.window.days, found.shipping.full_return) == ("inspected", 30, "standard")
    assert (found.grade_bps, found.tender_order) == ({"C": 3000, "D": 10_000}, "external_first")
    assert found.cited.startswith("p@1 sha256:")
    assert read_terms(found.document()).cited == found.cited


def test_the_order_inside_a_class_of_payments_is_the_policy_s() -> None:
    captures = [state("a", 300, position=2), state("b", 500, position=1), state("c", 400, position=3)]
    for turn, first in (("largest_first", "b"), ("last_first", "c"), ("first_first", "b")):
        drawn, short = draws_of(100, "EUR", captures, "external_first", turn)
        assert ([one.capture_id for one in drawn], short) == ([first], 0)


def test_calendar_days_months_and_working_days() -> None:
    day = local_day("2026-01-31T12:00:00Z", "Europe/Berlin")
    assert add_months(day, 1).isoformat() == "2026-02-28"
    assert add_months(day, 11).isoformat() == "2026-12-31"
    assert [months_between(day, add_months(day, n)) for n in (0, 1, 2, 12, 25)] == [0, 1, 2, 12, 25]
    assert months_between(add_months(day, 2), day) == 0
    assert next_working_day(local_day("2026-04-03T12:00:00Z", "UTC"), "DE@2026").isoformat() == "2026-04-07"
    assert working_days_after(local_day("2026-05-13T12:00:00Z", "UTC"), 7, "DE@2026").isoformat() == "2026-05-26"
    assert {one.isoformat() for one in holidays("DE", 2026)} == {
        "2026-01-01", "2026-04-03", "2026-04-06", "2026-05-01", "2026-05-14", "2026-05-25", "2026-10-03", "2026-12-25",
        "2026-12-26",
    }  # fmt: skip


def test_by_when_it_has_to_be_paid() -> None:
    allocation = allocated([line(1, 1000)], 1000)
    assert entitled(allocation, sent(DAY)).due_at == "2026-05-19T21:59:59Z"
    assert entitled(allocation, back(("L1", 0, 1))).due_at is None
    consumer = allocated([line(1, 1000)], 1000, **EU)
    late = sent(DAY, booked="2026-05-28T10:00:00Z")
    assert entitled(consumer, late).due_at == "2026-05-28T21:59:59Z"
    assert entitled(consumer, sent(DAY)).due_at is None
    assert entitled(consumer, sent(DAY, collection_offered=True)).due_at == "2026-05-19T21:59:59Z"


def test_a_capture_of_the_replaced_order_is_never_asked_for_more_than_it_holds() -> None:
    allocation = allocated([line(1, 6250)], 6250, captures=[capture("c1", 7000, order_minor=6250)])
    held = [state("c1", 7000, order_minor=6250, available_minor=6000)]
    found = entitled(allocation, back(("L1", 0, 1)), held, TERMS)
    assert (found.draws[0].minor, found.shortfall_minor) == (6000, 250)


def test_shipping_that_was_paid_back_alone_and_above_the_standard_is_not_charged_again() -> None:
    shipping = line(2, 790, kind="shipping", shipping={"standard_offered_minor": 490})
    allocation = allocated([line(1, 1000), shipping], 1790)
    alone = (PriorClaim("R-0", "L2", 0, 1, 790),)
    policy = terms(shipping={"full_return": "standard"})
    found = entitled(allocation, back(("L1", 0, 1)), [state("c1", 1790, available_minor=1000)], policy, claims=alone)
    assert (found.total_minor, pieces(found, "shipping.full_return")) == (1000, [(0, 0)])
    assert entitled(allocation, back(("L1", 0, 1)), policy=policy).total_minor == 1490


def test_a_label_is_borne_by_the_goods_and_what_they_do_not_hold_by_the_shipping_that_goes_back() -> None:
    shop = terms(label={"minor": {"EUR": 650}}, shipping={"full_return": "full", "partial_return": "on_last_unit"})
    post = line(2, 490) | {"kind": "shipping", "line_ref": "SHIP"}

    def owed(price: int) -> tuple[int, dict[str, int]]:
        evidence = Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)), parcels_on_our_label=1)
        found = entitled(allocated([line(1, price), post], price + 490), evidence, policy=shop)
        return found.total_minor, found.payable_by_line

    assert owed(420) == (260, {"L1": 0, "SHIP": 260})
    assert owed(2000) == (1840, {"L1": 1350, "SHIP": 490})


def test_a_gift_that_was_kept_takes_the_tax_of_its_value_with_it_by_code() -> None:
    facts = promo(1900, {"type": "free_gift", "gift_line": "L2"}, "L1", "L2", name="GIFT")
    taxes = [{"code": "STATE", "rate_ppm": 150_000, "minor": 1875}, {"code": "CITY", "rate_ppm": 50_000, "minor": 625}]
    lines = [line(1, 15_000, tax_minor=2500, taxes=taxes), line(2, 1900)]
    kept = entitled(
        allocated(lines, 15_000, **facts, disclosures={"gift_condition": True}), back(("L1", 0, 1)),
        policy=terms(promo={"gift_kept": "deduct_value"}),
    )  # fmt: skip
    assert (kept.total_minor, kept.tax_minor) == (13_100, 2183)
    assert [one["tax"]["codes"] for one in kept.record["lines"] if one["rule"] == "promo.gift_kept"] == [
        {"STATE": -238, "CITY": -79}
    ]


def test_a_warranty_that_gives_a_part_gives_the_tax_of_that_part() -> None:
    allocation = allocated([line(1, 14_900, tax_minor=2379, delivered_at="2022-01-10T10:00:00Z")], 14_900)
    failed = Evidence("R-1", units(("L1", 0, 1)), kind="warranty", asks=(Ask("L1", failed_at="2025-06-12T10:00:00Z"),))
    found = entitled(allocation, failed, policy=terms(warranty={"months": 60, "full_months": 24, "method": "prorata"}))
    assert (found.total_minor, found.tax_minor) == (4718, 753)


def test_of_equal_remainders_the_larger_value_takes_the_minor_unit_that_is_left() -> None:
    assert discount_shares("value.largest_remainder@1", 2, [100, 300], [1, 1], [100, 300]) == [0, 2]
    assert discount_shares("value.largest_remainder@1", 1, [200, 200], [1, 1], [200, 200]) == [1, 0]
    assert discount_shares("value.largest_remainder@1", 1, [100, 300], [1, 1], [100, 300]) == [0, 1]
