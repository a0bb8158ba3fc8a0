"""Sends what is due: claim and commit, call, record and commit.

A crash before the claim commits leaves the intent approved; after it, an attempt without a result that others look up the
moment this worker's lock is gone. The answer to a call is recorded in a transaction of its own, the moment it is there.
"""

import time
from collections import Counter, defaultdict
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.dispute_freshness import fresh_accounts
from jobs.logs import log
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger import tracing
from ledger.database import transaction
from ledger.outbox import LEASE_SECONDS, SEND_MARGIN_SECONDS, Claimed, claim_due
from ledger.settlement import NotAccepted, Outcome, record_outcome

# One commit claims this many; more than are sent at once, so that the threads never wait for a claim.
CLAIM_BATCH: Final = 32
# A claim that could not be sent in time is given back; nothing was sent, so it may go at once.
GIVEN_BACK_SECONDS: Final = 1


@dataclass(frozen=True)
class Held:
    """A claim in this process: by which id of the worker, and until when (monotonic seconds) it may still be sent."""

    claimed: Claimed
    worker_id: int
    send_until: float


def run_once(worker: Worker) -> Counts:
    """Sends everything that is due, merchant after merchant in turns, and waits for the answers.

    Counts: claimed, and by outcome confirmed, refused, not_accepted, unknown; taken_over (another worker recorded first),
    not_recorded (the database was away), busy and failed (merchants that could not be claimed from), not_standing (nothing
    may be sent from this database), disputes (found right before sending) and disputes_unread (accounts at which nothing is
    sent, for their disputes cannot be read).
    """
    counts: Counts = Counter()
    if not worker.liveness.alive():
        return counts
    if not worker.may_send():
        return Counter(["not_standing"])
    turns = worker.merchants()
    under_way: set[Future[Counts]] = set()
    try:
        while turns and not worker.stopping.is_set():
            merchant_id = turns.pop(0)
            held = claim(worker, merchant_id, counts)
            if held:
                turns.append(merchant_id)
            under_way |= {worker.in_thread(_send_in_turn, worker, chain) for chain in _by_charge(held)}
            while len(under_way) >= worker.in_flight:
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    counts.update(future.result())
    finally:
        wait(under_way)
    for future in under_way:
        counts.update(future.result())
    return +counts


def claim(worker: Worker, merchant_id: UUID, counts: Counts) -> list[Held]:
    """Claims one batch of a merchant in one transaction, of the accounts whose disputes are known as of now."""
    accounts = fresh_accounts(worker, merchant_id, counts)
    worker_id = worker.liveness.worker_id
    # Taken before the transaction starts, so the lease is never thought longer than it is.
    send_until = time.monotonic() + LEASE_SECONDS - SEND_MARGIN_SECONDS
    if not accounts or not worker_id or worker.switch.on() or not worker.liveness.alive(worker_id):
        return []
    try:
        with transaction(worker.engine, merchant_id) as db:
            claimed = claim_due(db, merchant_id, worker_id, worker.verifier, CLAIM_BATCH, accounts=accounts)
    except BUSY as error:
        counts["busy"] += 1
        log.warning("claim_waits", merchant=str(merchant_id), error=error, code=sqlstate(error))
        return []
    except SQLAlchemyError as error:
        counts["failed"] += 1
        log.error("claim_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
        return []
    counts["claimed"] += len(claimed)
    for one in claimed:
        log.info(
            "claimed",
            merchant=str(merchant_id),
            intent=str(one.intent_id),
            key=one.key,
            attempt=one.attempt_no,
            trace=one.trace,
        )
    if claimed and not worker.keeps_mark_of(claimed[-1]):
        send_until = float("-inf")
    return [Held(one, worker_id, send_until) for one in claimed]


def _by_charge(held: list[Held]) -> list[list[Held]]:
    chains: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        chains[one.claimed.request["charge"]].append(one)
    return list(chains.values())


def _send_in_turn(worker: Worker, chain: list[Held]) -> Counts:
    return Counter(send(worker, held) for held in chain)


def send(worker: Worker, held: Held) -> str:
    """Makes the one call of an attempt and records its answer; returns what it counts as.

    Not sent, and given back, when the lease would end too soon, others may think this worker dead, or a brake was put on
    since the claim, in the database or outside it (S88).
    """
    with tracing.about(held.claimed.trace):
        return _send(worker, held)


def _send(worker: Worker, held: Held) -> str:
    claimed = held.claimed
    with worker.charges.holding(claimed.request["charge"]):
        if time.monotonic() > held.send_until or not worker.liveness.alive(held.worker_id):
            outcome: Outcome = NotAccepted("not_sent", "this worker gave its claim back", GIVEN_BACK_SECONDS)
        elif worker.braked(claimed.merchant_id):
            outcome = NotAccepted("paused", "a brake was put on before it was sent", GIVEN_BACK_SECONDS)
        else:
            outcome = worker.gateway.refund(claimed.request, claimed.key, claimed.attempt_no)
    counted = _record(worker, held, outcome)
    log.info(
        "sent", merchant=str(claimed.merchant_id), intent=str(claimed.intent_id), key=claimed.key, attempt=claimed.attempt_no,
        outcome=counted, code=getattr(outcome, "code", ""), http_status=outcome.http_status, request=outcome.request_ref,
    )  # fmt: skip
    return counted


def _record(worker: Worker, held: Held, outcome: Outcome) -> str:
    try:
        recorded = worker.patiently(_record_once, worker, held, outcome)
    except SQLAlchemyError as error:
        # The answer is lost here and not at the provider: when the lease ends, the look-up finds it.
        log.error(
            "not_recorded",
            intent=str(held.claimed.intent_id),
            key=held.claimed.key,
            attempt=held.claimed.attempt_no,
            error=error,
            code=sqlstate(error),
        )
        return "not_recorded"
    return _NAMES[type(outcome).__name__] if recorded else "taken_over"


_NAMES: Final = {"Confirmed": "confirmed", "Refused": "refused", "NotAccepted": "not_accepted", "Unknown": "unknown"}


def _record_once(worker: Worker, held: Held, outcome: Outcome) -> bool:
    claimed = held.claimed
    with transaction(worker.engine, claimed.merchant_id) as db:
        return record_outcome(
            db, claimed.merchant_id, claimed.intent_id, claimed.attempt_no, held.worker_id, outcome
        )  # fmt: skip
