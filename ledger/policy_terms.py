"""The policy document as the engine reads it (every field of the specification, with its defaults), checked field by field.

`read_terms` refuses unknown fields and values by the field's name. A document that cannot be read never decides anything.
`_minor` are minor units by currency, `_bps` ten-thousandths, `_days` calendar days in the case's zone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ledger.canonical import canonical_bytes, digest_bytes
from ledger.money import MAX_MINOR
from ledger.order_document import Problem, problems_of

Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
Minor = Annotated[int, Field(ge=0, le=MAX_MINOR)]
ByCurrency = dict[Currency, Minor]
Bps = Annotated[int, Field(ge=0, le=10_000)]
Days = Annotated[int, Field(ge=0, le=3_650)]
Months = Annotated[int, Field(ge=0, le=1_200)]
Text = Annotated[str, Field(min_length=1, max_length=80)]
Versioned = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,60}@[0-9]{1,6}$")]


def _in_the_calendar(text: str) -> str:
    """A day or an instant that there is."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("there is no such date or time: correct it") from None
    return text


Instant = Annotated[
    str,
    Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"),
    AfterValidator(_in_the_calendar),
]
Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_in_the_calendar)]
Grade = Literal["N", "A", "B", "C", "D", "M", "X"]
Reason = Literal["changed_mind", "size", "faulty", "damaged", "wrong_item", "cancelled", "not_delivered", "other"]
Level = Literal["staff", "manager", "two_managers"]

FAULT_REASONS = frozenset({"faulty", "damaged", "wrong_item", "not_delivered"})
"""Reasons that are the merchant's or the carrier's."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Region = Annotated[str, Field(pattern=r"^[A-Z]{2}(-[A-Z0-9]{1,3})?$")]


class Select(_Part):
    """Which orders and returns a policy is for: every set that is not empty has to hold."""

    tenant: Text | None = None
    regions: frozenset[Region] = frozenset()
    categories: frozenset[Text] = frozenset()
    reasons: frozenset[Reason] = frozenset()
    payment_methods: frozenset[Text] = frozenset()
    channels: frozenset[Text] = frozenset()
    sale_modes: frozenset[Text] = frozenset()


class Window(_Part):
    """The merchant's own time to say that goods come back. `fixed_until`: a seasonal last day, if that is later."""

    days: Days = 30
    starts: Literal["delivered", "placed", "dispatched", "last_delivered"] = "delivered"
    grace_days: Days = 0
    fixed_until: Day | None = None
    proof_of_purchase: bool = True


class AllocationPart(_Part):
    """The methods at import; see `allocation_methods`."""

    order_discount: Literal[
        "explicit@1", "value.cumulative@1", "value.largest_remainder@1", "quantity.cumulative@1"
    ] = "value.cumulative@1"  # fmt: skip
    bundle: Literal["bundle.ssp@1", "bundle.weights@1", "bundle.equal@1", "bundle.explicit@1"] = "bundle.ssp@1"
    tax: Literal["tax.as_charged@1", "tax.by_rate@1"] = "tax.as_charged@1"
    gap_per_line: Annotated[int, Field(ge=0, le=100)] = 1
    gap_over: Literal["review", "by_value"] = "review"


Broken = Literal["keep", "reprice_kept", "all_or_nothing"]


class PromoPart(_Part):
    """What a return that breaks a promotion does to what it gives back."""

    threshold: Broken = "keep"
    quantity_break: Broken = "keep"
    buy_get: Broken = "keep"
    free_gift: Literal["zero_value", "spread"] = "zero_value"
    gift_kept: Literal["keep", "deduct_value", "hold"] = "keep"
    part_discount: Literal["line_spread", "unit_attributed"] = "line_spread"
    free_shipping: Literal["keep", "reprice_kept"] = "keep"


class ShippingPart(_Part):
    """What of the outbound shipping goes back."""

    full_return: Literal["standard", "full", "none"] = "standard"
    partial_return: Literal["on_last_unit", "with_first_unit", "pro_rata_value", "pro_rata_unless_flat", "none"] = (
        "on_last_unit"
    )
    merchant_fault: Literal["full", "standard", "none"] = "full"


FeeRule = Literal["with_goods", "pro_rata_value", "on_last_unit", "if_unused", "never"]


class Label(_Part):
    """Our own return label: what it costs, tax in, and who bears it by the reason that was found."""

    minor: ByCurrency = Field(default_factory=dict)
    payer_by_reason: dict[str, Literal["customer", "merchant"]] = Field(default_factory=dict)


