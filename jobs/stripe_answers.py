"""Reading what the provider answered: a refund out of its JSON, and what a failed call amounts to (STRIPE.md §2, §4).

Nothing here defaults to "nothing happened": what is not named is unknown.
"""

import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import requests
import stripe
import urllib3

from jobs.stripe_amounts import from_provider
from ledger.captures import ProviderPayment
from ledger.disputes import ProviderDispute
from ledger.fingerprint import METADATA_VALUE_CHARACTERS
from ledger.refusals import refusal_code
from ledger.settlement import NotAccepted, ProviderRefund, Refused, Unknown
from ledger.verification import ProviderCharge

# What the provider writes as a refund's reason when an authorisation ended by itself (STRIPE.md §1): no money moved.
LAPSED: Final = "expired_uncaptured_charge"
REFUND_REF: Final = re.compile(r"(re|pyr)_[A-Za-z0-9_]{1,70}")
DISPUTE_REF: Final = re.compile(r"(dp|du|pdp)_[A-Za-z0-9_]{1,70}")
# Waits before the same key is sent again, doubled per attempt and spread, for the provider publishes no Retry-After:
# a lock or a running key is over in seconds, a rate limit in a minute, an outage of the door in minutes.
# Each is (first, most).
BUSY_SECONDS: Final = (2, 60)
RATE_SECONDS: Final = (5, 300)
CLOSED_SECONDS: Final = (5, 300)
# After 401 and 403 a person has to look at the credential first; this is when the row is looked at again.
CREDENTIAL_SECONDS: Final = 60
# 4xx that say nothing about whether the request was carried out, or that are the provider's own trouble.
_NOT_ABOUT_THE_REQUEST: Final = frozenset((408, 409, 424, 425, 499))
_REFUSING_TYPES: Final = frozenset(("invalid_request_error", "card_error"))
# Refusals that are about our credential and would meet every other refund alike: they stop the merchant as 401 does.
_OF_THE_CREDENTIAL: Final = frozenset(("livemode_mismatch", "api_key_expired", "platform_api_key_expired"))


# More units than this no object of the provider is of, and no column of the books takes.
MOST_UNITS: Final = 1 << 50


class Unreadable(ValueError):
    """The answer is not what the provider gives for this call."""


def read_refund(answer: Any) -> ProviderRefund:
    """A refund object as ours. Raises Unreadable unless id, amount and currency are there and of their kind."""
    body = answer.to_dict() if isinstance(answer, stripe.StripeObject) else answer
    if not isinstance(body, Mapping) or body.get("object") != "refund":
        raise Unreadable("the answer is no refund")
    refund_ref, amount, currency = body.get("id"), body.get("amount"), body.get("currency")
    if not isinstance(refund_ref, str) or not REFUND_REF.fullmatch(refund_ref):
        raise Unreadable("the refund has no id that could be one")
    if type(amount) is not int or not isinstance(currency, str):
        raise Unreadable("the refund has no amount and currency")
    if not 0 <= amount <= MOST_UNITS or not is_currency(currency):
        raise Unreadable("the refund's amount or currency cannot be one")
    metadata = body.get("metadata")
    return ProviderRefund(
        refund_ref=refund_ref,
        # A status that is null is not interpreted: the ledger gives what it does not know to a person.
        status=_text(body.get("status"), 40),
        amount_minor=from_provider(amount, currency.upper()),
        currency=currency.upper()[:3],
        payment_intent_ref=_id(body.get("payment_intent")),
        charge_ref=_id(body.get("charge")),
        intent_id=_mark(metadata, "onceback_intent"),
        failure_reason=_text(body.get("failure_reason"), 80),
        reference=_bank_reference(body.get("destination_details")),
        pending_reason=_text(body.get("pending_reason"), 40),
        deployment_id=_mark(metadata, "onceback_deployment"),
        merchant_id=_mark(metadata, "onceback_merchant"),
        created_at=_instant(body.get("created")),
        lapsed=body.get("reason") == LAPSED,
        case_id=_mark(metadata, "onceback_case"),
        fingerprint=_mark(metadata, "onceback_fingerprint"),
        units=_mark(metadata, "onceback_units", METADATA_VALUE_CHARACTERS),
    )


