"""What a policy leaves unsaid, what deductions are computed of, how far signs of risk raise, and rules that had nothing to find."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.entitlement import Entitlement
from ledger.entitlement_facts import Allowance, CaseUnits, Evidence, Inspected
from ledger.policies import terms_document
from ledger.policy_document import check_document
from ledger.policy_terms import TermsRefused, read_terms
from tests.engine import allocated, back, captured_once, entitled, line, received, state, terms, units
from tests.unit.test_owed_examples import pieces, promo

WORN = Inspected("L1", 0, 1, "C", photos=1, note="worn")


def looked(*rows: Inspected) -> Evidence:
    return Evidence("R-1", units(("L1", 0, 1)), received(("L1", 1)), rows)


def test_30_percent_of_100_00_with_20_00_given_before_is_30_00_and_leaves_50_00() -> None:
    allocation = allocated([line(1, 10_000, tax_minor=1597)], 10_000)
    held = [state("c1", 10_000, available_minor=8000)]
    given = (Allowance("L1", 2000, 0, 1),)
    found = entitled(allocation, looked(WORN), held, terms(grade_bps={"C": 3000}), allowances=given)
    assert (found.total_minor, [minor for minor, _ in pieces(found, "deductions.diminished")]) == (5000, [-3000])
    half = entitled(allocation, looked(WORN), held, terms(grade_bps={"C": 9000}), allowances=given)
    assert (half.total_minor, half.record["clipped"]) == (0, [["L1[0,1)", "deductions.diminished", 1000]])


@pytest.mark.parametrize(("mode", "fee"), [("inclusive", 2000), ("exclusive", 2000)])
def test_20_percent_for_taking_back_100_00_with_20_00_given_before_is_of_the_100_00(mode: str, fee: int) -> None:
    allocation = allocated([line(1, 10_000)], 10_000, price_mode=mode, disclosures={"restocking_fee": True})
    held = [state("c1", 10_000, available_minor=8000)]
    found = entitled(
        allocation, looked(), held, terms(restocking={"bps": 2000}), allowances=(Allowance("L1", 2000, 0, 1),)
    )
    assert found.total_minor == 8000 - fee


def test_two_grades_of_one_line_with_an_allowance_on_both_lose_their_own_part_of_what_was_charged() -> None:
    """100.00 for two, 20.00 given on both: 40.00 each is left, and the used one loses 30 % of its 50.00."""
    allocation = allocated([line(1, 5000, 2)], 10_000)
    evidence = Evidence("R-1", units(("L1", 0, 2)), received(("L1", 2)), (WORN, Inspected("L1", 1, 2, "A")))
    held = [state("c1", 10_000, available_minor=8000)]
    found = entitled(allocation, evidence, held, allowances=(Allowance("L1", 2000, 0, 2),))
    assert (found.total_minor, pieces(found, "deductions.diminished")) == (6500, [(-1500, 0)])


@pytest.mark.parametrize(
    ("named", "counts"),
    [
        ({"C": 4000}, {"C": 4000, "D": 10_000}),
        ({"D": 5000}, {"C": 3000, "D": 5000}),
        ({}, {"C": 3000, "D": 10_000}),
        ({"C": 0, "D": 0}, {"C": 0, "D": 0}),
    ],
)
def test_a_grade_that_a_policy_does_not_name_costs_what_it_usually_costs(
    named: dict[str, int], counts: dict[str, int]
) -> None:
    policy = terms(grade_bps=named)
    assert policy.grade_bps == counts
    assert read_terms(policy.document()).cited == policy.cited
    worst = entitled(
        allocated([line(1, 1000)], 1000), looked(Inspected("L1", 0, 1, "D", photos=1, note="gone")), policy=policy
    )
    assert worst.total_minor == 1000 - 1000 * counts["D"] // 10_000


def test_of_documents_of_before_nothing_comes_off_that_they_do_not_name() -> None:
    before = {"policy_id": "p", "version": 1, "shipping": "none"}
    for named, counts in (({}, {"C": 0, "D": 0}), ({"grade_bps": {"C": 2000}}, {"C": 2000, "D": 0})):
        assert read_terms(terms_document(before | named)).grade_bps == counts


AUTO: dict[str, Any] = {"auto_enabled": True, "auto_below_minor": {"EUR": 2000}, "manager_from_minor": {"EUR": 5000}}


@pytest.mark.parametrize(
    ("routes", "signals", "level"),
    [
        (AUTO, 0, "staff"),
        (AUTO, 1, "staff"),
        (AUTO, 2, "manager"),
        (AUTO, 3, "two_managers"),
        (AUTO | {"auto_below_minor": {"EUR": 1000}}, 1, "manager"),
        (AUTO | {"auto_below_minor": {"USD": 2000}}, 1, "manager"),
        (AUTO | {"auto_enabled": False}, 1, "manager"),
        (AUTO | {"manager_from_minor": {"EUR": 1000}}, 1, "two_managers"),
    ],
)
def test_a_sign_of_risk_raises_what_needs_nobody_to_the_desk_and_the_desk_s_to_a_manager(
    routes: dict[str, Any], signals: int, level: str
) -> None:
    seen = (("refunds_30d", 3), ("grade_x_ever", 1), ("dispute_365d", 1))[:signals]
    found = entitled(allocated([line(1, 1000)], 1000), back(("L1", 0, 1)), policy=terms(routes=routes), signals=seen)
    assert found.record["route"]["level"] == level
    assert [one for one in found.record["route"]["because"] if one.startswith("signal.")] == [
        f"signal.{name}:{number}" for name, number in sorted(seen)
    ]


def test_a_review_makes_it_the_desk_s_at_least_and_a_sign_of_risk_then_a_manager_s() -> None:
    evidence = Evidence("R-1", (CaseUnits("L1", 0, 1, "size"),), received(("L1", 1)), (
        Inspected("L1", 0, 1, "A", reason="changed_mind"),))  # fmt: skip
    levels = [
        entitled(allocated([line(1, 1000)], 1000), evidence, policy=terms(routes=AUTO), signals=seen).record["route"][
            "level"
        ]
        for seen in ((), (("refunds_30d", 3),))
    ]
    assert levels == ["staff", "manager"]


def rule(found: Entitlement, rule_id: str) -> list[tuple[str, str]]:
    return [(one.status, one.reason_code) for one in found.rules if one.id == rule_id]


@pytest.mark.parametrize(("region", "flagged"), [("US-CA", True), ("US-TX", True), ("DE", False)])
def test_repricing_kept_goods_in_the_united_states_is_flagged_and_changes_no_figure(
    region: str, *, flagged: bool
) -> None:
    """8. 45.00, 30.00 and 24.00 for 75.00, the cheapest free; the 45.00 goes back for 75.00 − 54.00 = 21.00."""
    facts = promo(2400, {"type": "buy_get", "buy": 2, "get": 1}, "L1", "L2", "L3")
    lines = [line(1, 4500, tax_minor=300), line(2, 3000, tax_minor=200), line(3, 2400, tax_minor=100)]
    allocation = allocated(lines, 7500, region=region, **facts)
    found = entitled(allocation, back(("L1", 0, 1)), policy=terms(promo={"buy_get": "reprice_kept"}))
    assert (found.total_minor, rule(found, "tax.recovery")) == (2100, [("pass", "tax_recovery_at_risk")] * flagged)
    kept = entitled(allocation, back(("L1", 0, 1)))
    assert rule(kept, "tax.recovery") == []
    assert captured_once(allocation)[0].captured_minor == 7500


@pytest.mark.parametrize("rule_id", ["policy.found", "promo.path", "gift.back", "deduct.lawful", "deduct.evidence"])
def test_a_rule_that_had_nothing_to_find_says_that_it_holds(rule_id: str) -> None:
    plain = entitled(allocated([line(1, 1000)], 1000), back(("L1", 0, 1)))
    assert rule(plain, rule_id) == [("pass", "holds")]


def test_a_rule_that_found_something_does_not_say_that_it_holds() -> None:
    found = entitled(allocated([line(1, 1000)], 1000), looked(Inspected("L1", 0, 1, "C")))
    assert rule(found, "deduct.evidence") == [("needs_review", "no_photo_or_note")]


@pytest.mark.parametrize(
    ("part", "followed", "unfollowed"),
    [
        ("window", {"starts": "placed"}, {"starts": "dispatched"}),
        ("window", {"proof_of_purchase": True}, {"proof_of_purchase": False}),
        ("exchange", {"ship_first": False}, {"ship_first": True}),
        ("exchange", {"charge_unreturned": "never"}, {"charge_unreturned": "after_approval"}),
    ],
)
def test_a_policy_that_promises_what_nothing_here_does_is_refused_by_the_field_s_name(
    part: str, followed: dict[str, Any], unfollowed: dict[str, Any]
) -> None:
    check_document({"policy_id": "p", "version": 1, part: followed})
    with pytest.raises(TermsRefused) as refused:
        check_document({"policy_id": "p", "version": 1, part: unfollowed})
    assert [problem.field for problem in refused.value.problems] == [f"{part}.{next(iter(unfollowed))}"]


def test_10_01_given_on_units_1_and_2_of_four_at_50_00_leaves_44_99_of_the_first_of_them_and_45_00_of_the_other() -> (
    None
):
    allocation = allocated([line(1, 5000, 4)], 20_000)
    held, given = [state("c1", 20_000, available_minor=18_999)], (Allowance("L1", 1001, 1, 3),)
    paid = [entitled(allocation, back(("L1", k, k + 1)), held, allowances=given).total_minor for k in range(4)]
    assert paid == [5000, 4499, 4500, 5000]
