"""Payments that have to be read again after a recovery (S87): whether they are what the books say, and their refunds here.

A payment that differs stays unverified, so nothing of it is approved (a trigger), and is a discrepancy of finance's.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows, run, scalar
from ledger.discrepancies import Found, join, system_resolves
from ledger.reconciliation_compare import Kind
from ledger.settlement import ProviderRefund


@dataclass(frozen=True)
class ProviderCharge:
    """A charge as the provider shows it: what was taken and what of that was paid back, in our minor units of `currency`."""

    charge_ref: str
    captured_minor: int
    refunded_minor: int
    currency: str


# Those that wait for an approval first, then those of open cases; the rest in the order of their payments' age. One that
# differed before is read after all others, so that it holds none of them up.
_TO_VERIFY: Final = """
    SELECT c.capture_id, c.charge_ref, c.payment_intent_ref, c.provider_account_id, c.captured_at, a.account_ref, a.credential,
        a.livemode, coalesce(a.expected_account_ref, '') AS expected_account
    FROM captures c CROSS JOIN deployment d
    JOIN provider_accounts a ON a.merchant_id = c.merchant_id AND a.provider_account_id = c.provider_account_id
    WHERE c.merchant_id = :m AND c.provider_account_id IS NOT NULL AND c.verified_generation <> d.generation
        AND NOT EXISTS (SELECT 1 FROM recoveries WHERE finished_at IS NULL)
    ORDER BY EXISTS (SELECT 1 FROM discrepancies d WHERE d.merchant_id = c.merchant_id AND d.about = 'payment'
            AND d.provider_account_id = c.provider_account_id AND d.refund_ref = c.charge_ref),
        (SELECT min(CASE i.state WHEN 'proposed' THEN 0 ELSE 1 END) FROM intents i
        WHERE i.merchant_id = c.merchant_id AND i.capture_id = c.capture_id) NULLS LAST, c.captured_at DESC LIMIT :most
"""


def to_verify(db: Connection, merchant_id: UUID, most: int) -> list[RowMapping]:
    """Captures not read in this generation; none while a recovery is not finished, and none where there never was one."""
    if not scalar(db, "SELECT 1 FROM recoveries LIMIT 1"):
        return []
    return rows(db, _TO_VERIFY, m=merchant_id, most=most)


def mark_verified(db: Connection, merchant_id: UUID, capture_id: UUID) -> None:
    """The payment was read in the present generation, and the books hold what it showed."""
    run(
        db, "UPDATE captures SET verified_generation = d.generation FROM deployment d"
        " WHERE merchant_id = :m AND capture_id = :c AND verified_generation <> d.generation", m=merchant_id, c=capture_id,
    )  # fmt: skip


# What of a capture the books know to have left, or to be leaving, whatever became of it since.
_KNOWN: Final = """
    SELECT c.captured_minor, c.currency, c.held_minor + c.releasing_minor AS held_minor, c.refunded_minor + coalesce((
        SELECT sum(i.amount_minor) FROM intents i WHERE i.merchant_id = c.merchant_id AND i.capture_id = c.capture_id
            AND i.act = 'refund' AND i.state IN ('submitting', 'unknown', 'pending', 'needs_review')), 0)::bigint + coalesce((
        SELECT sum(e.amount_minor - e.placed_minor) FROM external_refunds e WHERE e.merchant_id = c.merchant_id
            AND e.provider_account_id = c.provider_account_id AND e.charge_ref = c.charge_ref
            AND e.status NOT IN ('failed', 'canceled')), 0)::bigint AS refunded_minor
    FROM captures c WHERE c.merchant_id = :m AND c.capture_id = :c
