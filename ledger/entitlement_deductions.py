"""What comes off: diminished value, restocking, the label. Each is clipped at what is left; the clip is never carried over.

A deduction inside a range leaves p = g − d with the range's tax peeled at p. Over several ranges it is first spread over them
by g (by what is left of them, where a range has less than its share). How a fee meets the tax follows the policy:
`reduces_taxable` price and tax both come down, `separate_untaxed` the full tax goes back and the fee stands alone,
`separate_taxed` the fee carries a tax of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ledger.entitlement_facts import Inspected
from ledger.entitlement_pieces import Piece, stepped
from ledger.entitlement_working import Codes, Holding, RuleResult, Working, split
from ledger.expressions import Expr, value
from ledger.money import peel, spread

Treatment = Literal["reduces_taxable", "separate_untaxed", "separate_taxed"]


def treatment(work: Working) -> Treatment:
    """The policy's, else by region: in the United States the fee stands alone, elsewhere price and tax both come down."""
    if work.policy.fee_tax_treatment is not None:
        return work.policy.fee_tax_treatment
    return "separate_untaxed" if (work.sale.region or "").startswith("US") else "reduces_taxable"


def diminished(work: Working) -> Iterator[Piece]:
    """Loss in value by use, range by range of one grade."""
    for holding in [one for one in work.holdings if one.goods]:
        row = work.finding(holding.line_id, holding.a, holding.b)
        if row is None or row.grade not in "CD":
            continue
        rate = _rate(work, row)
        if rate is None:
            continue
        say = f"grade {row.grade}: nothing off" if not rate else f"grade {row.grade}: {_percent(rate)} off"
        owed: Expr = stepped(work, ["bps", holding.gross, rate])
        yield _take_range(work, holding, "deductions.diminished", say, owed)


def _rate(work: Working, row: Inspected) -> int | None:
    """Ten-thousandths off, None where nothing may come off; says why."""
    most = work.policy.grade_bps.get(row.grade, 0)
    where = f"{row.line_id}[{row.a},{row.b})"
    documented = bool(row.photos and row.note.strip())
    if row.faulty:
        work.found.append(RuleResult("deduct.lawful", "pass", where, "merchant's_fault_bears_no_deduction"))
        return None
    if work.preset is not None:
        if not work.preset.deductions or work.sale.withdrawal_info_at is None:
            work.found.append(RuleResult("deduct.lawful", "pass", where, "not_told_or_not_allowed"))
            return None
        if row.assessed_bps is None:
            work.found.append(RuleResult("deduct.evidence", "needs_review", where, "loss_in_value_not_assessed"))
            return None
        if not documented:
            work.found.append(RuleResult("deduct.evidence", "needs_review", where, "no_photo_or_note"))
            return None
        work.found.append(RuleResult("deduct.evidence", "needs_review", where, "merchant_bears_the_proof"))
    elif not documented and most and _photo_needed(work, row.grade):
        work.found.append(RuleResult("deduct.evidence", "needs_review", where, "no_photo_or_note"))
    return most if row.assessed_bps is None else min(row.assessed_bps, most)


def _photo_needed(work: Working, grade: str) -> bool:
    first = work.policy.grade_photo_from
    return first != "never" and grade >= first


def _percent(rate: int) -> str:
    return f"{rate // 100}.{rate % 100:02d} %"


def restocking(work: Working) -> Iterator[Piece]:
    """The fee for taking goods back: bps of the ranges' net (exclusive) or gross (inclusive), flat, capped.

    Of the ranges whose found reason bears it; where nobody found another, they came back because somebody changed their mind.
    """
    terms, currency = work.policy.restocking, work.allocation.currency
    flat = terms.flat_minor.get(currency, 0)
    found = [(one, work.finding(one.line_id, one.a, one.b)) for one in work.holdings if one.goods]
    named = [(one, row is not None and row.faulty) for one, row in found if _reason(row) in terms.reasons]
    if not (terms.bps or flat) or not named:
        return
    holdings = [one for one, faulty in named if not faulty]
    if not holdings or work.preset is not None or not work.sale.restocking_fee:
        reason = (
            "merchant's_fault"
            if not holdings
            else "no_fee_by_law"
            if work.preset is not None
            else "not_told_at_the_sale"
        )
        work.found.append(RuleResult("deduct.lawful", "pass", "case", reason))
        return
    net_base = work.sale.price_mode == "exclusive"
    base = sum(one.net if net_base else one.gross for one in holdings)
    fee: Expr = ["bps", base, terms.bps]
    fee = ["sum", fee, flat] if flat else fee
    if terms.max_minor is not None and currency in terms.max_minor:
        fee = ["min", fee, terms.max_minor[currency]]
    gross = sum(one.gross for one in holdings)
    if net_base and base and treatment(work) == "reduces_taxable":
        fee = ["scale", gross, base, ["min", fee, base]]
    say = f"fee for taking the goods back: {_percent(terms.bps)}" if terms.bps else "fee for taking the goods back"
    yield take_over(work, holdings, [], "deductions.restocking", say, fee, treatment(work))


