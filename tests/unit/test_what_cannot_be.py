"""What an order, a policy or a finding cannot say, and where a step of money comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from ledger.allocation_methods import Methods
from ledger.duplicate_charges import find
from ledger.orders import order_rows
from ledger.policies import NoPolicy, as_policy, policy_terms
from ledger.policy_document import check_document
from ledger.policy_terms import TermsRefused
from tests.engine import allocated, back, capture, entitled, line, order, state
from tests.unit.test_duplicate_charges import ONE, asked, charge, said

A, B = UUID(int=1), UUID(int=2)
PAID_THERE = {"payment_intent_ref": "pi_1", "charge_ref": "ch_1"}


def refused(**document: Any) -> list[str]:
    with pytest.raises(TermsRefused) as error:
        check_document({"policy_id": "p", "version": 1, **document})
    return [problem.field for problem in error.value.problems]


# 22.450 over four is 5.6125 a unit; in steps of 0.010 they are 5.610, 5.620, 5.610, 5.610.
@pytest.mark.parametrize(("refs", "first"), [(PAID_THERE, 5610), ({}, 5613), ({"payment_intent_ref": "pi_1"}, 5613)])
def test_a_quarter_of_22_450_dinar_is_5_610_where_the_provider_pays_in_steps_of_0_010(
    refs: dict[str, str], first: int
) -> None:
    told = {"currency": "KWD", "captures": [capture("c1", 22_450, "KWD", **refs)]}
    lines = [line(1, 0, 4, gross_minor=22_450)]
    allocation = allocated(lines, 22_450, **told)
    step = 10 if first == 5610 else 1
    held = [state("c1", 22_450, currency="KWD", step_minor=step)]
    assert entitled(allocation, back(("L1", 0, 1)), held).total_minor == first
    (row,) = order_rows(A, order(lines, 22_450, **told), Methods(), B, None).captures
    assert row["step_minor"] == step


def test_50_fils_stated_by_the_shop_stay_and_5_become_the_provider_s_10() -> None:
    for stated, step in ((50, 50), (5, 10)):
        told = {"currency": "KWD", "captures": [capture("c1", 22_450, "KWD", step_minor=stated, **PAID_THERE)]}
        (row,) = order_rows(A, order([line(1, 22_450)], 22_450, **told), Methods(), B, None).captures
        assert row["step_minor"] == step


@pytest.mark.parametrize("day", ["2026-02-30", "2026-13-01", "0000-01-01", "\u0662\u0660\u0662\u0666-01-01"])
def test_a_policy_with_a_day_that_there_is_not_is_refused_and_a_stored_one_decides_nothing(day: str) -> None:
    assert refused(window={"fixed_until": day}) == ["window.fixed_until"]
    stored = as_policy("p", 1, {"policy_id": "p", "version": 1, "window": {"fixed_until": day}})
    with pytest.raises(NoPolicy) as unread:
        policy_terms(stored)
    assert unread.value.reason == "unreadable"


def test_the_29th_of_february_is_a_day_of_2028() -> None:
    check_document({"policy_id": "p", "version": 1, "window": {"fixed_until": "2028-02-29"}})


def test_what_no_provider_was_asked_about_is_no_duplicate_that_was_verified() -> None:
    """58.40 by card and 58.40 by a gift card of the shop's own books, for 58.40: nobody but the books says it was taken."""
    gift = charge("capture gift", minute=5, tender="gift_card", account="")
    other = replace(ONE, captured_minor=5000)
    assert said(find(asked(other, gift, total=5000))) == ("investigate", "fits_no_single_charge")
    finding = find(asked(ONE, gift))
    assert (finding.verdict, finding.charge) == ("verified", ONE)


@pytest.mark.parametrize("less", ["standard", "none"])
def test_shipping_of_what_was_faulty_wrong_damaged_or_lost_goes_back_whole_whatever_a_policy_says(less: str) -> None:
    assert refused(shipping={"merchant_fault": less}) == ["shipping.merchant_fault"]
    check_document({"policy_id": "p", "version": 1, "shipping": {"merchant_fault": "full"}})


NAMES: list[tuple[str, Any, Any]] = [
    ("fees", {"giftwrap": "never"}, {"gift_wrap": "never"}),
    ("routes.always", {"evidence.conflcit": "manager"}, {"evidence.conflict": "manager", "grade_d": "staff"}),
    ("excluded", ["hazmat"], ["perishable"]),
    ("label.payer_by_reason", {"broken": "merchant"}, {"faulty": "merchant"}),
    ("select.sale_modes", ["distanse"], ["distance"]),
    ("select.payment_methods", ["crad"], ["card"]),
    ("advance_max_minor", {"EUD": 100}, {"EUR": 100}),
    ("routes.manager_from_minor", {"EUD": 1}, {"EUR": 1}),
    ("goodwill.max_minor", {"QQQ": 1}, {"KWD": 1}),
]


@pytest.mark.parametrize(("path", "slip", "meant"), NAMES, ids=[path for path, _, _ in NAMES])
def test_a_name_that_matches_nothing_is_refused_by_the_field_it_is_in(path: str, slip: Any, meant: Any) -> None:
    part, _, name = path.partition(".")
    assert refused(**{part: {name: slip} if name else slip}) == [path]
    check_document({"policy_id": "p", "version": 1, part: {name: meant} if name else meant})


def test_a_policy_cannot_accept_what_came_undeclared_for_a_person_adds_it() -> None:
    assert refused(undeclared="accept") == ["undeclared"]
    check_document({"policy_id": "p", "version": 1, "undeclared": "hold"})
