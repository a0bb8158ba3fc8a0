"""Whole minor units: the six roundings every amount comes from, and the edges where text becomes minor units and back.

All amounts are `int` minor units beside an ISO 4217 code (`_minor`); a float is refused everywhere. Rounding is half up
and cumulative: a part is always the difference of two roundings of the whole, so parts sum to the whole in any order.

    cut(T,q,k,s)  the value of the first k of q equal units of a total T, in steps of s
    part(T,q,a,b) the value of units [a,b)
    peel(h,W,c)   the share of h, which is a part of W, that belongs to the first c of W
    scale(C,W,c)  C in the ratio c : W
    bps(x,r)      r ten-thousandths of x
    spread(D,w)   D over the weights w, in their order

Every function raises `MoneyError` (a `ValueError`) when its precondition does not hold; the message says what to give.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_MINOR = 10**13
"""Largest amount accepted at an edge: sums of hundreds of them stay below 2^53, where canonical JSON ends."""

MINUS = "\u2212"

_EXPONENT_0 = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_EXPONENT_2 = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF"
    " CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD"
    " HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT"
    " MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR"
    " SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU"
    " UZS VED VES WST XCD XCG YER ZAR ZMW ZWG"
)
_EXPONENT_3 = "BHD IQD JOD KWD LYD OMR TND"
_EXPONENT_4 = "CLF UYW"

EXPONENTS: dict[str, int] = {
    code: exponent
    for exponent, codes in ((0, _EXPONENT_0), (2, _EXPONENT_2), (3, _EXPONENT_3), (4, _EXPONENT_4))
    for code in codes.split()
}
"""Decimal digits of each currency by ISO 4217. A provider's exceptions in writing amounts (UGX, ISK) live in its adapter."""

FILS_STEP = dict.fromkeys(("BHD", "JOD", "KWD", "OMR", "TND"), 10)
"""The smallest step, in minor units, that the provider refunds in, by currency; every other currency in whole minor units."""

_MAJOR = re.compile(r"([0-9]+)(?:\.([0-9]+))?")


class MoneyError(ValueError):
    """An amount, a count or a currency is not what this calculation needs; the message says what to give instead."""


