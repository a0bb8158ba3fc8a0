"""What was stated of a case, for its page; and the lines that a fact may be about."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows


@dataclass(frozen=True)
class CaseFact:
    """One fact, by whom. `newest`: it counts, of its kind and line. `position`: of its line, None: of the whole case."""

    kind: str
    said: str
    cure: str | None
    happened_at: datetime | None
    customer_ref: str | None
    note: str
    position: int | None
    title: str
    actor: str
    by: str
    at: datetime
    newest: bool


_FACTS: Final = """
    SELECT f.kind, f.said, f.cure, f.happened_at, f.customer_ref, f.note, l.position,
        coalesce(nullif(l.title, ''), l.sku, '') AS title, f.actor, coalesce(s.name, t.name, f.actor) AS by, f.at,
        f.number = max(f.number) OVER (PARTITION BY f.kind, f.line_id) AS newest
    FROM case_facts f LEFT JOIN order_lines l ON l.merchant_id = f.merchant_id AND l.line_id = f.line_id
    LEFT JOIN staff s ON f.actor = 'staff:' || s.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = f.merchant_id AND f.actor = 'token:' || t.token_id
    WHERE f.merchant_id = :m AND f.case_id = :c ORDER BY f.number
"""


def read_facts_of(db: Connection, merchant_id: UUID, case_id: UUID) -> list[CaseFact]:
    """The facts of a case, oldest first."""
    return [CaseFact(**row) for row in rows(db, _FACTS, m=merchant_id, c=case_id)]


@dataclass(frozen=True)
class NamedLine:
    """A line that a fact may name."""

    line_ref: str
    position: int
    title: str
    sku: str


_LINES: Final = """
    SELECT l.line_ref, l.position, l.title, l.sku FROM cases c
    JOIN order_lines l ON l.merchant_id = c.merchant_id AND l.order_id = c.order_id AND l.kind = :kind
    WHERE c.merchant_id = :m AND c.case_id = :c AND (:kind <> 'goods' OR EXISTS (SELECT 1 FROM case_items i
        WHERE i.merchant_id = c.merchant_id AND i.case_id = c.case_id AND i.line_id = l.line_id AND i.live)) ORDER BY l.position
"""


def lines_to_name(db: Connection, merchant_id: UUID, case_id: UUID, kind: str) -> list[NamedLine]:
    """Of goods the lines that the case holds, of fees every one of the order."""
    return [NamedLine(**row) for row in rows(db, _LINES, m=merchant_id, c=case_id, kind=kind)]
