"""What a control call asks for, from JSON or from a plain form, with a clear refusal for what cannot be meant."""

import json
from typing import Any
from urllib.parse import parse_qsl

from sandbox.errors import not_valid
from sandbox.wire import Request

Wishes = dict[str, Any]


def read(request: Request, *, from_form: bool) -> Wishes:
    """The wishes of a request: its query, its form (empty fields left out) or its JSON object."""
    if request.method == "GET" or from_form:
        text = request.body.decode("utf-8", "replace") if from_form else request.query
        return {name: value for name, value in parse_qsl(text, keep_blank_values=True) if value != ""}
    try:
        wishes = json.loads(request.body or b"{}")
    except ValueError as error:
        raise not_valid(f"The body is no JSON: {error}") from error
    if not isinstance(wishes, dict):
        raise not_valid("The body is a JSON object.")
    return wishes


def whole(wishes: Wishes, name: str, least: int = 0) -> int | None:
    """A whole number not below ``least``, or None when it is not given."""
    value = loose(wishes.get(name))
    if value is None or value == "":
        return None
    if type(value) is not int or value < least:
        raise not_valid(f"{name} is a whole number of at least {least}.", name)
    return value


def number(wishes: Wishes, name: str) -> float:
    """A number, 0 when it is not given."""
    value = loose(wishes.get(name) or 0)
    if type(value) not in (int, float):
        raise not_valid(f"{name} is a number.", name)
    return float(value)


def flag(wishes: Wishes, name: str) -> bool:
    """``true`` or ``false``; not given is false."""
    value = loose(wishes.get(name) or False)
    if type(value) is not bool and value not in (0, 1):
        raise not_valid(f"{name} is true or false.", name)
    return bool(value)


def loose(value: Any) -> Any:
    """A form's word as JSON would have it: ``true``, ``3``, ``0.5``; other words stay words."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
