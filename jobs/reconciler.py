"""Looks at the provider for what is not known and what is not final (P10).

Attempts of workers that died become `unknown`. An unknown intent whose refund the provider lists is adopted; one that it
does not list after its consistency window is sent again under the same key, inside the key's safe age; else a person has
it. An answer that is no list proves nothing.
"""

import math
import time
from collections import Counter
from concurrent.futures import Future, wait
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.logs import log
from jobs.recorder import Held
from jobs.stripe_gateway import LookFailed, NoCredential, NoSuchRefund, TwoRefunds
from jobs.submitter import send
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger import tracing
from ledger.database import transaction
from ledger.events import lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.outbox import LEASE_SECONDS, SEND_MARGIN_SECONDS, Claimed, give_to_person, raise_alarm, take_over_orphans
from ledger.reconciliation import Look, record_absent, record_found, record_no_answer, take_looks
from ledger.settlement import ProviderRefund

# One short lease covers a batch, and a look is a list page or two: this many fit in it even when each takes seconds.
LOOK_BATCH: Final = 100


def run_once(worker: Worker) -> Counts:
    """Takes over what dead workers left, then makes every look that is due.

    Counts: orphans, looks, and of the looks found, absent, no_answer, two_refunds; resent and by outcome what came of it.
    """
    counts: Counts = Counter()
    if not worker.may_send():
        return Counter(["not_standing"])
    for merchant_id in worker.merchants():
        if worker.stopping.is_set() or not worker.liveness.alive():
            break
        try:
            _reconcile(worker, merchant_id, counts)
        except BUSY as error:
            counts["busy"] += 1
            log.warning("look_waits", merchant=str(merchant_id), error=error, code=sqlstate(error))
        except SQLAlchemyError as error:
            counts["failed"] += 1
            log.error("look_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    return +counts


def _reconcile(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id) as db:
        counts["orphans"] += take_over_orphans(db, merchant_id, worker.liveness.worker_id)
    while not worker.stopping.is_set():
        with transaction(worker.engine, merchant_id) as db:
            due = take_looks(db, merchant_id, LOOK_BATCH)
        if not due:
            return
        counts["looks"] += len(due)
        under_way: list[Future[list[str]]] = [worker.in_thread(look, worker, one) for one in due]
        wait(under_way)
        for future in under_way:
            counts.update(future.result())


def look(worker: Worker, one: Look) -> list[str]:
    """Asks the provider about one intent and records what it shows; sends again when absence is proven.

    Returns what happened, for the counts.
    """
    with tracing.about(one.trace):
        return _look(worker, one)


def _look(worker: Worker, one: Look) -> list[str]:
    began = time.monotonic()
    try:
        refund = _ask(worker, one)
    except LookFailed as failure:
        return [worker.patiently(_record_failed_look, worker, one, failure)]
    if refund is not None:
        state = worker.patiently(_record_found, worker, one, refund)
        log.info("found", merchant=str(one.merchant_id), intent=str(one.intent_id), key=one.key, state=state)
        return ["found"]
    send_until = time.monotonic() + LEASE_SECONDS - SEND_MARGIN_SECONDS
    worker_id = worker.liveness.worker_id
    if not worker_id:
        return ["absent"]
    # The list is as old as the call took: what the database measures from has to be that much older.
    window = worker.consistency_seconds + math.ceil(time.monotonic() - began)
    claimed = worker.patiently(_record_absent, worker, one, worker_id, window)
    if claimed is None:
        return ["absent"]
    if not worker.keeps_mark_of(claimed):
        send_until = float("-inf")
    return ["absent", "resent", send(worker, Held(claimed, worker_id, send_until))]


def _ask(worker: Worker, one: Look) -> ProviderRefund | None:
    if one.refund_ref is not None:
        try:
            return worker.gateway.retrieve(one, one.refund_ref)
        except NoSuchRefund:
            log.warning("refund_not_found", merchant=str(one.merchant_id), intent=str(one.intent_id), key=one.key)
    return worker.gateway.find(one)


def _record_found(worker: Worker, one: Look, refund: ProviderRefund) -> str:
    with transaction(worker.engine, one.merchant_id) as db:
        return record_found(db, one.merchant_id, one.intent_id, refund)


def _record_absent(worker: Worker, one: Look, worker_id: int, window: int) -> Claimed | None:
    with transaction(worker.engine, one.merchant_id) as db:
        return record_absent(db, one.merchant_id, one.intent_id, worker_id, worker.verifier, window)


def _record_failed_look(worker: Worker, one: Look, failure: LookFailed) -> str:
    """Nothing is proven. A refused credential and two refunds of one intent are said aloud; the latter is a person's."""
    with transaction(worker.engine, one.merchant_id) as db:
        if isinstance(failure, TwoRefunds):
            case = lock_case_of_intent(db, one.merchant_id, one.intent_id)
            intent = read_intent(db, one.merchant_id, one.intent_id, lock=True)
            if intent is not None and intent["state"] in ("unknown", "pending"):
                text = f"R-{intent['number']}: the provider shows two refunds of it"
                raise_alarm(db, one.merchant_id, failure.code, one.intent_id, text)
                give_to_person(db, case, intent, failure.code)
            return failure.code
        if isinstance(failure, NoCredential) or failure.http_status in (401, 403):
            text = f"The provider cannot be asked: {failure.code}"
            raise_alarm(db, one.merchant_id, "look_refused", None, text)
        record_no_answer(db, one.merchant_id, one.intent_id, failure.code)
    log.warning("no_answer", merchant=str(one.merchant_id), intent=str(one.intent_id), key=one.key, code=failure.code)
    return "no_answer"
