"""Balance transactions: each movement of an account's balance, found by its source (§5)."""

import sqlite3

from sandbox import render
from sandbox.calls import Actor, Call, find
from sandbox.forms import PAGE, period, text
from sandbox.ids import new_id
from sandbox.listing import Filter, listed
from sandbox.render import Body

LIST = PAGE | {"source": text, "type": text, "currency": text, "created": period, "payout": text}


def move(
    db: sqlite3.Connection, actor: Actor, kind: str, amount_minor: int, currency: str, source: str, fee_minor: int = 0
) -> str:
    """Write one movement; money leaving the account is negative. Returns its id."""
    identifier = new_id("txn_3")
    db.execute(
        "insert into balance_transactions (account, id, amount, fee, currency, created, type, source)"
        " values (?, ?, ?, ?, ?, ?, ?, ?)",
        (actor.account, identifier, amount_minor, fee_minor, currency, actor.now, kind, source),
    )
    return identifier


def retrieve(db: sqlite3.Connection, call: Call) -> Body:
    return render.balance_transaction(find(db, call.account, "balance_transaction", call.ids[0], "id"))


def list_all(db: sqlite3.Connection, call: Call) -> Body:
    wanted = Filter(call.account)
    for name in ("source", "type", "currency"):
        if name in call.params:
            wanted.add(f"{name} = ?", call.params[name])
    if "payout" in call.params:
        wanted.add("0")  # the sandbox pays nothing out
    return listed(db, call, "balance_transaction", wanted, render.balance_transaction)


def total(db: sqlite3.Connection, call: Call) -> Body:
    """``GET /v1/balance``: what the account holds in each currency."""
    rows = db.execute(
        "select currency, sum(amount - fee) as amount from balance_transactions where account = ? group by currency",
        (call.account,),
    ).fetchall()
    return {
        "object": "balance",
        "available": [_part(row["currency"], row["amount"]) for row in rows],
        "livemode": False,
        "pending": [_part(row["currency"], 0) for row in rows],
    }


def _part(currency: str, amount_minor: int) -> Body:
    return {"amount": amount_minor, "currency": currency, "source_types": {"card": amount_minor}}
