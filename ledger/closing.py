"""Closing a case that was paid in part, when the rest is not coming: what was paid stays taken, the rest is free again."""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import rows, run
from ledger.errors import WrongState
from ledger.events import LockedCase, append, lock_case
from ledger.intents import live_intents


def close_rest(db: Connection, merchant_id: UUID, case_id: UUID, actor: str) -> LockedCase:
    """Each range of units the case holds shrinks to what was paid of it, or ends; the case closes as paid.

    A closed case stays as it is. Raises NotFound; WrongState while a refund of it is live, and when nothing of it was
    paid (that is a rejection, with its reason). Locks the case, its live intents, its items.
    """
    case = lock_case(db, merchant_id, case_id)
    if case.closed_at is not None:
        return case
    if live_intents(db, case):
        raise WrongState("A refund of this case is not settled. Withdraw it, or close the rest when it is.")
    paid = _paid_units(db, case)
    if not paid:
        raise WrongState("Nothing of this case was paid. Reject it instead, and say why.")
    let_go = []
    for item in rows(db, _ITEMS, m=merchant_id, c=case_id):
        kept = _envelope(item, paid.get(item["line_ref"], []))
        _shrink(db, item, kept)
        let_go += _parts(item, kept)
    append(db, case, "case.rest_closed", actor, {"units": let_go}, stage="paid")
    run(db, "UPDATE cases SET closed_at = now() WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=case_id)
    return case


_PAID: Final = """
    SELECT unit->>'line' AS line_ref, (unit->>'from')::int AS a, (unit->>'to')::int AS b
    FROM intents i CROSS JOIN LATERAL jsonb_array_elements(i.units) AS unit
    WHERE i.merchant_id = :m AND i.case_id = :c AND i.state = 'succeeded'
    UNION ALL
    -- Which units a refund made outside was for is not known closer than their line: all that the case holds of it stay taken.
    SELECT l.line_ref, 0, l.quantity FROM external_allocations a
    JOIN order_lines l ON l.merchant_id = a.merchant_id AND l.line_id = a.line_id
    WHERE a.merchant_id = :m AND a.case_id = :c GROUP BY l.line_ref, l.quantity HAVING sum(a.amount_minor) > 0
"""
_ITEMS: Final = """
    SELECT ci.merchant_id, ci.item_id, l.line_ref, lower(ci.units) AS a, upper(ci.units) AS b
    FROM case_items ci JOIN order_lines l ON l.merchant_id = ci.merchant_id AND l.line_id = ci.line_id
    WHERE ci.merchant_id = :m AND ci.case_id = :c AND ci.live ORDER BY l.position, lower(ci.units)
"""


def _paid_units(db: Connection, case: LockedCase) -> dict[str, list[tuple[int, int]]]:
    paid: dict[str, list[tuple[int, int]]] = {}
    for row in rows(db, _PAID, m=case.merchant_id, c=case.case_id):
        paid.setdefault(row["line_ref"], []).append((row["a"], row["b"]))
    return paid


def _envelope(item: RowMapping, paid: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The smallest range of the item that holds every paid unit in it: a row is one range, so a gap inside stays taken."""
    inside = [(max(a, item["a"]), min(b, item["b"])) for a, b in paid if a < item["b"] and b > item["a"]]
    return (min(a for a, _ in inside), max(b for _, b in inside)) if inside else None


def _shrink(db: Connection, item: RowMapping, kept: tuple[int, int] | None) -> None:
    keys = {"m": item["merchant_id"], "id": item["item_id"]}
    if kept is None:
        run(db, "UPDATE case_items SET live = false WHERE merchant_id = :m AND item_id = :id", **keys)
    elif kept != (item["a"], item["b"]):
        run(db, "UPDATE case_items SET units = int4range(:a, :b) WHERE merchant_id = :m AND item_id = :id",
            a=kept[0], b=kept[1], **keys)  # fmt: skip


def _parts(item: RowMapping, kept: tuple[int, int] | None) -> list[dict[str, object]]:
    a, b = item["a"], item["b"]
    spans = [(a, b)] if kept is None else [(a, kept[0]), (kept[1], b)]
    return [{"line": item["line_ref"], "from": low, "to": high} for low, high in spans if low < high]
