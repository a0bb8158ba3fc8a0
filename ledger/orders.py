"""Orders as the shop states them, stored once with their allocation (never computed again).

What the same order stated again means is in `order_repeats`.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.allocation import Methods, allocate
from ledger.allocation_checks import order_minor_of
from ledger.canonical import canonical_bytes
from ledger.database import first, rows, run, run_many
from ledger.errors import BadInput, LedgerError, NotFound
from ledger.ids import uuid7
from ledger.methods_of_sale import methods_of_sales
from ledger.order_facts import CaptureFacts, OrderFacts
from ledger.order_repeats import Stored, settle_repeat, work_out_cases

# An uncaptured card authorisation lapses by itself after seven days (STRIPE.md §2): then it is read at the latest.
LAPSES_AFTER: Final = timedelta(days=7, hours=1)


class NoProviderAccount(LedgerError):
    """This merchant has no provider account yet, so payments cannot be linked. Set one up first."""

    code = "no-provider-account"


@dataclass
class OrderRows:
    """The rows one order becomes, by table, as mappings of column to value; `jsonb` values are canonical JSON text."""

    order: dict[str, Any]
    lines: list[dict[str, Any]] = field(default_factory=list)
    captures: list[dict[str, Any]] = field(default_factory=list)


def money_digest(facts: OrderFacts) -> bytes:
    """SHA-256 of the facts without the customer's contact, which may change without touching money."""
    document = facts.document()
    document.pop("customer", None)
    if facts.customer is not None:
        document["customer_ref"] = facts.customer.external_ref
    return hashlib.sha256(b"onceback.order-facts.v1\0" + canonical_bytes(document)).digest()


Sources = Mapping[tuple[str, str], RowMapping]


def order_rows(
    merchant_id: UUID,
    facts: OrderFacts,
    methods: Methods,
    account_id: UUID,
    customer_id: UUID | None,
    sources: Sources = MappingProxyType({}),
) -> OrderRows:
    """Allocates the order and spells out its rows. Pure but for the identifiers. `sources`: as `credit_sources` gives them.

    Raises BadInput for an exchange credit whose payment is not among them.
    """
    allocation = allocate(facts, methods)
    document = facts.document()
    document.pop("customer", None)  # contact lives in `customers` alone, where it can be erased
    order_id = uuid7()
    order = {
        "merchant_id": merchant_id, "order_id": order_id, "external_ref": facts.external_ref, "customer_id": customer_id,
        "currency": facts.currency, "exponent": allocation.exponent or 0, "total_minor": facts.total_minor,
        "placed_at": facts.placed_at, "zone": facts.zone, "region": facts.region or "", "channel": facts.channel,
        "price_mode": facts.price_mode, "facts": canonical_bytes(document).decode(), "facts_digest": money_digest(facts),
        "allocation": canonical_bytes(allocation.document()).decode(), "allocation_method": allocation.method,
        "allocation_digest": bytes.fromhex(allocation.digest.removeprefix("sha256:")),
        "discrepancies": [found.name for found in allocation.discrepancies], "blocked": bool(allocation.blocked_by),
    }  # fmt: skip
    prices = {line.line_ref: line.unit_price_minor for line in facts.lines}
    lines = [
        {
            "merchant_id": merchant_id, "line_id": uuid7(), "order_id": order_id, "line_ref": line.line_id,
            "position": line.position, "kind": line.kind, "sku": line.sku, "title": line.title, "quantity": line.quantity,
            "unit_price_minor": prices.get(line.line_id, line.gross_minor), "discount_minor": max(0, line.discount_minor),
            # A line below zero blocks its order; it holds nothing that could be claimed.
            "gross_minor": max(0, line.gross_minor), "tax_minor": max(0, min(line.tax_minor, line.gross_minor)),
            "step_minor": allocation.step_minor if max(0, line.gross_minor) % allocation.step_minor == 0 else 1,
        }
        for line in allocation.lines
    ]  # fmt: skip
    captures = [capture_row(merchant_id, order_id, position, capture, facts, account_id, sources)
                for position, capture in enumerate(facts.captures, 1)]  # fmt: skip
    return OrderRows(order, lines, captures)


def capture_row(
    merchant_id: UUID,
    order_id: UUID,
    position: int,
    capture: CaptureFacts,
    facts: OrderFacts,
    account_id: UUID,
    sources: Sources,
) -> dict[str, Any]:
    """The row of one payment of an order, with nothing of it back yet."""
    payable = capture.payment_intent_ref is not None and capture.charge_ref is not None
    destination = capture.destination
    return {
        "merchant_id": merchant_id, "capture_id": uuid7(), "order_id": order_id, "position": position,
        "capture_ref": capture.capture_ref, "tender": capture.tender,
        "provider_account_id": account_id if payable else None,
        "payment_intent_ref": capture.payment_intent_ref if payable else None,
        "charge_ref": capture.charge_ref if payable else None,
        "destination_kind": destination.kind if destination else capture.tender,
        "destination_brand": (destination.brand if destination else None) or "",
        "destination_last4": (destination.last4 if destination else None) or "",
        "currency": capture.currency, "captured_minor": capture.captured_minor,
        "order_minor": order_minor_of(capture, facts.currency) or 0, "step_minor": capture.refund_step_minor,
        "captured_at": capture.captured_at, "available_minor": capture.captured_minor, "held_minor": capture.held_minor,
        "next_read_at": capture.captured_at + LAPSES_AFTER if capture.held_minor else None,
        "source_capture_id": _source(capture, position, sources),
    }  # fmt: skip


