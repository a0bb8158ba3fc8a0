"""A bundle's price over its components, by an approved method: the parent then carries no money.

`bundle.ssp@1` by stand-alone price times count (the accounting default), `bundle.weights@1` by approved weights,
`bundle.equal@1` alike for each component line, `bundle.explicit@1` as the shop gave it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.allocation_checks import Discrepancy, named
from ledger.allocation_methods import BundleMethod
from ledger.allocation_tax import LineTax, TaxShare
from ledger.money import peel, spread
from ledger.order_facts import LineFacts


def share_bundles(
    lines: Sequence[LineFacts], grosses: list[int], taxes: list[LineTax], method: BundleMethod, found: list[Discrepancy]
) -> None:
    """Moves gross and tax of each bundle's parent onto its components, in line order; names what cannot be shared."""
    members: dict[str, list[int]] = {}
    for i, line in enumerate(lines):
        if line.bundle is not None:
            members.setdefault(line.bundle.parent_line, []).append(i)
    for parent, line in enumerate(lines):
        at = members.get(line.line_ref)
        if at is None:
            continue
        gross = grosses[parent]
        shares = _shares(gross, [lines[i] for i in at], method)
        if shares is None or sum(shares) != gross:
            facts: dict[str, int | str] = {
                "line": line.line_ref,
                "line_minor": gross,
                "shares_minor": sum(shares or ()),
            }
            found.append(named("explicit_mismatch", "the components of a bundle do not make up its price", **facts))
            continue
        stated = [taxes[i] for i in at]
        carried = _tax_over(taxes[parent], gross, shares)
        for i, share, own, moved in zip(at, shares, stated, carried, strict=True):
            grosses[i] = share
            taxes[i] = own if own.minor is not None else moved
        grosses[parent], taxes[parent] = 0, LineTax(0)


def _shares(gross: int, components: Sequence[LineFacts], method: BundleMethod) -> list[int] | None:
    if method == "bundle.explicit@1":
        return [line.gross_minor or 0 for line in components]
    if method == "bundle.equal@1":
        weights = [1] * len(components)
    elif method == "bundle.weights@1":
        weights = [line.quantity * (line.bundle.weight_minor or 0) for line in components if line.bundle is not None]
    else:
        weights = [line.quantity * max(0, line.unit_price_minor) for line in components]
    if not sum(weights):
        return [0] * len(components) if not gross else None
    return spread(gross, weights)


def _tax_over(tax: LineTax, gross: int, shares: Sequence[int]) -> list[LineTax]:
    """The parent's tax on its components: peeled by value, code after code, so both ways of adding up hold."""
    if tax.minor is None or tax.gap or tax.minor > gross:
        return [LineTax(tax.minor if i == 0 else None, gap=tax.gap) for i, _ in enumerate(shares)]
    found, reached, before = [], 0, [0] * len(tax.codes)
    for share in shares:
        reached += share
        after = split_codes([code.minor for code in tax.codes], peel(tax.minor, gross, reached))
        codes = tuple(
            TaxShare(code.code, code.rate_ppm, high - low)
            for code, low, high in zip(tax.codes, before, after, strict=True)
        )
        minor = peel(tax.minor, gross, reached) - peel(tax.minor, gross, reached - share)
        found.append(LineTax(minor, codes, tax.method))
        before = after
    return found


def split_codes(held: Sequence[int], minor: int) -> list[int]:
    """`minor` of a tax over its codes: the first is peeled from the tax, the next from the rest."""
    whole, found = sum(held), []
    for part in held:
        share = peel(part, whole, minor)
        found.append(share)
        whole, minor = whole - part, minor - share
    return found