class Restocking(_Part):
    """A fee for taking back what is not faulty; 0 unless it was told at the sale."""

    bps: Bps = 0
    flat_minor: ByCurrency = Field(default_factory=dict)
    max_minor: ByCurrency | None = None
    reasons: frozenset[Reason] = frozenset({"changed_mind"})


class Faulty(_Part):
    """Whether faulty goods are refunded without a repair or replacement tried first."""

    refund_first: bool = True


class Warranty(_Part):
    """After the statutory time: months in all, months at full value, and how it falls afterwards."""

    months: Months = 0
    full_months: Months = 0
    method: Literal["none", "full", "prorata"] = "none"


class Exchange(_Part):
    """Whether an exchange is offered, and what happens with a replacement whose original never comes."""

    allowed: bool = False
    ship_first: bool = False
    charge_unreturned: Literal["after_approval", "never"] = "never"


class KeepItem(_Part):
    """Money back with the goods kept: at most this much of a unit's price, and whether that closes the unit."""

    max_bps: Bps = 0
    max_minor: ByCurrency = Field(default_factory=dict)
    closes_unit: bool = True


class PriceAdjust(_Part):
    """For how many days after the sale a lower price is made good."""

    days: Days = 0
    exclude: frozenset[Text] = frozenset()


class Goodwill(_Part):
    """How much goodwill an order may carry, over all its cases, and whether a typed amount is with or without tax."""

    max_minor: ByCurrency = Field(default_factory=dict)
    entry: Literal["gross", "net"] = "gross"


class Routes(_Part):
    """Who decides, by inclusive lower bounds; a currency that is not named is a manager's.

    `factor_from_minor` and `passkey_from_minor` say from where on an approval takes more than a session; what names none asks for
    none, and is left out of the document, so that a policy without them is cited as ever.
    """

    auto_enabled: bool = False
    auto_below_minor: ByCurrency = Field(default_factory=dict)
    manager_from_minor: ByCurrency = Field(default_factory=dict)
    two_managers_from_minor: ByCurrency = Field(default_factory=dict)
    factor_from_minor: ByCurrency = Field(default_factory=dict)
    passkey_from_minor: ByCurrency = Field(default_factory=dict)
    sum_over: frozenset[Literal["order_lifetime", "staff_day", "customer_day"]] = frozenset(
        {"order_lifetime", "staff_day", "customer_day"}
    )
    always: dict[Text, Level] = Field(default_factory=dict)


# Asked for since the first policies were made: left out where nothing is said, so that those are cited as ever.
_SINCE: Final = ("factor_from_minor", "passkey_from_minor")

SignalName = Literal[
    "refunds_30d", "refund_value_90d_minor", "return_rate_365d_bps", "not_received_365d", "grade_x_ever",
    "serial_mismatch_ever", "account_age_days", "other_channel_open", "external_refund_open", "dispute_365d",
    "text_claims_approval",
]  # fmt: skip


class Signal(_Part):
    """From which value a sign of risk raises the route, and by how many levels. It changes no amount."""

    threshold: Annotated[int, Field(ge=0)]
    raise_by: Annotated[int, Field(ge=1, le=3)] = 1


USUAL_GRADES: Final[dict[Grade, int]] = {"C": 3_000, "D": 10_000}


def _over_the_usual(named: dict[Grade, int]) -> dict[Grade, int]:
    """A grade that a policy does not name keeps what it usually costs."""
    return USUAL_GRADES | named


