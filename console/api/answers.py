"""How a return stands, in words a channel may read out to its customer: nothing is called paid before the provider says so."""

from datetime import datetime
from typing import Any, Final

from console.charge_words import FOUND
from console.customer_words import refund_sentence
from ledger.duplicate_record import KIND as DUPLICATE_CHARGE
from ledger.queries.returns import ReturnStanding

STAGE_WORDS: Final = {
    "waiting_goods": "Waiting for the goods",
    "reading": "Being checked",
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
    "exchanged": "Exchanged",
}
CASE_SENTENCES: Final = {
    "waiting_goods": "Your return is noted. We write to you when the goods have arrived and were checked.",
    "needs_person": "Your return is being checked by a person. We write to you when it is decided.",
    "nothing_due": "Your return was checked. There is nothing to pay back for it.",
    "rejected": "Your return was not accepted. Nothing was paid for it.",
    "exchanged": "Your return is exchanged for other goods. No money is paid back for it.",
}
# What did not reach the customer goes nowhere: nothing is to arrive, somebody looks where it is.
CANCELLED_SENTENCES: Final = {
    "waiting_goods": "We are looking where your goods are. We write to you when we know.",
    "needs_person": "Your request is being checked by a person. We write to you when it is decided.",
    "nothing_due": "Your request was checked. There is nothing to pay back for it.",
    "rejected": "Your request was checked, and these goods are not paid back under it.",
}
WARRANTY_SENTENCES: Final = CANCELLED_SENTENCES | {
    "waiting_goods": "Your warranty claim is being checked. We write to you when it is decided."
}
_OF_KIND: Final = {"cancellation": CANCELLED_SENTENCES, "warranty": WARRANTY_SENTENCES}
CHARGE_SENTENCES: Final = {
    "reading": "We are looking at the charges of your order at the payment provider. We write to you when that is done.",
    "needs_person": "We have looked at the charges of your order and check one thing by hand. We write to you when it is settled.",
    "nothing_due": "We have looked at the charges of your order. No charge is paid back for it.",
    "rejected": "We have looked at the charges of your order. No charge is paid back for it.",
}
UNPROVEN_SENTENCE: Final = (
    "We can tell you more about your refund once we know that the order is yours."
    " Which e-mail address did you order with?"
)
WITHHELD: Final = (
    "Amounts, times and references are for a proven customer: open the return again as the existing one, from a new"
    " conversation.reference, with `customer` or conversation.customer_verified."
)


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
        if refund["state"] == "succeeded" and refund["act"] != "cancel_payment":
            paid[refund["currency"]] = paid.get(refund["currency"], 0) + refund["amount_minor"]
    return {
        **known,
        "paid": [{"amount_minor": minor, "currency": currency} for currency, minor in sorted(paid.items())],
        "refunds": [_refund(refund) for refund in found.refunds],
        "closed_at": _instant(found.closed_at),
    }


def to_customer(found: ReturnStanding) -> str:
    """One honest sentence per refund; before there is any, one about the return, or about the charges."""
    if found.kind == DUPLICATE_CHARGE and found.stage in CHARGE_SENTENCES:
        known = found.proven and found.stage == "nothing_due" and found.found in FOUND
        return FOUND[found.found].customer if known else CHARGE_SENTENCES[found.stage]
    said_of = CASE_SENTENCES | _OF_KIND.get(found.kind, {})
    if found.stage in said_of and not any(refund["state"] == "succeeded" for refund in found.refunds):
        return said_of[found.stage]
    if not found.proven:
        return UNPROVEN_SENTENCE
    said = [refund_sentence(refund) for refund in found.refunds]
    return " ".join(said) or CASE_SENTENCES["needs_person"]


def _refund(refund: dict[str, Any]) -> dict[str, Any]:
    return {
        "reference": refund["provider_refund_ref"] or f"R-{refund['number']}",
        "bank_reference": refund["provider_reference"] or None,
        "amount_minor": refund["amount_minor"],
        "currency": refund["currency"],
        "act": refund["act"],
        "state": refund["state"],
        "since": _instant(refund["state_at"]),
    }


def _instant(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None
