"""Sends what is due: claim and commit, call, record and commit.

A crash before the claim commits leaves the intent approved; after it, an attempt without a result that others look up the
moment this worker's lock is gone. The answer to a call is handed to the recorder the moment it is there.
"""

import time
from collections import Counter, defaultdict
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.busy import BUSY, sqlstate
from jobs.dispute_freshness import fresh_accounts
from jobs.logs import log
from jobs.recorder import Held
from jobs.worker import Counts, Worker
from ledger import tracing
from ledger.database import transaction
from ledger.due import merchants_with_due
from ledger.outbox import LEASE_SECONDS, SEND_MARGIN_SECONDS, claim_due
from ledger.settlement import NotAccepted, Outcome

# One commit claims this many; more than are sent at once, so that the threads never wait for a claim.
CLAIM_BATCH: Final = 32
# A claim that could not be sent in time is given back; nothing was sent, so it may go at once.
GIVEN_BACK_SECONDS: Final = 1


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
    turns = merchants_with_due(worker.engine, worker.merchants())
    calls: set[Future[list[Future[str]]]] = set()
    answers: list[Future[str]] = []
    try:
        while turns and not worker.stopping.is_set():
            merchant_id = turns.pop(0)
            held = claim(worker, merchant_id, counts)
            if held:
                turns.append(merchant_id)
            calls |= {worker.in_thread(_send_in_turn, worker, chain) for chain in _by_charge(held)}
            while len(calls) >= worker.in_flight:
                done, calls = wait(calls, return_when=FIRST_COMPLETED)
                answers += [answer for call in done for answer in call.result()]
            counts.update(answer.result() for answer in answers if answer.done())
            answers = [answer for answer in answers if not answer.done()]
    finally:
        wait(calls)
    answers += [answer for call in calls for answer in call.result()]
    counts.update(answer.result() for answer in answers)
    return +counts


def claim(worker: Worker, merchant_id: UUID, counts: Counts) -> list[Held]:
    """Claims one batch of a merchant in one transaction, of the accounts whose disputes are known as of now."""
    accounts = [] if worker.switch.on() else fresh_accounts(worker, merchant_id, counts)
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
        send_until = -1
    return [Held(one, worker_id, send_until) for one in claimed]


def _by_charge(held: list[Held]) -> list[list[Held]]:
    chains: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        chains[one.claimed.request["charge"]].append(one)
    return list(chains.values())


def _send_in_turn(worker: Worker, chain: list[Held]) -> list[Future[str]]:
    return [hand_over(worker, held) for held in chain]


def send(worker: Worker, held: Held) -> str:
    """Makes the one call of an attempt and records its answer; returns what it counts as.

    Not sent, and given back, when the lease would end too soon, others may think this worker dead, or a brake was put on
    since the claim, in the database or outside it (S88).
    """
    return hand_over(worker, held).result()


def hand_over(worker: Worker, held: Held) -> Future[str]:
    """Makes the one call of an attempt and gives its answer to the recorder; the future says what it counts as."""
    with tracing.about(held.claimed.trace):
        return worker.recorder.give(held, _call(worker, held))


def _call(worker: Worker, held: Held) -> Outcome:
    claimed = held.claimed
    with worker.charges.holding(claimed.request["charge"]):
        if time.monotonic() > held.send_until or not worker.liveness.alive(held.worker_id):
            return NotAccepted("not_sent", "this worker gave its claim back", GIVEN_BACK_SECONDS)
        if worker.braked(claimed.merchant_id):
            return NotAccepted("paused", "a brake was put on before it was sent", GIVEN_BACK_SECONDS)
        return worker.gateway.refund(claimed.request, claimed.key, claimed.attempt_no)
