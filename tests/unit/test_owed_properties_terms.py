"""Properties of what a policy may change, on generated orders (`test_owed_properties`)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.entitlement import derive
from ledger.entitlement_facts import Priors
from ledger.policy_terms import PolicyTerms
from tests.engine import NOON, Shop, terms
from tests.owed import examples, tapes
from tests.tape import BREAKABLE, Made, make, returned

KEPT = terms(shipping={"full_return": "full"})
REPRICED = terms(shipping={"full_return": "full"}, promo=dict.fromkeys(BREAKABLE, "reprice_kept"))
DEDUCTED = [
    terms(restocking={"bps": rate}, grade_bps={"C": rate, "D": rate}, label={"minor": {"EUR": rate}})
    for rate in (0, 1000, 5000, 10_000)
]
of_days = cache(lambda days: terms(window={"days": days}))
of_law = cache(lambda days, *statutes: terms(window={"days": days}, statutes=list(statutes)))


def paid_under(made: Made, policy: PolicyTerms) -> list[int]:
    """Cumulative payments case by case, all units back one part a case."""
    shop, found = Shop(made.allocation, list(made.captures), policy), []
    for number, part in enumerate(made.parts):
        shop.take_back(returned(made.tape, f"R-{number}", [part], plain=True))
        found.append(shop.paid_minor())
    return found


@settings(max_examples=examples(1_000))
@given(tapes)
def test_reprice_kept_never_exceeds_keep_and_ends_where_it_ends(data: bytes) -> None:
    made = make(data, plain=True)
    if made.allocation.blocked_by:
        return
    keep, repriced = paid_under(made, KEPT), paid_under(made, REPRICED)
    assert all(low <= high for low, high in zip(repriced, keep, strict=True))
    assert repriced[-1:] == keep[-1:]


@settings(max_examples=examples(1_000))
@given(tapes)
def test_a_higher_deduction_never_raises_the_total(data: bytes) -> None:
    made = make(data)
    evidence = returned(made.tape, "R-1", made.parts[:2])
    priors = Priors(tuple(made.captures))
    found = [derive(made.allocation, evidence, priors, policy, NOON).total_minor for policy in DEDUCTED]
    assert found == sorted(found, reverse=True)


@settings(max_examples=examples(1_000))
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

    def total(policy: PolicyTerms) -> int:
        found = derive(allocation, evidence, priors, policy, NOON)
        track = found.record["track"]
        assert found.total_minor == track[f"{track['chosen']}_total"]
        assert found.total_minor == max(track["merchant_total"], track["statutory_total"] or 0)
        return found.total_minor

    assert total(of_days(days)) <= total(of_days(days + more))
    assert total(of_law(days)) <= total(of_law(days, "eu_withdrawal@1"))
