"""What finance sees of refunds made outside and of disputes, and what a case page says of its order's."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows
from ledger.errors import NotFound

MOST_ROWS: Final = 200


@dataclass(frozen=True)
class OutsideRefund:
    """A refund made at the provider that is not ours. Amounts in minor units of `currency`; `open_minor` is what nobody has
    answered for, `unplaced_minor` what its capture did not hold. `order_id` is None while the payment's order is not known."""

    refund_ref: str
    kind: str
    status: str
    amount_minor: int
    currency: str
    open_minor: int
    unplaced_minor: int
    charge_ref: str
    created_at: datetime
    found_at: datetime
    found_by: str
    order_id: UUID | None
    order_ref: str
    destination_kind: str
    destination_brand: str
    destination_last4: str


_REFUNDS: Final = """
    SELECT e.refund_ref, e.kind, e.status, e.amount_minor, e.currency, e.charge_ref, e.created_at, e.found_at, e.found_by,
        CASE WHEN e.status IN ('failed', 'canceled') THEN 0 ELSE e.amount_minor - e.allocated_minor END AS open_minor,
        CASE WHEN e.status IN ('failed', 'canceled') THEN 0 ELSE e.amount_minor - e.placed_minor END AS unplaced_minor,
        cp.order_id, coalesce(o.external_ref, '') AS order_ref, coalesce(cp.destination_kind, '') AS destination_kind,
        coalesce(cp.destination_brand, '') AS destination_brand, coalesce(cp.destination_last4, '') AS destination_last4
    FROM external_refunds e
    LEFT JOIN captures cp ON cp.merchant_id = e.merchant_id AND cp.provider_account_id = e.provider_account_id
        AND cp.charge_ref = e.charge_ref
    LEFT JOIN orders o ON o.merchant_id = cp.merchant_id AND o.order_id = cp.order_id
    WHERE e.merchant_id = :m AND {which}
    ORDER BY e.created_at, e.refund_ref LIMIT :most
"""
_OPEN: Final = (
    "cp.order_id IS NOT NULL AND e.status NOT IN ('failed', 'canceled') AND"
    " (e.allocated_minor < e.amount_minor OR e.placed_minor < e.amount_minor)"
)
_ANSWERED: Final = (
    "cp.order_id IS NOT NULL AND e.created_at > now() - interval '90 days' AND (e.status IN ('failed', 'canceled')"
    " OR (e.allocated_minor = e.amount_minor AND e.placed_minor = e.amount_minor))"
)
_UNKNOWN: Final = "cp.order_id IS NULL AND e.status NOT IN ('failed', 'canceled')"
_ONE: Final = "e.refund_ref = :r"


def open_refunds(db: Connection, merchant_id: UUID) -> list[OutsideRefund]:
    """Those that wait for a person, or for room in their capture; oldest first."""
    return [OutsideRefund(**row) for row in rows(db, _REFUNDS.format(which=_OPEN), m=merchant_id, most=MOST_ROWS)]


def answered_refunds(db: Connection, merchant_id: UUID) -> list[OutsideRefund]:
    """Those of ninety days that are matched or came to nothing, newest first."""
    found = rows(db, _REFUNDS.format(which=_ANSWERED), m=merchant_id, most=MOST_ROWS)
    return [OutsideRefund(**row) for row in reversed(found)]


def unknown_payments(db: Connection, merchant_id: UUID) -> list[OutsideRefund]:
    """Refunds of payments whose order is not here: each is taken off as soon as its order is imported."""
    return [OutsideRefund(**row) for row in rows(db, _REFUNDS.format(which=_UNKNOWN), m=merchant_id, most=MOST_ROWS)]


def outside_refund(db: Connection, merchant_id: UUID, refund_ref: str) -> OutsideRefund:
    """Raises NotFound."""
    row = first(db, _REFUNDS.format(which=_ONE), m=merchant_id, r=refund_ref, most=1)
    if row is None:
        raise NotFound
    return OutsideRefund(**row)


@dataclass(frozen=True)
class Answer:
    """What a person said a refund, or part of it, was for. `case_number` None: for no goods."""

    case_id: UUID | None
    case_number: int | None
    line_ref: str
    amount_minor: int
    step: str
    reason: str
    by: str
    at: datetime


_ANSWERS: Final = """
    SELECT a.case_id, c.number AS case_number, coalesce(l.line_ref, '') AS line_ref, a.amount_minor, a.step, a.reason,
        coalesce(s.name, 'Onceback') AS by, a.at
    FROM external_allocations a
    LEFT JOIN cases c ON c.merchant_id = a.merchant_id AND c.case_id = a.case_id
    LEFT JOIN order_lines l ON l.merchant_id = a.merchant_id AND l.line_id = a.line_id
    LEFT JOIN staff s ON a.actor = 'staff:' || s.staff_id::text
    WHERE a.merchant_id = :m AND a.refund_ref = :r ORDER BY a.at, a.allocation_id
"""


def answers_of(db: Connection, merchant_id: UUID, refund_ref: str) -> list[Answer]:
    """Oldest first."""
    return [Answer(**row) for row in rows(db, _ANSWERS, m=merchant_id, r=refund_ref)]


@dataclass(frozen=True)
class CaseChoice:
    """A case that holds units of an order."""

    case_id: UUID
    number: int
    stage: str
    summary: str
    open: bool


_CASES: Final = """
    SELECT c.case_id, c.number, c.stage, c.summary, c.closed_at IS NULL AS open FROM cases c
    WHERE c.merchant_id = :m AND c.order_id = :o AND EXISTS (SELECT 1 FROM case_items ci WHERE ci.merchant_id = c.merchant_id
        AND ci.case_id = c.case_id AND ci.live) ORDER BY c.closed_at IS NOT NULL, c.number LIMIT :most
"""


