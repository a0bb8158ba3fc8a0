"""The `online-retail` format: a retailer's ledger as CSV, one row per invoice line, returns as invoices with a C.

Columns, in any order: InvoiceNo, StockCode, Description, Quantity, InvoiceDate, UnitPrice, CustomerID, Country. Prices
are pounds with tax in, times are London's. The rows of one invoice become one order (`OrderFacts`, currency GBP, one
card capture of its total without provider references); each return row becomes a `ReturnLine` of its own.

An invoice is taken whole or not at all: when one row is refused, so is every other row of it, each under its line
number. Rows of one invoice need not be adjacent: a first pass finds invoices that come in several runs, and their
rows are held until the last run has been read, so nothing is lost, doubled or imported in halves. Everything else is
held for one invoice only, however long the file. Repeated stock codes inside an invoice stay separate lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO

from pydantic import ValidationError

from ledger.online_retail_rows import ReturnLine, Row, open_ledger, row_of, sale_number
from ledger.order_document import problems_of
from ledger.order_facts import MAX_LINES, OrderFacts
from ledger.order_formats import FormatError, Refused


@dataclass(slots=True)
class _Invoice:
    number: str
    rows: list[Row] = field(default_factory=list)
    spoilt_by: int | None = None


def read_online_retail(file: BinaryIO) -> Iterator[OrderFacts | ReturnLine | Refused]:
    """Orders, return lines and refused lines of a seekable binary file, in the file's order.

    Every data row ends in exactly one of them. Raises `FormatError` before yielding anything when the file is not this
    format. Blank lines and a byte order mark are skipped; bytes that are not UTF-8 are read as Windows-1252.
    """
    if not file.seekable():
        raise FormatError("the file is read twice: give a file on disk, not a pipe")
    start = file.tell()
    runs = _runs(file, start)
    held: dict[str, _Invoice] = {}
    current: _Invoice | None = None
    for record in open_ledger(file, start):
        found, number = row_of(record), sale_number(record)
        if number is not None and (current is None or current.number != number):
            if current is not None:
                yield from _run_ends(current, runs, held)
            current = held.get(number) or _Invoice(number)
        if isinstance(found, Row) and current is not None:
            current.rows.append(found)
            continue
        if number is not None and current is not None:
            current.spoilt_by = current.spoilt_by or record.line_no
        if not isinstance(found, Row):
            yield found
    if current is not None:
        yield from _run_ends(current, runs, held)


def _runs(file: BinaryIO, start: int) -> dict[str, int]:
    """Invoices whose rows come in several runs, and in how many. Rising invoice numbers, as usual, hold nothing."""
    suspects: set[str] = set()
    highest, previous = -1, ""
    for record in open_ledger(file, start):
        number = sale_number(record)
        if number is None or number == previous:
            continue
        if int(number) <= highest:
            suspects.add(number)
        highest, previous = max(highest, int(number)), number
    runs: dict[str, int] = {}
    previous = ""
    for record in open_ledger(file, start) if suspects else ():
        number = sale_number(record)
        if number is not None and number != previous:
            previous = number
            if number in suspects:
                runs[number] = runs.get(number, 0) + 1
    return {number: count for number, count in runs.items() if count > 1}


def _run_ends(invoice: _Invoice, runs: dict[str, int], held: dict[str, _Invoice]) -> Iterator[OrderFacts | Refused]:
    left = runs.get(invoice.number, 1) - 1
    if left:
        runs[invoice.number] = left
        held[invoice.number] = invoice
        return
    held.pop(invoice.number, None)
    yield from _order(invoice)


def _order(invoice: _Invoice) -> Iterator[OrderFacts | Refused]:
    rows = invoice.rows
    say = f"the invoice is refused because of line {invoice.spoilt_by}: correct that line and import again"
    if not rows:
        return
    if invoice.spoilt_by is None and len({row.customer_ref for row in rows}) > 1:
        say = "the invoice names several customers: correct it and import again"
    elif invoice.spoilt_by is None and len(rows) > MAX_LINES:
        say = f"the invoice has more than {MAX_LINES} lines: split it"
    elif invoice.spoilt_by is None:
        try:
            yield OrderFacts.model_validate(_document(invoice.number, rows))
        except ValidationError as error:
            problem = problems_of(error)[0]
            say = f"the invoice cannot be taken: {problem.field} {problem.say}"
        else:
            return
    for row in rows:
        yield Refused(row.line_no, "invoice_refused", say, invoice.number)


def _document(number: str, rows: list[Row]) -> dict[str, object]:
    placed_at: datetime = rows[0].at
    total = sum(row.gross_minor for row in rows)
    customer = rows[0].customer_ref
    return {
        "external_ref": number,
        "currency": "GBP",
        "total_minor": total,
        "placed_at": placed_at,
        "zone": "Europe/London",
        "region": rows[0].region,
        "channel": "shop",
        "price_mode": "inclusive",
        "customer": {"external_ref": customer, "name": f"Customer {customer}"} if customer else None,
        "lines": tuple(_line(position, row) for position, row in enumerate(rows, start=1)),
        "captures": (_capture(number, total, placed_at),) if total else (),
    }


def _line(position: int, row: Row) -> dict[str, object]:
    line: dict[str, object] = {
        "line_ref": f"L{position}",
        "position": position,
        "kind": row.kind,
        "sku": row.stock_code,
        "title": row.title,
        "quantity": row.quantity,
        "unit_price_minor": row.unit_price_minor,
        "tax_minor": 0,
    }
    if row.gross_minor != row.quantity * row.unit_price_minor:
        line["gross_minor"] = row.gross_minor
    return line


def _capture(number: str, total: int, placed_at: datetime) -> dict[str, object]:
    return {
        "capture_ref": f"{number}-1",
        "tender": "card",
        "currency": "GBP",
        "captured_minor": total,
        "captured_at": placed_at,
        "destination": {"kind": "card"},
    }
