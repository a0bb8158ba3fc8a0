"""The real ledger and everything a month of it may look like: each row ends as an order line, a return or a reason."""

from __future__ import annotations

import io
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

import pytest

from ledger.allocation import allocate
from ledger.online_retail import read_online_retail
from ledger.online_retail_codes import kind_of, region_of
from ledger.online_retail_rows import COLUMNS, MAX_LINE_BYTES, ReturnLine
from ledger.order_facts import OrderFacts
from ledger.order_formats import FormatError, Refused
from tests.shared import shared_file

HEADER = ",".join(COLUMNS)


def row(invoice: str = "536365", code: str = "85123A", **other: str) -> str:
    fields = {"title": "HEART HOLDER", "quantity": "6", "at": "2010-12-01 08:26:00", "price": "2.55"}
    fields |= {"customer": "17850.0", "country": "United Kingdom"} | other
    return ",".join([invoice, code, *fields.values()])


def read(*rows: str, header: str = HEADER) -> list[OrderFacts | ReturnLine | Refused]:
    return list(read_online_retail(io.BytesIO("\n".join([header, *rows]).encode())))


def orders(found: list[OrderFacts | ReturnLine | Refused]) -> list[OrderFacts]:
    return [one for one in found if isinstance(one, OrderFacts)]


def refusals(found: list[OrderFacts | ReturnLine | Refused]) -> list[tuple[int, str]]:
    return [(one.line_no, one.reason) for one in found if isinstance(one, Refused)]


def covered(found: list[OrderFacts | ReturnLine | Refused]) -> int:
    """How many data rows the results stand for."""
    return sum(len(one.lines) if isinstance(one, OrderFacts) else 1 for one in found)


def test_the_real_month_is_counted_to_the_row_and_the_penny() -> None:
    with shared_file("data", "online-retail-2010-12.csv").open("rb") as file:
        found = list(read_online_retail(file))
    assert Counter(type(one).__name__ for one in found) == {"OrderFacts": 1629, "ReturnLine": 728, "Refused": 70}
    assert covered(found) == 42_481
    assert {one.reason for one in found if isinstance(one, Refused)} == {"stock_correction"}
    assert sum(one.total_minor for one in orders(found)) == 82_374_614
    returns = [one for one in found if isinstance(one, ReturnLine)]
    assert Counter(one.kind for one in returns) == {"goods": 698, "fee": 25, "shipping": 5}
    assert sum(one.customer_ref is None for one in returns) == 38


def test_every_order_of_the_real_month_allocates_without_a_gap() -> None:
    with shared_file("data", "online-retail-2010-12.csv").open("rb") as file:
        allocations = [allocate(one) for one in read_online_retail(file) if isinstance(one, OrderFacts)]
    assert not [gap for one in allocations for gap in one.discrepancies]
    assert sum(line.gross_minor for one in allocations for line in one.lines) == 82_374_614


def test_a_gift_voucher_and_a_two_part_title_of_the_real_month_read_right() -> None:
    with shared_file("data", "online-retail-2010-12.csv").open("rb") as file:
        by_ref = {one.external_ref: one for one in read_online_retail(file) if isinstance(one, OrderFacts)}
    voucher = next(line for line in by_ref["539492"].lines if line.sku == "gift_0001_40")
    assert (voucher.title, voucher.kind) == ("Dotcomgiftshop Gift Voucher £40.00", "fee")
    card = next(line for line in by_ref["539477"].lines if line.sku == "84249A")
    assert card.title == "GREETING CARD,SQUARE, DOUGHNUTS"
    assert by_ref["536591"].placed_at == datetime(2010, 12, 1, 16, 57, tzinfo=UTC)


def test_an_invoice_becomes_an_order_with_its_capture_and_its_customer() -> None:
    order = orders(read(row(), row(code="POST", price="18.00", quantity="1"), row()))[0]
    assert (order.external_ref, order.total_minor, order.currency) == ("536365", 4860, "GBP")
    assert [(one.line_ref, one.kind, one.quantity) for one in order.lines] == [
        ("L1", "goods", 6),
        ("L2", "shipping", 1),
        ("L3", "goods", 6),
    ]
    assert order.customer is not None
    assert order.customer.external_ref == "17850"
    assert (order.captures[0].capture_ref, order.captures[0].captured_minor) == ("536365-1", 4860)
    assert allocate(order).discrepancies == ()


def test_times_are_londons_in_summer_too() -> None:
    order = orders(read(row(at="2011-06-01 08:26:00")))[0]
    assert order.placed_at == datetime(2011, 6, 1, 7, 26, tzinfo=UTC)


