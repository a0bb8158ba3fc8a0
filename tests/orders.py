"""Orders for tests: rows of lines and captures as an import leaves them, with facts that the order format accepts."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from ledger.allocation import allocate
from ledger.database import run
from ledger.ids import uuid7
from ledger.order_document import order_facts

PLACED_AT = datetime(2026, 10, 12, 9, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Line:
    """One order line; amounts in minor units, tax in."""

    ref: str
    quantity: int
    gross_minor: int
    kind: str = "goods"
    sku: str = ""
    title: str = ""
    tax_ppm: int = 200_000
    serials: tuple[str, ...] = ()


@dataclass(frozen=True)
class Order:
    """An imported order; `lines` and `captures` are ids by line_ref and by tender."""

    order_id: UUID
    external_ref: str
    customer_id: UUID
    currency: str
    total_minor: int
    lines: dict[str, UUID]
    captures: dict[str, UUID]
    quantities: dict[str, int]


TEE, LAMP, POST = "TEE", "LAMP", "POST"
# Three T-shirts at 24.90, a lamp at 58.00 and the postage, 20 % tax in.
USUAL_LINES = (
    Line(TEE, 3, 7470, sku="TEE-M", title="T-shirt, medium"),
    Line(LAMP, 1, 5800, sku="LAMP", title="Desk lamp"),
    Line(POST, 1, 490, kind="shipping", sku="POST", title="Standard delivery"),
)


def insert_order(
    db: Connection,
    merchant_id: UUID,
    account_id: UUID,
    customer_id: UUID,
    external_ref: str,
    *,
    currency: str = "GBP",
    exponent: int = 2,
    lines: tuple[Line, ...] = USUAL_LINES,
    captured: dict[str, int] | None = None,
    by_hand: frozenset[str] = frozenset(),
) -> Order:
    """The rows of one order in the open transaction, which is the console's and pinned to the merchant.

    Tenders in `by_hand` are held by no provider: they have no references there.
    """
    order_id, total = uuid7(), sum(line.gross_minor for line in lines)
    paid = captured or {"card": total}
    facts = order_facts(_facts(external_ref, currency, total, lines, paid))
    allocation = allocate(facts)
    run(
        db,
        "INSERT INTO orders (merchant_id, order_id, external_ref, customer_id, currency, exponent, total_minor,"
        " placed_at, zone, region, channel, price_mode, facts, facts_digest, allocation, allocation_method,"
        " allocation_digest) VALUES (:m, :order_id, :ref, :customer_id, :currency, :exponent, :total, :at,"
        " 'Europe/London', 'GB', 'web', 'inclusive', :facts, :facts_digest, :allocation, :method, :allocation_digest)",
        m=merchant_id, order_id=order_id, ref=external_ref, customer_id=customer_id, currency=currency,
        exponent=exponent, total=total, at=PLACED_AT, facts=Jsonb(facts.document()),
        facts_digest=_bytes(facts.digest()), allocation=Jsonb(allocation.document()), method=allocation.method,
        allocation_digest=_bytes(allocation.digest),
    )  # fmt: skip
    line_ids = {line.ref: uuid7() for line in lines}
    for position, line in enumerate(lines, 1):
        run(
            db,
            "INSERT INTO order_lines (merchant_id, line_id, order_id, line_ref, position, kind, sku, title, quantity,"
            " unit_price_minor, gross_minor, tax_minor) VALUES (:m, :line_id, :order_id, :ref, :position, :kind, :sku,"
            " :title, :quantity, :unit, :gross, :tax)",
            m=merchant_id, line_id=line_ids[line.ref], order_id=order_id, ref=line.ref, position=position,
            kind=line.kind, sku=line.sku, title=line.title, quantity=line.quantity,
            unit=line.gross_minor // line.quantity, gross=line.gross_minor, tax=_tax(line),
        )  # fmt: skip
    capture_ids = {tender: uuid7() for tender in paid}
    for position, (tender, minor) in enumerate(paid.items(), 1):
        card = tender == "card"
        run(
            db,
            "INSERT INTO captures (merchant_id, capture_id, order_id, position, capture_ref, tender,"
            " provider_account_id, payment_intent_ref, charge_ref, destination_kind, destination_brand,"
            " destination_last4, currency, captured_minor, order_minor, captured_at, available_minor)"
            " VALUES (:m, :capture_id, :order_id, :position, :ref, :tender, :account, :payment, :charge, :tender,"
            " :brand, :last4, :currency, :minor, :minor, :at, :minor)",
            m=merchant_id, capture_id=capture_ids[tender], order_id=order_id, position=position, tender=tender,
            ref=f"{external_ref}-{tender}", account=None if tender in by_hand else account_id,
            payment=None if tender in by_hand else f"pi_{external_ref}_{tender}",
            charge=None if tender in by_hand else f"ch_{external_ref}_{tender}",
            brand="visa" if card else "", last4="4242" if card else "", currency=currency, minor=minor, at=PLACED_AT,
        )  # fmt: skip
    quantities = {line.ref: line.quantity for line in lines}
    return Order(order_id, external_ref, customer_id, currency, total, line_ids, capture_ids, quantities)


def _facts(
    external_ref: str, currency: str, total: int, lines: tuple[Line, ...], captured: dict[str, int]
) -> dict[str, Any]:
    at = PLACED_AT.isoformat().replace("+00:00", "Z")
    return {
        "external_ref": external_ref,
        "currency": currency,
        "total_minor": total,
        "placed_at": at,
        "zone": "Europe/London",
        "region": "GB",
        "channel": "web",
        "price_mode": "inclusive",
        "customer": {"external_ref": "C-1001", "name": "Ilse Brandt"},
        "lines": [
            {
                "line_ref": line.ref, "position": position, "kind": line.kind, "sku": line.sku or line.ref,
                "title": line.title or line.ref, "quantity": line.quantity,
                "unit_price_minor": line.gross_minor // line.quantity, "gross_minor": line.gross_minor,
                "tax_minor": _tax(line), **({"serials": list(line.serials)} if line.serials else {}),
            }
            for position, line in enumerate(lines, 1)
        ],
        "captures": [
            {"capture_ref": f"{external_ref}-{tender}", "tender": tender, "currency": currency, "captured_minor": minor,
             "order_minor": minor, "captured_at": at, "payment_intent_ref": f"pi_{external_ref}_{tender}",
             "charge_ref": f"ch_{external_ref}_{tender}"}
            for tender, minor in captured.items()
        ],
    }  # fmt: skip


def _tax(line: Line) -> int:
    """The tax inside the gross, half up."""
    base = 1_000_000 + line.tax_ppm
    return (2 * line.gross_minor * line.tax_ppm + base) // (2 * base)


def _bytes(named_digest: str) -> bytes:
    return bytes.fromhex(named_digest.removeprefix("sha256:"))


def sha256(content: bytes) -> bytes:
    """The 32 bytes that the schema calls a digest."""
    return hashlib.sha256(content).digest()
