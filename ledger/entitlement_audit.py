"""The proof of an entitlement: its stored inputs are those it binds, and derive it again to the byte.

Nothing is read here but the row. A difference has a name, which an audit counts, and says what it is in words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from ledger.duplicate_record import again
from ledger.entitlement import ENGINE, derive
from ledger.entitlement_check import NOT_ITS_DIGEST, check
from ledger.entitlement_inputs import TAGS, Inputs
from ledger.entitlement_store import StoredRecord, bound_of

Name = Literal[
    "inputs_not_stored", "record_changed", "row_changed", "does_not_add_up", "inputs_changed", "inputs_unreadable",
    "derives_differently", "other_engine",
]  # fmt: skip
NOTES: Final[frozenset[Name]] = frozenset({"inputs_not_stored", "other_engine"})
"""What is so of rows of before, and no fault of theirs: such a row is not proved, and nothing is known against it."""


_COLUMNS: Final = {
    "outcome": "outcome", "currency": "currency", "total_minor": "total", "tax_minor": "tax", "payable_minor": "payable_now",
}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """What keeps a row from being proved."""

    name: Name
    say: str


def prove(stored: StoredRecord) -> list[Difference]:
    """Everything that speaks against a stored record; empty when it is proved."""
    found = list(_of_the_row(stored))
    if stored.charges is not None:
        return found or list(_of_charges(stored.record, stored.charges))
    if stored.inputs is None:
        return [
            *found,
            Difference(
                "inputs_not_stored",
                "its inputs are not kept (it is of before they were, or they were erased): only its sums count",
            ),
        ]
    found += _of_the_inputs(stored.record, stored.inputs)
    if found:
        return found
    return list(recompute(stored.record, stored.inputs))


def _of_the_row(stored: StoredRecord) -> Iterator[Difference]:
    """The record is the one that was stored, its columns say the same, and it adds up as its checker says."""
    record, wrong = stored.record, check(stored.record)
    if record.get("digest") != stored.digest or NOT_ITS_DIGEST in wrong:
        yield Difference("record_changed", "the record is not the one its digest was made of")
    differ = [column for column, name in _COLUMNS.items() if stored.row[column] != record.get(name)]
    if differ:
        yield Difference("row_changed", f"the row says otherwise than its record in {', '.join(differ)}")
    yield from (Difference("does_not_add_up", one) for one in wrong if one != NOT_ITS_DIGEST)


def _of_the_inputs(record: Mapping[str, Any], inputs: Inputs) -> Iterator[Difference]:
    bound = bound_of(record)
    for name in TAGS:
        if inputs.digest(name) != str(bound.get(name, "")).rpartition(" ")[2]:
            yield Difference("inputs_changed", f"the stored {name} is not what the record is bound to")


def _of_charges(record: Mapping[str, Any], charges: str) -> Iterator[Difference]:
    """Finds again what was found from the charges that are stored with it."""
    try:
        found = again(record, charges)
    except (ValueError, TypeError, KeyError) as error:
        yield Difference("inputs_unreadable", f"its charges cannot be read: {type(error).__name__}: {error}")
        return
    names = sorted(name for name in {*record, *found} - {"digest"} if record.get(name) != found.get(name))
    if "bound" in names:
        yield Difference("inputs_changed", "the stored charges are not what the record is bound to")
    elif names:
        yield Difference("derives_differently", f"found again it differs in {', '.join(names)}")


def recompute(record: Mapping[str, Any], inputs: Inputs) -> Iterator[Difference]:
    """Derives again from inputs that are those bound, and names what comes out otherwise."""
    try:
        facts, as_of = inputs.read(), datetime.fromisoformat(record["as_of"])
    except (ValueError, TypeError, KeyError) as error:
        yield Difference("inputs_unreadable", f"its inputs cannot be read: {type(error).__name__}: {error}")
        return
    derived = derive(*facts, as_of)
    if derived.digest == record["digest"]:
        return
    again = json.loads(derived.canonical())
    # Terms spell every field out, so a field that came since is in the text of now and not in what was bound.
    again["bound"]["terms"] = inputs.cited
    names = sorted(name for name in {*record, *again} - {"digest", "engine"} if record.get(name) != again.get(name))
    differ = ", ".join(names)
    if names and record.get("engine") != ENGINE:
        yield Difference("other_engine", f"engine {record.get('engine')} derived it; {ENGINE} differs in {differ}")
    elif names:
        yield Difference("derives_differently", f"derived again it differs in {differ}")
