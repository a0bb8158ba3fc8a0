"""The files orders come in by: `read_onceback` here, `read_online_retail` in `ledger.online_retail`.

Every reader is a generator that holds one order at a time. It yields what it read and, in between, a `Refused` for each
line it could not take, with the line's number and what to do; it never stops at a bad line and never yields half an
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ledger.order_document import MAX_DOCUMENT_BYTES, FactsRefused, parse_order
from ledger.order_facts import OrderFacts


class FormatError(ValueError):
    """The file as a whole is not of this format; the message says what it lacks. Nothing was read."""


@dataclass(frozen=True, slots=True)
class Refused:
    """One line of a file that was not taken. `line_no` counts the file's lines from 1; `ref` is its order, if known."""

    line_no: int
    reason: str
    say: str
    ref: str | None = None


def read_onceback(lines: Iterable[bytes | str]) -> Iterator[OrderFacts | Refused]:
    """Orders of the `onceback` format: one JSON document per line (see `ledger.order_facts`); blank lines are skipped.

    Give it `bounded_lines(file)`, so that one endless line cannot fill the memory.
    """
    for line_no, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield parse_order(line)
        except FactsRefused as error:
            yield Refused(line_no, "order_refused", str(error))


def bounded_lines(file: BinaryIO, limit: int = MAX_DOCUMENT_BYTES) -> Iterator[bytes]:
    """The lines of a file, each cut off one byte above `limit`, where every reader refuses it; the rest is skipped."""
    while line := file.readline(limit + 1):
        yield line
        while len(line) > limit and not line.endswith(b"\n"):
            line = file.readline(limit + 1)
