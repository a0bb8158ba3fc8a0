"""Policy documents as they stand in their rows, and what they say. One that cannot be read never decides (ENTITLEMENT §8).

`policy_of_sale` finds the version that decides a case, `policy_publishing` brings one into force.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ledger.errors import LedgerError
from ledger.limits import route_by_amount
from ledger.policy_terms import USUAL_GRADES, PolicyTerms, Routes, ShippingPart, TermsRefused, read_terms

Minor = dict[str, int]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
MOST_MINOR: Final = 10**15 - 1


class SumRoutes(BaseModel):
    """From which amount, by currency, a manager decides, or two; a currency the first does not list is always a manager's.

    The order's and its customer's other refunds are summed whatever `sum_over` leaves out (S22); `staff_day` may be left out.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)
    manager_from_minor: Minor = Field(default_factory=dict)
    two_managers_from_minor: Minor = Field(default_factory=dict)
    sum_over: frozenset[str] = Routes.model_fields["sum_over"].default


class Connect(BaseModel):
    """What a refund on a platform takes along: the seller's transfer, and the platform's fee. See `fingerprint.connect_flags`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    reverse_transfer: bool = False
    refund_application_fee: bool = False


class Window(BaseModel):
    """What one person may approve in an hour or a day of one currency: how many, and how much in minor units."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    count: int = Field(ge=0)
    minor: int = Field(ge=0)


class Windows(BaseModel):
    """A person's hour, and day where it is limited too."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    hour: Window
    day: Window | None = None


class Automatic(BaseModel):
    """What the policy approves by itself in one currency: up to `most_minor` at once, and `day_minor` in a business day (S38)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    most_minor: int = Field(gt=0, le=MOST_MINOR)
    day_minor: int = Field(gt=0, le=MOST_MINOR)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.day_minor < self.most_minor:
            raise ValueError("day_minor, the limit of a day, is below most_minor, that of one refund")
        return self


class PolicyDocument(BaseModel):
    """The fields of a policy this version of the engine reads; the rest of the document is kept and not interpreted."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    refund_trigger: Literal["announced", "proof_of_sending", "carrier_scan", "received", "inspected"] = "inspected"
    pay_within_days: int = Field(default=14, ge=1, le=90)
    # One word in documents of before the whole of it was read; the parts are `policy_terms.ShippingPart`.
    shipping: Literal["on_last_unit", "none"] | ShippingPart = "none"
    external_unallocated: Literal["block", "cap_only"] = "block"
    grade_bps: dict[str, int] = Field(default_factory=dict)
    routes: SumRoutes = Field(default_factory=SumRoutes)
    connect: Connect = Field(default_factory=Connect)
    # By role and currency; the policy in force now counts. A currency that is not named has nothing to give, and a document
    # without limits has the defaults (`reviewer_limits` in the database, which is what decides).
    limits: dict[Literal["desk", "manager"], dict[str, Windows]] | None = None
    # By currency; one that is not named has nothing, and a document without it approves nothing by itself. The version that
    # decides an order and the one in force now both have to name it (`automatic_rule` in the database, which is what decides).
    automatic: dict[Currency, Automatic] = Field(default_factory=dict)


@dataclass(frozen=True)
class Policy:
    """One version, as it stands in its row."""

    policy_id: str
    version: int
    terms: PolicyDocument
    document: dict[str, Any]

    @property
    def cited(self) -> str:
        """ "nord-apparel@7"."""
        return f"{self.policy_id}@{self.version}"

    @property
    def pay_within_days(self) -> int:
        """Calendar days from opening to the due time of a case."""
        return self.terms.pay_within_days

    def route(self, currency: str, amount_minor: int) -> str:
        """Who decides an amount, one of `limits.ROUTES`."""
        routes = self.terms.routes
        return route_by_amount(
            amount_minor, routes.manager_from_minor.get(currency), routes.two_managers_from_minor.get(currency)
        )


_NONE: Final = {
    "missing": "There is no policy.",
    "ended": "The last policy ended before this was sold.",
    "begins": "This was sold before the first policy began.",
    "unreadable": "The policy cannot be read.",
    "none_fits": "No policy is for a sale like this one.",
    "tie": "Several policies fit alike.",
    "several": "The lines of this fall under too many policies.",
}


class NoPolicy(LedgerError):
    """No policy decides this. `facts` say why: `reason`, and what it is about."""

    code = "no-policy"

    def __init__(self, reason: str, **facts: Any) -> None:
        self.reason = reason
        super().__init__(f"{_NONE[reason]} A manager publishes one at the desk Policies.", reason=reason, **facts)


def as_policy(policy_id: str, version: int, document: dict[str, Any]) -> Policy:
    """A version from its row. Raises NoPolicy for a document that cannot be read."""
    try:
        return Policy(policy_id, version, PolicyDocument.model_validate(document), document)
    except ValidationError as error:
        raise NoPolicy("unreadable", policy=f"{policy_id}@{version}") from error


# Documents of before the whole of the specification was read: one word for shipping, and nothing off that they do not name.
_SHIPPING: Final[dict[str, dict[str, str]]] = {
    "none": {"full_return": "none", "partial_return": "none", "merchant_fault": "none"},
    "on_last_unit": {"full_return": "full", "partial_return": "on_last_unit", "merchant_fault": "full"},
}
# Of the document itself, not of what a return is worth; a stored row says them. What is found for one return is no document's.
_IDENTITY: Final = frozenset({"status", "effective_from", "effective_to", "extends", "routes_of", "parts"})


def of_before(document: dict[str, Any]) -> bool:
    """Whether a document has one word for shipping, or none, as all had before the whole of the specification was read."""
    return isinstance(document.get("shipping", "none"), str)


def terms_document(document: dict[str, Any]) -> dict[str, Any]:
    """What of a policy document the engine reads, in the engine's own form."""
    known = PolicyTerms.model_fields.keys() - _IDENTITY
    found: dict[str, Any] = {name: value for name, value in document.items() if name in known}
    if isinstance(document.get("routes"), dict):
        found["routes"] = {name: value for name, value in document["routes"].items() if name in Routes.model_fields}
    word = document.get("shipping", "none")
    if isinstance(word, str):
        found["shipping"] = _SHIPPING.get(word, word)
        named = document.get("grade_bps", {})
        found["grade_bps"] = dict.fromkeys(USUAL_GRADES, 0) | named if isinstance(named, dict) else named
        found.setdefault("advance_max_minor", None)
    return found


def policy_terms(policy: Policy) -> PolicyTerms:
    """The terms of a stored policy as the engine reads them. Raises NoPolicy for a document that cannot be read."""
    named = {"policy_id": policy.policy_id, "version": policy.version}
    try:
        return read_terms(terms_document(policy.document) | named)
    except TermsRefused as error:
        raise NoPolicy("unreadable", policy=policy.cited) from error
