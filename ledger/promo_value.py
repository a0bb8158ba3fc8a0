"""What kept goods would have cost at the sale under a promotion's rule: the rule and prices stored then, never today's.

`kept` are counts of units by line. O(lines), whatever the quantities. Amounts are in the order's price mode. What other discounts
of the order took off the kept goods stays off: the rule is tried on the prices, as at the sale, and they come off its outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.allocation_lines import AllocatedLine
from ledger.money import bps, cut
from ledger.sale_facts import BuyGet, FreeShipping, MixMatch, Promo, QuantityBreak, Threshold


@dataclass(frozen=True, slots=True)
class Kept:
    """So many units of a line that stay with the customer.

    `others` is what other discounts of the order took off the whole line; `whole` the line's value before any discount of the
    order where its own price does not say it, as of a part of a bundle.
    """

    line: AllocatedLine
    count: int
    others: int = 0
    whole: int | None = None

    @property
    def price(self) -> int:
        """A unit at its price; of a bundle's part its share of the bundle's."""
        return (self.line.unit_price_minor or 0) if self.whole is None else self.whole // self.line.quantity

    @property
    def at_price(self) -> int:
        """The units at their price less the line's own discounts, as each unit bore them."""
        if self.whole is not None:
            return cut(self.whole, self.line.quantity, self.count)
        off = self.line.line_discount_minor or 0
        return max(0, self.count * self.price - cut(off, self.line.quantity, self.count))


def kept_value(rule: Promo, kept: Sequence[Kept]) -> int:
    """V(kept): what the kept goods of the group would have cost then; 0 for nothing kept."""
    if not any(one.count for one in kept):
        return 0
    return max(0, _under(rule, kept) - sum(cut(one.others, one.line.quantity, one.count) for one in kept))


def _under(rule: Promo, kept: Sequence[Kept]) -> int:
    if isinstance(rule, Threshold):
        return _threshold(rule, sum(one.at_price for one in kept))
    if isinstance(rule, QuantityBreak):
        return sum(one.count * _tier(rule, one.line, sum(other.count for other in kept)) for one in kept)
    if isinstance(rule, BuyGet):
        return _buy_get(rule, kept)
    if isinstance(rule, MixMatch):
        return _mix_match(rule, kept)
    return sum(one.at_price for one in kept)


def _threshold(rule: Threshold, value: int) -> int:
    if value < rule.min_goods_minor:
        return value
    off = rule.off_minor if rule.off_minor is not None else bps(value, rule.off_bps or 0)
    return max(0, value - off)


def _tier(rule: QuantityBreak, line: AllocatedLine, count: int) -> int:
    price = line.list_price_minor if line.list_price_minor is not None else line.unit_price_minor or 0
    for tier in rule.tiers:
        if count >= tier.from_quantity:
            price = tier.unit_minor
    return price


def _by_price(kept: Sequence[Kept], *, dearest: bool) -> list[Kept]:
    return sorted(kept, key=lambda one: one.price, reverse=dearest)


def _buy_get(rule: BuyGet, kept: Sequence[Kept]) -> int:
    value = sum(one.at_price for one in kept)
    free = sum(one.count for one in kept) // (rule.buy + rule.get) * rule.get
    for one in _by_price(kept, dearest=False):
        count = min(free, one.count)
        value -= bps(count * one.price, rule.off_bps)
        free -= count
    return max(0, value)


def _mix_match(rule: MixMatch, kept: Sequence[Kept]) -> int:
    sets, rest = divmod(sum(one.count for one in kept), rule.count)
    value = sets * rule.price_minor
    for one in _by_price(kept, dearest=False):
        count = min(rest, one.count)
        value += count * one.price
        rest -= count
    return value


def shipping_again(rule: Promo, kept: Sequence[Kept]) -> int:
    """What shipping of the kept goods would have cost, tax in, where it was free from a value of goods on."""
    if not isinstance(rule, FreeShipping) or not any(one.count for one in kept):
        return 0
    return rule.shipping_minor if sum(one.at_price for one in kept) < rule.min_goods_minor else 0
