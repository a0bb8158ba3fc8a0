"""What `derive` reads: frozen rows of evidence, priors and policy terms. No database, clock or network.

`line_id` is the key of a line of the `Allocation` (the shop's `line_ref`), unit ranges are half-open [a,b) over
0…quantity−1, `_minor` is whole minor units of the order's currency unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from ledger.canonical import digest

Grade = Literal["N", "A", "B", "C", "D", "M", "X"]
Trigger = Literal["announced", "received", "inspected"]


@dataclass(frozen=True, slots=True)
class CaseUnits:
    """Units [a,b) of a goods line that this case claims: what the customer announced."""

    line_id: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Received:
    """Units of a line the warehouse booked in, in one parcel; counts of several rows add up. 0 is an empty parcel."""

    line_id: str
    count: int


@dataclass(frozen=True, slots=True)
class Inspected:
    """The grade a person gave to units [a,b); a later row replaces an earlier one. X: not our unit, claims nothing."""

    line_id: str
    a: int
    b: int
    grade: Grade


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything recorded for one case, each tuple in the order it was recorded (append-only)."""

    case_ref: str
    units: tuple[CaseUnits, ...]
    received: tuple[Received, ...] = ()
    inspected: tuple[Inspected, ...] = ()

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PriorClaim:
    """Units [a,b) of a line held by *another* case of the order, and what that case claims for them.

    `minor` is payable and retained together, 0 while nothing is owed yet. `returned`: the goods came back and are
    refunded or refundable; such units count towards a full return. A shipping or fee line is units [0,quantity).
    """

    case_ref: str
    line_id: str
    a: int
    b: int
    minor: int
    returned: bool = True


@dataclass(frozen=True, slots=True)
class Allowance:
    """Money given back with the goods kept, on units [a,b), or on the whole line when both are None."""

    line_id: str
    minor: int
    a: int | None = None
    b: int | None = None


@dataclass(frozen=True, slots=True)
class CasePayment:
    """A refund of *this* case that was paid, or may still be (submitted, unknown, pending).

    `order_minor` in the order's currency, `minor` in the capture's. Proposed and withdrawn ones are not rows here.
    """

    capture_id: str
    order_minor: int
    minor: int


@dataclass(frozen=True, slots=True)
class CaptureState:
    """One capture now. `captured_minor`, `available_minor`, `disputed_minor` and the external refund: its own currency.

    `available_minor` = captured − refunded − reserved − open or lost disputes, floored at 0, this case's payments
    included. `order_minor`: the part of the order it paid; `drawn_order_minor`: what refunds of any case have drawn of
    that, in the order's currency. `external_unallocated_minor`: refunded outside and not yet put on a line.
    `held_minor`: authorised and not taken; it is let go whole or not at all, and only where nothing was taken.
    """

    capture_id: str
    tender: str
    currency: str
    captured_minor: int
    order_minor: int
    available_minor: int
    drawn_order_minor: int = 0
    step_minor: int = 1
    disputed_minor: int = 0
    external_unallocated_minor: int = 0
    held_minor: int = 0

    def document(self) -> dict[str, Any]:
        """Its figures; a hold is left out where there is none, as before there were holds."""
        return {name: value for name, value in asdict(self).items() if name != "held_minor" or value}


@dataclass(frozen=True, slots=True)
class Priors:
    """Money and claims on the order before this derivation; the order of the rows does not matter."""

    captures: tuple[CaptureState, ...]
    claims: tuple[PriorClaim, ...] = ()
    allowances: tuple[Allowance, ...] = ()
    paid: tuple[CasePayment, ...] = ()

    def document(self) -> dict[str, Any]:
        rows: dict[str, list[dict[str, Any]]] = {
            "captures": [row.document() for row in self.captures],
            "claims": [asdict(row) for row in self.claims],
            "allowances": [asdict(row) for row in self.allowances],
            "paid": [asdict(row) for row in self.paid],
        }
        return {name: sorted(found, key=lambda row: repr(sorted(row.items()))) for name, found in rows.items()}


@dataclass(frozen=True)
class PolicyTerms:
    """The terms in force for the order. `shipping`: refund it with the last unit of a full return, or never.

    `manager_from_minor`: by currency, the order's refunds in all from which a manager decides; a currency that is not
    named goes to a manager. `external_unallocated`: a refund made outside and on no line blocks the order, or only
    lowers its capture.
    """

    policy_id: str
    version: int
    refund_trigger: Trigger = "inspected"
    shipping: Literal["on_last_unit", "none"] = "none"
    external_unallocated: Literal["block", "cap_only"] = "block"
    manager_from_minor: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def document(self) -> dict[str, Any]:
        return {
            "policy_id": self.policy_id,
            "version": self.version,
            "refund_trigger": self.refund_trigger,
            "shipping": self.shipping,
            "external_unallocated": self.external_unallocated,
            "manager_from_minor": dict(self.manager_from_minor),
            "tender_order": "external_first",
            "capture_order": "largest_first",
        }

    @property
    def cited(self) -> str:
        """ "nord-apparel@7 sha256:…", as the record binds it."""
        return f"{self.policy_id}@{self.version} {digest(self.document(), 'policy-terms@1')}"
