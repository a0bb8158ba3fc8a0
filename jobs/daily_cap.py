"""Sends on its way what the daily cap held, in the order of approval, when the next business day opened or the cap rose."""

from collections import Counter
from uuid import UUID

from jobs.each_merchant import each_merchant
from jobs.worker import Counts, Worker
from ledger.caps import release_held
from ledger.database import transaction


def run_once(worker: Worker) -> Counts:
    """Releases merchant by merchant, one refund a transaction so that the cap day is held shortly. Counts: released."""
    if worker.switch.on():
        return Counter()
    return each_merchant(worker, "release", _one_merchant)


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    while not worker.stopping.is_set() and _release(worker, merchant_id):
        counts["released"] += 1


def _release(worker: Worker, merchant_id: UUID) -> bool:
    with transaction(worker.engine, merchant_id) as db:
        return release_held(db, merchant_id)
