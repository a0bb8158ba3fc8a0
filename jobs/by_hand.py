"""Carries out what people recorded as paid back by hand: verified again, then settled or released. So it does with what two
people settled of a record whose approval did not hold. No provider is ever asked."""

from uuid import UUID

from jobs.each_merchant import each_merchant
from jobs.logs import log
from jobs.worker import Counts, Worker
from ledger.by_hand import carry_out, to_carry_out
from ledger.database import transaction
from ledger.hops import hop
from ledger.review_by_hand import carry_out_by_hand, to_carry_out_by_hand


def run_once(worker: Worker) -> Counts:
    """One transaction for each. Counts: by_hand_succeeded, by_hand_failed, by_hand_needs_review; by_hand_void when what two
    people said holds no more."""
    return each_merchant(worker, "by_hand", _carry_out)


def _carry_out(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id) as db:
        waiting, settled = to_carry_out(db, merchant_id), to_carry_out_by_hand(db, merchant_id)
    for intent_id in waiting:
        with transaction(worker.engine, merchant_id) as db:
            state = carry_out(db, merchant_id, intent_id, worker.verifier)
            about = hop(db, merchant_id, intent_id)
        _count(merchant_id, about, state, counts)
    for intent_id in settled:
        with transaction(worker.engine, merchant_id) as db:
            state = carry_out_by_hand(db, merchant_id, intent_id)
            about = hop(db, merchant_id, intent_id)
        _count(merchant_id, about, state, counts)


def _count(merchant_id: UUID, about: dict[str, str], state: str, counts: Counts) -> None:
    if state:
        counts[f"by_hand_{state}"] += 1
        log.info("by_hand", merchant=str(merchant_id), state=state, **about)
