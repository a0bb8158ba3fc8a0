"""CSV that a spreadsheet opens as what it says: text stays text whatever it begins with, numbers stay numbers (S60).

Every cell is quoted. A text cell that a spreadsheet would take for a formula gets an apostrophe before it; hidden characters
show as code points, as on the pages. Numbers, amounts and moments are made here, never from text, and get none.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from console.filters import plain
from ledger.money import EXPONENTS, MINUS, format_minor

# Excel takes a file without it for the machine's own alphabet.
BEGINS: Final = "\ufeff".encode()
MEDIA_TYPE: Final = "text/csv; charset=utf-8"
_FORMULA: Final = ("=", "+", "-", "@")
_BREAKS: Final = ("\t", "\r", "\n")
# Where the list separator is a semicolon, what follows one inside a cell would begin a cell of its own.
_LATER: Final = re.compile(r"([;\t\r\n]\s*)(?=[=+\-@＝＋－＠])")


@dataclass(frozen=True)
class Amount:
    """Minor units that are written as a decimal number of major units; empty for a currency that we do not know."""

    minor: int
    currency: str

    def __str__(self) -> str:
        return format_minor(self.minor, self.currency).replace(MINUS, "-") if self.currency in EXPONENTS else ""


Cell = str | int | Amount | datetime | None


def text(value: object) -> str:
    """Text as a cell: visible, and no formula. Foreign text goes through here, and so does ours."""
    shown = _LATER.sub(r"\1'", plain(value))
    folded = unicodedata.normalize("NFKC", shown)
    return f"'{shown}" if folded.startswith(_BREAKS) or folded.strip().startswith(_FORMULA) else shown


def lines(rows: Iterable[Sequence[Cell]], zone: ZoneInfo) -> bytes:
    """Rows as lines of the file. A str is neutralised; an int or Amount is written as it is, a moment in the zone as ISO 8601."""
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    for row in rows:
        writer.writerow([_cell(value, zone) for value in row])
    return written.getvalue().encode()


def _cell(value: Cell, zone: ZoneInfo) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return value.astimezone(zone).isoformat(timespec="seconds")
        case int() | Amount():
            return str(value)
        case _:
            return text(value)
