"""Reading one order from JSON: every wrong field is named with what to do about it, and nothing is kept in part.

In a file there is one document per line. Duplicate keys, unknown fields, decimals and oversized documents are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ledger.order_facts import FieldError, OrderFacts

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """One wrong field of a document: its path ("lines[2].quantity") and what to do about it."""

    field: str
    say: str


class FactsRefused(ValueError):
    """The order cannot be read; correct the named fields and send it again. Nothing of it was kept."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.say}" for problem in problems))
        self.problems = problems


def parse_order(document: bytes | str) -> OrderFacts:
    """Read one JSON document. Raises `FactsRefused` naming each wrong field and what to do; never keeps a part."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise _refused("", f"is larger than {MAX_DOCUMENT_BYTES} bytes: split the order")
    try:
        text = document if isinstance(document, str) else document.decode("utf-8-sig")
        read_json(text)
    except UnicodeDecodeError:
        raise _refused("", "is not UTF-8: save or send it as UTF-8") from None
    try:
        return OrderFacts.model_validate_json(text)
    except ValidationError as error:
        raise FactsRefused(problems_of(error)) from None


def read_json(text: str) -> Any:
    """What a JSON document says; raises `FactsRefused` for what is none, or gives a field twice."""
    try:
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except RecursionError:
        raise _refused("", "is nested too deeply") from None
    except FieldError as error:
        raise _refused(error.field, str(error)) from None
    except ValueError as error:
        raise _refused("", f"is not JSON ({error}): send one JSON document") from None


def order_facts(document: Mapping[str, Any]) -> OrderFacts:
    """The same for a document already decoded (a stored one); raises `FactsRefused`."""
    return parse_order(json.dumps(document))


def problems_of(error: ValidationError) -> tuple[Problem, ...]:
    """Each wrong field of a pydantic error in this project's words, at most `MAX_PROBLEMS`; no value is repeated."""
    found = []
    details = error.errors(include_url=False, include_input=False)
    inner = {detail["loc"][:depth] for detail in details for depth in range(1, len(detail["loc"]))}
    for detail in details:
        if detail["type"] == "too_short" and detail["loc"] in inner:
            continue  # only short because its members are wrong, which is said already
        raised = detail.get("ctx", {}).get("error")
        field = _path(detail["loc"])
        if isinstance(raised, FieldError):
            field = f"{field}.{raised.field}" if field else raised.field
        found.append(Problem(field or "document", _say(detail["type"], detail["msg"], raised)))
    if len(found) > MAX_PROBLEMS:
        found = [*found[:MAX_PROBLEMS], Problem("document", f"has {len(found) - MAX_PROBLEMS} more wrong fields")]
    return tuple(found)


_SAYS = {
    "missing": "is missing: add it",
    "extra_forbidden": "is not a field of an order: remove it",
    "int_type": "must be a whole number without quotes or decimals",
    "int_from_float": "must be a whole number without decimals",
    "string_type": "must be text in quotes",
    "string_unicode": "holds something that is not text: send UTF-8",
    "timezone_aware": "needs an offset, such as Z or +02:00",
    "datetime_type": "give an instant with seconds and offset, such as 2026-04-20T18:02:11Z",
    "model_type": "must be an object in braces",
    "tuple_type": "must be a list in brackets",
    "dict_type": "must be an object in braces",
}


def _say(kind: str, message: str, raised: Exception | None) -> str:
    if raised is not None:
        return str(raised)
    if kind == "string_pattern_mismatch":
        return "is not of the form this field takes: see the format; control characters and outer spaces are refused"
    return _SAYS.get(kind, message[:1].lower() + message[1:] + ": correct it")


def _path(loc: tuple[int | str, ...]) -> str:
    path = ""
    for step in loc:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise FieldError(key[:100], "is given twice: give each field once")
            seen.add(key)
    return found


def _no_constant(name: str) -> None:
    raise FieldError("", f"holds {name}, which is not JSON: give a whole number")


def _refused(field: str, say: str) -> FactsRefused:
    return FactsRefused((Problem(field or "document", say),))
