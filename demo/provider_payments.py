"""The payments of an imported ledger that names none: made at the local provider, once, whatever is interrupted.

flask orders import FILE --format online-retail --merchant SLUG --payments demo.provider_payments:at_local_provider
"""

import hashlib
import os
from functools import cached_property
from typing import Any
from uuid import UUID

import stripe
from sqlalchemy import Engine

from ledger.database import rows, transaction
from ledger.order_facts import CaptureFacts, Destination, OrderFacts
from sandbox.client import SandboxClient

# The most the provider takes in one payment, in minor units.
MOST_MINOR = 99_999_999
BRANDS = ("visa", "mastercard", "amex")
Paid = tuple[str, str]


class LocalPayments:
    """Gives each capture without references a payment at the local provider: ours if we have it, else the provider's.

    A payment carries the order and the capture in its metadata, so that one made just before a crash is found again
    instead of made twice. Called outside any transaction.
    """

    def __init__(self, provider: SandboxClient, engine: Engine, merchant_id: UUID) -> None:
        self.provider, self.engine, self.merchant_id = provider, engine, merchant_id

    def __call__(self, orders: list[OrderFacts]) -> list[OrderFacts]:
        missing = [(facts, capture) for facts in orders for capture in facts.captures if _wanted(capture)]
        if not missing:
            return orders
        paid = self._stored([facts.external_ref for facts in orders])
        paid |= {
            key: self._made[key]
            for key in map(_key, *zip(*missing, strict=True))
            if key in self._made and key not in paid
        }
        unpaid = [(facts, capture) for facts, capture in missing if _key(facts, capture) not in paid]
        answers = self.provider.create_payments([_wish(facts, capture) for facts, capture in unpaid])
        for (facts, capture), answer in zip(unpaid, answers, strict=True):
            paid[_key(facts, capture)] = (answer["payment_intent"], answer["charge"])
        return [_with_payments(facts, paid) for facts in orders]

    def _stored(self, refs: list[str]) -> dict[Paid, Paid]:
        with transaction(self.engine, self.merchant_id, read_only=True) as db:
            found = rows(
                db, "SELECT o.external_ref, c.capture_ref, c.payment_intent_ref, c.charge_ref FROM orders o"
                " JOIN captures c ON c.merchant_id = o.merchant_id AND c.order_id = o.order_id WHERE o.merchant_id = :m"
                " AND o.external_ref = ANY(:refs) AND c.charge_ref IS NOT NULL", m=self.merchant_id, refs=refs,
            )  # fmt: skip
        return {
            (row["external_ref"], row["capture_ref"]): (row["payment_intent_ref"], row["charge_ref"]) for row in found
        }

    @cached_property
    def _made(self) -> dict[Paid, Paid]:
        """What an interrupted run left at the provider: read once, and only when there is anything at all."""
        if not self.provider.totals(self.provider.secret_key):
            return {}
        client = stripe.StripeClient(self.provider.secret_key, base_addresses={"api": self.provider.base_url})
        made: dict[Paid, Paid] = {}
        for intent in client.v1.payment_intents.list({"limit": 100}).auto_paging_iter():
            metadata: dict[str, str] = intent.metadata.to_dict()
            if "order" in metadata and "capture" in metadata and intent.latest_charge:
                made[metadata["order"], metadata["capture"]] = (intent.id, str(intent.latest_charge))
        return made


def _wanted(capture: CaptureFacts) -> bool:
    return capture.charge_ref is None and capture.tender == "card" and 1 <= capture.captured_minor <= MOST_MINOR


def _key(facts: OrderFacts, capture: CaptureFacts) -> Paid:
    return facts.external_ref, capture.capture_ref


def _card(capture: CaptureFacts) -> tuple[str, str]:
    """A card that is the same whenever the file is read."""
    number = int.from_bytes(hashlib.sha256(capture.capture_ref.encode()).digest()[:4])
    return BRANDS[number % len(BRANDS)], f"{number % 10_000:04d}"


def _wish(facts: OrderFacts, capture: CaptureFacts) -> dict[str, Any]:
    brand, last4 = _card(capture)
    return {
        "amount": capture.captured_minor, "currency": capture.currency.lower(), "created": int(capture.captured_at.timestamp()),
        "brand": brand, "last4": last4, "metadata": {"order": facts.external_ref, "capture": capture.capture_ref},
    }  # fmt: skip


def _with_payments(facts: OrderFacts, paid: dict[Paid, Paid]) -> OrderFacts:
    captures = []
    for capture in facts.captures:
        payment = paid.get(_key(facts, capture))
        if payment is not None and _wanted(capture):
            brand, last4 = _card(capture)
            destination = Destination(kind="card", brand=brand, last4=last4)
            capture = capture.model_copy(
                update={"payment_intent_ref": payment[0], "charge_ref": payment[1], "destination": destination}
            )
        captures.append(capture)
    return facts.model_copy(update={"captures": tuple(captures)})


def at_local_provider(engine: Engine, merchant_id: UUID) -> LocalPayments:
    """For the command: the provider at PROVIDER_BASE_URL, in the name of the account whose test key is PROVIDER_TEST_KEY."""
    provider = SandboxClient(os.environ["PROVIDER_BASE_URL"], os.environ["PROVIDER_TEST_KEY"])
    return LocalPayments(provider, engine, merchant_id)
