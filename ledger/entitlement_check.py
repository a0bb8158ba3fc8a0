"""Verifies an entitlement record while knowing nothing of refunds: only that its figures follow from one another.

It shares no arithmetic with the engine: expressions are recomputed here with exact fractions. `check` returns what is
wrong, in words; an empty list means the record holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import floor
from typing import Any

from ledger.canonical import CanonicalError, digest
from ledger.entitlement_catalogue import CATALOGUE

RECORD_TAG = "entitlement@1"
NOT_ITS_DIGEST = "the digest is not that of the record"

APART = frozenset(
    {
        "promo.adjustment", "promo.gift_kept", "deductions.restocking", "deductions.label", "allowances.exchange",
        "deductions.override", "allowances.override",
    }
)  # fmt: skip
"""Lines whose tax is that of several ranges, or stands apart from a fee; the total holds it."""

Record = Mapping[str, Any]


class _RefusedError(Exception):
    """An expression or a figure has a form the record may not have."""


def check(record: Record, bound: Mapping[str, str] | None = None) -> list[str]:
    """Everything wrong with a record. With `bound`, its digests of inputs must be exactly these."""
    wrong: list[str] = []
    try:
        for look in (_digest, _lines, _totals, _claims, _payment, _rules, _override, _policies):
            wrong.extend(look(record))
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError, _RefusedError) as error:
        wrong.append(f"the record lacks a part or holds something else in its place: {error!r}")
    if bound is not None and dict(record.get("bound", {})) != dict(bound):
        wrong.append("the record is bound to other inputs")
    return wrong


def _digest(record: Record) -> list[str]:
    body = {key: value for key, value in record.items() if key != "digest"}
    try:
        found = digest(body, RECORD_TAG)
    except CanonicalError as error:
        return [f"the record is not canonical JSON: {error}"]
    return [] if found == record["digest"] else [NOT_ITS_DIGEST]


def _lines(record: Record) -> list[str]:
    wrong: list[str] = []
    before: dict[int, int] = {}
    for number, line in enumerate(record["lines"], start=1):
        name, tax = f"line {number}", line["tax"]
        if line["i"] != number:
            wrong.append(f"{name} is numbered {line['i']}")
        if _value(line["expr"], before) != _int(line["minor"]):
            wrong.append(f"{name}: the expression does not give {line['minor']}")
        if _value(tax["expr"], before) != _int(tax["minor"]):
            wrong.append(f"{name}: the tax expression does not give {tax['minor']}")
        if sum(_int(minor) for minor in tax["codes"].values()) != tax["minor"]:
            wrong.append(f"{name}: the tax codes do not sum to its tax")
        if line["rule"] not in APART and not min(0, line["minor"]) <= tax["minor"] <= max(0, line["minor"]):
            wrong.append(f"{name}: the tax is not inside the amount")
        if sum(_int(minor) for minor in _parts(line).values()) != line["minor"]:
            wrong.append(f"{name}: its parts by line of the order do not sum to it")
        before[number] = line["minor"]
    return wrong


def _parts(line: Record) -> Mapping[str, int]:
    """What an amount is of each line of the order. Records of engine 1 name one line."""
    parts: Mapping[str, int] = line["parts"] if "parts" in line else {line["line"]: line["minor"]}
    return parts


def _totals(record: Record) -> list[str]:
    wrong = []
    sums = dict.fromkeys(record["subtotals"], 0)
    for line in record["lines"]:
        sums[line["rule"].split(".", 1)[0]] += line["minor"]
    for name, minor in record["subtotals"].items():
        if sums[name] != _int(minor):
            wrong.append(f"the subtotal {name} is not the sum of its lines")
    if max(0, sum(sums.values())) != _int(record["total"]):
        wrong.append("the subtotals do not sum to the total")
    if sum(line["tax"]["minor"] for line in record["lines"]) != _int(record["tax"]):
        wrong.append("the taxes of the lines do not sum to the tax")
    track = record.get("track")
    if track is not None and track[f"{track['chosen']}_total"] != record["total"]:
        wrong.append("the total is not that of the track that was chosen")
    if _int(record["net"]) + record["tax"] != record["total"]:
        wrong.append("net and tax do not sum to the total")
    if not 0 <= record["tax"] <= record["total"]:
        wrong.append("the tax is not inside the total")
    codes: dict[str, int] = {}
    for line in record["lines"]:
        for code, minor in line["tax"]["codes"].items():
            codes[code] = codes.get(code, 0) + minor
    if any(minor < 0 for minor in codes.values()):
        wrong.append("a tax code is below zero in all")
    return wrong


def _claims(record: Record) -> list[str]:
    wrong = []
    payable: dict[str, int] = {}
    for line in record["lines"]:
        for name, minor in _parts(line).items():
            payable[name] = payable.get(name, 0) + minor
    released = record.get("released", {})
    if not set(payable) == set(record["claimed"]) == set(record["retained"]) == set(record["ceilings"]):
        return ["claims, retained amounts and ceilings are not of the lines of the record"]
    if not set(released) <= set(payable):
        return ["what is released is not of the lines of the record"]
    for name, minor in payable.items():
        claimed, retained, ceiling = record["claimed"][name], record["retained"][name], record["ceilings"][name]
        loose = _int(released.get(name, 0))
        if _int(claimed) - _int(retained) + loose != minor or min(retained, loose) < 0 or retained > max(0, claimed):
            wrong.append(f"{name}: claimed less retained is not what is payable on it")
        if claimed + _int(ceiling["earlier"]) > _int(ceiling["allocated"]) and claimed > 0:
            wrong.append(f"{name}: claims are above what the line was charged at")
    spans: dict[str, int] = {}
    for name, start, end in record["units"]:
        if not spans.get(name, 0) <= _int(start) < _int(end):
            wrong.append(f"{name}: units [{start},{end}) overlap or run backwards")
        spans[name] = end
    return wrong


def _payment(record: Record) -> list[str]:
    wrong = []
    owed, paid, over = (_int(record[name]) for name in ("payable_now", "paid_before", "overpaid_minor"))
    if min(owed, paid, over) < 0 or (owed and over) or paid + owed - over != record["total"]:
        wrong.append("what was paid and what is payable do not make the total")
    drawn = _int(record["funding_shortfall_minor"])
    for draw in record["draws"]:
        drawn += _int(draw["order_minor"])
        if _value(draw["expr"], {}) != _int(draw["minor"]) or draw["minor"] <= 0:
            wrong.append(f"the draw on {draw['capture']} is not what its expression gives")
        if _value(draw["order_expr"], {}) != draw["order_minor"] or draw["order_minor"] <= 0:
            wrong.append(f"the draw on {draw['capture']} pays another part of the order than its expression gives")
        if draw["minor"] > _int(draw["available"]):
            wrong.append(f"the draw on {draw['capture']} is above what the capture holds")
        if _int(draw["step"]) < 1 or draw["minor"] % draw["step"]:
            wrong.append(f"the draw on {draw['capture']} is off its step")
    if drawn != owed or record["funding_shortfall_minor"] < 0:
        wrong.append("draws and shortfall do not sum to what is payable")
    captures = [draw["capture"] for draw in record["draws"]]
    if len(set(captures)) != len(captures):
        wrong.append("a capture is drawn on twice")
    if record["outcome"] == "payable" and not captures:
        wrong.append("the outcome is payable and nothing is drawn")
    return wrong


def _override(record: Record) -> list[str]:
    """What was computed stands beside what was asked for, and one line makes the difference."""
    moved = sum(line["minor"] for line in record["lines"] if line["rule"].endswith(".override"))
    said = record.get("override")
    if said is None:
        return ["a line overrides what was computed, and the record does not say so"] if moved else []
    if _int(said["minor"]) != record["total"] or _int(said["computed_minor"]) + moved != said["minor"] or not moved:
        return ["what was computed and what was asked for do not differ by the line that says so"]
    return []


def _policies(record: Record) -> list[str]:
    """Where several policies decide, each line is one policy's, and what they come to is the whole."""
    parts = record.get("policies")
    if parts is None:
        return []
    lines = [line for part in parts for line in part["lines"]]
    wrong = [] if len(set(lines)) == len(lines) and len(parts) > 1 else ["a line is decided by two policies"]
    if max(0, sum(_int(part["minor"]) for part in parts)) != record["total"]:
        wrong.append("what the policies decide does not sum to the total")
    return wrong


