"""The `onceback` format: a document per line, a reason per line that is none, and no line that can fill the memory."""

import io
import json

from ledger.order_facts import OrderFacts
from ledger.order_formats import Refused, bounded_lines, read_onceback
from tests.engine import document, line


def written(ref: str, **facts: object) -> bytes:
    return json.dumps(document([line(1, 500)], 500, external_ref=ref) | facts).encode()


def test_good_lines_come_out_and_bad_ones_say_where_and_why() -> None:
    lines = [written("A-1"), b"", b"{", written("A-2", total_minor="5"), b"   ", written("A-3")]
    found = list(read_onceback(lines))
    assert [one.external_ref for one in found if isinstance(one, OrderFacts)] == ["A-1", "A-3"]
    refused = [one for one in found if isinstance(one, Refused)]
    assert [(one.line_no, one.reason) for one in refused] == [(3, "order_refused"), (4, "order_refused")]
    assert "total_minor: must be a whole number" in refused[1].say


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    content = b"\xef\xbb\xbf" + written("A-1") + b"\r\n" + written("A-2") + b"\r\n"
    found = list(read_onceback(bounded_lines(io.BytesIO(content))))
    assert [one.external_ref for one in found if isinstance(one, OrderFacts)] == ["A-1", "A-2"]


def test_a_line_without_end_is_cut_refused_and_skipped() -> None:
    content = io.BytesIO(b"x" * 1000 + b"\n" + b"next\n" + b"y" * 1000)
    assert [len(one) for one in bounded_lines(content, limit=100)] == [101, 5, 101]


def test_a_file_of_ones_own_export_reads_back_the_same() -> None:
    first = next(iter(read_onceback([written("A-1")])))
    assert isinstance(first, OrderFacts)
    assert list(read_onceback([json.dumps(first.document())])) == [first]
