"""Small orders and cases for the tests of the pure engine, and a shop that returns and pays them one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ledger.allocation import Allocation, allocate
from ledger.entitlement import Entitlement, derive
from ledger.entitlement_check import check
from ledger.entitlement_facts import (
    Allowance,
    CaptureState,
    CasePayment,
    CaseUnits,
    Evidence,
    Inspected,
    PriorClaim,
    PriorPromo,
    Priors,
    Received,
)
from ledger.order_document import parse_order
from ledger.order_facts import OrderFacts
from ledger.policy_terms import PolicyTerms, read_terms

NOON = datetime(2026, 5, 13, 12, tzinfo=UTC)

BASE: dict[str, Any] = {
    "policy_id": "nord-base",
    "version": 3,
    "refund_trigger": "received",
    "advance_max_minor": None,
    "shipping": {"full_return": "none", "partial_return": "none", "merchant_fault": "none"},
    "routes": {"manager_from_minor": {"EUR": 25000}},
}


def terms(**changes: Any) -> PolicyTerms:
    """The usual terms of these tests, changed: goods on receipt, no shipping."""
    return read_terms(BASE | changes)


TERMS = terms()
ALL_BACK = terms(shipping={"full_return": "full", "partial_return": "on_last_unit"})


def line(number: int, price: int = 0, quantity: int = 1, **facts: Any) -> dict[str, Any]:
    """A goods line L<number> at `price` minor units each, untaxed unless `facts` say so."""
    named = {"line_ref": f"L{number}", "position": number, "kind": "goods", "sku": f"SKU-{number}", "title": "Thing"}
    return named | {"quantity": quantity, "unit_price_minor": price, "tax_minor": 0} | facts


def capture(ref: str, minor: int, currency: str = "EUR", **facts: Any) -> dict[str, Any]:
    named = {"capture_ref": ref, "tender": "card", "currency": currency, "captured_at": "2026-04-20T18:02:30Z"}
    return named | {"captured_minor": minor} | facts


def document(lines: Sequence[dict[str, Any]], total: int, **facts: Any) -> dict[str, Any]:
    """An order document over `lines`, captured once in full unless `facts` name captures."""
    currency = facts.get("currency", "EUR")
    arrived = [one["delivered_at"] for one in lines if one.get("delivered_at")]
    return {
        "external_ref": "A-20417",
        "currency": currency,
        "total_minor": total,
        "placed_at": min(["2026-04-20T18:02:11Z", *arrived]),
        "zone": "Europe/Berlin",
        "region": "DE",
        "channel": "web",
        "price_mode": "inclusive",
        "customer": {"external_ref": "c_881", "name": "Ilse Brandt"},
        "lines": list(lines),
        "captures": [capture("c1", total, currency)] if total else [],
    } | facts


def order(lines: Sequence[dict[str, Any]], total: int, **facts: Any) -> OrderFacts:
    return parse_order(json.dumps(document(lines, total, **facts)))


def allocated(lines: Sequence[dict[str, Any]], total: int, **facts: Any) -> Allocation:
    return allocate(order(lines, total, **facts))


def state(ref: str, minor: int, **facts: Any) -> CaptureState:
    """A capture of `minor` in the order's currency, nothing of it refunded unless `facts` say so."""
    known: dict[str, Any] = {"tender": "card", "currency": "EUR", "order_minor": minor, "available_minor": minor}
    return CaptureState(capture_id=ref, captured_minor=minor, **(known | facts))


def units(*claimed: tuple[str, int, int]) -> tuple[CaseUnits, ...]:
    return tuple(CaseUnits(*claim) for claim in claimed)


def received(*booked: tuple[str, int]) -> tuple[Received, ...]:
    return tuple(Received(*row) for row in booked)


def inspected(*graded: tuple[str, int, int, str]) -> tuple[Inspected, ...]:
    return tuple(Inspected(*row) for row in graded)  # type: ignore[arg-type]


