"""The replay on a small ledger, with a plug pulled: the same few lines come out whatever dies in the middle."""

import csv
import io
from pathlib import Path

import pytest

from demo.postgres import EmbeddedPostgres
from demo.replay import replay
from demo.replay_explain import DIFFER, EVERY

HEAD = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"
# Agnes buys twice and brings most of it back; one return is entered twice, one is more than was ever bought.
LEDGER = """\
601001,22752,NESTING BOXES,6,2010-12-01 09:00:00,7.65,17850.0,United Kingdom
601001,21730,STAR T-LIGHT HOLDER,4,2010-12-01 09:00:00,4.25,17850.0,United Kingdom
601002,22752,NESTING BOXES,3,2010-12-02 10:00:00,7.65,17850.0,United Kingdom
601003,84029E,WOOLLY HOTTIE,2,2010-12-02 11:30:00,3.39,13047.0,France
601003,POST,POSTAGE,1,2010-12-02 11:30:00,18.00,13047.0,France
C601004,22752,NESTING BOXES,-4,2010-12-03 09:00:00,7.65,17850.0,United Kingdom
C601005,21730,STAR T-LIGHT HOLDER,-1,2010-12-03 09:10:00,4.25,17850.0,United Kingdom
C601006,21730,STAR T-LIGHT HOLDER,-1,2010-12-03 09:10:00,4.25,17850.0,United Kingdom
C601007,84029E,WOOLLY HOTTIE,-9,2010-12-03 12:00:00,3.39,13047.0,France
C601008,84029E,WOOLLY HOTTIE,-1,2010-12-04 12:00:00,3.39,,France
C601009,85123A,WHITE HANGING HEART,-1,2010-12-04 12:30:00,2.55,13047.0,France
C601010,D,Discount,-1,2010-12-05 09:00:00,27.50,17850.0,United Kingdom
"""


@pytest.mark.parametrize("kill", ["worker", "web", "database"])
def test_a_small_ledger_comes_out_the_same_whatever_is_killed(kill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    folder = Path("build") / f"test-replay-{kill}"
    folder.parent.mkdir(exist_ok=True)
    file = folder.parent / f"ledger-{kill}.csv"
    file.write_text(f"{HEAD}\n{LEDGER}", encoding="utf-8")
    try:
        table = replay(file, folder, kill)
    finally:
        EmbeddedPostgres(folder / "postgres").destroy()
    assert table.wrong == []
    found = dict(table.rows)
    # Four boxes are three of the newer order and one of the older: two cases of one return line.
    assert found == {
        "orders imported": "3", "return lines": "7", "matched to an earlier purchase": "3", "refused: more than bought": "1",
        "refused: no customer": "1", "refused: no earlier purchase": "1", "refused: not goods": "1",
        "requests that joined a case": "4", "cases": "4", "intents, succeeded": "4", "refunds at the provider": "4",
        "paid by our rows, GBP": "39.10", "paid by the provider's, GBP": "39.10", "duplicates": "0",
        "lines and parts explained": "8", "at a price the customer never paid": "0", "paid for those, GBP": "0.00",
    }  # fmt: skip


REAL = Path(__file__).parents[2] / "shared" / "data" / "online-retail-2010-12.csv"


@pytest.mark.skipif(
    not REAL.exists(), reason="the month of a real ledger is not here: ../shared/data/online-retail-2010-12.csv"
)
def test_every_line_of_a_slice_of_the_real_month_says_what_was_paid_or_refused_and_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    folder = Path("build") / "test-replay-slice"
    folder.parent.mkdir(exist_ok=True)
    file = folder.with_suffix(".csv")
    kept = _slice(REAL)
    file.write_text(kept, encoding="utf-8")
    try:
        table = replay(file, folder)
        with (folder / EVERY).open(encoding="utf-8") as every, (folder / DIFFER).open(encoding="utf-8") as differ:
            lines, otherwise = list(csv.DictReader(every)), list(csv.DictReader(differ))
    finally:
        EmbeddedPostgres(folder / "postgres").destroy()
    assert table.wrong == []
    assert {line["file line"] for line in lines} == {
        str(n) for n, row in enumerate(kept.splitlines(), 1) if row.startswith("C")
    }
    assert all(line["why"] and (line["ended"] == "refused" or line["case"]) for line in lines)
    assert all(line["working"] for line in lines if line["ended"] == "paid")
    assert otherwise == [
        line for line in lines
        if line["purchase prices"] and line["return price"] not in line["purchase prices"].split()
    ]  # fmt: skip
    assert otherwise
    assert {line["ended"] for line in lines} >= {"paid", "refused"}


def _slice(file: Path, most: int = 14) -> str:
    """The sales and returns of those customers whose return says another price than they paid, and of the first who return."""
    with file.open(encoding="utf-8") as opened:
        head, *rows = list(csv.reader(opened))
    paid = {(row[6], row[1], row[5]) for row in rows if not row[0].startswith("C")}
    bought = {(row[6], row[1]) for row in rows if not row[0].startswith("C")}
    came = [row for row in rows if row[0].startswith("C") and row[6]]
    odd = [row for row in came if (row[6], row[1]) in bought and (row[6], row[1], row[5]) not in paid]
    customers: list[str] = []
    for row in [*odd[:3], *came]:
        count = sum(one[6] in {*customers, row[6]} for one in came)
        if row[6] not in customers and count <= most:
            customers.append(row[6])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *(row for row in rows if row[6] in customers)])
    return text.getvalue()
