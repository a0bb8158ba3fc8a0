"""What a customer's bank asks or takes back: a dispute, found once, with its states; and what it holds (STRIPE.md §7).

A formal dispute takes its amount out of the capture. A bank's question (`warning_*`) takes nothing. Both hold what was
approved and not sent: paying a refund beside a dispute that may still take the money is the double loss, and the shop should
answer the bank first. A question may be ruled on by finance, for there the provider still pays a refund.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, NotFound, WrongState
from ledger.ids import uuid7
from ledger.outbox import raise_alarm
from ledger.outside_places import lock_charge, place

CLOSED: Final = ("won", "lost", "prevented", "warning_closed")
LISTED: Final = frozenset((
    *CLOSED, "warning_needs_response", "warning_under_review", "needs_response", "under_review", "appeal_needs_response",
    "appeal_under_review",
))  # fmt: skip
# An open dispute changes by hook; this is the net under it. A question may become a dispute of the same id.
OPEN_LOOK: Final = timedelta(minutes=30)

# An account that does not answer may in a while; each look at it may cost a whole call.
SILENT_LOOK: Final = timedelta(minutes=10)


def takes(status: str) -> bool:
    """Whether a dispute in this state takes its money: as `dispute_takes` in the database, for what only the provider shows."""
    return not status.startswith("warning_") and status not in ("won", "prevented")


@dataclass(frozen=True)
class ProviderDispute:
    """A dispute as the provider shows it. `amount_minor` in our minor units of `currency`; times are the provider's."""

    dispute_ref: str
    status: str
    amount_minor: int
    currency: str
    charge_ref: str
    payment_intent_ref: str
    reason: str
    created_at: datetime
    due_at: datetime | None


_INSERT: Final = """
    INSERT INTO disputes (merchant_id, dispute_ref, provider_account_id, charge_ref, payment_intent_ref, amount_minor, currency,
        reason, created_at, found_by, next_look_at)
    VALUES (:m, :d, :a, :charge, :payment, :minor, :currency, :reason, :created, :by, now()) ON CONFLICT DO NOTHING
"""
_KNOWN: Final = "SELECT status, due_at FROM disputes WHERE merchant_id = :m AND dispute_ref = :d"
_STATE: Final = """
    INSERT INTO dispute_states (merchant_id, dispute_ref, n, status, due_at, seen_by)
    SELECT :m, :d, count(*) + 1, :status, :due, :by FROM dispute_states WHERE merchant_id = :m AND dispute_ref = :d
"""


def record_dispute(db: Connection, merchant_id: UUID, account_id: UUID, found: ProviderDispute, seen_by: str) -> str:
    """Writes down what the provider shows, once, and what follows for its charge: "new", "changed" or "known".

    Locks the order of the charge and its cases before anything is written, then what `place` locks.
    """
    keys = {"m": merchant_id, "d": found.dispute_ref}
    known = first(db, _KNOWN, **keys)
    if known is not None and (known["status"], known["due_at"]) == (found.status, found.due_at):
        return "known"
    if found.amount_minor < 1:
        text = f"{found.dispute_ref}: its amount cannot be said in minor units of {found.currency}"
        raise_alarm(db, merchant_id, "unreadable_dispute", None, text[:300])
        return "known"
    charge = lock_charge(db, merchant_id, account_id, found.charge_ref)
    result = "changed"
    if run(
        db, _INSERT, **keys, a=account_id, charge=found.charge_ref, payment=found.payment_intent_ref, minor=found.amount_minor,
        currency=found.currency, reason=found.reason, created=found.created_at, by="poll" if seen_by == "look" else seen_by,
    ):  # fmt: skip
        result = "new"
    known = first(db, _KNOWN, **keys)
    if known is None or (known["status"], known["due_at"]) == (found.status, found.due_at):
        return "known"
    run(db, _STATE, **keys, status=found.status, due=found.due_at, by=seen_by)
    run(db, "UPDATE disputes SET next_look_at = CASE WHEN :closed THEN NULL ELSE now() + :wait END WHERE merchant_id = :m"
        " AND dispute_ref = :d", closed=found.status in CLOSED, wait=OPEN_LOOK, **keys)  # fmt: skip
    if found.status not in LISTED:
        text = f"{found.dispute_ref} is {found.status}, which we do not know: its charge is held as a disputed one"
        raise_alarm(db, merchant_id, "unlisted_dispute", None, text[:300])
    if charge is not None:
        place(db, charge)
    return result


_LOOKS: Final = """
    UPDATE disputes d SET next_look_at = now() + :wait FROM provider_accounts a
    WHERE d.merchant_id = :m AND a.merchant_id = d.merchant_id AND a.provider_account_id = d.provider_account_id
        AND d.dispute_ref IN (SELECT dispute_ref FROM disputes WHERE merchant_id = :m AND next_look_at <= now()
            ORDER BY next_look_at LIMIT :most FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING d.merchant_id, d.dispute_ref, d.provider_account_id, a.account_ref, a.credential, a.livemode,
        coalesce(a.expected_account_ref, '') AS expected_account
"""


def take_dispute_looks(db: Connection, merchant_id: UUID, most: int) -> list[RowMapping]:
    """Open disputes whose time to be read again has come, put off until the next time. The caller commits, then reads."""
    return rows(db, _LOOKS, m=merchant_id, wait=OPEN_LOOK, most=most)


def look_soon_at_disputes(db: Connection, merchant_id: UUID, dispute_refs: list[str]) -> None:
    """Those that were taken to be read, at an account that does not answer, are looked at again in minutes."""
    run(db, "UPDATE disputes SET next_look_at = now() + :wait WHERE merchant_id = :m AND dispute_ref = ANY(:refs)"
        " AND next_look_at IS NOT NULL", wait=SILENT_LOOK, m=merchant_id, refs=dispute_refs)  # fmt: skip


def refund_anyway(db: Connection, merchant_id: UUID, dispute_ref: str, staff_id: UUID, reason: str) -> None:
    """A person of finance rules that the refund goes although the bank asks; what waited for that goes on its way.

    Repeated, it changes nothing. Raises NotFound, BadInput (reason), WrongState for a formal dispute (the provider would
    refuse) and for one that is over. Locks order and cases, then what `place` locks.
    """
    keys = {"m": merchant_id, "d": dispute_ref}
    found = first(db, "SELECT * FROM disputes WHERE merchant_id = :m AND dispute_ref = :d", **keys)
    if found is None:
        raise NotFound
    if not reason.strip():
        raise BadInput("reason", "say why the refund goes although the bank asks")
    charge = lock_charge(db, merchant_id, found["provider_account_id"], found["charge_ref"])
    status = scalar(db, "SELECT status FROM disputes WHERE merchant_id = :m AND dispute_ref = :d", **keys)
    if not status.startswith("warning_") or status in CLOSED:
        raise WrongState(
            "Only an open question of the bank can be ruled on. The provider refuses a refund of a disputed charge."
        )
    run(db, "INSERT INTO dispute_rulings (merchant_id, ruling_id, dispute_ref, reason, staff_id) VALUES (:m, :r, :d, :why, :s)"
        " ON CONFLICT (merchant_id, dispute_ref) DO NOTHING", r=uuid7(), why=mask_card_numbers(reason.strip())[:500],
        s=staff_id, **keys)  # fmt: skip
    if charge is not None:
        place(db, charge, takes=False)
