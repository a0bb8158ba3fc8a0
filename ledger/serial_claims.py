"""Units that were sold under serials are claimed by serial: what is scanned says which unit came back (ENTITLEMENT §3)."""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.allowances import open_asks
from ledger.assessment import reassess
from ledger.database import rows, run, scalar
from ledger.events import LockedCase
from ledger.ids import uuid7
from ledger.unit_ranges import Range, Ranges, minus, union, within

_SOLD: Final = """
    SELECT serial, (place - 1)::int AS unit FROM orders o
    CROSS JOIN LATERAL jsonb_array_elements(o.allocation->'lines') sold
    CROSS JOIN LATERAL jsonb_array_elements_text(sold->'serials') WITH ORDINALITY s (serial, place)
    WHERE o.merchant_id = :m AND o.order_id = :o AND sold->>'line_id' = :ref AND sold ? 'serials'
"""


def sold_under(db: Connection, case: LockedCase, line_ref: str) -> dict[str, int]:
    """The unit of a line that each serial was sold as; nothing of a line that was sold without."""
    return {row["serial"]: row["unit"] for row in rows(db, _SOLD, m=case.merchant_id, o=case.order_id, ref=line_ref)}


_SEEN: Final = """
    SELECT lower(units) AS a, upper(units) AS b, serial FROM evidence
    WHERE merchant_id = :m AND case_id = :c AND line_id = :l AND kind = 'inspected' ORDER BY number DESC
"""


def seen_again(
    db: Connection, case: LockedCase, line_id: UUID, seen: Ranges, sold: dict[str, int], serials: list[str]
) -> dict[str, int]:
    """By serial: which of the units that were looked at before is looked at again.

    It is the one that was sold under the serial, or else one that was scanned under a serial that was not sold, or under none.
    """
    found = rows(db, _SEEN, m=case.merchant_id, c=case.case_id, l=line_id) if serials else []
    mistaken: list[Range] = []
    left = seen
    for row in found:
        span = [(row["a"], row["b"])]
        mistaken += within(left, span) if row["serial"] not in sold else ()
        left = minus(left, span)
    again, open_ = {}, union(mistaken)
    for serial in serials:
        if serial in sold and is_in(seen, sold[serial]):
            again[serial] = sold[serial]
        elif serial in sold and open_:
            again[serial] = open_[0][0]
        open_ = minus(open_, [(again[serial], again[serial] + 1)]) if serial in again else open_
    return again


def is_in(units: Ranges, unit: int) -> bool:
    """Whether a unit is one of these."""
    return any(a <= unit < b for a, b in units)


# A claim moves only while no money is on its way for any unit of the case, and nothing was recorded that fixes its units.
_FIXED: Final = """
    SELECT EXISTS (SELECT 1 FROM intents i WHERE i.merchant_id = :m AND i.case_id = :c
            AND i.state NOT IN ('withdrawn', 'failed', 'reversed'))
        OR EXISTS (SELECT 1 FROM external_allocations a WHERE a.merchant_id = :m AND a.case_id = :c)
        OR EXISTS (SELECT 1 FROM exchanges x WHERE x.merchant_id = :m AND x.case_id = :c)
        OR EXISTS (SELECT 1 FROM recovered_refunds r WHERE r.merchant_id = :m AND r.case_id = :c)
        OR EXISTS (SELECT 1 FROM case_items ci WHERE ci.merchant_id = :m AND ci.line_id = :l AND ci.live
            AND ci.units @> CAST(:unit AS integer))
"""
_ITEM: Final = """
    SELECT item_id, line_quantity, lower(units) AS a, upper(units) AS b FROM case_items
    WHERE merchant_id = :m AND case_id = :c AND line_id = :l AND live AND units @> CAST(:unit AS integer)
"""


def move_claim(db: Connection, case: LockedCase, line_id: UUID, given_up: int, taken: int, actor: str) -> bool:
    """Has a locked case claim one unit of a line instead of another that it holds; False where it cannot: the unit is not free,
    or money is on its way. The order is locked, so no other case takes the unit meanwhile. Locks the cases that give something on
    the unit with the goods kept, which are worked out again."""
    keys = {"m": case.merchant_id, "c": case.case_id, "l": line_id}
    if scalar(db, _FIXED, unit=taken, **keys):
        return False
    (item,) = rows(db, _ITEM, unit=given_up, **keys)
    run(
        db,
        "UPDATE case_items SET live = false WHERE merchant_id = :m AND item_id = :id",
        m=case.merchant_id,
        id=item["item_id"],
    )
    kept: Ranges = minus(((item["a"], item["b"]),), [(given_up, given_up + 1)])
    for a, b in union([*kept, (taken, taken + 1)]):
        run(
            db, "INSERT INTO case_items (merchant_id, item_id, case_id, order_id, line_id, line_quantity, units)"
            " VALUES (:m, :id, :c, :o, :l, :q, int4range(:a, :b))", id=uuid7(), o=case.order_id, q=item["line_quantity"],
            a=a, b=b, **keys,
        )  # fmt: skip
    for ask in open_asks(db, case.merchant_id, case.order_id, [(line_id, taken, taken + 1)]):
        reassess(db, ask, actor)
    return True
