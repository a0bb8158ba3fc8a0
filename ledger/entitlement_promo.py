"""What a return that breaks a promotion does: keep, reprice what is kept, or all or nothing; gifts that were kept.

`reprice_kept`: with V(kept) what the kept goods would have cost at the sale, the cases of an order are worth in all
E = max(E before, min(allocated of all returned, paid of the group − V(kept))). This case gets E − E before: its goods at
allocated value plus one adjustment, whose rest is kept back on its lines or released from lines of earlier cases. It never
charges, never exceeds `keep`, and a full return ends at what was paid. Statutory tracks keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ledger.allocation_lines import AllocatedLine, PromoGroup
from ledger.entitlement_pieces import Piece, credits_on
from ledger.entitlement_working import Codes, Holding, RuleResult, Working, line_codes, split
from ledger.expressions import Expr, value
from ledger.money import cut, peel, spread
from ledger.promo_value import Kept, kept_value, shipping_again
from ledger.sale_facts import FreeGift
from ledger.unit_ranges import size

_POLICY = {"threshold_amount": "threshold", "quantity_break": "quantity_break", "buy_get": "buy_get", "mix_match": "buy_get",
           "free_shipping": "free_shipping"}  # fmt: skip


def choice(work: Working, group: PromoGroup) -> str:
    """What the policy does with this kind of promotion; the law's tracks always keep."""
    if work.preset is not None or group.rule.type not in _POLICY:
        return "keep"
    return str(getattr(work.policy.promo, _POLICY[group.rule.type]))


def promo_path(work: Working) -> Iterator[RuleResult]:
    """Says the choice for each promotion this return breaks, and takes the units of one that is all or nothing."""
    seen: set[str] = set()
    for group in work.allocation.promos:
        lines = _members(work, group)
        if not any(work.units.get(line.line_id) for line in lines):
            continue
        kept = [Kept(line, line.quantity - size(work.returned(line.line_id))) for line in lines]
        facts = (f"kept_units:{sum(one.count for one in kept)}",)
        chosen = choice(work, group)
        broken = any(one.count for one in kept)
        if chosen == "all_or_nothing" and broken:
            for line in lines:
                if work.units.get(line.line_id):
                    work.units[line.line_id] = ()
            yield RuleResult("promo.path", "fail", group.id, "all_or_nothing", facts, f"received:{group.id}")
            continue
        if chosen == "reprice_kept" and seen & {line.line_id for line in lines}:
            yield RuleResult("promo.path", "needs_review", group.id, "promotions_overlap", facts)
        elif chosen == "reprice_kept" and any(_credited(work, line) for line in lines):
            work.held_back = True
            yield RuleResult("promo.path", "needs_review", group.id, "credited_under_promotion", facts)
        elif isinstance(group.rule, FreeGift):
            yield from _gift(work, group, facts)
        else:
            yield RuleResult("promo.path", "pass", group.id, f"{'broken' if broken else 'whole'}_{chosen}", facts)
        if chosen == "reprice_kept":
            seen |= {line.line_id for line in lines}


def _credited(work: Working, line: AllocatedLine) -> bool:
    """Whether an allowance lies on units of the line that go back here: the promotion would take it off a second time."""
    return any(credits_on(work, line, span) for span in work.units.get(line.line_id, ()))


def _gift(work: Working, group: PromoGroup, facts: tuple[str, ...]) -> Iterator[RuleResult]:
    kept = _gift_kept(work, group)
    if kept is None or work.policy.promo.gift_kept == "keep" or work.preset is not None:
        yield RuleResult("gift.back", "pass", group.id, "gift_may_be_kept" if kept else "gift_is_back", facts)
        return
    if work.policy.promo.gift_kept == "hold":
        for line in _members(work, group):
            if work.units.get(line.line_id):
                work.units[line.line_id] = ()
        yield RuleResult("gift.back", "fail", group.id, "gift_not_back", facts, f"received:{kept.line_id}")
    else:
        yield RuleResult("gift.back", "pass", group.id, "gift_kept_is_deducted", facts)


def _gift_kept(work: Working, group: PromoGroup) -> AllocatedLine | None:
    """The gift's line while some of it is not back, once every other line of the group is touched by a return."""
    if not isinstance(group.rule, FreeGift):
        return None
    line = work.allocation.line(group.rule.gift_line)
    if line is None or size(work.returned(line.line_id)) >= line.quantity:
        return None
    return line


def promo(work: Working) -> Iterator[Piece]:
    """One adjustment for each promotion that is repriced, and gifts that were kept against the sale's terms."""
    seen: set[str] = set()
    for group in work.allocation.promos:
        lines = _members(work, group)
        names = {line.line_id for line in lines}
        if isinstance(group.rule, FreeGift):
            yield from _gift_value(work, group, lines)
        elif choice(work, group) == "reprice_kept" and not seen & names:
            seen |= names
            if any(work.units.get(name) for name in names):
                yield from _reprice(work, group, lines)


