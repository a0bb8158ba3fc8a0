"""Which units may be paid for now: one small function per rule, all of them run, in the order of `UNIT_RULES`.

A rule reads the working state, may take units off it (a *fail* removes its scope) and says what it found. A *review*
removes nothing: it sends the case to a person. `until` names the fact that would lift a fail; None means final.
To add a rule, write the function, put it in the list and its id in `CATALOGUE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from ledger.allocation import AllocatedLine, Allocation
from ledger.entitlement_facts import Evidence, PolicyTerms, Priors
from ledger.unit_ranges import Range, Ranges, first, minus, size, union, within, written

CATALOGUE: dict[str, str] = {
    "alloc.balanced": "the order carries no blocking discrepancy",
    "unit.exists": "the units are inside a goods line of the order",
    "unit.free": "no other case holds the units",
    "evidence.quantity": "no more units than were received, once goods are booked in",
    "evidence.trigger": "the units reached the stage the policy pays at",
    "evidence.grade": "the unit that came back is the one that was sold",
    "evidence.conflict": "the records of the warehouse agree",
    "line.ceiling": "a line never gives back more than was charged for it",
    "goods.units": "units at what was paid for them",
    "shipping.full_return": "outbound shipping, every goods unit of the order being back",
    "shipping.partial.on_last_unit": "outbound shipping waits for the last goods unit",
    "shipping.none": "the policy does not refund outbound shipping",
    "fees.rounding": "the order's rounding, with the goods it belongs to",
    "fees.kept": "a fee that is not refunded with goods",
    "capture.available": "the captures still hold what is owed",
    "dispute.none": "no capture of the order is disputed",
    "external.allocated": "no refund made outside is without its lines",
    "amount.step": "the amount is on the step the capture refunds in",
    "amount.positive": "there is something to pay",
    "paid.within": "no more was paid than is owed",
}
"""Every rule id a record may cite, and what it says when it passes."""

Status = Literal["pass", "fail", "needs_review"]
_ORDER_OF_GRADES = "NABCD"


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule found about one scope ("case", a line or a unit range)."""

    id: str
    status: Status
    scope: str
    reason_code: str
    facts: tuple[str, ...] = ()
    until: str | None = None


@dataclass
class Working:
    """What the rules work on: units announced and units still payable, by line. `held_back`: a person looks first."""

    allocation: Allocation
    evidence: Evidence
    priors: Priors
    policy: PolicyTerms
    announced: dict[str, Ranges] = field(default_factory=dict)
    units: dict[str, Ranges] = field(default_factory=dict)
    held_back: bool = False

    def __post_init__(self) -> None:
        claimed: dict[str, list[Range]] = {}
        for row in self.evidence.units:
            claimed.setdefault(row.line_id, []).append((row.a, row.b))
        self.announced = {line_id: union(claimed[line_id]) for line_id in sorted(claimed, key=self._place)}
        self.units = dict(self.announced)

    def line(self, line_id: str) -> AllocatedLine:
        found = self.allocation.line(line_id)
        if found is None:
            raise KeyError(line_id)
        return found

    def _place(self, line_id: str) -> tuple[int, str]:
        line = self.allocation.line(line_id)
        return (line.position if line else 0, line_id)


Rule = Callable[[Working], Iterator[RuleResult]]


def alloc_balanced(work: Working) -> Iterator[RuleResult]:
    for found in work.allocation.blocked_by:
        work.held_back = True
        work.units = dict.fromkeys(work.units, ())
        facts = tuple(f"{name}:{fact}" for name, fact in found.facts)
        yield RuleResult("alloc.balanced", "fail", "case", found.name, facts, f"discrepancy.settled:{found.name}")


def unit_exists(work: Working) -> Iterator[RuleResult]:
    for line_id, units in work.units.items():
        line = work.allocation.line(line_id)
        quantity = line.quantity if line and line.kind == "goods" else 0
        kept = within(units, [(0, quantity)])
        work.units[line_id] = kept
        if kept != units:
            gone = written(minus(units, kept))
            yield RuleResult("unit.exists", "fail", f"{line_id}{gone}", "not_on_the_order", (f"quantity:{quantity}",))


def unit_free(work: Working) -> Iterator[RuleResult]:
    for line_id, units in work.units.items():
        for claim in sorted(work.priors.claims, key=lambda claim: (claim.a, claim.case_ref)):
            taken = within(units, [(claim.a, claim.b)]) if claim.line_id == line_id else ()
            if taken:
                units = minus(units, taken)
                where = f"{line_id}{written(taken)}"
                yield RuleResult("unit.free", "fail", where, "held_by_another_case", (f"case:{claim.case_ref}",))
        work.units[line_id] = units


