"""What the rules and pieces of one derivation work on: the units left of the case, and what each range of them still holds.

A bundle's parent stands for its components: units of kit [a,b) are its components' units [a·n,b·n).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ledger.allocation_lines import AllocatedLine, Allocation, Sale
from ledger.allocation_tax import UNCODED
from ledger.entitlement_facts import Allowance, Evidence, Inspected, PriorClaim, Priors
from ledger.entitlement_presets import Preset
from ledger.money import peel
from ledger.policy_terms import PolicyTerms
from ledger.unit_ranges import Range, Ranges, minus, union, within

Track = Literal["merchant", "statutory"]
Codes = tuple[tuple[str, int], ...]
Status = Literal["pass", "fail", "needs_review"]


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule found about one scope ("case", a line or a unit range)."""

    id: str
    status: Status
    scope: str
    reason_code: str
    facts: tuple[str, ...] = ()
    until: str | None = None


@dataclass(slots=True)
class Holding:
    """What a range of units (or a shipping or fee line) gives back while deductions come off: minor units.

    `gross` and `net` are what was charged for it, of which deductions are computed; `left` what of it is still given, less what was
    credited on it before and what came off.
    """

    line_id: str
    a: int
    b: int
    gross: int
    net: int
    left: int
    tax: int
    codes: Codes
    goods: bool = True


