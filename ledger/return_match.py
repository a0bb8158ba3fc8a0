"""Finding the sales a return line belongs to, when it names none: same customer and stock code, newest sale first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ledger.online_retail_rows import ReturnLine

Reason = Literal["no_customer", "not_goods", "no_earlier_purchase", "more_than_bought"]


@dataclass(frozen=True, slots=True)
class Purchase:
    """A goods line once sold: `quantity` units, of which `free` are not yet claimed by any return."""

    order_ref: str
    line_ref: str
    position: int
    customer_ref: str | None
    stock_code: str
    placed_at: datetime
    quantity: int
    free: int


@dataclass(frozen=True, slots=True)
class MatchedPart:
    """`units` of one sold line."""

    order_ref: str
    line_ref: str
    units: int


@dataclass(frozen=True, slots=True)
class Matched:
    """The sold lines a return line takes from, newest first; the units sum to the return's quantity."""

    parts: tuple[MatchedPart, ...]


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Why a return line belongs to no sale. `bought` and `free` units were found; nothing is taken."""

    reason: Reason
    say: str
    bought: int = 0
    free: int = 0


def match_return(line: ReturnLine, purchases: Iterable[Purchase]) -> Matched | Unmatched:
    """The purchases a return takes from: newest first, then older, several where one does not have the units.

    `purchases` may hold anything, in any order; those of another customer or stock code (whatever its capitals) and
    those after the return are left out. A return larger than what is free is refused whole. Pure: the caller counts
    `free` down.
    """
    if line.kind != "goods":
        return Unmatched("not_goods", f"{line.stock_code} is a service or a charge, not goods")
    if line.customer_ref is None:
        return Unmatched("no_customer", "the return names no customer")
    earlier = [
        sold
        for sold in purchases
        if sold.customer_ref == line.customer_ref
        and sold.stock_code.upper() == line.stock_code.upper()
        and sold.placed_at <= line.at
    ]
    if not earlier:
        return Unmatched("no_earlier_purchase", "the customer never bought this before the return")
    bought, free = sum(sold.quantity for sold in earlier), sum(sold.free for sold in earlier)
    if free < line.quantity:
        say = f"{line.quantity} came back, {bought} were bought, {bought - free} are returned already"
        return Unmatched("more_than_bought", say, bought, free)
    parts: list[MatchedPart] = []
    left = line.quantity
    earlier.sort(key=lambda sold: sold.position)
    for sold in sorted(earlier, key=lambda sold: (sold.placed_at, sold.order_ref), reverse=True):
        units = min(left, sold.free)
        if units:
            parts.append(MatchedPart(sold.order_ref, sold.line_ref, units))
            left -= units
    return Matched(tuple(parts))