def cases_of_order(db: Connection, merchant_id: UUID, order_id: UUID) -> list[CaseChoice]:
    """The cases a refund of this order can be put on, open ones first."""
    return [CaseChoice(**row) for row in rows(db, _CASES, m=merchant_id, o=order_id, most=MOST_ROWS)]


@dataclass(frozen=True)
class DisputeRow:
    """A dispute with its order. `held_minor` in `held` refunds waits for it; `ruled_by` names who let the refund go."""

    dispute_ref: str
    status: str
    amount_minor: int
    currency: str
    unplaced_minor: int
    reason: str
    charge_ref: str
    created_at: datetime
    status_at: datetime
    due_at: datetime | None
    order_id: UUID | None
    order_ref: str
    destination_kind: str
    destination_brand: str
    destination_last4: str
    held: int
    held_minor: int
    case_id: UUID | None
    case_number: int | None
    ruled_by: str


_DISPUTES: Final = """
    SELECT d.dispute_ref, d.status, d.amount_minor, d.currency, d.reason, d.charge_ref, d.created_at, d.status_at, d.due_at,
        CASE WHEN dispute_takes(d.status) THEN d.amount_minor - d.placed_minor ELSE 0 END AS unplaced_minor,
        cp.order_id, coalesce(o.external_ref, '') AS order_ref, coalesce(cp.destination_kind, '') AS destination_kind,
        coalesce(cp.destination_brand, '') AS destination_brand, coalesce(cp.destination_last4, '') AS destination_last4,
        coalesce(h.held, 0)::int AS held, coalesce(h.held_minor, 0)::bigint AS held_minor, h.case_id, c.number AS case_number,
        coalesce(s.name, '') AS ruled_by
    FROM disputes d
    LEFT JOIN captures cp ON cp.merchant_id = d.merchant_id AND cp.provider_account_id = d.provider_account_id
        AND cp.charge_ref = d.charge_ref
    LEFT JOIN orders o ON o.merchant_id = cp.merchant_id AND o.order_id = cp.order_id
    LEFT JOIN LATERAL (SELECT count(*) AS held, sum(i.amount_minor) AS held_minor,
            (array_agg(i.case_id ORDER BY i.number))[1] AS case_id
        FROM intents i WHERE i.merchant_id = d.merchant_id AND i.capture_id = cp.capture_id AND i.state = 'held'
            AND i.state_reason = 'disputed') h ON true
    LEFT JOIN cases c ON c.merchant_id = d.merchant_id AND c.case_id = h.case_id
    LEFT JOIN dispute_rulings r ON r.merchant_id = d.merchant_id AND r.dispute_ref = d.dispute_ref
    LEFT JOIN staff s ON s.staff_id = r.staff_id
    WHERE d.merchant_id = :m AND (d.status NOT IN ('won', 'lost', 'prevented', 'warning_closed')
        OR d.status_at > now() - interval '90 days')
    ORDER BY d.status IN ('won', 'lost', 'prevented', 'warning_closed'), d.due_at NULLS LAST, d.created_at LIMIT :most
"""


def read_disputes(db: Connection, merchant_id: UUID) -> list[DisputeRow]:
    """Open ones first, the one whose answer is due soonest at the top; then those that ended in the last ninety days."""
    return [DisputeRow(**row) for row in rows(db, _DISPUTES, m=merchant_id, most=MOST_ROWS)]


@dataclass(frozen=True)
class OrderOutside:
    """What happened outside to an order's payments, by currency, in minor units; `asks`: a bank has a question."""

    currency: str
    refunded_minor: int
    open_minor: int
    disputed_minor: int
    disputes: int
    asks: int


_OF_ORDER: Final = """
    SELECT cp.currency, sum(coalesce(e.refunded, 0))::bigint AS refunded_minor, sum(coalesce(e.open, 0))::bigint AS open_minor,
        sum(cp.disputed_minor)::bigint AS disputed_minor, sum(coalesce(d.takes, 0))::int AS disputes,
        sum(coalesce(d.asks, 0))::int AS asks
    FROM captures cp
    LEFT JOIN LATERAL (SELECT sum(e.amount_minor) AS refunded, sum(e.amount_minor - e.allocated_minor) AS open
        FROM external_refunds e WHERE e.merchant_id = cp.merchant_id AND e.charge_ref = cp.charge_ref
            AND e.provider_account_id = cp.provider_account_id AND e.status NOT IN ('failed', 'canceled')) e ON true
    LEFT JOIN LATERAL (SELECT count(*) FILTER (WHERE dispute_takes(d.status)) AS takes,
            count(*) FILTER (WHERE d.status LIKE 'warning\\_%' AND d.status <> 'warning_closed') AS asks
        FROM disputes d WHERE d.merchant_id = cp.merchant_id AND d.charge_ref = cp.charge_ref
            AND d.provider_account_id = cp.provider_account_id) d ON true
    WHERE cp.merchant_id = :m AND cp.order_id = :o GROUP BY cp.currency ORDER BY cp.currency
"""


def outside_of_order(db: Connection, merchant_id: UUID, order_id: UUID) -> list[OrderOutside]:
    """Currencies in which something was refunded outside or is disputed; none for a quiet order."""
    found = [OrderOutside(**row) for row in rows(db, _OF_ORDER, m=merchant_id, o=order_id)]
    return [one for one in found if one.refunded_minor or one.disputed_minor or one.disputes or one.asks]
