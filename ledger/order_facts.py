"""An order as a shop states it: the `onceback` import format and the body of `PUT /api/v1/orders/{external_ref}`.

`ledger.order_document` reads it from JSON. Figures that are well formed but do not add up are *not* refused: they are
facts, kept, and `ledger.allocation` gives them a named discrepancy.

Units: `_minor` whole minor units of the order's currency (`captured_minor`: of the capture's own); `rate_ppm`
millionths; instants are RFC 3339 with an offset, kept in UTC. Unknown fields, duplicate keys and decimals are refused.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ledger.canonical import MAX_SAFE, digest
from ledger.money import FILS_STEP, MAX_MINOR
from ledger.sale_facts import (
    MAX_QUANTITY,
    NO_CONTROL,
    REF,
    Attributes,
    BundleFacts,
    Count,
    Disclosures,
    Facts,
    FeeFacts,
    FieldError,
    Instant,
    Minor,
    Promo,
    Ref,
    Rounding,
    ShippingFacts,
    SignedMinor,
    Zone,
)

__all__ = ["MAX_LINES", "MAX_QUANTITY", "FieldError", "OrderFacts"]

MAX_LINES = 5_000
# A deposit is paid long before, and what was lent first is bought later; more than this is a slip in one of the dates.
EARLIEST = timedelta(days=366)

Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Tender = Literal["card", "wallet", "bank", "gift_card", "store_credit", "cash", "exchange_credit"]
LineKind = Literal["goods", "shipping", "fee"]
DiscountMethod = Literal["explicit@1", "value.cumulative@1", "value.largest_remainder@1", "quantity.cumulative@1"]


class CustomerFacts(Facts):
    """Who bought; `external_ref` is the shop's own number for the customer."""

    external_ref: Ref
    name: Annotated[str, Field(min_length=1, max_length=200, pattern=NO_CONTROL)]
    email: Annotated[str, Field(max_length=254, pattern=r"^[^\x00-\x20\x7f@]+@[^\x00-\x20\x7f@]+$")] | None = None


class LineDiscount(Facts):
    """A discount on one line, in minor units of the order's price mode; `units` says that it is on so many units only."""

    id: Ref
    minor: Minor
    units: Count | None = None


class TaxFacts(Facts):
    """One tax code of a line: the minor units charged, or the rate they are to be computed from, or both."""

    code: Annotated[str, Field(min_length=1, max_length=40, pattern=REF)]
    rate_ppm: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    minor: Minor | None = None

    @model_validator(mode="after")
    def _stated(self) -> Self:
        if self.rate_ppm is None and self.minor is None:
            raise FieldError("minor", "give the tax charged (minor) or its rate (rate_ppm)")
        return self


class LineFacts(Facts):
    """One order line; `gross_minor` (all discounts off, tax in) and `tax_minor` as charged, where the shop says so.

    `unit_price_minor` is before discounts and contains tax when the order's price mode is inclusive. A negative price
    or gross is kept and becomes the discrepancy `negative_line`.
    """

    line_ref: Ref
    position: Annotated[int, Field(ge=1, le=MAX_QUANTITY)]
    kind: LineKind
    sku: Ref
    title: Annotated[str, Field(min_length=1, max_length=300, pattern=NO_CONTROL)]
    quantity: Annotated[int, Field(ge=1, le=MAX_QUANTITY)]
    unit_price_minor: SignedMinor
    discounts: Annotated[tuple[LineDiscount, ...], Field(max_length=50)] = ()
    gross_minor: SignedMinor | None = None
    tax_minor: Minor | None = None
    taxes: Annotated[tuple[TaxFacts, ...], Field(max_length=20)] = ()
    list_price_minor: Minor | None = None
    shipping: ShippingFacts | None = None
    fee: FeeFacts | None = None
    shipment: Ref | None = None
    delivered_at: Instant | None = None
    attributes: Attributes | None = None
    serials: Annotated[tuple[Ref, ...], Field(min_length=1, max_length=MAX_LINES)] | None = None
    bundle: BundleFacts | None = None

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if abs(self.quantity * self.unit_price_minor) > MAX_MINOR:
            raise FieldError("unit_price_minor", "quantity times price is too large: split the line")
        if self.taxes:
            _unique("taxes", "code", [tax.code for tax in self.taxes])
        _unique("discounts", "id", [discount.id for discount in self.discounts])
        if self.serials is not None and (len(self.serials) != self.quantity or len(set(self.serials)) < self.quantity):
            raise FieldError("serials", "needs one serial for each unit, each once")
        if self.shipping is not None and self.kind != "shipping":
            raise FieldError("shipping", "is for a line of kind shipping: remove it")
        if self.fee is not None and self.kind != "fee":
            raise FieldError("fee", "is for a line of kind fee: remove it")
        if self.fee is not None and self.fee.type == "rounding" and (self.tax_minor or self.taxes):
            raise FieldError("tax_minor", "is for what was sold: state a rounding without tax")
        if self.bundle is not None and self.kind != "goods":
            raise FieldError("bundle", "is for a line of kind goods: remove it")
        if self.bundle is not None and self.discounts:
            raise FieldError("discounts", "belong on the line that holds the bundle, whose price its parts share")
        for index, discount in enumerate(self.discounts):
            if discount.units is not None and discount.units > self.quantity:
                raise FieldError(f"discounts[{index}].units", "is more than the line's quantity")
        return self


