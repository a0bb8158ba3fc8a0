"""The checker accepts every record the engine makes and rejects any record with one changed number."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from ledger.canonical import digest
from ledger.entitlement_check import RECORD_TAG, check
from ledger.entitlement_facts import Allowance, CasePayment, PriorClaim
from tests.engine import TERMS, allocated, back, capture, entitled, line, state

Path = tuple[str | int, ...]


def whole_record() -> dict[str, Any]:
    """A record with every part: two goods ranges, an allowance, shipping waiting, two draws, one of them foreign."""
    lines = [
        line(1, 0, 4, gross_minor=8999, tax_minor=1500),
        line(2, 0, 3, gross_minor=5918, tax_minor=945),
        line(3, 790, kind="shipping", tax_minor=126),
    ]
    captures = [capture("c1", 9000, "USD", order_minor=8000), capture("c2", 7707)]
    entitlement = entitled(
        allocated(lines, 15_707, captures=captures),
        back(("L1", 1, 2), ("L2", 0, 3)),
        [
            state("c1", 9000, currency="USD", order_minor=8000, available_minor=7000),
            state("c2", 7707, available_minor=900),
        ],
        TERMS,
        allowances=(Allowance("L1", 300, 0, 2),),
        claims=(PriorClaim("R-0", "L1", 3, 4, 2249),),
        paid=(CasePayment("c2", 150, 150),),
    )
    return dict(copy.deepcopy(entitlement.record))


def numbers(value: object, path: Path = ()) -> Iterator[Path]:
    if type(value) is int:
        yield path
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from numbers(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from numbers(member, (*path, index))


def change(record: dict[str, Any], path: Path, by: int) -> None:
    place: Any = record
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] += by


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its digest made anew, as somebody who changed it would."""
    body = {key: value for key, value in record.items() if key != "digest"}
    return body | {"digest": digest(body, RECORD_TAG)}


def is_evidence_of_a_sum(path: Path) -> bool:
    """Numbers that follow from others. The rest (exponent, ceilings, steps) are inputs, which the digest alone guards."""
    return (
        path[0] not in ("exponent", "ceilings", "units", "clipped")
        and path[-1] not in ("available", "step")
        and not {"expr", "order_expr"} & set(path)
    )


def test_a_record_with_every_part_is_accepted() -> None:
    record = whole_record()
    assert check(record) == []
    assert len(record["draws"]) == 2
    assert len(list(numbers(record))) > 80


@pytest.mark.parametrize("by", [1, -1])
def test_any_one_changed_number_is_rejected(by: int) -> None:
    for path in numbers(whole_record()):
        changed = whole_record()
        change(changed, path, by)
        assert check(changed), path


@pytest.mark.parametrize("by", [1, -1, 1000])
def test_a_changed_sum_is_rejected_even_under_a_new_digest(by: int) -> None:
    paths = [path for path in numbers(whole_record()) if is_evidence_of_a_sum(path)]
    assert len(paths) > 30
    for path in paths:
        changed = whole_record()
        change(changed, path, by)
        assert check(sealed(changed)), path


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("lines", 0, "rule"), "goods.generous", "not in the catalogue"),
        (("lines", 0, "minor"), 1.0, "not a whole number"),
        (("lines", 0, "minor"), True, "not a whole number"),
        (("lines", 0, "expr"), ["eval", 1], "not an operator"),
        (("lines", 0, "expr"), ["cut", 100, 3, 4, 1], "more units than there are"),
        (("lines", 0, "expr"), "8999", "not a whole number"),
        (("lines", 0, "tax"), None, "lacks a part"),
        (("units",), [["L1", 1, 3], ["L1", 2, 4]], "overlap"),
        (("ceilings", "L1", "allocated"), 10, "above what the line was charged at"),
        (("draws", 0, "available"), 10, "above what the capture holds"),
        (("draws",), [], "do not sum to what is payable"),
        (("retained", "L1"), -5, "claimed less retained"),
    ],
)
def test_a_record_that_does_not_hold_together_is_rejected_in_words(path: Path, value: object, says: str) -> None:
    changed = whole_record()
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    body = {key: member for key, member in changed.items() if key != "digest"}
    wrong = check(body | {"digest": "sha256:0"} if isinstance(value, float) else sealed(changed))
    assert any(says in one for one in wrong), wrong


def test_a_record_bound_to_other_inputs_is_rejected() -> None:
    record = whole_record()
    assert check(record, record["bound"]) == []
    assert check(record, record["bound"] | {"priors": "sha256:other"}) == ["the record is bound to other inputs"]


def test_something_that_is_no_record_is_rejected_without_an_exception() -> None:
    assert check({})
    assert check({"lines": 3, "digest": "sha256:0"})
