"""The only module that calls the provider. Its facts are those of stripe 16.1.0 and API 2026-10-28.endive (STRIPE.md).

Every call is one HTTP request (no retries in the SDK, no redirects) to the host of the configuration, outside any
database transaction (P12). What a failed call amounts to is in `stripe_answers`; only a refusal the provider names
releases money.
"""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import stripe
from pydantic import SecretStr

from jobs.stripe_amounts import NotSendable
from jobs.stripe_answers import (
    BUSY_SECONDS,
    CREDENTIAL_SECONDS,
    DISPUTE_REF,
    REFUND_REF,
    Unreadable,
    backoff,
    failed_call,
    payment_in_error,
    read_charge,
    read_dispute,
    read_payment,
    read_refund,
)
from jobs.stripe_cancels import as_refund, judged
from jobs.stripe_creates import CHARGE_REF, as_of_seller, confirmed, create_params
from jobs.stripe_lists import (
    account_disputes_page,
    account_refunds_page,
    charges_page,
    disputes_page,
    movements_of,
    movements_page,
    refunds_page,
    shown_refund,
)
from jobs.stripe_session import ProviderSession
from ledger.captures import ProviderPayment
from ledger.charge_facts import ShownCharge
from ledger.database import forbid_open_transaction
from ledger.disputes import ProviderDispute
from ledger.outbox import SEND_MARGIN_SECONDS
from ledger.provider_pages import Page
from ledger.reconciliation import Look
from ledger.reconciliation_compare import Movement, ShownRefund
from ledger.settlement import NotAccepted, Outcome, ProviderRefund, Refused, Unknown
from ledger.verification import ProviderCharge

R = TypeVar("R")

# Also stops the SDK from writing an id file into the user's folder.
stripe.enable_telemetry = False

LIST_PAGE: Final = 100
# A payment has a handful of refunds; a list without end is no list.
LIST_MOST: Final = 2000
# Failures of a look that are about the one object that was asked for, and not about the provider.
NO_PAYMENT_REF: Final = "no_payment_ref"
UNREADABLE_LIST: Final = "unreadable_list"
_NO_REF: Final = (NO_PAYMENT_REF, "no_charge_ref", "no_refund_ref", "no_dispute_ref")
_OF_ONE: Final = (UNREADABLE_LIST, "unreadable_refund", "another_charge", "another_dispute", "another_refund")
_PAYMENT_REF: Final = re.compile(r"pi_[A-Za-z0-9_]{1,90}")
_ACCOUNT_REF: Final = re.compile(r"(acct_[A-Za-z0-9]{1,58})?")
# What the SDK raises on JSON that is no object, on bytes that are no text, and on nesting without end (measured).
_UNREADABLE: Final = (AttributeError, KeyError, TypeError, ValueError, RecursionError)


