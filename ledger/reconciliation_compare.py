"""One refund, two sides: what the books have and what the provider shows, and the one word for how they differ.

Nothing here reads or writes; amounts are minor units beside their currency. A pair has one name: the first of currency,
amount, state that does not agree, for the others follow from it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from ledger.settlement import SETTLED, ProviderRefund

Kind = Literal["missing_there", "missing_here", "amount", "currency", "state", "late", "duplicate", "unreadable"]
Part = Literal["refunds", "movements", "disputes"]
About = Literal["refund", "dispute", "payment"]

# Accepted refunds are asked about every hour (settlement.PENDING_LOOK_SECONDS), so books that follow by a day have missed
# every look since. Two sides of a period's edge that are nearer than this are the same moment.
LATE_AFTER: Final = timedelta(days=1)
# What an expired authorisation gives back was never taken (STRIPE.md §2): it is no refund of money.
_NEVER_TAKEN: Final = "expired_uncaptured_charge"
# What each state of an intent says about the money; those not here are on their way or with a person.
_HERE: Final = {
    "succeeded": "succeeded", "pending": "pending", "failed": "failed", "withdrawn": "failed", "reversed": "failed",
}  # fmt: skip
# States that the normal way moves when the provider shows something else; all others are people's or in flight.
_HEALS: Final = frozenset({"unknown", "pending", "succeeded"})


@dataclass(frozen=True)
class ShownRefund:
    """A refund of the provider's list. `merchant_ref` is the merchant its metadata names, "" for none of ours."""

    refund: ProviderRefund
    created_at: datetime
    reason: str = ""
    merchant_ref: str = ""


@dataclass(frozen=True)
class Movement:
    """A movement of the provider's balance. `amount_minor` is what went back to customers; what came back is negative.

    `converted`: the provider changed the currency, so amount and currency are those of its balance, not of the refund.
    """

    movement_ref: str
    kind: str
    source_ref: str
    amount_minor: int
    currency: str
    converted: bool
    created_at: datetime


@dataclass(frozen=True)
class OurRefund:
    """A refund as the books have it: an intent, or one that was made outside and recorded (`intent_id` None)."""

    intent_id: UUID | None
    number: int | None
    refund_ref: str | None
    amount_minor: int
    currency: str
    state: str

    def figures(self) -> dict[str, Any]:
        """The evidence of our side, as JSON."""
        return {
            "intent": str(self.intent_id) if self.intent_id else None, "number": self.number, "refund": self.refund_ref,
            "amount_minor": str(self.amount_minor), "currency": self.currency, "state": self.state,
        }  # fmt: skip


@dataclass(frozen=True)
class Sum:
    """What one side counts of a currency."""

    currency: str
    minor: int

    def __bool__(self) -> bool:
        return self.minor != 0


@dataclass(frozen=True)
class Verdict:
    """What comparing came to: what each side counts, and the name of the difference, or None.

    `heals`: a look on the normal way may end it. `unrecorded`: money that left outside and is not written down yet.
    """

    ours: Sum
    theirs: Sum
    kind: Kind | None = None
    heals: bool = False
    unrecorded: bool = False


def theirs_figures(shown: ShownRefund) -> dict[str, Any]:
    """The evidence of the provider's side, as JSON."""
    refund = shown.refund
    return {
        "refund": refund.refund_ref, "amount_minor": str(refund.amount_minor), "currency": refund.currency,
        "status": refund.status, "created": shown.created_at.isoformat(), "payment": refund.payment_intent_ref,
        "charge": refund.charge_ref, "intent": refund.intent_id or None, "failure": refund.failure_reason,
    }  # fmt: skip


def compare_refund(shown: ShownRefund, by_ref: OurRefund | None, by_metadata: OurRefund | None) -> Verdict:
    """A refund the provider shows, with ours of the same reference and ours that its metadata names."""
    refund, target = shown.refund, SETTLED.get(shown.refund.status)
    theirs = Sum(refund.currency, refund.amount_minor if target == "succeeded" else 0)
    nothing = Sum(refund.currency, 0)
    if shown.reason == _NEVER_TAKEN:
        return Verdict(nothing, nothing)
    ours = by_ref or by_metadata
    if ours is None or (by_ref is None and ours.refund_ref is not None):
        # What came to nothing there is missing nowhere.
        if target == "failed":
            return Verdict(nothing, theirs)
        return Verdict(nothing, theirs, "missing_here" if ours is None else "duplicate", unrecorded=True)
    counted = Sum(ours.currency, ours.amount_minor if ours.state == "succeeded" else 0)
    if ours.currency != refund.currency:
        return Verdict(counted, theirs, "currency")
    if ours.amount_minor != refund.amount_minor:
        return Verdict(counted, theirs, "amount")
    if target is None or _HERE.get(ours.state) != target:
        heals = ours.intent_id is not None and ours.state in _HEALS and target is not None
        return Verdict(counted, theirs, "state", heals)
    # Written down as made outside, and in the name of an intent that has its own refund: one approval was paid twice.
    twice = by_ref is not None and by_ref.intent_id is None and by_metadata is not None and target != "failed"
    return Verdict(counted, theirs, "duplicate" if twice else None)


@dataclass(frozen=True)
class OurMove:
    """A transfer between the balances of a capture: `amount_minor` back to customers, negative when it came back.

    `counted_minor`: what of it lies in the period of the run.
    """

    transfer_id: UUID
    amount_minor: int
    currency: str
    at: datetime
    counted_minor: int

    def and_part(self, part: "OurMove") -> "OurMove":
        """This transfer with the next part of the same move: what was found outside may be placed in parts."""
        return OurMove(
            part.transfer_id, self.amount_minor + part.amount_minor, self.currency, part.at,
            self.counted_minor + part.counted_minor,
        )  # fmt: skip


def compare_movement(movement: Movement, move: OurMove) -> Verdict:
    """A movement at the provider in the period, and the transfer of ours that belongs to it. Each counts on its own date."""
    ours = Sum(move.currency, move.amount_minor)
    # The provider's rate is no difference: what was converted is compared by its refund.
    theirs = ours if movement.converted else Sum(movement.currency, movement.amount_minor)
    counted = Sum(move.currency, move.counted_minor)
    if theirs.currency != ours.currency:
        return Verdict(counted, theirs, "currency")
    if theirs.minor != ours.minor:
        return Verdict(counted, theirs, "amount")
    late = move.counted_minor != move.amount_minor or abs(move.at - movement.created_at) > LATE_AFTER
    return Verdict(counted, theirs, "late" if late else None)