def test_a_return_is_a_line_of_its_own_with_a_positive_quantity() -> None:
    found = read(
        row(), row("C536379", "D", quantity="-1", price="27.50", customer="14527.0"), row("c536380", quantity="-2")
    )
    first, second = (one for one in found if isinstance(one, ReturnLine))
    assert (first.line_no, first.kind, first.quantity, first.unit_price_minor) == (3, "fee", 1, 2750)
    assert (second.kind, second.quantity, second.customer_ref) == ("goods", 2, "17850")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"quantity": "0"}, "zero_quantity"),
        ({"quantity": "-5"}, "negative_quantity"),
        ({"quantity": "-5", "price": "0.0"}, "stock_correction"),
        ({"quantity": "1,000"}, "columns"),
        ({"quantity": "six"}, "quantity"),
        ({"quantity": "1.5"}, "quantity"),
        ({"quantity": "1000001"}, "quantity"),
        ({"price": "-11062.06"}, "negative_price"),
        ({"price": ""}, "price"),
        ({"price": "1e3"}, "price"),
        ({"price": "£2.55"}, "price"),
        ({"price": "99999999999.00", "quantity": "1000000"}, "price"),
        ({"at": "12/1/2010 8:26"}, "date"),
        ({"at": "2010-02-30 08:26:00"}, "date"),
        ({"at": ""}, "date"),
        ({"customer": "Ilse"}, "customer"),
    ],
)
def test_a_row_that_is_no_sale_is_refused_by_its_reason(other: dict[str, str], reason: str) -> None:
    found = read(row("536364"), row(**other), row("536366"))
    assert refusals(found) == [(3, reason)]
    assert [one.external_ref for one in orders(found)] == ["536364", "536366"]


def test_bad_debts_and_unknown_invoice_numbers_are_no_sales() -> None:
    found = read(row("A563186", "B", quantity="1", price="-11062.06"), row("X1"), row(""), row("C5", quantity="3"))
    assert refusals(found) == [(2, "adjustment"), (3, "invoice_number"), (4, "invoice_number"), (5, "positive_return")]


def test_an_invoice_with_one_bad_row_is_refused_whole_and_every_row_says_so() -> None:
    found = read(row(), row(price="oops"), row(code="22752"), row("536366"))
    assert sorted(refusals(found)) == [(2, "invoice_refused"), (3, "price"), (4, "invoice_refused")]
    assert [one.external_ref for one in orders(found)] == ["536366"]
    assert covered(found) == 4


def test_a_row_with_too_few_columns_spoils_its_invoice_but_no_other() -> None:
    found = read(row("536364"), row(), "536365,22752,SEVEN", row("536366"))
    assert sorted(refusals(found)) == [(3, "invoice_refused"), (4, "columns")]
    assert [one.external_ref for one in orders(found)] == ["536364", "536366"]


def test_an_invoice_of_two_customers_is_refused() -> None:
    found = read(row(), row(customer="13047.0"))
    assert refusals(found) == [(2, "invoice_refused"), (3, "invoice_refused")]


def test_free_goods_are_goods_and_an_order_of_nothing_but_them_has_no_capture() -> None:
    order = orders(read(row(price="0.0", title="", customer="")))[0]
    assert (order.total_minor, order.captures, order.customer) == (0, (), None)
    assert (order.lines[0].title, allocate(order).lines[0].gross_minor) == ("85123A", 0)


def test_parts_of_a_penny_are_rounded_once_for_the_whole_line() -> None:
    order = orders(read(row(code="PADS", price="0.001", quantity="1440"), row(price="2.550")))[0]
    assert [one.gross_minor for one in allocate(order).lines] == [144, 1530]
    assert order.total_minor == 1674


def test_an_invoice_in_several_pieces_is_one_order_and_nothing_is_lost_or_doubled() -> None:
    found = read(
        row("536365", "A1"),
        row("536366", "B1"),
        row("C536367", "A1", quantity="-1"),
        row("536365", "A2"),
        row("536368", "C1"),
        row("536365", "A3"),
    )
    by_ref = {one.external_ref: [line.sku for line in one.lines] for one in orders(found)}
    assert by_ref == {"536366": ["B1"], "536368": ["C1"], "536365": ["A1", "A2", "A3"]}
    assert covered(found) == 6


def test_a_bad_row_in_a_later_piece_refuses_the_earlier_piece_too() -> None:
    found = read(row("536365"), row("536366"), row("536365", quantity="0"))
    assert [one.external_ref for one in orders(found)] == ["536366"]
    assert sorted(refusals(found)) == [(2, "invoice_refused"), (4, "zero_quantity")]


def test_invoices_in_falling_order_are_still_one_order_each() -> None:
    found = read(row("536368"), row("536367"), row("536367"), row("536366"))
    assert [(one.external_ref, len(one.lines)) for one in orders(found)] == [
        ("536368", 1),
        ("536367", 2),
        ("536366", 1),
    ]


def test_returns_between_the_rows_of_an_invoice_do_not_split_it() -> None:
    found = read(row(), row("C536364", quantity="-1"), row())
    assert [len(one.lines) for one in orders(found)] == [2]


def test_blank_lines_other_column_orders_and_a_byte_order_mark_do_not_matter() -> None:
    names = ["Country", "customerid", " UnitPrice ", "InvoiceDate", "Quantity", "Description", "StockCode", "InvoiceNo"]
    text = ",".join(names) + "\r\n\r\nFrance,12583.0,3.75,2010-12-01 08:45:00,24,CLOCK,22728,536370\r\n   \r\n"
    found = list(read_online_retail(io.BytesIO(b"\xef\xbb\xbf" + text.encode())))
    assert [(one.external_ref, one.total_minor, one.region) for one in orders(found)] == [("536370", 9000, "FR")]


