"""Finds what others do at the provider, with or without a hook: refunds made there by hand, and disputes.

Each account's lists are read from the newest back to where the last pass ended; what is open is read again by its id; and
what waited for its order or for room in a capture is placed.
"""

from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy import RowMapping

from jobs.account_lists import NEWS, read_on
from jobs.asking import Asking
from jobs.each_merchant import each_merchant
from jobs.stripe_gateway import Account, LookFailed
from jobs.worker import Counts, Worker
from ledger.account_lists import take_due_readings
from ledger.database import transaction
from ledger.disputes import look_soon_at_disputes, record_dispute, take_dispute_looks
from ledger.external_refunds import (
    look_soon_at_refunds,
    looked,
    place_waiting,
    placeable,
    record_external,
    take_refund_looks,
)
from ledger.outside_alarms import end_what_is_over

# Objects read again by id, and charges placed, per merchant and run; the rest waits for the next run, seconds later.
LOOK_BATCH: Final = 50
PLACE_BATCH: Final = 200


def run_once(worker: Worker) -> Counts:
    """One run over every merchant. Counts: external and disputes (new or changed rows), placed (charges), ended (alarms),
    unreadable, no_answer."""
    return each_merchant(worker, "outside", _one_merchant)


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id) as db:
        readings = take_due_readings(db, merchant_id)
    for reading in readings:
        read_on(worker, reading, "poll", counts)
    with transaction(worker.engine, merchant_id) as db:
        disputes = take_dispute_looks(db, merchant_id, LOOK_BATCH)
        refunds = take_refund_looks(db, merchant_id, LOOK_BATCH)
    asking = Asking(worker, merchant_id, counts)
    unread_disputes = [row["dispute_ref"] for row in disputes if not _look_at_dispute(worker, row, asking, counts)]
    unread_refunds = [row["refund_ref"] for row in refunds if not _look_at_refund(worker, row, asking, counts)]
    if unread_disputes or unread_refunds:
        with transaction(worker.engine, merchant_id) as db:
            look_soon_at_disputes(db, merchant_id, unread_disputes)
            look_soon_at_refunds(db, merchant_id, unread_refunds)
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        charges = placeable(db, merchant_id, PLACE_BATCH)
    for account_id, charge_ref in charges:
        worker.patiently(_place, worker, merchant_id, account_id, charge_ref)
        counts["placed"] += 1
    with transaction(worker.engine, merchant_id) as db:
        counts["ended"] += end_what_is_over(db, merchant_id)


def _look_at_dispute(worker: Worker, row: RowMapping, asking: Asking, counts: Counts) -> bool:
    """Whether the account answered; else the dispute is looked at again in minutes."""
    merchant_id = row["merchant_id"]
    found = asking.ask(row["provider_account_id"], partial(worker.gateway.dispute, _account(row), row["dispute_ref"]))
    if isinstance(found, LookFailed):
        return found.of_one

    def record() -> str:
        with transaction(worker.engine, merchant_id) as db:
            return record_dispute(db, merchant_id, row["provider_account_id"], found, "look")

    counts["disputes"] += worker.patiently(record) in NEWS
    return True


def _look_at_refund(worker: Worker, row: RowMapping, asking: Asking, counts: Counts) -> bool:
    """Whether the account answered; else the refund is looked at again in minutes."""
    merchant_id = row["merchant_id"]
    found = asking.ask(row["provider_account_id"], partial(worker.gateway.retrieve, _account(row), row["refund_ref"]))
    if isinstance(found, LookFailed):
        return found.of_one

    def record() -> str:
        with transaction(worker.engine, merchant_id) as db:
            result = record_external(db, merchant_id, row["provider_account_id"], found, "look", worker.verifier)
            looked(db, merchant_id, row["refund_ref"], found.status)
            return result

    counts["external"] += worker.patiently(record) in NEWS
    return True


def _account(row: RowMapping) -> Account:
    return Account(row["account_ref"], row["credential"], row["livemode"], row["expected_account"])


def _place(worker: Worker, merchant_id: UUID, account_id: UUID, charge_ref: str) -> None:
    with transaction(worker.engine, merchant_id) as db:
        place_waiting(db, merchant_id, account_id, charge_ref)
