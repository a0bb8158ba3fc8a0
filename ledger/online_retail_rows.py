"""The rows of an `online-retail` file: from bytes to records, and from a record to a sale row or a return line.

Quoted fields may run over several lines; an odd quote costs its own line and no other. Line numbers are the file's.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import BinaryIO
from zoneinfo import ZoneInfo

from ledger.money import MAX_MINOR
from ledger.online_retail_codes import kind_of, region_of
from ledger.order_facts import MAX_QUANTITY, LineKind
from ledger.order_formats import FormatError, Refused, bounded_lines

COLUMNS = ("InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country")
MAX_LINE_BYTES = 64 * 1024
MAX_JOINED_LINES = 10

_LONDON = ZoneInfo("Europe/London")
_SALE = re.compile(r"\d{1,12}", re.ASCII)
_RETURN = re.compile(r"[Cc]\d{1,12}", re.ASCII)
_ADJUSTMENT = re.compile(r"[Aa]\d{1,12}", re.ASCII)
_CODE = re.compile(r"[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]{0,78}[^\x00-\x20\x7f])?")
_COUNT = re.compile(r"(-?\d{1,9})(?:\.0+)?", re.ASCII)
_PRICE = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,20}))?", re.ASCII)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\.0+)?", re.ASCII)
_CUSTOMER = re.compile(r"(\d{1,12})(?:\.0+)?", re.ASCII)
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f]+")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Record:
    """One data row: its line in the file, its fields by column, and what is wrong with it as a row, if anything."""

    line_no: int
    fields: dict[str, str]
    broken: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a sale. `gross_minor` in pence: quantity times price, half up where a price has parts of a penny."""

    line_no: int
    invoice_no: str
    stock_code: str
    title: str
    kind: LineKind
    quantity: int
    unit_price_minor: int
    gross_minor: int
    at: datetime
    customer_ref: str | None
    region: str | None


@dataclass(frozen=True, slots=True)
class ReturnLine:
    """One return row: `quantity` units (above 0) came back at `at` (UTC). It names no sale; `return_match` finds it."""

    line_no: int
    invoice_no: str
    stock_code: str
    title: str
    kind: LineKind
    quantity: int
    unit_price_minor: int
    at: datetime
    customer_ref: str | None
    region: str | None


class _WrongError(Exception):
    def __init__(self, reason: str, say: str) -> None:
        super().__init__(say)
        self.reason = reason


def open_ledger(file: BinaryIO, start: int) -> Iterator[Record]:
    """The data rows from the position `start`, the header left out. Raises `FormatError` when the header is wrong."""
    file.seek(start)
    lines: deque[tuple[int, str]] = deque()
    source = _numbered(file)
    header = _header(next(source, None))
    while line := lines.popleft() if lines else next(source, None):
        line_no, text = line
        if not text.strip():
            continue
        yield _record(line_no, text, header, lines, source)


def sale_number(record: Record) -> str | None:
    """The invoice number when the row belongs to a sale, well formed or not."""
    number = record.fields.get("InvoiceNo", "").strip()
    return number if _SALE.fullmatch(number) else None


def row_of(record: Record) -> Row | ReturnLine | Refused:
    """A sale row, a return line, or why the row is neither."""
    number = record.fields.get("InvoiceNo", "").strip()
    try:
        return _row(record, number)
    except _WrongError as wrong:
        return Refused(
            record.line_no, wrong.reason, str(wrong), number[:80] if number.isprintable() and number else None
        )


def _row(record: Record, number: str) -> Row | ReturnLine:
    if record.broken:
        raise _WrongError(*record.broken)
    returned = bool(_RETURN.fullmatch(number))
    if _ADJUSTMENT.fullmatch(number):
        raise _WrongError("adjustment", "is an adjustment of debts, not a sale")
    if not returned and not _SALE.fullmatch(number):
        raise _WrongError("invoice_number", "InvoiceNo must be digits, with a C before them for a return")
    fields = record.fields
    code = fields["StockCode"].strip()
    if not _CODE.fullmatch(code):
        raise _WrongError("stock_code", "StockCode must be 1 to 80 printable characters")
    quantity = _quantity(fields["Quantity"].strip(), returned, fields["UnitPrice"].strip())
    unit_minor, gross_minor = _prices(fields["UnitPrice"].strip(), quantity)
    title = " ".join(_UNPRINTED.sub(" ", fields["Description"]).split())[:300] or code
    kind = kind_of(code, title)
    at, customer = _at(fields["InvoiceDate"].strip()), _customer(fields["CustomerID"].strip())
    region = region_of(fields["Country"].strip())
    if returned:
        return ReturnLine(record.line_no, number, code, title, kind, quantity, unit_minor, at, customer, region)
    return Row(record.line_no, number, code, title, kind, quantity, unit_minor, gross_minor, at, customer, region)


