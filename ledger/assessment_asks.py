"""The rows of cases that are no return: what they ask for, what others gave with the goods kept; and overrides."""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import rows
from ledger.entitlement_facts import Allowance, Ask, Opinion, Override

Row = Mapping[Any, Any]

# The kind of a case, with its ask and its latest override; NULL where there is none.
ASK: Final = """
    SELECT c.kind, coalesce(a.line_id, w.line_id) AS line_id, w.failed_at, lower(a.units) AS a, upper(a.units) AS b, a.minor,
        a.conform_minor, a.entry, a.line_quantity, v.*
    FROM cases c LEFT JOIN case_asks a ON a.merchant_id = c.merchant_id AND a.case_id = c.case_id AND a.live
    LEFT JOIN LATERAL (SELECT line_id, to_char(happened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS failed_at
        FROM case_facts f WHERE f.merchant_id = c.merchant_id AND f.case_id = c.case_id AND f.kind = 'fault' AND c.kind = 'warranty'
        ORDER BY f.number DESC LIMIT 1) w ON true
    LEFT JOIN LATERAL (SELECT override_id, minor AS override_minor, computed_minor, reason AS override_reason, asked_by
        FROM overrides o WHERE o.merchant_id = c.merchant_id AND o.case_id = c.case_id ORDER BY o.n DESC LIMIT 1) v ON true
    WHERE c.merchant_id = :m AND c.case_id = :c
"""


def asks_of(row: Row, refs: Mapping[str, str]) -> tuple[Ask, ...]:
    """What the case asks for; nothing of a return, and of a price reduction only what a person says it is worth."""
    if row["line_id"] is None or row["kind"] == "price_reduction":
        return ()
    if row["kind"] == "warranty":
        return (Ask(refs[row["line_id"]], failed_at=row["failed_at"]),)
    a, b = (0, row["line_quantity"]) if row["a"] is None else (row["a"], row["b"])
    adjusts = row["kind"] == "price_adjustment"
    minor, new = (0, row["minor"]) if adjusts else (row["minor"], None)
    return (Ask(refs[row["line_id"]], a, b, minor=minor, entry=row["entry"], new_unit_minor=new),)


def opinions_of(row: Row, refs: Mapping[str, str]) -> tuple[Opinion, ...]:
    """What a person says the units of a price reduction are worth, without their defect and with it."""
    if row["kind"] != "price_reduction" or row["line_id"] is None:
        return ()
    return (Opinion(refs[row["line_id"]], row["a"], row["b"], row["conform_minor"], row["minor"]),)


def override_of(row: Row) -> Override | None:
    """The amount asked for instead of the computed one, unless that was taken back."""
    if row["override_minor"] is None:
        return None
    return Override(
        str(row["override_id"]), row["override_minor"], row["computed_minor"], row["override_reason"], row["asked_by"]
    )


ASKS: Final = """
    SELECT a.case_id, a.kind, a.line_id, lower(a.units) AS a, upper(a.units) AS b, EXISTS (SELECT 1 FROM case_items i
        WHERE i.merchant_id = a.merchant_id AND i.case_id = a.case_id AND i.live) AS closes
    FROM case_asks a WHERE a.merchant_id = :m AND a.order_id = :o AND a.case_id <> :c AND a.live
"""


def allowances_of_others(asks: Iterable[Row], refs: Mapping[str, str], claimed: Iterable[Row]) -> dict[str, Allowance]:
    """By case: what other cases give, or gave, with the goods kept; one that gives nothing now only holds its units."""
    given = {(row["case_id"], row["line_id"]): row["minor"] for row in claimed}
    return {
        row["case_id"]: Allowance(
            refs[row["line_id"]],
            given[row["case_id"], row["line_id"]],
            row["a"],
            row["b"],
            row["closes"],
            row["kind"] == "goodwill",
        )
        for row in asks
        if (row["case_id"], row["line_id"]) in given
    }


_CLOSED: Final = """
    SELECT line_id, lower(units) AS a, upper(units) AS b FROM case_items WHERE merchant_id = :m AND case_id = :c AND live
"""


def closed_units(db: Connection, keys: dict[str, UUID], refs: Mapping[str, str]) -> tuple[tuple[str, int, int], ...]:
    """The units that a case with the goods kept holds, for nothing more is given for them."""
    found = rows(db, _CLOSED, m=keys["m"], c=keys["c"])
    return tuple((refs[str(row["line_id"])], row["a"], row["b"]) for row in found)