def _members(work: Working, group: PromoGroup) -> tuple[AllocatedLine, ...]:
    named = set(group.lines)
    return tuple(line for line in work.goods_lines if line.line_id in named or line.parent_line in named)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of one group, tax in: paid in all, its tax, allocated of units back before and after, kept back before."""

    paid: int
    tax: int
    before: int
    after: int
    kept_back: int


def _reprice(work: Working, group: PromoGroup, lines: tuple[AllocatedLine, ...]) -> Iterator[Piece]:
    holdings = [one for one in work.holdings if one.line_id in {line.line_id for line in lines}]
    here = sum(one.left for one in holdings)
    before = sum(work.worth(line, work.returned_before(line.line_id)) for line in lines)
    kept_back = sum(row.minor for row in work.priors.promos if row.promo_id == group.id)
    sums = _Sums(
        sum(line.gross_minor for line in lines), sum(line.tax_minor for line in lines), before, before + here, kept_back
    )
    kept = [_kept(work, group, line) for line in lines]
    worth = _tax_in(work, kept_value(group.rule, kept), lines) + shipping_again(group.rule, kept)
    reached: Expr = ["max0", ["sub", ["sum", before], kept_back]]
    capped: Expr = ["min", sums.after, ["max0", ["sub", sums.paid, worth]]]
    low = max(0, before - kept_back)
    high = _on_step(work, max(low, min(sums.after, max(0, sums.paid - worth))))
    delta = high - low - here
    later: Expr = high if high != value(capped) else capped
    expr: Expr = ["sub", later, ["sum", reached, here]]
    tax_before, tax_after = (
        peel(sums.tax, sums.paid, min(low, sums.paid)),
        peel(sums.tax, sums.paid, min(high, sums.paid)),
    )
    units_tax = sum(one.tax for one in holdings)
    tax_expr: Expr = ["sub", ["peel", sums.tax, sums.paid, min(high, sums.paid)],
                      ["sum", ["peel", sums.tax, sums.paid, min(low, sums.paid)], units_tax]]  # fmt: skip
    group_codes = _group_codes(lines)
    parts = _take(work, group, holdings, delta)
    codes = _codes(group_codes, holdings, tax_before, tax_after)
    _retax(holdings, group_codes, tax_before, tax_after)
    say = f"{group.id}: the kept goods would have cost {worth} then" if delta else f"{group.id}: nothing to adjust"
    yield Piece(
        "promo.adjustment", group.id, say, expr, delta, tax_expr, tax_after - tax_before - units_tax, codes, parts
    )


def _kept(work: Working, group: PromoGroup, line: AllocatedLine) -> Kept:
    """What stays of a line, with what other discounts took off it; a bundle's part has its share of what the bundle has."""
    count, whole = line.quantity - size(work.returned(line.line_id)), None
    others = _others(work, group, line)
    bundle = work.allocation.line(line.parent_line) if line.parent_line else None
    if bundle is not None:
        parts = work.allocation.components(bundle.line_id)
        at = [part.line_id for part in parts].index(line.line_id)
        weights = [part.gross_minor for part in parts] if any(part.gross_minor for part in parts) else [1] * len(parts)
        price = bundle.quantity * (bundle.unit_price_minor or 0) - (bundle.line_discount_minor or 0)
        whole = spread(max(0, price), weights, 1)[at]
        others += spread(_others(work, group, bundle), weights, 1)[at]
    return Kept(line, count, others, whole)


def _others(work: Working, group: PromoGroup, line: AllocatedLine) -> int:
    return sum(dict(found).get(line.line_id, 0) for name, found in work.allocation.discount_shares if name != group.id)


def _on_step(work: Working, minor: int) -> int:
    return cut(work.step * minor, work.step, 1, work.step)


def _tax_in(work: Working, worth: int, lines: tuple[AllocatedLine, ...]) -> int:
    """A value in the order's price mode with the tax that was charged on the group."""
    gross, net = sum(line.gross_minor for line in lines), sum(line.net_minor for line in lines)
    if work.sale.price_mode == "inclusive" or not net:
        return worth
    return (2 * worth * gross + net) // (2 * net)


def _take(work: Working, group: PromoGroup, holdings: list[Holding], delta: int) -> tuple[tuple[str, int], ...]:
    """Puts the adjustment on lines: kept back on this case's by value, or released where earlier cases kept it back."""
    parts: dict[str, int] = {}
    if delta < 0:
        for one, share in zip(holdings, spread(-delta, [one.left for one in holdings], work.step), strict=True):
            one.left -= share
            work.keep_back(one.line_id, share)
            parts[one.line_id] = parts.get(one.line_id, 0) - share
            key = (group.id, one.line_id)
            work.promo_retained[key] = work.promo_retained.get(key, 0) + share
    rows = sorted((row for row in work.priors.promos if row.promo_id == group.id), key=lambda row: row.line_id)
    for row in rows:
        share = min(max(0, row.minor), delta)
        if share > 0:
            delta -= share
            work.released[row.line_id] = work.released.get(row.line_id, 0) + share
            parts[row.line_id] = parts.get(row.line_id, 0) + share
            key = (group.id, row.line_id)
            work.promo_retained[key] = work.promo_retained.get(key, 0) - share
    return tuple(parts.items())


