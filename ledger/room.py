"""What may still be given on each line of an order with the goods kept: shown before anybody types, and the ceiling afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.allocation_lines import Allocation
from ledger.assessment_facts import read_delivered, read_priors
from ledger.database import first, rows
from ledger.entitlement_allowances import still_worth
from ledger.entitlement_facts import Evidence
from ledger.entitlement_working import Working
from ledger.errors import NotFound
from ledger.ids import uuid7
from ledger.policies import Policy
from ledger.policy_of_sale import Asked, policy_of_sale
from ledger.policy_terms import PolicyTerms
from ledger.unit_ranges import Range, Ranges, minus, size

Kind = Literal["keep_item", "price_reduction", "price_adjustment", "goodwill", "shipping_only"]
KINDS: Final[tuple[Kind, ...]] = ("keep_item", "price_reduction", "price_adjustment", "goodwill", "shipping_only")


@dataclass(frozen=True)
class LineRoom:
    """One line: `left_minor` of its price, tax in, and its `free` units, which no case holds and nothing has settled. Of those
    the ones whose price was not adjusted yet, and not reduced for a defect: each goes once."""

    line_id: UUID
    line_ref: str
    position: int
    kind: str
    title: str
    sku: str
    quantity: int
    gross_minor: int
    net_minor: int
    left_minor: int
    free: Ranges
    unadjusted: Ranges
    unreduced: Ranges
    in_stock: bool | None

    @property
    def free_count(self) -> int:
        return size(self.free)


@dataclass(frozen=True)
class OrderRoom:
    """An order as an allowance sees it. Amounts in minor units of `currency`."""

    order_id: UUID
    order_ref: str
    customer_id: UUID | None
    currency: str
    exponent: int
    blocked: bool
    policy: Policy
    terms: PolicyTerms
    lines: tuple[LineRoom, ...]
    working: Working
    placed_at: datetime
    at: datetime
    today: tuple[Policy, ...]

    def line(self, line_ref: str) -> LineRoom | None:
        return next((line for line in self.lines if line.line_ref == line_ref), None)

    def worth(self, line: LineRoom, span: Range) -> int:
        """What units of a line still are worth: charged, less what was credited on them, within what is left of the line."""
        return still_worth(self.working, self.working.line(line.line_ref), span)


_ORDER: Final = """
    SELECT order_id, external_ref, customer_id, currency, exponent, allocation, placed_at, blocked, now() AS at
    FROM orders
    WHERE merchant_id = :m AND order_id = :o
"""
_CASE: Final = "SELECT order_id, reason, opened_at FROM cases WHERE merchant_id = :m AND case_id = :c"
_LINES: Final = """
    SELECT line_id, line_ref, position, kind, title, sku, quantity FROM order_lines WHERE merchant_id = :m AND order_id = :o
    ORDER BY position
"""
_ONCE: Final = """
    SELECT line_id, kind, lower(units) AS a, upper(units) AS b FROM case_asks
    WHERE merchant_id = :m AND order_id = :o AND kind IN ('price_adjustment', 'price_reduction') AND live
"""


def read_room(
    db: Connection, merchant_id: UUID, order_id: UUID, lines: Sequence[str] = (), *, lock: bool = False, reason: str = "other"
) -> OrderRoom:  # fmt: skip
    """What is left of each line of an order now; `lock` takes the order's row first. Raises NotFound, NoPolicy.

    `lines`: the ones it is asked for, whose policy counts, none given: all of the order; `reason`: why it is asked for.
    """
    return _read(db, merchant_id, order_id, lock=lock, lines=lines, reason=reason)


def read_room_of_case(db: Connection, merchant_id: UUID, case_id: UUID, lines: Sequence[str]) -> OrderRoom:
    """The same for lines of a case: by its own reason, and the versions that decided it. Raises NotFound, NoPolicy."""
    case = first(db, _CASE, m=merchant_id, c=case_id)
    if case is None:
        raise NotFound
    return _read(db, merchant_id, lines=lines, case_id=case_id, **case)


def _read(db: Connection, merchant_id: UUID, order_id: UUID, *, lock: bool = False, **asked: Any) -> OrderRoom:
    order = first(db, _ORDER + (" FOR NO KEY UPDATE" if lock else ""), m=merchant_id, o=order_id)
    if order is None:
        raise NotFound
    keys = {"m": merchant_id, "o": order_id}
    found = rows(db, _LINES, **keys)
    refs = {str(row["line_id"]): row["line_ref"] for row in found}
    deciding = policy_of_sale(db, Asked(merchant_id, order_id, order["placed_at"], **asked))
    policy, terms = deciding.options[0]
    allocation = Allocation.from_document(order["allocation"])
    priors = read_priors(db, {**keys, "c": uuid7()}, refs)
    working = Working(allocation, Evidence("new", (), delivered=read_delivered(db, keys)), priors, terms)
    once = rows(db, _ONCE, **keys)
    return OrderRoom(
        order_id, order["external_ref"], order["customer_id"], order["currency"], order["exponent"], order["blocked"], policy,
        terms, tuple(_line(row, allocation, working, once) for row in found), working, order["placed_at"],
        order["at"], deciding.today,
    )  # fmt: skip


def _line(row: RowMapping, allocation: Allocation, work: Working, given: list[RowMapping]) -> LineRoom:
    line = allocation.line(row["line_ref"])
    gross = line.gross_minor if line is not None else 0
    held = [(claim.a, claim.b) for claim in work.claims.get(row["line_ref"], ())]
    settled = [(one.a or 0, one.b or row["quantity"]) for one in work.allowances.get(row["line_ref"], ()) if one.closes]
    free = minus(((0, row["quantity"]),), [*held, *settled]) if line is not None and line.returnable else ()
    once: dict[str, list[Range]] = {}
    for one in given:
        if one["line_id"] == row["line_id"]:
            once.setdefault(one["kind"], []).append((one["a"], one["b"]))
    adjusted, reduced = (once.get(kind, ()) for kind in ("price_adjustment", "price_reduction"))
    stock = (line.attributes or {}).get("replacement_in_stock") if line is not None else None
    return LineRoom(
        **{name: row[name] for name in ("line_id", "line_ref", "position", "kind", "title", "sku", "quantity")},
        gross_minor=gross, net_minor=line.net_minor if line is not None else 0,
        left_minor=max(0, gross - work.earlier(row["line_ref"])), free=free, unadjusted=minus(free, adjusted),
        unreduced=minus(free, reduced), in_stock=stock if isinstance(stock, bool) else None,
    )  # fmt: skip
