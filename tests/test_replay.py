"""The replay on a small ledger, with a plug pulled: the same few lines come out whatever dies in the middle."""

from pathlib import Path

import pytest

from demo.postgres import EmbeddedPostgres
from demo.replay import replay

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
    }  # fmt: skip
