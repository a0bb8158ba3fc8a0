"""Reading an account's lists at the provider, page by page, each page recorded before the next is asked for."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from jobs.asking import say_refused
from jobs.logs import log
from jobs.stripe_gateway import Account, LookFailed, WrongAccount
from jobs.worker import Counts, Worker
from ledger.account_lists import Reading, page_failed, page_was_read
from ledger.database import transaction
from ledger.disputes import ProviderDispute, record_dispute
from ledger.external_refunds import record_external
from ledger.outbox import raise_alarm, stop_merchant
from ledger.settlement import ProviderRefund

# One run reads at most this many pages of a list, so that a long first pass holds up nothing else; the next run goes on.
MOST_PAGES: Final = 20
# What recording says of an object that was not here as it is.
NEWS: Final = ("new", "changed")
# A list that cannot be read for as long is said aloud: what is made there meanwhile is not seen, and nothing is sent.
UNREAD_FOR: Final = timedelta(minutes=1)


def read_on(worker: Worker, reading: Reading, seen_by: str, counts: Counts) -> bool:
    """Reads a list to its end, or as many pages as a run may; whether it came to the end.

    Counts: external, disputes (new or changed rows), unreadable, no_answer.
    """
    for _ in range(MOST_PAGES):
        if worker.stopping.is_set():
            return False
        try:
            last_ref = _read_page(worker, reading, seen_by, counts)
        except LookFailed as failure:
            counts["no_answer"] += 1
            worker.patiently(say_unread, worker, reading, failure)
            return False
        worker.patiently(_keep_page, worker, reading, last_ref)
        if last_ref is None:
            return True
        reading = replace(reading, page_after=last_ref)
    return False


def _read_page(worker: Worker, reading: Reading, seen_by: str, counts: Counts) -> str | None:
    """Asks for one page and records what is on it; what the next page starts after, None for the last."""
    account = Account(reading.account, reading.credential, reading.livemode, reading.expected_account)
    since, after = reading.created_from, reading.page_after
    if reading.list == "refunds":
        refunds = worker.gateway.account_refunds(account, since, after)
        news = [worker.patiently(_record_refund, worker, reading, one) for one in refunds.rows]
        counts["external"] += sum(one in NEWS for one in news)
        counts["unreadable"] += len(refunds.unread)
        return refunds.next_after
    disputes = worker.gateway.account_disputes(account, since, after)
    news = [worker.patiently(_record_dispute, worker, reading, one, seen_by) for one in disputes.rows]
    counts["disputes"] += sum(one in NEWS for one in news)
    counts["unreadable"] += len(disputes.unread)
    return disputes.next_after


def _record_refund(worker: Worker, reading: Reading, refund: ProviderRefund) -> str:
    with transaction(worker.engine, reading.merchant_id) as db:
        return record_external(db, reading.merchant_id, reading.account_id, refund, "poll", worker.verifier)


def _record_dispute(worker: Worker, reading: Reading, dispute: ProviderDispute, seen_by: str) -> str:
    with transaction(worker.engine, reading.merchant_id) as db:
        return record_dispute(db, reading.merchant_id, reading.account_id, dispute, seen_by)


def _keep_page(worker: Worker, reading: Reading, last_ref: str | None) -> None:
    with transaction(worker.engine, reading.merchant_id) as db:
        page_was_read(db, reading, last_ref)


def say_unread(worker: Worker, reading: Reading, failure: LookFailed) -> None:
    """Keeps that a list could not be read; one that was not for long is an alarm, and a refused credential stops the merchant."""
    with transaction(worker.engine, reading.merchant_id) as db:
        if failure.http_status in (401, 403) or isinstance(failure, WrongAccount):
            if stop_merchant(db, reading.merchant_id, failure.code):
                text = f"The provider refused our credential: {failure.code}"
                raise_alarm(db, reading.merchant_id, "submitter_stopped", None, text)
        else:
            say_refused(db, reading.merchant_id, failure)
        if page_failed(db, reading, UNREAD_FOR, refused=failure.refused):
            text = f"The provider's {reading.list} cannot be read: {failure.code}. Nothing of that account is sent until then"
            raise_alarm(db, reading.merchant_id, f"{reading.list}_unread", None, text)
    log.warning("list_not_read", merchant=str(reading.merchant_id), code=failure.code, http_status=failure.http_status)
