"""What the provider holds per payment: the last word of every money test."""

import json
import sqlite3
from typing import Any

_PAID_BACK = "('pending', 'requires_action', 'succeeded')"


def _refund(row: sqlite3.Row, metadata: dict[str, str]) -> dict[str, Any]:
    names = ("id", "amount", "currency", "status", "created", "idempotency_key", "origin", "failure_reason")
    moved = row["reason"] != "expired_uncaptured_charge"
    return {**{name: row[name] for name in names}, "metadata": metadata, "moved": moved}


def _chosen(account: str | None, payment_intent: str | None) -> tuple[str, list[str]]:
    given = {"account": account, "id": payment_intent}
    chosen = {column: value for column, value in given.items() if value}
    return " and ".join(["1", *(f"{column} = ?" for column in chosen)]), list(chosen.values())


def held(db: sqlite3.Connection, account: str | None, payment_intent: str | None) -> dict[str, Any]:
    """Per payment: captured, refunded (what is on its way or paid back), disputed and each refund; sums per currency.

    Amounts are whole minor units of the payment's currency. A failed or canceled refund is listed and not counted.
    """
    condition, values = _chosen(account, payment_intent)
    return {"payments": _payments(db, condition, values), "totals": totals(db, account, payment_intent)}


def newest(db: sqlite3.Connection, count: int) -> list[dict[str, Any]]:
    """The payments made last, newest first."""
    last = "seq in (select seq from payments order by seq desc limit ?)"
    return _payments(db, last, [count])[::-1]


def _payments(db: sqlite3.Connection, condition: str, values: list[Any]) -> list[dict[str, Any]]:
    payments = db.execute(f"select * from payments where {condition} order by seq", values).fetchall()  # noqa: S608
    of = f"payment_intent in (select id from payments where {condition})"  # noqa: S608
    refunds: dict[str, list[dict[str, Any]]] = {}
    for row in db.execute(f"select * from refunds where {of} order by seq", values):  # noqa: S608
        refunds.setdefault(row["payment_intent"], []).append(_refund(row, json.loads(row["metadata"])))
    return [_payment(row, refunds.get(row["id"], [])) for row in payments]


def _payment(row: sqlite3.Row, refunds: list[dict[str, Any]]) -> dict[str, Any]:
    # A lapsed authorisation is written as a refund and moved no money.
    live = [one for one in refunds if one["status"] in ("pending", "requires_action", "succeeded") and one["moved"]]
    return {
        "payment_intent": row["id"],
        "charge": row["charge"],
        "account": row["account"],
        "status": row["status"],
        "currency": row["currency"],
        "amount": row["amount"],
        "captured": row["amount_captured"],
        "refunded": sum(one["amount"] for one in live),
        "refund_count": len(live),
        "disputed": bool(row["disputed"]),
        "refunds": refunds,
    }


def totals(db: sqlite3.Connection, account: str | None, payment_intent: str | None = None) -> list[dict[str, Any]]:
    """Per currency: payments, captured, refunds, refunded, and refunds that came to nothing."""
    condition, values = _chosen(account, payment_intent)
    rows = db.execute(
        f"select currency, count(*) as payments, sum(amount_captured) as captured from payments where {condition}"  # noqa: S608
        " group by currency order by currency",
        values,
    ).fetchall()
    back = db.execute(
        f"select currency, sum(status in {_PAID_BACK}) as refunds,"  # noqa: S608
        f" sum(case when status in {_PAID_BACK} then amount else 0 end) as refunded,"
        f" sum(status not in {_PAID_BACK}) as came_to_nothing"
        " from refunds where coalesce(reason, '') <> 'expired_uncaptured_charge'"
        f" and payment_intent in (select id from payments where {condition}) group by currency",
        values,
    ).fetchall()
    by_currency = {row["currency"]: dict(row) for row in back}
    none = {"refunds": 0, "refunded": 0, "came_to_nothing": 0}
    return [{**dict(row), **by_currency.get(row["currency"], none)} for row in rows]
