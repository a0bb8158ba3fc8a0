"""Charges: what a payment intent took. Retrieve, list, change metadata."""

import json
import sqlite3

from sandbox import render
from sandbox.calls import Call, find
from sandbox.events import emit
from sandbox.forms import EXPAND, PAGE, free_text, merge, metadata, period, text
from sandbox.listing import Filter, listed
from sandbox.render import Body

UPDATE = EXPAND | {"metadata": metadata, "description": free_text, "receipt_email": free_text}
LIST = PAGE | {"payment_intent": text, "customer": text, "created": period}


def retrieve(db: sqlite3.Connection, call: Call) -> Body:
    return render.charge(find(db, call.account, "charge", call.ids[0], "id"))


def update(db: sqlite3.Connection, call: Call) -> Body:
    row = find(db, call.account, "charge", call.ids[0], "id")
    before = json.loads(row["charge_metadata"] or row["metadata"])
    after = merge(before, call.params.get("metadata", {}))
    row = db.execute(
        "update payments set charge_metadata = ?, description = ?, receipt_email = ? where seq = ? returning *",
        (
            json.dumps(after),
            call.params.get("description", row["description"]) or None,
            call.params.get("receipt_email", row["receipt_email"]) or None,
            row["seq"],
        ),
    ).fetchone()
    body = render.charge(row)
    emit(db, call.actor, "charge.updated", body, {"metadata": before} if before != after else None)
    return body


def list_all(db: sqlite3.Connection, call: Call) -> Body:
    wanted = Filter(call.account)
    wanted.add("charge is not null")
    if "payment_intent" in call.params:
        wanted.add("id = ?", find(db, call.account, "payment_intent", call.params["payment_intent"])["id"])
    if "customer" in call.params:
        wanted.add("customer = ?", call.params["customer"])
    return listed(db, call, "charge", wanted, render.charge)
