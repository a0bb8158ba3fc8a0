"""What each order line is worth once every discount and tax is in: computed once, at import, and stored.

`allocate` is pure and O(lines). It keeps facts that do not add up and names each gap (`Discrepancy`); while a blocking
one stands nothing of the order is payable, and a person settles it (`Settlement`). Methods are named with a version; a
stored allocation is never recomputed.

All `_minor` are whole minor units of the order's currency.
"""

from __future__ import annotations

from ledger.allocation_bundles import share_bundles
from ledger.allocation_checks import Discrepancy, check_captures, check_tax, named, target_minor
from ledger.allocation_gaps import close_gap, on_step, segments_of, settled_total
from ledger.allocation_lines import ROUNDING_REF, AllocatedLine, Allocation, PromoGroup, Sale, Segment
from ledger.allocation_methods import DEFAULT, Methods, Settlement
from ledger.allocation_shares import discount_shares
from ledger.allocation_tax import BY_RATE, LineTax, by_rate, line_tax
from ledger.money import EXPONENTS, spread
from ledger.order_facts import LineFacts, OrderDiscount, OrderFacts

__all__ = ["AllocatedLine", "Allocation", "Methods", "Settlement", "allocate"]


def allocate(facts: OrderFacts, methods: Methods = DEFAULT, settle: Settlement | None = None) -> Allocation:
    """Share discounts and tax over the lines of an order; see the module. Never raises for facts that were parsed."""
    found: list[Discrepancy] = []
    inputs_digest = facts.digest()
    lines = _with_the_bundle_s(sorted(facts.lines, key=lambda line: line.position))
    values = [_value(line) for line in lines]
    discounts = [*facts.order_discounts, *_retargeted(lines, values, settle)]
    left, shares = _discounts(discounts, lines, values, methods, settle, found)
    taxes = [line_tax(line, facts.price_mode, value) for line, value in zip(lines, left, strict=True)]
    pooled = methods.tax == BY_RATE
    if facts.tax_totals is not None or pooled:
        taxes = by_rate(lines, left, taxes, facts.tax_totals or (), pooled=pooled)
    grosses = _grosses(facts, lines, left, taxes)
    if min(values + left + grosses) < 0:
        found.append(named("negative_line", "a line is below zero and names no line it takes from"))
    by_value = methods.gap_over == "by_value"
    if settle is not None and settle.stands is not None:
        facts, by_value = settled_total(facts, settle.stands, sum(grosses), found), True
    target = target_minor(facts, found)
    rounding = close_gap(facts.total_minor, target, grosses, methods.gap_per_line, by_value, found)
    share_bundles(lines, grosses, taxes, methods.bundle, found)
    step = max((c.refund_step_minor for c in facts.captures if c.currency == facts.currency), default=1)
    rounding = on_step(grosses, rounding, step, found)
    parents = {line.bundle.parent_line for line in lines if line.bundle is not None}
    step = step if all(gross % step == 0 for gross in [*grosses, rounding]) else 1
    pinned = methods.part_discount == "unit_attributed"
    allocated = [
        _allocated(
            line, gross, tax, _charged(line) - value, line.line_ref in parents, segments_of(line, gross, step, pinned)
        )
        for line, gross, tax, value in zip(lines, grosses, taxes, left, strict=True)
    ]
    if rounding:
        allocated.append(_rounding_line(lines, rounding))
    check_tax(facts, lines, taxes, grosses, found)
    check_captures(facts, found)
    return Allocation(
        order_ref=facts.external_ref,
        method=_method(discounts, taxes, methods, bool(parents), settle),
        inputs_digest=inputs_digest,
        currency=facts.currency,
        exponent=EXPONENTS.get(facts.currency),
        total_minor=target,
        step_minor=step,
        lines=tuple(allocated),
        discount_shares=tuple(sorted(shares.items())),
        discrepancies=tuple(found),
        sale=_sale(facts),
        promos=tuple(PromoGroup(one.id, one.applies_to, one.promo) for one in facts.order_discounts if one.promo),
        settled=settle.document() if settle is not None else None,
    )


