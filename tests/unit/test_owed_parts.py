"""A return of goods of several categories: each under its own policy, summed, shipping and label once by the largest part's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.canonical import digest
from ledger.entitlement import RECORD_TAG, Entitlement, derive
from ledger.entitlement_check import check
from ledger.entitlement_explain import explain
from ledger.entitlement_facts import CaseUnits, Evidence, Inspected, Priors, Received
from ledger.policy_terms import PolicyTerms, TermsOfLines, read_terms
from tests.engine import BASE, NOON, allocated, back, entitled, line, received, state, terms, units

COATS: dict[str, Any] = {
    "policy_id": "coats", "shipping": {"full_return": "full", "partial_return": "on_last_unit"},
    "label": {"minor": {"EUR": 400}, "payer_by_reason": {"changed_mind": "customer"}}, "grade_bps": {"C": 3000},
}  # fmt: skip
LAMPS: dict[str, Any] = {
    "policy_id": "lamps", "version": 7, "shipping": {"full_return": "none"}, "label": {"minor": {"EUR": 900}},
    "grade_bps": {"C": 5000}, "restocking": {"bps": 1000},
}  # fmt: skip
DELIVERED: dict[str, Any] = {"delivered_at": "2026-05-02T10:00:00Z"}


def both(upper: dict[str, Any] | None = None, lower: dict[str, Any] | None = None) -> PolicyTerms:
    """Coats decide every line but L2, which lamps do."""
    lamps = read_terms(BASE | LAMPS | (lower or {}))
    return terms(**(COATS | (upper or {}))).model_copy(update={"parts": (TermsOfLines(lines=("L2",), terms=lamps),)})


def sold(**facts: Any) -> Any:
    """Two coats at 50.00, a lamp at 80.00, and 5.00 of shipping."""
    post = {"line_ref": "L3", "position": 3, "kind": "shipping", "title": "Post", "sku": "POST", "quantity": 1,
            "unit_price_minor": 500, "tax_minor": 0}  # fmt: skip
    told = {"restocking_fee": True, "return_cost_on_consumer": True}
    lines = [line(1, 5000, 2, **DELIVERED), line(2, 8000, **DELIVERED), post]
    return allocated(lines, 18500, **({"disclosures": told} | facts))


def worn(*lines: str, **facts: Any) -> Evidence:
    """Everything came back with our one label, and these lines used."""
    whole = back(("L1", 0, 2), ("L2", 0, 1))
    seen = tuple(Inspected(one, 0, 2 if one == "L1" else 1, "C", photos=1, note="worn") for one in lines)
    return replace(whole, inspected=seen, parcels_on_our_label=1, **facts)


def test_each_category_bears_what_its_own_policy_takes_and_shipping_and_label_are_the_largest_one_s() -> None:
    found = entitled(sold(), worn("L1", "L2"), policy=both())
    minors = [(one["rule"], one["ref"], one["minor"]) for one in found.record["lines"]]
    assert minors == [
        ("goods.units", "L1[0,2)", 10000),
        ("goods.units", "L2[0,1)", 8000),
        ("shipping.full_return", "L3", 500),
        ("deductions.diminished", "L1[0,2)", -3000),
        ("deductions.diminished", "L2[0,1)", -4000),
        ("deductions.restocking", "case", -800),
        ("deductions.label", "case", -400),
    ]
    # The label is spread over both by what was charged: 222 and 178.
    assert found.record["policies"] == [
        {"policy": "coats@3", "lines": ["L1"], "minor": 10000 + 500 - 3000 - 222},
        {"policy": "lamps@7", "lines": ["L2"], "minor": 8000 - 4000 - 800 - 178},
    ]
    assert found.total_minor == 10300


def test_a_person_looks_at_what_several_policies_come_to_and_the_record_names_them_all() -> None:
    found = entitled(sold(), worn(), policy=both())
    said = [one for one in found.rules if one.id == "policy.found"]
    assert [(one.status, one.reason_code, one.facts) for one in said] == [
        ("needs_review", "several_categories", ("policy:coats@3", "policy:lamps@7"))
    ]
    assert found.outcome == "payable"
    lines = explain(found.record)
    assert "policy coats@3 decides L1: 103.00 EUR" not in lines, "the label comes off"
    assert "policy coats@3 decides L1: 102.78 EUR" in lines
    assert "policy lamps@7 decides L2: 70.22 EUR" in lines


def test_under_one_policy_nobody_is_asked_and_the_record_is_the_one_of_before() -> None:
    found = entitled(sold(), worn(), policy=terms(**COATS))
    assert "policies" not in found.record
    assert [(one.status, one.reason_code) for one in found.rules if one.id == "policy.found"] == [("pass", "holds")]


def test_each_category_waits_for_what_its_own_policy_waits_for() -> None:
    evidence = Evidence("R-1", units(("L1", 0, 2), ("L2", 0, 1)))
    found = entitled(sold(), evidence, policy=both({"refund_trigger": "announced"}, {"refund_trigger": "inspected"}))
    assert [(one["ref"], one["minor"]) for one in found.record["lines"] if one["minor"]] == [("L1[0,2)", 10000)]
    # Once a parcel is booked in, what came is the ceiling of every line, whatever its policy pays at.
    booked = replace(evidence, received=received(("L2", 1)))
    found = entitled(sold(), booked, policy=both({"refund_trigger": "announced"}, {"refund_trigger": "received"}))
    assert [(one["ref"], one["minor"]) for one in found.record["lines"] if one["rule"] == "goods.units"] == [
        ("L2[0,1)", 8000)
    ]


def test_what_arrived_of_another_category_is_no_surprise_and_what_nobody_announced_is() -> None:
    found = entitled(sold(), worn(), policy=both())
    assert not [one for one in found.rules if one.id == "evidence.conflict" and one.status != "pass"]
    only_coats = replace(back(("L1", 0, 2)), received=(Received("L1", 2), Received("L2", 1)))
    found = entitled(sold(), only_coats, policy=both())
    assert [one.reason_code for one in found.rules if one.id == "evidence.conflict"] == [
        "received_without_announcement"
    ]


@pytest.mark.parametrize(
    ("upper", "lower", "level"),
    [
        ({}, {}, "staff"),
        ({}, {"routes": {"manager_from_minor": {"EUR": 5000}}}, "manager"),
        ({}, {"routes": {}}, "manager"),
        ({"routes": {"manager_from_minor": {"EUR": 5000}}}, {}, "manager"),
        ({}, {"routes": {"manager_from_minor": {"EUR": 1}, "two_managers_from_minor": {"EUR": 2}}}, "two_managers"),
    ],
)
def test_the_strictest_of_the_policies_says_who_decides(
    upper: dict[str, Any], lower: dict[str, Any], level: str
) -> None:
    found = entitled(sold(), worn(), policy=both(upper, lower))
    assert found.record["route"]["level"] == level
    assert found.total_minor == 17300, "it changes no amount"


def test_where_the_policies_name_different_laws_nothing_is_paid_before_a_person_looked() -> None:
    sale = sold(customer_type="consumer", sale_mode="distance")
    evidence = replace(
        worn(),
        units=(
            CaseUnits("L1", 0, 2, None, "2026-05-05T10:00:00Z"),
            CaseUnits("L2", 0, 1, None, "2026-05-05T10:00:00Z"),
        ),
    )
    same = entitled(sale, evidence, policy=both())
    assert (same.record["track"]["chosen"], same.outcome) == ("statutory", "payable")
    apart = entitled(sale, evidence, policy=both({}, {"statutes": []}))
    assert apart.outcome == "needs_review"
    assert "statutes_differ_by_category" in [one.reason_code for one in apart.rules]


def test_where_the_policies_say_two_things_of_one_promotion_nothing_is_paid_before_a_person_looked() -> None:
    promo = {"id": "TEN", "minor": 1000, "applies_to": ["L1", "L2"], "promo": {"type": "threshold_amount", "min_goods_minor": 15000,
             "off_minor": 1000}}  # fmt: skip
    sale = sold(order_discounts=[promo], total_minor=17500, captures=[])
    same = entitled(sale, worn(), [state("c1", 17500)], policy=both())
    assert same.outcome == "payable"
    apart = entitled(sale, worn(), [state("c1", 17500)], policy=both({}, {"promo": {"threshold": "reprice_kept"}}))
    assert apart.outcome == "needs_review"
    assert "promotions_under_several_policies" in [one.reason_code for one in apart.rules]


def test_it_is_derived_again_from_its_stored_inputs_and_they_hold_every_policy() -> None:
    found = entitled(sold(), worn("L2"), policy=both())
    again = derive(*found.inputs.read(), NOON)
    assert again.digest == found.digest
    assert found.record["bound"]["terms"].startswith("coats@3 sha256:")
    other = entitled(sold(), worn("L2"), policy=both({}, {"title": "changed"}))
    assert other.record["bound"]["terms"] != found.record["bound"]["terms"], "the digest is over all of them"


@pytest.mark.parametrize("change", ["minor", "line"])
def test_the_checker_refuses_parts_that_do_not_make_the_whole(change: str) -> None:
    record = json.loads(entitled(sold(), worn(), policy=both()).canonical())
    if change == "minor":
        record["policies"][1]["minor"] += 1
    else:
        record["policies"][1]["lines"] = ["L1"]
    record["digest"] = digest({name: value for name, value in record.items() if name != "digest"}, RECORD_TAG)
    assert check(record) != []


_counts = st.integers(min_value=0, max_value=4)


@given(_counts, _counts, _counts, st.sampled_from("ABC"), st.booleans(), st.integers(min_value=0, max_value=2))
def test_policies_that_say_the_same_come_to_what_one_of_them_does(
    first: int, second: int, third: int, grade: str, label: bool, place: int
) -> None:
    """Whatever part of the lines is called another category: figures, taxes and payments are those of one policy."""
    asked = [(f"L{number}", 0, count) for number, count in enumerate((first, second, third), start=1) if count]
    if len(asked) < 2:
        return
    sale = allocated([line(number, 1999 * number, 4, tax_minor=777 * number) for number in (1, 2, 3)], 1999 * 24)
    evidence = replace(
        back(*asked), inspected=tuple(Inspected(one, a, b, grade) for one, a, b in asked),  # type: ignore[arg-type]
        parcels_on_our_label=int(label),
    )  # fmt: skip
    said = {name: value for name, value in COATS.items() if name != "restocking"} | {
        "label": COATS["label"] if label else {}
    }
    apart = (asked[place % len(asked)][0],)
    one = entitled(sale, evidence, policy=terms(**said))
    two = terms(**said).model_copy(update={"parts": (TermsOfLines(lines=apart, terms=terms(**said, title="b")),)})
    several = entitled(sale, evidence, policy=two)
    assert _figures(several) == _figures(one)
    assert sum(part["minor"] for part in several.record["policies"]) == one.total_minor


def _figures(found: Entitlement) -> dict[str, Any]:
    names = ("total", "tax", "net", "subtotals", "units", "claimed", "retained", "draws", "payable_now")
    lines = sorted((one["rule"], one["ref"], one["minor"], one["tax"]["minor"]) for one in found.record["lines"])
    return {name: found.record[name] for name in names} | {"lines": lines}


def test_without_priors_the_control_of_one_policy_pays_less_than_two_that_take_less() -> None:
    """The control: by one policy alone the lamp would bear what coats bear."""
    one = derive(sold(), worn("L1", "L2"), Priors((state("c1", 18500),)), terms(**COATS), NOON)
    assert one.total_minor == 10000 + 8000 + 500 - 3000 - 2400 - 400


def test_of_two_policies_that_pay_before_receipt_the_lower_maximum_counts() -> None:
    """Coats may pay 200.00 before they are here and lamps 100.00: 177.00 for both needs a manager."""
    ahead = {"refund_trigger": "announced", "routes": {"manager_from_minor": {"EUR": 90_000}}}
    announced = Evidence("R-1", units(("L1", 0, 2), ("L2", 0, 1)))
    for coats, lamps, level in ((20_000, 10_000, "manager"), (10_000, 20_000, "manager"), (20_000, 17_700, "staff")):
        policy = both(ahead | {"advance_max_minor": {"EUR": coats}}, ahead | {"advance_max_minor": {"EUR": lamps}})
        found = entitled(sold(), announced, policy=policy)
        assert (found.total_minor, found.record["route"]["level"]) == (17_700, level)
