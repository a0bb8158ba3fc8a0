"""Looks at the provider for what is not known and what is not final (P10).

Attempts of workers that died become `unknown`. An unknown intent whose refund the provider lists is adopted; one that it
does not list after its consistency window is sent again under the same key, inside the key's safe age; else a person has
it. An answer that is no list proves nothing.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar
from uuid import UUID

from jobs.asking import say_refused
from jobs.dispute_freshness import fresh_for
from jobs.each_merchant import each_merchant
from jobs.logs import log
from jobs.recorder import Held
from jobs.stripe_gateway import LookFailed, NoSuchRefund, TwoRefunds, ours_of
from jobs.submitter import send
from jobs.worker import Counts, Worker
from ledger import tracing
from ledger.database import transaction
from ledger.outbox import LEASE_SECONDS, SEND_MARGIN_SECONDS, take_over_orphans
from ledger.reconciliation import (
    Look,
    WholeList,
    record_absent,
    record_for_people,
    record_found,
    record_no_answer,
    record_two,
    take_looks,
)
from ledger.settlement import ProviderRefund

R = TypeVar("R")

# One short lease covers a batch, and a look is a list page or two: this many fit in it even when each takes seconds.
LOOK_BATCH: Final = 100


def run_once(worker: Worker) -> Counts:
    """Takes over what dead workers left, then makes every look that is due.

    Counts: orphans, looks, and of the looks found, absent, no_answer, two_refunds, listed (for people); settled and void, of what
    two people said; resent and by outcome what came of it.
    """
    if not worker.may_send():
        return Counter(["not_standing"])
    return each_merchant(worker, "look", _reconcile, alive=True)


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
    """Asks the provider about one intent and records what it shows; sends again when absence is proven, and carries out what two
    people settled.

    Returns what happened, for the counts.
    """
    with tracing.about(one.trace):
        return _look(worker, one)


def _look(worker: Worker, one: Look) -> list[str]:
    began = time.monotonic()
    try:
        seen = _ask(worker, one)
    except LookFailed as failure:
        return [worker.patiently(_record_failed_look, worker, one, failure)]
    # The list is as old as the call took: what the database measures from has to be that much older.
    window = worker.consistency_seconds + math.ceil(time.monotonic() - began)
    if one.state == "needs_review":
        done: str = worker.patiently(_in_transaction, worker, one, record_for_people, seen.whole, window)
        log.info("listed", merchant=str(one.merchant_id), intent=str(one.intent_id), key=one.key, state=done)
        return ["listed"] if done in ("waits", "gone") else ["listed", done]
    if seen.two:
        worker.patiently(_in_transaction, worker, one, record_two, seen.whole)
        return ["two_refunds"]
    if seen.refund is not None:
        state = worker.patiently(_in_transaction, worker, one, record_found, seen.refund, seen.whole)
        log.info("found", merchant=str(one.merchant_id), intent=str(one.intent_id), key=one.key, state=state)
        return ["found"]
    return _absent(worker, one, window, seen.whole)


def _absent(worker: Worker, one: Look, window: int, whole: WholeList | None) -> list[str]:
    send_until = time.monotonic() + LEASE_SECONDS - SEND_MARGIN_SECONDS
    worker_id = worker.liveness.worker_id
    if not worker_id:
        return ["absent"]
    if not fresh_for(worker, one.merchant_id, one.intent_id):
        # It may be sent again below, and nothing is sent without knowing the disputes.
        return [worker.patiently(_record_failed_look, worker, one, LookFailed("disputes_unread"))]
    claimed = worker.patiently(
        _in_transaction, worker, one, record_absent, worker_id, worker.verifier, window, whole
    )  # fmt: skip
    if claimed is None:
        return ["absent"]
    if not worker.keeps_mark_of(claimed):
        send_until = -1
    return ["absent", "resent", send(worker, Held(claimed, worker_id, send_until))]


@dataclass(frozen=True)
class Seen:
    """What the provider showed: our refund, if it is there, and the list it was looked for on, when one was read."""

    refund: ProviderRefund | None
    whole: WholeList | None
    two: bool = False


def _ask(worker: Worker, one: Look) -> Seen:
    """By its id where that is known; else, or when it is not there any more, and always for people, by the whole list.

    A cancel is looked for by the state of its payment.
    """
    if one.refund_ref is not None and one.state != "needs_review" and one.act != "cancel_payment":
        try:
            return Seen(worker.gateway.retrieve(one, one.refund_ref), None)
        except NoSuchRefund:
            log.warning("refund_not_found", merchant=str(one.merchant_id), intent=str(one.intent_id), key=one.key)
    asked_at = one.asked_at or datetime.now(UTC)
    if one.act == "cancel_payment":
        # What became of a cancel is the state of its payment; people see that as the one row of the list.
        found = worker.gateway.find(one)
        return Seen(found, WholeList([found] if found else [], asked_at))
    listed = worker.gateway.list_refunds(one, one.payment_intent_ref)
    whole = WholeList(listed, asked_at)
    try:
        return Seen(ours_of(listed, one.intent_id), whole)
    except TwoRefunds:
        return Seen(None, whole, two=True)


def _in_transaction(worker: Worker, one: Look, record: Callable[..., R], *what: object) -> R:
    with transaction(worker.engine, one.merchant_id) as db:
        return record(db, one.merchant_id, one.intent_id, *what)


def _record_failed_look(worker: Worker, one: Look, failure: LookFailed) -> str:
    """Nothing is proven. A refused credential is said aloud."""
    with transaction(worker.engine, one.merchant_id) as db:
        say_refused(db, one.merchant_id, failure)
        record_no_answer(db, one.merchant_id, one.intent_id, failure.code)
    log.warning("no_answer", merchant=str(one.merchant_id), intent=str(one.intent_id), key=one.key, code=failure.code)
    return "no_answer"
