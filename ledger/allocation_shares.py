"""How an order discount spreads over lines: the named methods. Shares sum to the discount, none is above its line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ledger.money import spread

_ROUNDS = 64
"""Times `quantity.cumulative@1` goes again over uncapped lines; what is left after that spreads by value."""


def by_value(discount: int, values: Sequence[int], _quantities: Sequence[int]) -> list[int]:
    """`value.cumulative@1`: over the lines' values, cumulative rounding in position order."""
    return spread(discount, values)


def by_largest_remainder(discount: int, values: Sequence[int], _quantities: Sequence[int]) -> list[int]:
    """`value.largest_remainder@1`: floors, then one each by largest remainder; tie: larger value, lower position."""
    whole = sum(values)
    if whole == 0:
        return spread(discount, values)
    shares = [discount * value // whole for value in values]
    order = sorted(range(len(values)), key=lambda i: (-(discount * values[i] % whole), -values[i], i))
    for index in order[: discount - sum(shares)]:
        shares[index] += 1
    return shares


def by_quantity(discount: int, values: Sequence[int], quantities: Sequence[int]) -> list[int]:
    """`quantity.cumulative@1`: evenly per unit; a share is capped at its line's value, the rest goes to the others."""
    shares = [0] * len(values)
    left, open_lines = discount, list(range(len(values)))
    for _ in range(_ROUNDS):
        given = spread(left, [quantities[i] for i in open_lines]) if open_lines else []
        capped = [i for i, share in zip(open_lines, given, strict=True) if share > values[i]]
        if not capped:
            for i, share in zip(open_lines, given, strict=True):
                shares[i] = share
            return shares
        for i in capped:
            shares[i] = values[i]
            left -= values[i]
        closed = set(capped)
        open_lines = [i for i in open_lines if i not in closed]
    for i, share in zip(open_lines, spread(left, [values[i] for i in open_lines]), strict=True):
        shares[i] = share
    return shares


METHODS: dict[str, Callable[[int, Sequence[int], Sequence[int]], list[int]]] = {
    "value.cumulative@1": by_value,
    "value.largest_remainder@1": by_largest_remainder,
    "quantity.cumulative@1": by_quantity,
}


def discount_shares(
    method: str, discount: int, values: Sequence[int], quantities: Sequence[int], left: Sequence[int]
) -> list[int]:
    """Shares of `discount` over lines worth `values`, of which `left` remains after earlier discounts.

    The base is `values`; where that would take more from a line than is left of it (several discounts, each rounded on
    its own), the base is `left`. Needs discount ≤ Σ left and 0 ≤ left ≤ values.
    """
    shares = METHODS[method](discount, values, quantities)
    if any(share > rest for share, rest in zip(shares, left, strict=True)):
        return METHODS[method](discount, left, quantities)
    return shares
