"""What each order line is worth once every discount and tax is in: computed once, at import, and stored.

`allocate` is pure and O(lines). It keeps facts that do not add up and names each gap (`Discrepancy`); while a blocking
one stands nothing of the order is payable. Methods are named with a version; a stored allocation is never recomputed.

All `_minor` are whole minor units of the order's currency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ledger.allocation_checks import Discrepancy, blocked, check_captures, check_tax, named
from ledger.allocation_shares import discount_shares
from ledger.allocation_tax import LineTax, TaxShare, line_tax
from ledger.canonical import digest
from ledger.money import EXPONENTS, spread
from ledger.order_facts import LineFacts, OrderDiscount, OrderFacts

ROUNDING_REF = "rounding"


@dataclass(frozen=True, slots=True)
class AllocatedLine:
    """One line at what was charged for it.

    `gross_minor` = `net_minor` + `tax_minor`, 0 ≤ tax ≤ gross; Σ `taxes` = tax. `discount_minor` is all that came off
    (line and order discounts). `tax_known` false: the amount stands, the tax shown is 0 and its credit entry needs a
    person.
    `fee_type` is "rounding" for the line the allocation adds for a small gap.
    """

    line_id: str
    position: int
    kind: str
    sku: str
    title: str
    quantity: int
    gross_minor: int
    tax_minor: int
    taxes: tuple[TaxShare, ...] = ()
    tax_known: bool = True
    discount_minor: int = 0
    fee_type: str | None = None

    @property
    def net_minor(self) -> int:
        return self.gross_minor - self.tax_minor


@dataclass(frozen=True)
class Allocation:
    """The result of `allocate`, in the order of line position. `inputs_digest` is the digest of the order's facts."""

    order_ref: str
    method: str
    inputs_digest: str
    currency: str
    exponent: int | None
    total_minor: int
    step_minor: int
    lines: tuple[AllocatedLine, ...]
    discount_shares: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    discrepancies: tuple[Discrepancy, ...] = ()

    @property
    def blocked_by(self) -> tuple[Discrepancy, ...]:
        """The blocking discrepancies; empty when the order may be refunded."""
        return tuple(discrepancy for discrepancy in self.discrepancies if discrepancy.blocking)

    def line(self, line_id: str) -> AllocatedLine | None:
        return self._by_id.get(line_id)

    @cached_property
    def _by_id(self) -> dict[str, AllocatedLine]:
        return {line.line_id: line for line in self.lines}

    def document(self) -> dict[str, Any]:
        """A JSON document to store; `from_document` reads it back equal."""
        return {
            "order_ref": self.order_ref,
            "method": self.method,
            "inputs_digest": self.inputs_digest,
            "currency": self.currency,
            "exponent": self.exponent,
            "total_minor": self.total_minor,
            "step_minor": self.step_minor,
            "lines": [asdict(line) for line in self.lines],
            "discount_shares": {name: dict(shares) for name, shares in self.discount_shares},
            "discrepancies": [
                {"name": found.name, "say": found.say, "facts": dict(found.facts)} for found in self.discrepancies
            ],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Allocation:
        """The allocation stored as `document()`."""
        lines = tuple(
            AllocatedLine(**{**line, "taxes": tuple(TaxShare(**tax) for tax in line["taxes"])})
            for line in document["lines"]
        )
        return cls(
            **{
                **document,
                "lines": lines,
                "discount_shares": tuple(
                    (name, tuple(sorted(shares.items())))
                    for name, shares in sorted(document["discount_shares"].items())
                ),
                "discrepancies": tuple(
                    Discrepancy(found["name"], found["say"], tuple(sorted(found["facts"].items())))
                    for found in document["discrepancies"]
                ),
            }
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical document."""
        return digest(self.document(), "allocation@1")


def allocate(facts: OrderFacts) -> Allocation:
    """Share discounts and tax over the lines of an order; see the module. Never raises for facts that were parsed."""
    found: list[Discrepancy] = []
    lines = sorted(facts.lines, key=lambda line: line.position)
    values = [line.quantity * line.unit_price_minor - sum(cut.minor for cut in line.discounts) for line in lines]
    left, shares = _discounts(facts, lines, values, found)
    taxes = [line_tax(line, facts.price_mode, value) for line, value in zip(lines, left, strict=True)]
    grosses = _grosses(facts, lines, left, taxes)
    if min(values + left + grosses) < 0:
        found.append(named("negative_line", "a line is below zero and names no line it takes from"))
    rounding = _close_gap(facts, grosses, found)
    step = max((c.step_minor for c in facts.captures if c.currency == facts.currency), default=1)
    rounding = _on_step(grosses, rounding, step, found)
    allocated = [
        _allocated(line, gross, tax, line.quantity * line.unit_price_minor - value)
        for line, gross, tax, value in zip(lines, grosses, taxes, left, strict=True)
    ]
    if rounding:
        allocated.append(_rounding_line(lines, rounding))
    check_tax(facts, lines, taxes, grosses, found)
    check_captures(facts, found)
    return Allocation(
        order_ref=facts.external_ref,
        method=_method(facts, taxes),
        inputs_digest=facts.digest(),
        currency=facts.currency,
        exponent=EXPONENTS.get(facts.currency),
        total_minor=facts.total_minor,
        step_minor=step if all(line.gross_minor % step == 0 for line in allocated) else 1,
        lines=tuple(allocated),
        discount_shares=tuple(sorted(shares.items())),
        discrepancies=tuple(found),
    )


Shares = dict[str, tuple[tuple[str, int], ...]]


def _discounts(
    facts: OrderFacts, lines: list[LineFacts], values: list[int], found: list[Discrepancy]
) -> tuple[list[int], Shares]:
    left, shares = list(values), {}
    index = {line.line_ref: i for i, line in enumerate(lines)}
    for discount in facts.order_discounts:
        at = sorted(index[ref] for ref in discount.applies_to)
        given = _given_shares(discount, lines, at, values, left, found)
        for i, share in zip(at, given, strict=True):
            left[i] -= share
        shares[discount.id] = tuple(sorted((lines[i].line_ref, share) for i, share in zip(at, given, strict=True)))
    return left, shares


def _given_shares(
    discount: OrderDiscount,
    lines: list[LineFacts],
    at: list[int],
    values: list[int],
    left: list[int],
    found: list[Discrepancy],
) -> list[int]:
    if discount.shares is not None:
        stated = [discount.shares.get(lines[i].line_ref, 0) for i in at]
        if sum(stated) != discount.minor:
            found.append(
                named(
                    "explicit_mismatch",
                    "the shares of an order discount do not sum to it",
                    discount=discount.id,
                    discount_minor=discount.minor,
                    shares_minor=sum(stated),
                )
            )
        return stated
    rest = [left[i] for i in at]
    if min(rest) < 0 or discount.minor > sum(rest):
        found.append(named("negative_line", "an order discount is larger than its lines", discount=discount.id))
        return [0] * len(at)
    quantities = [lines[i].quantity for i in at]
    return discount_shares(discount.method, discount.minor, [values[i] for i in at], quantities, rest)


def _grosses(facts: OrderFacts, lines: list[LineFacts], left: list[int], taxes: list[LineTax]) -> list[int]:
    added = [tax.minor or 0 for tax in taxes] if facts.price_mode == "exclusive" else [0] * len(lines)
    if facts.price_mode == "exclusive" and _tax_in_total_only(facts, taxes) and min(left) >= 0 and sum(left) > 0:
        added = spread(facts.tax_total_minor or 0, left)
    return [
        value + tax if line.gross_minor is None else line.gross_minor
        for line, value, tax in zip(lines, left, added, strict=True)
    ]


def _tax_in_total_only(facts: OrderFacts, taxes: list[LineTax]) -> bool:
    return facts.tax_total_minor is not None and all(tax.minor is None for tax in taxes)


def _close_gap(facts: OrderFacts, grosses: list[int], found: list[Discrepancy]) -> int:
    """Bring Σ gross to the order's total where the gap is rounding; returns the rounding line's minor units."""
    gap = facts.total_minor - sum(grosses)
    if gap == 0 or blocked(found):
        return 0
    numbers = {"total_minor": facts.total_minor, "lines_minor": sum(grosses)}
    if abs(gap) > len(grosses):
        found.append(named("line_gap_large", "the lines do not sum to the order's total", **numbers))
        return 0
    found.append(named("line_gap_small", "the lines miss the order's total by rounding", **numbers))
    if gap < 0:
        for i, share in enumerate(spread(-gap, grosses)):
            grosses[i] -= share
    return max(0, gap)


def _on_step(grosses: list[int], rounding: int, step: int, found: list[Discrepancy]) -> int:
    """Re-spread lines that are off the provider's refund step; returns the rounding line's minor units."""
    if blocked(found) or all(gross % step == 0 for gross in [*grosses, rounding]):
        return rounding
    total = sum(grosses) + rounding
    if total % step:
        found.append(named("total_off_step", "the total is off the step its capture refunds in", step_minor=step))
        return rounding
    found.append(named("off_step", "lines were re-spread in the steps the capture refunds in", step_minor=step))
    *grosses[:], rounding = spread(total, [*grosses, rounding], step)
    return rounding


def _allocated(line: LineFacts, gross: int, tax: LineTax, discount: int) -> AllocatedLine:
    known = tax.minor is not None and not tax.gap and tax.minor <= gross
    return AllocatedLine(
        line_id=line.line_ref,
        position=line.position,
        kind=line.kind,
        sku=line.sku,
        title=line.title,
        quantity=line.quantity,
        gross_minor=max(0, gross),
        tax_minor=tax.minor or 0 if known else 0,
        taxes=tax.codes if known else (),
        tax_known=known,
        discount_minor=discount,
    )


def _rounding_line(lines: list[LineFacts], rounding: int) -> AllocatedLine:
    taken = {line.line_ref for line in lines}
    ref = ROUNDING_REF
    while ref in taken:
        ref += "+"
    return AllocatedLine(ref, lines[-1].position + 1, "fee", ref, "Rounding", 1, rounding, 0, fee_type="rounding")


def _method(facts: OrderFacts, taxes: list[LineTax]) -> str:
    spreads = {d.method if d.shares is None else "explicit@1" for d in facts.order_discounts} or {"value.cumulative@1"}
    return "+".join(sorted(spreads) + sorted({tax.method for tax in taxes}))
