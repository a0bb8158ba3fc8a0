"""Money given with the goods kept, of which a restored backup knows nothing: its case, with what it was given on (S86).

The metadata of the refund names the line and the units. Which kind it was is lost, and what it was worth to a later return is not:
on units it comes off what they pay, on a line off what is left of it.
"""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, run
from ledger.money import cut
from ledger.outside_places import LockedCharge
from ledger.settlement import ProviderRefund

Kept = tuple[str, int, int]

_LINE: Final = """
    SELECT l.line_id, l.quantity, l.kind, k.captured_minor, k.order_minor FROM order_lines l
    JOIN captures k ON k.merchant_id = l.merchant_id AND k.capture_id = :k
    WHERE l.merchant_id = :m AND l.order_id = :o AND l.line_ref = :ref
"""


def kind_of(db: Connection, charge: LockedCharge, kept: Kept) -> str:
    """The kind of case that such money is; "" where the order has no such line or units."""
    line, (_, a, b) = _line(db, charge, kept), kept
    if line is None or b > line["quantity"]:
        return ""
    if line["kind"] != "goods":
        return "shipping_only"
    return "keep_item" if a < b else "goodwill"


def keep_ask(
    db: Connection, charge: LockedCharge, case_id: UUID, kept: Kept, refund: ProviderRefund, actor: str
) -> None:
    """Writes down what the case gave, and on what; its amount is the refund's, in the currency of the order."""
    line, (_, a, b) = _line(db, charge, kept), kept
    if line is None:
        return
    whole = line["captured_minor"]
    minor = cut(line["order_minor"], whole, min(refund.amount_minor, whole)) if whole else 0
    run(
        db, _ASK, m=charge.merchant_id, c=case_id, o=charge.order_id, kind=kind_of(db, charge, kept), l=line["line_id"],
        q=line["quantity"], a=a if a < b else None, b=b, minor=max(1, minor), actor=actor,
    )  # fmt: skip


_ASK: Final = """
    INSERT INTO case_asks (merchant_id, case_id, kind, order_id, line_id, line_quantity, units, minor, entry, asked_by)
    VALUES (:m, :c, :kind, :o, :l, :q, CASE WHEN CAST(:a AS integer) IS NOT NULL THEN int4range(:a, :b) END, :minor, 'gross',
        :actor)
"""


def _line(db: Connection, charge: LockedCharge, kept: Kept) -> RowMapping | None:
    return first(db, _LINE, m=charge.merchant_id, o=charge.order_id, k=charge.capture_id, ref=kept[0])
