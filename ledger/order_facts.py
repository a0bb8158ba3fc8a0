"""An order as a shop states it: the `onceback` import format and the body of `PUT /api/v1/orders/{external_ref}`.

`ledger.order_document` reads it from JSON. Figures that are well formed but do not add up are *not* refused: they are
facts, kept, and `ledger.allocation` gives them a named discrepancy.

Units: `_minor` whole minor units of the order's currency (`captured_minor`: of the capture's own); `rate_ppm`
millionths; instants are RFC 3339 with an offset, kept in UTC. Unknown fields, duplicate keys and decimals are refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, Self
from zoneinfo import available_timezones

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ledger.canonical import MAX_SAFE, digest
from ledger.money import MAX_MINOR

MAX_LINES = 5_000
MAX_QUANTITY = 1_000_000

_NO_CONTROL = r"^[^\x00-\x1f\x7f]+$"
_REF = r"^[^\x00-\x20\x7f](?:[^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"
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
Ref = Annotated[str, Field(min_length=1, max_length=80, pattern=_REF)]
Minor = Annotated[int, Field(ge=0, le=MAX_MINOR)]
SignedMinor = Annotated[int, Field(ge=-MAX_MINOR, le=MAX_MINOR)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Tender = Literal["card", "wallet", "bank", "gift_card", "store_credit", "cash"]
LineKind = Literal["goods", "shipping", "fee"]
DiscountMethod = Literal["explicit@1", "value.cumulative@1", "value.largest_remainder@1", "quantity.cumulative@1"]


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CustomerFacts(_Facts):
    """Who bought; `external_ref` is the shop's own number for the customer."""

    external_ref: Ref
    name: Annotated[str, Field(min_length=1, max_length=200, pattern=_NO_CONTROL)]
    email: Annotated[str, Field(max_length=254, pattern=r"^[^\x00-\x20\x7f@]+@[^\x00-\x20\x7f@]+$")] | None = None


class LineDiscount(_Facts):
    """A discount on one whole line, in minor units of the order's price mode."""

    id: Ref
    minor: Minor


class TaxFacts(_Facts):
    """One tax code of a line: the minor units charged, or the rate they are to be computed from, or both."""

    code: Annotated[str, Field(min_length=1, max_length=40, pattern=_REF)]
    rate_ppm: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    minor: Minor | None = None

    @model_validator(mode="after")
    def _stated(self) -> Self:
        if self.rate_ppm is None and self.minor is None:
            raise FieldError("minor", "give the tax charged (minor) or its rate (rate_ppm)")
        return self


class LineFacts(_Facts):
    """One order line; `gross_minor` (all discounts off, tax in) and `tax_minor` as charged, where the shop says so.

    `unit_price_minor` is before discounts and contains tax when the order's price mode is inclusive. A negative price
    or gross is kept and becomes the discrepancy `negative_line`.
    """

    line_ref: Ref
    position: Annotated[int, Field(ge=1, le=MAX_QUANTITY)]
    kind: LineKind
    sku: Ref
    title: Annotated[str, Field(min_length=1, max_length=300, pattern=_NO_CONTROL)]
    quantity: Annotated[int, Field(ge=1, le=MAX_QUANTITY)]
    unit_price_minor: SignedMinor
    discounts: Annotated[tuple[LineDiscount, ...], Field(max_length=50)] = ()
    gross_minor: SignedMinor | None = None
    tax_minor: Minor | None = None
    taxes: Annotated[tuple[TaxFacts, ...], Field(max_length=20)] = ()

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if abs(self.quantity * self.unit_price_minor) > MAX_MINOR:
            raise FieldError("unit_price_minor", "quantity times price is too large: split the line")
        if self.taxes:
            _unique("taxes", "code", [tax.code for tax in self.taxes])
        return self


class OrderDiscount(_Facts):
    """A discount over several lines: how it spreads (`method`), or the shop's own `shares` in minor units by line."""

    id: Ref
    minor: Minor
    applies_to: Annotated[tuple[Ref, ...], Field(min_length=1, max_length=MAX_LINES)]
    method: DiscountMethod = "value.cumulative@1"
    shares: dict[Ref, Minor] | None = None

    @model_validator(mode="after")
    def _lines_named_once(self) -> Self:
        if len(set(self.applies_to)) < len(self.applies_to):
            raise FieldError("applies_to", "names a line twice: name each line once")
        if self.method == "explicit@1" and self.shares is None:
            raise FieldError("shares", "the method explicit@1 needs the shares of each line")
        if self.shares is not None and not set(self.shares) <= set(self.applies_to):
            raise FieldError("shares", "has a line that applies_to does not name")
        return self


class Destination(_Facts):
    """Where a refund of the capture goes, as the customer knows it: "card", "visa", "4242"."""

    kind: Tender
    brand: Annotated[str, Field(min_length=1, max_length=40, pattern=_NO_CONTROL)] | None = None
    last4: Annotated[str, Field(pattern=r"^[0-9A-Za-z]{1,4}$")] | None = None


