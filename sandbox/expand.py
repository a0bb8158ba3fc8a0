"""``expand[]``: ids in an answer replaced by the objects they name, to Stripe's depth of four."""

import sqlite3
from collections.abc import Callable
from typing import Any

from sandbox import render
from sandbox.errors import not_valid
from sandbox.render import Body

DEEPEST = 4

_OBJECTS: dict[str, tuple[str, Callable[[sqlite3.Row], Body]]] = {
    "pi_": ("select * from payments where id = ? and account = ?", render.payment_intent),
    "ch_": ("select * from payments where charge = ? and account = ?", render.charge),
    "re_": ("select * from refunds where id = ? and account = ?", render.refund),
    "txn": ("select * from balance_transactions where id = ? and account = ?", render.balance_transaction),
}
_FIELDS = frozenset(
    ["balance_transaction", "charge", "failure_balance_transaction", "latest_charge", "payment_intent", "source"]
)


def expand(db: sqlite3.Connection, account: str, body: Body, paths: list[str]) -> None:
    """Put objects in the place of ids. Raises ``ProviderError`` 400 for what cannot be expanded."""
    for path in paths:
        parts = path.split(".")
        if len(parts) > DEEPEST:
            raise not_valid(f"You cannot expand more than {DEEPEST} levels of a property: {path}", "expand")
        _expand(db, account, body, parts, path)


def _expand(db: sqlite3.Connection, account: str, body: Body, parts: list[str], path: str) -> None:
    name, rest = parts[0], parts[1:]
    if body.get("object") == "list" and name == "data" and rest:
        for item in body["data"]:
            _expand(db, account, item, rest, path)
        return
    if body.get("object") == "charge" and name == "refunds":
        _embed_refunds(db, body)
    elif name not in _FIELDS and name not in ("customer", "payment_method"):
        raise not_valid(f"This property cannot be expanded ({path}).", "expand")
    else:
        body[name] = _object(db, account, body.get(name))
    if rest and isinstance(body[name], dict):
        _expand(db, account, body[name], rest, path)


def _object(db: sqlite3.Connection, account: str, value: Any) -> Any:
    if not isinstance(value, str) or value[:3] not in _OBJECTS:
        return value
    statement, shown = _OBJECTS[value[:3]]
    row = db.execute(statement, (value, account)).fetchone()
    return shown(row) if row else value


def _embed_refunds(db: sqlite3.Connection, charge: Body) -> None:
    rows = db.execute(
        "select * from refunds where charge = ? order by created desc, seq desc limit 11", (charge["id"],)
    ).fetchall()
    refunds = [render.refund(row) for row in rows[:10]]
    charge["refunds"] = render.page(refunds, len(rows) > 10, f"/v1/charges/{charge['id']}/refunds")
