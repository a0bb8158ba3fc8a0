"""An amount other than computed: an exception with a reason, which a second person of sufficient role approves.

The figures of the engine stay: they stand in the override's row, in the entitlement, in the intent and in what is approved. It
counts only while the computed amount is still the one it was asked beside, and never above what was paid for the case's units;
what is beyond that is goodwill.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.allocation_lines import Allocation
from ledger.assessment import reassess
from ledger.assessment_facts import Facts, read_facts
from ledger.card_numbers import mask_card_numbers
from ledger.database import first, run
from ledger.entitlement import most_payable
from ledger.errors import BadInput, Stale, WrongState
from ledger.events import LOCKED_CASE, LockedCase, append, lock_order_and_case, locked_case
from ledger.ids import uuid7
from ledger.intents import live_intents
from ledger.money import MAX_MINOR, format_minor
from ledger.states import MONEY_OUT

REASONS: Final = ("value_loss_agreed", "fault_unseen", "promise_kept", "price_error", "deduction_waived", "other")
LONGEST_NOTE: Final = 500
BECAUSE: Final = "override"


@dataclass(frozen=True)
class Bounds:
    """What another amount of a case may be, in minor units: other than `computed_minor`, above `paid_minor`, at most `most_minor`.

    `asked_minor` is one that stands now; `why_not` says why none can be asked for, or "".
    """

    computed_minor: int
    paid_minor: int
    most_minor: int
    currency: str
    asked_minor: int | None
    why_not: str


@dataclass(frozen=True)
class Ask:
    """Another amount in all, beside the computed one that the person saw."""

    minor: int
    computed_minor: int
    reason: str
    note: str
    actor: str


def read_bounds(db: Connection, case: LockedCase) -> Bounds:
    """The bounds as they are now; the case is locked, or only read in one read-only transaction. Raises NotFound, NoPolicy."""
    facts = read_facts(db, case)
    allocation = Allocation.from_document(facts.order["allocation"])
    computed, most = max(
        most_payable(allocation, facts.evidence, facts.priors, terms) for _, terms in facts.deciding.options
    )
    paid = sum(one.order_minor for one in facts.priors.paid)
    asked = facts.evidence.override
    standing = asked.minor if asked is not None and asked.computed_minor == computed else None
    return Bounds(computed, paid, most, case.currency, standing, _why_not(case, facts, computed))


def _why_not(case: LockedCase, facts: Facts, computed: int) -> str:
    if case.closed_at is not None:
        return "This case is closed."
    if facts.evidence.kind != "return":
        return "Its amount was typed by a person: reject it and record another."
    if computed <= 0:
        return "Nothing is owed on this case. What is given all the same is goodwill."
    return ""


def bounds_of(db: Connection, merchant_id: UUID, case_id: UUID) -> Bounds:
    """The bounds for a page, in its read-only transaction; nothing is locked. Raises NotFound, NoPolicy."""
    return read_bounds(db, locked_case(first(db, _UNLOCKED, m=merchant_id, c=case_id)))


_UNLOCKED: Final = f"SELECT {LOCKED_CASE} FROM cases c WHERE c.merchant_id = :m AND c.case_id = :c"  # noqa: S608 - columns


def ask_override(db: Connection, merchant_id: UUID, case_id: UUID, ask: Ask) -> UUID:
    """Asks for another amount and proposes it; whoever asks is its requester and cannot approve it (P7). Returns the row's id.

    Locks order, case and what `reassess` locks. Raises NotFound, BadInput (amount, reason, note), Stale when another amount is
    computed than the person saw, WrongState for a case that is closed, pays no return, or of which a refund is on its way.
    """
    case = lock_order_and_case(db, merchant_id, case_id)
    bounds = read_bounds(db, case)
    _nothing_left(db, case)
    check_ask(bounds, ask)
    override_id = _insert(db, case, ask, ask.minor)
    body = {"amount_minor": str(ask.minor), "computed_minor": str(ask.computed_minor), "currency": case.currency}
    append(db, case, "override.asked", ask.actor, body, reason=ask.reason)
    result = reassess(db, case, ask.actor, requester=ask.actor, because=BECAUSE)
    if result is None or result.total_minor != ask.minor:
        raise BadInput("amount", "the lines of this case do not carry this amount")
    return override_id


def take_back(db: Connection, merchant_id: UUID, case_id: UUID, actor: str) -> LockedCase:
    """The computed amount counts again; one that was taken back already stays so. Locks and raises as `ask_override`."""
    case = lock_order_and_case(db, merchant_id, case_id)
    latest = _latest(db, case)
    if latest is None or latest["minor"] is None:
        return case
    _nothing_left(db, case)
    _insert(db, case, Ask(0, latest["computed_minor"], latest["reason"], "taken back", actor), None)
    append(db, case, "override.taken_back", actor, {})
    reassess(db, case, actor, requester=actor, because=BECAUSE)
    return case


def check_ask(bounds: Bounds, ask: Ask) -> None:
    """Raises BadInput naming the field, Stale, WrongState."""
    if bounds.why_not:
        raise WrongState(bounds.why_not)
    if ask.reason not in REASONS:
        raise BadInput("reason", f"choose one of {', '.join(REASONS)}")
    if not 1 <= len(ask.note.strip()) <= LONGEST_NOTE:
        raise BadInput("note", f"say why in 1 to {LONGEST_NOTE} characters")
    if ask.computed_minor != bounds.computed_minor:
        raise Stale("Another amount is computed now than when you opened this page. Nothing was asked for.")
    if not 0 < ask.minor <= MAX_MINOR:
        raise BadInput("amount", "an amount is more than 0")
    if ask.minor == bounds.computed_minor:
        raise BadInput("amount", "this is the amount that is computed")
    if ask.minor <= bounds.paid_minor:
        paid = format_minor(bounds.paid_minor, bounds.currency)
        raise BadInput("amount", f"{paid} {bounds.currency} of it is paid already: ask for more than that in all")
    if ask.minor > bounds.most_minor:
        most = format_minor(bounds.most_minor, bounds.currency)
        raise BadInput("amount", f"at most {most} {bounds.currency} was paid for these units: the rest is goodwill")


def _nothing_left(db: Connection, case: LockedCase) -> None:
    """Raises WrongState while money of the case is on its way: then another amount would be for something else."""
    on_its_way = [one for one in live_intents(db, case) if one["state"] in MONEY_OUT or one["recorded_by_hand"]]
    if on_its_way:
        raise WrongState("A refund of this case is on its way. Wait until it has ended.")


def _latest(db: Connection, case: LockedCase) -> RowMapping | None:
    return first(
        db, "SELECT n, minor, computed_minor, reason FROM overrides WHERE merchant_id = :m AND case_id = :c"
        " ORDER BY n DESC LIMIT 1", m=case.merchant_id, c=case.case_id,
    )  # fmt: skip


_INSERT: Final = """
    INSERT INTO overrides (merchant_id, override_id, case_id, n, entitlement_id, computed_minor, minor, reason, note, asked_by)
    SELECT :m, :id, :c, :n, e.entitlement_id, :computed, CAST(:minor AS bigint), :reason, :note, :actor FROM entitlements e
    WHERE e.merchant_id = :m AND e.case_id = :c ORDER BY e.n DESC LIMIT 1
"""


def _insert(db: Connection, case: LockedCase, ask: Ask, minor: int | None) -> UUID:
    latest, override_id = _latest(db, case), uuid7()
    run(
        db, _INSERT, m=case.merchant_id, id=override_id, c=case.case_id, n=1 + (latest["n"] if latest else 0),
        computed=ask.computed_minor, minor=minor, reason=ask.reason, note=mask_card_numbers(ask.note.strip()), actor=ask.actor,
    )  # fmt: skip
    return override_id
