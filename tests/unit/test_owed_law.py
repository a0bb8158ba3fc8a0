"""What the law's presets give by country: holidays, longer times for faults, used goods, deadlines of the United States."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from ledger.calendar_days import CALENDARS, holidays
from ledger.entitlement import Entitlement
from ledger.entitlement_explain import explain
from ledger.entitlement_facts import CaseUnits, Cure, Evidence, Inspected, Received, Sent
from tests.engine import allocated, capture, entitled, line, received, state, terms
from tests.unit.test_owed_examples import EU

NO_WINDOW = terms(window={"days": 0})
DAY = "2026-05-05T10:00:00Z"
SHOP: dict[str, Any] = {"delivered_at": "2026-05-02T10:00:00Z"}


def said(found: Entitlement) -> dict[str, str]:
    return {one.reason_code: one.status for one in found.rules if one.status != "pass" and "track" not in one.scope}


def returned(at: str, *rows: Inspected, booked: str | None = None, **facts: Any) -> Evidence:
    return Evidence("R-1", (CaseUnits("L1", 0, 1, None, at),), (Received("L1", 1, at=booked),), rows, **facts)


def sold(region: str, delivered: str = "2026-05-02T10:00:00Z", price: int = 1000, **facts: Any) -> Any:
    attributes = {"attributes": facts.pop("attributes")} if "attributes" in facts else {}
    sale = EU | {"region": region} | facts
    return allocated([line(1, price, delivered_at=delivered, **attributes)], price, **sale)


HOLIDAYS = {
    "AT": [
        "01-01",
        "01-06",
        "05-01",
        "08-15",
        "10-26",
        "11-01",
        "12-08",
        "12-25",
        "12-26",
        "04-06",
        "05-14",
        "05-25",
        "06-04",
    ],
    "BE": ["01-01", "05-01", "07-21", "08-15", "11-01", "11-11", "12-25", "04-06", "05-14", "05-25"],
    "ES": ["01-01", "01-06", "05-01", "08-15", "10-12", "11-01", "12-06", "12-08", "12-25", "04-03"],
    "FR": ["01-01", "05-01", "05-08", "07-14", "08-15", "11-01", "11-11", "12-25", "04-06", "05-14", "05-25"],
    "IT": ["01-01", "01-06", "04-25", "05-01", "06-02", "08-15", "10-04", "11-01", "12-08", "12-25", "12-26", "04-06"],
    "NL": ["01-01", "04-27", "05-05", "12-25", "12-26", "04-03", "04-06", "05-14", "05-25"],
    "US": ["01-01", "01-19", "02-16", "05-25", "06-19", "07-04", "09-07", "10-12", "11-11", "11-26", "12-25"],
}


@pytest.mark.parametrize("country", HOLIDAYS)
def test_the_holidays_of_2026_country_by_country(country: str) -> None:
    assert {day.isoformat()[5:] for day in holidays(country, 2026)} == set(HOLIDAYS[country])
    assert set(HOLIDAYS) | {"DE"} == CALENDARS


def test_holidays_that_move_when_they_fall_on_a_sunday_and_one_that_is_new() -> None:
    assert date(2025, 4, 26) in holidays("NL", 2025)
    assert date(2025, 4, 27) not in holidays("NL", 2025)
    assert date(2027, 7, 5) in holidays("US", 2027)
    assert date(2027, 7, 4) not in holidays("US", 2027)
    assert date(2025, 10, 4) not in holidays("IT", 2025)


def test_without_a_calendar_of_the_policy_the_holidays_of_the_sale_s_country_move_the_last_day() -> None:
    """Delivered on 30 April 2026 the last day is 14 May, Ascension in Germany and a Thursday like any other in Italy."""
    for region, outcome in (("DE", "payable"), ("IT", "refused")):
        found = entitled(sold(region, "2026-04-30T10:00:00Z"), returned("2026-05-15T10:00:00Z"), policy=NO_WINDOW)
        assert found.outcome == outcome, region
    fixed = terms(window={"days": 0}, holiday_calendar="IT@2026")
    assert (
        entitled(sold("DE", "2026-04-30T10:00:00Z"), returned("2026-05-15T10:00:00Z"), policy=fixed).outcome
        == "refused"
    )


def test_where_the_country_s_holidays_are_not_known_here_a_statement_just_late_is_a_persons_and_a_later_one_is_late() -> (
    None
):
    def at(day: str) -> Entitlement:
        return entitled(sold("PL", "2026-04-30T10:00:00Z"), returned(f"{day}T10:00:00Z"), policy=NO_WINDOW)

    assert (at("2026-05-14").outcome, said(at("2026-05-14"))) == ("payable", {})
    assert (at("2026-05-15").outcome, said(at("2026-05-15"))) == (
        "payable",
        {"holidays_of_the_country_unknown": "needs_review"},
    )
    assert (at("2026-05-22").outcome, said(at("2026-05-22"))["announced_too_late"]) == ("refused", "fail")


def broken(at: str, **facts: Any) -> Evidence:
    return returned(at, Inspected("L1", 0, 1, "M", reason="faulty"), **facts)


@pytest.mark.parametrize(
    ("region", "at", "outcome", "review"),
    [
        ("DE", "2028-05-02T10:00:00Z", "payable", False),
        ("DE", "2028-05-03T10:00:00Z", "refused", False),
        ("ES", "2029-05-02T10:00:00Z", "payable", False),
        ("ES", "2029-05-03T10:00:00Z", "refused", False),
        ("NL", "2028-05-02T10:00:00Z", "payable", False),
        ("NL", "2030-05-02T10:00:00Z", "payable", True),
    ],
)
def test_faults_have_two_years_in_germany_three_in_spain_and_after_two_a_person_in_the_netherlands(
    region: str, at: str, outcome: str, *, review: bool
) -> None:
    found = entitled(sold(region), broken(at), policy=NO_WINDOW)
    assert (found.outcome, "longer_by_country" in said(found)) == (outcome, review)


@pytest.mark.parametrize(
    ("cure", "outcome"),
    [
        (Cure("L1", "failed", "repair", "2027-02-01T10:00:00Z"), "payable"),
        (Cure("L1", "failed", "repair", "2026-07-30T10:00:00Z"), "refused"),
        (Cure("L1", "failed", "replacement", "2027-02-01T10:00:00Z"), "refused"),
        (Cure("L2", "failed", "repair", "2027-02-01T10:00:00Z"), "refused"),
    ],
)
def test_a_repair_since_31_july_2026_adds_twelve_months_once(cure: Cure, outcome: str) -> None:
    assert entitled(sold("DE"), broken("2029-05-02T10:00:00Z", cures=(cure,)), policy=NO_WINDOW).outcome == outcome
    twice = (cure, replace(cure, at="2027-03-01T10:00:00Z"))
    assert entitled(sold("DE"), broken("2029-05-03T10:00:00Z", cures=twice), policy=NO_WINDOW).outcome == "refused"


def test_the_use_of_a_vehicle_is_a_persons_at_any_time_in_the_united_kingdom() -> None:
    britain: dict[str, Any] = {"zone": "Europe/London"}
    car = entitled(sold("GB", attributes={"motor_vehicle": True}, **britain), broken(DAY))
    assert (car.total_minor, said(car)) == (1000, {"use_of_a_vehicle": "needs_review"})
    assert said(entitled(sold("GB", attributes={"motor_vehicle": False}, **britain), broken(DAY))) == {}
    assert said(entitled(sold("DE", attributes={"motor_vehicle": True}), broken(DAY))) == {}


UNTOLD: dict[str, Any] = {"disclosures": {}, "zone": "America/New_York"}


@pytest.mark.parametrize(
    ("region", "grade", "minor"),
    [
        ("US-NY", "A", 1000),
        ("US-NY", "N", 1000),
        ("US-NY", "B", 0),
        ("US-NY", "D", 0),
        ("US-NY", None, 0),
        ("US-CA", "D", 1000),
    ],
)
def test_new_york_s_thirty_days_give_10_00_for_unused_goods_and_nothing_for_used_ones(
    region: str, grade: Any, minor: int
) -> None:
    rows = (Inspected("L1", 0, 1, grade, photos=1, note="worn"),) if grade else ()
    found = entitled(sold(region, **UNTOLD), returned(DAY, *rows), policy=NO_WINDOW)
    assert (found.total_minor, found.record["track"]["statute"]) == (minor, "us_default@1")
    assert found.until == (None if grade or minor else "inspected:L1[0,1)")


def test_a_gift_card_that_was_sold_is_a_persons_who_knows_whether_it_was_spent() -> None:
    for attributes, review in (({"gift_card": True}, True), ({"gift_card": False}, False)):
        allocation = allocated([line(1, 5000, attributes=attributes)], 5000)
        found = entitled(allocation, Evidence("R-1", (CaseUnits("L1", 0, 1),), received(("L1", 1))))
        assert (found.total_minor, "whether_it_was_spent" in said(found)) == (5000, review)
        assert found.record["route"]["level"] == "staff"


TOLD: dict[str, Any] = {"disclosures": {"terms_version": "t-1"}, "zone": "America/Chicago"}


def test_a_consumer_in_the_united_states_has_a_card_credited_within_seven_business_days_of_the_return() -> None:
    """Thursday 21 May 2026, then Memorial Day on Monday: the seventh business day is Tuesday 2 June."""
    evidence = returned("2026-05-18T16:00:00Z", booked="2026-05-21T16:00:00Z")
    policy = terms(pay_within_days=30)
    assert entitled(sold("US-TX", **TOLD), evidence, policy=policy).due_at == "2026-06-03T04:59:59Z"
    assert entitled(sold("US-TX", **TOLD), evidence, policy=terms(pay_within_days=5)).due_at == "2026-05-24T04:59:59Z"
    for business in (sold("US-TX", customer_type="business", **TOLD), sold("CH", **TOLD)):
        assert entitled(business, evidence, policy=policy).due_at == "2026-06-18T04:59:59Z"
    by_gift_card = sold("US-TX", captures=[capture("g", 1000, tender="gift_card")], **TOLD)
    held = [state("g", 1000, tender="gift_card")]
    assert entitled(by_gift_card, evidence, held, policy).due_at == "2026-06-18T04:59:59Z"


def test_what_was_never_shipped_in_the_united_states_goes_back_within_seven_working_days_of_the_cancellation() -> None:
    evidence = Evidence(
        "R-1", (CaseUnits("L1", 0, 1, None, "2026-05-18T16:00:00Z"),), kind="cancellation", not_delivered=("L1",)
    )
    assert entitled(sold("US-TX", **TOLD), evidence, policy=terms(pay_within_days=30)).due_at == "2026-05-29T04:59:59Z"


@pytest.mark.parametrize(
    ("booked", "sent", "reason"),
    [
        ("2026-04-02T10:00:00Z", (), "came_back_before_delivery"),
        ("2026-05-08T10:00:00Z", (Sent("2026-05-01T10:00:00Z", "P-1"),), "sent_back_before_delivery"),
        ("2026-05-08T10:00:00Z", (Sent("2026-05-09T10:00:00Z", "P-1"),), "received_before_it_was_sent"),
        ("2026-05-02T08:00:00Z", (), None),
        ("2026-05-08T10:00:00Z", (Sent("2026-05-06T10:00:00Z", "P-1"),), None),
        ("2026-05-08T10:00:00Z", (Sent("2026-05-09T10:00:00Z", "P-2"),), None),
    ],
)
def test_dates_that_cannot_be_are_a_contradiction_that_a_manager_settles(
    booked: str, sent: tuple[Sent, ...], reason: str | None
) -> None:
    evidence = Evidence("R-1", (CaseUnits("L1", 0, 1, None, DAY),), (Received("L1", 1, "P-1", booked),), sent=sent)
    found = entitled(allocated([line(1, 1000, **SHOP)], 1000), evidence)
    assert found.total_minor == 1000
    assert said(found) == ({reason: "needs_review"} if reason else {})
    assert found.record["route"]["level"] == ("manager" if reason else "staff")


@pytest.mark.parametrize(
    ("days", "look_by", "overruns"),
    [(3, "2026-05-21T21:59:59Z", False), (5, "2026-05-23T21:59:59Z", True)],
)
def test_goods_that_are_here_are_looked_at_within_the_policy_s_days_and_before_the_law_s_are_over(
    days: int, look_by: str, *, overruns: bool
) -> None:
    """Said on 7 May 2026 it is due on the 21st; the goods came on the 18th."""
    evidence = returned("2026-05-07T10:00:00Z", booked="2026-05-18T10:00:00Z")
    policy = terms(refund_trigger="inspected", inspect_within_days=days)
    found = entitled(sold("DE"), evidence, policy=policy)
    assert (found.outcome, found.due_at) == ("wait", "2026-05-21T21:59:59Z")
    assert (found.record["inspect_by"], "looking_may_overrun" in said(found)) == (look_by, overruns)
    assert f"what is here is looked at by {look_by}" in explain(found.record)
    seen = entitled(sold("DE"), replace(evidence, inspected=(Inspected("L1", 0, 1, "A"),)), policy=policy)
    assert ("inspect_by" in seen.record, "looking_may_overrun" in said(seen)) == (False, False)
    on_receipt = entitled(sold("DE"), evidence, policy=terms(inspect_within_days=days))
    assert ("inspect_by" in on_receipt.record, "looking_may_overrun" in said(on_receipt)) == (False, False)


@pytest.mark.parametrize(
    "easter",
    ["1961-04-02", "2000-04-23", "2008-03-23", "2019-04-21", "2024-03-31", "2025-04-20", "2027-03-28", "2028-04-16", "2038-04-25",
     "2049-04-18", "2076-04-19", "2100-03-28"],
)  # fmt: skip
def test_easter_monday_ascension_and_whit_monday_follow_easter(easter: str) -> None:
    sunday = date.fromisoformat(easter)
    assert {sunday + timedelta(days=days) for days in (1, 39, 50)} <= holidays("BE", sunday.year)


def test_of_two_parcels_the_first_begins_the_seven_business_days() -> None:
    evidence = Evidence(
        "R-1", (CaseUnits("L1", 0, 1, None, "2026-05-18T16:00:00Z"),),
        (Received("L1", 1, "P-1", "2026-05-21T16:00:00Z"), Received("L1", 0, "P-2", "2026-05-19T16:00:00Z"),
         Received("L1", 1, "P-3", "2026-05-26T16:00:00Z")),
    )  # fmt: skip
    found = entitled(sold("US-TX", **TOLD), evidence, policy=terms(pay_within_days=30))
    assert found.due_at == "2026-06-03T04:59:59Z"


def test_in_the_united_kingdom_fourteen_days_run_from_the_first_of_what_was_sent_and_what_arrived() -> None:
    evidence = returned(DAY, booked="2026-05-12T10:00:00Z", sent=(Sent("2026-05-08T10:00:00Z", "P-1"),))
    found = entitled(sold("GB", zone="Europe/London"), evidence, policy=NO_WINDOW)
    assert found.due_at == "2026-05-22T22:59:59Z"
