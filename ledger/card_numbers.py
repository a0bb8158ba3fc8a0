"""Card numbers do not get into the ledger: they are masked in every text of a channel or a person before it is stored (S76)."""

import re
import unicodedata
from typing import Final

# 13 to 19 digits of any script, with single spaces, dashes or dots between them, not part of a longer run of digits.
_RUN: Final = re.compile(r"(?<!\d)\d(?:[\s.\-\u2010-\u2015\u2212]{0,2}\d){12,18}(?![\s.\-\u2010-\u2015\u2212]?\d)")


def mask_card_numbers(text: str) -> str:
    """The text with each card number (13–19 digits that pass the Luhn check) replaced by its last four digits."""
    return _RUN.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    digits = [unicodedata.digit(character) for character in found[0] if character.isdigit()]
    if not _passes_luhn(digits):
        return found[0]
    return "[card number ending " + "".join(map(str, digits[-4:])) + "]"


def _passes_luhn(digits: list[int]) -> bool:
    total = sum(digits[-1::-2]) + sum((2 * digit) // 10 + (2 * digit) % 10 for digit in digits[-2::-2])
    return total % 10 == 0 and any(digits)
