"""The units a refund's metadata names (S86): written by `fingerprint.frozen_request`, read back after a recovery."""

import re
from typing import Final

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
