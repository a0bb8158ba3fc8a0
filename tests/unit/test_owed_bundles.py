"""What is stated of a bundle holds for its parts, unless something else is stated of a part itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledger.allocation import Allocation
from ledger.entitlement import Entitlement
from ledger.entitlement_facts import CaseUnits, Delivered, Evidence
from ledger.order_document import FactsRefused
from tests.engine import allocated, entitled, line, order, received, terms

PART: dict[str, Any] = {"bundle": {"id": "k", "per_bundle": 1, "parent_line": "L1"}}
ARRIVED, SENT_LATE = "2026-05-02T10:40:00Z", "2026-06-20T10:00:00Z"
THIRTY_DAYS = terms(window={"days": 30})


def kit(of_bundle: dict[str, Any], of_part: dict[str, Any] | None = None) -> Allocation:
    """A bundle of 90.00 with two parts of 60.00 alone: each is worth 45.00. `of_part` is stated of L2."""
    return allocated(
        [line(1, 9000, **of_bundle), line(2, 6000, **PART, **(of_part or {})), line(3, 6000, **PART)], 9000
    )


def sent(allocation: Allocation, at: str = "2026-05-05T10:00:00Z", **facts: Any) -> Entitlement:
    """Ilse Brandt sends L2 back, with the statement at `at`."""
    evidence = Evidence("R-1", (CaseUnits("L2", 0, 1, "changed_mind", at),), received(("L2", 1)))
    return entitled(allocation, replace(evidence, **facts), policy=THIRTY_DAYS)


def reasons(found: Entitlement) -> set[str]:
    return {rule.reason_code for rule in found.rules if rule.status == "fail"}


def test_a_part_of_a_bundle_that_came_seven_weeks_ago_is_announced_too_late() -> None:
    late = sent(kit({"delivered_at": ARRIVED}), SENT_LATE)
    assert (late.total_minor, "announced_too_late" in reasons(late)) == (0, True)
    assert sent(kit({"delivered_at": ARRIVED})).total_minor == 4500


def test_a_part_that_came_later_than_its_bundle_counts_from_its_own_day() -> None:
    found = sent(kit({"delivered_at": ARRIVED}, {"delivered_at": "2026-06-10T10:00:00Z"}), SENT_LATE)
    assert found.total_minor == 4500


def test_what_is_learnt_of_the_bundle_s_delivery_holds_for_its_parts() -> None:
    learnt = (Delivered("L1", ARRIVED),)
    assert sent(kit({}), SENT_LATE).total_minor == 4500
    assert sent(kit({}), SENT_LATE, delivered=learnt).total_minor == 0


def test_a_part_of_a_bundle_sold_finally_does_not_come_back_unless_it_says_otherwise() -> None:
    final = {"attributes": {"final_sale": True, "category": "lighting"}}
    found = sent(kit(final))
    assert (found.total_minor, "final_sale" in reasons(found)) == (0, True)
    assert sent(kit(final, {"attributes": {"final_sale": False}})).total_minor == 4500


def test_a_part_has_the_category_of_its_bundle_by_which_its_policy_is_chosen() -> None:
    lamp = kit({"attributes": {"category": "lighting"}}, {"attributes": {"used": True}})
    assert [dict(one.attributes or {}) for one in lamp.lines[1:]] == [
        {"category": "lighting", "used": True},
        {"category": "lighting"},
    ]


def test_a_discount_of_a_part_is_refused_for_its_price_is_the_bundle_s() -> None:
    off: dict[str, Any] = {"discounts": [{"id": "x", "minor": 500}]}
    with pytest.raises(FactsRefused) as refused:
        order([line(1, 9000), line(2, 6000, **PART, **off), line(3, 6000, **PART)], 9000)
    assert [problem.field for problem in refused.value.problems] == ["lines[1].discounts"]