def _source(capture: CaptureFacts, position: int, sources: Sources) -> UUID | None:
    """The payment that an exchange credit stands for."""
    named = capture.exchanged_from
    if named is None:
        return None
    source = sources.get((named.order, named.capture))
    if source is None:
        raise BadInput(
            f"captures[{position - 1}].exchanged_from", "names no payment that is here: send that order first"
        )
    if source["currency"] != capture.currency:
        raise BadInput(f"captures[{position - 1}].currency", f"the exchanged goods were paid in {source['currency']}")
    return UUID(str(source["capture_id"]))


_SOURCES: Final = """
    SELECT o.external_ref, k.capture_ref, coalesce(k.source_capture_id, k.capture_id) AS capture_id, k.currency
    FROM orders o JOIN captures k ON k.merchant_id = o.merchant_id AND k.order_id = o.order_id
    WHERE o.merchant_id = :m AND o.external_ref = ANY(:refs)
"""


def credit_sources(db: Connection, merchant_id: UUID, orders: Iterable[OrderFacts]) -> Sources:
    """The payments that exchange credits of these orders name, by order and payment; of a credit of a credit the first payment."""
    refs = {one.exchanged_from.order for facts in orders for one in facts.captures if one.exchanged_from is not None}
    if not refs:
        return {}
    found = rows(db, _SOURCES, m=merchant_id, refs=sorted(refs))
    return {(row["external_ref"], row["capture_ref"]): row for row in found}


def _insert(table: str, columns: tuple[str, ...]) -> str:
    jsonb = {"facts", "allocation"}
    values = ", ".join(f"CAST(:{name} AS jsonb)" if name in jsonb else f":{name}" for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608 constants of this module


ORDER_COLUMNS: Final = (
    "merchant_id", "order_id", "external_ref", "customer_id", "currency", "exponent", "total_minor", "placed_at", "zone",
    "region", "channel", "price_mode", "facts", "facts_digest", "allocation", "allocation_method", "allocation_digest",
    "discrepancies", "blocked",
)  # fmt: skip
LINE_COLUMNS: Final = (
    "merchant_id", "line_id", "order_id", "line_ref", "position", "kind", "sku", "title", "quantity", "unit_price_minor",
    "discount_minor", "gross_minor", "tax_minor", "step_minor",
)  # fmt: skip
CAPTURE_COLUMNS: Final = (
    "merchant_id", "capture_id", "order_id", "position", "capture_ref", "tender", "provider_account_id",
    "payment_intent_ref", "charge_ref", "destination_kind", "destination_brand", "destination_last4", "currency",
    "captured_minor", "order_minor", "step_minor", "captured_at", "available_minor", "held_minor", "next_read_at",
    "source_capture_id",
)  # fmt: skip
_INSERT_ORDER: Final = _insert("orders", ORDER_COLUMNS) + " ON CONFLICT (merchant_id, external_ref) DO NOTHING"
_INSERT_LINE: Final = _insert("order_lines", LINE_COLUMNS)
_INSERT_CAPTURE: Final = _insert("captures", CAPTURE_COLUMNS)


def store_order(db: Connection, merchant_id: UUID, facts: OrderFacts) -> Stored:
    """Stores one order with its allocation, or finds it there; what is learnt of its delivery has its open cases worked out again.

    Locks an order that is there already, and where something is learnt its open cases and what `reassess` locks. Raises
    NoProviderAccount, BadInput (an exchange credit of an unknown payment); IntegrityError when a payment already belongs to
    another order.
    """
    stored = take_order(db, merchant_id, facts)
    if stored.status == "updated":
        work_out_cases(db, merchant_id, [stored.order_id])
    return stored


def take_order(db: Connection, merchant_id: UUID, facts: OrderFacts) -> Stored:
    """The same, with no case worked out again yet."""
    customer_id = _customer(db, merchant_id, facts)
    (methods,) = methods_of_sales(db, merchant_id, [facts])
    account_id, sources = provider_account(db, merchant_id), credit_sources(db, merchant_id, [facts])
    made = order_rows(merchant_id, facts, methods, account_id, customer_id, sources)
    if run(db, _INSERT_ORDER, **made.order) == 1:
        run_many(db, _INSERT_LINE, list(made.lines))
        run_many(db, _INSERT_CAPTURE, list(made.captures))
        return Stored(made.order["order_id"], "created", tuple(made.order["discrepancies"]))
    return settle_repeat(db, merchant_id, made.order)


def provider_account(db: Connection, merchant_id: UUID) -> UUID:
    """The account that new captures belong to. Raises NoProviderAccount."""
    row = first(
        db, "SELECT provider_account_id FROM provider_accounts WHERE merchant_id = :m ORDER BY 1 LIMIT 1", m=merchant_id
    )
    if row is None:
        raise NoProviderAccount
    return UUID(str(row["provider_account_id"]))


UPSERT_CUSTOMER: Final = """
    INSERT INTO customers (merchant_id, customer_id, external_ref, name, email) VALUES (:m, :id, :ref, :name, :email)
    ON CONFLICT (merchant_id, external_ref) DO UPDATE SET name = excluded.name, email = excluded.email
        WHERE (customers.name, customers.email) IS DISTINCT FROM (excluded.name, excluded.email) AND :stated
"""


def _customer(db: Connection, merchant_id: UUID, facts: OrderFacts) -> UUID | None:
    customer = facts.customer
    if customer is None:
        return None
    run(db, UPSERT_CUSTOMER, m=merchant_id, id=uuid7(), ref=customer.external_ref, name=customer.name or customer.external_ref,
        email=customer.email, stated=customer.name is not None)  # fmt: skip
    row = first(
        db,
        "SELECT customer_id FROM customers WHERE merchant_id = :m AND external_ref = :r",
        m=merchant_id,
        r=customer.external_ref,
    )
    if row is None:
        raise NotFound
    return UUID(str(row["customer_id"]))
