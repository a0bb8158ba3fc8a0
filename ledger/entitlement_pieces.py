"""What the payable units are worth: goods and the order's rounding; each piece says its amount as an expression.

Each piece carries the expressions that give its amount and its tax, so that a page can print them and a checker that
knows nothing of refunds can recompute them. The other pieces are in `entitlement_promo`, `entitlement_shipping`,
`entitlement_deductions` and `entitlement_allowances`; `entitlement` runs them in the specification's order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ledger.allocation_lines import AllocatedLine, Segment
from ledger.entitlement_facts import Allowance
from ledger.entitlement_working import Codes, Holding, Working, between, codes_at, split
from ledger.expressions import Expr, value
from ledger.money import cut, peel
from ledger.unit_ranges import Range, minus

Parts = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """One line of the record: `minor` = net + `tax`, Σ `codes` = tax, Σ `parts` = minor, by line of the order.

    `clipped`: minor units that the amount would have been beyond what was left.
    """

    rule: str
    ref: str
    say: str
    expr: Expr
    minor: int
    tax_expr: Expr
    tax: int
    codes: Codes = ()
    parts: Parts = ()
    clipped: int = 0


def goods(work: Working) -> Iterator[Piece]:
    """Each range of payable units at what was charged for exactly those units, less allowances given on them."""
    for line_id, units in work.units.items():
        if not units:
            continue
        line = work.line(line_id)
        room = max(0, line.gross_minor - work.earlier(line_id))
        edges = [edge for row in work.allowances.get(line_id, ()) for edge in _span(row, line)]
        if line.segments:
            edges += [part.a for part in line.segments]
        for span in cut_at(units, edges):
            piece, codes = _goods(work, line, span, room)
            room -= piece.minor
            yield piece
            _hold(work, line, span, piece, codes)


def _goods(work: Working, line: AllocatedLine, span: Range, room: int) -> tuple[Piece, Codes]:
    a, b = span
    part = _segment(line, span)
    size, step = part.b - part.a, work.step if part.gross_minor % work.step == 0 else 1
    below = part.gross_minor and part.a and line.gross_at(part.a, work.step)
    low_in, high_in = cut(part.gross_minor, size, a - part.a, step), cut(part.gross_minor, size, b - part.a, step)
    low, high = below + low_in, below + high_in
    expr: Expr = [
        "sub",
        ["cut", part.gross_minor, size, b - part.a, step],
        ["cut", part.gross_minor, size, a - part.a, step],
    ]
    held, gross = line.tax_minor, line.gross_minor
    tax_expr: Expr = ["sub", ["peel", held, gross, high], ["peel", held, gross, low]]
    whole, minor = high - low, high - low
    tax = peel(held, gross, high) - peel(held, gross, low)
    codes = between(codes_at(line, low), codes_at(line, high))
    say = f"{b - a} of {line.quantity} {line.sku} at what was paid"
    credited = credits_on(work, line, span)
    if credited:
        expr = ["max0", ["sub", expr, ["sum", *credited]]]
        minor = value(expr)
        say += ", less what was credited on them"
    clipped = max(0, minor - room)
    if clipped:
        expr, minor = ["min", expr, room], room
        say += ", within what is left of the line"
    if minor != whole:
        tax_expr = ["sub", tax_expr, ["peel", tax, whole, whole - minor]]
        left = tax - peel(tax, whole, whole - minor)
        codes = between(split(codes, tax - left), codes)
        tax = left
    ref = f"{line.line_id}[{a},{b})"
    return Piece("goods.units", ref, say, expr, minor, tax_expr, tax, codes, ((line.line_id, minor),), clipped), codes


def _segment(line: AllocatedLine, span: Range) -> Segment:
    for part in line.segments:
        if part.a <= span[0] < part.b:
            return part
    return Segment(0, line.quantity, line.gross_minor)


def _hold(work: Working, line: AllocatedLine, span: Range, piece: Piece, codes: Codes) -> None:
    """What the piece gives, ready for deductions; ranges of one finding where it may turn on one."""
    lossy = [
        edge
        for ranges, row in work.graded.get(line.line_id, ())
        if row.grade in "CDM" or row.assessed_bps or row.reason
        for inner in ranges
        for edge in inner
    ]
    low, high = line.gross_at(span[0], work.step), line.gross_at(span[1], work.step)
    whole, held = high - low, peel(line.tax_minor, line.gross_minor, high) - peel(line.tax_minor, line.gross_minor, low)
    at, left, tax, held_at, of_codes = 0, 0, 0, 0, split(codes, 0)
    for a, b in cut_at((span,), lossy):
        at_b = line.gross_at(b, work.step) - low
        left_b = peel(piece.minor, whole, at_b)
        tax_b, held_b = peel(piece.tax, piece.minor, left_b), peel(held, whole, at_b)
        codes_b = split(codes, tax_b)
        gross, net = at_b - at, at_b - at - (held_b - held_at)
        work.holdings.append(
            Holding(line.line_id, a, b, gross, net, left_b - left, tax_b - tax, between(of_codes, codes_b))
        )
        at, left, tax, held_at, of_codes = at_b, left_b, tax_b, held_b, codes_b


def credits_on(work: Working, line: AllocatedLine, span: Range) -> list[Expr]:
    """What allowances put on these units: each is cut over its own units, on the order's step."""
    found: list[Expr] = []
    for row in work.allowances.get(line.line_id, ()):
        start, end = _span(row, line)
        a, b = max(span[0], start), min(span[1], end)
        if a < b:
            step = work.step
            minor = cut(step * row.minor, step, 1, step)
            found.append(
                ["sub", ["cut", minor, end - start, b - start, step], ["cut", minor, end - start, a - start, step]]
            )
    return found


