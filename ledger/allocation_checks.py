"""What may not hold in an order's facts, by name, and what follows from it. Facts are kept whatever is found."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.allocation_tax import LineTax
from ledger.money import EXPONENTS
from ledger.order_facts import CaptureFacts, LineFacts, OrderFacts

BLOCKING = frozenset(
    {"line_gap_large", "explicit_mismatch", "negative_line", "currency_mixed", "no_exponent", "total_off_step"}
)
"""Discrepancies while which nothing is payable; the others are recorded and the amounts stand."""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A named gap in an order's facts (minor units). `blocking`: nothing is payable until a person settles it."""

    name: str
    say: str
    facts: tuple[tuple[str, int | str], ...] = ()

    @property
    def blocking(self) -> bool:
        return self.name in BLOCKING


def order_minor_of(capture: CaptureFacts, currency: str) -> int | None:
    """The part of an order in `currency` that a capture paid; None when the shop must still say it."""
    if capture.linked is False:
        return 0
    if capture.order_minor is not None:
        return capture.order_minor
    return capture.captured_minor + capture.held_minor if capture.currency == currency else None


def paid_minor(facts: OrderFacts) -> int:
    """What the captures paid of the order, as far as it is known."""
    return sum(order_minor_of(capture, facts.currency) or 0 for capture in facts.captures)


def check_tax(
    facts: OrderFacts, lines: list[LineFacts], taxes: list[LineTax], grosses: list[int], found: list[Discrepancy]
) -> None:
    gaps = [line.line_ref for line, tax in zip(lines, taxes, strict=True) if tax.gap]
    over = [
        line.line_ref
        for line, tax, gross in zip(lines, taxes, grosses, strict=True)
        if not tax.gap and 0 <= gross < (tax.minor or 0)
    ]
    silent = [line.line_ref for line, tax in zip(lines, taxes, strict=True) if tax.minor is None]
    if gaps:
        found.append(named("tax_gap", "the tax codes of a line do not sum to its tax", line=gaps[0], lines=len(gaps)))
    if over:
        found.append(named("tax_over_gross", "the tax of a line is above its gross", line=over[0], lines=len(over)))
    if silent and not (facts.price_mode == "exclusive" and blocked(found)):
        found.append(
            named("tax_unallocated", "a line states no tax: give 0 if there is none", line=silent[0], lines=len(silent))
        )
    stated = sum(tax.minor or 0 for tax in taxes)
    if not (silent or gaps) and facts.tax_total_minor not in (None, stated):
        found.append(
            named(
                "tax_gap",
                "the taxes of the lines do not sum to the order's tax",
                tax_total_minor=facts.tax_total_minor or 0,
                lines_tax_minor=stated,
            )
        )


def target_minor(facts: OrderFacts, found: list[Discrepancy]) -> int:
    """What the lines have to sum to: the total, or what was paid of it where cash was rounded to its smallest coin."""
    coin = max((capture.step_minor for capture in facts.captures if capture.tender == "cash"), default=1)
    parts = [order_minor_of(capture, facts.currency) for capture in facts.captures]
    paid = paid_minor(facts)
    if None in parts or not 0 < abs(paid - facts.total_minor) < coin:
        return facts.total_minor
    numbers = {"total_minor": facts.total_minor, "captured_order_minor": paid, "coin_minor": coin}
    found.append(named("cash_rounding", "the cash was rounded to its smallest coin", **numbers))
    return paid


def check_captures(facts: OrderFacts, found: list[Discrepancy]) -> None:
    codes = sorted({facts.currency, *(capture.currency for capture in facts.captures)})
    unknown = [code for code in codes if code not in EXPONENTS]
    if unknown:
        found.append(named("no_exponent", "the currency is not in ISO 4217", currency=unknown[0]))
    parts = [order_minor_of(capture, facts.currency) for capture in facts.captures]
    paid = paid_minor(facts)
    numbers = {"total_minor": facts.total_minor, "captured_order_minor": paid}
    unlinked = [capture.capture_ref for capture in facts.captures if capture.linked is False]
    if unlinked:
        say = "a payment is not tied to this order and counts nothing of it"
        found.append(named("capture_unlinked", say, capture=unlinked[0], captures=len(unlinked)))
    if any(discrepancy.name == "cash_rounding" for discrepancy in found):
        return
    if None in parts:
        found.append(named("currency_mixed", "a capture in another currency lacks its order_minor"))
    elif paid < facts.total_minor:
        found.append(named("under_captured", "less was captured than the order's total", **numbers))
    elif paid > facts.total_minor:
        found.append(named("over_captured", "more was captured than the order's total", **numbers))


def blocked(found: list[Discrepancy]) -> bool:
    return any(discrepancy.blocking for discrepancy in found)


def named(name: str, say: str, **facts: int | str) -> Discrepancy:
    return Discrepancy(name, say, tuple(sorted(facts.items())))
