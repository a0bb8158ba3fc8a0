"""A record on paper, and derived again from what was stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ledger.canonical import canonical_bytes, digest
from ledger.entitlement import RECORD_TAG, Entitlement, derive
from ledger.entitlement_audit import prove
from ledger.entitlement_explain import explain
from ledger.entitlement_facts import Priors
from ledger.entitlement_store import StoredRecord
from ledger.ids import uuid7
from ledger.policy_terms import Routes, read_terms
from tests.engine import NOON, TERMS, allocated, back, entitled, line, state


def test_a_clerk_reads_the_arithmetic_line_by_line() -> None:
    found = explain(entitled(allocated([line(1, 2490, 3, sku="TEE", tax_minor=945)], 7470), back(("L1", 0, 2))).record)
    assert "1. 2 of 3 TEE at what was paid: 49.80 EUR, tax 6.30 EUR" in found
    assert "   cut(7470, 3, 2, 1) − cut(7470, 3, 0, 1)   [goods.units, L1[0,2)]" in found
    assert "total 49.80 EUR = net 43.50 EUR + tax 6.30 EUR" in found
    assert "   tax peel(945, 7470, 4980) − peel(945, 7470, 0)   [tax 6.30 EUR]" in found
    assert found[-1] == "outcome payable, decided by staff, because routes.auto_enabled=false"


def stored(result: Entitlement, **changed: Any) -> StoredRecord:
    """The row of a result, with columns replaced."""
    row = {"outcome": result.outcome, "currency": "EUR", "total_minor": result.total_minor, "tax_minor": result.tax_minor,
           "payable_minor": result.payable_now_minor}  # fmt: skip
    record = json.loads(result.canonical())
    whole = StoredRecord(uuid7(), 20001, 1, NOON, record, result.digest, row, result.inputs)
    return replace(whole, **changed)


def sealed(record: dict[str, Any], **changed: Any) -> StoredRecord:
    """The row of a record that somebody wrote with a digest of its own."""
    record["digest"] = digest({name: value for name, value in record.items() if name != "digest"}, RECORD_TAG)
    return stored(two_tees(), record=record, digest=record["digest"], **changed)


def names(row: StoredRecord) -> list[str]:
    return [found.name for found in prove(row)]


def two_tees() -> Entitlement:
    return entitled(allocated([line(1, 2490, 3)], 7470), back(("L1", 0, 2)))


def test_a_stored_record_is_proved_by_what_was_stored_with_it() -> None:
    assert names(stored(two_tees())) == []


def test_a_record_that_was_changed_with_its_digest_made_anew_still_is_not_what_its_inputs_derive() -> None:
    record = json.loads(two_tees().canonical())
    record["due_at"] = "2027-01-01T00:00:00Z"
    (found,) = prove(sealed(record))
    assert (found.name, found.say) == ("derives_differently", "derived again it differs in due_at")


def test_each_change_of_a_row_is_named() -> None:
    result = two_tees()
    row, record = stored(result), json.loads(result.canonical())
    assert names(replace(row, record=record | {"order": "B-2"})) == ["record_changed"]
    assert names(replace(row, digest="sha256:" + "0" * 64)) == ["record_changed"]
    assert names(replace(row, row={**row.row, "payable_minor": 4981})) == ["row_changed"]
    assert "does_not_add_up" in names(replace(row, record=record | {"total": 4981}))


@pytest.mark.parametrize("name", ["allocation", "evidence", "priors", "terms"])
def test_a_stored_input_that_was_changed_is_named(name: str) -> None:
    result = two_tees()
    text = getattr(result.inputs, name).replace("{", '{"note":"",', 1)
    (found,) = prove(stored(result, inputs=replace(result.inputs, **{name: text})))
    assert (found.name, found.say) == ("inputs_changed", f"the stored {name} is not what the record is bound to")


def test_an_input_that_nobody_can_read_is_named_with_why() -> None:
    result = two_tees()
    evidence = '{"unheard_of":1}'
    inputs = replace(result.inputs, evidence=evidence)
    record = json.loads(result.canonical())
    record["bound"]["evidence"] = inputs.digest("evidence")
    (found,) = prove(sealed(record, inputs=inputs))
    assert found.name == "inputs_unreadable"
    assert "unheard_of" in found.say


def test_a_row_of_before_is_named_as_without_inputs_and_its_sums_are_checked_all_the_same() -> None:
    result = two_tees()
    assert names(stored(result, inputs=None)) == ["inputs_not_stored"]
    assert (
        names(stored(result, inputs=None, record=json.loads(result.canonical()) | {"total": 1}))[-1]
        == "inputs_not_stored"
    )
    assert len(prove(stored(result, inputs=None, record=json.loads(result.canonical()) | {"total": 1}))) > 1


def test_a_record_of_another_engine_is_no_fault_where_the_figures_are_others_and_proved_where_they_are_not() -> None:
    def derived_by(engine: str, **changed: Any) -> StoredRecord:
        record = json.loads(two_tees().canonical()) | {"engine": engine} | changed
        return sealed(record)

    assert names(derived_by("1.9.0")) == []
    assert names(derived_by("1.9.0", due_at="2027-01-01T00:00:00Z")) == ["other_engine"]


def test_terms_that_were_stored_before_a_field_existed_are_read_with_its_default() -> None:
    result = two_tees()
    assert result.inputs.terms is not None
    terms = json.loads(result.inputs.terms)
    del terms["priority"]
    text = canonical_bytes(terms).decode()
    inputs = replace(result.inputs, terms=text, cited="p@1 " + replace(result.inputs, terms=text).digest("terms"))
    record = json.loads(result.canonical())
    record["bound"]["terms"] = inputs.cited
    assert names(sealed(record, inputs=inputs)) == []


def test_without_a_policy_nothing_is_bound_for_it_and_the_record_is_proved() -> None:
    result = derive(allocated([line(1, 2490, 3)], 7470), back(("L1", 0, 2)), Priors((state("c1", 7470),)), None, NOON)
    assert (result.inputs.terms, result.record["bound"]["terms"]) == (None, "none")
    assert names(stored(result)) == []


def test_terms_with_another_s_routes_are_cited_by_their_own_text() -> None:
    cited = TERMS.cited
    manager = TERMS.model_copy(update={"routes": Routes()})
    assert manager.cited != cited
    assert manager.cited == read_terms(json.loads(manager.canonical)).cited
    assert TERMS.cited == cited