class OrderDiscount(Facts):
    """A discount over several lines: how it spreads (`method`), or the shop's own `shares` in minor units by line."""

    id: Ref
    minor: Minor
    applies_to: Annotated[tuple[Ref, ...], Field(min_length=1, max_length=MAX_LINES)]
    method: DiscountMethod = "value.cumulative@1"
    shares: dict[Ref, Minor] | None = None
    promo: Promo | None = None

    @model_validator(mode="after")
    def _lines_named_once(self) -> Self:
        if len(set(self.applies_to)) < len(self.applies_to):
            raise FieldError("applies_to", "names a line twice: name each line once")
        if self.method == "explicit@1" and self.shares is None:
            raise FieldError("shares", "the method explicit@1 needs the shares of each line")
        if self.shares is not None and not set(self.shares) <= set(self.applies_to):
            raise FieldError("shares", "has a line that applies_to does not name")
        return self


class Destination(Facts):
    """Where a refund of the capture goes, as the customer knows it: "card", "visa", "4242"."""

    kind: Tender
    brand: Annotated[str, Field(min_length=1, max_length=40, pattern=NO_CONTROL)] | None = None
    last4: Annotated[str, Field(pattern=r"^[0-9A-Za-z]{1,4}$")] | None = None


class ExchangedFrom(Facts):
    """The payment that the exchanged goods were paid with: the shop's number of their order, and its `capture_ref`."""

    order: Ref
    capture: Ref


class CaptureFacts(Facts):
    """Money taken. `captured_minor` in the capture's own `currency`; `order_minor` the part of the order it paid.

    `order_minor` may be left out when both currencies are the same. `step_minor` is the smallest step the provider
    refunds in, for cash the smallest coin; see `refund_step_minor`. `linked` false: seen at the provider, and the shop cannot tie
    it to this order; then it pays nothing of it. The provider's references may be unknown at import; without one the
    capture cannot be paid back there.

    Money that was authorised and not taken yet has `status` "authorised": `authorised_minor` is what the provider holds in
    all, `captured_minor` what was taken of it so far (usually 0), and `order_minor` counts against what was authorised.
    A capture that is final needs no `status`; what was authorised above it was let go and is no part of the order.
    The tender exchange_credit is what exchanged goods were paid with, carried over to the order that replaces them: its money is on
    the payment that `exchanged_from` names, in the same currency, and what comes back of this order goes there.
    `plan`: why the order is charged more than once by arrangement; such a charge is never taken for a duplicate.
    """

    capture_ref: Ref
    tender: Tender
    currency: Currency
    captured_minor: Minor
    order_minor: Minor | None = None
    status: Literal["authorised", "captured"] | None = None
    authorised_minor: Minor | None = None
    step_minor: Literal[1, 5, 10, 50, 100, 500, 1000] = 1
    linked: Literal[False] | None = None
    plan: Literal["split", "instalment", "deposit", "multi_capture"] | None = None
    captured_at: Instant
    payment_intent_ref: Ref | None = None
    charge_ref: Ref | None = None
    destination: Destination | None = None
    exchanged_from: ExchangedFrom | None = None

    @property
    def refund_step_minor(self) -> int:
        """The step money goes back in: the stated one, and where the provider pays, at least the one it takes."""
        if self.payment_intent_ref is None or self.charge_ref is None:
            return self.step_minor
        return max(self.step_minor, FILS_STEP.get(self.currency, 1))

    @property
    def held_minor(self) -> int:
        """What the provider holds and has not taken, in the capture's currency."""
        return (self.authorised_minor or 0) - self.captured_minor if self.status == "authorised" else 0

    @model_validator(mode="after")
    def _carried_over(self) -> Self:
        if self.tender != "exchange_credit":
            if self.exchanged_from is not None:
                raise FieldError("exchanged_from", "is for the tender exchange_credit: remove it")
            return self
        if self.exchanged_from is None:
            raise FieldError("exchanged_from", "name the order and the payment that the exchanged goods were paid with")
        if self.charge_ref is not None or self.payment_intent_ref is not None or self.status is not None:
            raise FieldError(
                "charge_ref", "an exchange credit has no charge of its own: leave references and status out"
            )
        return self

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


