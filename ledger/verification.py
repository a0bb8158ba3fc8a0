"""Payments that have to be read again after a recovery (S87), and whether a refund shown for one is in the books."""

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import rows, run, scalar
from ledger.settlement import ProviderRefund

# Those that wait for an approval first, then those of open cases; the rest in the order of their payments' age.
_TO_VERIFY: Final = """
    SELECT c.capture_id, c.charge_ref, c.payment_intent_ref, c.provider_account_id, a.account_ref, a.credential, a.livemode
    FROM captures c CROSS JOIN deployment d
    JOIN provider_accounts a ON a.merchant_id = c.merchant_id AND a.provider_account_id = c.provider_account_id
    WHERE c.merchant_id = :m AND c.provider_account_id IS NOT NULL AND c.verified_generation <> d.generation
        AND NOT EXISTS (SELECT 1 FROM recoveries WHERE finished_at IS NULL)
    ORDER BY (SELECT min(CASE i.state WHEN 'proposed' THEN 0 ELSE 1 END) FROM intents i
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
