"""Calls of the gateway by themselves: frozen requests and looks that no database knows of."""

from typing import Any
from uuid import uuid4

from pydantic import SecretStr

from jobs.stripe_gateway import Account, StripeGateway
from ledger.reconciliation import Look

ACCOUNT = Account("", "harbour", livemode=False)


def gateway_at(url: str, key: str = "sk_test_harbour") -> StripeGateway:
    return StripeGateway({"harbour": SecretStr(key)}, url, 1, 0.5)


def request_for(payment: dict[str, Any], amount_minor: int = 2490, **changes: Any) -> dict[str, Any]:
    """The frozen request of an intent."""
    return {
        "account": "", "credential": "harbour", "livemode": False, "payment_intent": payment["payment_intent"],
        "charge": payment["charge"], "amount_minor": str(amount_minor), "currency": payment["currency"].upper(),
        "metadata": {"onceback_intent": str(uuid4()), "onceback_units": "TEE[0,1)"}, **changes,
    }  # fmt: skip


def look_for(request: dict[str, Any]) -> Look:
    intent_id = uuid4() if "onceback_intent" not in request["metadata"] else request["metadata"]["onceback_intent"]
    return Look(
        uuid4(), intent_id, "unknown", None, "", "harbour", False, request["payment_intent"], request["currency"]
    )  # fmt: skip


def key() -> str:
    return f"onceback-refund-{uuid4().hex}"
