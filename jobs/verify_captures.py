"""After a recovery: reads each payment again at the provider before anything of it may be approved (S87)."""

from collections import Counter
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import SQLAlchemyError

from jobs.logs import log
from jobs.stripe_gateway import Account, LookFailed
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.database import scalar, transaction
from ledger.external_refunds import GONE, record_external
from ledger.outbox import raise_alarm
from ledger.settlement import ProviderRefund
from ledger.verification import is_lost, mark_verified, to_verify

# A merchant's reads a run: the provider takes a hundred a second, and the desks' own reads come first.
BATCH: Final = 25


def run_once(worker: Worker) -> Counts:
    """Reads payments that were not read in this generation, those that wait for an approval first.

    Counts: verified, lost (the provider shows a refund of ours that the books do not know), no_answer, busy, failed.
    """
    counts: Counts = Counter()
    for merchant_id in worker.merchants():
        if worker.stopping.is_set():
            break
        try:
            with transaction(worker.engine, merchant_id, read_only=True) as db:
                waiting = to_verify(db, merchant_id, BATCH)
            for capture in waiting:
                counts[_verify(worker, merchant_id, capture)] += 1
        except BUSY as error:
            counts["busy"] += 1
            log.warning("verify_waits", merchant=str(merchant_id), error=error, code=sqlstate(error))
        except SQLAlchemyError as error:
            counts["failed"] += 1
            log.error("verify_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    return +counts


def _verify(worker: Worker, merchant_id: UUID, capture: RowMapping) -> str:
    account = Account(capture["account_ref"], capture["credential"], capture["livemode"])
    try:
        listed = worker.gateway.list_refunds(account, capture["payment_intent_ref"])
    except LookFailed as failure:
        log.warning("no_answer", merchant=str(merchant_id), code=failure.code)
        return "no_answer"
    of_charge = [refund for refund in listed if refund.charge_ref == capture["charge_ref"]]
    lost = [refund for refund in of_charge if not worker.patiently(_take_in, worker, merchant_id, capture, refund)]
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
    with transaction(worker.engine, merchant_id) as db:
        mark_verified(db, merchant_id, capture["capture_id"])
    return "verified"


def _take_in(worker: Worker, merchant_id: UUID, capture: RowMapping, refund: ProviderRefund) -> bool:
    """Whether the books hold this refund, after what others made was written down."""
    with transaction(worker.engine, merchant_id) as db:
        if _is_ours(db, merchant_id, refund):
            return refund.status in GONE or not is_lost(db, merchant_id, refund)
        record_external(db, merchant_id, capture["provider_account_id"], refund, "poll", worker.verifier)
    return True


def _is_ours(db: Connection, merchant_id: UUID, refund: ProviderRefund) -> bool:
    deployment = scalar(db, "SELECT deployment_id FROM deployment")
    return (refund.deployment_id, refund.merchant_id) == (str(deployment), str(merchant_id))
