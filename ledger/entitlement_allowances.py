"""Money back that is no return of goods: each kind of case with its own piece, never above what is left on its line.

keep-item, price reduction, price adjustment, goodwill, shipping alone, exchange, warranty after the statutory time. The units
of an allowance stay with the customer; each keeps track of what was credited on it, so that a later return pays the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ledger.allocation_lines import AllocatedLine
from ledger.calendar_days import add_days, by_end_of, local_day, months_between
from ledger.entitlement_deductions import take_off, take_over
from ledger.entitlement_facts import Ask
from ledger.entitlement_pieces import Piece, credits_on, stepped
from ledger.entitlement_presets import choose
from ledger.entitlement_shipping import up_to
from ledger.entitlement_windows import last_day_for_faults
from ledger.entitlement_working import Codes, RuleResult, Working, between, codes_at, split
from ledger.expressions import Expr, value
from ledger.money import peel, spread
from ledger.unit_ranges import Range, minus

KEPT: frozenset[str] = frozenset({"keep_item", "price_reduction", "price_adjustment", "goodwill", "shipping_only"})
"""Kinds whose goods stay with the customer."""


def allowances(work: Working) -> Iterator[Piece]:
    """The pieces of a case that is no return."""
    make = _KINDS.get(work.evidence.kind)
    if make is not None:
        yield from make(work)


def _asked(work: Working) -> Iterator[tuple[Ask, AllocatedLine, Range]]:
    for ask in work.evidence.asks:
        line = work.allocation.line(ask.line_id)
        if line is not None:
            for span in work.within_case(ask.line_id, ask.a, ask.b):
                yield ask, line, span


def _keep_item(work: Working) -> Iterator[Piece]:
    terms, currency = work.policy.keep_item, work.allocation.currency
    for ask, line, span in _asked(work):
        worth = still_worth(work, line, span)
        most: Expr = ["bps", worth, terms.max_bps]
        if currency in terms.max_minor:
            most = ["min", most, terms.max_minor[currency]]
        wanted = _its_share(work, ask, span, _typed(work, line, ask, ask.minor))
        owed: Expr = ["min", wanted, most]
        _say_cut(work, line, span, value(wanted), value(owed), "above_the_policy_s_maximum")
        yield _give(work, line, span, "allowances.keep_item", "money back, the goods are kept", owed)


def _its_share(work: Working, ask: Ask, span: Range, typed: Expr) -> Expr:
    """What was typed once is given once: shared by units where other cases lie between those it was typed for."""
    spans = work.within_case(ask.line_id, ask.a, ask.b)
    if len(spans) == 1:
        return typed
    shares = spread(value(typed), [b - a for a, b in spans], work.step)
    return ["int", shares[spans.index(span)]]


def _price_reduction(work: Working) -> Iterator[Piece]:
    """Of several opinions on a unit the last one counts: what it lost, it lost once."""
    for index, row in enumerate(work.evidence.opinions):
        line = work.allocation.line(row.line_id)
        if line is None or row.conform_minor <= 0:
            continue
        later = [(one.a, one.b) for one in work.evidence.opinions[index + 1 :] if one.line_id == row.line_id]
        for span in minus(work.within_case(row.line_id, row.a, row.b), later):
            lost = max(0, row.conform_minor - row.actual_minor)
            charged = line.gross_at(span[1], work.step) - line.gross_at(span[0], work.step)
            owed: Expr = ["scale", charged, row.conform_minor, min(lost, row.conform_minor)]
            say = "the price in the ratio of what it is worth with its defect"
            yield _give(work, line, span, "allowances.price_reduction", say, owed)


def _price_adjustment(work: Working) -> Iterator[Piece]:
    for ask, line, span in _asked(work):
        if ask.new_unit_minor is None or not _inside_days(work, line):
            continue
        worth = still_worth(work, line, span)
        new = value(_typed(work, line, ask, ask.new_unit_minor))
        owed: Expr = ["max0", ["sub", worth, (span[1] - span[0]) * new]]
        yield _give(work, line, span, "allowances.price_adjustment", "the difference to the lower price", owed)


def _inside_days(work: Working, line: AllocatedLine) -> bool:
    terms, zone, placed = work.policy.price_adjust, work.sale.zone or "UTC", work.sale.placed_at
    category = str((line.attributes or {}).get("category", ""))
    sent = [row.sent_at for row in work.evidence.units if row.sent_at]
    if category in terms.exclude:
        work.found.append(RuleResult("allowances.within", "fail", line.line_id, "excluded_from_price_adjustment"))
        return False
    if placed is None or not sent:
        work.found.append(RuleResult("time.known", "needs_review", line.line_id, "sale_or_request_time_unknown"))
        return False
    last = add_days(local_day(placed, zone), terms.days)
    if not by_end_of(last, min(sent), zone):
        facts = (f"last_day:{last.isoformat()}",)
        work.found.append(RuleResult("allowances.within", "fail", line.line_id, "asked_too_late", facts))
        return False
    return True


def _goodwill(work: Working) -> Iterator[Piece]:
    """The policy's maximum is that of the order: what other cases of it give counts, so that splitting is useless."""
    before = sum(row.minor for row in work.priors.allowances if row.goodwill)
    most = work.policy.goodwill.max_minor.get(work.allocation.currency)
    for ask in work.evidence.asks:
        line = work.allocation.line(ask.line_id)
        if line is None or line.parent:
            continue
        left = max(0, line.gross_minor - work.earlier(line.line_id))
        owed = _typed(work, line, ask, ask.minor, work.policy.goodwill.entry)
        wanted = value(owed)
        if most is None or before + wanted > most:
            facts = [f"most_minor:{most if most is not None else 0}", f"asked_minor:{wanted}"]
            facts += [f"given_before_minor:{before}"] if before else []
            work.found.append(
                RuleResult("allowances.within", "needs_review", line.line_id, "goodwill_above_the_policy", tuple(facts))
            )
        _say_cut(work, line, (0, line.quantity), wanted, min(wanted, left), "goodwill_above_the_line")
        yield _give_of_line(work, line, "allowances.goodwill", "goodwill of the merchant", owed, left)