class OrderFacts(Facts):
    """One order as imported; see the module. `total_minor` is what the customer had to pay in all, tax and shipping in.

    `tax_total_minor` is for shops that state tax for the whole order only; `tax_totals` for those that state it by code,
    their lines then naming code and rate. `invoice_ref` is what the shop calls its invoice: credit entries carry it.
    """

    external_ref: Ref
    currency: Currency
    total_minor: Minor
    tax_total_minor: Minor | None = None
    placed_at: Instant
    zone: Zone
    region: Annotated[str, Field(pattern=r"^[A-Z]{2}(?:-[A-Z0-9]{1,3})?$")] | None = None
    channel: Annotated[str, Field(min_length=1, max_length=24, pattern=REF)]
    price_mode: Literal["inclusive", "exclusive"]
    customer: CustomerFacts | None = None
    lines: Annotated[tuple[LineFacts, ...], Field(min_length=1, max_length=MAX_LINES)]
    order_discounts: Annotated[tuple[OrderDiscount, ...], Field(max_length=50)] = ()
    captures: Annotated[tuple[CaptureFacts, ...], Field(max_length=50)] = ()
    tax_totals: Annotated[tuple[TaxFacts, ...], Field(min_length=1, max_length=20)] | None = None
    customer_type: Literal["consumer", "business"] | None = None
    sale_mode: Literal["distance", "off_premises", "in_store"] | None = None
    rounding: Rounding | None = None
    disclosures: Disclosures | None = None
    invoice_ref: Ref | None = None

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
            if (
                discount.promo is not None
                and discount.promo.type == "free_gift"
                and discount.promo.gift_line not in known
            ):
                raise FieldError(f"order_discounts[{index}].promo.gift_line", "names a line the order does not have")
        self._lines_hold(known)
        for index, capture in enumerate(self.captures):
            same = capture.currency == self.currency
            if capture.exchanged_from is not None and not same:
                raise FieldError(f"captures[{index}].currency", "an exchange credit is in the currency of the order")
            if capture.exchanged_from is not None and capture.exchanged_from.order == self.external_ref:
                raise FieldError(
                    f"captures[{index}].exchanged_from.order", "is this order: name the one that was exchanged"
                )
            whole = capture.captured_minor + capture.held_minor
            if capture.order_minor and not whole:
                raise FieldError(f"captures[{index}].order_minor", "is paid with nothing: say what was captured")
            if capture.captured_at < self.placed_at - EARLIEST:
                raise FieldError(f"captures[{index}].captured_at", "is more than a year before placed_at: correct one")
            if same and capture.order_minor is not None and capture.order_minor > whole:
                raise FieldError(f"captures[{index}].order_minor", "is more than captured_minor in the same currency")
        stated = sum(abs(line.quantity * line.unit_price_minor) + abs(line.gross_minor or 0) for line in self.lines)
        if stated + sum(capture.captured_minor + (capture.order_minor or 0) for capture in self.captures) > MAX_SAFE:
            raise FieldError("lines", "the amounts together are too large: split the order")
        return self

    def _lines_hold(self, known: set[str]) -> None:
        by_ref = {line.line_ref: line for line in self.lines}
        serials: set[str] = set()
        for index, line in enumerate(self.lines):
            if serials.intersection(line.serials or ()):
                raise FieldError(f"lines[{index}].serials", "has a serial that another line has: a unit is sold once")
            serials.update(line.serials or ())
            if line.delivered_at is not None and line.delivered_at < self.placed_at - EARLIEST:
                raise FieldError(f"lines[{index}].delivered_at", "is more than a year before placed_at: correct one")
        for index, line in enumerate(self.lines):
            for name, part in (("shipping", line.shipping), ("fee", line.fee)):
                if part is not None and part.for_lines is not None and not known.issuperset(part.for_lines):
                    raise FieldError(f"lines[{index}].{name}.for_lines", "names a line the order does not have")
            if line.bundle is None:
                continue
            parent = by_ref.get(line.bundle.parent_line)
            if parent is None or parent.kind != "goods" or parent.bundle is not None or parent is line:
                raise FieldError(f"lines[{index}].bundle.parent_line", "names no goods line that holds the bundle")
            if line.quantity != parent.quantity * line.bundle.per_bundle:
                raise FieldError(f"lines[{index}].quantity", "is not the bundle's quantity times per_bundle")

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
