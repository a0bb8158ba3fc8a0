"""The units a refund's metadata names (S86): written by `fingerprint.frozen_request`, read back after a recovery."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from ledger.fingerprint import KEPT

_ONE: Final = re.compile(r"(?P<line>.{1,100}?)\[(?P<from>\d{1,7}),(?P<to>\d{1,7})\)(?:;|$)", re.DOTALL)


def read_units(text: str) -> list[tuple[str, int, int]] | None:
    """(line reference, from, to) in turn; None for a digest, which only a person can answer, and for what is no such list."""
    found, at = [], 0
    while at < len(text):
        one = _ONE.match(text, at)
        if one is None or int(one["from"]) >= int(one["to"]):
            return None
        found.append((one["line"], int(one["from"]), int(one["to"])))
        at = one.end()
    return found or None


def read_kept(text: str) -> tuple[str, int, int] | None:
    """The line that money was given on with the goods kept, and its units, [0,0) for all of it; None for what is no such thing."""
    one = _ONE.fullmatch(text.removeprefix(KEPT)) if text.startswith(KEPT) else None
    return (one["line"], int(one["from"]), int(one["to"])) if one is not None else None


def digest_of_units(units: Iterable[tuple[str, int, int]]) -> str:
    """What stands in the metadata for a list that was too long, as `fingerprint.frozen_request` makes it."""
    text = ";".join(f"{line}[{a},{b})" for line, a, b in units)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
