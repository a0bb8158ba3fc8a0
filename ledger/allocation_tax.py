"""The tax inside one line: as the shop charged it, or at the rate the shop stated; never at a rate of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ledger.money import ppm, scale, spread
from ledger.order_facts import LineFacts, TaxFacts

AS_CHARGED = "tax.as_charged@1"
AT_RATE = "tax.at_rate@1"
BY_RATE = "tax.by_rate@1"
UNCODED = "tax"
"""Code of a line's tax when the shop states the amount without a code."""


@dataclass(frozen=True, slots=True)
class TaxShare:
    """The minor units of one tax code on a line; `rate_ppm` as the shop stated it, None when it did not."""

    code: str
    rate_ppm: int | None
    minor: int


@dataclass(frozen=True, slots=True)
class LineTax:
    """`minor` None: the shop stated neither tax nor rate. `gap`: stated figures that contradict each other."""

    minor: int | None
    codes: tuple[TaxShare, ...] = ()
    method: str = AS_CHARGED
    gap: bool = False


def line_tax(line: LineFacts, price_mode: Literal["inclusive", "exclusive"], value_minor: int) -> LineTax:
    """Tax of a line worth `value_minor` after all discounts, in the order's price mode; the shop's own figures win."""
    if not line.taxes:
        if line.tax_minor is None:
            return LineTax(None)
        return LineTax(line.tax_minor, (TaxShare(UNCODED, None, line.tax_minor),) if line.tax_minor else ())
    stated = [tax.minor for tax in line.taxes if tax.minor is not None]
    if len(stated) == len(line.taxes):
        return _as_charged(line, stated)
    rates = [tax.rate_ppm or 0 for tax in line.taxes]
    if line.tax_minor is not None and not stated:
        if line.tax_minor and not sum(rates):
            return LineTax(line.tax_minor, gap=True)
        return LineTax(line.tax_minor, _codes(line, spread(line.tax_minor, rates) if sum(rates) else [0] * len(rates)))
    computed = _at_rate(line, price_mode, value_minor, rates)
    minors = [at if tax.minor is None else tax.minor for tax, at in zip(line.taxes, computed, strict=True)]
    gap = line.tax_minor is not None and line.tax_minor != sum(minors)
    return LineTax(sum(minors), _codes(line, minors), AT_RATE, gap)


def _as_charged(line: LineFacts, stated: list[int]) -> LineTax:
    total = sum(stated)
    gap = line.tax_minor is not None and line.tax_minor != total
    return LineTax(total if line.tax_minor is None else line.tax_minor, _codes(line, stated), gap=gap)


def _at_rate(line: LineFacts, price_mode: str, value_minor: int, rates: list[int]) -> list[int]:
    if line.gross_minor is None and price_mode == "exclusive":
        return [ppm(max(0, value_minor), rate) for rate in rates]
    gross = max(0, value_minor if line.gross_minor is None else line.gross_minor)
    together = sum(rates)
    return spread(scale(gross, 1_000_000 + together, together), rates) if together else [0] * len(rates)


def _codes(line: LineFacts, minors: list[int]) -> tuple[TaxShare, ...]:
    return tuple(TaxShare(tax.code, tax.rate_ppm, minor) for tax, minor in zip(line.taxes, minors, strict=True))


def by_rate(
    lines: Sequence[LineFacts],
    values: Sequence[int],
    taxes: Sequence[LineTax],
    totals: Sequence[TaxFacts],
    *,
    pooled: bool = False,
) -> list[LineTax]:
    """`tax.by_rate@1`: each code's total over the lines that name the code, by taxable value; lines' own figures win.

    `pooled`, where a policy names the method: over every line with codes, whatever it states itself; a code without a total of
    the order has the sum of its lines.
    """
    over = [i for i, line in enumerate(lines) if (bool(line.taxes) and not taxes[i].gap if pooled else _silent(line))]
    found: dict[int, list[TaxShare]] = {index: [] for index in over}
    for total in [*totals, *_summed([taxes[i] for i in over] if pooled else (), totals)]:
        at = [i for i in over if any(tax.code == total.code for tax in lines[i].taxes)]
        weights = [max(0, values[i]) for i in at]
        if total.minor is None or not at or (not sum(weights) and total.minor):
            return [LineTax(None) if i in found else tax for i, tax in enumerate(taxes)]
        for i, share in zip(at, spread(total.minor, weights), strict=True):
            found[i].append(TaxShare(total.code, total.rate_ppm, share))
    return [
        LineTax(sum(share.minor for share in found[i]), tuple(found[i]), BY_RATE) if i in found else tax
        for i, tax in enumerate(taxes)
    ]


def _summed(taxes: Sequence[LineTax], totals: Sequence[TaxFacts]) -> list[TaxFacts]:
    """The total of each code that the order states none of, in the order in which the lines name them."""
    known = {total.code for total in totals}
    sums: dict[str, int] = {}
    rates: dict[str, int | None] = {}
    for share in (share for tax in taxes for share in tax.codes if share.code not in known):
        sums[share.code] = sums.get(share.code, 0) + share.minor
        rates.setdefault(share.code, share.rate_ppm)
    return [TaxFacts(code=code, rate_ppm=rates[code], minor=minor) for code, minor in sums.items()]


def _silent(line: LineFacts) -> bool:
    """Names codes and states no amount of them."""
    return line.tax_minor is None and bool(line.taxes) and all(tax.minor is None for tax in line.taxes)
