"""Nothing is sent on an account whose disputes were not read a moment ago: a hook may be late, or never come.

One list call an account and moment, not one a refund, so that the provider's limits are left to refunds. An account whose
list cannot be read gets nothing sent until it can: sending blind is the double loss.
"""

from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.account_lists import read_on, say_unread
from jobs.logs import log
from jobs.stripe_gateway import Account, LookFailed
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.account_lists import account_of_intent, accounts_with_work, take_dispute_reading
from ledger.database import transaction

# A dispute opened this long before a claim may still be met by its refund. The provider itself refuses a formally disputed one.
FRESH_SECONDS: Final = 2.0


def fresh_accounts(worker: Worker, merchant_id: UUID, counts: Counts) -> list[UUID]:
    """The accounts of a merchant at which something is due and may be sent now: those whose disputes are read.

    Counts: disputes, disputes_unread (accounts at which nothing is sent now).
    """
    try:
        with transaction(worker.engine, merchant_id, read_only=True) as db:
            due = accounts_with_work(db, merchant_id)
        return [
            account.account_id
            for account in due
            if (account.read_seconds is not None and account.read_seconds < FRESH_SECONDS)
            or (not account.let_be and disputes_read(worker, merchant_id, account.account_id, counts))
        ]
    except BUSY as error:
        counts["busy"] += 1
        log.warning("claim_waits", merchant=str(merchant_id), error=error, code=sqlstate(error))
    except SQLAlchemyError as error:
        counts["failed"] += 1
        log.error("claim_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    return []


def fresh_for(worker: Worker, merchant_id: UUID, intent_id: UUID) -> bool:
    """Whether the disputes of the one account of an intent are known as of now, for a refund that is to be sent again."""
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        account = account_of_intent(db, merchant_id, intent_id)
    if account is None or (account.read_seconds is not None and account.read_seconds < FRESH_SECONDS):
        return True
    return not account.let_be and disputes_read(worker, merchant_id, account.account_id, Counts())


def disputes_read(worker: Worker, merchant_id: UUID, account_id: UUID, counts: Counts) -> bool:
    """Reads the disputes of an account now, by this or by another worker a moment ago; whether they are known to the end."""
    with transaction(worker.engine, merchant_id) as db:
        reading = take_dispute_reading(db, merchant_id, account_id)
    if reading is None:
        return False
    try:
        has_key = worker.gateway.has_key(
            Account(reading.account, reading.credential, reading.livemode, reading.expected_account)
        )
    except LookFailed as failure:
        worker.patiently(say_unread, worker, reading, failure)
        counts["disputes_unread"] += 1
        return False
    if not has_key:
        # No refund can leave either: claiming says so, and stops the merchant with an alarm.
        return True
    read: Counts = Counts()
    if read_on(worker, reading, "send", read):
        counts["disputes"] += read["disputes"]
        return True
    counts["disputes_unread"] += 1
    return False
