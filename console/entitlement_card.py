"""The entitlement card of the case page: the record as arithmetic, each line with what it was made of, then how it was derived."""

import re
from datetime import datetime
from typing import Any, Final

from console import words
from console.filters import instant, money
from console.kind_words import computed
from console.policy_words import route_reasons
from console.workings import FOUND, reasons, rule_name, tax_text, working
from ledger.entitlement_check import check
from ledger.entitlement_explain import written
from ledger.queries.case import StoredEntitlement

LEVELS: Final = {
    "auto": "the policy", "staff": "the returns desk", "manager": "a manager", "two_managers": "two managers",
}  # fmt: skip
TRACKS: Final = {"merchant": "the shop's own terms", "statutory": "the law"}
INPUTS: Final = {
    "allocation": "Order",
    "evidence": "Evidence",
    "priors": "Payments before",
    "charges": "Charges",
    "terms": "Policy",
}
_RANGE: Final = re.compile(r"\[(\d+),(\d+)\)")
PASSED: Final = {"pass": "yes", "fail": "no", "needs_review": "a person looks"}


def entitlement(found: StoredEntitlement | None, *, at_evidence: bool) -> dict[str, Any] | None:
    """What templates/case.html names `entitlement`; None when no units are worth anything yet.

    `at_evidence`: the page has inspections that a line of goods can point to.
    """
    if found is None or not any(line["minor"] for line in found.record["lines"]):
        return None
    record = found.record
    return {
        "version": found.n,
        "policy": found.policy,
        "currency": found.currency,
        "total_minor": found.total_minor,
        "paid_minor": int(record["paid_before"]),
        "payable_minor": found.payable_minor,
        "tax_minor": found.tax_minor,
        "tax_text": tax_text(record),
        "computed": computed(record.get("override"), found.currency),
        "checked": not check(record),
        "lines": [_line(line, found.currency, at_evidence) for line in record["lines"]],
        "because": [words.sentence(reason) for reason in reasons(record)],
        "derived": _derived(record),
        "inputs": [
            {"term": term, "named": named.rpartition(" ")[0], "digest": named.rpartition(" ")[2]}
            for name, term in INPUTS.items()
            if name in record["bound"]
            for named in [str(record["bound"][name])]
        ],
        "rules": [_rule(rule, found.currency) for rule in record["rules"]],
    }


def _line(line: dict[str, Any], currency: str, at_evidence: bool) -> dict[str, Any]:
    tax = line["tax"]
    return {
        "say": line["say"], "working": working(line["expr"], currency), "rule": line["rule"], "amount_minor": line["minor"],
        "evidence_url": "#evidence" if at_evidence and line["rule"] == "goods.units" else None,
        "of": line["ref"], "formula": written(line["expr"]), "tax_minor": tax["minor"],
        "tax_working": working(tax["expr"], currency),
        "tax_formula": written(tax["expr"]), "tax_codes": ", ".join(code for code, minor in tax["codes"].items() if minor),
    }  # fmt: skip


def _derived(record: dict[str, Any]) -> list[dict[str, str]]:
    """When and by what it was derived, whose terms counted, what each payment gives, by when, and who decides."""
    currency = record["currency"]
    facts = [("Derived", f"{instant(datetime.fromisoformat(record['as_of']))}, engine {record['engine']}")]
    track = record.get("track")
    if track is not None:
        other = "merchant" if track["chosen"] == "statutory" else "statutory"
        beside = track[f"{other}_total"]
        law = f" ({track['statute']})" if track["chosen"] == "statutory" else ""
        instead = f"; by {TRACKS[other]} {money(beside, currency)} {currency}" if beside is not None else ""
        facts.append(("Owed by", f"{TRACKS[track['chosen']]}{law}{instead}"))
    for name, minor in record["subtotals"].items():
        if minor:
            facts.append((words.sentence(name), f"{money(minor, currency)} {currency}"))
    facts += [
        ("Cut short", f"{money(minor, currency)} {currency} of {rule}, {ref}") for ref, rule, minor in record["clipped"]
    ]
    facts += [("Payment", f"{money(draw['minor'], draw['currency'])} {draw['currency']}: {working(draw['expr'], draw['currency'])}")
              for draw in record["draws"]]  # fmt: skip
    if record["funding_shortfall_minor"]:
        facts.append(("No payment holds", f"{money(record['funding_shortfall_minor'], currency)} {currency}"))
    if record.get("due_at"):
        facts.append(("Pay by", instant(datetime.fromisoformat(record["due_at"]))))
    route = record["route"]
    why = route_reasons(route, currency, FOUND)
    because = f" ({'; '.join(why)})" if why else ""
    facts.append(("Decided by", f"{LEVELS.get(route['level'], route['level'])}{because}"))
    return [{"term": term, "text": text} for term, text in facts]


def _rule(rule: dict[str, Any], currency: str) -> dict[str, str]:
    """A rule that was asked, what it is about, and what it found."""
    code = str(rule["reason_code"])
    found = "" if code == "holds" else f", {FOUND.get(code, code.replace('_', ' '))}"
    until = f", until {rule['until']}" if rule["until"] else ""
    facts = f" ({', '.join(_fact(str(fact), currency) for fact in rule['facts'])})" if rule["facts"] else ""
    return {
        "id": rule["id"],
        "name": rule_name(rule["id"]),
        "scope": _scope(str(rule["scope"])),
        "text": f"{PASSED[rule['status']]}{found}{until}{facts}",
    }


def _fact(fact: str, currency: str) -> str:
    """ "kept_goods_minor:8041" as "kept goods 80.41 EUR", "completed:2" as "completed 2"."""
    name, _, value = fact.partition(":")
    if name.endswith("_minor") and value.isdecimal():
        return f"{name.removesuffix('_minor').replace('_', ' ')} {money(int(value), currency)} {currency}"
    return f"{name.replace('_', ' ')} {value}" if value else fact


def _scope(code: str) -> str:
    """What a rule was asked about: "" for the whole case, "L1, units 1 and 2" for units of a line."""
    if code == "case":
        return ""
    line, units, _ = code.partition("[")
    ranges = [(int(a), int(b)) for a, b in _RANGE.findall(code)] if units else []
    return f"{line}, {words.units(ranges)}" if ranges else code
