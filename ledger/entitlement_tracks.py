"""The two tracks of a return, the law's and the merchant's, each derived apart; and which of them counts.

Of what is payable now the larger total wins, of equal ones the one that still waits for something, then the law's. A consumer's
goods of which some are faulty have two rights of the law: each is tried, on its own units, and a person looks at the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from ledger.allocation_lines import Allocation
from ledger.entitlement_allowances import KEPT, allowances
from ledger.entitlement_deadlines import overrun
from ledger.entitlement_deductions import diminished, label, restocking
from ledger.entitlement_draws import draws_of
from ledger.entitlement_facts import Evidence, Override, Priors
from ledger.entitlement_override import overridden
from ledger.entitlement_parts import gather, gather_holdings, hand_back, split_by_policy
from ledger.entitlement_pieces import Piece, goods, rounding
from ledger.entitlement_presets import Preset, choose
from ledger.entitlement_promo import promo, promo_path
from ledger.entitlement_rules import run_unit_rules
from ledger.entitlement_shipping import fees, shipping
from ledger.entitlement_verdict import Verdict, money_rules, outcome_of
from ledger.entitlement_working import RuleResult, Working
from ledger.policy_terms import NO_TERMS, PolicyTerms
from ledger.unit_ranges import minus

Maker = Callable[[Working], Iterator[Piece]]
# Of each part by its own policy, where several decide; every other piece is the whole's.
_OF_PARTS: Final[frozenset[Maker]] = frozenset({goods, diminished, restocking})
_RETURN: Final[tuple[Maker, ...]] = (goods, promo, shipping, fees, rounding, diminished, restocking, label)
_PLAIN: Final[tuple[Maker, ...]] = (goods, shipping, fees, rounding)
# Which pieces a kind of case has, in the specification's order: goods, promotion, shipping, fees, then what comes off.
_PIECES: Final[dict[str, tuple[Maker, ...]]] = {
    "return": _RETURN,
    "exchange": (*_RETURN, allowances),
    "cancellation": _PLAIN,
    "warranty": (goods, allowances),
    **dict.fromkeys(KEPT, (allowances,)),
}

# Rules that are asked where something comes off, a promotion is broken or a policy is missing: said too where nothing is so.
_ALWAYS_SAID: Final = ("policy.found", "promo.path", "gift.back", "deduct.lawful", "deduct.evidence")


@dataclass(frozen=True)
class Derived:
    """One track, worked out."""

    work: Working
    pieces: list[Piece]
    rules: list[RuleResult]
    verdict: Verdict
    override: Override | None = None


@dataclass(frozen=True)
class Tracks:
    """What was derived, and of it what counts. `statutory`: None where no law gives a track of its own."""

    chosen: Derived
    merchant: Derived
    statutory: Derived | None


def tracks_of(allocation: Allocation, evidence: Evidence, priors: Priors, policy: PolicyTerms | None) -> Tracks:
    """Both tracks, and the one that counts."""
    merchant = track(allocation, evidence, priors, policy, None)
    presets = _presets(evidence, policy, merchant)
    by_law = [track(allocation, evidence, priors, policy, preset) for preset in presets]
    statutory = max(by_law, key=_weight) if by_law else None
    chosen = max([merchant, *by_law], key=_weight)
    if len(by_law) > 1 and _some_faulty(chosen.work):
        chosen.rules.append(RuleResult("reason.supported", "needs_review", "case", "fault_of_some_units"))
    return Tracks(chosen, merchant, statutory)


def _weight(one: Derived) -> tuple[int, bool, bool]:
    outcome, _ = outcome_of(one.work, one.rules, one.verdict)
    return one.verdict.total, outcome == "wait", one.work.preset is not None


def _some_faulty(work: Working) -> bool:
    """Whether the case pays for units that are faulty and for units that are not."""
    sound = [minus(units, work.faulty.get(line_id, ())) for line_id, units in work.units.items()]
    return any(sound) and sound != list(work.units.values())


def _presets(evidence: Evidence, policy: PolicyTerms | None, merchant: Derived) -> list[Preset]:
    """The law's presets for this case: one, or two where some of its units are faulty and some are not."""
    work = merchant.work
    if policy is None or evidence.kind not in ("return", "exchange"):
        return []
    sound = any(minus(units, work.faulty.get(line_id, ())) for line_id, units in work.announced.items())
    found = []
    for fault in [True] * work.fault + [False] * (sound or not work.fault):
        try:
            presets = {
                choose(work.sale, terms.statutes, fault=fault, withdraws=terms.treat_return_as_withdrawal)
                for terms in policy.each
            }
        except KeyError:
            work.held_back = True
            return []
        if len(presets) > 1:
            work.held_back = True
            merchant.rules.append(RuleResult("policy.found", "needs_review", "case", "statutes_differ_by_category"))
            return []
        found += [preset for preset in presets if preset is not None]
    return found


def track(
    allocation: Allocation,
    evidence: Evidence,
    priors: Priors,
    policy: PolicyTerms | None,
    preset: Preset | None,
    override: Override | None = None,
) -> Derived:
    work = Working(allocation, evidence, priors, policy or NO_TERMS, preset)
    split_by_policy(work)
    rules = gather(work, [run_unit_rules(part) for part in work.each])
    if policy is None:
        work.held_back = True
        work.units = dict.fromkeys(work.units, ())
        rules.append(RuleResult("policy.found", "needs_review", "case", "no_policy_in_force"))
    if allocation.promos and evidence.kind in ("return", "exchange"):
        rules += promo_path(work)
        hand_back(work)
    pieces = list(_pieces(work))
    if override is not None:
        pieces += overridden(work, pieces, override)
        facts = (f"asked_minor:{override.minor}", f"computed_minor:{override.computed_minor}")
        rules.append(RuleResult("override.within", "needs_review", "case", f"override_{override.reason}", facts))
    if evidence.kind in KEPT:
        work.units = {}
    rules += [*work.found, *overrun(work)]
    said = {one.id for one in rules}
    rules += [RuleResult(rule_id, "pass", "case", "holds") for rule_id in _ALWAYS_SAID if rule_id not in said]
    total = max(0, sum(piece.minor for piece in pieces))
    paid = sum(payment.order_minor for payment in priors.paid)
    draws, shortfall = draws_of(
        max(0, total - paid), allocation.currency, priors.captures, work.policy.tender_order, work.policy.capture_order
    )
    verdict = Verdict(total, paid, draws, shortfall)
    rules += money_rules(work, pieces, verdict)
    return Derived(work, pieces, rules, verdict, override)


def _pieces(work: Working) -> Iterator[Piece]:
    for make in _PIECES[work.evidence.kind]:
        for part in work.each if make in _OF_PARTS else (work,):
            yield from make(part)
        if make is goods:
            gather_holdings(work)
