"""Finds what others do at the provider, with or without a hook: refunds made there by hand, and disputes.

Each account's lists are read from the newest back to where the last pass ended; what is open is read again by its id; and
what waited for its order or for room in a capture is placed.
"""

from collections import Counter
from typing import Final
from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.exc import SQLAlchemyError

from jobs.account_lists import NEWS, read_on
from jobs.logs import log
from jobs.stripe_gateway import Account, LookFailed
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.account_lists import take_due_readings
from ledger.database import transaction
from ledger.disputes import record_dispute, take_dispute_looks
from ledger.external_refunds import looked, place_waiting, placeable, record_external, take_refund_looks

# Objects read again by id, and charges placed, per merchant and run; the rest waits for the next run, seconds later.
LOOK_BATCH: Final = 50
PLACE_BATCH: Final = 200


def run_once(worker: Worker) -> Counts:
    """One run over every merchant. Counts: external and disputes (new or changed rows), placed (charges), unreadable, no_answer."""
    counts: Counts = Counter()
    for merchant_id in worker.merchants():
        if worker.stopping.is_set():
            break
        try:
            _one_merchant(worker, merchant_id, counts)
        except BUSY as error:
            counts["busy"] += 1
            log.warning("outside_waits", merchant=str(merchant_id), error=error, code=sqlstate(error))
        except SQLAlchemyError as error:
            counts["failed"] += 1
            log.error("outside_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    return +counts


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id) as db:
        readings = take_due_readings(db, merchant_id)
    for reading in readings:
        read_on(worker, reading, "poll", counts)
    with transaction(worker.engine, merchant_id) as db:
        disputes = take_dispute_looks(db, merchant_id, LOOK_BATCH)
        refunds = take_refund_looks(db, merchant_id, LOOK_BATCH)
    for row in disputes:
        _look_at_dispute(worker, merchant_id, row, counts)
    for row in refunds:
        _look_at_refund(worker, merchant_id, row, counts)
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        charges = placeable(db, merchant_id, PLACE_BATCH)
    for account_id, charge_ref in charges:
        worker.patiently(_place, worker, merchant_id, account_id, charge_ref)
        counts["placed"] += 1


def _look_at_dispute(worker: Worker, merchant_id: UUID, row: RowMapping, counts: Counts) -> None:
    account = Account(row["account_ref"], row["credential"], row["livemode"])
    try:
        found = worker.gateway.dispute(account, row["dispute_ref"])
    except LookFailed as failure:
        counts["no_answer"] += 1
        log.warning("no_answer", merchant=str(merchant_id), code=failure.code)
        return

    def record() -> str:
        with transaction(worker.engine, merchant_id) as db:
            return record_dispute(db, merchant_id, row["provider_account_id"], found, "look")

    counts["disputes"] += worker.patiently(record) in NEWS


def _look_at_refund(worker: Worker, merchant_id: UUID, row: RowMapping, counts: Counts) -> None:
    account = Account(row["account_ref"], row["credential"], row["livemode"])
    try:
        found = worker.gateway.retrieve(account, row["refund_ref"])
    except LookFailed as failure:
        counts["no_answer"] += 1
        log.warning("no_answer", merchant=str(merchant_id), code=failure.code)
        return

    def record() -> str:
        with transaction(worker.engine, merchant_id) as db:
            result = record_external(db, merchant_id, row["provider_account_id"], found, "look", worker.verifier)
            looked(db, merchant_id, row["refund_ref"], found.status)
            return result

    counts["external"] += worker.patiently(record) in NEWS


def _place(worker: Worker, merchant_id: UUID, account_id: UUID, charge_ref: str) -> None:
    with transaction(worker.engine, merchant_id) as db:
        place_waiting(db, merchant_id, account_id, charge_ref)
