"""What the stock codes and country names of the `online-retail` ledger stand for. Found by reading the data."""

from __future__ import annotations

import re

from ledger.order_facts import LineKind

NOT_GOODS: dict[str, LineKind] = {
    "POST": "shipping",
    "DOT": "shipping",
    "C2": "shipping",
    "C3": "shipping",
    "23444": "shipping",  # "Next Day Carriage", numbered like goods
    "M": "fee",
    "D": "fee",
    "S": "fee",
    "B": "fee",
    "CRUK": "fee",
    "AMAZONFEE": "fee",
    "BANK CHARGES": "fee",
    "ADJUST": "fee",
    "ADJUST2": "fee",
}
"""Postage and carriage; manual entries, discounts, samples, bad debts, commissions, charges and adjustments."""

_DIGIT = re.compile(r"[0-9]")
_VOUCHER_OR_TEST = re.compile(r"gift_\d+_\d+|test\d*", re.IGNORECASE)
_LETTERS_ONLY_GOODS = re.compile(r"PADS|DCGS[A-Z]+")


def kind_of(stock_code: str, title: str) -> LineKind:
    """goods, shipping or fee. Codes without a digit are services unless known as goods; gift vouchers are no goods."""
    code = stock_code.upper()
    if code in NOT_GOODS:
        return NOT_GOODS[code]
    if _VOUCHER_OR_TEST.fullmatch(code):
        return "fee"
    if _DIGIT.search(code) or _LETTERS_ONLY_GOODS.fullmatch(code):
        return "goods"
    return "shipping" if re.search(r"\b(POSTAGE|CARRIAGE|DELIVERY)\b", title.upper()) else "fee"


_REGIONS = {
    "australia": "AU",
    "austria": "AT",
    "bahrain": "BH",
    "belgium": "BE",
    "brazil": "BR",
    "canada": "CA",
    "cyprus": "CY",
    "czech republic": "CZ",
    "denmark": "DK",
    "eire": "IE",
    "finland": "FI",
    "france": "FR",
    "germany": "DE",
    "greece": "GR",
    "hong kong": "HK",
    "iceland": "IS",
    "israel": "IL",
    "italy": "IT",
    "japan": "JP",
    "lebanon": "LB",
    "lithuania": "LT",
    "malta": "MT",
    "netherlands": "NL",
    "norway": "NO",
    "poland": "PL",
    "portugal": "PT",
    "rsa": "ZA",
    "saudi arabia": "SA",
    "singapore": "SG",
    "spain": "ES",
    "sweden": "SE",
    "switzerland": "CH",
    "united arab emirates": "AE",
    "united kingdom": "GB",
    "usa": "US",
}


def region_of(country: str) -> str | None:
    """ISO 3166 code of a country of the ledger; None for names of no one country (Channel Islands, Unspecified)."""
    return _REGIONS.get(country.lower())
