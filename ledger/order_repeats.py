"""What it means when an order is stated again: nothing new, more about its delivery, or other facts.

When a line was delivered, in which parcel, and how the invoice is called is learnt after the sale: the newest statement counts,
each is kept as a row, and leaving it out says nothing. A title is a name: the first one stays. Payments that were only authorised
move on by themselves. Everything else is the sale: other facts are kept beside it, and the order is blocked until two people
settle which stand (`order_settlements`). What they set aside changes nothing when it is said again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.assessment import reassess
from ledger.database import first, rows, run, run_many
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.errors import NotFound
from ledger.events import SYSTEM, lock_open_cases
from ledger.ids import uuid7

IMPORT_CHANGED: Final = "import_changed"


@dataclass(frozen=True)
class Stored:
    """What became of one order: `created`, `unchanged`, `updated` (something was learnt of its delivery or invoice), or `conflict`
    (kept beside the first and blocked)."""

    order_id: UUID
    status: Literal["created", "unchanged", "updated", "conflict"]
    discrepancies: tuple[str, ...] = ()


_THERE: Final = """
    SELECT order_id, customer_id, facts, facts_digest, discrepancies FROM orders
    WHERE merchant_id = :m AND external_ref = :r FOR NO KEY UPDATE
"""
_CONFLICT: Final = """
    INSERT INTO order_conflicts (merchant_id, conflict_id, order_id, facts, facts_digest, customer_id)
    VALUES (:m, :id, :o, CAST(:facts AS jsonb), :digest, :customer) ON CONFLICT DO NOTHING
"""


def settle_repeat(db: Connection, merchant_id: UUID, order: dict[str, Any]) -> Stored:
    """The reference is taken. `order`: the row it would have been. Locks the order that is there. Raises NotFound."""
    there = first(db, _THERE, m=merchant_id, r=order["external_ref"])
    if there is None:
        raise NotFound
    known = tuple(there["discrepancies"])
    before, now = there["facts"], json.loads(order["facts"])
    if bytes(there["facts_digest"]) == order["facts_digest"] or _same_sale(db, merchant_id, there, order, now):
        learnt = _learn(db, merchant_id, there["order_id"], before["lines"], now["lines"])
        named = _learn_invoice(db, merchant_id, there["order_id"], before.get("invoice_ref"), now.get("invoice_ref"))
        return Stored(there["order_id"], "updated" if learnt or named else "unchanged", known)
    if _set_aside(db, merchant_id, there, order, now):
        return Stored(there["order_id"], "unchanged", known)
    run(
        db,
        _CONFLICT,
        m=merchant_id,
        id=uuid7(),
        o=there["order_id"],
        facts=order["facts"],
        digest=order["facts_digest"],
        customer=order["customer_id"],
    )
    names = sorted({*known, IMPORT_CHANGED})
    run(db, "UPDATE orders SET blocked = true, discrepancies = :names WHERE merchant_id = :m AND order_id = :o",
        names=names, m=merchant_id, o=there["order_id"])  # fmt: skip
    return Stored(there["order_id"], "conflict", tuple(names))


_SET_ASIDE: Final = """
    SELECT facts, customer_id FROM order_conflicts
    WHERE merchant_id = :m AND order_id = :o AND conflict_id <> ALL (open_conflicts(:m, :o))
    UNION ALL
    SELECT facts, customer_id FROM order_allocations WHERE merchant_id = :m AND order_id = :o AND facts_digest <> :digest