Shares = dict[str, tuple[tuple[str, int], ...]]


def _with_the_bundle_s(lines: list[LineFacts]) -> list[LineFacts]:
    """Each component with the attributes of its bundle where it states none of its own."""
    by_ref = {line.line_ref: line for line in lines}
    found = []
    for line in lines:
        whole = by_ref[line.bundle.parent_line].attributes if line.bundle is not None else None
        if whole is not None:
            own = line.attributes.model_dump(exclude_none=True) if line.attributes is not None else {}
            line = line.model_copy(update={"attributes": whole.model_copy(update=own)})
        found.append(line)
    return found


def _charged(line: LineFacts) -> int:
    return 0 if line.bundle is not None else line.quantity * line.unit_price_minor


def _value(line: LineFacts) -> int:
    """A line before order discounts, in the order's price mode; a component's value comes from its bundle."""
    if line.bundle is not None:
        return 0
    return line.quantity * line.unit_price_minor - sum(cut.minor for cut in line.discounts)


def _retargeted(lines: list[LineFacts], values: list[int], settle: Settlement | None) -> list[OrderDiscount]:
    """Lines below zero whose target a person named, as the order discounts they are; their own value becomes 0."""
    found = []
    for i, line in enumerate(lines):
        targets = settle.targets.get(line.line_ref) if settle is not None and values[i] < 0 else None
        if targets:
            minor = -values[i]
            values[i] = 0
            found.append(OrderDiscount(id=line.line_ref, minor=minor, applies_to=targets))
    return found


def _discounts(
    discounts: list[OrderDiscount],
    lines: list[LineFacts],
    values: list[int],
    methods: Methods,
    settle: Settlement | None,
    found: list[Discrepancy],
) -> tuple[list[int], Shares]:
    left, shares = list(values), {}
    index = {line.line_ref: i for i, line in enumerate(lines)}
    for discount in discounts:
        at = sorted(index[ref] for ref in discount.applies_to)
        chosen = settle.methods.get(discount.id) if settle is not None else None
        method = _method_of(discount, methods)
        # Shares that are the shop's to say and that it did not say are missed, not made up.
        if chosen is None and (discount.shares is not None or method == "explicit@1"):
            given = _stated(discount, lines, at, found)
        else:
            given = _shared(discount, chosen or method, lines, at, values, left, methods, found)
        for i, share in zip(at, given, strict=True):
            left[i] -= share
        shares[discount.id] = tuple(sorted((lines[i].line_ref, share) for i, share in zip(at, given, strict=True)))
    return left, shares


def _method_of(discount: OrderDiscount, methods: Methods) -> str:
    return discount.method if "method" in discount.model_fields_set else methods.order_discount


def _stated(discount: OrderDiscount, lines: list[LineFacts], at: list[int], found: list[Discrepancy]) -> list[int]:
    stated = [(discount.shares or {}).get(lines[i].line_ref, 0) for i in at]
    if sum(stated) != discount.minor:
        facts: dict[str, int | str] = {
            "discount": discount.id,
            "discount_minor": discount.minor,
            "shares_minor": sum(stated),
        }
        found.append(named("explicit_mismatch", "the shares of an order discount do not sum to it", **facts))
    return stated


def _shared(
    discount: OrderDiscount, method: str, lines: list[LineFacts], at: list[int], values: list[int], left: list[int],
    methods: Methods, found: list[Discrepancy],
) -> list[int]:  # fmt: skip
    rest = [left[i] for i in at]
    if min(rest) < 0 or discount.minor > sum(rest):
        found.append(named("negative_line", "an order discount is larger than its lines", discount=discount.id))
        return [0] * len(at)
    gift = discount.promo.gift_line if discount.promo is not None and discount.promo.type == "free_gift" else None
    first = [0] * len(at)
    if gift is not None and methods.free_gift == "zero_value":
        minor = discount.minor
        for place, i in enumerate(at):
            if lines[i].line_ref == gift:
                first[place] = min(minor, rest[place])
                minor -= first[place]
        rest = [part - taken for part, taken in zip(rest, first, strict=True)]
        shared = discount_shares("value.cumulative@1", minor, rest, [lines[i].quantity for i in at], rest)
        return [one + other for one, other in zip(first, shared, strict=True)]
    quantities = [lines[i].quantity for i in at]
    return discount_shares(method, discount.minor, [values[i] for i in at], quantities, rest)


