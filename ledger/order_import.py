"""Many orders at once: the same rows as `ledger.orders` stores, in a handful of statements for a whole batch.

Rows travel as one JSON text per table, because a table with row-level security takes no COPY. What is there already
changes nothing.
"""

import json
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import rows, run
from ledger.ids import uuid7
from ledger.methods_of_sale import methods_of_sales
from ledger.order_facts import OrderFacts
from ledger.order_repeats import Stored, work_out_cases
from ledger.orders import (
    CAPTURE_COLUMNS,
    LINE_COLUMNS,
    ORDER_COLUMNS,
    OrderRows,
    credit_sources,
    money_digest,
    order_rows,
    provider_account,
    take_order,
)

_TYPES: Final = {
    "merchant_id": "uuid", "order_id": "uuid", "line_id": "uuid", "capture_id": "uuid", "customer_id": "uuid",
    "provider_account_id": "uuid", "source_capture_id": "uuid", "exponent": "int", "position": "int", "quantity": "int",
    "step_minor": "int",
    "blocked": "boolean", "discrepancies": "text[]", "facts_digest": "bytea", "allocation_digest": "bytea",
    "placed_at": "timestamptz", "captured_at": "timestamptz", "next_read_at": "timestamptz",
}  # fmt: skip
# Canonical JSON stays the text it is; the cast reads it once, in the database.
_JSON: Final = ("facts", "allocation")


def _insert(table: str, columns: tuple[str, ...], end: str = "") -> str:
    typed = ", ".join(f"{name} {_type(name)}" for name in columns)
    values = ", ".join(f"{name}::jsonb" if name in _JSON else name for name in columns)
    head = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values}"
    return f"{head} FROM json_to_recordset(CAST(:rows AS json)) AS r({typed}){end}"


def _type(name: str) -> str:
    return _TYPES.get(name) or ("bigint" if name.endswith("_minor") else "text")


_ORDERS: Final = _insert(
    "orders", ORDER_COLUMNS, " ON CONFLICT (merchant_id, external_ref) DO NOTHING RETURNING order_id"
)
_LINES: Final = _insert("order_lines", LINE_COLUMNS)
_CAPTURES: Final = _insert("captures", CAPTURE_COLUMNS)
_CUSTOMERS: Final = """
    INSERT INTO customers (merchant_id, customer_id, external_ref, name, email)
    SELECT :m, customer_id, external_ref, name, email
    FROM json_to_recordset(CAST(:rows AS json)) AS r(customer_id uuid, external_ref text, name text, email text)
    ORDER BY external_ref
    ON CONFLICT (merchant_id, external_ref) DO UPDATE SET name = excluded.name, email = excluded.email
        WHERE (customers.name, customers.email) IS DISTINCT FROM (excluded.name, excluded.email)
"""
_THERE: Final = """
    SELECT external_ref, order_id, facts_digest, discrepancies, EXISTS (SELECT 1 FROM order_deliveries d
        WHERE d.merchant_id = o.merchant_id AND d.order_id = o.order_id) AS stated_since
    FROM orders o WHERE merchant_id = :m AND external_ref = ANY(:refs)
"""


def store_orders(db: Connection, merchant_id: UUID, orders: Sequence[OrderFacts]) -> list[Stored]:
    """Stores the orders, or finds them there; the results are in their order. All of them or, on any error, none.

    Locks customers whose contact changes, by reference, and orders that are stated otherwise; the open cases of those of whose
    delivery something is learnt are worked out again at the end, all of them locked before. Raises NoProviderAccount, MoneyError,
    CanonicalError, BadInput; IntegrityError when a payment already belongs to another order.
    """
    account_id = provider_account(db, merchant_id)
    customers = _customers(db, merchant_id, orders)
    refs = [facts.external_ref for facts in orders]
    there = {row["external_ref"]: row for row in rows(db, _THERE, m=merchant_id, refs=refs)}
    fresh: dict[str, OrderRows] = {}
    sources = credit_sources(db, merchant_id, orders)
    for facts, methods in zip(orders, methods_of_sales(db, merchant_id, orders), strict=True):
        if facts.external_ref not in there and facts.external_ref not in fresh:
            customer_id = customers.get(facts.customer.external_ref) if facts.customer else None
            fresh[facts.external_ref] = order_rows(merchant_id, facts, methods, account_id, customer_id, sources)
    created = _insert_fresh(db, list(fresh.values()))
    results = []
    for facts in orders:
        made = fresh.pop(facts.external_ref, None)
        if made is not None and made.order["order_id"] in created:
            results.append(Stored(made.order["order_id"], "created", tuple(made.order["discrepancies"])))
        else:
            results.append(_repeated(db, merchant_id, facts, there.get(facts.external_ref)))
    work_out_cases(db, merchant_id, [stored.order_id for stored in results if stored.status == "updated"])
    return results


def _insert_fresh(db: Connection, made: list[OrderRows]) -> set[UUID]:
    """Inserts what nobody else has inserted meanwhile, and returns which orders those are."""
    if not made:
        return set()
    created = {row["order_id"] for row in rows(db, _ORDERS, rows=_text([one.order for one in made]))}
    kept = [one for one in made if one.order["order_id"] in created]
    run(db, _LINES, rows=_text([line for one in kept for line in one.lines]))
    run(db, _CAPTURES, rows=_text([capture for one in kept for capture in one.captures]))
    return created


def _repeated(db: Connection, merchant_id: UUID, facts: OrderFacts, there: RowMapping | None) -> Stored:
    if there is not None and bytes(there["facts_digest"]) == money_digest(facts) and not there["stated_since"]:
        return Stored(there["order_id"], "unchanged", tuple(there["discrepancies"]))
    return take_order(db, merchant_id, facts)


def _customers(db: Connection, merchant_id: UUID, orders: Sequence[OrderFacts]) -> dict[str, UUID]:
    """The ids of the customers by reference; the contact stated last holds."""
    stated = {facts.customer.external_ref: facts.customer for facts in orders if facts.customer}
    if not stated:
        return {}
    named = [
        {"customer_id": uuid7(), "external_ref": ref, "name": one.name, "email": one.email}
        for ref, one in stated.items()
    ]
    run(db, _CUSTOMERS, m=merchant_id, rows=_text(named))
    found = rows(db, "SELECT external_ref, customer_id FROM customers WHERE merchant_id = :m AND external_ref = ANY(:refs)",
                 m=merchant_id, refs=list(stated))  # fmt: skip
    return {row["external_ref"]: row["customer_id"] for row in found}


def _text(values: list[dict[str, Any]]) -> str:
    return json.dumps(values, default=_plain)


def _plain(value: object) -> str:
    return "\\x" + value.hex() if isinstance(value, bytes) else str(value)
