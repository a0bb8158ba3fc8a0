"""What cases that are no return are called on the desks, and the reasons for them and for amounts other than computed."""

from typing import Any, Final

from console import words
from console.filters import money

# What a person chooses, and what they read first.
KINDS: Final[dict[str, dict[str, str]]] = {
    "keep_item": {
        "do": "Money back, the goods are kept", "name": "money back with the goods kept",
        "says": "The customer keeps the goods and gets part of their price back.", "amount": "Amount to give back",
    },
    "price_reduction": {
        "do": "Price reduced for a defect", "name": "price reduction",
        "says": "The customer keeps goods with a defect: their price falls in the ratio of what they are worth with it and without."
        " That is your opinion, and another person approves it.", "amount": "Worth of one unit with its defect",
    },
    "price_adjustment": {
        "do": "Lower price made good", "name": "price adjustment",
        "says": "The price fell after the sale: the difference of each unit goes back, once.", "amount": "New price of one unit",
    },
    "goodwill": {
        "do": "Goodwill", "name": "goodwill",
        "says": "Given by the shop without being owed. It lies on one line and comes off what a later return of it pays.",
        "amount": "Amount to give",
    },
    "shipping_only": {
        "do": "Shipping or a fee alone", "name": "shipping alone",
        "says": "The goods stay; what was paid for shipping or a fee goes back.", "amount": "Amount to give back",
    },
}  # fmt: skip
REASONS: Final = {
    "faulty": "faulty", "damaged": "damaged", "wrong_item": "wrong item", "late": "came late",
    "lower_price": "the price fell", "service": "poor service", "other": "other",
}  # fmt: skip
OVERRIDE_REASONS: Final = {
    "value_loss_agreed": "Loss in value agreed with the customer", "fault_unseen": "A fault that was not seen at first",
    "promise_kept": "A promise of ours is kept", "price_error": "The price was wrong on the order",
    "deduction_waived": "A deduction is waived", "other": "Another reason",
}  # fmt: skip
ENTRIES: Final = {"gross": "with tax", "net": "without tax"}
ROUTES: Final = {
    "desk": "returns desk or a manager", "manager": "a manager", "two_managers": "two managers, one after the other",
}  # fmt: skip
KEPT: Final = frozenset(KINDS)


def reason(code: str) -> str:
    """A reason of a return or of an allowance in words."""
    return words.REASONS.get(code) or words.NEVER_ARRIVED.get(code) or REASONS[code]


def amount(minor: int, currency: str) -> str:
    """ "12.30 GBP"."""
    return f"{money(minor, currency)} {currency}"


def computed(override: dict[str, Any] | None, currency: str) -> dict[str, Any] | None:
    """What stands beside an amount other than computed, from the record of its entitlement; None where it is as computed."""
    if override is None:
        return None
    less = override["minor"] < override["computed_minor"]
    apart = amount(abs(override["minor"] - override["computed_minor"]), currency)
    return {
        "minor": override["computed_minor"], "currency": currency, "apart": f"{apart} {'less' if less else 'more'}",
        "reason": OVERRIDE_REASONS.get(override["reason"], override["reason"]),
    }  # fmt: skip
