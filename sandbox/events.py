"""Events: what happened, as it looked when it happened (§5), and who is to be told."""

import sqlite3
from typing import Any

from sandbox import render
from sandbox.calls import Actor, Call, find
from sandbox.forms import PAGE, flag, items, period, text
from sandbox.ids import new_id
from sandbox.listing import Filter, listed
from sandbox.render import Body

LIST = PAGE | {"type": text, "types": items, "created": period, "delivery_success": flag}
_DAYS_KEPT_SECONDS = 30 * 86400

_ADDRESSEES = """
select e.id from endpoints e where e.account = :account and not e.connect
union all
select e.id from endpoints e join accounts a on a.platform = e.account where e.connect and a.id = :account
"""


def emit(db: sqlite3.Connection, actor: Actor, kind: str, thing: Body, previous: dict[str, Any] | None = None) -> None:
    """Write one event, in the transaction of the change itself, and one delivery for each endpoint that listens."""
    event_id = new_id("evt_", 24)
    db.execute(
        "insert into events (account, id, created, type, object, previous, request_id, idempotency_key)"
        " values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            actor.account,
            event_id,
            actor.now,
            kind,
            render.compact(thing),
            render.compact(previous) if previous else None,
            actor.request_id,
            actor.key,
        ),
    )
    db.execute(
        f"insert into deliveries (event, endpoint, due) select :event, id, 0 from ({_ADDRESSEES})",  # noqa: S608
        {"event": event_id, "account": actor.account},
    )


def shown(db: sqlite3.Connection, row: sqlite3.Row) -> Body:
    waiting = db.execute(
        "select count(*) from deliveries where event = ? and state = 'waiting'", (row["id"],)
    ).fetchone()[0]
    return render.event(row, waiting)


def retrieve(db: sqlite3.Connection, call: Call) -> Body:
    return shown(db, find(db, call.account, "event", call.ids[0], "id"))


def list_all(db: sqlite3.Connection, call: Call) -> Body:
    wanted = Filter(call.account)
    wanted.add("created >= ?", call.now - _DAYS_KEPT_SECONDS)
    kinds = call.params.get("types") or [call.params[name] for name in ("type",) if name in call.params]
    if kinds:
        tests = " or ".join("type glob ?" if kind.endswith(".*") else "type = ?" for kind in kinds)
        wanted.add(f"({tests})", *kinds)
    if "delivery_success" in call.params:
        undelivered = "exists (select 1 from deliveries d where d.event = events.id and d.state != 'delivered')"
        wanted.add(f"not {undelivered}" if call.params["delivery_success"] else undelivered)
    return listed(db, call, "event", wanted, lambda row: shown(db, row))
