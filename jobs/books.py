"""Compares the books with the provider: the night's runs, and those that were asked for (ledger.reconciliation_run).

A page is read outside any transaction and stored in one. What a page needs to know of single refunds is asked next, and the
page is stored then: an intent of ours that is behind is brought on by the reconciler's own reading, never written here.
"""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from jobs.asking import say_refused
from jobs.each_merchant import each_merchant
from jobs.logs import log
from jobs.stripe_gateway import LookFailed, NoCredential, NoSuchRefund
from jobs.worker import Counts, Worker
from ledger.database import scalar, transaction
from ledger.disputes import ProviderDispute, record_dispute
from ledger.external_refunds import record_external
from ledger.hops import hop
from ledger.reconciliation import record_found
from ledger.reconciliation_compare import ShownRefund
from ledger.reconciliation_disputes import store_disputes, store_our_disputes
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
    return each_merchant(worker, "books", _one_merchant, alive=True)


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id) as db:
        counts["queued"] += schedule_tonight(db, merchant_id)
    work_runs(worker, merchant_id, counts)


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
    match place.side:
        case "ours":
            return _storing(worker, held, lambda db, answers: store_ours(db, held, place, answers=answers))
        case "our_disputes":
            return _storing(worker, held, lambda db, answers: store_our_disputes(db, held, place, answers=answers))
        case "disputes":
            disputes = gateway.disputes_page(held, since, until, after)
            return _storing(
                worker, held, lambda db, answers: store_disputes(db, held, place, disputes, answers=answers)
            )
        case "refunds":
            refunds = gateway.refunds_page(held, since, until, after)
            return _storing(worker, held, lambda db, answers: store_refunds(db, held, place, refunds, answers=answers))
    moved = gateway.movements_page(held, place.side, since, until, after)
    return _storing(worker, held, lambda db, answers: store_movements(db, held, place, moved, answers=answers))


def _storing(
    worker: Worker, held: Run, store: Callable[[Connection, dict[str, Answer]], object]
) -> Callable[[dict[str, Answer]], None]:
    """The page's one transaction."""

    def stored(answers: dict[str, Answer]) -> None:
        with transaction(worker.engine, held.merchant_id) as db:
            store(db, answers)

    return stored


# A door that is closed to us, or too narrow just now, says nothing about one refund.
_OF_THE_ACCOUNT: Final = (401, 403, 429)


def ask(worker: Worker, held: Run, one: Ask) -> Answer:
    """Reads a refund or dispute again and brings ours to it the usual way. What cannot be read twice, while the account can,
    is answered as `unread`: one payment holds up no run. Raises LookFailed when the account cannot be read."""
    try:
        return _ask(worker, held, one)
    except LookFailed as failure:
        _require_account(worker, held, failure)
    try:
        return _ask(worker, held, one)
    except LookFailed as failure:
        _require_account(worker, held, failure)
        log.warning("not_readable", merchant=str(held.merchant_id), refund=one.refund_ref, code=failure.code)
        return Answer(None, unread=failure.code, kind=one.kind)


def _require_account(worker: Worker, held: Run, failure: LookFailed) -> None:
    """Returns when the failure is of the one that was asked about. Raises LookFailed when the account does not answer either."""
    if failure.http_status in _OF_THE_ACCOUNT or isinstance(failure, NoCredential):
        raise failure
    worker.gateway.refunds_page(held, held.from_at, held.to_at, "")


def _ask(worker: Worker, held: Run, one: Ask) -> Answer:
    if one.about == "dispute":
        return _ask_dispute(worker, held, one)
    shown = _shown(worker, held, one)
    moved = worker.gateway.movements_of(held, shown.refund.refund_ref) if one.movements and shown else []
    if one.intent_id is None:
        written = shown is not None and worker.patiently(_write_down, worker, held, shown)
        return Answer(shown, moved, after="outside" if written else "", kind=one.kind)
    before, after = worker.patiently(_bring_on, worker, held, one.intent_id, shown)
    return Answer(shown, moved, before, after, one.kind)


def _ask_dispute(worker: Worker, held: Run, one: Ask) -> Answer:
    try:
        found = worker.gateway.dispute(held, one.refund_ref)
    except NoSuchRefund:
        return Answer(None, kind=one.kind)
    before, after = worker.patiently(_record_dispute, worker, held, found)
    return Answer(None, (), before, after, one.kind, found)


def _record_dispute(worker: Worker, held: Run, found: ProviderDispute) -> tuple[str, str]:
    """Our states around the recording, "" while it is not in the books. Locks as `record_dispute`."""
    with transaction(worker.engine, held.merchant_id) as db:
        before = scalar(db, _DISPUTE_STATE, m=held.merchant_id, d=found.dispute_ref) or ""
        record_dispute(db, held.merchant_id, held.provider_account_id, found, "look")
        return before, scalar(db, _DISPUTE_STATE, m=held.merchant_id, d=found.dispute_ref) or ""


_DISPUTE_STATE: Final = "SELECT status FROM disputes WHERE merchant_id = :m AND dispute_ref = :d"


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
        about = hop(db, held.merchant_id, intent_id)
    log.info("books_brought_on", merchant=str(held.merchant_id), state=after, **about)
    return before, after


def _wait(worker: Worker, held: Run, failure: LookFailed) -> None:
    """Nothing is concluded from an answer that is none; a refused credential is said aloud."""
    with transaction(worker.engine, held.merchant_id) as db:
        say_refused(db, held.merchant_id, failure)
        let_wait(db, held, failure.code)
    log.warning("no_answer", merchant=str(held.merchant_id), code=failure.code)
