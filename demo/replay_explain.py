"""Why each return line of the month ended as it did, as two files beside the table: every line, and those with another price.

The engine pays what was charged at the sale, not what the return line says. Where that is no price the customer ever paid for
the goods, the line stands in the second file too, with both prices, what was paid and the arithmetic.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from console.workings import reasons, working
from demo.replay_month import Answered, Came, Month
from ledger.database import rows
from ledger.money import format_minor

EVERY, DIFFER = "returns-explained.csv", "return-price-differs.csv"
COLUMNS: Final = ("file line", "invoice", "stock code", "title", "units", "return price", "purchase prices", "ended", "why",
                  "from", "case", "paid GBP", "working")  # fmt: skip
CURRENCY: Final = "GBP"
# What the API said of a part that it did not take, in words.
_API: Final = {
    "already-refunded": "these units were refunded before", "more-than-left": "fewer units are left than came back",
    "not-found": "the order or its open case was not found", "ask-customer": "the customer was asked and had no answer",
}  # fmt: skip


@dataclass
class Explained:
    """How many lines stand in each file, what the engine paid for them in minor units, and lines without a reason."""

    lines: int = 0
    minor: int = 0
    differ: int = 0
    differ_minor: int = 0
    unexplained: int = 0


def explain(db: Connection, month: Month, folder: Path) -> Explained:
    """Writes both files and says what is in them. `db` is pinned to the merchant; rows go to disk as they are made."""
    owed = _owed(db)
    answers: dict[int, list[Answered]] = {}
    for answer in month.answers:
        answers.setdefault(answer.part.line_no, []).append(answer)
    told, found = set[str](), Explained()
    with (folder / EVERY).open("w", newline="", encoding="utf-8") as every, \
            (folder / DIFFER).open("w", newline="", encoding="utf-8") as differ:  # fmt: skip
        writers = csv.writer(every), csv.writer(differ)
        for writer in writers:
            writer.writerow(COLUMNS)
        for came in month.came:
            for row, minor in _rows(came, answers.get(came.line.line_no, []), owed, told):
                writers[0].writerow(row)
                found.lines, found.minor = found.lines + 1, found.minor + minor
                found.unexplained += not row[8]
                if came.priced_otherwise:
                    writers[1].writerow(row)
                    found.differ, found.differ_minor = found.differ + 1, found.differ_minor + minor
    return found


_OWED: Final = """
    SELECT DISTINCT ON (c.case_id) c.number, e.outcome, e.total_minor, e.record FROM cases c
    JOIN entitlements e ON e.merchant_id = c.merchant_id AND e.case_id = c.case_id ORDER BY c.case_id, e.n DESC
"""


def _owed(db: Connection) -> dict[str, Any]:
    """The newest entitlement of each case by its reference; only what a line of the files says of it is kept."""
    return {
        f"C-{row['number']}": {
            "minor": row["total_minor"], "why": "; ".join(reasons(row["record"])),
            "working": "; ".join(f"{line['say']}: {working(line['expr'], CURRENCY)} = {format_minor(line['minor'], CURRENCY)}"
                                 f" ({line['rule']})" for line in row["record"]["lines"] if line["minor"]),
        }
        for row in rows(db, _OWED)
    }  # fmt: skip


def _rows(
    came: Came, answers: list[Answered], owed: dict[str, Any], told: set[str]
) -> Iterator[tuple[tuple[Any, ...], int]]:
    """One row for each part of a return line, or one for a line that belongs to no sale; and what was paid for it."""
    line = came.line
    head = (line.line_no, line.invoice_no, line.stock_code, line.title)
    prices = (
        format_minor(line.unit_price_minor, CURRENCY),
        " ".join(format_minor(price, CURRENCY) for price in sorted(came.prices)),
    )
    if not answers:
        yield (*head, line.quantity, *prices, "refused", came.refused, "", "", "0.00", ""), 0
    for answer in sorted(answers, key=lambda one: one.part.number):
        part = answer.part
        where = f"{part.order_ref} {part.line_ref}"
        if answer.case is None:
            why = _API.get(answer.statuses[0], answer.statuses[0].replace("-", " "))
            yield (*head, part.units, *prices, "refused by the API", why, where, "", "0.00", ""), 0
        elif answer.case in told:
            yield (*head, part.units, *prices, "joined", "it was asked for before", where, answer.case, "0.00", ""), 0
        else:
            told.add(answer.case)
            of_case = owed[answer.case]
            why = of_case["why"] or _why_paid(came)
            ended = "paid" if of_case["minor"] else "nothing owed"
            amount = format_minor(of_case["minor"], CURRENCY)
            yield (
                (*head, part.units, *prices, ended, why, where, answer.case, amount, of_case["working"]),
                of_case["minor"],
            )


def _why_paid(came: Came) -> str:
    if came.priced_otherwise:
        return "paid at what was charged at the sale; the return line says a price that the customer never paid for it"
    if came.line.unit_price_minor not in came.taken:
        return "paid at what was charged at the newest sale with units left; the price of the return line is that of an older one"
    return "paid at what was charged at the sale"