def _grosses(facts: OrderFacts, lines: list[LineFacts], left: list[int], taxes: list[LineTax]) -> list[int]:
    added = [tax.minor or 0 for tax in taxes] if facts.price_mode == "exclusive" else [0] * len(lines)
    if facts.price_mode == "exclusive" and _tax_in_total_only(facts, taxes) and min(left) >= 0 and sum(left) > 0:
        added = spread(facts.tax_total_minor or 0, left)
    return [
        0 if line.bundle is not None else value + tax if line.gross_minor is None or value < 0 else line.gross_minor
        for line, value, tax in zip(lines, left, added, strict=True)
    ]


def _tax_in_total_only(facts: OrderFacts, taxes: list[LineTax]) -> bool:
    return facts.tax_total_minor is not None and all(tax.minor is None for tax in taxes)


def _allocated(
    line: LineFacts, gross: int, tax: LineTax, discount: int, parent: bool, segments: tuple[Segment, ...]
) -> AllocatedLine:
    known = tax.minor is not None and not tax.gap and tax.minor <= gross
    part = line.shipping or line.fee
    bundle = line.bundle
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
        segments=segments,
        fee_type=line.fee.type if line.fee is not None else None,
        unit_price_minor=line.unit_price_minor,
        list_price_minor=line.list_price_minor,
        line_discount_minor=sum(cut.minor for cut in line.discounts) or None,
        for_lines=part.for_lines or () if part is not None else (),
        standard_offered_minor=line.shipping.standard_offered_minor if line.shipping is not None else None,
        flat=line.shipping.flat if line.shipping is not None else None,
        shipment=line.shipment,
        delivered_at=_instant(line.delivered_at),
        attributes=line.attributes.model_dump(exclude_none=True) if line.attributes is not None else None,
        serials=line.serials or (),
        parent_line=bundle.parent_line if bundle is not None else None,
        per_bundle=bundle.per_bundle if bundle is not None else None,
        parent=parent,
    )


def _instant(at: object) -> str | None:
    return str(at).replace(" ", "T").replace("+00:00", "Z") if at is not None else None


def _sale(facts: OrderFacts) -> Sale:
    told = facts.disclosures
    return Sale(
        price_mode=facts.price_mode,
        placed_at=_instant(facts.placed_at),
        zone=facts.zone,
        region=facts.region,
        customer_ref=facts.customer.external_ref if facts.customer is not None else None,
        customer_type=facts.customer_type,
        sale_mode=facts.sale_mode,
        channel=facts.channel,
        withdrawal_info_at=_instant(told.withdrawal_info_at) if told is not None else None,
        return_cost_on_consumer=told.return_cost_on_consumer if told is not None else None,
        restocking_fee=told.restocking_fee if told is not None else None,
        gift_condition=told.gift_condition if told is not None else None,
        terms_version=told.terms_version if told is not None else None,
    )


def _rounding_line(lines: list[LineFacts], rounding: int) -> AllocatedLine:
    taken = {line.line_ref for line in lines}
    ref = ROUNDING_REF
    while ref in taken:
        ref += "+"
    return AllocatedLine(ref, lines[-1].position + 1, "fee", ref, "Rounding", 1, rounding, 0, fee_type="rounding")


def _method(
    discounts: list[OrderDiscount], taxes: list[LineTax], methods: Methods, bundled: bool, settle: Settlement | None
) -> str:
    chosen = settle.methods if settle is not None else {}
    spreads = {
        chosen.get(one.id) or (_method_of(one, methods) if one.shares is None else "explicit@1") for one in discounts
    }
    parts = sorted(spreads or {"value.cumulative@1"}) + sorted({tax.method for tax in taxes})
    return "+".join([*parts, methods.bundle] if bundled else parts)
