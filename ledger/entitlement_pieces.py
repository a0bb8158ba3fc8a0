"""What the payable units are worth: goods, the order's rounding, shipping, fees; one small function per piece.

Each piece carries the expressions that give its amount and its tax, so that a page can print them and a checker that
knows nothing of refunds can recompute them. To add a kind of piece, write its function and put it in `PIECES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ledger.allocation import AllocatedLine
from ledger.allocation_tax import UNCODED
from ledger.entitlement_facts import Allowance
from ledger.entitlement_rules import Working
from ledger.expressions import Expr, value
from ledger.money import cut, peel
from ledger.unit_ranges import Range, minus, union, written


@dataclass(frozen=True, slots=True)
class Piece:
    """One line of the record: `minor` = net + `tax`, Σ `codes` = tax; `clipped` where the line's room cut it."""

    rule: str
    line_id: str
    ref: str
    say: str
    expr: Expr
    minor: int
    tax_expr: Expr
    tax: int
    codes: tuple[tuple[str, int], ...] = ()
    clipped: bool = False


def goods(work: Working) -> Iterator[Piece]:
    """Each range of payable units at what was charged for exactly those units, less allowances given on them."""
    for line_id, units in work.units.items():
        if not units:
            continue
        line = work.line(line_id)
        room = line.gross_minor - earlier(work, line_id)
        for span in _even(units, [_span(row, line) for row in _allowances(work, line_id)]):
            piece = _goods(work, line, span, max(0, room))
            room -= piece.minor
            yield piece


def rounding(work: Working) -> Iterator[Piece]:
    """A small gap of the order goes back with the goods it lies on, by value, whatever the order of returns."""
    goods_lines = [line for line in work.allocation.lines if line.kind == "goods"]
    whole = sum(line.gross_minor for line in goods_lines)
    for fee in work.allocation.lines:
        if fee.fee_type != "rounding":
            continue
        shares: list[Expr] = []
        before = 0
        for line in goods_lines:
            for a, b in work.units.get(line.line_id, ()):
                low, high = (before + cut(line.gross_minor, line.quantity, k, _step(work)) for k in (a, b))
                shares.append(["sub", ["scale", fee.gross_minor, whole, high], ["scale", fee.gross_minor, whole, low]])
            before += line.gross_minor
        expr: Expr = ["sum", ["int", 0], *shares] if whole else ["int", 0]
        yield _untaxed("fees.rounding", fee, "rounding of the order, with these goods", expr)


def shipping(work: Working) -> Iterator[Piece]:
    """Outbound shipping as charged once every goods unit of the order is back, if the policy refunds it at all."""
    lines = [line for line in work.allocation.lines if line.kind == "shipping"]
    if not lines:
        return
    missing = _still_out(work)
    for line in lines:
        if work.policy.shipping == "none":
            yield _untaxed("shipping.none", line, "shipping is not refunded under this policy", ["int", 0])
        elif missing:
            yield _untaxed("shipping.partial.on_last_unit", line, f"{missing} is not back: shipping waits", ["int", 0])
        else:
            yield _whole(work, line)


def fees(work: Working) -> Iterator[Piece]:
    """Fees are not refunded with goods by this version of the engine; the record says so."""
    for line in work.allocation.lines:
        if line.kind == "fee" and line.fee_type != "rounding":
            yield _untaxed("fees.kept", line, f"{line.title} is a fee and is not refunded with goods", ["int", 0])


PIECES: tuple[Callable[[Working], Iterator[Piece]], ...] = (goods, rounding, shipping, fees)


def earlier(work: Working, line_id: str) -> int:
    """What other cases claim of a line, and allowances given on it, in minor units."""
    claims = sum(claim.minor for claim in work.priors.claims if claim.line_id == line_id)
    return claims + sum(row.minor for row in _allowances(work, line_id))


