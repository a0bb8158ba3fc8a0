"""Carries out what people recorded as paid back by hand: verified again, then settled or released."""

from collections import Counter
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.logs import log
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.by_hand import carry_out, to_carry_out
from ledger.database import transaction


def run_once(worker: Worker) -> Counts:
    """One transaction for each. Counts: by_hand_succeeded, by_hand_failed, by_hand_needs_review."""
    counts: Counts = Counter()
    for merchant_id in worker.merchants():
        if worker.stopping.is_set():
            break
        try:
            _carry_out(worker, merchant_id, counts)
        except BUSY as error:
            counts["busy"] += 1
            log.warning("by_hand_waits", merchant=str(merchant_id), error=error, code=sqlstate(error))
        except SQLAlchemyError as error:
            counts["failed"] += 1
            log.error("by_hand_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    return +counts


def _carry_out(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id) as db:
        waiting = to_carry_out(db, merchant_id)
    for intent_id in waiting:
        with transaction(worker.engine, merchant_id) as db:
            state = carry_out(db, merchant_id, intent_id, worker.verifier)
        if state:
            counts[f"by_hand_{state}"] += 1
            log.info("by_hand", merchant=str(merchant_id), intent=str(intent_id), state=state)
