"""Thousands of paid payments in one transaction, as a shop's past month would have left them."""

import json
import re
import sqlite3
from typing import Any

from sandbox.errors import not_valid
from sandbox.ids import new_id
from sandbox.payments import MOST_MINOR

_TAKES = frozenset(
    [
        "amount",
        "currency",
        "created",
        "brand",
        "last4",
        "exp_month",
        "exp_year",
        "metadata",
        "description",
        "customer",
        "email",
    ]
)
_PAYMENT = (
    "insert into payments (account, id, charge, created, charge_created, amount, currency, capture_method, status,"
    " payment_method, brand, last4, exp_month, exp_year, amount_captured, balance_transaction, customer, description,"
    " receipt_email, metadata) values (?, ?, ?, ?, ?, ?, ?, 'automatic', 'succeeded', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MOVE = (
    "insert into balance_transactions (account, id, amount, fee, currency, created, type, source)"
    " values (?, ?, ?, 0, ?, ?, 'charge', ?)"
)


def create(db: sqlite3.Connection, account: str, wanted: list[dict[str, Any]], now: int) -> list[dict[str, Any]]:
    """Make paid payments; answers one ``{payment_intent, charge, amount, currency, created}`` each, in order.

    Each wish has ``amount`` (minor units, 1 to 99,999,999) and ``currency``, and may have ``created``, ``brand``,
    ``last4``, ``exp_month``, ``exp_year``, ``metadata``, ``description``, ``customer``, ``email``. No events are sent.
    Raises ``ProviderError`` 400 naming the first wish that is not usable; then none is made.
    """
    payments, moves, answers = [], [], []
    for place, wish in enumerate(wanted):
        _check(place, wish)
        currency, created = wish["currency"].lower(), int(wish.get("created") or now)
        intent, charge, moved = new_id("pi_3"), new_id("ch_3"), new_id("txn_3")
        amount = wish["amount"]
        payments.append(
            (
                account,
                intent,
                charge,
                created,
                created,
                amount,
                currency,
                "pm_card_visa",
                wish.get("brand", "visa"),
                wish.get("last4", "4242"),
                wish.get("exp_month", 12),
                wish.get("exp_year", 2034),
                amount,
                moved,
                wish.get("customer"),
                wish.get("description"),
                wish.get("email"),
                json.dumps(wish.get("metadata", {})),
            )
        )
        moves.append((account, moved, amount, currency, created, charge))
        answers.append(
            {"payment_intent": intent, "charge": charge, "amount": amount, "currency": currency, "created": created}
        )
    db.executemany(_PAYMENT, payments)
    db.executemany(_MOVE, moves)
    return answers


def _check(place: int, wish: Any) -> None:
    if not isinstance(wish, dict) or not wish.keys() <= _TAKES:
        raise not_valid(f"payments[{place}] takes {', '.join(sorted(_TAKES))}.", f"payments[{place}]")
    amount = wish.get("amount")
    if type(amount) is not int or not 1 <= amount <= MOST_MINOR:
        message = f"payments[{place}].amount is a whole number of minor units from 1 to {MOST_MINOR}."
        raise not_valid(message, f"payments[{place}].amount")
    if not re.fullmatch("[A-Za-z]{3}", str(wish.get("currency", ""))):
        raise not_valid(f"payments[{place}].currency is a three-letter code.", f"payments[{place}].currency")
    words = wish.get("metadata", {})
    if not isinstance(words, dict) or not all(isinstance(value, str) for value in words.values()):
        raise not_valid(f"payments[{place}].metadata maps words to strings.", f"payments[{place}].metadata")
