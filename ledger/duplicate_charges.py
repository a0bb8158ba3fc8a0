"""Whether a customer was charged twice: one pure function from what provider and ledger show to a finding (ENTITLEMENT §10).

    find(inputs) -> Finding

No clock, network, database or text of a customer: the same inputs give the same finding. Every test runs and is kept with
its figures; `decided_by` names the one that decided. A charge is one payment taken at the provider. Amounts are minor units.

    due       = order total − settled and reserved payments of the order's other cases
    net(c)    = captured − refunded − reserved − disputed
    excess    = Σ net over the order's completed charges − due
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

from ledger.canonical import digest

FINDER: Final = "1.0.0"
INPUTS_TAG: Final = "charges@1"
BY_HAND: Final = ("cash", "bank")

Verdict = Literal["verified", "none", "investigate"]


@dataclass(frozen=True, slots=True)
class Charge:
    """One charge, once for each row in which it was seen; figures of its own `currency`.

    `capture_id` is "" for one that only the provider shows. `order_ref`: the order it is tied to, by the order's own import or
    by the checkout written at payment; "" when nothing ties it to one. `held_minor` is authorised and not taken. `plan`: why
    there is more than one charge by arrangement. `open_refund_minor`: refunded outside and on no case yet, or not settled.
    `differs`: the provider shows other figures than the books.
    """

    charge_ref: str
    capture_id: str
    order_ref: str
    currency: str
    captured_minor: int
    captured_at: str
    tender: str = "card"
    account: str = ""
    refunded_minor: int = 0
    reserved_minor: int = 0
    disputed_minor: int = 0
    held_minor: int = 0
    step_minor: int = 1
    plan: str | None = None
    disputed: bool = False
    open_refund_minor: int = 0
    differs: bool = False

    @property
    def net_minor(self) -> int:
        return self.captured_minor - self.refunded_minor - self.reserved_minor - self.disputed_minor


@dataclass(frozen=True, slots=True)
class OtherOrder:
    """Another order of the same customer with a charge of the same amount. `shipped`: some of it is known to have arrived."""

    order_ref: str
    currency: str
    total_minor: int
    captured_minor: int
    shipped: bool = False


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a finding is made of. `line_payments_minor`: settled and reserved payments of the order's other cases, in its
    currency. `unread`: why a read is not complete, by its code; with any the finding is a person's."""

    order_ref: str
    currency: str
    total_minor: int
    line_payments_minor: int
    charges: tuple[Charge, ...]
    others: tuple[OtherOrder, ...] = ()
    unread: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """What is stored beside the finding."""
        found = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    @property
    def digest(self) -> str:
        return digest(self.document(), INPUTS_TAG)


@dataclass(frozen=True, slots=True)
class Test:
    """What one test found: `status` pass, fail (nothing is paid for it) or look (a person has to)."""

    id: str
    status: Literal["pass", "fail", "look"]
    reason: str = ""
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """`charge` is the one to pay back, for `verified` only; then its net is the excess. `excess_minor` is None where charges are
    of several currencies, for nothing is compared by a rate. `lookalike` names what looks like a second charge and is none."""

    verdict: Verdict
    decided_by: str
    tests: tuple[Test, ...]
    due_minor: int
    net_minor: int | None
    excess_minor: int | None
    charge: Charge | None
    lookalike: str = ""


def read_inputs(document: Mapping[str, Any]) -> Inputs:
    """Inputs as `document()` wrote them. Raises TypeError or KeyError for something else."""
    known = {field.name for field in fields(Inputs)}
    if set(document) - known:
        raise TypeError(f"no inputs of a finding: {sorted(set(document) - known)}")
    charges = tuple(Charge(**row) for row in document["charges"])
    others = tuple(OtherOrder(**row) for row in document["others"])
    return Inputs(**{**document, "charges": charges, "others": others, "unread": tuple(document["unread"])})


