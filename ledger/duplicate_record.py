"""What a finding about charges owes, as the same kind of record a return's is: arithmetic that anyone can add up again.

Its one line is what is left of exactly one payment. It claims that payment ("claimed" names its charge) and no order line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from ledger.calendar_days import text
from ledger.canonical import digest
from ledger.duplicate_charges import FINDER, Charge, Finding, Inputs, Test, find, read_inputs, reason_of
from ledger.entitlement import RECORD_TAG

KIND: Final = "duplicate_charge"
_OUTCOMES: Final = {"verified": "payable", "none": "nothing_due", "investigate": "needs_review"}
_STATUS: Final = {"pass": "pass", "fail": "fail", "look": "needs_review"}


def owed(
    finding: Finding, inputs: Inputs, case_ref: str, exponent: int, terms: str, level: str, as_of: datetime
) -> dict[str, Any]:
    """The record of an entitlement. `terms` cites the policy, `level` is who decides (staff or a manager)."""
    paid = [finding.charge] if finding.charge else []
    total = sum(one.net_minor for one in paid)
    record: dict[str, Any] = {
        "engine": f"charges-{FINDER}",
        "case": case_ref,
        "kind": KIND,
        "order": inputs.order_ref,
        "as_of": text(as_of),
        "currency": inputs.currency,
        "exponent": exponent,
        "due_at": None,
        "bound": {"charges": inputs.digest, "terms": terms},
        "rules": [_rule(finding, test) for test in finding.tests],
        "lines": [_line(one) for one in paid],
        "subtotals": {"duplicate": total},
        "units": [],
        "claimed": {one.charge_ref: one.net_minor for one in paid},
        "retained": {one.charge_ref: 0 for one in paid},
        "released": {},
        "promo_retained": [],
        "ceilings": {
            one.charge_ref: {"allocated": one.captured_minor, "earlier": one.captured_minor - one.net_minor}
            for one in paid
        },
        "clipped": [],
        "total": total,
        "net": total,
        "tax": 0,
        "tax_known": False,
        "paid_before": 0,
        "payable_now": total,
        "overpaid_minor": 0,
        "draws": [_draw(one) for one in paid],
        "funding_shortfall_minor": 0,
        "outcome": _OUTCOMES[finding.verdict],
        "until": None,
        "route": {"level": level, "because": [f"duplicate.charge:{reason_of(finding)}"]},
    }
    record["digest"] = digest(record, RECORD_TAG)
    return record


def again(record: Mapping[str, Any], charges: str) -> dict[str, Any]:
    """The record that the stored charges give today, decided by whom and under what `record` says. Raises ValueError, TypeError or
    KeyError for what cannot be read."""
    inputs = read_inputs(json.loads(charges))
    return owed(
        find(inputs), inputs, record["case"], record["exponent"], record["bound"]["terms"], record["route"]["level"],
        datetime.fromisoformat(record["as_of"]),
    )  # fmt: skip


def _rule(finding: Finding, test: Test) -> dict[str, Any]:
    decided = test.id == finding.decided_by and finding.verdict == "none"
    return {
        "id": test.id, "status": _STATUS[test.status], "scope": "case",
        "reason_code": finding.lookalike if decided else test.reason or "holds", "facts": list(test.facts), "until": None,
    }  # fmt: skip


def _expr(charge: Charge) -> list[Any]:
    taken = [charge.refunded_minor, charge.reserved_minor, charge.disputed_minor]
    return ["sub", charge.captured_minor, ["sum", *taken]] if any(taken) else ["int", charge.captured_minor]


def _line(charge: Charge) -> dict[str, Any]:
    return {
        "i": 1, "rule": "duplicate.charge", "ref": charge.charge_ref, "say": "Charged a second time: what is left of that payment",
        "expr": _expr(charge), "minor": charge.net_minor, "parts": {charge.charge_ref: charge.net_minor},
        "tax": {"expr": ["int", 0], "minor": 0, "codes": {}},
    }  # fmt: skip


def _draw(charge: Charge) -> dict[str, Any]:
    return {
        "capture": charge.capture_id, "currency": charge.currency, "order_expr": _expr(charge),
        "order_minor": charge.net_minor, "expr": _expr(charge), "minor": charge.net_minor, "available": charge.net_minor,
        "step": charge.step_minor,
    }  # fmt: skip
