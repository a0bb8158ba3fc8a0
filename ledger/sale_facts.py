"""Parts of an order that a return may turn on: what was told, how it was sent, what belongs together, which promotion.

All optional: what the shop does not state is unknown, and an unknown fact never decides. `_minor` is the order's currency.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Literal, Self
from zoneinfo import available_timezones

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ledger.money import MAX_MINOR

MAX_QUANTITY = 1_000_000

NO_CONTROL = r"^[^\x00-\x1f\x7f]+$"
REF = r"^[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


class FieldError(ValueError):
    """A rule over several fields of an order does not hold; `field` is the path of the one to correct."""

    def __init__(self, field: str, say: str) -> None:
        super().__init__(say)
        self.field = field


def _instant(value: object) -> object:
    if isinstance(value, str):
        if not _INSTANT.fullmatch(value):
            raise ValueError("give an instant with seconds and offset, such as 2026-04-20T18:02:11Z")
        try:
            value = datetime.fromisoformat(value.upper())
        except ValueError:
            raise ValueError("there is no such date or time: correct it") from None
    if isinstance(value, datetime) and value.tzinfo is not None:
        if not 1970 <= value.year < 2200:
            raise ValueError("the year must be from 1970 to 2199")
        return value.astimezone(UTC)
    return value


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _zone(value: object) -> object:
    if isinstance(value, str) and value not in _zones():
        raise ValueError("is not an IANA time zone: give one such as Europe/Berlin")
    return value


Instant = Annotated[AwareDatetime, BeforeValidator(_instant)]
Zone = Annotated[str, BeforeValidator(_zone)]
Ref = Annotated[str, Field(min_length=1, max_length=80, pattern=REF)]
Minor = Annotated[int, Field(ge=0, le=MAX_MINOR)]
SignedMinor = Annotated[int, Field(ge=-MAX_MINOR, le=MAX_MINOR)]
Count = Annotated[int, Field(ge=1, le=MAX_QUANTITY)]
Lines = Annotated[tuple[Ref, ...], Field(min_length=1, max_length=5_000)]

FeeType = Literal[
    "gift_wrap", "eco", "deposit_item", "payment_surcharge", "handling", "insurance", "installation", "duty", "tip",
    "donation", "rounding", "other",
]  # fmt: skip


class Facts(BaseModel):
    """Whole numbers and text only, nothing unknown, never changed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Rounding(Facts):
    """How the shop rounded; it explains gaps and changes no figure."""

    mode: Literal["half_up", "half_even", "up", "down"]
    level: Literal["unit", "line", "order"]


class Disclosures(Facts):
    """What the customer was told at the sale, and when. Deductions on a statutory track depend on it."""

    withdrawal_info_at: Instant | None = None
    return_cost_on_consumer: bool | None = None
    restocking_fee: bool | None = None
    gift_condition: bool | None = None
    terms_version: Ref | None = None


class ShippingFacts(Facts):
    """How a shipping line was sent; `standard_offered_minor` is what the cheapest usual service would have cost, tax in."""

    service: Ref | None = None
    standard_offered_minor: Minor | None = None
    flat: bool | None = None
    for_lines: Lines | None = None


class FeeFacts(Facts):
    """What a fee line was for; without `for_lines` it serves every goods line."""

    type: FeeType
    for_lines: Lines | None = None


class BundleFacts(Facts):
    """A component of a bundle: `per_bundle` units in each unit of `parent_line`, whose price is shared over its components.

    The component's own `unit_price_minor` is its stand-alone price; `weight_minor` is its approved weight, by unit.
    """

    id: Ref
    per_bundle: Count
    parent_line: Ref
    weight_minor: Minor | None = None


class Attributes(Facts):
    """Facts about what was sold that rules select on. `replacement_in_stock` is shown where an exchange is asked for."""

    category: Ref | None = None
    final_sale: bool | None = None
    custom_made: bool | None = None
    perishable: bool | None = None
    sealed_hygiene: bool | None = None
    sealed_media: bool | None = None
    digital: bool | None = None
    gift_card: bool | None = None
    dated_service: bool | None = None
    mixed: bool | None = None
    press: bool | None = None
    market_priced: bool | None = None
    auction: bool | None = None
    motor_vehicle: bool | None = None
    used: bool | None = None
    warranty_months: Annotated[int, Field(ge=0, le=1200)] | None = None
    replacement_in_stock: bool | None = None


class Threshold(Facts):
    """So much off the group from a value of goods on: a fixed sum or ten-thousandths."""

    type: Literal["threshold_amount"]
    min_goods_minor: Minor
    off_minor: Minor | None = None
    off_bps: Annotated[int, Field(ge=0, le=10_000)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.off_minor is None) == (self.off_bps is None):
            raise FieldError("off_minor", "give what comes off as off_minor or as off_bps, one of them")
        return self


class Tier(Facts):
    """The price of each unit from so many units on, in the order's price mode."""

    from_quantity: Count
    unit_minor: Minor


class QuantityBreak(Facts):
    """A price by quantity; below the first tier a unit costs its list price."""

    type: Literal["quantity_break"]
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1, max_length=50)]

    @model_validator(mode="after")
    def _rising(self) -> Self:
        starts = [tier.from_quantity for tier in self.tiers]
        if starts != sorted(set(starts)):
            raise FieldError("tiers", "must rise by from_quantity, each once")
        return self


class BuyGet(Facts):
    """Of each `buy` + `get` units the cheapest `get` are `off_bps` off."""

    type: Literal["buy_get"]
    buy: Count
    get: Count
    off_bps: Annotated[int, Field(ge=0, le=10_000)] = 10_000


class MixMatch(Facts):
    """Any `count` units of the group for `price_minor`; the dearest units make up the sets."""

    type: Literal["mix_match"]
    count: Count
    price_minor: Minor


class FreeGift(Facts):
    """A line given away with the others; its list price is what it was worth."""

    type: Literal["free_gift"]
    gift_line: Ref


class FreeShipping(Facts):
    """Shipping that would have cost `shipping_minor` (tax in) below a value of goods."""

    type: Literal["free_shipping"]
    min_goods_minor: Minor
    shipping_minor: Minor


class PartDiscount(Facts):
    """A discount on some units of a line; the line's own discount names the units."""

    type: Literal["part_discount"]


Promo = Annotated[
    Threshold | QuantityBreak | BuyGet | MixMatch | FreeGift | FreeShipping | PartDiscount, Field(discriminator="type")
]