def back(*claimed: tuple[str, int, int], case: str = "R-1") -> Evidence:
    """A case whose units all arrived."""
    counts: dict[str, int] = {}
    for line_id, a, b in claimed:
        counts[line_id] = counts.get(line_id, 0) + b - a
    return Evidence(case, units(*claimed), received(*counts.items()))


def entitled(
    allocation: Allocation,
    evidence: Evidence,
    captures: Iterable[CaptureState] | None = None,
    policy: PolicyTerms = TERMS,
    **priors: Any,
) -> Entitlement:
    """Derive, and have the checker accept the record."""
    if captures is None:
        captures = [state("c1", allocation.total_minor, currency=allocation.currency)]
    entitlement = derive(allocation, evidence, Priors(tuple(captures), **priors), policy, NOON)
    assert check(entitlement.record) == []
    return entitlement


@dataclass
class Shop:
    """One order whose returns are derived and paid one after the other; the checker sees each record."""

    allocation: Allocation
    captures: list[CaptureState]
    policy: PolicyTerms = TERMS
    allowances: list[Allowance] = field(default_factory=list)
    claims: dict[str, list[PriorClaim]] = field(default_factory=dict)
    paid: dict[str, list[CasePayment]] = field(default_factory=dict)
    promos: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)
    tax: dict[str, int] = field(default_factory=dict)

    def priors(self, case: str) -> Priors:
        others = [claim for name, claims in self.claims.items() if name != case for claim in claims]
        kept: dict[tuple[str, str], int] = {}
        for name, rows in self.promos.items():
            for promo, line_id, minor in rows if name != case else ():
                kept[promo, line_id] = kept.get((promo, line_id), 0) + minor
        promos = tuple(PriorPromo(promo, line_id, minor) for (promo, line_id), minor in kept.items() if minor)
        paid = tuple(self.paid.get(case, ()))
        return Priors(tuple(self.captures), tuple(others), tuple(self.allowances), paid, promos)

    def derive(self, evidence: Evidence) -> Entitlement:
        entitlement = derive(self.allocation, evidence, self.priors(evidence.case_ref), self.policy, NOON)
        assert check(entitlement.record) == []
        return entitlement

    def take_back(self, evidence: Evidence) -> Entitlement:
        """Derive a case and pay what is payable now."""
        entitlement, case = self.derive(evidence), evidence.case_ref
        record = entitlement.record
        self.claims[case] = [PriorClaim(case, line_id, a, b, 0) for line_id, a, b in record["units"]] + [
            PriorClaim(case, line_id, 0, 0, minor) for line_id, minor in record["claimed"].items()
        ]
        self.promos[case] = [(name, line_id, minor) for name, line_id, minor in record["promo_retained"]]
        self.tax[case] = entitlement.tax_minor
        for draw in entitlement.draws:
            self.paid.setdefault(case, []).append(CasePayment(draw.capture_id, draw.order_minor, draw.minor))
            self._draw(draw.capture_id, draw.minor, draw.order_minor)
        return entitlement

    def sent_back(self, case: str, entitlement: Entitlement) -> None:
        """The bank sends back what was paid for a case by this entitlement."""
        for draw in entitlement.draws:
            self.paid[case].remove(CasePayment(draw.capture_id, draw.order_minor, draw.minor))
            self._draw(draw.capture_id, -draw.minor, -draw.order_minor)

    def given_outside(self, capture_id: str, minor: int) -> None:
        """Somebody refunds so much of a capture elsewhere."""
        self._draw(capture_id, minor, 0)

    def _draw(self, capture_id: str, minor: int, order_minor: int) -> None:
        self.captures = [
            replace(
                held,
                available_minor=held.available_minor - minor,
                drawn_order_minor=held.drawn_order_minor + order_minor,
            )
            if held.capture_id == capture_id
            else held
            for held in self.captures
        ]

    def paid_minor(self) -> int:
        return sum(payment.order_minor for payments in self.paid.values() for payment in payments)


def captured_once(allocation: Allocation) -> list[CaptureState]:
    return [state("c1", allocation.total_minor, currency=allocation.currency, step_minor=allocation.step_minor)]