"""


def compare_payment(
    db: Connection, merchant_id: UUID, capture: RowMapping, shown: ProviderCharge | None, unread: str = ""
) -> str:
    """Holds a payment against the provider's charge, after its refunds were taken in: `verified`, or `differs` with a
    discrepancy. `shown` is None when the provider has no such charge, or when it cannot be read (`unread` says why).

    What is authorised and not taken is compared by the reading of holds. Locks the capture when it agrees.
    """
    known = first(db, _KNOWN, m=merchant_id, c=capture["capture_id"])
    if known is None:
        return "differs"
    kind: Kind | None = "unreadable" if unread else "missing_there"
    if shown is not None:
        kind = None if known["held_minor"] else _difference(known, shown)
    if kind is None:
        mark_verified(db, merchant_id, capture["capture_id"])
        for row in rows(db, _OPEN, m=merchant_id, a=capture["provider_account_id"], ref=capture["charge_ref"]):
            system_resolves(db, merchant_id, row["discrepancy_id"], "gone", "Read again: both sides agree.")
        return "verified"
    ours = {"charge": capture["charge_ref"], "amount_minor": str(known["captured_minor"]), "currency": known["currency"],
            "refunded_minor": str(known["refunded_minor"])}  # fmt: skip
    found = Found(
        kind, capture["charge_ref"], None, ours, _their_figures(shown, unread), capture["captured_at"], "payment"
    )
    join(db, merchant_id, capture["provider_account_id"], None, found)
    return "differs"


_OPEN: Final = """
    SELECT d.discrepancy_id FROM discrepancies d WHERE d.merchant_id = :m AND d.provider_account_id = :a AND d.about = 'payment'
        AND d.refund_ref = :ref AND NOT EXISTS (SELECT 1 FROM discrepancy_acts c WHERE c.merchant_id = d.merchant_id
            AND c.discrepancy_id = d.discrepancy_id AND c.kind = 'resolved')
"""


def _difference(known: RowMapping, shown: ProviderCharge) -> Kind | None:
    if known["currency"] != shown.currency:
        return "currency"
    if known["captured_minor"] != shown.captured_minor:
        return "amount"
    # Less there is a refund that failed since; its own reading tells. More is money that the books do not know to be gone.
    return "state" if shown.refunded_minor > known["refunded_minor"] else None


def _their_figures(shown: ProviderCharge | None, unread: str) -> dict[str, Any]:
    if shown is None:
        return {"reason": unread} if unread else {}
    return {"charge": shown.charge_ref, "amount_minor": str(shown.captured_minor), "currency": shown.currency,
            "refunded_minor": str(shown.refunded_minor)}  # fmt: skip


_IN_BOOKS: Final = """
    SELECT EXISTS (SELECT 1 FROM intents WHERE merchant_id = :m AND provider_refund_ref = :r)
        OR EXISTS (SELECT 1 FROM external_refunds WHERE merchant_id = :m AND refund_ref = :r)
        OR EXISTS (SELECT 1 FROM intents WHERE merchant_id = :m AND intent_id::text = :intent
            AND state IN ('submitting', 'unknown', 'pending', 'needs_review'))
"""


def is_lost(db: Connection, merchant_id: UUID, refund: ProviderRefund) -> bool:
    """Whether a refund that carries our marks is neither one of ours here, nor under way, nor written down as found."""
    return not scalar(db, _IN_BOOKS, m=merchant_id, r=refund.refund_ref, intent=refund.intent_id)


def waits_for_reading(db: Connection, merchant_id: UUID, intent_id: UUID) -> bool:
    """Whether the payment of an intent was not read again since the books were restored, so that it cannot be approved yet."""
    return bool(scalar(
        db, "SELECT 1 FROM intents i JOIN captures c ON c.merchant_id = i.merchant_id AND c.capture_id = i.capture_id"
        " CROSS JOIN deployment d WHERE i.merchant_id = :m AND i.intent_id = :i AND c.provider_account_id IS NOT NULL"
        " AND c.verified_generation <> d.generation", m=merchant_id, i=intent_id,
    ))  # fmt: skip


def differing_payment(db: Connection, merchant_id: UUID, intent_id: UUID) -> int | None:
    """The number of the open discrepancy about the payment of an intent that cannot be approved for it; None without one."""
    number: int | None = scalar(db, _DIFFERING, m=merchant_id, i=intent_id)
    return number


_DIFFERING: Final = """
    SELECT d.number FROM intents i JOIN captures c ON c.merchant_id = i.merchant_id AND c.capture_id = i.capture_id
    JOIN discrepancies d ON d.merchant_id = c.merchant_id AND d.about = 'payment' AND d.refund_ref = c.charge_ref
        AND d.provider_account_id = c.provider_account_id
    WHERE i.merchant_id = :m AND i.intent_id = :i ORDER BY d.number DESC LIMIT 1
"""
