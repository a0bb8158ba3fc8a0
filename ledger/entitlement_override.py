"""An amount other than computed: one more line that makes the difference, so that what was computed stays in the record.

Less is taken off what the case gives back, as a deduction is. More is given on the units of the case, never above what was paid
for them: what is beyond that is goodwill, a case of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ledger.entitlement_deductions import take_over
from ledger.entitlement_facts import Override
from ledger.entitlement_pieces import Piece
from ledger.entitlement_working import Codes, Working, line_codes, split
from ledger.expressions import Expr, value

LESS, MORE = "deductions.override", "allowances.override"


def overridden(work: Working, pieces: Sequence[Piece], override: Override) -> Iterator[Piece]:
    """The piece between what was computed and what was asked for; less of it where the lines do not hold so much."""
    if override.minor < override.computed_minor:
        fee: Expr = ["sub", override.computed_minor, override.minor]
        goods = [one for one in work.holdings if one.goods]
        others = [one for one in work.holdings if not one.goods]
        piece = take_over(work, goods, others, LESS, "less than computed, for a stated reason", fee, "reduces_taxable")
        yield piece if piece.clipped else replace(piece, expr=["sub", override.minor, override.computed_minor])
    else:
        yield _more(work, pieces, override)


def room(work: Working, pieces: Sequence[Piece]) -> dict[str, int]:
    """By line: what may still be given for the case's units above what was computed for them."""
    given = _by_line(pieces)
    found = {}
    for line_id, units in work.units.items():
        line = work.line(line_id)
        left = max(0, line.gross_minor - work.earlier(line_id))
        found[line_id] = max(0, min(work.worth(line, units), left) - given.get(line_id, (0, 0))[0])
    return found


def _by_line(pieces: Sequence[Piece]) -> dict[str, tuple[int, int]]:
    """Amount of each line, and the tax of the pieces that lie on it alone."""
    found: dict[str, tuple[int, int]] = {}
    for piece in pieces:
        for line_id, minor in piece.parts:
            amount, tax = found.get(line_id, (0, 0))
            found[line_id] = (amount + minor, tax + (piece.tax if len(piece.parts) == 1 else 0))
    return found


def _more(work: Working, pieces: Sequence[Piece], override: Override) -> Piece:
    need, given = override.minor - override.computed_minor, _by_line(pieces)
    parts: list[tuple[str, int]] = []
    taxes: list[Expr] = []
    codes: dict[str, int] = {}
    for line_id, most in room(work, pieces).items():
        more = min(need, most)
        if not more:
            continue
        need -= more
        line = work.line(line_id)
        amount, tax = given.get(line_id, (0, 0))
        # Tax of the units' whole price, less what goes back already, and never more than lies in the difference.
        whole = work.worth(line, work.units[line_id])
        held: Expr = ["peel", line.tax_minor, line.gross_minor, whole]
        to: Expr = ["peel", value(held), whole, amount + more]
        expr: Expr = ["min", more, ["max0", ["sub", to, max(0, tax)]]]
        taxes.append(expr)
        for code, minor in _codes(line_codes(line), value(expr)):
            codes[code] = codes.get(code, 0) + minor
        work.retained[line_id] = max(0, work.retained.get(line_id, 0) - more)
        parts.append((line_id, more))
    minor, wanted = sum(more for _, more in parts), override.minor - override.computed_minor
    whole_expr: Expr = ["sub", override.minor, override.computed_minor]
    tax_expr: Expr = ["sum", ["int", 0], *taxes]
    return Piece(
        MORE, "case", "more than computed, for a stated reason", whole_expr if minor == wanted else ["min", whole_expr, minor],
        minor, tax_expr, value(tax_expr), tuple(codes.items()), tuple(parts), wanted - minor,
    )  # fmt: skip


def _codes(codes: Codes, minor: int) -> Codes:
    return split(codes, minor) if codes and minor else ()
