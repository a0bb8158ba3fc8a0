"""After a recovery: reads each payment again at the provider before anything of it may be approved (S87)."""

from collections import Counter
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from jobs.asking import Asking
from jobs.each_merchant import each_merchant
from jobs.stripe_gateway import Account, LookFailed
from jobs.worker import Counts, Worker
from ledger.database import scalar, transaction
from ledger.external_refunds import GONE, record_external
from ledger.outbox import close_alarms, raise_alarm
from ledger.settlement import ProviderRefund
from ledger.verification import compare_payment, is_lost, to_verify

# A merchant's reads a run: the provider takes a hundred a second, and the desks' own reads come first.
BATCH: Final = 25


def run_once(worker: Worker) -> Counts:
    """Reads payments that were not read in this generation, those that wait for an approval first.

    Counts: verified, lost (the provider shows a refund of ours that the books do not know), differs (the payment is not what the
    books say: finance has a discrepancy), no_answer, busy, failed.
    """
    return each_merchant(worker, "verify", _one_merchant)


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        waiting = to_verify(db, merchant_id, BATCH)
    if not waiting:
        _end_lost(worker, merchant_id)
    asking = Asking(worker, merchant_id, Counter())
    for capture in waiting:
        counts[_verify(worker, merchant_id, capture, asking)] += 1


def _end_lost(worker: Worker, merchant_id: UUID) -> None:
    with transaction(worker.engine, merchant_id) as db:
        close_alarms(db, merchant_id, "refund_lost", "Every payment was read again, and its refunds are in the books.")


def _verify(worker: Worker, merchant_id: UUID, capture: RowMapping, asking: Asking) -> str:
    account = Account(capture["account_ref"], capture["credential"], capture["livemode"], capture["expected_account"])
    account_id, payment = capture["provider_account_id"], capture["payment_intent_ref"]
    listed = asking.ask(account_id, partial(worker.gateway.list_refunds, account, payment))
    if isinstance(listed, LookFailed):
        return _differs(worker, merchant_id, capture, listed)
    of_charge = [refund for refund in listed if refund.charge_ref == capture["charge_ref"]]
    lost = [refund for refund in of_charge if not worker.patiently(take_in, worker, merchant_id, account_id, refund)]
    if lost:
        with transaction(worker.engine, merchant_id) as db:
            raise_alarm(
                db,
                merchant_id,
                "refund_lost",
                None,
                f"{lost[0].refund_ref} is ours and not in the books: run `flask recover`",
            )
        return "lost"
    # What was taken, and what was paid back in all, beside the books: a payment that differs is not verified.
    shown = asking.ask(account_id, partial(worker.gateway.charge, account, capture["charge_ref"]))
    if isinstance(shown, LookFailed):
        return _differs(worker, merchant_id, capture, shown)
    with transaction(worker.engine, merchant_id) as db:
        return compare_payment(db, merchant_id, capture, shown)


def _differs(worker: Worker, merchant_id: UUID, capture: RowMapping, failure: LookFailed) -> str:
    """A payment that is not there, or cannot be read while others can, is finance's, and holds up none behind it."""
    if not failure.of_one:
        return "no_answer"
    with transaction(worker.engine, merchant_id) as db:
        return compare_payment(db, merchant_id, capture, None, "" if failure.not_there else failure.code)


def take_in(worker: Worker, merchant_id: UUID, account_id: UUID, refund: ProviderRefund) -> bool:
    """Whether the books hold this refund, after what others made was written down."""
    with transaction(worker.engine, merchant_id) as db:
        if _is_ours(db, merchant_id, refund):
            return refund.status in GONE or not is_lost(db, merchant_id, refund)
        record_external(db, merchant_id, account_id, refund, "poll", worker.verifier)
    return True


def _is_ours(db: Connection, merchant_id: UUID, refund: ProviderRefund) -> bool:
    deployment = scalar(db, "SELECT deployment_id FROM deployment")
    return (refund.deployment_id, refund.merchant_id) == (str(deployment), str(merchant_id))
