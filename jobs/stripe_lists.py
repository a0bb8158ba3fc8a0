"""The provider's lists of a whole account, a page at a time: its refunds and its balance movements (STRIPE.md §5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import stripe

from jobs.stripe_amounts import from_provider
from jobs.stripe_answers import Unreadable, read_refund
from ledger.reconciliation_compare import Movement, ShownRefund

PAGE: Final = 100
# One refund moves the balance twice: out, and in again when it fails.
_MOST_OF_ONE: Final = 100

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page in the provider's order, newest first. `last`: it says itself that none follows."""

    rows: list[T]
    last: bool


def refunds_page(client: stripe.StripeClient, since: datetime, until: datetime, after: str) -> Page[ShownRefund]:
    """Refunds made in [since, until), whoever made them, after the refund `after` ("": from the newest). Raises Unreadable."""
    found, last = _asked(client, "/v1/refunds", after, limit=PAGE, created=_period(since, until))
    shown = [shown_refund(one) for one in found]
    if any(not since <= one.created_at < until for one in shown):
        raise Unreadable("the list is of another period")
    return Page(shown, last)


def movements_page(
    client: stripe.StripeClient, kind: str, since: datetime, until: datetime, after: str
) -> Page[Movement]:
    """Balance movements of one type in [since, until), after the movement `after`. Raises Unreadable."""
    period = _period(since, until)
    found, last = _asked(client, "/v1/balance_transactions", after, limit=PAGE, type=kind, created=period)
    moved = [_movement(one) for one in found]
    if any(one.kind != kind or not since <= one.created_at < until for one in moved):
        raise Unreadable("the list is of something else")
    return Page(moved, last)


def movements_of(client: stripe.StripeClient, refund_ref: str) -> list[Movement]:
    """Every movement of one refund, newest first. Raises Unreadable."""
    found, last = _asked(client, "/v1/balance_transactions", "", source=refund_ref, limit=_MOST_OF_ONE)
    moved = [_movement(one) for one in found]
    if not last or any(one.source_ref != refund_ref for one in moved):
        raise Unreadable("the list is of something else, or does not end")
    return moved


def shown_refund(answer: Any) -> ShownRefund:
    """A refund object with when, why and for whom it was made. Raises Unreadable."""
    body = answer.to_dict() if isinstance(answer, stripe.StripeObject) else answer
    refund = read_refund(body)
    metadata, reason = body.get("metadata"), body.get("reason")
    merchant = metadata.get("onceback_merchant") if isinstance(metadata, Mapping) else ""
    return ShownRefund(
        refund, _moment(body.get("created")), reason if isinstance(reason, str) else "", str(merchant or "")[:80]
    )


def _asked(client: stripe.StripeClient, path: str, after: str, **asked: Any) -> tuple[list[Any], bool]:
    """A list's objects as JSON, and whether it is its last page. Raises Unreadable for what does not say so.

    The SDK would make an object of each row, which costs several times all else that a page takes; its own paging takes a
    missing `has_more` for the end (both measured).
    """
    if after:
        asked["starting_after"] = after
    page = client.raw_request("get", path, **asked).data
    rows, more = (page.get("data"), page.get("has_more")) if isinstance(page, Mapping) else (None, None)
    if (
        not isinstance(page, Mapping)
        or page.get("object") != "list"
        or not isinstance(rows, list)
        or type(more) is not bool
    ):
        raise Unreadable("the answer is no list")
    if more and not rows:
        raise Unreadable("the list does not end")
    return rows, not more


def _movement(answer: Any) -> Movement:
    body = answer.to_dict() if isinstance(answer, stripe.StripeObject) else answer
    if not isinstance(body, Mapping) or body.get("object") != "balance_transaction":
        raise Unreadable("the answer is no balance transaction")
    ref, kind, amount, currency = body.get("id"), body.get("type"), body.get("amount"), body.get("currency")
    if not (isinstance(ref, str) and isinstance(kind, str) and isinstance(currency, str)) or type(amount) is not int:
        raise Unreadable("the balance transaction lacks what makes one")
    source = body.get("source")
    source_ref = source.get("id") if isinstance(source, Mapping) else source
    return Movement(
        movement_ref=ref[:80],
        kind=kind[:40],
        source_ref=source_ref[:100] if isinstance(source_ref, str) else "",
        # The balance shows a refund as money that leaves.
        amount_minor=from_provider(-amount, currency.upper()),
        currency=currency.upper()[:3],
        converted=body.get("exchange_rate") is not None,
        created_at=_moment(body.get("created")),
    )


def _moment(value: Any) -> datetime:
    if type(value) is not int or not 0 < value < 1 << 34:
        raise Unreadable("the object has no moment of creation")
    return datetime.fromtimestamp(value, UTC)


def _period(since: datetime, until: datetime) -> Any:
    """In whole seconds, the provider's grain, as runs are."""
    return {"gte": int(since.timestamp()), "lt": int(until.timestamp())}
