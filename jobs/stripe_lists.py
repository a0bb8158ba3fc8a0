"""The provider's lists of a whole account, a page at a time: refunds, disputes and balance movements (STRIPE.md §5).

One reader for all of them. A page is believed only when it says whether it is the last. One object on it that cannot be read
is named and left out, so that it does not hide all others; a page that is no list is no page.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import stripe

from jobs.stripe_amounts import from_provider
from jobs.stripe_answers import MOST_UNITS, Unreadable, is_currency, read_charge, read_dispute, read_refund
from ledger.charge_facts import ShownCharge
from ledger.disputes import ProviderDispute
from ledger.provider_pages import Page, Unread
from ledger.reconciliation_compare import Movement, ShownRefund
from ledger.settlement import ProviderRefund

PAGE: Final = 100
# One refund moves the balance twice: out, and in again when it fails.
_MOST_OF_ONE: Final = 100

T = TypeVar("T")


def refunds_page(client: stripe.StripeClient, since: datetime, until: datetime, after: str) -> Page[ShownRefund]:
    """Refunds made in [since, until), whoever made them, after the refund `after` ("": from the newest). Raises Unreadable."""
    page = _listed(client, "/v1/refunds", shown_refund, after, created=_period(since, until))
    _require_period((one.created_at for one in page.rows), since, until)
    return page


def disputes_page(client: stripe.StripeClient, since: datetime, until: datetime, after: str) -> Page[ProviderDispute]:
    """Disputes opened in [since, until), after the dispute `after`. Raises Unreadable."""
    page = _listed(client, "/v1/disputes", read_dispute, after, created=_period(since, until))
    _require_period((one.created_at for one in page.rows), since, until)
    return page


def movements_page(
    client: stripe.StripeClient, kind: str, since: datetime, until: datetime, after: str
) -> Page[Movement]:
    """Balance movements of one type in [since, until), after the movement `after`. Raises Unreadable."""
    page = _listed(client, "/v1/balance_transactions", _movement, after, type=kind, created=_period(since, until))
    if any(one.kind != kind for one in page.rows):
        raise Unreadable("the list is of something else")
    _require_period((one.created_at for one in page.rows), since, until)
    return page


def account_refunds_page(
    client: stripe.StripeClient, created_from: datetime, after: str | None
) -> Page[ProviderRefund]:
    """Every refund of the account made since a moment, whoever made it. Raises Unreadable and what the SDK raises."""
    return _listed(client, "/v1/refunds", read_refund, after or "", created=_period(created_from))


def account_disputes_page(
    client: stripe.StripeClient, created_from: datetime, after: str | None
) -> Page[ProviderDispute]:
    """The account's disputes opened since a moment. Raises Unreadable and what the SDK raises."""
    return _listed(client, "/v1/disputes", read_dispute, after or "", created=_period(created_from))


def movements_of(client: stripe.StripeClient, refund_ref: str) -> list[Movement]:
    """Every movement of one refund, newest first. Raises Unreadable."""
    found, last = _asked(client, "/v1/balance_transactions", "", source=refund_ref, limit=_MOST_OF_ONE)
    moved = [_movement(one) for one in found]
    if not last or any(one.source_ref != refund_ref for one in moved):
        raise Unreadable("the list is of something else, or does not end")
    return moved


def charges_page(client: stripe.StripeClient, after: str, payment_intent: str, customer: str) -> Page[ShownCharge]:
    """Charges of one payment (`payment_intent`) or of one of the provider's customers (`customer`). Raises Unreadable."""
    of = {"payment_intent": payment_intent} if payment_intent else {"customer": customer}
    return _listed(client, "/v1/charges", shown_charge, after, **of)


def shown_charge(answer: Any) -> ShownCharge:
    """A charge object with its payment and customer. Raises Unreadable."""
    body = answer.to_dict() if isinstance(answer, stripe.StripeObject) else answer
    charge = read_charge(body)
    created = body.get("created")
    if type(created) is not int:
        raise Unreadable("the charge has no time")
    at = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
    payment, customer = _reference(body.get("payment_intent")), _reference(body.get("customer"))
    return ShownCharge(
        charge.charge_ref, payment, customer, charge.currency, charge.captured_minor, charge.refunded_minor, at
    )


def _reference(value: Any) -> str:
    return value[:100] if isinstance(value, str) else ""


def shown_refund(answer: Any) -> ShownRefund:
    """A refund object with when, why and for whom it was made. Raises Unreadable."""
    body = answer.to_dict() if isinstance(answer, stripe.StripeObject) else answer
    refund = read_refund(body)
    metadata, reason = body.get("metadata"), body.get("reason")
    merchant = metadata.get("onceback_merchant") if isinstance(metadata, Mapping) else ""
    return ShownRefund(
        refund, _moment(body.get("created")), reason if isinstance(reason, str) else "", str(merchant or "")[:80]
    )


def _listed(client: stripe.StripeClient, path: str, read: Callable[[Any], T], after: str, **asked: Any) -> Page[T]:
    """One page of a list, each object read by itself. Raises Unreadable when the page is none, or cannot be gone on from."""
    found, last = _asked(client, path, after, limit=PAGE, **asked)
    kept: list[T] = []
    unread: list[Unread] = []
    for one in found:
        try:
            kept.append(read(one))
        except Unreadable as why:
            unread.append(Unread(_ref(one) or f"after:{_ref(found[0]) or after}"[:80], str(why), _made_at(one)))
    if last:
        return Page(kept, unread, None)
    if not _ref(found[-1]):
        raise Unreadable("the list cannot be gone on from an object without an id")
    return Page(kept, unread, _ref(found[-1]))


def _ref(body: Any) -> str:
    ref = body.get("id") if isinstance(body, Mapping) else None
    return ref if isinstance(ref, str) and 0 < len(ref) <= 80 and ref.isprintable() else ""


def _made_at(body: Any) -> datetime | None:
    try:
        return _moment(body.get("created")) if isinstance(body, Mapping) else None
    except Unreadable:
        return None


def _require_period(moments: Iterable[datetime], since: datetime, until: datetime) -> None:
    if any(not since <= at < until for at in moments):
        raise Unreadable("the list is of another period")


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
    if abs(amount) > MOST_UNITS or not is_currency(currency):
        raise Unreadable("the balance transaction's amount or currency cannot be one")
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


def _period(since: datetime, until: datetime | None = None) -> Any:
    """In whole seconds, the provider's grain, as runs are."""
    begins = {"gte": int(since.timestamp())}
    return begins | {"lt": int(until.timestamp())} if until is not None else begins
