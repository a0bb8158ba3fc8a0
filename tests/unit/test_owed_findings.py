"""What a person found counts for the very units it was found of, in whatever order the findings were written down."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.entitlement import Entitlement
from ledger.entitlement_facts import CaseUnits, Cure, Evidence, Inspected
from ledger.policy_terms import PolicyTerms
from tests.engine import Shop, allocated, captured_once, entitled, line, received, terms
from tests.unit.test_owed_examples import EU, pieces

DELIVERED: dict[str, Any] = {"delivered_at": "2026-05-02T10:40:00Z"}
IN_TIME, LATE = "2026-05-05T10:00:00Z", "2026-05-25T10:00:00Z"
USED = Inspected("L1", 0, 1, "C", assessed_bps=3000, reason="changed_mind", photos=1, note="worn")
BROKEN = Inspected("L1", 1, 2, "M", reason="faulty", photos=1, note="torn seam")
FEES: dict[str, Any] = {
    "restocking": {"bps": 2000},
    "label": {"minor": {"EUR": 300}, "payer_by_reason": {"faulty": "merchant"}},
}


def two(*rows: Inspected, at: str = IN_TIME, said: str = "changed_mind", **facts: Any) -> Evidence:
    return Evidence(
        "R-1", (CaseUnits("L1", 0, 2, said, at),), received(("L1", 2)), rows, parcels_on_our_label=1, **facts
    )


def owed(policy: PolicyTerms, *rows: Inspected, sale: dict[str, Any] | None = None, **facts: Any) -> Entitlement:
    told = {"disclosures": {"restocking_fee": True}}
    return entitled(
        allocated([line(1, 1000, 2, **DELIVERED)], 2000, **(sale or told)), two(*rows, **facts), policy=policy
    )


def found_of(record: Entitlement) -> set[tuple[str, str]]:
    return {(one.reason_code, one.scope) for one in record.rules if one.status != "pass"}


def test_a_fault_that_is_only_claimed_pays_10_00_less_2_00_restocking_and_3_00_label_and_a_found_one_10_00() -> None:
    allocation = allocated([line(1, 1000)], 1000, disclosures={"restocking_fee": True})

    def paid(reason_found: str | None, grade: Any = "A") -> int:
        rows = (Inspected("L1", 0, 1, grade, reason=reason_found),)
        units = (CaseUnits("L1", 0, 1, "faulty"),)
        evidence = Evidence("R-1", units, received(("L1", 1)), rows, parcels_on_our_label=1)
        return entitled(allocation, evidence, policy=terms(**FEES)).total_minor

    assert paid(None) == 500
    assert paid("changed_mind") == 500
    assert paid("size") == 700
    assert paid("faulty") == 1000
    assert paid(None, "M") == 1000


@pytest.mark.parametrize("rows", [(USED, BROKEN), (BROKEN, USED)])
def test_of_10_00_used_and_10_00_faulty_only_the_used_unit_loses_3_00_and_its_fee_of_2_00(rows: Any) -> None:
    found = owed(terms(**FEES), *rows)
    assert pieces(found, "deductions.diminished") == [(-300, 0)]
    assert pieces(found, "deductions.restocking") == [(-200, 0)]
    assert pieces(found, "deductions.label") == []
    assert found.total_minor == 2000 - 300 - 200


@pytest.mark.parametrize("rows", [(USED, BROKEN), (BROKEN, USED)])
def test_in_the_fourteen_days_both_units_go_back_by_law_17_00_and_a_person_looks(rows: Any) -> None:
    found = owed(terms(window={"days": 0}, **FEES), *rows, sale=EU)
    assert (found.total_minor, found.record["track"]["statute"]) == (2000 - 300, "eu_withdrawal@1")
    assert ("fault_of_some_units", "case") in found_of(found)


@pytest.mark.parametrize("rows", [(USED, BROKEN), (BROKEN, USED)])
def test_after_the_fourteen_days_the_law_gives_10_00_for_the_faulty_unit_and_nothing_for_the_used_one(
    rows: Any,
) -> None:
    found = owed(terms(window={"days": 0}), *rows, sale=EU, at=LATE)
    assert (found.total_minor, found.record["track"]["statute"]) == (1000, "faulty_eu@1")
    assert ("no_fault_was_found", "L1[0,1)") in found_of(found)
    assert ("fault_of_some_units", "case") not in found_of(found)


@pytest.mark.parametrize("rows", [(USED, BROKEN), (BROKEN, USED)])
def test_the_merchant_s_sixty_days_give_both_for_17_00_where_the_law_gives_one_for_10_00(rows: Any) -> None:
    found = owed(terms(window={"days": 60}), *rows, sale=EU, at=LATE)
    assert (found.total_minor, found.record["track"]["chosen"]) == (1700, "merchant")


def test_two_units_of_one_finding_are_all_faulty_or_all_sound() -> None:
    sound = Inspected("L1", 0, 2, "A", reason="changed_mind")
    assert owed(terms(**FEES), sound).total_minor == 2000 - 400 - 300
    assert owed(terms(**FEES), Inspected("L1", 0, 2, "A", reason="faulty")).total_minor == 2000


def test_a_final_sale_takes_back_the_faulty_unit_for_10_00_and_not_the_other() -> None:
    found = owed(terms(final_sale=True), USED, BROKEN)
    assert (found.total_minor, found.record["units"]) == (1000, [["L1", 1, 2]])
    assert ("final_sale", "L1[0,1)") in found_of(found)


def test_a_repair_comes_first_for_the_faulty_unit_only_and_the_other_pays_7_00_meanwhile() -> None:
    policy = terms(faulty={"refund_first": False})
    waiting = owed(policy, USED, BROKEN)
    assert (waiting.total_minor, waiting.record["units"]) == (700, [["L1", 0, 1]])
    assert ("cure_comes_first", "L1[1,2)") in found_of(waiting)
    assert owed(policy, USED, BROKEN, cures=(Cure("L1", "failed"),)).total_minor == 1700


@pytest.mark.parametrize("rows", [(USED, BROKEN), (BROKEN, USED)])
def test_a_reason_found_that_nobody_gave_is_a_persons_in_whatever_order(rows: Any) -> None:
    assert ("another_reason_was_found", "case") in found_of(owed(terms(), *rows))
    assert ("another_reason_was_found", "case") not in found_of(owed(terms(), USED))


def tracks(at: str, days: int, *, back: int = 0) -> Entitlement:
    evidence = Evidence("R-1", (CaseUnits("L1", 0, 1, "changed_mind", at),), received(("L1", back)) if back else ())
    allocation = allocated([line(1, 1000, **DELIVERED)], 1000, **EU)
    return entitled(allocation, evidence, policy=terms(window={"days": days}, shipping={"full_return": "full"}))


def test_while_the_law_s_time_is_over_and_the_merchant_s_sixty_days_run_what_is_not_here_yet_is_waited_for() -> None:
    found = tracks(LATE, 60)
    assert (found.outcome, found.until, found.record["track"]["chosen"]) == ("wait", "received:L1", "merchant")
    assert (tracks(LATE, 60, back=1).outcome, tracks(LATE, 60, back=1).total_minor) == ("payable", 1000)


def test_where_both_still_wait_the_law_s_track_counts_and_where_neither_can_pay_it_says_so() -> None:
    assert (tracks(IN_TIME, 60).outcome, tracks(IN_TIME, 60).record["track"]["chosen"]) == ("wait", "statutory")
    assert (tracks(LATE, 5).outcome, tracks(LATE, 5).record["track"]["chosen"]) == ("refused", "statutory")
    assert (tracks(IN_TIME, 0).outcome, tracks(IN_TIME, 0).record["track"]["chosen"]) == ("wait", "statutory")


def test_after_the_merchant_s_17_00_were_paid_where_the_law_gives_10_00_nothing_was_overpaid() -> None:
    allocation = allocated([line(1, 1000, 2, **DELIVERED)], 2000, **EU)
    shop = Shop(allocation, captured_once(allocation), terms(window={"days": 60}))
    evidence = two(USED, BROKEN, at=LATE)
    assert shop.take_back(evidence).payable_now_minor == 1700
    again = shop.derive(evidence)
    assert (again.payable_now_minor, again.overpaid_minor, again.record["track"]["chosen"]) == (0, 0, "merchant")


def test_where_the_policy_names_one_law_only_nobody_is_asked_which_of_two_it_is() -> None:
    found = owed(terms(statutes=["eu_withdrawal@1"], window={"days": 0}), USED, BROKEN, sale=EU)
    assert (found.total_minor, found.record["track"]["statute"]) == (1700, "eu_withdrawal@1")
    assert ("fault_of_some_units", "case") not in found_of(found)


@pytest.mark.parametrize(
    ("rows", "minor"),
    [
        ((("S1", 0, 1), ("S2", 1, 2)), 2000),
        ((("S2", 0, 1), ("S1", 1, 2)), 2000),
        ((("S2", 1, 2),), 1000),
        ((("S1", 0, 2),), 0),
        ((("S2", 0, 1), ("S2", 1, 2)), 1000),
        ((("S1", 0, 1), ("S1", 1, 2)), 1000),
        ((("S9", 0, 1), ("S2", 1, 2)), 1000),
    ],
)
def test_each_serial_of_the_line_pays_its_10_00_once_whatever_unit_it_was_put_to(
    rows: tuple[tuple[str, int, int], ...], minor: int
) -> None:
    seen = tuple(Inspected("L1", a, b, "A", serial=serial) for serial, a, b in rows)
    allocation = allocated([line(1, 1000, 2, serials=["S1", "S2"])], 2000)
    assert entitled(allocation, two(*seen)).total_minor == minor