def test_quotes_hold_commas_line_ends_and_doubled_quotes() -> None:
    found = read(row(title='"SET, OF ""3""\nHEARTS"'), row("536366"), row("536367", title='12" RULER'))
    assert [one.lines[0].title for one in orders(found)] == ['SET, OF "3" HEARTS', "HEART HOLDER", '12" RULER']


def test_a_quote_that_is_never_closed_costs_its_own_row_only() -> None:
    found = read(row("536364"), row(title='"HEART'), *(row(str(n)) for n in range(536366, 536386)))
    assert refusals(found) == [(3, "quotes")]
    assert len(orders(found)) == 21
    last = read(row("536364"), row(title='"HEART'))
    assert (refusals(last), len(orders(last))) == ([(3, "quotes")], 1)


def test_windows_bytes_and_control_characters_in_a_title_are_read_and_cleaned() -> None:
    raw = "\n".join([HEADER, row(title="VOUCHER \u00a340"), row("536366", title="A\x00\x07B")])
    found = orders(list(read_online_retail(io.BytesIO(raw.encode("cp1252")))))
    assert [one.lines[0].title for one in found] == ["VOUCHER £40", "A B"]
    odd = HEADER.encode() + b"\n" + row(title="X").encode().replace(b"X", b"\x81\x8d") + b"\n"
    assert len(orders(list(read_online_retail(io.BytesIO(odd))))) == 1


def test_an_endless_line_is_refused_and_the_next_one_read() -> None:
    found = read(row("536364"), row(title="A" * (3 * MAX_LINE_BYTES)), row("536366"))
    assert refusals(found) == [(3, "line_too_long")]
    assert [one.external_ref for one in orders(found)] == ["536364", "536366"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "lacks the column InvoiceNo"),
        (b"\n\n", "lacks the column InvoiceNo"),
        (HEADER.replace("UnitPrice", "Price").encode(), "lacks the column UnitPrice"),
        (HEADER.replace(",", ";").encode(), "with commas"),
        ((HEADER + ",Quantity").encode(), "names a column twice"),
        (HEADER.encode("utf-16"), "UTF-16"),
        (b'"InvoiceNo', "lacks the column"),
    ],
)
def test_a_file_that_is_not_of_the_format_is_refused_before_the_first_row(content: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        list(read_online_retail(io.BytesIO(content)))


def test_a_pipe_is_refused_because_the_file_is_read_twice() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    with pytest.raises(FormatError, match="not a pipe"):
        list(read_online_retail(Pipe(HEADER.encode())))


def test_a_file_without_rows_has_no_orders() -> None:
    assert read() == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("85123A", "goods"),
        ("15056bl", "goods"),
        ("DCGS0003", "goods"),
        ("DCGSSGIRL", "goods"),
        ("PADS", "goods"),
        ("SP1002", "goods"),
        ("POST", "shipping"),
        ("DOT", "shipping"),
        ("C2", "shipping"),
        ("23444", "shipping"),
        ("M", "fee"),
        ("m", "fee"),
        ("D", "fee"),
        ("S", "fee"),
        ("B", "fee"),
        ("CRUK", "fee"),
        ("AMAZONFEE", "fee"),
        ("BANK CHARGES", "fee"),
        ("gift_0001_40", "fee"),
        ("TEST001", "fee"),
        ("SURCHARGE", "fee"),
    ],
)
def test_services_and_charges_are_told_from_goods_by_their_code(code: str, kind: str) -> None:
    assert kind_of(code, "ANYTHING") == kind


def test_a_country_that_is_no_country_has_no_region() -> None:
    assert [region_of(name) for name in ("EIRE", "United Kingdom", "Channel Islands", "Unspecified")] == [
        "IE",
        "GB",
        None,
        None,
    ]


class ManyMonths(io.RawIOBase):
    """A seekable file of `invoices` invoices of twenty rows, made as it is read."""

    def __init__(self, invoices: int) -> None:
        self.invoices = invoices
        self.rows = self._made()

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return 0

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self.rows = self._made()
        return 0

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> bytes:
        return next(self.rows, b"")

    def _made(self) -> Iterator[bytes]:
        yield HEADER.encode() + b"\n"
        for number in range(self.invoices):
            for line in range(20):
                yield row(str(536365 + number), f"{line + 10000}A").encode() + b"\n"


def peak(file: BinaryIO) -> int:
    tracemalloc.start()
    count = sum(1 for _ in read_online_retail(file))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count
    return most


def test_memory_does_not_grow_with_the_file() -> None:
    small, large = peak(ManyMonths(30)), peak(ManyMonths(900))  # type: ignore[arg-type]
    assert large < small + 1_000_000  # what the collector has not yet taken; the rows alone would be nine times that