def find(inputs: Inputs) -> Finding:
    """The finding. Rows of one charge count once; only completed charges of this order count at all."""
    once = _once(inputs.charges)
    ours = [one for one in once if one.order_ref == inputs.order_ref]
    completed = [one for one in ours if one.captured_minor > 0]
    due = inputs.total_minor - inputs.line_payments_minor
    currencies = {one.currency for one in completed} | {inputs.currency}
    net = sum(one.net_minor for one in completed) if len(currencies) == 1 else None
    excess = net - due if net is not None else None
    fitting = _fitting(completed, excess)
    tests = (
        Test("charges.read", *_status(bool(inputs.unread), "read_failed"), inputs.unread),
        Test("charges.as_in_books", *_status(any(one.differs for one in once), "books_differ")),
        Test("charges.linked", *_status(_loose(once), "charge_of_no_order"), tuple(one.charge_ref for one in _loose(once))),
        Test("charges.one_currency", *_status(len(currencies) > 1, "two_currencies"), tuple(sorted(currencies))),
        Test("charges.excess", *_excess(excess)),
        Test("charges.no_dispute", *_status(any(one.disputed or one.disputed_minor for one in ours), "disputed")),
        Test("charges.refunds_known", *_status(any(one.open_refund_minor for one in ours), "refund_on_no_case")),
        Test("charges.by_provider", *_status(any(one.tender in BY_HAND for one in completed), "cash_or_bank_too")),
        Test("charges.one_account", *_status(len({one.account for one in completed if one.account}) > 1, "two_accounts")),
        Test("charges.two_or_more", *_status(len(completed) < 2, "one_charge_too_high"), (f"completed:{len(completed)}",)),
        Test("charges.fits_one", *_status(not fitting, "fits_no_single_charge")),
        Test("charges.not_planned", *_status(bool(fitting) and all(one.plan for one in fitting), "planned")),
    )  # fmt: skip
    decided = next((test for test in tests if test.status != "pass"), None)
    lookalike = _lookalike(inputs, once, ours, completed)
    if decided is None:
        charge = max((one for one in fitting if not one.plan), key=lambda one: (one.captured_at, one.charge_ref))
        return Finding("verified", "charges.fits_one", tests, due, net, excess, charge)
    verdict: Verdict = "none" if decided.status == "fail" else "investigate"
    return Finding(verdict, decided.id, tests, due, net, excess, None, lookalike if verdict == "none" else "")


def _once(charges: Sequence[Charge]) -> list[Charge]:
    """Each charge once, however often it was seen: a row that is a capture of ours before one that only the provider shows, and
    what stands in the way on any of its rows."""
    kept: dict[str, Charge] = {}
    captures: set[str] = set()
    for one in sorted(charges, key=_rank):
        known = kept.get(one.charge_ref)
        if known is not None:
            kept[one.charge_ref] = replace(
                known,
                disputed=known.disputed or one.disputed,
                differs=known.differs or one.differs,
                open_refund_minor=max(known.open_refund_minor, one.open_refund_minor),
            )
        elif one.capture_id not in captures:
            kept[one.charge_ref] = one
            captures |= {one.capture_id} - {""}
    return list(kept.values())


def _rank(one: Charge) -> tuple[str, bool, bool, int, str]:
    return one.charge_ref, not one.capture_id, not one.order_ref, one.net_minor, repr(one)


def _loose(once: Sequence[Charge]) -> list[Charge]:
    """Charges with money on them that nothing ties to an order."""
    return [one for one in once if not one.order_ref and one.net_minor > 0]


def _fitting(completed: Sequence[Charge], excess: int | None) -> list[Charge]:
    """Charges that are what is too much: on an account, for what no provider was asked about is found by nobody."""
    if excess is None or excess <= 0:
        return []
    return [one for one in completed if one.net_minor == excess and one.capture_id and one.account]


def _status(found: object, reason: str) -> tuple[Literal["pass", "look"], str]:
    return ("look", reason) if found else ("pass", "")


def _excess(excess: int | None) -> tuple[Literal["pass", "fail"], str, tuple[str, ...]]:
    if excess is None:
        return "pass", "", ()
    facts = (f"excess_minor:{excess}",)
    return ("pass", "", facts) if excess > 0 else ("fail", "nothing_too_much", facts)


def _lookalike(inputs: Inputs, once: list[Charge], ours: list[Charge], completed: list[Charge]) -> str:
    """What the customer may have seen as a second charge, most telling first."""
    if any(one.disputed_minor for one in completed):
        return "with_the_bank"
    if any(one.held_minor > 0 and not one.captured_minor for one in ours):
        return "hold"
    if any(not one.captured_minor for one in ours):
        return "hold_gone"
    if any(not one.net_minor and one.refunded_minor for one in completed):
        return "reversal"
    if any(one.order_ref and one.order_ref != inputs.order_ref and one.currency != inputs.currency for one in once):
        return "two_currencies"
    if any(one.captured_minor == one.total_minor for one in inputs.others):
        return "two_purchases"
    if len(inputs.charges) > len(once):
        return "shown_twice"
    return "parts_of_one_total" if len(completed) > 1 else "one_charge"


def document(finding: Finding) -> dict[str, Any]:
    """The finding as it is stored, without its inputs."""
    return {
        "finder": FINDER,
        "verdict": finding.verdict,
        "decided_by": finding.decided_by,
        "lookalike": finding.lookalike,
        "due_minor": finding.due_minor,
        "net_minor": finding.net_minor,
        "excess_minor": finding.excess_minor,
        "charge": finding.charge.charge_ref if finding.charge else None,
        "tests": [
            {"id": one.id, "status": one.status, "reason": one.reason, "facts": list(one.facts)}
            for one in finding.tests
        ],
    }


def reason_of(finding: Finding) -> str:
    """The code of what decided: the look-alike of a "none", the failed test of an "investigate"."""
    if finding.verdict == "verified":
        return "charged_twice"
    if finding.verdict == "none":
        return finding.lookalike
    return next(test.reason for test in finding.tests if test.id == finding.decided_by)
