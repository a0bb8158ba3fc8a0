"""Amounts as small expressions that anyone can recompute: `["sub", ["cut", 5918, 3, 2, 1], ["cut", 5918, 3, 0, 1]]`.

Operators: int neg sum sub min max0 cut peel scale bps ref; arguments are whole numbers or expressions. `ref` names the
amount of an earlier line of the same record by its number. The checker has an evaluator of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ledger.money import bps, cut, peel, scale

Expr = Any
"""A whole number, or a list of an operator's name and its arguments."""

_OPERATORS: dict[str, Callable[..., int]] = {
    "int": lambda number: number,
    "neg": lambda number: -number,
    "sum": lambda *numbers: sum(numbers),
    "sub": lambda first, second: first - second,
    "min": min,
    "max0": lambda number: max(0, number),
    "cut": cut,
    "peel": peel,
    "scale": scale,
    "bps": bps,
}


def value(expr: Expr, lines: Mapping[int, int] | None = None) -> int:
    """What an expression comes to; `lines` gives the amounts `ref` may name. `MoneyError` where a primitive refuses."""
    if type(expr) is int:
        return expr
    operator, *arguments = expr
    numbers = [value(argument, lines) for argument in arguments]
    if operator == "ref":
        return (lines or {})[numbers[0]]
    return _OPERATORS[operator](*numbers)