@dataclass
class Working:
    """`announced` units and `units` still payable, by line in line order. `held_back`: a person looks before money moves.

    `preset` is the law's on the statutory track, None on the merchant's. `parts`: one for each policy where several decide
    (`entitlement_parts`); `whole`: of a part, what it is a part of. `allocation` has the deliveries that the evidence states,
    `stored` is the one it was made from.
    """

    allocation: Allocation
    evidence: Evidence
    priors: Priors
    policy: PolicyTerms
    preset: Preset | None = None
    announced: dict[str, Ranges] = field(default_factory=dict)
    units: dict[str, Ranges] = field(default_factory=dict)
    holdings: list[Holding] = field(default_factory=list)
    retained: dict[str, int] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)
    promo_retained: dict[tuple[str, str], int] = field(default_factory=dict)
    found: list[RuleResult] = field(default_factory=list)
    held_back: bool = False
    in_advance: bool = False
    whole: Working | None = None
    parts: tuple[Working, ...] = ()
    stored: Allocation = field(init=False)

    def __post_init__(self) -> None:
        self.stored = self.allocation
        if self.evidence.delivered or any(line.parent_line for line in self.allocation.lines):
            self.allocation = self.allocation.delivered(
                (row.line_id, row.at, row.shipment) for row in self.evidence.delivered
            )
        claimed: dict[str, list[Range]] = {}
        for row in self.evidence.units:
            for line_id, a, b in self.spread_kit(row.line_id, row.a, row.b):
                claimed.setdefault(line_id, []).append((a, b))
        places = self._places
        order = sorted(claimed, key=lambda line_id: (places.get(line_id, 0), line_id)) if len(claimed) > 1 else claimed
        self.announced = {line_id: union(claimed[line_id]) for line_id in order}
        self.units = dict(self.announced)

    @property
    def track(self) -> Track:
        return "statutory" if self.preset is not None else "merchant"

    @property
    def each(self) -> tuple[Working, ...]:
        """The parts, or this where one policy decides everything."""
        return self.parts or (self,)

    @property
    def arrived(self) -> bool:
        """Whether anything of the case was booked in."""
        return bool((self.whole or self).evidence.received)

    @property
    def step(self) -> int:
        return self.allocation.step_minor

    @property
    def sale(self) -> Sale:
        return self.allocation.sale or _UNKNOWN_SALE

    def line(self, line_id: str) -> AllocatedLine:
        found = self.allocation.line(line_id)
        if found is None:
            raise KeyError(line_id)
        return found

    def spread_kit(self, line_id: str, a: int, b: int) -> Iterable[tuple[str, int, int]]:
        """Units of a bundle as the units of its components; any other units as they are."""
        line = self.allocation.line(line_id)
        if line is None or not line.parent:
            return ((line_id, a, b),)
        return [
            (one.line_id, a * (one.per_bundle or 1), b * (one.per_bundle or 1))
            for one in self.allocation.components(line_id)
        ]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {line.line_id: line.position for line in self.allocation.lines}

    @cached_property
    def goods_lines(self) -> tuple[AllocatedLine, ...]:
        return tuple(line for line in self.allocation.lines if line.returnable)

    @cached_property
    def claims(self) -> dict[str, list[PriorClaim]]:
        """Other cases' claims by line, bundles spread over their components."""
        found: dict[str, list[PriorClaim]] = {}
        for row in self.priors.claims:
            line = self.allocation.line(row.line_id)
            if line is None or not line.parent:
                found.setdefault(row.line_id, []).append(row)
                continue
            for line_id, a, b in self.spread_kit(row.line_id, row.a, row.b):
                found.setdefault(line_id, []).append(PriorClaim(row.case_ref, line_id, a, b, 0, row.returned))
        return found

    @cached_property
    def allowances(self) -> dict[str, list[Allowance]]:
        found: dict[str, list[Allowance]] = {}
        for row in sorted(self.priors.allowances, key=lambda row: (row.line_id, row.a or 0, row.b or 0, row.minor)):
            found.setdefault(row.line_id, []).append(row)
        return found

    @cached_property
    def graded(self) -> dict[str, list[tuple[Ranges, Inspected]]]:
        """The finding that counts for each unit, by line: a later one replaces an earlier one."""
        found: dict[str, list[tuple[Ranges, Inspected]]] = {}
        covered: dict[str, Ranges] = {}
        for row in reversed(self.evidence.inspected):
            for line_id, a, b in self.spread_kit(row.line_id, row.a, row.b):
                before = covered.get(line_id, ())
                fresh = minus(union([(a, b)]), before)
                if fresh:
                    found.setdefault(line_id, []).append((fresh, row))
                    covered[line_id] = union([*before, *fresh])
        return found

    def returned(self, line_id: str) -> Ranges:
        """Units of a line that are back, in this case or another."""
        others = [(row.a, row.b) for row in self.claims.get(line_id, ()) if row.returned]
        return union([*self.units.get(line_id, ()), *others]) if others else self.units.get(line_id, ())

    def returned_before(self, line_id: str) -> Ranges:
        """Units of a line that other cases took back."""
        others = union((row.a, row.b) for row in self.claims.get(line_id, ()) if row.returned)
        return minus(others, self.units.get(line_id, ()))

    def worth(self, line: AllocatedLine, units: Ranges) -> int:
        """What units of a line were charged at, allowances not counted."""
        return sum(line.gross_at(b, self.step) - line.gross_at(a, self.step) for a, b in units)

    def earlier(self, line_id: str) -> int:
        """What other cases claim of a line, and allowances given on it, in minor units."""
        minor = sum(row.minor for row in self.claims.get(line_id, ()))
        return minor + sum(row.minor for row in self.allowances.get(line_id, ()))

    @cached_property
    def faulty(self) -> dict[str, Ranges]:
        """By line: announced units whose fault is the merchant's or the carrier's, as a person found of these very units.

        Units that never got there are such too. What a customer says proves nothing.
        """
        if self.evidence.kind == "cancellation":
            return dict(self.announced)
        found = {}
        for line_id, units in self.announced.items():
            if line_id in self.evidence.not_delivered:
                found[line_id] = units
                continue
            rows = self.graded.get(line_id, ())
            found[line_id] = within(units, [span for ranges, row in rows if row.faulty for span in ranges])
        return found

    @property
    def fault(self) -> bool:
        """Whether any unit of the case is faulty in that sense."""
        return any((self.whole or self).faulty.values())

    def finding(self, line_id: str, a: int, b: int) -> Inspected | None:
        """What a person found of the units [a,b), which are of one finding."""
        for ranges, row in self.graded.get(line_id, ()):
            if within(((a, b),), ranges):
                return row
        return None

    def keep_back(self, line_id: str, minor: int) -> None:
        self.retained[line_id] = self.retained.get(line_id, 0) + minor

    def within_case(self, line_id: str, a: int, b: int) -> Ranges:
        return within(self.units.get(line_id, ()), [(a, b)])


_UNKNOWN_SALE = Sale()


def line_codes(line: AllocatedLine) -> Codes:
    """The tax of a line by code."""
    if line.tax_minor and not line.taxes:
        return ((UNCODED, line.tax_minor),)
    return tuple((tax.code, tax.minor) for tax in line.taxes)


def codes_at(line: AllocatedLine, gross: int) -> Codes:
    """The tax in the first `gross` of the line, by code: peeled one code after the other, so the codes sum to it."""
    return split(line_codes(line), peel(line.tax_minor, line.gross_minor, gross))


def split(codes: Codes, minor: int) -> Codes:
    """`minor` of a tax over its codes: the first is peeled from the tax, the next from the rest."""
    if len(codes) == 1:
        return ((codes[0][0], minor),)
    whole, found = sum(held for _, held in codes), []
    for code, held in codes:
        share = peel(held, whole, minor)
        found.append((code, share))
        whole, minor = whole - held, minor - share
    return tuple(found)


def between(before: Codes, after: Codes) -> Codes:
    """What lies between two points of a tax, by code."""
    return tuple((code, last - first) for (code, first), (_, last) in zip(before, after, strict=True))
