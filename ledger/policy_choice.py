"""Which of several policies a sale falls under: by stored facts of it only, the most specific one, whatever their order.

A set that is not empty has to hold. Of those that hold, the more specific wins, compared in the order category, reason, region
(a state before a country), payment method, channel, sale mode, tenant; then `priority`. `ties` is what keeps two policies from
both winning: it is refused when one comes into force, here and by a trigger in the database (`policies_tie`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ledger.policy_terms import Select

SETS: Final = ("categories", "reasons", "regions", "payment_methods", "channels", "sale_modes")

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class About:
    """What is stored of a return and its sale. None is unknown, and an unknown fact is in no set.

    `payment_method`: the tender that paid most of the order, of equal ones the first. `region`: a country or country-state.
    """

    tenant: str
    category: str | None = None
    reason: str | None = None
    region: str | None = None
    payment_method: str | None = None
    channel: str | None = None
    sale_mode: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate(Generic[Named]):
    """A policy in force, and for which sales it is."""

    named: Named
    select: Select
    priority: int = 0


def rank(one: Candidate[Named], about: About) -> tuple[int, ...] | None:
    """How specific a policy is for this sale, the larger the more; None where it is not for it."""
    select = one.select
    found = [
        _one_of(select.categories, about.category),
        _one_of(select.reasons, about.reason),
        _region(select.regions, about.region),
        _one_of(select.payment_methods, about.payment_method),
        _one_of(select.channels, about.channel),
        _one_of(select.sale_modes, about.sale_mode),
        _one_of(frozenset() if select.tenant is None else frozenset({select.tenant}), about.tenant),
    ]
    return None if None in found else (*(place for place in found if place is not None), one.priority)


def choose(candidates: Iterable[Candidate[Named]], about: About) -> list[Named]:
    """The policy for this sale; none, or several that tie, decide nothing."""
    ranked = [(place, one.named) for one in candidates if (place := rank(one, about)) is not None]
    best = max((place for place, _ in ranked), default=None)
    return [named for place, named in ranked if place == best]


def ties(one: Candidate[Named], other: Candidate[Named]) -> bool:
    """Whether some sale could fall under both, and neither be the more specific."""
    if one.priority != other.priority or one.select.tenant != other.select.tenant:
        return False
    for name in SETS:
        first, second = getattr(one.select, name), getattr(other.select, name)
        if not (first & second if first and second else first == second):
            return False
    return True


def _one_of(named: frozenset[str], fact: str | None) -> int | None:
    if not named:
        return 0
    return 1 if fact in named else None


def _region(named: frozenset[str], fact: str | None) -> int | None:
    if not named:
        return 0
    if fact in named:
        return 2 if "-" in fact else 1
    return 1 if fact is not None and fact.partition("-")[0] in named else None
