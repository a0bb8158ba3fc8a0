"""A shop that is paid through Stripe's SDK, at the sandbox or at Stripe itself; every exchange is checked."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import stripe

from sandbox.client import Running
from tests.sandbox.spec import Spec, plain_path

SPEC = Spec.read()


def stripe_key() -> str | None:
    """A test key of Stripe's from the environment; a live one is never used."""
    key = os.environ.get("STRIPE_API_KEY", "")
    return key if key.startswith(("sk_test_", "rk_test_")) else None


class CheckedClient(stripe.RequestsClient):
    """The SDK's transport as the gateway sets it up; remembers what went and came, and asks the specification."""

    def __init__(self, *, checked: bool = True, newer: bool = False, read_seconds: float = 10) -> None:
        session = requests.Session()
        session.max_redirects = 0
        session.trust_env = False
        super().__init__(timeout=(5, read_seconds), session=session)
        self.checked = checked
        self.newer = newer  # Stripe may answer with fields younger than the document
        self.problems: list[str] = []

    def request(  # type: ignore[override]  # the SDK's own class widens the answer to bytes
        self, method: str, url: str, headers: Mapping[str, str] | None, post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        content, status, answered = super().request(method, url, headers, post_data)
        if SPEC and self.checked:
            path, query = plain_path(url)
            body = json.loads(content)
            found = SPEC.answer_problems(method.upper(), path, status, body)
            if status == 200:
                found += SPEC.request_problems(method.upper(), path, post_data or query)
            found = [one for one in found if not (self.newer and one.endswith("is not in the document"))]
            self.problems += [f"{method} {path} {status}: {problem}" for problem in found]
        return content, status, answered


def stripe_client(base_url: str | None, key: str, transport: stripe.RequestsClient, **more: Any) -> stripe.StripeClient:
    """The SDK's client: no retries, no telemetry, the given base address or Stripe's own."""
    stripe.enable_telemetry = False
    addresses: Any = {"api": base_url} if base_url else {}
    return stripe.StripeClient(key, base_addresses=addresses, max_network_retries=0, http_client=transport, **more)


@dataclass(frozen=True)
class Shop:
    """A merchant's account at a provider."""

    client: stripe.StripeClient
    sandbox: Running | None

    @property
    def v1(self) -> Any:
        """The SDK's services; untyped here, since tests send what its types would refuse."""
        return self.client.v1

    def pay(self, amount: int = 1000, currency: str = "gbp", **more: Any) -> Any:
        """A customer pays by card: a confirmed payment intent."""
        wanted = {
            "amount": amount,
            "currency": currency,
            "payment_method": "pm_card_visa",
            "payment_method_types": ["card"],
            "confirm": True,
        }
        return self.v1.payment_intents.create(wanted | more)

    def refund(self, payment: Any, amount: int | None = None, key: str | None = None, **more: Any) -> Any:
        params = {"payment_intent": payment.id, **more}
        if amount is not None:
            params["amount"] = amount
        return self.v1.refunds.create(params, {"idempotency_key": key} if key else {})


@contextmanager
def opened(base_url: str | None, key: str, sandbox: Running | None) -> Iterator[Shop]:
    """A shop whose every exchange keeps to the specification."""
    transport = CheckedClient(newer=sandbox is None)
    yield Shop(stripe_client(base_url, key, transport), sandbox)
    assert transport.problems == []


def refused(call: Any, *arguments: Any, **named: Any) -> stripe.StripeError:
    """The error a call ends with."""
    with pytest.raises(stripe.StripeError) as caught:
        call(*arguments, **named)
    return caught.value


def word(error: stripe.StripeError, name: str) -> Any:
    """A field of the error body, or None."""
    body: Any = error.json_body
    return body["error"].get(name)
