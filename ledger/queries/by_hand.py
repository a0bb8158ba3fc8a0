"""Refunds that were approved and that a person pays back by hand, oldest approval first."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows

MOST: Final = 200


@dataclass(frozen=True)
class ToPay:
    """One of them. Amount in minor units; `until` is when its approval runs out; `recorded` once a person said what happened."""

    intent_id: UUID
    number: int
    case_id: UUID
    case_number: int
    order_ref: str
    customer: str
    amount_minor: int
    currency: str
    destination_kind: str
    destination_brand: str
    destination_last4: str
    approved_by: str
    approved_at: datetime
    until: datetime
    ran_out: bool
    recorded: bool


_TO_PAY: Final = """
    SELECT i.intent_id, i.number, i.case_id, c.number AS case_number, o.external_ref AS order_ref,
        coalesce(cu.name, '') AS customer, i.amount_minor, i.currency, i.destination_kind, i.destination_brand,
        i.destination_last4, s.name AS approved_by, a.approved_at, a.expires_at AS until, a.expires_at <= now() AS ran_out,
        EXISTS (SELECT 1 FROM manual_settlements m WHERE m.merchant_id = i.merchant_id AND m.intent_id = i.intent_id) AS recorded
    FROM intents i
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    JOIN LATERAL (SELECT min(seat) AS seat, min(expires_at) AS expires_at, max(approved_at) AS approved_at FROM approvals p
        WHERE p.merchant_id = i.merchant_id AND p.intent_id = i.intent_id) a ON a.seat IS NOT NULL
    JOIN approvals f ON f.merchant_id = i.merchant_id AND f.intent_id = i.intent_id AND f.seat = a.seat
    JOIN staff s ON s.staff_id = f.staff_id
    LEFT JOIN customers cu ON cu.merchant_id = c.merchant_id AND cu.customer_id = c.customer_id
    WHERE i.merchant_id = :m AND i.state = 'approved' AND i.act = 'manual' ORDER BY a.approved_at, i.intent_id LIMIT :most
"""


def read_to_pay(db: Connection, merchant_id: UUID) -> list[ToPay]:
    """At most MOST; what was recorded a moment ago is among them until a worker has settled it."""
    return [ToPay(**row) for row in rows(db, _TO_PAY, m=merchant_id, most=MOST)]
