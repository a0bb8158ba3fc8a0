"""How a return stands, in words a channel may read out to its customer: nothing is called paid before the provider says so."""

from datetime import datetime
from typing import Any, Final

from ledger.money import format_minor
from ledger.queries.returns import ReturnStanding

STAGE_WORDS: Final = {
    "waiting_goods": "Waiting for the goods",
    "ready": "Being checked",
    "needs_person": "Being checked",
    "nothing_due": "Nothing to pay back",
    "approved": "Approved, not sent",
    "held": "Approved, not sent",
    "sending": "Sending",
    "unknown": "Answer not known",
    "pending": "Accepted, not settled",
    "needs_review": "Being confirmed by hand",
    "paid": "Paid",
    "came_back": "Came back",
    "refused": "Refused by the provider",
    "rejected": "Rejected",
}
CASE_SENTENCES: Final = {
    "waiting_goods": "Your return is noted. We write to you when the goods have arrived and were checked.",
    "needs_person": "Your return is being checked by a person. We write to you when it is decided.",
    "nothing_due": "Your return was checked. There is nothing to pay back for it.",
    "rejected": "Your return was not accepted. Nothing was paid for it.",
}
REFUND_SENTENCES: Final = {
    "proposed": "Your refund of {amount} is being checked. It is not approved yet; we write to you when it is.",
    "approved": "Your refund of {amount} to {to} is approved and will be sent shortly. It is not paid yet;"
    " we write to you when it is.",
    "held": "Your refund of {amount} to {to} is approved. It is not sent yet; we write to you when it is paid.",
    "submitting": "Your refund of {amount} to {to} is being sent now. It is not paid yet; we write to you when it is.",
    "unknown": "Your refund of {amount} was sent. We are confirming it with the payment provider and write to you."
    " You do not need to ask again.",
    "needs_review": "Your refund of {amount} was sent. We are confirming it with the payment provider by hand and write to you."
    " You do not need to ask again.",
    "pending": "Your refund of {amount} to {to} was accepted by the payment provider. Your bank has not confirmed it yet;"
    " we write to you when it is paid.",
    "succeeded": "Your refund of {amount} to {to} is paid. Your bank may need some days to show it.",
    "failed": "Your refund of {amount} to {to} was refused by the payment provider. Nothing was paid."
    " We are looking for another way and write to you.",
    "reversed": "Your refund of {amount} to {to} did not reach you and came back to us. You do not have the money."
    " We are arranging another way and write to you.",
}
UNPROVEN_SENTENCE: Final = (
    "We can tell you more about your refund once we know that the order is yours."
    " Which e-mail address did you order with?"
)
WITHHELD: Final = (
    "Amounts, times and references are for a proven customer: open the return again as the existing one, from a new"
    " conversation.reference, with `customer` or conversation.customer_verified."
)
OWN_WORDS: Final = {
    "card": "your card",
    "bank": "your bank account",
    "wallet": "your wallet",
    "gift_card": "your gift card",
}


def standing(found: ReturnStanding) -> dict[str, Any]:
    """The answer of `GET /returns/{number}`: stage in words, the sentence for the customer, what was paid. No person, no note.

    What was paid, when and where to, is for a customer that the channel has proven.
    """
    known = {
        "case": f"C-{found.number}",
        "order": found.order_ref,
        "stage": found.stage,
        "stage_words": STAGE_WORDS[found.stage],
        "to_customer": to_customer(found),
        "lines": [{"line": line, "quantity": quantity} for line, quantity in found.lines],
        "received": found.received,
        "opened_at": _instant(found.opened_at),
    }
    if not found.proven:
        return {**known, "withheld": WITHHELD}
    paid: dict[str, int] = {}
    for refund in found.refunds:
        if refund["state"] == "succeeded":
            paid[refund["currency"]] = paid.get(refund["currency"], 0) + refund["amount_minor"]
    return {
        **known,
        "paid": [{"amount_minor": minor, "currency": currency} for currency, minor in sorted(paid.items())],
        "refunds": [_refund(refund) for refund in found.refunds],
        "closed_at": _instant(found.closed_at),
    }


def to_customer(found: ReturnStanding) -> str:
    """One honest sentence per refund; before there is any, one about the return."""
    if found.stage in CASE_SENTENCES and not any(refund["state"] == "succeeded" for refund in found.refunds):
        return CASE_SENTENCES[found.stage]
    if not found.proven:
        return UNPROVEN_SENTENCE
    said = [refund_sentence(refund) for refund in found.refunds]
    return " ".join(said) or CASE_SENTENCES["needs_person"]


def refund_sentence(refund: dict[str, Any]) -> str:
    """What the customer may be told about one refund in its state."""
    amount = f"{format_minor(refund['amount_minor'], refund['currency'])} {refund['currency']}"
    to = OWN_WORDS.get(refund["destination_kind"], "the way you paid")
    ending = f" ending {refund['destination_last4']}" if refund["destination_last4"] else ""
    return REFUND_SENTENCES[refund["state"]].format(amount=amount, to=to + ending)


def _refund(refund: dict[str, Any]) -> dict[str, Any]:
    return {
        "reference": refund["provider_refund_ref"] or f"R-{refund['number']}",
        "bank_reference": refund["provider_reference"] or None,
        "amount_minor": refund["amount_minor"],
        "currency": refund["currency"],
        "state": refund["state"],
        "since": _instant(refund["state_at"]),
    }


def _instant(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None
