"""Between our minor units (ISO 4217) and what the provider takes. Its exceptions live here only (STRIPE.md §6)."""

from typing import Final

from ledger.money import EXPONENTS, FILS_STEP

# https://docs.stripe.com/currencies: sent without decimals …
_WITHOUT_DECIMALS: Final = frozenset(
    ("BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF")
)
# … sent with three, the last of which is 0: `FILS_STEP` …
# … without decimals by ISO, and yet sent with two that are always 00.
_TWO_EMPTY_DECIMALS: Final = frozenset(("ISK", "UGX"))


class NotSendable(ValueError):
    """This amount cannot be said to the provider in its units."""


def to_provider(amount_minor: int, currency: str) -> int:
    """Our minor units as the provider's. Raises NotSendable for a currency or an amount it has no units for."""
    ours, theirs = _exponents(currency)
    amount = amount_minor * _ten_to(theirs - ours)
    divisor = _ten_to(ours - theirs)
    if amount_minor < 1 or amount % divisor:
        raise NotSendable(f"{amount_minor} minor units of {currency} are no whole amount at the provider")
    amount //= divisor
    step = FILS_STEP.get(currency, 1)
    if amount_minor % step:
        raise NotSendable(f"{amount_minor} minor units of {currency}: the provider takes steps of {step}")
    return amount


def from_provider(amount: int, currency: str) -> int:
    """The provider's units as our minor units; 0, which no refund of ours has, when it is no whole number."""
    try:
        ours, theirs = _exponents(currency)
    except NotSendable:
        return 0
    scaled = amount * _ten_to(ours - theirs)
    divisor = _ten_to(theirs - ours)
    return 0 if scaled % divisor else scaled // divisor


def _ten_to(places: int) -> int:
    return int("1" + "0" * places)


def _exponents(currency: str) -> tuple[int, int]:
    ours = EXPONENTS.get(currency)
    if ours is None:
        raise NotSendable(f"{currency} is no currency of ISO 4217")
    if currency in _TWO_EMPTY_DECIMALS:
        return ours, 2
    if currency in _WITHOUT_DECIMALS:
        return ours, 0
    if currency in FILS_STEP:
        return ours, 3
    if ours != 2:
        raise NotSendable(f"the provider's units of {currency} are not known")
    return ours, 2
