"""Charged twice, or what looks like it: worked example 25, the six look-alikes, and property 21 of the specification."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.duplicate_charges import Charge, Finding, Inputs, OtherOrder, document, find, read_inputs, reason_of
from ledger.duplicate_record import owed
from ledger.entitlement_check import check
from ledger.entitlement_explain import explain
from tests.owed import examples


def charge(ref: str, minor: int = 5840, minute: int = 0, **facts: Any) -> Charge:
    """A charge of order 2841 in pounds, linked to it and on one account unless it is said otherwise."""
    usual = {"capture_id": f"cap_{ref}", "order_ref": "2841", "currency": "GBP", "account": "acct_1"}
    at = f"2026-11-28T10:{minute:02}:00Z"
    return Charge(ref, captured_minor=minor, captured_at=at, **{**usual, **facts})


def asked(*charges: Charge, total: int = 5840, paid: int = 0, **facts: Any) -> Inputs:
    return Inputs("2841", "GBP", total, paid, charges, **facts)


ONE, OTHER = charge("ch_1"), charge("ch_2", minute=5)


def said(finding: Finding) -> tuple[str, str]:
    return finding.verdict, reason_of(finding)


def test_58_40_twice_for_58_40_is_116_80_less_58_40_and_the_later_58_40_goes_back() -> None:
    finding = find(asked(OTHER, ONE))

    assert (finding.verdict, finding.charge) == ("verified", OTHER)
    assert (finding.net_minor, finding.due_minor, finding.excess_minor) == (11680, 5840, 5840)


def test_20_00_refunded_on_the_later_by_a_case_leaves_due_38_40_of_96_80_and_the_other_58_40_goes_back() -> None:
    finding = find(asked(ONE, replace(OTHER, refunded_minor=2000), paid=2000))

    assert (finding.verdict, finding.charge) == ("verified", ONE)
    assert (finding.due_minor, finding.net_minor, finding.excess_minor) == (3840, 9680, 5840)


def test_20_00_refunded_outside_on_no_case_leaves_it_to_a_person() -> None:
    refunded = replace(OTHER, refunded_minor=2000, open_refund_minor=2000)

    assert said(find(asked(ONE, refunded))) == ("investigate", "refund_on_no_case")


LOOKALIKES = {
    "hold": asked(ONE, charge("ch_2", 0, held_minor=5840)),
    "hold_gone": asked(ONE, charge("ch_2", 0)),
    "with_the_bank": asked(ONE, replace(OTHER, disputed_minor=5840, disputed=True)),
    "reversal": asked(ONE, replace(OTHER, refunded_minor=5840)),
    "two_currencies": asked(ONE, replace(OTHER, order_ref="2842", currency="EUR")),
    "two_purchases": asked(
        ONE, replace(OTHER, order_ref="2842"), others=(OtherOrder("2842", "GBP", 5840, 5840, shipped=True),)
    ),
    "shown_twice": asked(ONE, replace(ONE, capture_id="", captured_at="2026-11-28T10:00:30Z")),
    "parts_of_one_total": asked(charge("ch_1", 3500), charge("ch_2", 6500), total=10000),
    "one_charge": asked(ONE),
}


@pytest.mark.parametrize("named", LOOKALIKES)
def test_what_looks_like_a_second_charge_and_is_none_is_told_apart(named: str) -> None:
    assert said(find(LOOKALIKES[named])) == ("none", named)


PERSONS = {
    "read_failed": asked(ONE, OTHER, unread=("no_answer",)),
    "books_differ": asked(ONE, replace(OTHER, differs=True)),
    "charge_of_no_order": asked(ONE, replace(OTHER, capture_id="", order_ref="")),
    "two_currencies": asked(ONE, replace(OTHER, currency="EUR")),
    "disputed": asked(replace(ONE, disputed=True), OTHER),
    "cash_or_bank_too": asked(ONE, OTHER, charge("cash", 1000, tender="cash"), total=6840),
    "two_accounts": asked(ONE, replace(OTHER, account="acct_2")),
    "one_charge_too_high": asked(charge("ch_1", 6000)),
    "fits_no_single_charge": asked(ONE, OTHER, charge("ch_3", minute=9)),
    "planned": asked(replace(ONE, plan="instalment"), replace(OTHER, plan="instalment")),
}


@pytest.mark.parametrize("why", PERSONS)
def test_what_the_records_do_not_settle_is_left_to_a_person_who_is_told_why(why: str) -> None:
    finding = find(PERSONS[why])

    assert said(finding) == ("investigate", why)
    assert finding.charge is None


def test_of_two_that_fit_the_latest_goes_back_and_of_two_at_once_always_the_same() -> None:
    same_moment = replace(OTHER, captured_at=ONE.captured_at)

    assert {find(asked(*both)).charge for both in ((ONE, same_moment), (same_moment, ONE))} == {same_moment}


def test_a_deposit_that_is_planned_stays_and_the_balance_taken_twice_goes_back_once() -> None:
    deposit = charge("ch_0", 2000, plan="deposit")
    finding = find(asked(deposit, charge("ch_1", 8000, 1), charge("ch_2", 8000, 2), total=10000))

    assert (finding.verdict, finding.charge and finding.charge.charge_ref) == ("verified", "ch_2")


@pytest.mark.parametrize("inputs", [asked(ONE, OTHER), *LOOKALIKES.values(), *PERSONS.values()])
def test_the_stored_inputs_find_the_same_again_and_the_record_adds_up(inputs: Inputs) -> None:
    again = read_inputs(inputs.document())
    finding = find(inputs)
    record = owed(finding, inputs, "case", 2, "usual@1", "manager", datetime(2026, 12, 1, tzinfo=UTC))

    assert (again, again.digest, document(find(again))) == (inputs, inputs.digest, document(finding))
    assert check(record) == []
    assert record["total"] == (5840 if finding.verdict == "verified" else 0)
    assert explain(record)[-1].startswith("outcome ")


# All of them in the slow part; the quick one has fifteen minutes for the whole suite.
MOST = 10_000 if os.environ.get("HYPOTHESIS_PROFILE") == "slow" else 1_000
charges = st.builds(
    lambda ref, minute, order, captured, taken, flags: replace(
        charge(f"ch_{ref}", captured, minute, order_ref=order),
        refunded_minor=min(captured, taken), capture_id=f"cap_{ref}" if order == "2841" else "", **flags,
    ),
    st.integers(1, 4), st.integers(0, 59), st.sampled_from(["2841", "2841", "2841", "2842", ""]), st.sampled_from([0, 2000, 5840]),
    st.sampled_from([0, 0, 0, 2000, 5840]),
    st.fixed_dictionaries({}, optional={
        "disputed": st.booleans(), "held_minor": st.sampled_from([0, 5840]), "differs": st.booleans(),
        "plan": st.sampled_from([None, "split"]), "currency": st.sampled_from(["GBP", "GBP", "EUR"]),
        "tender": st.sampled_from(["card", "card", "cash"]), "open_refund_minor": st.sampled_from([0, 0, 500]),
    }),
)  # fmt: skip
cases = st.builds(
    lambda rows, total, paid, unread: Inputs("2841", "GBP", total, min(paid, total), tuple(rows), unread=unread),
    st.lists(charges, max_size=5), st.sampled_from([2000, 5840, 7840]), st.sampled_from([0, 0, 2000]),
    st.sampled_from([(), (), ("x",)]),
)  # fmt: skip


@settings(max_examples=examples(MOST))
@given(cases, st.randoms(use_true_random=False))
def test_nothing_is_verified_without_excess_on_a_lookalike_or_for_one_charge_seen_twice(
    inputs: Inputs, shuffle: Any
) -> None:
    finding = find(inputs)
    other_order = list(inputs.charges)
    shuffle.shuffle(other_order)

    assert document(find(replace(inputs, charges=tuple(other_order)))) == document(finding)
    doubled = find(replace(inputs, charges=inputs.charges * 2))
    assert (doubled.verdict, doubled.excess_minor, doubled.charge) == (
        finding.verdict, finding.excess_minor, finding.charge,
    )  # fmt: skip
    if finding.verdict != "verified":
        assert finding.charge is None
        return
    paid = finding.charge
    assert paid is not None
    assert finding.excess_minor == paid.net_minor > 0
    assert not inputs.unread
    assert len({one.charge_ref for one in inputs.charges if one.order_ref == "2841" and one.captured_minor}) >= 2
    assert (paid.order_ref, paid.currency, paid.plan, paid.disputed) == ("2841", "GBP", None, False)
    # Once it is paid back there is nothing too much any more.
    after = [
        replace(one, refunded_minor=one.captured_minor) if one.charge_ref == paid.charge_ref else one
        for one in inputs.charges
    ]
    assert find(replace(inputs, charges=tuple(after))).verdict != "verified"
