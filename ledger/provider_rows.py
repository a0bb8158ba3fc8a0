"""The provider's refunds, balance movements and disputes as it showed them last, kept beside the books and never mixed with them.

A page is one statement. What was seen since a run began counts as seen by it; the evidence of a discrepancy is a copy.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import run
from ledger.disputes import ProviderDispute
from ledger.reconciliation_compare import Movement, ShownRefund

_REFUNDS: Final = """
    INSERT INTO provider_refunds AS p (merchant_id, provider_account_id, refund_ref, amount_minor, currency, status,
        payment_intent_ref, charge_ref, intent_ref, failure_reason, created_at)
    SELECT :m, :a, x.* FROM unnest(CAST(:refs AS text[]), CAST(:amounts AS bigint[]), CAST(:currencies AS text[]),
        CAST(:statuses AS text[]), CAST(:payments AS text[]), CAST(:charges AS text[]), CAST(:intents AS text[]),
        CAST(:failures AS text[]), CAST(:created AS timestamptz[])) AS x
    ON CONFLICT (merchant_id, provider_account_id, refund_ref) DO UPDATE SET amount_minor = excluded.amount_minor,
        currency = excluded.currency, status = excluded.status, failure_reason = excluded.failure_reason,
        intent_ref = excluded.intent_ref, created_at = excluded.created_at, seen_at = now()
"""


def keep_refunds(db: Connection, merchant_id: UUID, account_id: UUID, page: Sequence[ShownRefund]) -> None:
    """Keeps refunds the provider shows, newer over older. Locks their rows, in the order of their references."""
    page = sorted({one.refund.refund_ref: one for one in page}.values(), key=lambda one: one.refund.refund_ref)
    if page:
        run(
            db, _REFUNDS, m=merchant_id, a=account_id, refs=[one.refund.refund_ref for one in page],
            amounts=[one.refund.amount_minor for one in page], currencies=[one.refund.currency for one in page],
            statuses=[one.refund.status for one in page], payments=[one.refund.payment_intent_ref for one in page],
            charges=[one.refund.charge_ref for one in page], intents=[one.refund.intent_id for one in page],
            failures=[one.refund.failure_reason for one in page], created=[one.created_at for one in page],
        )  # fmt: skip


_MOVEMENTS: Final = """
    INSERT INTO provider_movements AS p (merchant_id, provider_account_id, movement_ref, kind, source_ref, amount_minor,
        currency, converted, created_at)
    SELECT :m, :a, x.* FROM unnest(CAST(:refs AS text[]), CAST(:kinds AS text[]), CAST(:sources AS text[]),
        CAST(:amounts AS bigint[]), CAST(:currencies AS text[]), CAST(:converted AS boolean[]),
        CAST(:created AS timestamptz[])) AS x
    ON CONFLICT (merchant_id, provider_account_id, movement_ref) DO UPDATE SET kind = excluded.kind,
        source_ref = excluded.source_ref, amount_minor = excluded.amount_minor, currency = excluded.currency,
        converted = excluded.converted, created_at = excluded.created_at, seen_at = now()
"""


def keep_movements(db: Connection, merchant_id: UUID, account_id: UUID, page: Sequence[Movement]) -> None:
    """Keeps movements the provider shows. Locks their rows, in the order of their references."""
    page = sorted({one.movement_ref: one for one in page}.values(), key=lambda one: one.movement_ref)
    if page:
        run(
            db, _MOVEMENTS, m=merchant_id, a=account_id, refs=[one.movement_ref for one in page],
            kinds=[one.kind for one in page], sources=[one.source_ref for one in page],
            amounts=[one.amount_minor for one in page], currencies=[one.currency for one in page],
            converted=[one.converted for one in page], created=[one.created_at for one in page],
        )  # fmt: skip


_DISPUTES: Final = """
    INSERT INTO provider_disputes AS p (merchant_id, provider_account_id, dispute_ref, amount_minor, currency, status, charge_ref,
        payment_intent_ref, created_at)
    SELECT :m, :a, x.* FROM unnest(CAST(:refs AS text[]), CAST(:amounts AS bigint[]), CAST(:currencies AS text[]),
        CAST(:statuses AS text[]), CAST(:charges AS text[]), CAST(:payments AS text[]), CAST(:created AS timestamptz[])) AS x
    ON CONFLICT (merchant_id, provider_account_id, dispute_ref) DO UPDATE SET amount_minor = excluded.amount_minor,
        currency = excluded.currency, status = excluded.status, created_at = excluded.created_at, seen_at = now()
"""


def keep_disputes(db: Connection, merchant_id: UUID, account_id: UUID, page: Sequence[ProviderDispute]) -> None:
    """Keeps disputes the provider shows. Locks their rows, in the order of their references."""
    page = sorted({one.dispute_ref: one for one in page}.values(), key=lambda one: one.dispute_ref)
    if page:
        run(
            db, _DISPUTES, m=merchant_id, a=account_id, refs=[one.dispute_ref for one in page],
            amounts=[one.amount_minor for one in page], currencies=[one.currency for one in page],
            statuses=[one.status for one in page], charges=[one.charge_ref for one in page],
            payments=[one.payment_intent_ref for one in page], created=[one.created_at for one in page],
        )  # fmt: skip
