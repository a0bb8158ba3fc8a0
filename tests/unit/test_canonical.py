"""Canonical JSON: one content, one run of bytes."""

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import tests.profiles  # noqa: F401
from ledger.canonical import MAX_SAFE, CanonicalError, canonical_bytes, digest

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
documents = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | st.integers(-MAX_SAFE, MAX_SAFE) | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)


@given(documents)
def test_the_bytes_are_those_of_rfc_8785_whatever_the_keys(document: dict[str, Any]) -> None:
    assert canonical_bytes(document) == rfc8785.dumps(document)


@given(documents)
def test_a_round_trip_through_json_keeps_the_digest(document: dict[str, Any]) -> None:
    again = json.loads(json.dumps(dict(reversed(document.items()))))
    assert digest(again) == digest(document)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"amount": 2**53}, "amount"),
        ({"rows": [{"amount": -(2**53)}]}, r"rows\[0\].amount"),
        ({"rate": 1.5}, "rate"),
        ({"name": "\ud800"}, "name"),
        ({"\udc00": 1}, "a key"),
        ({"rows": ["ok", "\udfff"]}, r"rows\[1\]"),
        ({"at": object()}, "at"),
    ],
)
def test_what_other_readers_would_change_is_refused_by_its_place(document: dict[str, Any], place: str) -> None:
    with pytest.raises(CanonicalError, match=place):
        canonical_bytes(document)


def test_a_wrong_member_after_an_unusual_key_is_still_found() -> None:
    with pytest.raises(CanonicalError, match="rate"):
        canonical_bytes({"clé": 1, "rate": 0.1})


def test_digests_of_different_kinds_never_meet() -> None:
    assert digest({"a": 1}, "approval") != digest({"a": 1}, "evidence") != digest({"a": 1})
