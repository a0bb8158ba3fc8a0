"""Shares as people type and read them: percent, beside the ten-thousandths they are stored in."""

import re
from typing import Final

WHOLE_BPS: Final = 10_000
_PERCENT: Final = re.compile(r"(?a:(\d{1,3})(?:\.(\d{1,2}))?) ?%?")


def percent(text: str) -> int | None:
    """ "12.5" or "12.5 %" as 1250 ten-thousandths; None for what is not 0 to 100 percent, of at most two decimals."""
    found = _PERCENT.fullmatch(text)
    bps = int(found[1]) * 100 + int((found[2] or "").ljust(2, "0")) if found else -1
    return bps if 0 <= bps <= WHOLE_BPS else None


def percent_text(bps: int) -> str:
    """1250 ten-thousandths as "12.5"."""
    whole, rest = divmod(bps, 100)
    return f"{whole}.{rest:02}".rstrip("0").rstrip(".")
