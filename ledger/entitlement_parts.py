"""One return of goods of several categories: each category's lines under their own policy, then summed (ENTITLEMENT §8).

The units, what they are worth and what comes off them are worked out policy by policy, each on its own lines. Shipping, fees,
label and payments are the whole's, once, by the policy that decides the largest part of it. A person looks at what came out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ledger.allocation_lines import Allocation
from ledger.entitlement_facts import Evidence, Priors
from ledger.entitlement_pieces import Piece
from ledger.entitlement_working import RuleResult, Working
from ledger.policy_terms import NO_TERMS

Row = TypeVar("Row", bound=Any)


def split_by_policy(work: Working) -> None:
    """Gives the whole its parts, one for each policy; none where one policy decides everything.

    What parts keep back, release and find is the whole's.
    """
    if not work.policy.parts:
        return
    whole = work.evidence
    for place, terms in enumerate(work.policy.each):
        own = terms.model_copy(update={"parts": ()}) if place == 0 else terms
        part = Working(work.allocation, _evidence(work, whole, place), work.priors, own, work.preset, whole=work)
        part.retained, part.released, part.found = work.retained, work.released, work.found
        work.parts = (*work.parts, part)


def _evidence(work: Working, whole: Evidence, place: int) -> Evidence:
    def own(rows: Iterable[Row]) -> tuple[Row, ...]:
        return tuple(row for row in rows if _place(work, row if isinstance(row, str) else row.line_id) == place)

    return replace(
        whole, units=own(whole.units), received=own(whole.received), inspected=own(whole.inspected), cures=own(whole.cures),
        opinions=own(whole.opinions), asks=own(whole.asks), not_delivered=own(whole.not_delivered),
        found_delivered=own(whole.found_delivered),
    )  # fmt: skip


def _place(work: Working, line_id: str) -> int:
    """Which policy decides a line, 0 for the largest: what nobody names is its, and a component goes with its bundle."""
    line = work.allocation.line(line_id)
    named = [line_id] if line is None or line.parent_line is None else [line_id, line.parent_line]
    parts = list(enumerate(work.policy.parts, start=1))
    return next((place for name in named for place, part in parts if name in part.lines), 0)


def gather(work: Working, results: Sequence[list[RuleResult]]) -> list[RuleResult]:
    """What the rules left of each part, as the whole has it; and what they found, once."""
    if not work.parts:
        return [one for found in results for one in found]
    work.units = dict.fromkeys(work.announced, ())
    for part in work.parts:
        work.units |= part.units
        work.held_back = work.held_back or part.held_back
        work.in_advance = work.in_advance or part.in_advance
    found = list(dict.fromkeys(one for rules in results for one in rules))
    order = {rule_id: place for place, rule_id in enumerate(dict.fromkeys(one.id for one in found))}
    said = {one.id for one in found if not _nothing_found(one)}
    found = [one for one in found if not (_nothing_found(one) and one.id in said)]
    return sorted(found, key=lambda one: order[one.id]) + list(_doubts(work))


def _nothing_found(one: RuleResult) -> bool:
    return (one.status, one.scope, one.reason_code) == ("pass", "case", "holds")


def _doubts(work: Working) -> Iterable[RuleResult]:
    """A person looks at it; and where the policies say of one thing two things, nothing moves meanwhile."""
    names = tuple(f"policy:{terms.name}" for terms in work.policy.each)
    yield RuleResult("policy.found", "needs_review", "case", "several_categories", names)
    lines = [line_id for part in work.parts for line_id in part.announced]
    if len(set(lines)) < len(lines):
        work.held_back = True
        yield RuleResult("policy.found", "needs_review", "case", "one_bundle_under_several_policies", names)
    if work.allocation.promos and len({str(terms.promo) for terms in work.policy.each}) > 1 and work.preset is None:
        work.held_back = True
        yield RuleResult("policy.found", "needs_review", "case", "promotions_under_several_policies", names)


def hand_back(work: Working) -> None:
    """What a promotion took off the whole is off its part."""
    for part in work.parts:
        part.units = {line_id: work.units[line_id] for line_id in part.units}


def gather_holdings(work: Working) -> None:
    """The very ranges of the parts, in the order of the lines: what comes off one of a part is off the whole's."""
    order = {line_id: place for place, line_id in enumerate(work.units)}
    found = [holding for part in work.parts for holding in part.holdings]
    work.holdings.extend(sorted(found, key=lambda holding: (order[holding.line_id], holding.a)))


def by_policy(work: Working, pieces: Iterable[Piece]) -> list[dict[str, Any]]:
    """Each policy with its lines and what they give back, the largest first; it has what is on no line of the others."""
    if not work.parts:
        return []
    sums = dict.fromkeys(range(len(work.parts)), 0)
    for piece in pieces:
        for line_id, minor in piece.parts:
            sums[_place(work, line_id)] += minor
    return [
        {"policy": terms.name, "lines": list(dict.fromkeys(row.line_id for row in part.evidence.units)), "minor": sums[place]}
        for place, (terms, part) in enumerate(zip(work.policy.each, work.parts, strict=True))
    ]  # fmt: skip


def units_worth(allocation: Allocation, evidence: Evidence, line_id: str) -> int:
    """What the units that a case announced of a line were charged at, a bundle's by its components; minor units."""
    work = Working(allocation, evidence, Priors(()), NO_TERMS)
    lines = [line for line in work.goods_lines if line_id in (line.line_id, line.parent_line)]
    return sum(work.worth(line, work.announced.get(line.line_id, ())) for line in lines)
