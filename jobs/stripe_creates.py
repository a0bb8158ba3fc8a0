"""What the call that makes a refund says, and what its answer amounts to (S68)."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import stripe

from jobs.stripe_amounts import NotSendable, to_provider
from jobs.stripe_answers import Unreadable, read_refund
from ledger.settlement import Confirmed, Outcome, Refused, Unknown, differs, mismatch

CHARGE_REF: Final = re.compile(r"(ch|py)_[A-Za-z0-9_]{1,90}")


def create_params(request: Mapping[str, Any]) -> stripe.params.RefundCreateParams:
    """The body of the create call, the same bytes for the same frozen request. Raises NotSendable.

    The charge is named, not the payment: it is what the person saw and what the answer is compared with.
    """
    if not CHARGE_REF.fullmatch(request["charge"]):
        raise NotSendable("the capture's charge reference is none of the provider's")
    params: stripe.params.RefundCreateParams = {
        "charge": request["charge"],
        "amount": to_provider(int(request["amount_minor"]), request["currency"]),
        "metadata": dict(request["metadata"]),
    }
    # Left out where they are not asked for, as every request without a platform is.
    if request.get("reverse_transfer"):
        params["reverse_transfer"] = True
    if request.get("refund_application_fee"):
        params["refund_application_fee"] = True
    return params


# Codes of a balance that is too low; with a transfer to take back it is the seller's, and the call errs instead of waiting.
_TOO_LOW: Final = frozenset({"balance_insufficient", "insufficient_funds", "insufficient_balance_for_refund"})


def as_of_seller(request: Mapping[str, Any], outcome: Outcome) -> Outcome:
    """Names the seller where it is their balance that is too low: only then is a transfer taken back with the refund."""
    if isinstance(outcome, Refused) and request.get("reverse_transfer") and outcome.code in _TOO_LOW:
        return replace(outcome, code="seller_underfunded")
    return outcome


def confirmed(request: Mapping[str, Any], answer: Any) -> Outcome:
    """Confirmed only when the answer is a refund that matches what was asked for; else a person has to look (S68)."""
    refund = read_refund(answer)
    response = answer.last_response
    status, request_ref = response.code, (response.request_id or "")[:80]
    if not 200 <= status < 300:
        raise Unreadable("a refund under a status that is no success")
    asked = {
        "amount_minor": int(request["amount_minor"]), "currency": request["currency"], "charge_ref": request["charge"],
        "intent_id": request["metadata"]["onceback_intent"], "provider_refund_ref": None,
    }  # fmt: skip
    wrong = mismatch(asked, refund)
    if wrong:
        return Unknown(
            f"differs:{wrong}", differs(wrong, asked, refund), status, request_ref, needs_person=True,
            refund_ref=refund.refund_ref, refund_status=refund.status,
        )  # fmt: skip
    return Confirmed(refund, status, request_ref)
