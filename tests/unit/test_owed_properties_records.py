"""Properties of the record and of how captures are drawn, on generated orders (`test_owed_properties`)."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.allocation_lines import Allocation
from ledger.entitlement import derive
from ledger.entitlement_check import check
from ledger.entitlement_facts import Priors, read_evidence, read_priors
from ledger.policy_terms import read_terms
from tests.engine import NOON, Shop, terms
from tests.owed import examples, tapes
from tests.tape import make, returned

PRO_RATA = terms(tender_order="pro_rata", shipping={"full_return": "full"})


@settings(max_examples=examples(1_000))
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


@settings(max_examples=examples(1_000))
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


@settings(max_examples=examples(1_000))
@given(tapes)
def test_pro_rata_targets_rise_with_what_was_paid_and_end_at_each_share(data: bytes) -> None:
    made = make(data, plain=True)
    if made.allocation.blocked_by or not made.captures:
        return
    shop = Shop(made.allocation, made.captures, PRO_RATA)
    total = sum(held.order_minor for held in made.captures)
    for number, part in enumerate(made.parts):
        shop.take_back(returned(made.tape, f"R-{number}", [part], plain=True))
        for held in shop.captures if made.allocation.step_minor == 1 else ():
            exact = shop.paid_minor() * held.order_minor
            assert abs(held.drawn_order_minor * total - exact) <= total * len(made.captures)
