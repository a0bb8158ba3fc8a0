"""Properties of what goes on around a case, in any order, on generated orders (`test_owed_properties`)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

import tests.profiles  # noqa: F401
from ledger.entitlement_facts import Allowance, CasePayment, Evidence
from tests.engine import Shop
from tests.owed import examples, groups, holds, tapes
from tests.tape import make, returned


@settings(max_examples=examples(1_000))
@given(tapes)
def test_allowances_disputes_and_outside_refunds_never_let_more_out_than_was_charged_or_captured(data: bytes) -> None:
    made = make(data)
    step = made.allocation.step_minor
    if made.allocation.blocked_by:
        return
    shop, given_back = Shop(made.allocation, made.captures, made.policy), 0
    for line in made.allocation.lines:
        if line.kind == "goods" and line.gross_minor and made.tape.chance(2):
            a = made.tape.pick(min(200, line.quantity))
            minor = made.tape.pick(200) * step
            minor = min(minor, line.gross_at(a + 1, step) - line.gross_at(a, step))
            shop.allowances.append(Allowance(line.line_id, minor, a, a + 1, closes=made.tape.chance(3)))
            given_back += minor
    shop.captures = [
        replace(held, available_minor=held.available_minor - out, disputed_minor=out)
        for held in shop.captures
        for out in [made.tape.pick(min(60_000, held.captured_minor) + 1) // step * step]
    ]
    for number, parts in enumerate(groups(made)):
        if shop.captures and made.tape.chance(3):
            held = made.tape.one_of(shop.captures)
            shop.given_outside(held.capture_id, made.tape.pick(min(60_000, held.available_minor) + 1) // step * step)
        holds(shop.take_back(returned(made.tape, f"R-{number}", parts)), step)
    assert shop.paid_minor() + given_back <= made.allocation.total_minor
    assert all(held.available_minor >= 0 for held in shop.captures)


@settings(max_examples=examples(1_000))
@given(tapes)
def test_two_cases_on_one_line_in_any_interleaving_never_pay_twice_and_never_below_zero(data: bytes) -> None:
    made = make(data)
    if made.allocation.blocked_by:
        return
    shop, parts = Shop(made.allocation, made.captures, made.policy), made.parts
    cases: dict[str, list[tuple[str, int, int]]] = {"R-1": [], "R-2": []}
    for number, part in enumerate(parts * 2):
        name = "R-1" if made.tape.chance(2) else "R-2"
        if part not in cases[name]:
            cases[name].append(part)
        evidence: Evidence = returned(made.tape, name, cases[name], plain=number % 2 == 0)
        found = shop.derive(evidence)
        assert found.payable_now_minor >= 0
        if found.outcome == "payable":
            shop.take_back(evidence)
    assert shop.paid_minor() <= made.allocation.total_minor
    assert all(isinstance(row, CasePayment) for rows in shop.paid.values() for row in rows)


@settings(max_examples=examples(1_000))
@given(tapes)
def test_what_the_bank_sends_back_is_owed_again_to_the_unit_and_paid_once(data: bytes) -> None:
    made = make(data)
    if made.allocation.blocked_by:
        return
    shop = Shop(made.allocation, made.captures, made.policy)
    for number, parts in enumerate(groups(made)):
        evidence = returned(made.tape, f"R-{number}", parts)
        found = shop.take_back(evidence)
        if found.draws and made.tape.chance(2):
            shop.sent_back(evidence.case_ref, found)
            again = shop.take_back(evidence)
            assert again.payable_now_minor == found.payable_now_minor
            assert [draw.minor for draw in again.draws] == [draw.minor for draw in found.draws]
        assert shop.derive(evidence).payable_now_minor == 0
    assert shop.paid_minor() <= made.allocation.total_minor
    assert all(held.available_minor >= 0 for held in shop.captures)