def read_dispute(answer: Any) -> ProviderDispute:
    """A dispute object as ours. Raises Unreadable unless id, amount, currency, status and time are there and of their kind."""
    body = answer.to_dict() if isinstance(answer, stripe.StripeObject) else answer
    if not isinstance(body, Mapping) or body.get("object") != "dispute":
        raise Unreadable("the answer is no dispute")
    dispute_ref, amount, currency = body.get("id"), body.get("amount"), body.get("currency")
    if not isinstance(dispute_ref, str) or not DISPUTE_REF.fullmatch(dispute_ref):
        raise Unreadable("the dispute has no id that could be one")
    status, created = _text(body.get("status"), 40), _instant(body.get("created"))
    if type(amount) is not int or not isinstance(currency, str) or not status or created is None:
        raise Unreadable("the dispute has no amount, currency, state or time")
    if not 0 <= amount <= MOST_UNITS or not is_currency(currency):
        raise Unreadable("the dispute's amount or currency cannot be one")
    details = body.get("evidence_details")
    return ProviderDispute(
        dispute_ref=dispute_ref,
        status=status,
        amount_minor=from_provider(amount, currency.upper()),
        currency=currency.upper()[:3],
        charge_ref=_id(body.get("charge")),
        payment_intent_ref=_id(body.get("payment_intent")),
        reason=_text(body.get("reason"), 80),
        created_at=created,
        due_at=_instant(details.get("due_by")) if isinstance(details, Mapping) else None,
    )


def is_currency(text: str) -> bool:
    """Whether a text is three letters, as every code of a currency is."""
    return len(text) == 3 and text.isascii() and text.isalpha()


def _mark(metadata: Any, name: str, most: int = 80) -> str:
    return _text(metadata.get(name), most) if isinstance(metadata, Mapping) else ""


def _instant(value: Any) -> datetime | None:
    """A time in Unix seconds; None for what is none. It is shown, and nothing is decided by it."""
    return datetime.fromtimestamp(value, UTC) if type(value) is int and 0 <= value < 1 << 33 else None


def read_payment(answer: Any) -> ProviderPayment:
    """A payment intent as ours. Raises Unreadable unless its amounts are there and of their kind."""
    body = answer.to_dict() if isinstance(answer, stripe.StripeObject) else answer
    if not isinstance(body, Mapping) or body.get("object") != "payment_intent":
        raise Unreadable("the answer is no payment")
    currency, amounts = body.get("currency"), [body.get(f"amount{part}") for part in ("", "_received", "_capturable")]
    if not isinstance(currency, str) or any(type(amount) is not int or amount < 0 for amount in amounts):
        raise Unreadable("the payment has no amounts and currency")
    whole, received, capturable = (_minor(amount, currency) for amount in amounts)
    return ProviderPayment(
        payment_intent_ref=_id(body.get("id")), charge_ref=_id(body.get("latest_charge")),
        status=_text(body.get("status"), 40), amount_minor=whole, received_minor=received, capturable_minor=capturable,
        currency=currency.upper()[:3],
    )  # fmt: skip


def read_charge(answer: Any) -> ProviderCharge:
    """A charge object as ours. Raises Unreadable unless its amounts and currency are there and of their kind."""
    body = answer.to_dict() if isinstance(answer, stripe.StripeObject) else answer
    if not isinstance(body, Mapping) or body.get("object") != "charge":
        raise Unreadable("the answer is no charge")
    currency, amounts = body.get("currency"), [body.get("amount_captured"), body.get("amount_refunded")]
    if not isinstance(currency, str) or any(type(one) is not int or not 0 <= one <= MOST_UNITS for one in amounts):
        raise Unreadable("the charge has no amounts and currency")
    captured, refunded = (_minor(amount, currency) for amount in amounts)
    return ProviderCharge(_id(body.get("id")), captured, refunded, currency.upper()[:3])


def _minor(amount: Any, currency: str) -> int:
    """The provider's units as ours; 0 is 0, and what is no whole number of ours is unreadable."""
    minor = from_provider(amount, currency.upper())
    if amount and not minor:
        raise Unreadable("an amount is no whole number of minor units")
    return minor


def payment_in_error(error: stripe.StripeError) -> ProviderPayment | None:
    """The payment that an error of the provider carries, if it can be read (STRIPE.md §2, void)."""
    try:
        return read_payment(_error_body(error).get("payment_intent"))
    except Unreadable:
        return None


