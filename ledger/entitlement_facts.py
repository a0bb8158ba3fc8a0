"""What `derive` reads: frozen rows of evidence and priors. No database, clock or network. Terms are in `policy_terms`.

`line_id` is the key of a line of the `Allocation` (the shop's `line_ref`), unit ranges are half-open [a,b) over
0…quantity−1, `_minor` is whole minor units of the order's currency unless said otherwise, instants are RFC 3339 text in UTC.
A document leaves out what is not stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from ledger.policy_terms import FAULT_REASONS, PolicyTerms

__all__ = [
    "Allowance", "Ask", "CaptureState", "CasePayment", "CaseUnits", "Cure", "Delivered", "Evidence", "Inspected", "Opinion",
    "Override", "PolicyTerms", "PriorClaim", "PriorPromo", "Priors", "Received", "Repaired", "Sent", "read_evidence", "read_priors",
]  # fmt: skip

Grade = Literal["N", "A", "B", "C", "D", "M", "X"]
Trigger = Literal["announced", "proof_of_sending", "carrier_scan", "received", "inspected"]
CaseKind = Literal[
    "return", "cancellation", "keep_item", "price_reduction", "price_adjustment", "goodwill", "shipping_only", "exchange",
    "warranty",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class CaseUnits:
    """Units [a,b) of a goods line that this case claims: what the customer announced, why, and when that was sent."""

    line_id: str
    a: int
    b: int
    reason: str | None = None
    sent_at: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """Proof that a parcel is on its way back: the customer's (`proof_of_sending`) or the carrier's own (`carrier_scan`)."""

    at: str
    parcel: str = ""
    by_carrier: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """Units of a line the warehouse booked in, in one parcel; counts of several rows add up. 0 is an empty parcel.

    The same parcel, line and count again is one arrival booked twice: it counts once, and a person looks.
    """

    line_id: str
    count: int
    parcel: str = ""
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Inspected:
    """The grade a person gave to units [a,b); a later row replaces an earlier one. X: not our unit, claims nothing.

    `assessed_bps` is the loss in value a person put on them, `reason` what they found, `photos` how many there are of it.
    """

    line_id: str
    a: int
    b: int
    grade: Grade
    assessed_bps: int | None = None
    reason: str | None = None
    serial: str | None = None
    photos: int = 0
    note: str = ""

    @property
    def faulty(self) -> bool:
        """Whether the fault is the merchant's or the carrier's: by the reason that was found, else by grade M."""
        if self.grade == "X":
            return False
        return self.reason in FAULT_REASONS if self.reason else self.grade == "M"


@dataclass(frozen=True, slots=True)
class Cure:
    """A repair or replacement of faulty goods: "done" ends the claim; the others leave it to a refund. `at`: when it was done.

    Of several of one line the last counts.
    """

    line_id: str
    result: Literal["failed", "refused", "impossible", "waived", "done"]
    kind: Literal["repair", "replacement"] | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Repaired:
    """Units [a,b) of a line that an earlier case repaired or replaced: a repair adds to the time for faults."""

    line_id: str
    a: int
    b: int
    kind: Literal["repair", "replacement"] | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Opinion:
    """What units [a,b) are worth whole and with their defect, by a person; the ratio counts."""

    line_id: str
    a: int
    b: int
    conform_minor: int
    actual_minor: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What a case that is no return asks for, on units [a,b) of a line; which figure counts follows from its kind.

    keep_item, goodwill, shipping_only: `minor`. price_adjustment: `new_unit_minor`. `entry` says whether tax is in what was typed.
    exchange: `minor` is the allocated gross of the replacement. warranty: `failed_at`.
    """

    line_id: str
    a: int = 0
    b: int = 0
    minor: int = 0
    entry: Literal["gross", "net"] | None = None
    new_unit_minor: int | None = None
    failed_at: str | None = None


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the shop stated of a line's delivery after it stated the order; both count instead of what the order says."""

    line_id: str
    at: str | None = None
    shipment: str | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """An amount in all that a person asks for instead of the one that was computed when they did; `asked_by` is their actor.

    It counts only while the computed amount is still `computed_minor`.
    """

    id: str
    minor: int
    computed_minor: int
    reason: str
    asked_by: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything recorded for one case, each tuple in the order it was recorded (append-only).

    `not_delivered`: lines that never left or were lost; `found_delivered`: lines of which somebody found that they did arrive.
    `customer_ref`: who asks, where somebody looked. `collection_offered`: the shop fetches the goods itself.
    `used_fees`: insurances and installations, by line, and whether each was used. `parcels`: returned with a label of ours.
    `delivered`: of the order's lines, what was learnt of their delivery since the order was stated, each line once.
    """

    case_ref: str
    units: tuple[CaseUnits, ...]
    received: tuple[Received, ...] = ()
    inspected: tuple[Inspected, ...] = ()
    kind: CaseKind = "return"
    customer_ref: str | None = None
    sent: tuple[Sent, ...] = ()
    not_delivered: tuple[str, ...] = ()
    cures: tuple[Cure, ...] = ()
    opinions: tuple[Opinion, ...] = ()
    asks: tuple[Ask, ...] = ()
    used_fees: tuple[tuple[str, bool], ...] = ()
    parcels_on_our_label: int = 0
    collection_offered: bool = False
    override: Override | None = None
    delivered: tuple[Delivered, ...] = ()
    found_delivered: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return _document(self)


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
class PriorPromo:
    """What other cases kept back of a line because a promotion was broken, less what was released since."""

    promo_id: str
    line_id: str
    minor: int


@dataclass(frozen=True, slots=True)
class Allowance:
    """Money given back with the goods kept, on units [a,b), or on the whole line when both are None.

    `closes`: the units are settled by it, and a later arrival of them pays nothing. `goodwill`: given without being owed.
    """

    line_id: str
    minor: int
    a: int | None = None
    b: int | None = None
    closes: bool = False
    goodwill: bool = False


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
    `position`: the order in which the order's payments were made.
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
    position: int = 0


@dataclass(frozen=True, slots=True)
class Priors:
    """Money and claims on the order before this derivation; the order of the rows does not matter.

    `serials_back`: serials of this order that came back already, in any case; `serials_elsewhere`: of this case's, those that came
    back on another order before. `beside_minor`: today's other refunds of the
    same staff member and customer, which the thresholds see too. `repaired`: what
    earlier cases mended. `signals`: signs of risk and their values, from our own rows.
    """

    captures: tuple[CaptureState, ...]
    claims: tuple[PriorClaim, ...] = ()
    allowances: tuple[Allowance, ...] = ()
    paid: tuple[CasePayment, ...] = ()
    promos: tuple[PriorPromo, ...] = ()
    serials_back: tuple[str, ...] = ()
    beside_minor: int = 0
    signals: tuple[tuple[str, int], ...] = ()
    serials_elsewhere: tuple[str, ...] = ()
    repaired: tuple[Repaired, ...] = ()

    def document(self) -> dict[str, Any]:
        found = _document(self)
        return {name: _in_order(value) if isinstance(value, list) else value for name, value in found.items()}


def _in_order(rows: list[Any]) -> list[Any]:
    if len(rows) < 2:
        return rows
    return sorted(rows, key=lambda row: repr(sorted(row.items())) if isinstance(row, dict) else repr(row))


def _document(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, default in _FIELDS[type(row)]:
        value = getattr(row, name)
        if value != default:
            found[name] = (
                list(_rows(value)) if type(value) is tuple else _document(value) if type(value) in _ROWS else value
            )
    return found


def _rows(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        yield _document(value) if type(value) in _ROWS else list(value) if type(value) is tuple else value


_ROWS = frozenset(
    {
        CaseUnits,
        Sent,
        Received,
        Inspected,
        Cure,
        Repaired,
        Opinion,
        Ask,
        Delivered,
        PriorClaim,
        PriorPromo,
        Allowance,
        CasePayment,
        CaptureState,
        Override,
    }
)
_FIELDS = {kind: tuple((one.name, one.default) for one in fields(kind)) for kind in (*_ROWS, Evidence, Priors)}


_TUPLES: dict[str, Any] = {
    "units": CaseUnits, "received": Received, "inspected": Inspected, "sent": Sent, "cures": Cure, "opinions": Opinion,
    "asks": Ask, "captures": CaptureState, "claims": PriorClaim, "allowances": Allowance, "paid": CasePayment,
    "promos": PriorPromo, "delivered": Delivered, "repaired": Repaired,
}  # fmt: skip


def _read(document: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in document.items():
        if name == "override":
            found[name] = Override(**value)
        elif name in _TUPLES:
            found[name] = tuple(_TUPLES[name](**row) for row in value)
        else:
            found[name] = (
                tuple(tuple(row) if isinstance(row, list) else row for row in value)
                if isinstance(value, list)
                else value
            )
    return found


def read_evidence(document: Mapping[str, Any]) -> Evidence:
    """The evidence stored as `document()`: equal, with the same digest. Raises TypeError for a field that is none."""
    return Evidence(**{"units": (), **_read(document)})


def read_priors(document: Mapping[str, Any]) -> Priors:
    """The priors stored as `document()`: the same but for the order of rows, with the same digest."""
    return Priors(**{"captures": (), **_read(document)})