def _goods(work: Working, line: AllocatedLine, span: Range, room: int) -> Piece:
    a, b = span
    gross, quantity, step = line.gross_minor, line.quantity, _step(work)
    low, high = cut(gross, quantity, a, step), cut(gross, quantity, b, step)
    expr: Expr = ["sub", ["cut", gross, quantity, b, step], ["cut", gross, quantity, a, step]]
    tax_expr: Expr = ["sub", ["peel", line.tax_minor, gross, high], ["peel", line.tax_minor, gross, low]]
    whole, tax = high - low, value(tax_expr)
    codes = _between(_codes_at(line, low), _codes_at(line, high))
    credited = _credits(work, line, span)
    say = f"{b - a} of {quantity} {line.sku} at what was paid"
    if credited:
        expr = ["max0", ["sub", expr, ["sum", *credited]]]
        say += ", less what was credited on them"
    clipped = value(expr) > room
    if clipped:
        expr = ["min", expr, room]
        say += ", within what is left of the line"
    minor = value(expr)
    if minor != whole:
        tax_expr = ["sub", tax_expr, ["peel", tax, whole, whole - minor]]
        codes = _between(_split(codes, tax - value(tax_expr)), codes)
    return Piece(
        rule="goods.units",
        line_id=line.line_id,
        ref=line.line_id + written([span]),
        say=say,
        expr=expr,
        minor=minor,
        tax_expr=tax_expr,
        tax=value(tax_expr),
        codes=codes,
        clipped=clipped,
    )


def _credits(work: Working, line: AllocatedLine, span: Range) -> list[Expr]:
    """What allowances put on these units: each is cut over its own units, on the order's step."""
    found: list[Expr] = []
    step = _step(work)
    for row in _allowances(work, line.line_id):
        start, end = _span(row, line)
        a, b = max(span[0], start), min(span[1], end)
        if a < b:
            minor = step * ((2 * row.minor + step) // (2 * step))
            found.append(
                ["sub", ["cut", minor, end - start, b - start, step], ["cut", minor, end - start, a - start, step]]
            )
    return found


def _allowances(work: Working, line_id: str) -> list[Allowance]:
    rows = [row for row in work.priors.allowances if row.line_id == line_id]
    return sorted(rows, key=lambda row: (row.a or 0, row.b or 0, row.minor))


def _span(row: Allowance, line: AllocatedLine) -> Range:
    if row.a is None or row.b is None:
        return (0, line.quantity)
    return (row.a, row.b)


def _even(units: tuple[Range, ...], spans: list[Range]) -> Iterator[Range]:
    """The unit ranges, cut where an allowance begins or ends, so that each is credited alike."""
    edges = sorted({edge for span in spans for edge in span})
    for start, end in units:
        inner = [edge for edge in edges if start < edge < end]
        yield from zip([start, *inner], [*inner, end], strict=True)


def _still_out(work: Working) -> str | None:
    """A goods line with a unit that is not back, in this case or another; None when this case made the return whole."""
    if not any(work.units.values()):
        return "what this case claims"
    returned: dict[str, list[Range]] = {line_id: list(units) for line_id, units in work.units.items()}
    for claim in work.priors.claims:
        if claim.returned:
            returned.setdefault(claim.line_id, []).append((claim.a, claim.b))
    for line in work.allocation.lines:
        if line.kind == "goods" and minus(((0, line.quantity),), union(returned.get(line.line_id, []))):
            return line.sku
    return None


def _whole(work: Working, line: AllocatedLine) -> Piece:
    before = min(line.gross_minor, earlier(work, line.line_id))
    expr: Expr = ["sub", line.gross_minor, before]
    tax, gross = line.tax_minor, line.gross_minor
    tax_expr: Expr = ["sub", ["peel", tax, gross, gross], ["peel", tax, gross, before]]
    return Piece(
        rule="shipping.full_return",
        line_id=line.line_id,
        ref=line.line_id,
        say="everything is back: shipping as charged",
        expr=expr,
        minor=value(expr),
        tax_expr=tax_expr,
        tax=value(tax_expr),
        codes=_between(_codes_at(line, before), _codes_at(line, gross)),
    )


def _untaxed(rule: str, line: AllocatedLine, say: str, expr: Expr) -> Piece:
    return Piece(rule, line.line_id, line.line_id, say, expr, value(expr), ["int", 0], 0)


def _step(work: Working) -> int:
    return work.allocation.step_minor


Codes = tuple[tuple[str, int], ...]


def _codes_at(line: AllocatedLine, gross: int) -> Codes:
    """The tax in the first `gross` of the line, by code: peeled one code after the other, so the codes sum to it."""
    codes = tuple((tax.code, tax.minor) for tax in line.taxes)
    if line.tax_minor and not codes:
        codes = ((UNCODED, line.tax_minor),)
    return _split(codes, peel(line.tax_minor, line.gross_minor, gross))


def _split(codes: Codes, minor: int) -> Codes:
    whole, found = sum(held for _, held in codes), []
    for code, held in codes:
        share = peel(held, whole, minor)
        found.append((code, share))
        whole, minor = whole - held, minor - share
    return tuple(found)


def _between(before: Codes, after: Codes) -> Codes:
    return tuple((code, last - first) for (code, first), (_, last) in zip(before, after, strict=True))