class CaptureFacts(_Facts):
    """Money taken. `captured_minor` in the capture's own `currency`; `order_minor` the part of the order it paid.

    `order_minor` may be left out when both currencies are the same. `step_minor` is the smallest step the provider
    refunds in. The provider's references may be unknown at import; without one the capture cannot be paid back there.

    Money that was authorised and not taken yet has `status` "authorised": `authorised_minor` is what the provider holds in
    all, `captured_minor` what was taken of it so far (usually 0), and `order_minor` counts against what was authorised.
    A capture that is final needs no `status`; what was authorised above it was let go and is no part of the order.
    """

    capture_ref: Ref
    tender: Tender
    currency: Currency
    captured_minor: Minor
    order_minor: Minor | None = None
    status: Literal["authorised", "captured"] | None = None
    authorised_minor: Minor | None = None
    step_minor: Literal[1, 10, 100] = 1
    captured_at: Instant
    payment_intent_ref: Ref | None = None
    charge_ref: Ref | None = None
    destination: Destination | None = None

    @property
    def held_minor(self) -> int:
        """What the provider holds and has not taken, in the capture's currency."""
        return (self.authorised_minor or 0) - self.captured_minor if self.status == "authorised" else 0

    @model_validator(mode="after")
    def _held(self) -> Self:
        if self.authorised_minor is not None and self.authorised_minor < self.captured_minor:
            raise FieldError("authorised_minor", "is less than what was captured of it")
        if self.status == "authorised":
            if not self.authorised_minor or self.authorised_minor == self.captured_minor:
                raise FieldError(
                    "authorised_minor", "say how much is held; a capture of all of it is not authorised only"
                )
            if self.payment_intent_ref is None or self.charge_ref is None:
                raise FieldError("charge_ref", "an authorised payment needs the provider's references")
        return self


class OrderFacts(_Facts):
    """One order as imported; see the module. `total_minor` is what the customer had to pay in all, tax and shipping in.

    `tax_total_minor` is for shops that state tax for the whole order only.
    """

    external_ref: Ref
    currency: Currency
    total_minor: Minor
    tax_total_minor: Minor | None = None
    placed_at: Instant
    zone: Annotated[str, BeforeValidator(_zone)]
    region: Annotated[str, Field(pattern=r"^[A-Z]{2}(?:-[A-Z0-9]{1,3})?$")] | None = None
    channel: Annotated[str, Field(min_length=1, max_length=24, pattern=_REF)]
    price_mode: Literal["inclusive", "exclusive"]
    customer: CustomerFacts | None = None
    lines: Annotated[tuple[LineFacts, ...], Field(min_length=1, max_length=MAX_LINES)]
    order_discounts: Annotated[tuple[OrderDiscount, ...], Field(max_length=50)] = ()
    captures: Annotated[tuple[CaptureFacts, ...], Field(max_length=50)] = ()

    @model_validator(mode="after")
    def _links_hold(self) -> Self:
        refs = [line.line_ref for line in self.lines]
        _unique("lines", "line_ref", refs)
        _unique("lines", "position", [line.position for line in self.lines])
        _unique("captures", "capture_ref", [capture.capture_ref for capture in self.captures])
        _unique("order_discounts", "id", [discount.id for discount in self.order_discounts])
        known = set(refs)
        for index, discount in enumerate(self.order_discounts):
            if not known.issuperset(discount.applies_to):
                raise FieldError(f"order_discounts[{index}].applies_to", "names a line the order does not have")
        for index, capture in enumerate(self.captures):
            same = capture.currency == self.currency
            whole = capture.captured_minor + capture.held_minor
            if same and capture.order_minor is not None and capture.order_minor > whole:
                raise FieldError(f"captures[{index}].order_minor", "is more than captured_minor in the same currency")
        stated = sum(abs(line.quantity * line.unit_price_minor) + abs(line.gross_minor or 0) for line in self.lines)
        if stated + sum(capture.captured_minor + (capture.order_minor or 0) for capture in self.captures) > MAX_SAFE:
            raise FieldError("lines", "the amounts together are too large: split the order")
        return self

    def document(self) -> dict[str, Any]:
        """The facts as a JSON document with absent fields left out: the form that is stored and digested."""
        return self.model_dump(mode="json", exclude_none=True)

    def digest(self) -> str:
        """SHA-256 of the canonical document: equal facts, whatever their spelling, have equal digests."""
        return digest(self.document(), "order-facts@1")


def _unique(field: str, name: str, values: list[Any]) -> None:
    if len(set(values)) == len(values):
        return
    seen = set()
    for index, value in enumerate(values):
        if value in seen:
            raise FieldError(f"{field}[{index}].{name}", "is used twice: each one must be unique")
        seen.add(value)