def _group_codes(lines: tuple[AllocatedLine, ...]) -> Codes:
    sums: dict[str, int] = {}
    for line in lines:
        for code, minor in line_codes(line):
            sums[code] = sums.get(code, 0) + minor
    return tuple(sums.items())


def _codes(group: Codes, holdings: list[Holding], before: int, after: int) -> Codes:
    sums = {code: high - low for (code, low), (_, high) in zip(split(group, before), split(group, after), strict=True)}
    for one in holdings:
        for code, minor in one.codes:
            sums[code] = sums.get(code, 0) - minor
    return tuple((code, minor) for code, minor in sums.items())


def _retax(holdings: list[Holding], group: Codes, before: int, after: int) -> None:
    """The group's tax on this case, put on its ranges by what is left of them, so that later deductions take theirs."""
    whole, tax, reached = sum(one.left for one in holdings), after - before, 0
    tax = min(tax, whole)
    for one in holdings:
        low = peel(tax, whole, reached)
        reached += one.left
        high = peel(tax, whole, reached)
        one.tax = high - low
        first, last = split(group, before + low), split(group, before + high)
        one.codes = tuple((code, b - a) for (code, a), (_, b) in zip(first, last, strict=True))


def _gift_value(work: Working, group: PromoGroup, lines: tuple[AllocatedLine, ...]) -> Iterator[Piece]:
    gift = _gift_kept(work, group)
    if gift is None:
        yield from _gift_arrived(work, group)
    told = work.sale.gift_condition
    others = [one for one in work.holdings if gift is not None and one.goods and one.line_id != gift.line_id]
    here = [one for one in others if one.line_id in {line.line_id for line in lines}]
    if gift is None or not told or work.policy.promo.gift_kept != "deduct_value" or work.preset is not None or not here:
        return
    price = gift.list_price_minor if gift.list_price_minor is not None else gift.unit_price_minor or 0
    missing = gift.quantity - size(work.returned(gift.line_id))
    already = sum(row.minor for row in work.priors.promos if row.promo_id == group.id)
    owed = max(0, missing * price - work.worth(gift, ((0, missing),)) - already)
    left = sum(one.left for one in here)
    minor = min(_on_step(work, owed), left)
    expr: Expr = ["neg", ["min", owed, left]] if minor == min(owed, left) else ["neg", minor]
    taxes, parts, codes = 0, dict[str, int](), dict[str, int]()
    for one, share in zip(here, spread(minor, [one.left for one in here], work.step), strict=True):
        tax = peel(one.tax, one.left, one.left - share)
        after = split(one.codes, tax)
        for (code, was), (_, now) in zip(one.codes, after, strict=True):
            codes[code] = codes.get(code, 0) - (was - now)
        taxes += one.tax - tax
        one.left, one.tax, one.codes = one.left - share, tax, after
        work.keep_back(one.line_id, share)
        parts[one.line_id] = parts.get(one.line_id, 0) - share
        key = (group.id, one.line_id)
        work.promo_retained[key] = work.promo_retained.get(key, 0) + share
    yield Piece(
        "promo.gift_kept", group.id, f"{gift.sku} was kept: its value of the sale", expr, -minor, ["neg", taxes], -taxes,
        tuple(codes.items()), tuple(parts.items()), max(0, owed - left),
    )  # fmt: skip


def _gift_arrived(work: Working, group: PromoGroup) -> Iterator[Piece]:
    """The gift is back: what earlier cases kept back for it is released."""
    rows = [row for row in work.priors.promos if row.promo_id == group.id and row.minor > 0]
    named = {group.rule.gift_line} if isinstance(group.rule, FreeGift) else set()
    if not rows or not any(work.units.get(line_id) for line_id in named):
        return
    tax, taxes, codes = 0, [], dict[str, int]()
    for row in sorted(rows, key=lambda row: row.line_id):
        line = work.line(row.line_id)
        share: Expr = ["peel", line.tax_minor, line.gross_minor, row.minor]
        taxes.append(share)
        tax += value(share)
        for code, minor in split(line_codes(line), value(share)):
            codes[code] = codes.get(code, 0) + minor
        work.released[row.line_id] = work.released.get(row.line_id, 0) + row.minor
        work.promo_retained[group.id, row.line_id] = -row.minor
    minor = sum(row.minor for row in rows)
    yield Piece(
        "promo.gift_kept", group.id, "the gift came back: what was kept back for it", ["sum", *(row.minor for row in rows)],
        minor, ["sum", *taxes], tax, tuple(codes.items()), tuple((row.line_id, row.minor) for row in rows),
    )  # fmt: skip