def _quantity(text: str, returned: bool, price: str) -> int:
    match = _COUNT.fullmatch(text)
    if match is None:
        raise _WrongError("quantity", "Quantity must be a whole number without separators")
    count = int(match[1])
    if count == 0:
        raise _WrongError("zero_quantity", "Quantity is 0: there is nothing to sell or return")
    if returned and count > 0:
        raise _WrongError("positive_return", "a return (C) has a negative Quantity")
    if not returned and count < 0:
        if not price.strip("0."):
            raise _WrongError("stock_correction", "is a correction of stock without price, not a sale")
        raise _WrongError("negative_quantity", "a negative Quantity needs an InvoiceNo with C")
    if abs(count) > MAX_QUANTITY:
        raise _WrongError("quantity", f"Quantity is above {MAX_QUANTITY}")
    return abs(count)


def _prices(text: str, quantity: int) -> tuple[int, int]:
    match = _PRICE.fullmatch(text)
    if match is None:
        raise _WrongError("price", "UnitPrice must be pounds with a point, such as 2.55, without separators")
    if match[1] and (match[2] + (match[3] or "")).strip("0"):
        raise _WrongError("negative_price", "UnitPrice is negative: this is no sale and no return of goods")
    decimals = match[3] or ""
    parts, scale = int(match[2] + decimals) * 100, 10 ** len(decimals)
    unit, gross = (2 * parts + scale) // (2 * scale), (2 * parts * quantity + scale) // (2 * scale)
    if gross > MAX_MINOR or unit * quantity > MAX_MINOR:
        raise _WrongError("price", "the amount of the line is too large")
    return unit, gross


@lru_cache(maxsize=64)
def _at(text: str) -> datetime:
    match = _DATE.fullmatch(text)
    try:
        if match is not None:
            return datetime.fromisoformat(f"{match[1]} {match[2]}").replace(tzinfo=_LONDON).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise _WrongError("date", "InvoiceDate must be a date and time of London, such as 2010-12-01 08:26:00")


def _customer(text: str) -> str | None:
    if not text or text.lower() == "nan":
        return None
    match = _CUSTOMER.fullmatch(text)
    if match is None:
        raise _WrongError("customer", "CustomerID must be digits, or empty")
    return match[1]


def _numbered(file: BinaryIO) -> Iterator[tuple[int, str]]:
    for line_no, raw in enumerate(bounded_lines(file, MAX_LINE_BYTES), start=1):
        if line_no == 1 and raw.startswith(_UTF16):
            raise FormatError("the file is UTF-16: save it as CSV in UTF-8")
        yield line_no, _text(raw.removeprefix(b"\xef\xbb\xbf") if line_no == 1 else raw)


def _text(raw: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("latin-1")


def _header(line: tuple[int, str] | None) -> list[str]:
    names = _split(line[1]) if line else None
    known = {name.lower(): name for name in COLUMNS}
    header = [known.get(name.strip().lower(), name.strip()) for name in names or ()]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise FormatError(
            f"the first line lacks the column {', '.join(missing)}: this format has {', '.join(COLUMNS)}, with commas"
        )
    if len(set(header)) < len(header):
        raise FormatError("the first line names a column twice: name each column once")
    return header


def _record(
    line_no: int, text: str, header: list[str], lines: deque[tuple[int, str]], source: Iterator[tuple[int, str]]
) -> Record:
    if len(text) > MAX_LINE_BYTES // 4 and len(text.encode()) > MAX_LINE_BYTES:
        return Record(line_no, _some(text, header), ("line_too_long", f"is longer than {MAX_LINE_BYTES} bytes"))
    fields = _split(text)
    joined: list[tuple[int, str]] = []
    while fields is None and len(joined) < MAX_JOINED_LINES:
        more = lines.popleft() if lines else next(source, None)
        if more is None:
            break
        joined.append(more)
        fields = _split(text + "".join(part for _, part in joined))
    if fields is not None and len(fields) == len(header):
        return Record(line_no, dict(zip(header, fields, strict=True)))
    lines.extendleft(reversed(joined))
    if fields is None or joined:
        return Record(
            line_no, _some(text, header), ("quotes", "a quote is opened and never closed: close or double it")
        )
    say = f"has {len(fields)} columns and the first line has {len(header)}: check commas and quotes"
    return Record(line_no, _some(text, header), ("columns", say))


def _split(text: str) -> list[str] | None:
    """The fields of a line, or None while a quoted field is still open."""
    if '"' not in text:
        return text.rstrip("\r\n").split(",")
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        return None


def _some(text: str, header: list[str]) -> dict[str, str]:
    """What can still be told of a broken row: its invoice, so that the invoice is not taken without it."""
    place = header.index("InvoiceNo")
    parts = text.split(",", place + 1)
    return {"InvoiceNo": parts[place].strip().strip('"')} if place < len(parts) else {}
