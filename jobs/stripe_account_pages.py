"""Pages of an account's own lists, refunds and disputes, newest first (STRIPE.md §5). Part of `stripe_gateway`.

A page is believed only when it says whether it is the last. One object on it that cannot be read is counted and left out, so
that it does not hide all others; a page that is no list is no page.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import stripe

from jobs.stripe_answers import Unreadable, read_dispute, read_refund
from ledger.disputes import ProviderDispute
from ledger.settlement import ProviderRefund

PAGE: Final = 100

Found = TypeVar("Found")


@dataclass(frozen=True)
class AccountPage(Generic[Found]):
    """`last_ref` is what the next page starts after, None on the last one; `unreadable` counts what was left out."""

    found: list[Found]
    unreadable: int
    last_ref: str | None


def account_refunds_page(
    client: stripe.StripeClient, created_from: datetime, after: str | None
) -> AccountPage[ProviderRefund]:
    """One page of every refund of the account, whoever made it. Raises Unreadable and what the SDK raises."""
    params: stripe.params.RefundListParams = {"created": {"gte": int(created_from.timestamp())}, "limit": PAGE}
    if after is not None:
        params["starting_after"] = after
    return _page(client.v1.refunds.list(params), read_refund)


def account_disputes_page(
    client: stripe.StripeClient, created_from: datetime, after: str | None
) -> AccountPage[ProviderDispute]:
    """One page of the account's disputes. Raises Unreadable and what the SDK raises."""
    params: stripe.params.DisputeListParams = {"created": {"gte": int(created_from.timestamp())}, "limit": PAGE}
    if after is not None:
        params["starting_after"] = after
    return _page(client.v1.disputes.list(params), read_dispute)


def _page(answer: Any, read: Callable[[Any], Found]) -> AccountPage[Found]:
    if getattr(answer, "object", "") != "list" or type(answer.has_more) is not bool:
        raise Unreadable("the answer is no list")
    found, unreadable = [], 0
    for one in answer.data:
        try:
            found.append(read(one))
        except Unreadable:
            unreadable += 1
    if answer.has_more and not answer.data:
        raise Unreadable("the list does not end")
    return AccountPage(found, unreadable, str(answer.data[-1].id) if answer.has_more else None)
