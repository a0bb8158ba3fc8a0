"""Webhooks are hints: each names a payment, and the payment's refunds are read again at the provider (S66).

What a hint says is never believed. Many hints about one payment cost one read a run. Intents on their way are left to
their own call or look; what stands after payment (a late failure) is only ever noticed here.
"""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import SQLAlchemyError

from jobs.logs import log
from jobs.stripe_gateway import NO_PAYMENT_REF, UNREADABLE_LIST, Account, LookFailed
from jobs.worker import BUSY, Counts, Worker, sqlstate
from ledger.database import first, rows, run, transaction
from ledger.outbox import raise_alarm
from ledger.reconciliation import record_found
from ledger.settlement import SETTLED, ProviderRefund

# Hints read per merchant and run; the rest waits for the next run, seconds later.
HINT_BATCH: Final = 1000
# A hint may arrive before the provider's list shows what it is about; after this it is not waited for any longer.
LISTED_WITHIN: Final = timedelta(minutes=10)

_WAITING: Final = """
    SELECT e.event_ref, e.object_ref, e.received_at,
        coalesce(nullif(e.payment_intent_ref, ''), i.payment_intent_ref, c.payment_intent_ref, '') AS payment
    FROM provider_events e
    LEFT JOIN intents i ON i.merchant_id = e.merchant_id AND i.provider_refund_ref = e.object_ref
    LEFT JOIN captures c ON c.merchant_id = e.merchant_id AND c.charge_ref = e.object_ref
    WHERE e.merchant_id = :m AND e.done_at IS NULL ORDER BY e.received_at LIMIT :most
"""
_ACCOUNT: Final = """
    SELECT a.account_ref AS account, a.credential, a.livemode FROM captures c
    JOIN provider_accounts a ON a.merchant_id = c.merchant_id AND a.provider_account_id = c.provider_account_id
    WHERE c.merchant_id = :m AND c.payment_intent_ref = :payment LIMIT 1
"""


def run_once(worker: Worker) -> Counts:
    """Reads each payment that hints wait for, once. Counts: hints, reads, moved (intents that changed), no_answer."""
    counts: Counts = Counter()
    for merchant_id in worker.merchants():
        if worker.stopping.is_set():
            break
        try:
            with worker.liveness.singleton(merchant_id) as alone:
                if alone:
                    _read_hints(worker, merchant_id, counts)
        except BUSY as error:
            counts["busy"] += 1
            log.warning("inbox_waits", merchant=str(merchant_id), error=error, code=sqlstate(error))
        except SQLAlchemyError as error:
            counts["failed"] += 1
            log.error("inbox_failed", merchant=str(merchant_id), error=error, code=sqlstate(error))
    return +counts


def _read_hints(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id) as db:
        waiting = rows(db, _WAITING, m=merchant_id, most=HINT_BATCH)
    by_payment: dict[str, list[RowMapping]] = defaultdict(list)
    for event in waiting:
        by_payment[event["payment"]].append(event)
    for payment, events in by_payment.items():
        if worker.stopping.is_set():
            return
        with transaction(worker.engine, merchant_id) as db:
            found = first(db, _ACCOUNT, m=merchant_id, payment=payment)
        if found is None:
            counts["hints"] += _done(worker, merchant_id, events, "not_our_payment")
            continue
        counts["reads"] += 1
        try:
            listed = worker.gateway.list_refunds(Account(**found), payment)
        except LookFailed as failure:
            counts["no_answer"] += 1
            log.warning("no_answer", merchant=str(merchant_id), code=failure.code)
            if failure.http_status == 404 or failure.code == NO_PAYMENT_REF:
                counts["hints"] += _done(worker, merchant_id, events, "no_such_payment")
            elif failure.code != UNREADABLE_LIST:
                # Asking about the next payment would fail alike; all of them wait for the next run.
                return
            continue
        counts["moved"] += sum(worker.patiently(_apply_one, worker, merchant_id, refund) for refund in listed)
        counts["hints"] += _done(worker, merchant_id, _answered(events, listed), "read")


def _answered(events: list[RowMapping], listed: list[ProviderRefund]) -> list[RowMapping]:
    """The hints this reading answers: all but those about a refund that the list does not show yet."""
    shown = {refund.refund_ref for refund in listed}
    oldest = datetime.now(UTC) - LISTED_WITHIN
    return [
        event for event in events
        if not event["object_ref"].startswith("re_") or event["object_ref"] in shown or event["received_at"] < oldest
    ]  # fmt: skip


def _apply_one(worker: Worker, merchant_id: UUID, refund: ProviderRefund) -> bool:
    """Brings the intent a refund names to what the provider shows; whether that moved it. Locks as `record_found`."""
    with transaction(worker.engine, merchant_id) as db:
        intent = _intent_of(db, merchant_id, refund)
        if intent is None:
            return False
        state: str = intent["state"]
        shown = SETTLED.get(refund.status)
        if state in ("failed", "withdrawn", "proposed") and shown in ("pending", "succeeded"):
            text = f"R-{intent['number']} is {state}, and the provider shows {refund.refund_ref}, {refund.status}"
            raise_alarm(db, merchant_id, "refund_not_expected", intent["intent_id"], text[:300])
        if state not in ("unknown", "pending", "succeeded"):
            return False
        if state == shown and refund.reference == intent["provider_reference"]:
            return False
        after = record_found(db, merchant_id, intent["intent_id"], refund)
    log.info("hinted", merchant=str(merchant_id), intent=str(intent["intent_id"]), state=after)
    return after != state


def _intent_of(db: Connection, merchant_id: UUID, refund: ProviderRefund) -> RowMapping | None:
    """The intent of this merchant that a refund's metadata names; a refund made elsewhere has none."""
    try:
        intent_id = UUID(refund.intent_id)
    except ValueError:
        return None
    return first(
        db, "SELECT intent_id, number, state, provider_reference FROM intents WHERE merchant_id = :m AND intent_id = :i",
        m=merchant_id, i=intent_id,
    )  # fmt: skip


def _done(worker: Worker, merchant_id: UUID, events: list[RowMapping], result: str) -> int:
    refs: list[Any] = [event["event_ref"] for event in events]
    if not refs:
        return 0
    with transaction(worker.engine, merchant_id) as db:
        return run(
            db, "UPDATE provider_events SET done_at = now(), result = :result WHERE merchant_id = :m"
            " AND event_ref = ANY(:refs) AND done_at IS NULL", result=result, m=merchant_id, refs=refs,
        )  # fmt: skip
