"""Orders in question for their desk: what waits, what was settled, and what one settlement said."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows
from ledger.errors import NotFound

MOST: Final = 200
MOST_DONE: Final = 50


@dataclass(frozen=True)
class Waiting:
    """A blocked order. `found` are the discrepancies of its allocation as [{name, facts}], `statements` how often it was stated
    otherwise, `proposed_by` who proposed how it is settled ("": nobody yet)."""

    order_id: UUID
    reference: str
    customer: str
    currency: str
    total_minor: int
    captured_minor: int
    names: list[str]
    found: list[dict[str, Any]]
    statements: int
    since: datetime
    cases: int
    proposed_by: str
    proposed_at: datetime | None


_WAITING: Final = """
    SELECT o.order_id, o.external_ref AS reference, coalesce(cu.name, '') AS customer, o.currency, o.total_minor,
        coalesce((SELECT sum(k.order_minor) FROM captures k WHERE k.merchant_id = o.merchant_id
            AND k.order_id = o.order_id), 0)::bigint AS captured_minor, o.discrepancies AS names,
        o.allocation->'discrepancies' AS found,
        cardinality(open_conflicts(o.merchant_id, o.order_id)) AS statements,
        coalesce((SELECT min(c.found_at) FROM order_conflicts c WHERE c.merchant_id = o.merchant_id
            AND c.conflict_id = ANY (open_conflicts(o.merchant_id, o.order_id))), o.imported_at) AS since,
        (SELECT count(*) FROM cases c WHERE c.merchant_id = o.merchant_id AND c.order_id = o.order_id
            AND c.closed_at IS NULL)::int AS cases,
        coalesce(w.by, '') AS proposed_by, w.proposed_at
    FROM orders o LEFT JOIN customers cu ON cu.merchant_id = o.merchant_id AND cu.customer_id = o.customer_id
    LEFT JOIN LATERAL (SELECT f.name AS by, s.proposed_at FROM order_settlements s JOIN staff f ON f.staff_id = s.proposed_by
        WHERE s.merchant_id = o.merchant_id AND s.order_id = o.order_id AND NOT EXISTS (SELECT 1 FROM order_settlement_answers a
            WHERE a.merchant_id = s.merchant_id AND a.settlement_id = s.settlement_id) LIMIT 1) w ON true
    WHERE o.merchant_id = :m AND o.blocked ORDER BY o.imported_at, o.order_id LIMIT :most
"""


def waiting_orders(db: Connection, merchant_id: UUID) -> list[Waiting]:
    """Blocked orders, the longest known first."""
    return [Waiting(**row) for row in rows(db, _WAITING, m=merchant_id, most=MOST)]


@dataclass(frozen=True)
class Settled:
    """A settlement with its answer; `answer` is "" while it waits, else `confirmed` or `turned_down`."""

    settlement_id: UUID
    order_id: UUID
    reference: str
    currency: str
    total_minor: int
    conflict_id: UUID | None
    discrepancies: list[str]
    conflicts: list[UUID]
    choice: dict[str, Any]
    reason: str
    note: str
    method: str
    lines: list[dict[str, Any]]
    payments: list[dict[str, Any]]
    parts: dict[str, str]
    proposed_by: UUID
    by: str
    proposed_at: datetime
    digest: bytes
    answer: str
    answered_by: str
    answer_note: str
    answered_at: datetime | None
    n: int | None


_SETTLED: Final = """
    SELECT s.settlement_id, s.order_id, o.external_ref AS reference, o.currency, s.total_minor, s.conflict_id, s.discrepancies,
        s.conflicts, s.choice, s.reason, s.note, e.document::jsonb->>'method' AS method, e.document::jsonb->'lines' AS lines,
        s.captures AS payments, s.parts,
        s.proposed_by, p.name AS by, s.proposed_at, s.digest,
        CASE a.confirmed WHEN true THEN 'confirmed' WHEN false THEN 'turned_down' ELSE '' END AS answer,
        coalesce(d.name, '') AS answered_by, coalesce(a.reason, '') AS answer_note, a.decided_at AS answered_at, n.n
    FROM order_settlements s
    JOIN orders o ON o.merchant_id = s.merchant_id AND o.order_id = s.order_id
    JOIN entitlement_sources e ON e.merchant_id = s.merchant_id AND e.digest = s.allocation_digest
    JOIN staff p ON p.staff_id = s.proposed_by
    LEFT JOIN order_settlement_answers a ON a.merchant_id = s.merchant_id AND a.settlement_id = s.settlement_id
    LEFT JOIN staff d ON d.staff_id = a.decided_by
    LEFT JOIN order_allocations n ON n.merchant_id = s.merchant_id AND n.settlement_id = s.settlement_id
    WHERE s.merchant_id = :m AND {which} ORDER BY s.proposed_at DESC, s.settlement_id DESC LIMIT :most
"""
_OF_ORDER: Final = _SETTLED.format(which="s.order_id = :o")
_LAST: Final = _SETTLED.format(which="a.confirmed AND a.decided_at > now() - interval '90 days'")


def settlements_of(db: Connection, merchant_id: UUID, order_id: UUID) -> list[Settled]:
    """Every settlement of an order, the newest first."""
    return [_settled(row) for row in rows(db, _OF_ORDER, m=merchant_id, o=order_id, most=MOST_DONE)]


def last_settled(db: Connection, merchant_id: UUID) -> list[Settled]:
    """What was settled in the last ninety days, the newest first."""
    return [_settled(row) for row in rows(db, _LAST, m=merchant_id, most=MOST_DONE)]


def _settled(row: RowMapping) -> Settled:
    return Settled(**{**row, "digest": bytes(row["digest"])})


def reference_of(db: Connection, merchant_id: UUID, order_id: UUID) -> str:
    """The shop's own number of an order. Raises NotFound."""
    row = first(
        db, "SELECT external_ref FROM orders WHERE merchant_id = :m AND order_id = :o", m=merchant_id, o=order_id
    )
    if row is None:
        raise NotFound
    return str(row["external_ref"])


_CASES: Final = """
    SELECT case_id, number, stage FROM cases WHERE merchant_id = :m AND order_id = :o ORDER BY number LIMIT 50
"""


def cases_of(db: Connection, merchant_id: UUID, order_id: UUID) -> list[RowMapping]:
    """The cases of an order: case_id, number, stage."""
    return rows(db, _CASES, m=merchant_id, o=order_id)
