"""What a return is worth, and why: one pure function from facts to an immutable record.

    derive(allocation, evidence, priors, policy, as_of) -> Entitlement

No clock, network, current price or model: the same inputs give the same bytes. Read in this order: the inputs
(`entitlement_facts`, `policy_terms`), what the law gives (`entitlement_presets`), which units may be paid for (`entitlement_rules`,
`entitlement_products`, `entitlement_windows`, `entitlement_conflicts`), what they are worth (`entitlement_pieces`,
`entitlement_promo`, `entitlement_shipping`, `entitlement_deductions`, `entitlement_allowances`), how several policies decide one
return (`entitlement_parts`), which money goes back (`entitlement_draws`), what follows (`entitlement_verdict`), which track counts
(`entitlement_tracks`), by when (`entitlement_deadlines`), then here how the record is put together. `entitlement_check` verifies
it, `entitlement_explain` prints it.

A consumer's statutory track and the merchant's own are derived apart, never mixed; of what is payable now the larger counts.

`total` is cumulative for the case; `payable_now` is what is still to be paid. After a payment a new entitlement covers
the difference only; a lower one claws nothing back (`overpaid_minor`, and a person looks).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal

from ledger.allocation_lines import Allocation
from ledger.calendar_days import text
from ledger.canonical import canonical_bytes, digest
from ledger.entitlement_deadlines import due_at, inspect_by
from ledger.entitlement_deductions import treatment
from ledger.entitlement_draws import Draw
from ledger.entitlement_facts import Evidence, Priors
from ledger.entitlement_inputs import Inputs, inputs_of
from ledger.entitlement_override import room
from ledger.entitlement_parts import by_policy
from ledger.entitlement_pieces import Piece
from ledger.entitlement_tracks import Tracks, track, tracks_of
from ledger.entitlement_verdict import outcome_of, route_of
from ledger.entitlement_working import RuleResult, Working
from ledger.policy_terms import PolicyTerms

ENGINE: Final = "2.2.0"
RECORD_TAG: Final = "entitlement@1"

SUBTOTALS: Final = ("goods", "promo", "shipping", "fees", "allowances", "deductions")

Outcome = Literal["payable", "wait", "nothing_due", "refused", "needs_review"]


@dataclass(frozen=True)
class Entitlement:
    """A derived record. `record` is the JSON document of the design, with its digest; `inputs` is what it was derived from, to be
    stored beside it.

    Amounts are minor units of `currency`; a draw's `minor` is of the capture's own currency.
    """

    record: Mapping[str, Any]
    draws: tuple[Draw, ...]
    rules: tuple[RuleResult, ...]
    inputs: Inputs

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
    def due_at(self) -> str | None:
        """By when it has to be paid, UTC text; None while what that counts from is not known."""
        due: str | None = self.record["due_at"]
        return due

    @property
    def payable_by_line(self) -> dict[str, int]:
        """What this case gives back of each line, minor units: claimed, less what a deduction keeps, plus what it releases."""
        record = self.record
        return {
            line: minor - record["retained"][line] + record["released"].get(line, 0)
            for line, minor in record["claimed"].items()
        }

    @property
    def override(self) -> Mapping[str, Any] | None:
        """{id, minor, computed_minor, reason, asked_by} of an amount other than computed; None where it is as computed."""
        return self.record.get("override")

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
    allocation: Allocation, evidence: Evidence, priors: Priors, policy: PolicyTerms | None, as_of: datetime
) -> Entitlement:
    """The entitlement of one case as of an instant (aware; only written down, never compared).

    Without a policy nothing is decided: the record says so and a person looks. Raises `ValueError` for an instant without a
    zone. Facts that do not allow a payment are outcomes, not errors.
    """
    if as_of.tzinfo is None:
        raise ValueError("as_of needs a time zone")
    tracks = tracks_of(allocation, evidence, priors, policy)
    asked, chosen = evidence.override, tracks.chosen
    if asked is not None and asked.computed_minor == chosen.verdict.total:
        other = track(allocation, evidence, priors, policy, chosen.work.preset, asked)
        other.work.held_back = other.work.held_back or chosen.work.held_back
        of_merchant = chosen is tracks.merchant
        tracks = Tracks(other, other if of_merchant else tracks.merchant, tracks.statutory if of_merchant else other)
    elif asked is not None:
        facts = (f"asked_minor:{asked.minor}", f"computed_then_minor:{asked.computed_minor}")
        chosen.rules.append(RuleResult("override.within", "fail", "case", "computed_changed_since", facts))
    return _recorded(tracks, policy, as_of)


def most_payable(
    allocation: Allocation, evidence: Evidence, priors: Priors, policy: PolicyTerms | None
) -> tuple[int, int]:
    """What is computed for a case in all, and the most that another amount may come to: what was paid for its units."""
    chosen = tracks_of(allocation, evidence, priors, policy).chosen
    total = chosen.verdict.total
    return total, total + sum(room(chosen.work, chosen.pieces).values())


def _recorded(tracks: Tracks, policy: PolicyTerms | None, as_of: datetime) -> Entitlement:
    chosen = tracks.chosen
    work, pieces, verdict = chosen.work, chosen.pieces, chosen.verdict
    allocation, rules = work.allocation, [*chosen.rules, *_of_the_other(tracks)]
    outcome, until = outcome_of(work, chosen.rules, verdict)
    inputs = inputs_of(work.stored, work.evidence, work.priors, policy)
    tax = sum(piece.tax for piece in pieces)
    claimed, retained, released = _claims(work, pieces)
    record = {
        "engine": ENGINE,
        "case": work.evidence.case_ref,
        "kind": work.evidence.kind,
        "order": allocation.order_ref,
        "as_of": text(as_of),
        "currency": allocation.currency,
        "exponent": allocation.exponent,
        "due_at": due_at(work),
        "bound": inputs.bound() | {"fee_tax_treatment": treatment(work)},
        "track": _tracks(tracks),
        "rules": [_rule(result) for result in rules],
        "lines": [_line(i, piece) for i, piece in enumerate(pieces, start=1)],
        "subtotals": _subtotals(pieces),
        "units": [[line_id, a, b] for line_id, units in work.units.items() for a, b in units],
        "claimed": claimed,
        "retained": retained,
        "released": released,
        "promo_retained": [[name, line, minor] for (name, line), minor in sorted(work.promo_retained.items()) if minor],
        "ceilings": _ceilings(work, claimed),
        "clipped": [[piece.ref, piece.rule, piece.clipped] for piece in pieces if piece.clipped],
        "total": verdict.total,
        "net": verdict.total - tax,
        "tax": tax,
        "tax_known": all(work.line(line).tax_known for piece in pieces for line, _ in piece.parts),
        "paid_before": verdict.paid,
        "payable_now": verdict.payable_now,
        "overpaid_minor": max(0, verdict.paid - verdict.total),
        "draws": [_draw(draw) for draw in verdict.draws],
        "funding_shortfall_minor": verdict.shortfall,
        "outcome": outcome,
        "until": until,
        "route": route_of(work, chosen.rules, pieces, verdict),
    }
    if (look_by := inspect_by(work)) is not None:
        record["inspect_by"] = look_by
    if work.parts:
        record["policies"] = by_policy(work, pieces)
    if chosen.override is not None:
        record["override"] = {one.name: getattr(chosen.override, one.name) for one in fields(chosen.override)}
    record["digest"] = digest(record, RECORD_TAG)
    return Entitlement(record, verdict.draws, tuple(rules), inputs)


def _of_the_other(tracks: Tracks) -> list[RuleResult]:
    """What the track that was not chosen found about time and goods; it decides nothing here."""
    other = tracks.statutory if tracks.chosen is tracks.merchant else tracks.merchant
    if other is None:
        return []
    names = {"window.merchant", "window.statutory", "product.final_sale", "product.excluded"}
    found = [one for one in other.rules if one.id in names and one.scope != "case"]
    return [replace(one, scope=f"{other.work.track} track: {one.scope}") for one in found]


def _tracks(tracks: Tracks) -> dict[str, Any]:
    law = tracks.statutory
    return {
        "chosen": tracks.chosen.work.track,
        "merchant_total": tracks.merchant.verdict.total,
        "statutory_total": law.verdict.total if law is not None else None,
        "statute": law.work.preset.id if law is not None and law.work.preset is not None else None,
    }


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
        "ref": piece.ref,
        "say": piece.say,
        "expr": piece.expr,
        "minor": piece.minor,
        "parts": dict(piece.parts),
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


def _claims(work: Working, pieces: Iterable[Piece]) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """By line: claimed (payable and retained), retained by deductions, released from what earlier cases retained."""
    payable: dict[str, int] = {}
    for piece in pieces:
        for line, minor in piece.parts:
            payable[line] = payable.get(line, 0) + minor
    retained = {line: work.retained.get(line, 0) for line in payable}
    released = {line: minor for line, minor in work.released.items() if minor}
    claimed = {line: minor + retained[line] - released.get(line, 0) for line, minor in payable.items()}
    return claimed, retained, released


def _ceilings(work: Working, claimed: Iterable[str]) -> dict[str, dict[str, int]]:
    return {line: {"allocated": work.line(line).gross_minor, "earlier": work.earlier(line)} for line in claimed}
