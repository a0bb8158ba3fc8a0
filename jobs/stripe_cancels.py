"""Canceling a payment that was only authorised: what its state at the provider means for that, before and after the call.

Nothing here calls. A payment that is canceled with nothing taken is what was asked for, whoever canceled it; one of which
anything was taken is a refund's business, and canceling it is refused.
"""

from collections.abc import Mapping
from typing import Any, Final

from ledger.captures import ProviderPayment
from ledger.settlement import Confirmed, Outcome, ProviderRefund, Refused, Unknown

CAPTURED_ELSEWHERE: Final = "captured_elsewhere"


def as_refund(payment: ProviderPayment, intent_id: str) -> ProviderRefund | None:
    """A payment as the look for a cancel takes it: done, refused because money was taken, or None while it is still held."""
    if payment.received_minor > 0 or payment.status == "succeeded":
        return _shown(payment, intent_id, "failed", CAPTURED_ELSEWHERE)
    return _shown(payment, intent_id, "succeeded", "") if payment.status == "canceled" else None


def _shown(payment: ProviderPayment, intent_id: str, status: str, reason: str) -> ProviderRefund:
    return ProviderRefund(
        payment.payment_intent_ref, status, payment.amount_minor, payment.currency, payment.payment_intent_ref,
        payment.charge_ref, intent_id, failure_reason=reason,
    )  # fmt: skip


def judged(
    request: Mapping[str, Any], payment: ProviderPayment, http_status: int = 200, request_ref: str = ""
) -> Outcome | None:
    """What a payment as it stands makes of the frozen request to cancel it; None when it is still to be canceled."""
    for name, ours, theirs in (
        ("amount", int(request["amount_minor"]), payment.amount_minor),
        ("currency", request["currency"], payment.currency),
        ("charge", request["charge"], payment.charge_ref),
    ):
        if ours != theirs:
            said = f"{name} differs from what was asked for"
            return Unknown(f"differs:{name}", said, http_status, request_ref, needs_person=True)
    found = as_refund(payment, request["metadata"]["onceback_intent"])
    if found is None:
        return None
    if found.status == "failed":
        return Refused(CAPTURED_ELSEWHERE, f"the payment is {payment.status}", http_status, request_ref)
    return Confirmed(found, http_status, request_ref)
