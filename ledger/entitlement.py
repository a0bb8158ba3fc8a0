"""What a return is worth, and why: one pure function from facts to an immutable record.

    derive(allocation, evidence, priors, policy, as_of) -> Entitlement

No clock, network, current price or model: the same inputs give the same bytes. Read in this order: the inputs
(`entitlement_facts`), which units may be paid for (`entitlement_rules`), what they are worth (`entitlement_pieces`),
which money goes back (`entitlement_draws`), then here how the record is put together. `entitlement_check` verifies it.

`total` is cumulative for the case; `payable_now` is what is still to be paid. After a payment a new entitlement covers
the difference only; a lower one claws nothing back (`overpaid_minor`, and a person looks).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from ledger.allocation import Allocation
from ledger.canonical import canonical_bytes, digest
from ledger.entitlement_draws import Draw, draws_of
from ledger.entitlement_facts import Evidence, PolicyTerms, Priors
from ledger.entitlement_pieces import PIECES, Piece, earlier
from ledger.entitlement_rules import RuleResult, Working, run_unit_rules
from ledger.entitlement_verdict import Verdict, money_rules, outcome_of, route_of

ENGINE = "1.0.0"
RECORD_TAG = "entitlement@1"

SUBTOTALS = ("goods", "promo", "shipping", "fees", "allowances", "deductions")

Outcome = Literal["payable", "wait", "nothing_due", "refused", "needs_review"]


@dataclass(frozen=True)
class Entitlement:
    """A derived record. `record` is the JSON document of the design, with its digest; the rest reads out of it.

    Amounts are minor units of `currency`; a draw's `minor` is of the capture's own currency.
    """

    record: Mapping[str, Any]
    draws: tuple[Draw, ...]
    rules: tuple[RuleResult, ...]

    @property
    def outcome(self) -> Outcome:
        outcome: Outcome = self.record["outcome"]
        return outcome

    @property
    def until(self) -> str | None:
        """With `wait`: the fact that would lift it, such as "received:L1"."""
        until: str | None = self.record["until"]
        return until

    @property
    def total_minor(self) -> int:
        return int(self.record["total"])

    @property
    def tax_minor(self) -> int:
        return int(self.record["tax"])

    @property
    def payable_now_minor(self) -> int:
        return int(self.record["payable_now"])

    @property
    def shortfall_minor(self) -> int:
        return int(self.record["funding_shortfall_minor"])

    @property
    def overpaid_minor(self) -> int:
        return int(self.record["overpaid_minor"])

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical record without this field."""
        return str(self.record["digest"])

    @cached_property
    def substance_digest(self) -> str:
        """The digest without the instant: equal when a later derivation says the same, so no new entitlement is due."""
        return digest({key: self.record[key] for key in self.record if key not in ("as_of", "digest")}, RECORD_TAG)

    def canonical(self) -> bytes:
        """The bytes to store."""
        return canonical_bytes(dict(self.record))


def derive(
    allocation: Allocation, evidence: Evidence, priors: Priors, policy: PolicyTerms, as_of: datetime
) -> Entitlement:
    """The entitlement of one case as of an instant (aware; only written down, never compared).

    Raises `ValueError` for an instant without a zone. Facts that do not allow a payment are outcomes, not errors.
    """
    if as_of.tzinfo is None:
        raise ValueError("as_of needs a time zone")
    work = Working(allocation, evidence, priors, policy)
    rules = run_unit_rules(work)
    pieces = [piece for make in PIECES for piece in make(work)]
    total = max(0, sum(piece.minor for piece in pieces))
    paid = sum(payment.order_minor for payment in priors.paid)
    draws, shortfall = draws_of(max(0, total - paid), allocation.currency, priors.captures)
    verdict = Verdict(total, paid, draws, shortfall)
    rules += money_rules(work, pieces, verdict)
    outcome, until = outcome_of(work, rules, verdict)
    record = {
        "engine": ENGINE,
        "case": evidence.case_ref,
        "order": allocation.order_ref,
        "as_of": _instant(as_of),
        "currency": allocation.currency,
        "exponent": allocation.exponent,
        "bound": _bound(allocation, evidence, priors, policy),
        "rules": [_rule(result) for result in rules],
        "lines": [_line(i, piece) for i, piece in enumerate(pieces, start=1)],
        "subtotals": _subtotals(pieces),
        "units": [[line_id, a, b] for line_id, units in work.units.items() for a, b in units],
        "claimed": _by_line(pieces),
        "retained": dict.fromkeys(_by_line(pieces), 0),
        "ceilings": _ceilings(work, pieces),
        "clipped": [piece.ref for piece in pieces if piece.clipped],
        "total": total,
        "net": total - sum(piece.tax for piece in pieces),
        "tax": sum(piece.tax for piece in pieces),
        "tax_known": all(work.line(piece.line_id).tax_known for piece in pieces),
        "paid_before": paid,
        "payable_now": verdict.payable_now,
        "overpaid_minor": max(0, paid - total),
        "draws": [_draw(draw) for draw in draws],
        "funding_shortfall_minor": shortfall,
        "outcome": outcome,
        "until": until,
        "route": route_of(work, rules, verdict),
    }
    record["digest"] = digest(record, RECORD_TAG)
    return Entitlement(record, draws, tuple(rules))


def _bound(allocation: Allocation, evidence: Evidence, priors: Priors, policy: PolicyTerms) -> dict[str, str]:
    return {
        "allocation": allocation.digest,
        "evidence": digest(evidence.document(), "evidence@1"),
        "priors": digest(priors.document(), "priors@1"),
        "terms": policy.cited,
    }


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _rule(result: RuleResult) -> dict[str, Any]:
    return {
        "id": result.id,
        "status": result.status,
        "scope": result.scope,
        "reason_code": result.reason_code,
        "facts": list(result.facts),
        "until": result.until,
    }


def _line(number: int, piece: Piece) -> dict[str, Any]:
    return {
        "i": number,
        "rule": piece.rule,
        "line": piece.line_id,
        "ref": piece.ref,
        "say": piece.say,
        "expr": piece.expr,
        "minor": piece.minor,
        "tax": {"expr": piece.tax_expr, "minor": piece.tax, "codes": dict(piece.codes)},
    }


def _draw(draw: Draw) -> dict[str, Any]:
    return {
        "capture": draw.capture_id,
        "currency": draw.currency,
        "order_expr": draw.order_expr,
        "order_minor": draw.order_minor,
        "expr": draw.expr,
        "minor": draw.minor,
        "available": draw.available_minor,
        "step": draw.step_minor,
    }


def _subtotals(pieces: Iterable[Piece]) -> dict[str, int]:
    sums = dict.fromkeys(SUBTOTALS, 0)
    for piece in pieces:
        sums[piece.rule.split(".", 1)[0]] += piece.minor
    return sums


def _by_line(pieces: Iterable[Piece]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for piece in pieces:
        sums[piece.line_id] = sums.get(piece.line_id, 0) + piece.minor
    return sums


def _ceilings(work: Working, pieces: Iterable[Piece]) -> dict[str, dict[str, int]]:
    return {
        line_id: {"allocated": work.line(line_id).gross_minor, "earlier": earlier(work, line_id)}
        for line_id in _by_line(pieces)
    }