class LookFailed(Exception):
    """The provider could not be asked, or its answer cannot be relied on. It proves nothing: look again later.

    `of_one`: it is about the one object that was asked for, and says nothing of the account's others.
    """

    def __init__(self, code: str, http_status: int | None = None, *, of_one: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.http_status = http_status
        self.of_one = of_one or self.not_there or code in _OF_ONE

    @property
    def refused(self) -> bool:
        """Whether the account does not let us ask: a person has to look at the credential."""
        return isinstance(self, NoCredential) or self.http_status in (401, 403)

    @property
    def not_there(self) -> bool:
        """Whether there is nothing of this id to read, now or later."""
        return not self.refused and (self.http_status == 404 or self.code in _NO_REF)


class NoSuchRefund(LookFailed):
    """The provider has no refund of that id. Ask its list of the payment before believing it."""


class TwoRefunds(LookFailed):
    """The provider shows two refunds of one intent. People settle it; nothing is adopted or sent."""


class NoCredential(LookFailed):
    """The worker has no key for this merchant's account, or a key of the other mode."""


class WrongAccount(NoCredential):
    """The key opens another account at the provider than the one this merchant was set up for."""


class _Account(Protocol):
    """Whose key is used: an account of the merchant, a `Look`, or a frozen request's fields as `Account`."""

    @property
    def account(self) -> str: ...
    @property
    def credential(self) -> str: ...
    @property
    def livemode(self) -> bool: ...
    @property
    def expected_account(self) -> str: ...


@dataclass(frozen=True)
class Account:
    """A merchant's account at the provider: `credential` names the key, `account` is "" or a connected account.

    `expected_account` is the account that the key itself was set up for, "" when that was not said.
    """

    account: str
    credential: str
    livemode: bool
    expected_account: str = ""


class StripeGateway:
    """Refunds at the provider. Safe to use from many threads: each has its own session and client per account."""

    def __init__(
        self, keys: Mapping[str, SecretStr], base_url: str, connect_seconds: float = 5, read_seconds: float = 30
    ) -> None:
        """`base_url` fixes the host. ValueError when a call could outlast the margin kept before a lease ends."""
        if connect_seconds + 1.5 * read_seconds > SEND_MARGIN_SECONDS:
            raise ValueError(
                f"PROVIDER_CONNECT_SECONDS + 1.5 × PROVIDER_READ_SECONDS has to be at most {SEND_MARGIN_SECONDS}:"
                " a call must be over before another worker may take its refund over"
            )
        self._keys = dict(keys)
        self._base_url = base_url
        self._timeout = (connect_seconds, read_seconds)
        self._own = threading.local()
        self._proven: set[tuple[str, str, str]] = set()

    def refund(self, request: Mapping[str, Any], key: str, attempt_no: int = 1) -> Outcome:
        """Sends the frozen request of an approved intent under its key; `attempt_no` only lengthens waits.

        A request to cancel is sent after one more read of the payment. Never raises for what the network or the provider
        does. Raises NetworkInsideTransaction.
        """
        forbid_open_transaction()
        if request.get("act") == "cancel_payment":
            return self._cancel(request, key, attempt_no)
        try:
            params = create_params(request)
            client = self._client(account_of(request))
        except NotSendable as error:
            return Unknown("not_sendable", str(error), needs_person=True)
        except LookFailed as failure:
            return _not_read(failure, attempt_no)
        try:
            answer = client.v1.refunds.create(params, {"idempotency_key": key, "max_network_retries": 0})
            return confirmed(request, answer)
        except stripe.StripeError as error:
            return as_of_seller(request, failed_call(error, attempt_no))
        except _UNREADABLE as error:
            return Unknown("unreadable_answer", type(error).__name__)

    def _cancel(self, request: Mapping[str, Any], key: str, attempt_no: int) -> Outcome:
        account = account_of(request)
        try:
            before = judged(request, self.payment(account, request["payment_intent"]))
            client = self._client(account)
        except LookFailed as failure:
            return _not_read(failure, attempt_no)
        if before is not None:
            return before
        try:
            answer = client.v1.payment_intents.cancel(
                request["payment_intent"],
                {"cancellation_reason": "requested_by_customer"},
                {"idempotency_key": key, "max_network_retries": 0},
            )
            response = answer.last_response
            if response is None or not 200 <= response.code < 300:
                raise Unreadable("a payment under a status that is no success")
            done = judged(request, read_payment(answer), response.code, (response.request_id or "")[:80])
        except stripe.StripeError as error:
            return _cancel_refused(request, error, attempt_no)
        except _UNREADABLE as error:
            return Unknown("unreadable_answer", type(error).__name__)
        return done or Unknown("unreadable_answer", "the payment is not canceled")

    def payment(self, account: _Account, payment_intent_ref: str) -> ProviderPayment:
        """A payment as it stands now: held, taken in whole or in part, or canceled. Raises LookFailed."""
        if not _PAYMENT_REF.fullmatch(payment_intent_ref):
            raise LookFailed(NO_PAYMENT_REF)
        found = self._read(account, lambda client: read_payment(client.v1.payment_intents.retrieve(payment_intent_ref)))
        if found.payment_intent_ref != payment_intent_ref:
            raise LookFailed(UNREADABLE_LIST)
        return found

    def charge(self, account: _Account, charge_ref: str) -> ProviderCharge:
        """A charge as it stands now: what was taken, and what of it was paid back. Raises NoSuchRefund (404), LookFailed."""
        if not CHARGE_REF.fullmatch(charge_ref):
            raise NoSuchRefund("no_charge_ref")
        found = self._read(account, lambda client: read_charge(client.v1.charges.retrieve(charge_ref)))
        if found.charge_ref != charge_ref:
            raise LookFailed("another_charge")
        return found

    def charges_of(self, account: _Account, *, payment_intent: str = "", customer: str = "") -> list[ShownCharge]:
        """Every charge of one payment, or of one customer at the provider, newest first. Raises LookFailed, also for a list that
        does not end, or that holds a charge which cannot be read."""
        found: list[ShownCharge] = []
        after: str | None = ""
        while after is not None:
            page = self._read(
                account, partial(charges_page, after=after, payment_intent=payment_intent, customer=customer)
            )
            found += page.rows
            after = page.next_after
            if page.unread or len(found) > LIST_MOST:
                raise LookFailed(UNREADABLE_LIST)
        return found

    def find(self, look: Look) -> ProviderRefund | None:
        """Our refund in the provider's whole list of the payment, by our id in its metadata; None when it is not there.

        Raises LookFailed when the list could not be read to its end (which is no absence), and TwoRefunds when it holds
        more than one that stands. A cancel is found by the state of its payment.
        """
        if look.act == "cancel_payment":
            return as_refund(self.payment(look, look.payment_intent_ref), str(look.intent_id))
        return ours_of(self.list_refunds(look, look.payment_intent_ref), look.intent_id)

    def list_refunds(self, account: _Account, payment_intent_ref: str) -> list[ProviderRefund]:
        """Every refund of a payment, newest first, whoever made it. Raises LookFailed."""
        forbid_open_transaction()
        if not _PAYMENT_REF.fullmatch(payment_intent_ref):
            raise LookFailed(NO_PAYMENT_REF)
        client = self._client(account)
        try:
            return list(_pages(client, payment_intent_ref).values())
        except stripe.StripeError as error:
            raise _look_failed(error) from error
        except _UNREADABLE as error:
            raise LookFailed(UNREADABLE_LIST) from error

    def retrieve(self, account: _Account, refund_ref: str) -> ProviderRefund:
        """One refund by its id, as it stands now. Raises NoSuchRefund (404), LookFailed."""
        forbid_open_transaction()
        if not REFUND_REF.fullmatch(refund_ref):
            raise LookFailed("no_refund_ref")
        client = self._client(account)
        try:
            found = read_refund(client.v1.refunds.retrieve(refund_ref))
        except stripe.StripeError as error:
            if error.http_status == 404:
                raise NoSuchRefund("no_such_refund", 404) from error
            raise _look_failed(error) from error
        except _UNREADABLE as error:
            raise LookFailed("unreadable_refund") from error
        if found.refund_ref != refund_ref:
            raise LookFailed("another_refund")
        return found

    def has_key(self, account: _Account) -> bool:
        """Whether calls for this account can be made at all; without a key of its own and of its mode none leaves.

        Raises LookFailed when the provider does not say whose account it is.
        """
        try:
            self._client(account)
        except NoCredential:
            return False
        return True

    def account_refunds(self, account: _Account, created_from: datetime, after: str | None) -> Page[ProviderRefund]:
        """One page of every refund of an account made since `created_from`, newest first, whoever made it. Raises LookFailed."""
        return self._read(account, lambda client: account_refunds_page(client, created_from, after))

    def account_disputes(self, account: _Account, created_from: datetime, after: str | None) -> Page[ProviderDispute]:
        """One page of the disputes of an account opened since `created_from`, newest first. Raises LookFailed."""
        return self._read(account, lambda client: account_disputes_page(client, created_from, after))

    def dispute(self, account: _Account, dispute_ref: str) -> ProviderDispute:
        """One dispute by its id, as it stands now. Raises LookFailed."""
        if not DISPUTE_REF.fullmatch(dispute_ref):
            raise LookFailed("no_dispute_ref")
        found = self._read(account, lambda client: read_dispute(client.v1.disputes.retrieve(dispute_ref)))
        if found.dispute_ref != dispute_ref:
            raise LookFailed("another_dispute")
        return found

    def refunds_page(self, account: _Account, since: datetime, until: datetime, after: str) -> Page[ShownRefund]:
        """A page of an account's refunds made in [since, until), whoever made them, newest first. Raises LookFailed."""
        return self._read(account, lambda client: refunds_page(client, since, until, after))

    def disputes_page(self, account: _Account, since: datetime, until: datetime, after: str) -> Page[ProviderDispute]:
        """A page of an account's disputes opened in [since, until), newest first. Raises LookFailed."""
        return self._read(account, lambda client: disputes_page(client, since, until, after))

    def movements_page(
        self, account: _Account, kind: str, since: datetime, until: datetime, after: str
    ) -> Page[Movement]:
        """A page of an account's balance movements of one type, newest first. Raises LookFailed."""
        return self._read(account, lambda client: movements_page(client, kind, since, until, after))

    def movements_of(self, account: _Account, refund_ref: str) -> list[Movement]:
        """The balance movements of one refund. Raises LookFailed."""
        return self._read(account, lambda client: movements_of(client, refund_ref))

    def shown(self, account: _Account, refund_ref: str) -> ShownRefund:
        """One refund with when it was made, as it stands now. Raises NoSuchRefund (404), LookFailed."""
        if not REFUND_REF.fullmatch(refund_ref):
            raise NoSuchRefund("no_refund_ref")
        return self._read(account, lambda client: shown_refund(client.v1.refunds.retrieve(refund_ref)))

    def _read(self, account: _Account, read: Callable[[stripe.StripeClient], R]) -> R:
        forbid_open_transaction()
        client = self._client(account)
        try:
            return read(client)
        except stripe.StripeError as error:
            if error.http_status == 404:
                raise NoSuchRefund("not_there", 404) from error
            raise _look_failed(error) from error
        except _UNREADABLE as error:
            raise LookFailed(UNREADABLE_LIST) from error

    def _client(self, of: _Account) -> stripe.StripeClient:
        key = self._keys.get(of.credential)
        if key is None:
            raise NoCredential("no_credential")
        secret = key.get_secret_value()
        if of.livemode != ("_live_" in secret[:8]) or not _ACCOUNT_REF.fullmatch(of.account):
            raise NoCredential("credential_of_other_mode")
        clients: dict[tuple[str, str], stripe.StripeClient] = self._own.__dict__.setdefault("clients", {})
        client = clients.get((of.credential, of.account))
        if client is None:
            connect_seconds, read_seconds = self._timeout
            session = ProviderSession(whole_answer_seconds=connect_seconds + 1.5 * read_seconds)
            client = clients[of.credential, of.account] = stripe.StripeClient(
                secret,
                stripe_account=of.account or None,
                base_addresses={"api": self._base_url},
                max_network_retries=0,
                http_client=stripe.RequestsClient(timeout=self._timeout, session=session),
            )
        self._prove(client, of)
        return client

    def _prove(self, client: stripe.StripeClient, of: _Account) -> None:
        """Before the first use in this process: the key opens the account that the merchant was set up for (S68).

        Raises WrongAccount, NoCredential (the provider does not let the key ask), LookFailed (no answer: nothing is sent).
        """
        expected = of.account or of.expected_account
        if not expected or (of.credential, of.account, expected) in self._proven:
            return
        try:
            found = client.v1.accounts.retrieve_current().id
        except stripe.StripeError as error:
            if error.http_status in (401, 403, 404):
                raise NoCredential(_look_failed(error).code, error.http_status) from error
            raise _look_failed(error) from error
        except _UNREADABLE as error:
            raise LookFailed("unreadable_account") from error
        if found != expected:
            raise WrongAccount("wrong_account")
        self._proven.add((of.credential, of.account, expected))


def ours_of(listed: Sequence[ProviderRefund], intent_id: UUID) -> ProviderRefund | None:
    """The refund of a whole list that bears an intent's mark; None when none does. Raises TwoRefunds."""
    ours = [refund for refund in listed if refund.intent_id == str(intent_id)]
    standing = [refund for refund in ours if refund.status not in ("failed", "canceled")]
    if len(standing) > 1:
        raise TwoRefunds("two_refunds")
    return next(iter(standing or ours), None)


def _pages(client: stripe.StripeClient, payment_intent_ref: str) -> dict[str, ProviderRefund]:
    """Page after page to the last, by refund id. Raises Unreadable unless each is a list that says whether it is the last.

    The SDK's own paging takes a missing `has_more` for the end (measured), which would make an absence of a cut list.
    """
    refunds: dict[str, ProviderRefund] = {}
    params: stripe.params.RefundListParams = {"payment_intent": payment_intent_ref, "limit": LIST_PAGE}
    while True:
        page = client.v1.refunds.list(params)
        if getattr(page, "object", "") != "list" or type(page.has_more) is not bool:
            raise Unreadable("the answer is no list")
        read = {refund.refund_ref: refund for refund in map(read_refund, page.data)}
        if any(refund.payment_intent_ref != payment_intent_ref for refund in read.values()) or read.keys() & refunds:
            raise Unreadable("the list is of something else, or repeats itself")
        refunds |= read
        if not page.has_more:
            return refunds
        if not read or len(refunds) > LIST_MOST:
            raise Unreadable("the list does not end")
        params = {**params, "starting_after": page.data[-1].id}


def account_of(request: Mapping[str, Any]) -> Account:
    """Whose key a frozen request is sent with, to which account, and which account that key was set up for."""
    return Account(
        request["account"], request["credential"], request["livemode"], request.get("expected_account", "")
    )  # fmt: skip


def _not_read(failure: LookFailed, attempt_no: int) -> Outcome:
    """The account or the payment could not be read first: nothing was sent."""
    if isinstance(failure, NoCredential) or failure.http_status in (401, 403):
        return NotAccepted(failure.code, str(failure), CREDENTIAL_SECONDS, failure.http_status, stops_merchant=True)
    if failure.http_status == 404:
        return Refused("resource_missing", "no such payment", 404)
    if failure.code == NO_PAYMENT_REF:
        return Unknown("not_sendable", "the payment's reference is none of the provider's", needs_person=True)
    return NotAccepted("not_sent", "the provider could not be read first", backoff(BUSY_SECONDS, attempt_no))


def _cancel_refused(request: Mapping[str, Any], error: stripe.StripeError, attempt_no: int) -> Outcome:
    """A refused cancel; the payment that comes with the refusal says more than its code (STRIPE.md §2, void)."""
    outcome = failed_call(error, attempt_no)
    if isinstance(outcome, Refused) and outcome.code == "payment_intent_unexpected_state":
        payment = payment_in_error(error)
        found = judged(request, payment, outcome.http_status, outcome.request_ref) if payment else None
        return found or outcome
    return outcome


def _look_failed(error: stripe.StripeError) -> LookFailed:
    outcome = failed_call(error, 1)
    return LookFailed(outcome.code, error.http_status, of_one=isinstance(outcome, Refused))
