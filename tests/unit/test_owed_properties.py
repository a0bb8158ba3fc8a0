"""The specification's list of properties on generated orders: both price modes, steps 1 and 10, 1–80,000 units, exponents 0, 2, 3.

The life at the top runs 10,000 examples whatever the profile; the strategy is one draw of bytes (`tests.tape`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.allocation_lines import Allocation
from ledger.entitlement import Entitlement, derive
from ledger.entitlement_check import check
from ledger.entitlement_facts import Allowance, CasePayment, Evidence, Priors, read_evidence, read_priors
from ledger.policy_terms import PolicyTerms, read_terms
from tests.engine import NOON, Shop, terms
from tests.tape import Made, make, returned

tapes = st.binary(min_size=0, max_size=72)
NEGATIVE = ("deductions", "promo", "allowances.exchange")


def examples(usual: int) -> int:
    """The usual number, or fewer where a change in the engine is looked for (`make mutate`)."""
    return min(usual, int(os.environ.get("OWED_EXAMPLES", usual)))


def groups(made: Made) -> Iterator[list[tuple[str, int, int]]]:
    """The parts in cases of one to three."""
    left = list(made.parts)
    while left:
        count = 1 + made.tape.pick(3)
        yield left[:count]
        left = left[count:]


def holds(found: Entitlement, step: int) -> None:
    """What is so of every record."""
    record = found.record
    assert found.total_minor >= 0
    assert 0 <= found.tax_minor <= found.total_minor
    for line in record["lines"]:
        assert line["minor"] >= 0 or line["rule"].startswith(NEGATIVE), line
        assert line["minor"] % step == 0, line
    assert all(draw.minor % step == 0 for draw in found.draws)
    assert found.total_minor == sum(found.payable_by_line.values())


@settings(max_examples=examples(10_000))
@given(tapes)
def test_any_returns_in_any_order_under_any_policy_stay_inside_what_was_charged_and_owe_nothing_once_paid(
    data: bytes,
) -> None:
    made = make(data)
    if made.allocation.blocked_by:
        return
    shop = Shop(made.allocation, made.captures, made.policy)
    for number, parts in enumerate(groups(made)):
        evidence = returned(made.tape, f"R-{number}", parts)
        found = shop.take_back(evidence)
        holds(found, made.allocation.step_minor)
        assert shop.derive(evidence).payable_now_minor == 0
    assert shop.paid_minor() <= made.allocation.total_minor
    assert all(held.available_minor >= 0 for held in shop.captures)
    for line in made.allocation.lines:
        claimed = sum(c.minor for claims in shop.claims.values() for c in claims if c.line_id == line.line_id)
        assert claimed <= line.gross_minor


@settings(max_examples=examples(1_500))
@given(tapes)
def test_without_deductions_every_order_of_returns_ends_at_the_total_its_tax_and_its_captures(data: bytes) -> None:
    made = make(data, plain=True)
    if made.allocation.blocked_by or made.allocation.total_minor == 0:
        return
    shop = Shop(made.allocation, made.captures, made.policy)
    for number, parts in enumerate(groups(made)):
        holds(shop.take_back(returned(made.tape, f"R-{number}", parts, plain=True)), made.allocation.step_minor)
    back = made.allocation.total_minor - _never_back(made.allocation)
    assert shop.paid_minor() == back
    if back == made.allocation.total_minor:
        assert sum(shop.tax.values()) == sum(line.tax_minor for line in made.allocation.lines)
        assert all(held.available_minor == 0 for held in shop.captures)


def _never_back(allocation: Allocation) -> int:
    """Rounding of an order without goods of any worth lies on nothing that comes back."""
    worth = sum(line.gross_minor for line in allocation.lines if line.kind == "goods")
    return 0 if worth else sum(line.gross_minor for line in allocation.lines if line.fee_type == "rounding")


def paid_under(made: Made, policy: PolicyTerms) -> list[int]:
    """Cumulative payments case by case, all units back one part a case."""
    shop, found = Shop(made.allocation, list(made.captures), policy), []
    for number, part in enumerate(made.parts):
        shop.take_back(returned(made.tape, f"R-{number}", [part], plain=True))
        found.append(shop.paid_minor())
    return found


@settings(max_examples=examples(600))
@given(tapes)
def test_reprice_kept_never_exceeds_keep_and_ends_where_it_ends(data: bytes) -> None:
    made = make(data, plain=True)
    if made.allocation.blocked_by:
        return
    keep = paid_under(made, terms(shipping={"full_return": "full"}))
    reprice = {"threshold": "reprice_kept", "buy_get": "reprice_kept", "quantity_break": "reprice_kept"}
    repriced = paid_under(made, terms(shipping={"full_return": "full"}, promo=reprice))
    assert all(low <= high for low, high in zip(repriced, keep, strict=True))
    assert repriced[-1:] == keep[-1:]


@settings(max_examples=examples(300))
@given(tapes)
def test_a_higher_deduction_never_raises_the_total(data: bytes) -> None:
    made = make(data)
    evidence = returned(made.tape, "R-1", made.parts[:2])
    priors = Priors(tuple(made.captures))
    found = []
    for rate in (0, 1000, 5000, 10_000):
        policy = terms(restocking={"bps": rate}, grade_bps={"C": rate, "D": rate}, label={"minor": {"EUR": rate}})
        found.append(derive(made.allocation, evidence, priors, policy, NOON).total_minor)
    assert found == sorted(found, reverse=True)


@settings(max_examples=examples(200))
@given(tapes, st.integers(0, 400), st.integers(0, 60), st.integers(0, 60))
def test_a_longer_window_or_an_added_statute_never_lowers_the_total_and_the_track_is_one_of_the_two(
    data: bytes, day: int, days: int, more: int
) -> None:
    made = make(data)
    sale = replace(made.allocation.sale, customer_type="consumer", sale_mode="distance", region="DE")  # type: ignore[type-var]
    lines = tuple(replace(line, delivered_at="2026-05-02T10:00:00Z") for line in made.allocation.lines)
    allocation = replace(made.allocation, sale=sale, lines=lines)
    month, at = divmod(day, 28)
    sent = f"2026-{5 + month % 8:02d}-{1 + at:02d}T10:00:00Z"
    base = returned(made.tape, "R-1", made.parts[:2])
    evidence = replace(base, units=tuple(replace(row, sent_at=sent) for row in base.units))
    priors = Priors(tuple(made.captures))

    def total(**policy: Any) -> int:
        found = derive(allocation, evidence, priors, terms(**policy), NOON)
        track = found.record["track"]
        assert found.total_minor == track[f"{track['chosen']}_total"]
        assert found.total_minor == max(track["merchant_total"], track["statutory_total"] or 0)
        return found.total_minor

    assert total(window={"days": days}) <= total(window={"days": days + more})
    assert total(window={"days": days}, statutes=[]) <= total(window={"days": days}, statutes=["eu_withdrawal@1"])


@settings(max_examples=examples(200))
@given(tapes, st.text(max_size=20), st.integers(0, 9))
def test_notes_signals_and_names_change_no_figure(data: bytes, note: str, signal: int) -> None:
    made = make(data)
    evidence = returned(made.tape, "R-1", made.parts[:2])
    told = replace(evidence, inspected=tuple(replace(row, note=row.note + note) for row in evidence.inspected))
    signals = (("refunds_30d", signal), ("text_claims_approval", signal))
    plain = derive(made.allocation, evidence, Priors(tuple(made.captures)), made.policy, NOON)
    noisy = derive(made.allocation, told, Priors(tuple(made.captures), signals=signals), made.policy, NOON)
    for part in ("lines", "total", "tax", "draws", "claimed", "retained", "payable_now", "outcome"):
        assert plain.record[part] == noisy.record[part], part


@settings(max_examples=examples(300))
@given(tapes)
def test_deriving_after_a_trip_through_json_gives_the_same_bytes_and_the_checker_refuses_one_changed_number(
    data: bytes,
) -> None:
    made = make(data)
    evidence, priors = returned(made.tape, "R-1", made.parts[:2]), Priors(tuple(made.captures))
    found = derive(made.allocation, evidence, priors, made.policy, NOON)
    stored = Allocation.from_document(json.loads(json.dumps(made.allocation.document())))
    assert stored.digest == made.allocation.digest
    read = (
        read_evidence(json.loads(json.dumps(evidence.document()))),
        read_priors(json.loads(json.dumps(priors.document()))),
    )
    assert derive(stored, *read, read_terms(made.policy.document()), NOON).canonical() == found.canonical()
    record = json.loads(found.canonical())
    assert check(record) == []
    line = record["lines"][made.tape.pick(len(record["lines"]))] if record["lines"] else record
    line["minor" if record["lines"] else "total"] += 1
    assert check(record)


@settings(max_examples=examples(300))
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
        holds(shop.take_back(returned(made.tape, f"R-{number}", parts)), step)
    assert shop.paid_minor() + given_back <= made.allocation.total_minor
    assert all(held.available_minor >= 0 for held in shop.captures)


@settings(max_examples=examples(200))
@given(tapes)
def test_pro_rata_targets_rise_with_what_was_paid_and_end_at_each_share(data: bytes) -> None:
    made = make(data, plain=True)
    if made.allocation.blocked_by or not made.captures:
        return
    shop = Shop(made.allocation, made.captures, terms(tender_order="pro_rata", shipping={"full_return": "full"}))
    total = sum(held.order_minor for held in made.captures)
    for number, part in enumerate(made.parts):
        shop.take_back(returned(made.tape, f"R-{number}", [part], plain=True))
        for held in shop.captures if made.allocation.step_minor == 1 else ():
            exact = shop.paid_minor() * held.order_minor
            assert abs(held.drawn_order_minor * total - exact) <= total * len(made.captures)


@settings(max_examples=examples(200))
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