def _reason(row: Inspected | None) -> str:
    return (row.reason if row is not None else None) or "changed_mind"


def label(work: Working) -> Iterator[Piece]:
    """Our own return label, a parcel each, borne by the customer where the reason that was found makes it theirs."""
    minor, parcels = work.policy.label.minor.get(work.allocation.currency, 0), work.evidence.parcels_on_our_label
    holdings = [one for one in work.holdings if one.goods]
    if not minor or not parcels or not holdings:
        return
    rows = [row for found in work.graded.values() for _, row in found]
    bears = work.policy.label.payer_by_reason
    found = {row.reason for row in rows if row.reason} or {"changed_mind"}
    payer = "merchant" if work.fault or any(bears.get(one) == "merchant" for one in found) else "customer"
    told = work.sale.return_cost_on_consumer
    if payer == "customer" and (not told if work.preset is not None else told is False):
        work.found.append(RuleResult("deduct.lawful", "pass", "case", "return_cost_not_told"))
        payer = "merchant"
    if work.preset is not None and work.preset.kind != "withdrawal":
        payer = "merchant"
    if payer == "customer" and work.evidence.collection_offered:
        work.found.append(RuleResult("deduct.lawful", "pass", "case", "the_shop_collects"))
        payer = "merchant"
    if payer == "merchant":
        return
    say = "return label" if parcels == 1 else f"{parcels} return labels"
    fee: Expr = minor if parcels == 1 else ["sum", *[minor] * parcels] if parcels <= 8 else minor * parcels
    others = [one for one in work.holdings if not one.goods]
    yield take_over(work, holdings, others, "deductions.label", say, fee, treatment(work))


def _take_range(work: Working, one: Holding, rule: str, say: str, owed: Expr) -> Piece:
    minor = min(value(owed), one.left)
    expr: Expr = ["neg", owed] if minor == value(owed) else ["neg", ["min", owed, one.left]]
    tax_expr: Expr = ["neg", ["sub", one.tax, ["peel", one.tax, one.left, one.left - minor]]]
    clipped = value(owed) - minor
    tax, codes = take_off(one, minor, peel(one.tax, one.left, one.left - minor))
    work.keep_back(one.line_id, minor)
    ref = f"{one.line_id}[{one.a},{one.b})"
    return Piece(rule, ref, say, expr, -minor, tax_expr, -tax, codes, ((one.line_id, -minor),), clipped)


def take_off(one: Holding, minor: int, tax_left: int) -> tuple[int, Codes]:
    """Takes `minor` off a range, leaving `tax_left` of its tax; returns the tax taken and its codes, below zero."""
    after = split(one.codes, tax_left)
    codes = tuple((code, now - was) for (code, was), (_, now) in zip(one.codes, after, strict=True))
    taken = one.tax - tax_left
    one.left, one.tax, one.codes = one.left - minor, tax_left, after
    return taken, codes


def take_over(
    work: Working, holdings: list[Holding], others: list[Holding], rule: str, say: str, fee: Expr, how: Treatment
) -> Piece:  # fmt: skip
    if how == "separate_taxed":
        fee = ["sum", fee, _own_tax(work, fee)] if rule == "deductions.restocking" else fee
    owed = stepped(work, fee)
    wanted, goods = value(owed), sum(one.left for one in holdings)
    minor = min(wanted, goods + sum(one.left for one in others))
    expr: Expr = ["neg", owed] if minor == wanted else ["neg", ["min", owed, minor]]
    shares = list(zip(holdings, _shares(work, min(minor, goods), holdings), strict=True))
    rest = minor - min(minor, goods)
    for one in others:
        shares.append((one, min(rest, one.left)))
        rest -= shares[-1][1]
    parts: dict[str, int] = {}
    codes: dict[str, int] = {}
    taxes: list[Expr] = []
    for one, share in shares:
        keep: Expr = ["peel", one.tax, one.left, one.left - share] if how == "reduces_taxable" else (
            ["min", one.tax, one.left - share])  # fmt: skip
        taxes.append(["sub", one.tax, keep])
        _, taken = take_off(one, share, value(keep))
        for code, off in taken:
            codes[code] = codes.get(code, 0) + off
        work.keep_back(one.line_id, share)
        parts[one.line_id] = parts.get(one.line_id, 0) - share
    tax_expr: Expr = ["neg", ["sum", *taxes]]
    tax = value(tax_expr)
    return Piece(
        rule, "case", say, expr, -minor, tax_expr, tax, tuple(codes.items()), tuple(parts.items()), wanted - minor
    )


def _own_tax(work: Working, fee: Expr) -> Expr:
    """The tax a fee of its own carries on top of a net fee."""
    return ["scale", value(fee), 1_000_000, work.policy.fee_tax_ppm]


def _shares(work: Working, minor: int, holdings: list[Holding]) -> list[int]:
    shares = spread(minor, [one.gross for one in holdings], work.step) if minor else [0] * len(holdings)
    if any(share > one.left for share, one in zip(shares, holdings, strict=True)):
        return spread(minor, [one.left for one in holdings], work.step)
    return shares
