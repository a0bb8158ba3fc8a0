"""An entitlement as arithmetic on paper: what a clerk can follow, in the order of the record, from the record alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ledger.money import format_minor


def explain(record: Mapping[str, Any]) -> list[str]:
    """Inputs, lines with expression, rule and tax, sums, payments, deadline, rules, and who decides with the reasons.

    Amounts are in the decimals of their currency, expressions in minor units. Raises KeyError, TypeError or ValueError for a
    record that is none.
    """
    return [line for part in (_head, _lines, _sums, _payments, _rules, _end) for line in part(record)]


def _money(minor: int, currency: str) -> str:
    return f"{format_minor(minor, currency)} {currency}"


def _head(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"entitlement of case {record['case']} on order {record['order']}, as of {record['as_of']}, engine {record['engine']}"
    yield from (f"bound {name}: {value}" for name, value in record["bound"].items())
    for part in record.get("policies", ()):
        yield f"policy {part['policy']} decides {', '.join(part['lines'])}: {_money(part['minor'], record['currency'])}"
    track = record.get("track")
    if track is not None:
        totals = [f"{name} {_money(track[f'{name}_total'], record['currency'])}" for name in ("merchant", "statutory")
                  if track[f"{name}_total"] is not None]  # fmt: skip
        law = f" ({track['statute']})" if track["statute"] else ""
        yield f"track {track['chosen']}{law if track['chosen'] == 'statutory' else ''}, of {' and '.join(totals)}"


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    currency = record["currency"]
    for line in record["lines"]:
        tax = line["tax"]
        yield f"{line['i']}. {line['say']}: {_money(line['minor'], currency)}, tax {_money(tax['minor'], currency)}"
        yield f"   {written(line['expr'])}   [{line['rule']}, {line['ref']}]"
        if tax["minor"]:
            codes = ", ".join(f"{code} {_money(minor, currency)}" for code, minor in tax["codes"].items())
            yield f"   tax {written(tax['expr'])}   [{codes}]"


def _sums(record: Mapping[str, Any]) -> Iterator[str]:
    def money(minor: int) -> str:
        return _money(minor, record["currency"])

    yield from (f"{name}: {money(minor)}" for name, minor in record["subtotals"].items() if minor)
    yield from (f"cut short: {rule} of {ref} by {money(minor)}" for ref, rule, minor in record["clipped"])
    for line, claimed in record["claimed"].items():
        kept, released = record["retained"][line], record.get("released", {}).get(line, 0)
        if kept or released:
            yield f"of {line}: claimed {money(claimed)}, kept back {money(kept)}, let go again {money(released)}"
    yield f"total {money(record['total'])} = net {money(record['net'])} + tax {money(record['tax'])}"
    yield f"paid before {money(record['paid_before'])}, payable now {money(record['payable_now'])}"
    if "override" in record:
        said = record["override"]
        yield f"computed {money(said['computed_minor'])}, asked for {money(said['minor'])} by {said['asked_by']}: {said['reason']}"
    if record["overpaid_minor"]:
        yield f"paid above what is owed: {money(record['overpaid_minor'])}"


def _payments(record: Mapping[str, Any]) -> Iterator[str]:
    for draw in record["draws"]:
        own, owed = _money(draw["minor"], draw["currency"]), _money(draw["order_minor"], record["currency"])
        yield f"to {draw['capture']}: {own} for {owed}   {written(draw['expr'])}"
    if record["funding_shortfall_minor"]:
        yield f"no payment holds {_money(record['funding_shortfall_minor'], record['currency'])} of it"


def _rules(record: Mapping[str, Any]) -> Iterator[str]:
    for rule in record["rules"]:
        facts = f" ({', '.join(rule['facts'])})" if rule["facts"] else ""
        until = f", until {rule['until']}" if rule["until"] else ""
        yield f"{rule['status']}: {rule['id']} of {rule['scope']}, {rule['reason_code']}{facts}{until}"


def _end(record: Mapping[str, Any]) -> Iterator[str]:
    yield f"due {record.get('due_at') or 'by no day: what it would count from is not known'}"
    if "inspect_by" in record:
        yield f"what is here is looked at by {record['inspect_by']}"
    route = record["route"]
    because = f", because {'; '.join(route['because'])}" if route["because"] else ""
    until = f" until {record['until']}" if record["until"] else ""
    yield f"outcome {record['outcome']}{until}, decided by {route['level']}{because}"


def written(expr: Any) -> str:
    """An expression as a formula of its primitives: "cut(5918, 3, 2, 1) − cut(5918, 3, 0, 1)"."""
    if not isinstance(expr, list):
        return str(expr)
    operator, *arguments = expr
    inner = [written(argument) for argument in arguments]
    if operator == "int":
        return inner[0]
    if operator == "sub":
        return f"{inner[0]} − {_bracketed(arguments[1], inner[1])}"
    return f"−({inner[0]})" if operator == "neg" else f"{operator}({', '.join(inner)})"


def _bracketed(argument: Any, text: str) -> str:
    return f"({text})" if isinstance(argument, list) and argument[0] == "sub" else text