def cut(total: int, quantity: int, count: int, step: int = 1) -> int:
    """Value of the first `count` of `quantity` equal units of `total`, in steps of `step` (step divides total)."""
    _whole(total=total, quantity=quantity, count=count, step=step)
    if quantity == 0 or step == 0:
        raise MoneyError("quantity and step must be at least 1")
    if count > quantity:
        raise MoneyError(f"count {count} is more than the quantity {quantity}")
    if total % step:
        raise MoneyError(f"total {total} is not a whole number of steps of {step}")
    return step * ((2 * total * count + quantity * step) // (2 * quantity * step))


def part(total: int, quantity: int, start: int, end: int, step: int = 1) -> int:
    """Value of units [start, end) of a line of `quantity` units worth `total` together; any split sums to `total`."""
    _whole(start=start, end=end)
    if start > end:
        raise MoneyError(f"units [{start},{end}) run backwards")
    return cut(total, quantity, end, step) - cut(total, quantity, start, step)


def peel(held: int, whole: int, first: int) -> int:
    """The share of `held` (a part of `whole`) in the first `first` of `whole`: never above `first`; 0 of nothing."""
    _whole(held=held, whole=whole, first=first)
    if held > whole:
        raise MoneyError(f"the part {held} is more than the whole {whole}")
    if first > whole:
        raise MoneyError(f"the first {first} is more than the whole {whole}")
    if whole == 0:
        return 0
    return (2 * held * first + whole) // (2 * whole)


def scale(amount: int, whole: int, ratio: int) -> int:
    """`amount` in the ratio `ratio` : `whole`, for draws in another currency and for value and time ratios."""
    _whole(amount=amount, whole=whole, ratio=ratio)
    if whole == 0:
        raise MoneyError("the whole of a ratio must be at least 1")
    if ratio > whole:
        raise MoneyError(f"the ratio {ratio} is more than its whole {whole}")
    return (2 * amount * ratio + whole) // (2 * whole)


def bps(amount: int, rate_bps: int) -> int:
    """`rate_bps` ten-thousandths of `amount`, half up."""
    _whole(amount=amount, rate_bps=rate_bps)
    return (amount * rate_bps + 5000) // 10000


def ppm(amount: int, rate_ppm: int) -> int:
    """`rate_ppm` millionths of `amount`, half up: tax on a net amount at a stated rate."""
    _whole(amount=amount, rate_ppm=rate_ppm)
    return (amount * rate_ppm + 500_000) // 1_000_000


def spread(total: int, weights: Sequence[int], step: int = 1) -> list[int]:
    """`total` over `weights` in their order by cumulative rounding: the shares sum to `total`.

    With total ≤ sum of weights (and step 1) no share is above its weight. All weights 0 only spreads a total of 0.
    """
    whole = sum(weights)
    if whole == 0:
        _whole(total=total)
        if total:
            raise MoneyError(f"{total} cannot be spread: every weight is 0")
        return [0] * len(weights)
    shares, before, reached = [], 0, 0
    for weight in weights:
        _whole(weight=weight)
        reached += weight
        after = cut(total, whole, reached, step)
        shares.append(after - before)
        before = after
    return shares


def exponent(currency: str) -> int:
    """Decimal digits of an ISO 4217 currency; `MoneyError` for a code that is not in force."""
    try:
        return EXPONENTS[currency]
    except KeyError:
        raise MoneyError(
            f"{currency!r} is not a currency code of ISO 4217: give one such as EUR, in capitals"
        ) from None


def parse_major(text: str, currency: str) -> int:
    """The minor units of an amount typed in major units with a point ("12.30"), for forms and files only.

    Refuses, saying what to write: signs, thousand separators, decimal commas, exponents, more decimals than the
    currency has, and amounts above `MAX_MINOR`. Nothing is ever cut off or rounded.
    """
    digits = exponent(currency)
    match = _MAJOR.fullmatch(text.strip())
    if match is None:
        raise MoneyError(_unreadable(text.strip(), currency, digits))
    whole, decimals = match[1], match[2] or ""
    if len(decimals) > digits:
        has = f"{digits} decimals" if digits else "no decimals"
        raise MoneyError(f"too many decimals: {currency} has {has}, write it like {_example(digits)}")
    if len(whole) > 18:
        raise MoneyError("the amount is too large")
    minor = int(whole + decimals.ljust(digits, "0"))
    if minor > MAX_MINOR:
        raise MoneyError(f"the amount is too large: the most is {format_minor(MAX_MINOR, currency)} {currency}")
    return minor


def format_minor(minor: int, currency: str) -> str:
    """An amount in major units with a point, "12.30", with U+2212 as minus; the caller shows the code beside it."""
    digits = exponent(currency)
    if type(minor) is not int:
        raise MoneyError("an amount must be a whole number of minor units")
    text = str(abs(minor)).rjust(digits + 1, "0")
    if digits:
        text = f"{text[:-digits]}.{text[-digits:]}"
    return MINUS + text if minor < 0 else text


def _whole(**numbers: int) -> None:
    for name, number in numbers.items():
        if type(number) is not int:
            raise MoneyError(f"{name} must be a whole number, not {type(number).__name__}")
        if number < 0:
            raise MoneyError(f"{name} must not be negative")


def _example(digits: int) -> str:
    return "12" + ("." + "305000"[:digits] if digits else "")


def _unreadable(text: str, currency: str, digits: int) -> str:
    example = _example(digits)
    if not text:
        return f"no amount given: write it like {example}"
    if text[0] in "+-" + MINUS:
        return f"an amount has no sign: write it like {example}"
    if re.search(r"[,'’_\s\u00a0\u202f]", text):
        return f"an amount has no comma, space or thousand separator: write {currency} with a point, like {example}"
    return f"the amount cannot be read: write {currency} with digits and a point, like {example}"