def _id(value: Any) -> str:
    """An expandable field: the id, or the id inside."""
    return _text(value.get("id") if isinstance(value, Mapping) else value, 100)


def _bank_reference(details: Any) -> str:
    """The reference the bank can be asked about, once the provider has it (§7)."""
    if not isinstance(details, Mapping) or not isinstance(details.get("type"), str):
        return ""
    method = details.get(details["type"])
    if not isinstance(method, Mapping) or method.get("reference_status") != "available":
        return ""
    return _text(method.get("reference"), 80)


def _text(value: Any, most: int) -> str:
    """Foreign text for a column: printable characters, cut; "" for anything else."""
    return "".join(letter for letter in value if letter.isprintable())[:most] if isinstance(value, str) else ""


def failed_call(error: stripe.StripeError, attempt_no: int) -> Refused | NotAccepted | Unknown:
    """What a failed create amounts to, by status, error type and code; never by the message or `should_retry`."""
    status = error.http_status
    said = _error_body(error)
    kind, code = _text(said.get("type"), 40), _text(said.get("code"), 60)
    detail, request = _text(said.get("message"), 300), _text(error.request_id, 80)
    if status is None:
        return _no_answer(error, attempt_no)
    if kind == "idempotency_error":
        return Unknown("idempotency_error", detail, status, request, needs_person=True)
    if not kind:
        return Unknown("unreadable_error", "the answer names no error", status, request)
    match status:
        case 401 | 403:
            named = code or ("unauthorized" if status == 401 else "forbidden")
            # Its message repeats part of the key.
            said_no = "the provider refused the credential"
            return NotAccepted(named, said_no, CREDENTIAL_SECONDS, status, request, stops_merchant=True)
        case 409 if code == "idempotency_key_in_use":
            return NotAccepted(code, detail, backoff(BUSY_SECONDS, attempt_no), status, request)
        case 429 if code == "lock_timeout":
            return NotAccepted(code, detail, backoff(BUSY_SECONDS, attempt_no), status, request)
        case 429:
            wait = backoff(RATE_SECONDS, attempt_no)
            return NotAccepted(code or "rate_limit", detail, wait, status, request)
        case 400 | 404 if code in _OF_THE_CREDENTIAL:
            return NotAccepted(code, detail, CREDENTIAL_SECONDS, status, request, stops_merchant=True)
        case _ if 400 <= status < 500 and status not in _NOT_ABOUT_THE_REQUEST and kind in _REFUSING_TYPES:
            param, message_code = _text(said.get("param"), 60), _text(said.get("message_code"), 60)
            return Refused(refusal_code(code, param, message_code, kind), detail, status, request)
    return Unknown(code or kind, detail, status, request)


def _error_body(error: stripe.StripeError) -> Mapping[str, Any]:
    body = error.json_body
    said = body.get("error") if isinstance(body, Mapping) else None
    return said if isinstance(said, Mapping) else {}


def _no_answer(error: stripe.StripeError, attempt_no: int) -> NotAccepted | Unknown:
    if connection_refused(error):
        wait = backoff(CLOSED_SECONDS, attempt_no)
        return NotAccepted("connection_refused", "nothing listens at the provider's address", wait)
    cause = error.__cause__ or error.__context__ or error
    return Unknown("no_answer", type(cause).__name__)


def connection_refused(error: stripe.StripeError) -> bool:
    """Whether no connection came about because it was refused: only then did no byte of the request leave.

    A reset, a broken pipe or a time-out on a connection that stood proves nothing.
    """
    failed = error.__cause__ or error.__context__
    if not isinstance(failed, requests.exceptions.ConnectionError) or not failed.args:
        return False
    gave_up = failed.args[0]
    reason = gave_up.reason if isinstance(gave_up, urllib3.exceptions.MaxRetryError) else gave_up
    return isinstance(reason, urllib3.exceptions.NewConnectionError) and isinstance(
        reason.__cause__ or reason.__context__, ConnectionRefusedError
    )


def backoff(seconds: tuple[int, int], attempt_no: int) -> int:
    """Doubling from the first to the most, minus up to half, so that those turned away do not all come back at once."""
    first, most = seconds
    whole = min(most, first << min(max(attempt_no - 1, 0), 16))
    return max(1, round(whole * (1 - random.random() / 2)))  # noqa: S311 - a wait, not a secret
