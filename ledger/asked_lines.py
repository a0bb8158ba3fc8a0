"""The lines a request names, as they stand: free units, units that open cases hold, and what became of the others."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.assessment import EXCHANGED
from ledger.database import rows
from ledger.errors import BadInput, MoreThanLeft


@dataclass
class AskedLine:
    """One line with how many units are asked for; `open_by_case` and `closed_units` count what cases hold of it."""

    row: RowMapping
    asked: int
    free: list[tuple[int, int]] = field(default_factory=list)
    open_by_case: dict[UUID, int] = field(default_factory=dict)
    closed_units: int = 0
    settled: dict[tuple[str, str], int] = field(default_factory=dict)
    """Units by (case, how) that are no return's: exchanged, or kept for money back."""

    @property
    def left(self) -> int:
        return sum(b - a for a, b in self.free)


_HELD: Final = """
    SELECT ci.line_id, ci.case_id, lower(ci.units) AS a, upper(ci.units) AS b, c.closed_at IS NULL AS open, c.number, c.kind,
        c.stage
    FROM case_items ci JOIN cases c ON c.merchant_id = ci.merchant_id AND c.case_id = ci.case_id
    WHERE ci.merchant_id = :m AND ci.order_id = :o AND ci.live ORDER BY ci.line_id, lower(ci.units)
"""


def read_asked_lines(db: Connection, order: RowMapping, wanted: Sequence[tuple[str, int]]) -> list[AskedLine]:
    """The lines of a locked order by (reference, quantity). Raises BadInput (no goods line), MoreThanLeft."""
    found = {
        row["line_ref"]: row
        for row in rows(
            db, "SELECT * FROM order_lines WHERE merchant_id = :m AND order_id = :o AND line_ref = ANY(:refs)",
            m=order["merchant_id"], o=order["order_id"], refs=[ref for ref, _ in wanted],
        )
    }  # fmt: skip
    lines = []
    for ref, quantity in wanted:
        row = found.get(ref)
        if row is None:
            raise BadInput("lines", f"this order has no line {ref!r}")
        if row["kind"] != "goods":
            raise BadInput("lines", f"line {ref!r} is {row['kind']}, which is not returned by itself")
        if quantity > row["quantity"]:
            raise MoreThanLeft(
                f"More units are asked for than were bought: {quantity} of {row['quantity']} on line {ref}.",
                lines=[{"line": ref, "asked": quantity, "bought": row["quantity"], "left": row["quantity"]}],
            )
        lines.append(AskedLine(row, quantity))
    held = rows(db, _HELD, m=order["merchant_id"], o=order["order_id"])
    for line in lines:
        at = 0
        for item in (item for item in held if item["line_id"] == line.row["line_id"]):
            if item["a"] > at:
                line.free.append((at, item["a"]))
            at = item["b"]
            count = item["b"] - item["a"]
            how = _settled_how(item)
            if how:
                key = (f"C-{item['number']}", how)
                line.settled[key] = line.settled.get(key, 0) + count
            if item["open"] and not how:
                line.open_by_case[item["case_id"]] = line.open_by_case.get(item["case_id"], 0) + count
            elif not item["open"]:
                line.closed_units += count
        if at < line.row["quantity"]:
            line.free.append((at, line.row["quantity"]))
    return lines


def _settled_how(item: RowMapping) -> str:
    if item["stage"] == EXCHANGED:
        return "exchanged"
    return "kept for money back" if item["kind"] == "keep_item" else ""


def settled(lines: list[AskedLine]) -> str | None:
    """Why units that no return holds are not left: what was chosen for them uses the claim up."""
    said = [
        f"{count} of line {line.row['line_ref']} {'was' if count == 1 else 'were'} {how} in case {case}"
        for line in lines
        for (case, how), count in line.settled.items()
    ]
    return f"Nothing more can be claimed for these units: {'; '.join(said)}." if said else None


def line_facts(line: AskedLine) -> dict[str, Any]:
    """What a refusal or a question says of a line."""
    held = sum(line.open_by_case.values())
    return {"line": line.row["line_ref"], "title": line.row["title"], "asked": line.asked, "bought": line.row["quantity"],
            "left": line.left, "in_open_cases": held, "refunded": line.closed_units}  # fmt: skip
