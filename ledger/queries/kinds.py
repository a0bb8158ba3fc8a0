"""What a case that is no return asks for, and the exchange that a case ended in."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first


@dataclass(frozen=True)
class Asked:
    """What was typed on one line: `minor` is the amount, or the new price of one unit; `a` is None for the whole line.

    Of a price reduction: what a unit is worth with its defect, and `conform_minor` without it.
    """

    kind: str
    position: int
    title: str
    sku: str
    quantity: int
    a: int | None
    b: int | None
    minor: int
    entry: str
    conform_minor: int | None


_ASKED: Final = """
    SELECT a.kind, l.position, l.title, l.sku, l.quantity, lower(a.units) AS a, upper(a.units) AS b, a.minor, a.entry,
        a.conform_minor
    FROM case_asks a JOIN order_lines l ON l.merchant_id = a.merchant_id AND l.line_id = a.line_id
    WHERE a.merchant_id = :m AND a.case_id = :c
"""


def read_asked(db: Connection, merchant_id: UUID, case_id: UUID) -> Asked | None:
    """None for a return."""
    row = first(db, _ASKED, m=merchant_id, c=case_id)
    return Asked(**row) if row else None


@dataclass(frozen=True)
class Exchanged:
    """What the customer chose instead of money."""

    wish: str
    by: str
    at: datetime


_EXCHANGED: Final = """
    SELECT e.wish, coalesce(s.name, e.recorded_by) AS by, e.at FROM exchanges e
    LEFT JOIN staff s ON e.recorded_by = 'staff:' || s.staff_id::text WHERE e.merchant_id = :m AND e.case_id = :c
"""


def read_exchanged(db: Connection, merchant_id: UUID, case_id: UUID) -> Exchanged | None:
    """The exchange of a case, if its units were exchanged."""
    row = first(db, _EXCHANGED, m=merchant_id, c=case_id)
    return Exchanged(**row) if row else None
