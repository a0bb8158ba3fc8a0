"""By which policy's methods an order is shared out when it is imported: that in force when it was placed (ENTITLEMENT §8).

An order is shared out once, whatever its goods come back for, so one policy does it: the one for most of its goods, by value.
Without one, with several that fit alike, or where a document cannot be read, the usual methods do.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.allocation_checks import order_minor_of
from ledger.allocation_methods import DEFAULT, Methods
from ledger.database import rows
from ledger.order_facts import OrderFacts
from ledger.policies import NoPolicy, Policy, policy_terms
from ledger.policy_choice import About, Candidate, choose
from ledger.policy_of_sale import candidate_of

_POLICIES: Final = """
    SELECT p.policy_id, p.version, p.document, lower(p.effective) AS since, upper(p.effective) AS until, g.slug
    FROM policies p JOIN merchants g ON g.id = p.merchant_id
    WHERE p.merchant_id = :m AND p.effective && tstzrange(:first, :last, '[]')
        AND coalesce(p.document->>'status', 'approved') = 'approved'
    ORDER BY p.policy_id, p.version
"""


def methods_of_sales(db: Connection, merchant_id: UUID, orders: Sequence[OrderFacts]) -> list[Methods]:
    """The methods of each order, in their order. Locks nothing."""
    if not orders:
        return []
    placed = [facts.placed_at for facts in orders]
    found = rows(db, _POLICIES, m=merchant_id, first=min(placed), last=max(placed))

    @cache
    def read(place: int) -> Candidate[Policy]:
        return candidate_of(found[place])

    return [_methods(found, read, facts) for facts in orders]


def _methods(found: Sequence[RowMapping], read: Callable[[int], Candidate[Policy]], facts: OrderFacts) -> Methods:
    at_sale = [place for place, row in enumerate(found) if _in_force(row, facts.placed_at)]
    if not at_sale:
        return DEFAULT
    try:
        best = choose([read(place) for place in at_sale], _about(found[0]["slug"], facts))
        return _of_terms(best[0]) if len(best) == 1 else DEFAULT
    except NoPolicy:
        return DEFAULT


def _in_force(row: RowMapping, at: datetime) -> bool:
    return (row["since"] is None or row["since"] <= at) and (row["until"] is None or at < row["until"])


def _of_terms(policy: Policy) -> Methods:
    terms = policy_terms(policy)
    named, promo = terms.allocation, terms.promo
    return Methods(
        named.order_discount, named.bundle, named.tax, named.gap_per_line, named.gap_over, promo.free_gift, promo.part_discount
    )  # fmt: skip


def _about(slug: str, facts: OrderFacts) -> About:
    """What the order says of itself; nobody knows yet why anything of it will come back."""
    paid = max(facts.captures, key=lambda one: order_minor_of(one, facts.currency) or 0, default=None)
    return About(
        slug, _category(facts), None, facts.region, paid.tender if paid else None, facts.channel, facts.sale_mode
    )


def _category(facts: OrderFacts) -> str | None:
    """The category of most of the goods by price, of equal ones the first; a bundle's parts are in its own price."""
    worth: dict[str | None, int] = {}
    goods = [line for line in facts.lines if line.kind == "goods" and line.bundle is None]
    for line in sorted(goods, key=lambda line: line.position):
        category = line.attributes.category if line.attributes is not None else None
        worth[category] = worth.get(category, 0) + line.quantity * line.unit_price_minor
    return max(worth, key=lambda category: worth[category], default=None)
