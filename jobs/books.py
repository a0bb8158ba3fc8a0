"""Compares the books with the provider: the night's runs, and those that were asked for (ledger.reconciliation_run).

A page is read outside any transaction and stored in one. What a page needs to know of single refunds is asked next, and the
page is stored then: an intent of ours that is behind is brought on by the reconciler's own reading, never written here.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.logs import log
from jobs.stripe_gateway import LookFailed, NoSuchRefund
from jobs.stripe_lists import Page
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.database import scalar, transaction
from ledger.external_refunds import record_external
from ledger.outbox import raise_alarm
from ledger.reconciliation import record_found
from ledger.reconciliation_compare import Movement, ShownRefund
from ledger.reconciliation_ours import store_ours
from ledger.reconciliation_pages import Answer, Ask, AskFirst, store_movements, store_refunds
from ledger.reconciliation_run import (
    Overtaken,
    Place,
    Run,
    finish,
    give_back,
    let_wait,
    next_place,
    schedule_tonight,
    take_run,
)
from ledger.settlement import SETTLED

# A page that asks again after its answers found something new meanwhile; more rounds than this are a mistake of ours.
_ROUNDS: Final = 20

Told = Callable[[Run], None]


class GaveUp(RuntimeError):
    """A page asks for the same answers without end."""


def run_once(worker: Worker) -> Counts:
    """Queues the night's runs where it is night, then works every run that no other worker holds.

    Counts: queued, pages, runs (finished), no_answer.
    """
    counts: Counts = Counter()
    for merchant_id in worker.merchants():
        if worker.stopping.is_set() or not worker.liveness.alive():
            break
        try:
            with transaction(worker.engine, merchant_id) as db:
                counts["queued"] += schedule_tonight(db, merchant_id)
            work_runs(worker, merchant_id, counts)
        except BUSY as error:
            counts["busy"] += 1
            log.warning("books_wait", merchant=str(merchant_id), error=error, code=sqlstate(error))
        except SQLAlchemyError as error:
            counts["failed"] += 1
            log.error("books_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    return +counts


def work_runs(
    worker: Worker, merchant_id: UUID, counts: Counts, run_id: UUID | None = None, told: Told = lambda _run: None
) -> None:
    """Takes one run after another (or `run_id` only) and reads it to its end; `told` is called after each page."""
    while not worker.stopping.is_set():
        with transaction(worker.engine, merchant_id) as db:
            held = take_run(db, merchant_id, worker.liveness.worker_id, run_id)
        if held is None:
            return
        try:
            _work(worker, held, counts, told)
        except Overtaken:
            log.info("run_overtaken", merchant=str(merchant_id))
        except LookFailed as failure:
            counts["no_answer"] += 1
            worker.patiently(_wait, worker, held, failure)
        if run_id is not None:
            return


def _work(worker: Worker, held: Run, counts: Counts, told: Told) -> None:
    while not worker.stopping.is_set():
        with transaction(worker.engine, held.merchant_id) as db:
            place = next_place(db, held)
            if place is None:
                counts["runs"] += finish(db, held)
                return
        turn(worker, held, place)
        counts["pages"] += 1
        told(held)
    with transaction(worker.engine, held.merchant_id) as db:
        give_back(db, held)


def turn(worker: Worker, held: Run, place: Place) -> None:
    """Reads one page of a side and stores it with all that it leads to. Raises Overtaken, LookFailed."""
    store = _reader(worker, held, place)
    answers: dict[str, Answer] = {}
    for _ in range(_ROUNDS):
        try:
            worker.patiently(store, answers)
        except AskFirst as first:
            answers |= {one.refund_ref: ask(worker, held, one) for one in first.asks}
        else:
            return
    raise GaveUp


def _reader(worker: Worker, held: Run, place: Place) -> Callable[[dict[str, Answer]], None]:
    """What stores the page at `place`, which has been read now."""
    gateway, since, until, after = worker.gateway, held.from_at, held.to_at, place.cursor
    if place.side == "ours":
        return lambda answers: _store_ours(worker, held, place, answers)
    if place.side == "refunds":
        refunds = gateway.refunds_page(held, since, until, after)
        return lambda answers: _store_refunds(worker, held, place, refunds, answers)
    moved = gateway.movements_page(held, place.side, since, until, after)
    return lambda answers: _store_movements(worker, held, place, moved, answers)


def _store_ours(worker: Worker, held: Run, place: Place, answers: dict[str, Answer]) -> None:
    with transaction(worker.engine, held.merchant_id) as db:
        store_ours(db, held, place, answers=answers)


def _store_refunds(
    worker: Worker, held: Run, place: Place, page: Page[ShownRefund], answers: dict[str, Answer]
) -> None:
    with transaction(worker.engine, held.merchant_id) as db:
        store_refunds(db, held, place, page.rows, done=page.last, answers=answers)


def _store_movements(worker: Worker, held: Run, place: Place, page: Page[Movement], answers: dict[str, Answer]) -> None:
    with transaction(worker.engine, held.merchant_id) as db:
        store_movements(db, held, place, page.rows, done=page.last, answers=answers)


def ask(worker: Worker, held: Run, one: Ask) -> Answer:
    """Reads a refund again and, when it is of an intent of ours, brings that to it the usual way. Raises LookFailed."""
    shown = _shown(worker, held, one)
    moved = worker.gateway.movements_of(held, shown.refund.refund_ref) if one.movements and shown else []
    if one.intent_id is None:
        written = shown is not None and worker.patiently(_write_down, worker, held, shown)
        return Answer(shown, moved, after="outside" if written else "", kind=one.kind)
    before, after = worker.patiently(_bring_on, worker, held, one.intent_id, shown)
    return Answer(shown, moved, before, after, one.kind)


def _write_down(worker: Worker, held: Run, shown: ShownRefund) -> bool:
    """Hands a refund that is not in the books to whoever keeps those made outside; whether that wrote it."""
    with transaction(worker.engine, held.merchant_id) as db:
        account = held.provider_account_id
        return record_external(db, held.merchant_id, account, shown.refund, "poll", worker.verifier) in (
            "new",
            "changed",
        )


def _shown(worker: Worker, held: Run, one: Ask) -> ShownRefund | None:
    try:
        if not one.refund_ref.startswith("intent:"):
            return worker.gateway.shown(held, one.refund_ref)
        listed = worker.gateway.list_refunds(held, one.payment_intent_ref)
        ours = next((refund for refund in listed if refund.intent_id == str(one.intent_id)), None)
        return worker.gateway.shown(held, ours.refund_ref) if ours else None
    except NoSuchRefund:
        return None


_STATE: Final = "SELECT state FROM intents WHERE merchant_id = :m AND intent_id = :i"


def _bring_on(worker: Worker, held: Run, intent_id: UUID, shown: ShownRefund | None) -> tuple[str, str]:
    """The intent's states around the reading. Locks as `record_found`; a refund the provider does not show moves nothing."""
    with transaction(worker.engine, held.merchant_id) as db:
        before = str(scalar(db, _STATE, m=held.merchant_id, i=intent_id))
        if shown is None or before not in ("unknown", "pending", "succeeded"):
            return before, before
        if shown.refund.intent_id != str(intent_id) or SETTLED.get(shown.refund.status) == before:
            return before, before
        after = record_found(db, held.merchant_id, intent_id, shown.refund)
    log.info("books_brought_on", merchant=str(held.merchant_id), intent=str(intent_id), state=after)
    return before, after


def _wait(worker: Worker, held: Run, failure: LookFailed) -> None:
    """Nothing is concluded from an answer that is none; a refused credential is said aloud."""
    with transaction(worker.engine, held.merchant_id) as db:
        if failure.http_status in (401, 403) or failure.code in ("no_credential", "credential_of_other_mode"):
            text = f"The provider cannot be asked: {failure.code}"
            raise_alarm(db, held.merchant_id, "look_refused", None, text)
        let_wait(db, held, failure.code)
    log.warning("no_answer", merchant=str(held.merchant_id), code=failure.code)