"""


def _set_aside(
    db: Connection, merchant_id: UUID, there: RowMapping, order: dict[str, Any], now: dict[str, Any]
) -> bool:
    """Whether two people settled already that this statement does not stand; said again it changes nothing."""
    found = rows(db, _SET_ASIDE, m=merchant_id, o=there["order_id"], digest=bytes(there["facts_digest"]))
    return any(
        row["customer_id"] == order["customer_id"] and _but_for(row["facts"], ()) == _but_for(now, ()) for row in found
    )


def learn_of(db: Connection, merchant_id: UUID, order_id: UUID, lines: list[dict[str, Any]]) -> None:
    """Keeps what a statement that stands now says of deliveries, where something else was learnt last. The order is locked."""
    _learn(db, merchant_id, order_id, lines, lines)


def work_out_cases(db: Connection, merchant_id: UUID, order_ids: Sequence[UUID]) -> None:
    """Works out again the open cases of orders whose delivery was learnt, all locked first; one about charges does not turn on it.

    Locks the cases and what `reassess` locks; the orders are locked.
    """
    for case in lock_open_cases(db, merchant_id, order_ids):
        if case.kind != DUPLICATE_CHARGE:
            reassess(db, case, SYSTEM)


_LEARNT: Final = ("delivered_at", "shipment", "title")
_MOVES: Final = ("status", "authorised_minor", "captured_minor", "order_minor", "captured_at")


def _same_sale(
    db: Connection, merchant_id: UUID, there: RowMapping, order: dict[str, Any], now: dict[str, Any]
) -> bool:
    """Whether all that differs is what is learnt, or that authorised payments were captured or let go since.

    What was taken is what the provider says, so the shop's new figures only ask for that read.
    """
    if there["customer_id"] != order["customer_id"]:
        return False
    before = there["facts"]
    if _but_for(before, ()) == _but_for(now, ()):
        return True
    held = [one["capture_ref"] for one in before.get("captures", []) if one.get("status") == "authorised"]
    if not held or _but_for(before, held) != _but_for(now, held):
        return False
    run(db, "UPDATE captures SET next_read_at = now() WHERE merchant_id = :m AND order_id = :o AND capture_ref = ANY(:refs)"
        " AND held_minor + releasing_minor > 0", m=merchant_id, o=there["order_id"], refs=held)  # fmt: skip
    return True


def _but_for(facts: dict[str, Any], held: Sequence[str]) -> dict[str, Any]:
    captures = [
        {name: value for name, value in one.items() if one["capture_ref"] not in held or name not in _MOVES}
        for one in facts.get("captures", [])
    ]
    lines = [{name: value for name, value in line.items() if name not in _LEARNT} for line in facts["lines"]]
    return {**facts, "captures": captures, "lines": lines, "invoice_ref": None}


_NEWEST: Final = """
    SELECT DISTINCT ON (line_ref) line_ref, n, delivered_at, shipment FROM order_deliveries
    WHERE merchant_id = :m AND order_id = :o ORDER BY line_ref, n DESC
"""
_KEEP: Final = """
    INSERT INTO order_deliveries (merchant_id, order_id, line_ref, n, delivered_at, shipment)
    VALUES (:m, :o, :line, :n, :at, :shipment)
"""


def _learn(
    db: Connection, merchant_id: UUID, order_id: UUID, first_said: list[dict[str, Any]], said: list[dict[str, Any]]
) -> bool:
    """Keeps what is stated of a delivery otherwise than it was last; whether anything was. The order is locked."""
    newest = {
        row["line_ref"]: (row["n"], row["delivered_at"], row["shipment"])
        for row in rows(db, _NEWEST, m=merchant_id, o=order_id)
    }
    kept = []
    for once, line in zip(first_said, said, strict=True):
        n, at, shipment = newest.get(line["line_ref"], (0, _instant(once), once.get("shipment")))
        stated = (_instant(line) or at, line.get("shipment") or shipment)
        if stated != (at, shipment):
            kept.append({"m": merchant_id, "o": order_id, "line": line["line_ref"], "n": n + 1,
                         "at": stated[0], "shipment": stated[1]})  # fmt: skip
    if kept:
        run_many(db, _KEEP, kept)
    return bool(kept)


_INVOICE: Final = """
    SELECT n, invoice_ref FROM order_invoices WHERE merchant_id = :m AND order_id = :o ORDER BY n DESC LIMIT 1
"""


def _learn_invoice(db: Connection, merchant_id: UUID, order_id: UUID, once: str | None, said: str | None) -> bool:
    """Keeps what the shop calls its invoice now, where that is another name than before; leaving it out says nothing."""
    newest = first(db, _INVOICE, m=merchant_id, o=order_id)
    if said is None or said == (newest["invoice_ref"] if newest else once):
        return False
    run(db, "INSERT INTO order_invoices (merchant_id, order_id, n, invoice_ref) VALUES (:m, :o, :n, :said)",
        m=merchant_id, o=order_id, n=1 + (newest["n"] if newest else 0), said=said)  # fmt: skip
    return True


def _instant(line: dict[str, Any]) -> datetime | None:
    return datetime.fromisoformat(line["delivered_at"]) if line.get("delivered_at") else None