def evidence_quantity(work: Working) -> Iterator[RuleResult]:
    """Once anything of the case is booked in, what was received is the ceiling of every line, lowest units first."""
    counts: dict[str, int] = {}
    for row in work.evidence.received:
        counts[row.line_id] = counts.get(row.line_id, 0) + row.count
    if work.policy.refund_trigger == "announced" and not work.evidence.received:
        return
    for line_id, units in work.units.items():
        received, announced = counts.get(line_id, 0), size(work.announced[line_id])
        work.units[line_id] = first(units, received)
        facts: tuple[str, ...] = (f"announced:{announced}", f"received:{received}")
        waiting = minus(units, work.units[line_id])
        if waiting:
            where = f"{line_id}{written(waiting)}"
            yield RuleResult("evidence.quantity", "fail", where, "not_received", facts, f"received:{line_id}")
        elif received > announced:
            yield RuleResult("evidence.conflict", "needs_review", line_id, "received_more_than_announced", facts)
    for line_id in sorted(set(counts) - set(work.units)):
        facts = (f"received:{counts[line_id]}",)
        yield RuleResult("evidence.conflict", "needs_review", line_id, "received_without_announcement", facts)


def evidence_trigger(work: Working) -> Iterator[RuleResult]:
    if work.policy.refund_trigger != "inspected":
        return
    for line_id, units in work.units.items():
        seen = [(row.a, row.b) for row in work.evidence.inspected if row.line_id == line_id]
        work.units[line_id] = within(units, seen)
        waiting = minus(units, work.units[line_id])
        if waiting:
            where = f"{line_id}{written(waiting)}"
            yield RuleResult("evidence.trigger", "fail", where, "not_inspected", (), f"inspected:{where}")


def evidence_grade(work: Working) -> Iterator[RuleResult]:
    """A unit graded X claims nothing; a later grade of the same unit replaces an earlier one."""
    for line_id, units in work.units.items():
        foreign: Ranges = ()
        for row in work.evidence.inspected:
            if row.line_id == line_id:
                foreign = union([*foreign, (row.a, row.b)]) if row.grade == "X" else minus(foreign, [(row.a, row.b)])
        quarantined = within(units, foreign)
        work.units[line_id] = minus(units, foreign)
        if quarantined:
            where = f"{line_id}{written(quarantined)}"
            yield RuleResult("evidence.grade", "fail", where, "not_our_unit", (f"quarantined:{size(quarantined)}",))


def evidence_conflict(work: Working) -> Iterator[RuleResult]:
    """Grades of one unit that differ by more than a step go to a person; the later one counts meanwhile."""
    rows = work.evidence.inspected
    for index, later in enumerate(rows):
        for earlier in rows[:index]:
            overlap = (max(earlier.a, later.a), min(earlier.b, later.b))
            if earlier.line_id == later.line_id and overlap[0] < overlap[1] and _far(earlier.grade, later.grade):
                where = f"{later.line_id}{written([overlap])}"
                facts = (f"grade:{earlier.grade}", f"grade:{later.grade}")
                yield RuleResult("evidence.conflict", "needs_review", where, "grades_differ", facts)


def _far(one: str, other: str) -> bool:
    if one in _ORDER_OF_GRADES and other in _ORDER_OF_GRADES:
        return abs(_ORDER_OF_GRADES.index(one) - _ORDER_OF_GRADES.index(other)) > 1
    return one != other


UNIT_RULES: tuple[tuple[str, Rule], ...] = (
    ("alloc.balanced", alloc_balanced),
    ("unit.exists", unit_exists),
    ("unit.free", unit_free),
    ("evidence.quantity", evidence_quantity),
    ("evidence.trigger", evidence_trigger),
    ("evidence.grade", evidence_grade),
    ("evidence.conflict", evidence_conflict),
)


def run_unit_rules(work: Working) -> list[RuleResult]:
    """Every rule in turn; a rule with nothing to say is recorded as passed for the case."""
    results: list[RuleResult] = []
    for rule_id, rule in UNIT_RULES:
        found = list(rule(work))
        results.extend(found)
        if not any(result.id == rule_id for result in found):
            results.append(RuleResult(rule_id, "pass", "case", "holds"))
    return results