class PolicyTerms(BaseModel):
    """One version of a policy; the fields and defaults of the specification.

    `manager_from_minor` and the other routes are today's; everything else is what was in force at the sale. `statutes` None:
    by the order's region. `advance_max_minor` None: money before receipt has no maximum (policies made before there was one).
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    policy_id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]
    version: Annotated[int, Field(ge=1)]
    title: Annotated[str, Field(max_length=200)] = ""
    status: Literal["draft", "approved", "retired"] = "approved"
    extends: Versioned | None = None
    effective_from: Instant | None = None
    effective_to: Instant | None = None
    priority: int = 0
    select: Select = Select()
    statutes: tuple[Versioned, ...] | None = None
    holiday_calendar: Versioned | None = None
    terms_basis: Literal["at_sale", "at_request", "better_of"] = "at_sale"
    treat_return_as_withdrawal: bool = True
    window: Window = Window()
    final_sale: bool = False
    excluded: frozenset[Text] = frozenset()
    serial_required: bool | None = None
    bundle_return: Literal["components", "whole_only"] = "components"
    undeclared: Literal["hold", "accept"] = "hold"
    refund_trigger: Literal["announced", "proof_of_sending", "carrier_scan", "received", "inspected"] = "inspected"
    advance_max_minor: ByCurrency | None = Field(default_factory=dict)
    inspect_within_days: Days = 5
    pay_within_days: Days = 14
    allocation: AllocationPart = AllocationPart()
    promo: PromoPart = PromoPart()
    shipping: ShippingPart = ShippingPart()
    fees: dict[Text, FeeRule] = Field(default_factory=dict)
    label: Label = Label()
    restocking: Restocking = Restocking()
    fee_tax_treatment: Literal["reduces_taxable", "separate_untaxed", "separate_taxed"] | None = None
    fee_tax_ppm: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    grade_bps: Annotated[dict[Grade, Bps], AfterValidator(_over_the_usual)] = USUAL_GRADES
    grade_photo_from: Literal["C", "D", "never"] = "C"
    faulty: Faulty = Faulty()
    warranty: Warranty = Warranty()
    exchange: Exchange = Exchange()
    keep_item: KeepItem = KeepItem()
    price_adjust: PriceAdjust = PriceAdjust()
    goodwill: Goodwill = Goodwill()
    tender_order: Literal[
        "external_first", "last_paid_first", "first_paid_first", "store_value_first", "smallest_first", "pro_rata"
    ] = "external_first"  # fmt: skip
    capture_order: Literal["largest_first", "last_first", "first_first"] = "largest_first"
    external_unallocated: Literal["block", "cap_only"] = "block"
    routes: Routes = Routes()
    signals: dict[SignalName, Signal] = Field(default_factory=dict)
    # Routes and signals are today's, whatever version decides the rest: which one they are of, where that is another.
    routes_of: Versioned | None = None
    # Of a return with goods of several categories: what decides the lines that this one does not.
    parts: tuple[TermsOfLines, ...] = ()

    @property
    def each(self) -> tuple[PolicyTerms, ...]:
        """These terms, and those of the lines that others decide."""
        return (self, *(part.terms for part in self.parts))

    def of_line(self, line_id: str) -> PolicyTerms:
        """The terms that decide a line."""
        return next((part.terms for part in self.parts if line_id in part.lines), self)

    def signal(self, name: str) -> Signal | None:
        """What the policy says of one sign of risk; None: the specification's own figures count."""
        return {str(known): said for known, said in self.signals.items()}.get(name)

    def document(self) -> dict[str, Any]:
        """The JSON form with every default spelled out; sets are sorted. This is what is hashed and cited."""
        unsaid: dict[str, Any] = {"parts": True, "routes": {name for name in _SINCE if not getattr(self.routes, name)}}
        if self.routes_of is None:
            unsaid["routes_of"] = True
        found = _sorted(self.model_dump(mode="json", exclude=unsaid))
        if self.parts:
            found["parts"] = [{"lines": list(part.lines), "terms": part.terms.document()} for part in self.parts]
        return found

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, which is cited by its own text."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("canonical", "cited"):
            copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def canonical(self) -> str:
        """The canonical text of the document."""
        return canonical_bytes(self.document()).decode()

    @cached_property
    def cited(self) -> str:
        """ "nord-apparel@7 sha256:…", as the record binds it; the digest is over all parts."""
        return f"{self.name} {digest_bytes(self.canonical.encode(), 'policy-terms@1')}"

    @property
    def name(self) -> str:
        """ "nord-apparel@7"."""
        return f"{self.policy_id}@{self.version}"


class TermsOfLines(_Part):
    """Lines of an order that a policy of their category decides, by the shop's references."""

    lines: Annotated[tuple[Text, ...], Field(min_length=1)]
    terms: PolicyTerms


PolicyTerms.model_rebuild()
NO_TERMS: Final = PolicyTerms(policy_id="none", version=1)
"""What counts where no policy decides."""


_SETS = frozenset(
    {"regions", "categories", "reasons", "payment_methods", "channels", "sale_modes", "excluded", "exclude", "sum_over"}
)


def _sorted(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _sorted(value) if isinstance(value, dict) else sorted(value) if name in _SETS else value
        for name, value in document.items()
    }


class TermsRefused(ValueError):
    """The policy document cannot be read; the problems name each field. It decides nothing."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.say}" for problem in problems))
        self.problems = problems


def read_terms(document: Mapping[str, Any]) -> PolicyTerms:
    """The terms of a policy document (decoded JSON). Raises `TermsRefused` naming each wrong field.

    The same document gives the same object, read once: a merchant's few policies decide all its cases.
    """
    return _read_terms(json.dumps(document))


@lru_cache(maxsize=64)
def _read_terms(text: str) -> PolicyTerms:
    try:
        return PolicyTerms.model_validate_json(text)
    except ValidationError as error:
        raise TermsRefused(problems_of(error)) from None
