"""Where lines and total do not meet: small gaps are booked, larger ones are named; lines are put on the refund step."""

from __future__ import annotations

from itertools import pairwise

from ledger.allocation_checks import Discrepancy, blocked, named, paid_minor
from ledger.allocation_lines import Segment
from ledger.allocation_methods import Stands
from ledger.money import part, spread
from ledger.order_facts import LineFacts, OrderFacts


def close_gap(
    total: int, target: int, grosses: list[int], per_line: int, by_value: bool, found: list[Discrepancy]
) -> int:
    """Bring Σ gross to `target` (the total, or what cash paid of it); returns the rounding line's minor units.

    A gap above `per_line` minor units a line is `line_gap_large`, unless a person or the policy has it spread by value.
    """
    if blocked(found):
        return 0
    gap = total - sum(grosses)
    numbers = {"total_minor": total, "lines_minor": sum(grosses)}
    if abs(gap) > per_line * len(grosses):
        if not by_value or (gap < 0 and sum(grosses) < -gap):
            found.append(named("line_gap_large", "the lines do not sum to the order's total", **numbers))
            return 0
        found.append(
            named("line_gap_settled", "the lines miss the order's total, and it is spread by value", **numbers)
        )
    elif gap:
        found.append(named("line_gap_small", "the lines miss the order's total by rounding", **numbers))
    gap = target - sum(grosses)
    if gap < 0:
        for i, share in enumerate(spread(-gap, grosses)):
            grosses[i] -= share
    return max(0, gap)


def settled_total(facts: OrderFacts, stands: Stands, lines_minor: int, found: list[Discrepancy]) -> OrderFacts:
    """The facts with the total that people said is right: the stated one, what the lines come to, or what was captured."""
    total = {"total": facts.total_minor, "lines": lines_minor, "captured": paid_minor(facts)}[stands]
    if total == facts.total_minor:
        return facts
    numbers = {"total_minor": facts.total_minor, "settled_minor": total}
    found.append(named("total_settled", "another total stands than the one that was stated", **numbers))
    return facts.model_copy(update={"total_minor": total})


def on_step(grosses: list[int], rounding: int, step: int, found: list[Discrepancy]) -> int:
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


def segments_of(line: LineFacts, gross: int, step: int, attributed: bool) -> tuple[Segment, ...]:
    """The line's units as ranges with totals of their own, where a discount is on its first so many units only.

    Empty unless discounts are attributed to their units.
    """
    pinned = [discount for discount in line.discounts if discount.units is not None] if attributed else []
    if not pinned or gross <= 0:
        return ()
    edges = sorted({0, line.quantity, *(discount.units or 0 for discount in pinned)})
    spans = list(pairwise(edges))
    values = []
    for a, b in spans:
        worth = (b - a) * line.unit_price_minor
        for discount in line.discounts:
            units = discount.units or line.quantity
            if b <= units:
                worth -= part(discount.minor, units, a, b)
        values.append(max(0, worth))
    if not sum(values):
        return ()
    shares = spread(gross, values, step)
    return tuple(Segment(a, b, share) for (a, b), share in zip(spans, shares, strict=True))