def _shipping_only(work: Working) -> Iterator[Piece]:
    for ask in work.evidence.asks:
        line = work.allocation.line(ask.line_id)
        if line is None or line.kind == "goods":
            continue
        left = max(0, line.gross_minor - work.earlier(line.line_id))
        wanted = value(_typed(work, line, ask, ask.minor))
        _say_cut(work, line, (0, 1), wanted, min(wanted, left), "above_what_is_left_of_the_line")
        target = work.earlier(line.line_id) + min(wanted, left)
        yield up_to(work, line, "shipping.only", f"{line.title} alone", target, target)


def _typed(work: Working, line: AllocatedLine, ask: Ask, minor: int, usual: str = "gross") -> Expr:
    """A typed amount with tax: what was typed without is grossed up in the line's own ratio."""
    net = line.net_minor
    if (ask.entry or usual) != "net" or not net:
        return ["int", minor]
    if minor > net:
        return ["int", (2 * minor * line.gross_minor + net) // (2 * net)]
    return ["scale", line.gross_minor, net, minor]


def _exchange(work: Working) -> Iterator[Piece]:
    """The credit of what goes back, less what replaces it; what is missing is due from the customer and never charged."""
    replacement = sum(ask.minor for ask in work.evidence.asks)
    holdings = [one for one in work.holdings if one.goods]
    if replacement and holdings:
        others = [one for one in work.holdings if not one.goods]
        say = "the goods that replace them"
        yield take_over(work, holdings, others, "allowances.exchange", say, ["int", replacement], "reduces_taxable")


def _warranty(work: Working) -> Iterator[Piece]:
    terms = work.policy.warranty
    failed = {ask.line_id: ask.failed_at for ask in work.evidence.asks}
    for one in [one for one in work.holdings if one.goods]:
        line = work.line(one.line_id)
        months = (line.attributes or {}).get("warranty_months", terms.months)
        term, at, zone = int(months), failed.get(one.line_id), work.sale.zone or "UTC"
        yield_to_law(work, line)
        age = (
            months_between(local_day(line.delivered_at, zone), local_day(at, zone))
            if line.delivered_at and at
            else None
        )
        if age is None:
            work.found.append(
                RuleResult("warranty.time", "needs_review", one.line_id, "fault_or_delivery_time_unknown")
            )
        covered = age is not None and terms.method != "none" and age < term
        if age is not None and not covered:
            facts = (f"months:{age}", f"term:{term}")
            work.found.append(RuleResult("warranty.time", "fail", one.line_id, "warranty_over_or_none", facts))
        kept: Expr = ["int", 0]
        if covered and age is not None:
            full = terms.method == "full" or age <= terms.full_months
            kept = one.left if full else ["scale", one.left, term, term - age]
        minor = one.left - value(stepped(work, kept))
        expr: Expr = ["neg", ["sub", one.left, stepped(work, kept)]]
        tax_expr: Expr = ["neg", ["sub", one.tax, ["peel", one.tax, one.left, one.left - minor]]]
        tax, codes = take_off(one, minor, peel(one.tax, one.left, one.left - minor))
        work.keep_back(one.line_id, minor)
        ref = f"{one.line_id}[{one.a},{one.b})"
        say = f"{age} of {term} months of warranty are over" if age is not None else "the age of the fault is not known"
        yield Piece("deductions.warranty", ref, say, expr, -minor, tax_expr, -tax, codes, ((one.line_id, -minor),))


def yield_to_law(work: Working, line: AllocatedLine) -> None:
    """A warranty adds to what the law gives for faults and never stands in for it: while that time runs, a return is opened."""
    said = [row.sent_at for row in work.evidence.units if row.sent_at]
    for terms in work.policy.each:
        preset = choose(work.sale, terms.statutes, fault=True, withdraws=True)
        last = last_day_for_faults(work, line, preset)
        if preset is None or preset.kind != "faulty" or not said:
            continue
        if last is None:
            work.found.append(RuleResult("warranty.time", "needs_review", line.line_id, "the_law_s_time_is_not_known"))
        elif by_end_of(last, min(said), work.sale.zone or "UTC"):
            work.held_back = True
            facts = (f"last_day:{last.isoformat()}",)
            work.found.append(RuleResult("warranty.time", "needs_review", line.line_id, "the_law_s_time_runs", facts))


_KINDS: dict[str, Callable[[Working], Iterator[Piece]]] = {
    "keep_item": _keep_item,
    "price_reduction": _price_reduction,
    "price_adjustment": _price_adjustment,
    "goodwill": _goodwill,
    "shipping_only": _shipping_only,
    "exchange": _exchange,
    "warranty": _warranty,
}


def _say_cut(work: Working, line: AllocatedLine, span: Range, asked: int, given: int, reason: str) -> None:
    if asked > given:
        facts = (f"asked_minor:{asked}", f"given_minor:{given}")
        where = f"{line.line_id}[{span[0]},{span[1]})"
        work.found.append(RuleResult("allowances.within", "needs_review", where, reason, facts))


def _credited(work: Working, line: AllocatedLine, span: Range) -> int:
    return sum(value(credit) for credit in credits_on(work, line, span))


def still_worth(work: Working, line: AllocatedLine, span: Range) -> int:
    """What units still are worth: charged less credited, within what is left of the line."""
    charged = line.gross_at(span[1], work.step) - line.gross_at(span[0], work.step)
    left = max(0, line.gross_minor - work.earlier(line.line_id))
    return min(max(0, charged - _credited(work, line, span)), left)


def _give(work: Working, line: AllocatedLine, span: Range, rule: str, say: str, owed: Expr) -> Piece:
    """An allowance on a range of units: at most what they are still worth."""
    low, high = line.gross_at(span[0], work.step), line.gross_at(span[1], work.step)
    before = min(_credited(work, line, span), high - low)
    room = still_worth(work, line, span)
    rounded = stepped(work, owed)
    expr: Expr = ["min", rounded, room]
    minor = value(expr)
    held, gross, whole = line.tax_minor, line.gross_minor, high - low
    tax = peel(held, gross, high) - peel(held, gross, low)
    tax_expr: Expr = ["sub", ["peel", tax, whole, before + minor], ["peel", tax, whole, before]]
    codes = _codes(between(codes_at(line, low), codes_at(line, high)), tax, whole, before, minor)
    ref = f"{line.line_id}[{span[0]},{span[1]})"
    clipped = value(rounded) - minor
    return Piece(rule, ref, say, expr, minor, tax_expr, value(tax_expr), codes, ((line.line_id, minor),), clipped)


def _give_of_line(work: Working, line: AllocatedLine, rule: str, say: str, owed: Expr, left: int) -> Piece:
    before = line.gross_minor - left
    rounded = stepped(work, owed)
    expr: Expr = ["min", rounded, left]
    minor = value(expr)
    held, gross = line.tax_minor, line.gross_minor
    tax_expr: Expr = ["sub", ["peel", held, gross, before + minor], ["peel", held, gross, before]]
    codes = between(codes_at(line, before), codes_at(line, before + minor))
    clipped = value(rounded) - minor
    parts = ((line.line_id, minor),)
    return Piece(rule, line.line_id, say, expr, minor, tax_expr, value(tax_expr), codes, parts, clipped)


def _codes(codes: Codes, tax: int, whole: int, before: int, minor: int) -> Codes:
    return between(split(codes, peel(tax, whole, before)), split(codes, peel(tax, whole, before + minor)))
