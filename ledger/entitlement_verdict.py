"""What follows from the amounts: the rules about money, the outcome, and who has to decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ledger.entitlement_draws import Draw
from ledger.entitlement_pieces import Piece
from ledger.entitlement_rules import RuleResult, Working
from ledger.unit_ranges import size

_TO_A_MANAGER = frozenset({"evidence.conflict", "line.ceiling", "capture.available", "dispute.none", "paid.within"})
"""Reviews that a manager decides; every other review is the desk's."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Minor units of the order's currency: owed in all by this case, already paid or in flight, and how it is drawn."""

    total: int
    paid: int
    draws: tuple[Draw, ...]
    shortfall: int

    @property
    def payable_now(self) -> int:
        return max(0, self.total - self.paid)


def money_rules(work: Working, pieces: Sequence[Piece], verdict: Verdict) -> list[RuleResult]:
    """The rules on captures, disputes, outside refunds and steps; a review here changes no amount."""
    return [
        *_ceiling(pieces),
        *_captures(work, verdict),
        *_external(work),
        *_amount(work, verdict),
    ]


def outcome_of(
    work: Working, rules: Sequence[RuleResult], verdict: Verdict
) -> tuple[Literal["payable", "wait", "nothing_due", "refused", "needs_review"], str | None]:
    """The outcome, and with `wait` the fact that would lift it."""
    waiting = [result.until for result in rules if result.status == "fail" and result.until]
    if work.held_back or verdict.paid > verdict.total:
        return "needs_review", None
    if verdict.payable_now:
        return ("payable" if verdict.draws else "needs_review"), None
    if waiting:
        return "wait", waiting[0]
    if not any(size(units) for units in work.units.values()):
        return "refused", None
    return "nothing_due", None


def route_of(work: Working, rules: Sequence[RuleResult], verdict: Verdict) -> dict[str, Any]:
    """Who decides: {"level": "staff" or "manager", "because": […]}. The limit sees the order's refunds in all."""
    because = [f"{result.id}:{result.reason_code}" for result in rules if _for_manager(result)]
    currency = work.allocation.currency
    limit = work.policy.manager_from_minor.get(currency)
    lifetime = verdict.total + sum(claim.minor for claim in work.priors.claims)
    lifetime += sum(row.minor for row in work.priors.allowances)
    if limit is None:
        because.append(f"routes.manager_from_minor: {currency} is not named")
    elif lifetime >= limit:
        because.append(f"routes.manager_from_minor: {lifetime} of {limit}")
    return {"level": "manager" if because else "staff", "because": because or ["routes.auto_enabled=false"]}


def _for_manager(result: RuleResult) -> bool:
    return result.status == "needs_review" and result.id in _TO_A_MANAGER


def _ceiling(pieces: Sequence[Piece]) -> Iterator[RuleResult]:
    clipped = [piece for piece in pieces if piece.clipped]
    for piece in clipped:
        yield RuleResult("line.ceiling", "needs_review", piece.ref, "cut_to_what_is_left")
    if not clipped:
        yield RuleResult("line.ceiling", "pass", "case", "holds")


def _captures(work: Working, verdict: Verdict) -> Iterator[RuleResult]:
    if verdict.shortfall:
        facts = (f"shortfall_minor:{verdict.shortfall}",)
        drawn = {draw.capture_id for draw in verdict.draws}
        on_hold = any(row.held_minor and row.capture_id not in drawn for row in work.priors.captures)
        reason = "only_authorised" if on_hold else "captures_do_not_cover_it"
        yield RuleResult("capture.available", "needs_review", "case", reason, facts)
    else:
        yield RuleResult("capture.available", "pass", "case", "holds")
    disputed = sorted(row.capture_id for row in work.priors.captures if row.disputed_minor)
    for capture_id in disputed:
        yield RuleResult("dispute.none", "needs_review", capture_id, "disputed")
    if not disputed:
        yield RuleResult("dispute.none", "pass", "case", "holds")


def _external(work: Working) -> Iterator[RuleResult]:
    open_rows = sorted(
        (row.capture_id, row.external_unallocated_minor)
        for row in work.priors.captures
        if row.external_unallocated_minor
    )
    for capture_id, minor in open_rows:
        if work.policy.external_unallocated == "block":
            work.held_back = True
        facts = (f"external_minor:{minor}",)
        yield RuleResult("external.allocated", "needs_review", capture_id, "refunded_outside_on_no_line", facts)
    if not open_rows:
        yield RuleResult("external.allocated", "pass", "case", "holds")


def _amount(work: Working, verdict: Verdict) -> Iterator[RuleResult]:
    if verdict.payable_now % work.allocation.step_minor:
        yield RuleResult("amount.step", "needs_review", "case", "off_the_step")
    else:
        yield RuleResult("amount.step", "pass", "case", "holds")
    if verdict.payable_now:
        yield RuleResult("amount.positive", "pass", "case", "holds")
    else:
        yield RuleResult("amount.positive", "fail", "case", "nothing_left_to_pay")
    if verdict.paid > verdict.total:
        facts = (f"paid_minor:{verdict.paid}", f"total_minor:{verdict.total}")
        yield RuleResult("paid.within", "needs_review", "case", "more_was_paid_than_is_owed", facts)
    else:
        yield RuleResult("paid.within", "pass", "case", "holds")
