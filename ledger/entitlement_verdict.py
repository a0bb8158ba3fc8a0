"""What follows from the amounts: the rules about money, the outcome, and who has to decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ledger.entitlement_draws import Draw
from ledger.entitlement_pieces import Piece
from ledger.entitlement_working import RuleResult, Working
from ledger.policy_terms import PolicyTerms, Routes
from ledger.unit_ranges import size

LEVELS: Final = ("staff", "manager", "two_managers")
# Below the desk's: what a policy lets be decided without a person, from which signs of risk raise it to the desk's first.
_AUTO: Final = -1
# Reviews that a manager decides unless the policy says otherwise; every other review is the desk's.
_ALWAYS: Final = {
    "evidence.conflict": "manager",
    "line.ceiling": "manager",
    "capture.available": "manager",
    "dispute.none": "manager",
    "paid.within": "manager",
    "advance.within": "manager",
    "override.within": "manager",
}
# Who decides what `routes.always` can name, where the policy says nothing of it; what is not here is anybody's.
USUAL_LEVELS: Final = {**_ALWAYS, "grade_d": "manager", "duplicate.charge": "manager"}
_TWO_MANAGERS: Final = frozenset({"goodwill_above_the_line", "goodwill_above_the_policy"})
# What each sign of risk has to reach, where the policy names no other figure; those of LOW count downwards.
THRESHOLDS: Final = {"refunds_30d": 3, "refund_value_90d_minor": 50_000, "return_rate_365d_bps": 5_000, "not_received_365d": 2,
                      "account_age_days": 7}  # fmt: skip
LOW: Final = frozenset({"account_age_days"})


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
        *_advance(work, verdict),
        *_amount(work, verdict),
        *_recovery(work, pieces),
    ]


# What makes a refund of tax in the United States one of a changed price rather than of a sale taken back.
_CHANGES_PRICE: Final = frozenset({"promo.adjustment", "deductions.warranty"})


def _recovery(work: Working, pieces: Sequence[Piece]) -> Iterator[RuleResult]:
    """Whether the shop may lose its own recovery of the tax. It changes no figure and asks nobody."""
    risk = [one for one in pieces if one.rule in _CHANGES_PRICE and one.minor and any(piece.tax for piece in pieces)]
    if risk and (work.sale.region or "").startswith("US"):
        facts = tuple(f"{one.rule}:{one.ref}" for one in risk)
        yield RuleResult("tax.recovery", "pass", "case", "tax_recovery_at_risk", facts)


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
    if not any(size(units) for units in work.units.values()) and not work.evidence.asks:
        return "refused", None
    return "nothing_due", None


def route_of(work: Working, rules: Sequence[RuleResult], pieces: Sequence[Piece], verdict: Verdict) -> dict[str, Any]:
    """Who decides: {"level": "staff", "manager" or "two_managers", "because": […]}, the highest of sum, fixed routes, signals.

    `of`: the version whose routes these are, where another one decides the rest. Of several policies the strictest decides.
    """
    found = [_route_under(terms, work, rules, pieces, verdict) for terms in work.policy.each]
    return max(found, key=lambda route: LEVELS.index(route["level"]))


def _route_under(
    terms: PolicyTerms, work: Working, rules: Sequence[RuleResult], pieces: Sequence[Piece], verdict: Verdict
) -> dict[str, Any]:
    routes = terms.routes
    together = _together(routes, work, verdict)
    found = [*_by_rule(routes, work, rules), *_by_piece(routes, pieces), *_by_sum(routes, work, together)]
    lowest = _AUTO if together < _auto_below(routes, work) else 0
    because = [reason for place, reason in found if place]
    raised = _signals(terms, work)
    level = max((place for place, _ in found), default=lowest) + sum(by for by, _ in raised)
    level = max(0, min(level, len(LEVELS) - 1))
    because += [reason for _, reason in raised]
    if not because:
        because = ["routes.auto_enabled=false" if not routes.auto_enabled else "routes.auto_below_minor"]
    found_by = {"of": terms.routes_of} if terms.routes_of is not None else {}
    return {"level": LEVELS[level], "because": because, **found_by}


def _by_rule(routes: Routes, work: Working, rules: Sequence[RuleResult]) -> Iterator[tuple[int, str]]:
    always = routes.always
    for result in rules:
        if result.status == "needs_review":
            level = always.get(result.id) or _ALWAYS.get(result.id, "staff")
            if result.reason_code in _TWO_MANAGERS:
                level = "two_managers"
            elif result.id == "override.within" and level == "staff":
                # Whatever the policy says: an amount that a person typed is never the desk's (`an_override_is_no_desks`).
                level = "manager"
            yield LEVELS.index(level), f"{result.id}:{result.reason_code}"
    for line_id, rows in work.graded.items():
        if any(row.grade == "D" for _, row in rows) and work.units.get(line_id):
            yield LEVELS.index(always.get("grade_d", USUAL_LEVELS["grade_d"])), "evidence.grade:D"


def _by_piece(routes: Routes, pieces: Sequence[Piece]) -> Iterator[tuple[int, str]]:
    """A policy may fix who decides whatever gives this piece, such as goodwill, however small."""
    for rule in dict.fromkeys(piece.rule for piece in pieces if piece.minor):
        if rule in routes.always:
            yield LEVELS.index(routes.always[rule]), f"routes.always: {rule}"


def _together(routes: Routes, work: Working, verdict: Verdict) -> int:
    """What the thresholds see: the amount and what was or will be paid beside it, so that splitting is useless."""
    together = verdict.total
    if "order_lifetime" in routes.sum_over:
        together += sum(claim.minor for claim in work.priors.claims) + sum(row.minor for row in work.priors.allowances)
    if routes.sum_over & {"staff_day", "customer_day"}:
        together += work.priors.beside_minor
    return together


def _auto_below(routes: Routes, work: Working) -> int:
    return routes.auto_below_minor.get(work.allocation.currency, 0) if routes.auto_enabled else 0


def _by_sum(routes: Routes, work: Working, lifetime: int) -> Iterator[tuple[int, str]]:
    currency = work.allocation.currency
    limit = routes.manager_from_minor.get(currency)
    if limit is None:
        yield 1, f"routes.manager_from_minor: {currency} is not named"
    elif lifetime >= limit:
        yield 1, f"routes.manager_from_minor: {lifetime} of {limit}"
    two = routes.two_managers_from_minor.get(currency)
    if two is not None and lifetime >= two:
        yield 2, f"routes.two_managers_from_minor: {lifetime} of {two}"


def _signals(policy: PolicyTerms, work: Working) -> list[tuple[int, str]]:
    """Signs of risk that reached their threshold: each raises the route, none changes an amount or refuses anything."""
    found = []
    for name, number in sorted(work.priors.signals):
        if reaches(policy, name, number):
            terms = policy.signal(name)
            found.append((terms.raise_by if terms is not None else 1, f"signal.{name}:{number}"))
    return found


def reaches(policy: PolicyTerms, name: str, number: int) -> bool:
    """Whether a sign of risk reaches its threshold, the policy's own or that of the specification."""
    terms = policy.signal(name)
    threshold = terms.threshold if terms is not None else THRESHOLDS.get(name, 1)
    return number < threshold if name in LOW else number >= threshold


def _ceiling(pieces: Sequence[Piece]) -> Iterator[RuleResult]:
    clipped = [piece for piece in pieces if piece.clipped and piece.rule == "goods.units"]
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
        if any(terms.external_unallocated == "block" for terms in work.policy.each):
            work.held_back = True
        facts = (f"external_minor:{minor}",)
        yield RuleResult("external.allocated", "needs_review", capture_id, "refunded_outside_on_no_line", facts)
    if not open_rows:
        yield RuleResult("external.allocated", "pass", "case", "holds")


def _advance(work: Working, verdict: Verdict) -> Iterator[RuleResult]:
    """Of several policies that pay before receipt, the lowest maximum counts."""
    ahead = [part.policy.advance_max_minor for part in work.each if part.in_advance]
    limits = [most.get(work.allocation.currency, 0) for most in ahead if most is not None]
    if not limits:
        return
    limit = min(limits)
    if verdict.total > limit:
        facts = (f"total_minor:{verdict.total}", f"most_minor:{limit}")
        yield RuleResult("advance.within", "needs_review", "case", "more_than_may_be_paid_before_receipt", facts)
    else:
        yield RuleResult("advance.within", "pass", "case", "holds")


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