def _rules(record: Record) -> list[str]:
    cited = {rule["id"] for rule in record["rules"]} | {line["rule"] for line in record["lines"]}
    return [f"rule {name} is not in the catalogue" for name in sorted(cited - set(CATALOGUE))]


def _int(value: object) -> int:
    if type(value) is not int:
        raise _RefusedError(f"{value!r} is not a whole number")
    return value


def _half_up(exact: Fraction) -> int:
    return floor(exact + Fraction(1, 2))


def _cut(total: int, quantity: int, count: int, step: int = 1) -> int:
    if not 0 <= count <= quantity or quantity < 1 or step < 1 or total % step:
        raise _RefusedError("cut of more units than there are, or off its step")
    return step * _half_up(Fraction(total * count, quantity * step))


def _peel(held: int, whole: int, first: int) -> int:
    if not (0 <= held <= whole and 0 <= first <= whole):
        raise _RefusedError("peel of more than the whole")
    return _half_up(Fraction(held * first, whole)) if whole else 0


def _scale(amount: int, whole: int, ratio: int) -> int:
    if whole < 1:
        raise _RefusedError("scale without a whole")
    return _half_up(Fraction(amount * ratio, whole))


_OPERATORS: dict[str, Callable[..., int]] = {
    "int": lambda number: number,
    "neg": lambda number: -number,
    "sum": lambda *numbers: sum(numbers),
    "sub": lambda first, second: first - second,
    "min": lambda *numbers: min(numbers),
    "max0": lambda number: max(0, number),
    "cut": _cut,
    "peel": _peel,
    "scale": _scale,
    "bps": lambda amount, rate: _half_up(Fraction(amount * rate, 10_000)),
}


def _value(expr: object, lines: Mapping[int, int]) -> int:
    if not isinstance(expr, list):
        return _int(expr)
    operator, *arguments = expr
    numbers = [_value(argument, lines) for argument in arguments]
    if operator == "ref":
        return lines[numbers[0]]
    if operator not in _OPERATORS:
        raise _RefusedError(f"{operator!r} is not an operator")
    return _OPERATORS[operator](*numbers)
