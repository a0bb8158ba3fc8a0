"""Stripe's form encoding (``metadata[a]=1&expand[0]=charge``) and what each call takes."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from sandbox.errors import ProviderError, not_valid

Params = dict[str, Any]
Check = Callable[[str, Any], Any]

METADATA_KEYS, METADATA_KEY_LENGTH, METADATA_VALUE_LENGTH = 50, 40, 500  # §1


def decode(text: str) -> Params:
    """Turn a query or form body into nested dictionaries. A list comes out as ``{"0": …}`` or ``{"": [...]}``."""
    params: Params = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if "[" not in name:
            params[name] = value
            continue
        head, *parts = name.replace("]", "").split("[")
        place = params
        for part, following in zip([head, *parts], parts, strict=False):
            below = place.setdefault(part, [] if following == "" else {})
            if not isinstance(below, dict):
                if following == "" and isinstance(below, list):
                    below.append(value)
                    break
                raise not_valid(f"Invalid {head}: mixes a value with nested values", head)
            place = below
        else:
            place[parts[-1]] = value
    return params


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise not_valid(f"Invalid string: {name}", name)
    if value == "":
        raise not_valid(
            f"You passed an empty string for '{name}'. We assume empty values are an attempt to unset a parameter; "
            f"however '{name}' cannot be unset. You should remove '{name}' from your request or supply a non-empty "
            "value.",
            name,
            "parameter_invalid_empty",
        )
    return value


def free_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise not_valid(f"Invalid string: {name}", name)
    return value


def whole(name: str, value: Any) -> int:
    digits = value.removeprefix("-") if isinstance(value, str) else ""
    if digits.isascii() and digits.isdigit() and len(digits) <= 18:  # fits SQLite's 64 bits
        return int(value)
    raise not_valid(f"Invalid integer: {value}", name, "parameter_invalid_integer")


def flag(name: str, value: Any) -> bool:
    if value in ("true", "false"):
        return bool(value == "true")
    raise not_valid(f"Invalid boolean: {value}", name)


def one_of(*choices: str) -> Check:
    def check(name: str, value: Any) -> str:
        if value not in choices:
            raise not_valid(f"Invalid {name}: must be one of {', '.join(choices[:-1])}, or {choices[-1]}", name)
        return str(value)

    return check


def nested(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise not_valid(f"Invalid hash: {name}", name)
    return value


def items(name: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise not_valid(f"Invalid array: {name}", name)
    return value


def metadata(name: str, value: Any) -> dict[str, str]:
    """Metadata to set; an empty value unsets that key, an empty string unsets all (``{"": ""}`` here)."""
    if value == "":
        return {"": ""}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise not_valid("Invalid hash: metadata", name)
    if len(value) > METADATA_KEYS:
        raise not_valid(f"Metadata can have at most {METADATA_KEYS} keys.", name)
    for key, item in value.items():
        if len(key) > METADATA_KEY_LENGTH:
            raise not_valid(f"Metadata keys can have up to {METADATA_KEY_LENGTH} characters: '{key}'", name)
        if len(item) > METADATA_VALUE_LENGTH:
            raise not_valid(f"Metadata values can have up to {METADATA_VALUE_LENGTH} characters ('{key}').", name)
    return value


def period(name: str, value: Any) -> dict[str, int]:
    """``created=N`` or ``created[gte]=N``: bounds in Unix seconds."""
    if isinstance(value, str):
        return {"=": whole(name, value)}
    signs = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
    bounds = {}
    for word, number in nested(name, value).items():
        if word not in signs:
            raise unknown(f"{name}[{word}]")
        bounds[signs[word]] = whole(f"{name}[{word}]", number)
    return bounds


def limit(name: str, value: Any) -> int:
    number = whole(name, value)
    if not 1 <= number <= 100:
        raise not_valid("This value must be between 1 and 100.", name, "parameter_invalid_integer")
    return number


def merge(old: dict[str, str], change: dict[str, str]) -> dict[str, str]:
    """Apply a metadata parameter to the metadata held."""
    if change == {"": ""}:
        return {}
    return {key: value for key, value in (old | change).items() if value != ""}


def unknown(name: str) -> ProviderError:
    return not_valid(f"Received unknown parameter: {name}", name, "parameter_unknown")


def checked(params: Params, takes: dict[str, Check]) -> Params:
    """Every parameter in its type. An unknown one is refused before anything is done."""
    answer: Params = {}
    for name, value in params.items():
        check = takes.get(name)
        if check is None:
            raise unknown(name)
        answer[name] = check(name, value)
    return answer


PAGE: dict[str, Check] = {"limit": limit, "starting_after": text, "ending_before": text, "expand": items}
EXPAND: dict[str, Check] = {"expand": items}
