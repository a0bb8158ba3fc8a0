"""What a customer may be told of one refund, at the desk and in every channel: by what it does, its state, and why it is in it.

Plain text, for it goes on the clipboard too. Nothing is called paid before the provider confirmed it,
and nothing sent that never left.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from console.filters import instant, money

_BY_KIND: Final = {
    "card": "your card", "bank": "your bank account", "wallet": "your wallet", "gift_card": "your gift card",
}  # fmt: skip
_WRITE: Final = "we write to you when it is"
_BY_HAND: Final = "You do not need to ask again."
# By state; in braces: amount, to, and when it was sent, " (14:02)" or "".
SENTENCES: Final = {
    "proposed": f"Your refund of {{amount}} is being checked. It is not approved yet; {_WRITE}.",
    "approved": f"Your refund of {{amount}} to {{to}} is approved and will be sent shortly. It is not paid yet; {_WRITE}.",
    "held": f"Your refund of {{amount}} to {{to}} is approved. It is not sent yet; {_WRITE} paid.",
    "submitting": f"Your refund of {{amount}} to {{to}} is being sent now. It is not paid yet; {_WRITE}.",
    "unknown": "Your refund of {amount} was sent{when}. We are confirming it with the payment provider and write to you."
    f" {_BY_HAND}",
    "needs_review": "Your refund of {amount} was sent. We are confirming it with the payment provider by hand and write to you."
    f" {_BY_HAND}",
    "pending": "Your refund of {amount} to {to} was accepted by the payment provider. Your bank has not confirmed it yet;"
    f" {_WRITE} paid.",
    "succeeded": "Your refund of {amount} to {to} is paid. Your bank may need some days to show it.",
    "failed": "Your refund of {amount} to {to} was refused by the payment provider. Nothing was paid."
    " We are looking for another way and write to you.",
    "reversed": "Your refund of {amount} to {to} did not reach you and came back to us. You do not have the money."
    " We are arranging another way and write to you.",
    "withdrawn": "Your refund of {amount} was called back before it was sent. Nothing was paid.",
}
_RELEASING: Final = (
    "Your payment of {amount} was authorised and not taken. We are having it released and write to you when it is."
)
# Where nothing is paid back, as nothing was taken; and what a person pays back beside the provider.
_OF_ACT: Final = {
    (
        "cancel_payment",
        "proposed",
    ): "Your payment of {amount} was authorised and not taken. We are checking that it is released, and"
    " write to you when it is.",
    **{("cancel_payment", state): _RELEASING for state in SENTENCES if state not in ("proposed", "withdrawn")},
    (
        "cancel_payment",
        "succeeded",
    ): "Nothing was taken of your payment of {amount}. It has been released; your bank may need some days to show it.",
    (
        "manual",
        "approved",
    ): "Your refund of {amount} to {to} is approved. We are paying it back and write to you when it is done.",
    ("manual", "succeeded"): "Your refund of {amount} to {to} is paid.",
    (
        "manual",
        "failed",
    ): "Your refund of {amount} to {to} could not be paid. We are looking for another way and write to you.",
    (
        "manual",
        "needs_review",
    ): f"We are checking whether your refund of {{amount}} to {{to}} was paid, and write to you. {_BY_HAND}",
}
_OF_REASON: Final = {
    (
        "cancel_payment",
        "failed",
        "captured_elsewhere",
    ): "Your payment of {amount} was taken after all, so it is paid back and not"
    " released. Your refund of it is being checked; we write to you when it is paid.",
    # Found before a call, perhaps after an earlier one whose answer never came.
    (
        "refund",
        "needs_review",
        "not_sendable",
    ): f"We are checking your refund of {{amount}} to {{to}} by hand and write to you. {_BY_HAND}",
}


def refund_sentence(refund: Mapping[str, Any], *, sent_at: datetime | None = None) -> str:
    """`refund`: act, state, state_reason, amount_minor, currency, destination_kind and destination_last4 ("" or None for none).

    `sent_at` is said of one whose answer is not known. Raises KeyError for a state that is none.
    """
    act, state, reason = refund["act"], refund["state"], refund["state_reason"]
    words = _OF_REASON.get((act, state, reason)) or _OF_ACT.get((act, state)) or SENTENCES[state]
    ending = f" ending {refund['destination_last4']}" if refund["destination_last4"] else ""
    return words.format(
        amount=f"{money(refund['amount_minor'], refund['currency'])} {refund['currency']}",
        to=_BY_KIND.get(refund['destination_kind'], "the way you paid") + ending,
        when=f" ({instant(sent_at)})" if sent_at else "",
    )  # fmt: skip