def _span(row: Allowance, line: AllocatedLine) -> Range:
    if row.a is None or row.b is None:
        return (0, line.quantity)
    return (row.a, row.b)


def cut_at(units: tuple[Range, ...], edges: list[int]) -> Iterator[Range]:
    """The unit ranges, cut where something begins or ends inside them, so that each is alike throughout."""
    if not edges:
        yield from units
        return
    found = sorted(set(edges))
    for start, end in units:
        inner = [edge for edge in found if start < edge < end]
        yield from zip([start, *inner], [*inner, end], strict=True)


def stepped(work: Working, expr: Expr) -> Expr:
    """Rounded to the order's step, half up."""
    return expr if work.step == 1 else ["cut", work.step * value(expr), work.step, 1, work.step]


def rounding(work: Working) -> Iterator[Piece]:
    """A small gap of the order goes back with the goods it lies on, by value, whatever the order of returns."""
    for fee in work.allocation.lines:
        if fee.fee_type != "rounding":
            continue
        whole = sum(line.gross_minor for line in work.goods_lines)
        shares: list[Expr] = []
        before = 0
        for line in work.goods_lines:
            for a, b in work.units.get(line.line_id, ()):
                low, high = (before + line.gross_at(k, work.step) for k in (a, b))
                upper, lower = (stepped(work, ["scale", fee.gross_minor, whole, at]) for at in (high, low))
                shares.append(["sub", upper, lower])
            before += line.gross_minor
        expr: Expr = ["sum", ["int", 0], *shares] if whole else ["int", 0]
        minor = value(expr)
        parts = ((fee.line_id, minor),)
        say = "rounding of the order, with these goods"
        yield Piece("fees.rounding", fee.line_id, say, expr, minor, ["int", 0], 0, (), parts)


def still_out(work: Working, lines: tuple[AllocatedLine, ...]) -> str | None:
    """A line with a unit that is not back, in this case or another; None when this case made the return of them whole."""
    if not any(work.units.get(line.line_id) for line in lines):
        return "what this case claims"
    for line in lines:
        if minus(((0, line.quantity),), work.returned(line.line_id)):
            return line.sku
    return None
