"""Sends on its way what the daily cap held, in the order of approval, when the next business day opened or the cap rose."""

from collections import Counter
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.logs import log
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.caps import release_held
from ledger.database import transaction


def run_once(worker: Worker) -> Counts:
    """Releases merchant by merchant, one refund a transaction so that the cap day is held shortly. Counts: released."""
    counts: Counts = Counter()
    if worker.switch.on():
        return counts
    for merchant_id in worker.merchants():
        try:
            while not worker.stopping.is_set() and _release(worker, merchant_id):
                counts["released"] += 1
        except BUSY as error:
            counts["busy"] += 1
            log.warning("release_waits", merchant=str(merchant_id), error=error, code=sqlstate(error))
        except SQLAlchemyError as error:
            counts["failed"] += 1
            log.error("release_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    return counts


def _release(worker: Worker, merchant_id: UUID) -> bool:
    with transaction(worker.engine, merchant_id) as db:
        return release_held(db, merchant_id)
