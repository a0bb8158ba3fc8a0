"""Payments that hold money which was not taken: read at the provider when a hint tells of them, and when they may have lapsed.

What a read shows is written down as facts (`ledger.captures`); open cases of the order are then worked out again.
"""

from collections.abc import Iterable
from functools import partial
from uuid import UUID

from jobs.asking import Asking
from jobs.each_merchant import each_merchant
from jobs.logs import log
from jobs.stripe_gateway import Account, LookFailed
from jobs.worker import Counts, Worker
from ledger.captures import ProviderPayment, holds, read_soon, record_payment, take_reads
from ledger.database import transaction

READ_BATCH = 50


def run_once(worker: Worker) -> Counts:
    """Reads every payment whose hold is due to be read. Counts: held_reads, capture_facts, no_answer."""
    return each_merchant(worker, "held_reads", _one_merchant)


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    asking, unread = Asking(worker, merchant_id, counts), list[str]()
    with transaction(worker.engine, merchant_id) as db:
        due = take_reads(db, merchant_id, READ_BATCH)
    for one in due:
        account = Account(one.account, one.credential, one.livemode, one.expected_account)
        counts["held_reads"] += asking.open(account)
        found = asking.ask(account, partial(read_payment, worker, merchant_id, account, one.payment_intent_ref))
        if not isinstance(found, LookFailed):
            counts["capture_facts"] += found
        elif not found.of_one:
            unread.append(one.payment_intent_ref)
    if unread:
        with transaction(worker.engine, merchant_id) as db:
            read_soon(db, merchant_id, unread)


def read_payment(worker: Worker, merchant_id: UUID, account: Account, payment_intent_ref: str) -> int:
    """Reads one payment and writes down what is new; how many facts that were. Raises LookFailed."""
    payment = worker.gateway.payment(account, payment_intent_ref)
    found = worker.patiently(_record, worker, merchant_id, payment)
    if found:
        log.info("capture_facts", merchant=str(merchant_id), outcome=",".join(found))
    return len(found)


# Hints that tell of a payment's own state; a refund that was refused as it stands asks for the same read.
_OF_THE_PAYMENT = ("payment_intent.", "charge.captured", "charge.expired", "onceback.reread")


def read_if_told(
    worker: Worker, merchant_id: UUID, account: Account, payment_intent_ref: str, kinds: Iterable[str]
) -> int:
    """Reads the payment when hints of these kinds tell of it, or when we think it holds something. Raises LookFailed."""
    told = any(kind.startswith(_OF_THE_PAYMENT) for kind in kinds)
    if not told:
        with transaction(worker.engine, merchant_id, read_only=True) as db:
            told = holds(db, merchant_id, payment_intent_ref)
    return read_payment(worker, merchant_id, account, payment_intent_ref) if told else 0


def _record(worker: Worker, merchant_id: UUID, payment: ProviderPayment) -> list[str]:
    with transaction(worker.engine, merchant_id) as db:
        return record_payment(db, merchant_id, payment)
