"""Findings about charges in words: what decided, what to tell the customer, and what to do next."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Said:
    """`decided`: why it was found so. `customer`: what may be told, true as it stands. `next`: what staff do, "" for nothing."""

    decided: str
    customer: str
    next: str = ""


VERDICTS: Final = {
    "verified": ("Charged twice", "succeeded", "check"),
    "none": ("Not charged twice", "withdrawn", "minus"),
    "investigate": ("Needs a person", "needs_review", "person"),
}
_LOOKED_AT: Final = (
    "We have looked at the charges of your order and check one thing by hand. We write to you when it is settled."
)
FOUND: Final[dict[str, Said]] = {
    "charged_twice": Said(
        "What is too much is exactly what is left of one charge. It goes back whole, to the card it was taken from.",
        "You were charged twice. Paying the second charge of {amount} back to {to} is being checked. It is not approved yet;"
        " we write to you when it is.",
        "Check and approve the refund.",
    ),
    "hold": Said(
        "The second amount is only held on the card: nothing was taken of it.",
        "You were charged once. The second amount is only reserved by your bank and was not taken; it lapses by itself.",
        "If the customer cannot wait, let go of the hold: cancel that payment in the shop.",
    ),
    "hold_gone": Said(
        "The second amount was held and never taken; the hold is gone.",
        "You were charged once. The second amount was only reserved and is released; your bank may show it for some days.",
    ),
    "reversal": Said(
        "One of the charges went back whole already.",
        "One of the two charges was paid back to you already. Your bank may need some days to show it.",
        "If that refund was made outside for goods that came back, finance puts it on their case; the charges are then read again.",
    ),
    "two_currencies": Said(
        "The charges are in two currencies, and nothing is compared by a rate.",
        _LOOKED_AT,
        "Look at both charges at the provider and say which order each is for.",
    ),
    "two_purchases": Said(
        "There is another order of this customer with the same amount, and each was paid once.",
        "You have two orders of the same amount, and each was charged once.",
        "If one of the two was not wanted and is not sent yet, cancel that order.",
    ),
    "shown_twice": Said(
        "It is one charge that is shown twice.",
        "You were charged once. Your statement shows the same charge twice, with the same reference.",
    ),
    "parts_of_one_total": Said(
        "The charges together are what the order cost.",
        "Your order was paid in parts. Together they are what it cost; nothing was taken twice.",
    ),
    "one_charge": Said(
        "The order has one charge, and it is no more than the order cost.",
        "You were charged once for this order.",
        "Ask for the reference on the statement: the other charge may be for another order.",
    ),
    "with_the_bank": Said(
        "The customer's bank has taken a charge up. That money comes back through the bank, or not at all.",
        "Your bank is looking at this charge at your request. It decides, and tells you.",
        "Answer the bank. When it has decided, the charges are read again.",
    ),
    "read_failed": Said(
        "The charges could not be read to the end: {facts}.",
        _LOOKED_AT,
        "Read the charges again.",
    ),
    "books_differ": Said(
        "The provider shows other figures of a charge than the books.",
        _LOOKED_AT,
        "Finance settles the difference first; then read the charges again.",
    ),
    "charge_of_no_order": Said(
        "The customer has another charge of this amount that no order here names: {facts}.",
        _LOOKED_AT,
        "Find out what it paid for. If it was for this order, let the shop send the order again with that payment.",
    ),
    "disputed": Said(
        "A bank disputes a charge of this order, or asks about one.",
        "Your bank is looking at one of these charges. It decides, and tells you.",
        "Answer the bank first: a refund beside it may pay twice.",
    ),
    "refund_on_no_case": Said(
        "A refund of one of the charges was made outside and is on no case yet, or is not settled.",
        _LOOKED_AT,
        "Finance says what that refund was for; the charges are then read again.",
    ),
    "cash_or_bank_too": Said(
        "Part of the order was paid in cash or by bank transfer, which no provider shows.",
        _LOOKED_AT,
        "Compare with the till or the bank statement.",
    ),
    "two_accounts": Said(
        "The charges are on two accounts of the provider.",
        _LOOKED_AT,
        "Look at both accounts and say which order each charge is for.",
    ),
    "one_charge_too_high": Said(
        "One charge is more than the order cost. That is no second charge.",
        _LOOKED_AT,
        "Find out why more was taken: the order may have changed after it was paid.",
    ),
    "fits_no_single_charge": Said(
        "What is too much is not what is left of any one charge.",
        _LOOKED_AT,
        "Find out which of the charges are for this order.",
    ),
    "planned": Said(
        "The charge that fits is part of an agreed plan, such as an instalment or a deposit.",
        _LOOKED_AT,
        "Compare with the plan.",
    ),
}  # fmt: skip
# Why a reading did not come to its end, by the code of it.
UNREAD: Final = {
    "not_recorded": "what was read could not be written down, and after five tries it was given up",
    "disputes_unread": "what the banks dispute could not be read",
    "refund_lost": "the provider shows a refund of ours that the books do not have",
    "no_answer": "the provider did not answer",
    "connection_refused": "nothing answered at the provider's address",
    "no_credential": "there is no key for this account",
    "credential_of_other_mode": "the key is one of the other mode, test or live",
    "wrong_account": "the key is one of another account",
}
_WITH_A_KEY: Final = "Engineers put the key right first; then read the charges again."
# What is done about it where reading again is not enough.
_NEXT_UNREAD: Final = {
    "not_recorded": "Read the charges again. If it ends like this once more, tell the engineers: the worker's log says what the"
    " database refused, at charges_failed.",
    "refund_lost": "Engineers run `flask recover` first; then read the charges again.",
    **dict.fromkeys(("no_credential", "credential_of_other_mode", "wrong_account"), _WITH_A_KEY),
}


def unread(codes: Iterable[str]) -> str:
    """Why a reading did not come to its end, in words; an answer of the provider that has none here keeps its code."""
    return "; ".join(UNREAD.get(code, f"the provider answered {code}") for code in codes)


def next_of(reason: str, facts: Iterable[str]) -> str:
    """What staff do about a finding, "" for nothing."""
    more = [_NEXT_UNREAD[code] for code in facts if code in _NEXT_UNREAD] if reason == "read_failed" else []
    return more[0] if more else FOUND[reason].next
