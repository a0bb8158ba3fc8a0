"""Carries out what people recorded as paid back by hand: verified again, then settled or released. So it does with what two
people settled of a record whose approval did not hold. No provider is ever asked."""

from collections import Counter
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.logs import log
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.by_hand import carry_out, to_carry_out
from ledger.database import transaction
from ledger.review_by_hand import carry_out_by_hand, to_carry_out_by_hand


def run_once(worker: Worker) -> Counts:
    """One transaction for each. Counts: by_hand_succeeded, by_hand_failed, by_hand_needs_review; by_hand_void when what two
    people said holds no more."""
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
        waiting, settled = to_carry_out(db, merchant_id), to_carry_out_by_hand(db, merchant_id)
    for intent_id in waiting:
        with transaction(worker.engine, merchant_id) as db:
            state = carry_out(db, merchant_id, intent_id, worker.verifier)
        _count(merchant_id, intent_id, state, counts)
    for intent_id in settled:
        with transaction(worker.engine, merchant_id) as db:
            state = carry_out_by_hand(db, merchant_id, intent_id)
        _count(merchant_id, intent_id, state, counts)


def _count(merchant_id: UUID, intent_id: UUID, state: str, counts: Counts) -> None:
    if state:
        counts[f"by_hand_{state}"] += 1
        log.info("by_hand", merchant=str(merchant_id), intent=str(intent_id), state=state)
