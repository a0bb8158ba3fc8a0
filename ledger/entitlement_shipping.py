"""Outbound shipping and fees: how much of each goes back with the goods it served, cumulative over all cases.

What goes back of a line is its target after this case less what earlier cases claim of it; so the order of returns never
changes the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.allocation_lines import AllocatedLine
from ledger.entitlement_pieces import Piece, still_out
from ledger.entitlement_working import Holding, RuleResult, Working, between, codes_at
from ledger.expressions import Expr, value
from ledger.money import peel

_WITH_GOODS = frozenset({"gift_wrap", "eco", "deposit_item", "duty"})
_RULES = {"payment_surcharge": "pro_rata_value", "insurance": "if_unused", "installation": "if_unused"}


def shipping(work: Working) -> Iterator[Piece]:
    """Every shipping line by the policy's rule, or the law's on the statutory track."""
    for line in work.allocation.lines:
        if line.kind == "shipping":
            yield from _shipping(work, line)


def _shipping(work: Working, line: AllocatedLine) -> Iterator[Piece]:
    terms, served = work.policy.shipping, served_by(work, line)
    rule = terms.merchant_fault if work.fault else terms.full_return
    if work.preset is not None:
        rule = "full" if work.preset.kind == "faulty" else "standard" if rule == "none" else rule
    if work.evidence.kind == "cancellation":
        rule = "full"
    offered: Expr = line.gross_minor
    if rule == "standard" and line.standard_offered_minor is not None:
        offered = ["min", line.gross_minor, line.standard_offered_minor]
    full = value(offered)
    missing = still_out(work, served)
    if missing is None:
        if rule == "none":
            yield nothing("shipping.none", line, "shipping is not refunded under this policy")
        else:
            say = "everything is back: shipping as charged" if full == line.gross_minor else (
                "everything is back: what standard shipping would have cost")  # fmt: skip
            yield up_to(work, line, "shipping.full_return", say, offered, full)
        return
    yield _partial(work, line, served, offered, full, missing, none=rule == "none")


def _partial(
    work: Working, line: AllocatedLine, served: tuple[AllocatedLine, ...], offered: Expr, full: int, missing: str, *, none: bool
) -> Piece:  # fmt: skip
    rule = work.policy.shipping.partial_return
    if rule == "pro_rata_unless_flat":
        rule = "on_last_unit" if line.flat else "pro_rata_value"
    anything = any(work.units.get(one.line_id) for one in served)
    if none or (rule == "none" and work.preset is None):
        return nothing("shipping.none", line, "shipping is not refunded under this policy")
    if rule == "with_first_unit" and anything:
        return up_to(work, line, "shipping.partial.with_first_unit", "shipping, with the first goods", offered, full)
    if rule == "pro_rata_value" and anything:
        return pro_rata(work, line, "shipping.partial.pro_rata", "shipping, by the value of what is back", served, full)
    return nothing("shipping.partial.on_last_unit", line, f"{missing} is not back: shipping waits")


def fees(work: Working) -> Iterator[Piece]:
    """Every fee by its type; the policy may say otherwise by type."""
    for line in work.allocation.lines:
        if line.kind == "fee" and line.fee_type != "rounding":
            yield from _fee(work, line)


def _fee(work: Working, line: AllocatedLine) -> Iterator[Piece]:
    kind = line.fee_type or "other"
    if kind == "handling" and kind not in work.policy.fees:
        yield from _shipping(work, line)
        return
    rule = work.policy.fees.get(kind) or ("with_goods" if kind in _WITH_GOODS else _RULES.get(kind, "never"))
    if work.evidence.kind == "cancellation" and kind not in ("tip", "donation"):
        rule = "with_goods"
    served = served_by(work, line)
    anything = any(work.units.get(one.line_id) for one in served)
    if rule == "if_unused":
        rule = _by_use(work, line, anything)
    if rule in ("with_goods", "pro_rata_value") and anything:
        say = f"{line.title}, with the goods it was paid for"
        yield pro_rata(work, line, "fees.with_goods", say, served, line.gross_minor)
    elif rule == "on_last_unit" and still_out(work, served) is None:
        yield up_to(
            work, line, "fees.on_last_unit", f"{line.title}, everything being back", line.gross_minor, line.gross_minor
        )
    elif rule == "never" or anything:
        yield nothing("fees.kept", line, f"{line.title} is a fee and is not refunded with goods")


def _by_use(work: Working, line: AllocatedLine, anything: bool) -> str:
    used = dict(work.evidence.used_fees).get(line.line_id)
    if used is None and anything:
        work.found.append(RuleResult("fees.use", "needs_review", line.line_id, "not_known_whether_it_was_used"))
    return "with_goods" if used is False else "never"


def served_by(work: Working, line: AllocatedLine) -> tuple[AllocatedLine, ...]:
    """The goods lines a shipping or fee line serves: those it names, or all; a bundle stands for its components."""
    if not line.for_lines:
        return work.goods_lines
    named = set(line.for_lines)
    found = tuple(one for one in work.goods_lines if one.line_id in named or one.parent_line in named)
    return found or work.goods_lines


def pro_rata(
    work: Working, line: AllocatedLine, rule: str, say: str, served: tuple[AllocatedLine, ...], full: int
) -> Piece:  # fmt: skip
    """The share of `full` that belongs to the value that is back, less that of what was back before."""
    whole = sum(one.gross_minor for one in served)
    before = sum(work.worth(one, work.returned_before(one.line_id)) for one in served)
    after = before + sum(work.worth(one, work.units.get(one.line_id, ())) for one in served)
    if still_out(work, served) is None:
        return up_to(work, line, rule, say, full, full)
    # Where shipping is more than its goods, `scale` shares it; both are cumulative, so the end is the same.
    target: Expr = (
        ["peel", full, whole, after] if full <= whole else ["scale", full, whole, after] if whole else ["int", 0]
    )
    return up_to(work, line, rule, say, target, value(target))


def up_to(work: Working, line: AllocatedLine, rule: str, say: str, target: Expr, minor: int) -> Piece:
    """A line up to a cumulative target, less what earlier cases claim of it."""
    before = min(line.gross_minor, work.earlier(line.line_id))
    expr: Expr = ["max0", ["sub", target, before]] if before > minor else ["sub", target, before]
    amount, step = max(0, minor - before), work.step
    if amount % step:
        expr = ["cut", step * amount, step, 1, step]
        amount = value(expr)
    held, gross = line.tax_minor, line.gross_minor
    tax_expr: Expr = ["sub", ["peel", held, gross, before + amount], ["peel", held, gross, before]]
    tax = peel(held, gross, before + amount) - peel(held, gross, before)
    codes = between(codes_at(line, before), codes_at(line, before + amount))
    if amount:
        work.holdings.append(
            Holding(line.line_id, 0, line.quantity, amount, amount - tax, amount, tax, codes, goods=False)
        )
    return Piece(rule, line.line_id, say, expr, amount, tax_expr, tax, codes, ((line.line_id, amount),))


def nothing(rule: str, line: AllocatedLine, say: str) -> Piece:
    """A line that gives nothing now, said."""
    return Piece(rule, line.line_id, say, ["int", 0], 0, ["int", 0], 0, (), ((line.line_id, 0),))
