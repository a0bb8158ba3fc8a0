"""What the desks show of charges: those of an order, and of a case about them what is being read or was found."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows


@dataclass(frozen=True)
class OrderCharge:
    """One payment of an order as the books have it, in minor units of `currency`. `charge_ref` is None where no provider has it."""

    capture_id: UUID
    charge_ref: str | None
    captured_at: datetime
    currency: str
    captured_minor: int
    held_minor: int
    refunded_minor: int
    reserved_minor: int
    disputed_minor: int
    destination_kind: str
    destination_brand: str
    destination_last4: str


_CHARGES: Final = """
    SELECT capture_id, charge_ref, captured_at, currency, captured_minor, held_minor + releasing_minor AS held_minor,
        refunded_minor, reserved_minor, disputed_minor, destination_kind, destination_brand, destination_last4
    FROM captures WHERE merchant_id = :m AND order_id = :o ORDER BY captured_at, position
"""


def order_charges(db: Connection, merchant_id: UUID, order_id: UUID) -> list[OrderCharge]:
    """The payments of an order, oldest first."""
    return [OrderCharge(**row) for row in rows(db, _CHARGES, m=merchant_id, o=order_id)]


@dataclass(frozen=True)
class Reading:
    """A reading that was asked for. `attempts` were made; the next is due at `due_at` while it is not `done_at`."""

    asked_by: str
    asked_at: datetime
    due_at: datetime
    attempts: int
    done_at: datetime | None


_READING: Final = """
    SELECT CASE WHEN r.asked_by = 'system' THEN '' ELSE coalesce(s.name, t.name, r.asked_by) END AS asked_by, r.asked_at, r.due_at,
        r.attempts, r.done_at
    FROM charge_readings r
    LEFT JOIN staff s ON r.asked_by = 'staff:' || s.staff_id::text
    LEFT JOIN api_tokens t ON t.merchant_id = r.merchant_id AND r.asked_by = 'token:' || t.token_id
    WHERE r.merchant_id = :m AND r.case_id = :c ORDER BY r.asked_at DESC, r.reading_id DESC LIMIT 1
"""


def read_reading(db: Connection, merchant_id: UUID, case_id: UUID) -> Reading | None:
    """The newest reading of a case about charges; None for every other case."""
    row = first(db, _READING, m=merchant_id, c=case_id)
    return Reading(**row) if row else None


@dataclass(frozen=True)
class Found:
    """A finding: `inputs` are what it was made of, `record` the figures and tests of `duplicate_charges.document`."""

    n: int
    finding: str
    reason: str
    capture_id: UUID | None
    amount_minor: int | None
    inputs: dict[str, Any]
    record: dict[str, Any]
    digest: bytes
    at: datetime


_FOUND: Final = """
    SELECT n, finding, reason, capture_id, amount_minor, inputs, record, digest, at FROM charge_findings
    WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1
"""


def read_found(db: Connection, merchant_id: UUID, case_id: UUID) -> Found | None:
    """The newest finding of a case; the older ones stay stored beside it."""
    row = first(db, _FOUND, m=merchant_id, c=case_id)
    return Found(**row) if row else None
