"""The desk of unmatched receipts: what is put aside, and the cases that one of them may be of."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows
from ledger.errors import NotFound

MOST_SHOWN: Final = 200


@dataclass(frozen=True)
class Receipt:
    """Goods that were put aside. `lines` as reported: line, count, grades; `kind`, `case_id`, `case_number`, `by` of its answer."""

    receipt_id: UUID
    number: int
    why: str
    case_ref: str
    order_ref: str
    parcel: str
    note: str
    lines: list[dict[str, Any]]
    channel: str
    at: datetime
    answered_at: datetime | None
    kind: str | None
    case_id: UUID | None
    case_number: int | None
    by: str | None


_RECEIPT: Final = """
    SELECT r.receipt_id, r.number, r.why, r.case_ref, r.order_ref, r.parcel, r.note, r.lines, r.channel, r.at, r.answered_at,
        a.kind, a.case_id, c.number AS case_number, s.name AS by
    FROM unmatched_receipts r
    LEFT JOIN receipt_answers a ON a.merchant_id = r.merchant_id AND a.receipt_id = r.receipt_id
    LEFT JOIN cases c ON c.merchant_id = a.merchant_id AND c.case_id = a.case_id
    LEFT JOIN staff s ON s.staff_id = a.staff_id
    WHERE r.merchant_id = :m AND {which}
"""
_OPEN: Final = _RECEIPT.format(which="r.answered_at IS NULL ORDER BY r.at, r.receipt_id LIMIT :most")
_ANSWERED: Final = _RECEIPT.format(
    which="r.answered_at > now() - interval '30 days' ORDER BY r.answered_at DESC, r.receipt_id LIMIT :most"
)
_ONE: Final = _RECEIPT.format(which="r.receipt_id = :r")


def open_receipts(db: Connection, merchant_id: UUID) -> list[Receipt]:
    """What waits for a person, oldest first, at most MOST_SHOWN."""
    return [Receipt(**row) for row in rows(db, _OPEN, m=merchant_id, most=MOST_SHOWN)]


def answered_receipts(db: Connection, merchant_id: UUID) -> list[Receipt]:
    """What somebody answered for in the last thirty days, newest first, at most MOST_SHOWN."""
    return [Receipt(**row) for row in rows(db, _ANSWERED, m=merchant_id, most=MOST_SHOWN)]


def read_receipt(db: Connection, merchant_id: UUID, receipt_id: UUID) -> Receipt:
    """Raises NotFound for an absent one and for another merchant's alike."""
    found = first(db, _ONE, m=merchant_id, r=receipt_id)
    if found is None:
        raise NotFound
    return Receipt(**found)


@dataclass(frozen=True)
class Candidate:
    """A case that goods may be of."""

    case_id: UUID
    number: int
    kind: str
    stage: str
    order_ref: str
    customer: str
    summary: str
    opened_at: datetime
    received: int
    announced: int


_CANDIDATES: Final = """
    SELECT c.case_id, c.number, c.kind, c.stage, o.external_ref AS order_ref, coalesce(cu.name, '') AS customer, c.summary,
        c.opened_at, c.received, c.announced
    FROM cases c
    JOIN orders o ON o.merchant_id = c.merchant_id AND o.order_id = c.order_id
    LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    WHERE c.merchant_id = :m AND c.kind IN ('return', 'exchange') AND c.stage <> 'rejected' AND {which}
    ORDER BY (c.closed_at IS NOT NULL), c.number DESC LIMIT 20
"""
_BY_NUMBER: Final = _CANDIDATES.format(which="c.number = :number")
_OF_ORDER: Final = _CANDIDATES.format(
    which="c.order_id IN (SELECT order_id FROM orders WHERE merchant_id = :m AND external_ref = :text)"
)
_OF_PARCEL: Final = _CANDIDATES.format(
    which="c.case_id IN (SELECT case_id FROM parcels WHERE merchant_id = :m AND tracking = :text)"
)


def candidates(db: Connection, merchant_id: UUID, text: str) -> list[Candidate]:
    """Returns and exchanges with this number (C-20431), of this order, or with this parcel announced; open ones first."""
    number = text.upper().removeprefix("C-")
    found: list[Any] = []
    if number.isascii() and number.isdigit() and len(number) <= 15:
        found = list(rows(db, _BY_NUMBER, m=merchant_id, number=int(number)))
    for sql in (_OF_ORDER, _OF_PARCEL):
        found = found or list(rows(db, sql, m=merchant_id, text=text))
    return [Candidate(**row) for row in found]
