"""Webhooks are hints: each names a payment or a dispute, and that is read again at the provider (S66).

What a hint says is never believed. Many hints about one payment cost one read a run, and a dozen reads a minute at most.
Intents on their way are left to their own call or look; what stands after payment (a late failure) is only ever noticed here.
To read something for another kind of event, add its beginning and its reader to READERS.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from jobs.account_lists import NEWS
from jobs.asking import Asking
from jobs.dispute_freshness import disputes_read
from jobs.each_merchant import each_merchant
from jobs.holds import read_if_told
from jobs.logs import log
from jobs.stripe_gateway import Account, LookFailed
from jobs.worker import Counts, Worker
from ledger.database import first, rows, run, transaction
from ledger.disputes import record_dispute
from ledger.external_refunds import record_external
from ledger.reconciliation import record_found
from ledger.settlement import SETTLED, ProviderRefund

# Hints read per merchant and run; the rest waits for the next run, seconds later.
HINT_BATCH: Final = 1000
# A hint may arrive before the provider's list shows what it is about; after this it is not waited for any longer.
LISTED_WITHIN: Final = timedelta(minutes=10)

# A payment is read again this often at most, whatever is told about it (S66).
READS_A_MINUTE: Final = 12


@dataclass(frozen=True)
class Hints:
    """Hints of one kind about one object: `account` names the provider account, `about` is the payment or the object itself."""

    merchant_id: UUID
    account: RowMapping
    about: str
    events: list[RowMapping]

    @property
    def provider(self) -> Account:
        """Whose key is used to ask."""
        return Account(
            self.account["account"], self.account["credential"], self.account["livemode"], self.account["expected_account"]
        )  # fmt: skip


# Reads at the provider what hints are about, and records it; returns the hints this answers and how many rows moved. Raises
# LookFailed.
Reader = Callable[[Worker, Hints], tuple[list[RowMapping], int]]

_WAITING: Final = """
    SELECT * FROM (SELECT e.event_ref, e.kind, e.object_ref, e.received_at,
        coalesce(nullif(e.payment_intent_ref, ''), i.payment_intent_ref, c.payment_intent_ref, '') AS payment
    FROM provider_events e
    LEFT JOIN intents i ON i.merchant_id = e.merchant_id AND i.provider_refund_ref = e.object_ref
    LEFT JOIN captures c ON c.merchant_id = e.merchant_id AND c.charge_ref = e.object_ref
    WHERE e.merchant_id = :m AND e.done_at IS NULL) w
    WHERE NOT EXISTS (SELECT 1 FROM captures s WHERE s.merchant_id = :m AND s.payment_intent_ref = w.payment
        AND s.provider_account_id = ANY(CAST(:silent AS uuid[])))
    ORDER BY w.received_at LIMIT :most
"""
_ACCOUNT: Final = """
    SELECT a.account_ref AS account, a.credential, a.livemode, a.provider_account_id,
        coalesce(a.expected_account_ref, '') AS expected_account
    FROM captures c
    JOIN provider_accounts a ON a.merchant_id = c.merchant_id AND a.provider_account_id = c.provider_account_id
    WHERE c.merchant_id = :m AND c.payment_intent_ref = :payment LIMIT 1
"""


def run_once(worker: Worker) -> Counts:
    """Reads each payment that hints wait for, once. Counts: hints, reads, moved (rows that changed), no_answer, waits (hints of
    a payment that was read often enough this minute)."""
    return each_merchant(worker, "inbox", _one_merchant)


def _one_merchant(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with worker.liveness.singleton(merchant_id) as alone:
        if alone:
            _read_hints(worker, merchant_id, counts)


def _read_hints(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    asking, silent = Asking(worker, merchant_id, counts), set[UUID]()
    while not worker.stopping.is_set():
        before = set(silent)
        with transaction(worker.engine, merchant_id) as db:
            waiting = rows(db, _WAITING, m=merchant_id, most=HINT_BATCH, silent=list(silent))
        silent |= _read_batch(worker, merchant_id, waiting, asking, counts)
        if len(waiting) < HINT_BATCH or silent == before:
            # The rest waits for the next run, but not behind a full batch of an account that does not answer.
            return


def _read_batch(
    worker: Worker, merchant_id: UUID, waiting: list[RowMapping], asking: Asking, counts: Counts
) -> set[UUID]:
    """Reads what a batch of hints is about; the accounts that did not answer, whose hints wait for the next run."""
    silent: set[UUID] = set()
    hints: dict[tuple[Reader | None, str], list[RowMapping]] = defaultdict(list)
    for event in waiting:
        reader = reader_of(event["kind"])
        hints[reader, event["object_ref"] if reader is read_dispute else event["payment"]].append(event)
    for (reader, about), events in hints.items():
        if worker.stopping.is_set():
            break
        if reader is None:
            counts["hints"] += done(worker, merchant_id, events, "not_about_money_back")
            continue
        with transaction(worker.engine, merchant_id) as db:
            found = first(db, _ACCOUNT, m=merchant_id, payment=events[0]["payment"])
            asks = found is not None and asking.open((reader, found["provider_account_id"]))
            may = asks and may_read(db, merchant_id, events[0]["payment"])
        if found is None:
            counts["hints"] += done(worker, merchant_id, events, "not_our_payment")
            continue
        if may:
            _read(worker, Hints(merchant_id, found, about, events), reader, asking, counts)
        elif asks:
            counts["waits"] += len(events)
        if not asking.open((reader, found["provider_account_id"])):
            silent.add(found["provider_account_id"])
    return silent


def _read(worker: Worker, hints: Hints, reader: Reader, asking: Asking, counts: Counts) -> None:
    """One reading. What cannot be read waits for the next run; what is not there is put aside."""
    # A key may be let to read an account's refunds and not its disputes.
    door = (reader, hints.account["provider_account_id"])
    counts["reads"] += 1
    found = asking.ask(door, partial(reader, worker, hints))
    if isinstance(found, LookFailed):
        if found.not_there:
            counts["hints"] += done(worker, hints.merchant_id, hints.events, "no_such_payment")
        return
    answered, moved = found
    counts["moved"] += moved
    counts["hints"] += done(worker, hints.merchant_id, answered, "read")


def read_payment(worker: Worker, hints: Hints) -> tuple[list[RowMapping], int]:
    """Every refund of the payment: ours are brought to what the provider shows, others are recorded (see `Reader`).

    A payment that holds money which was not taken is read itself first, and one that hints of its own tell of.
    """
    kinds = [event["kind"] for event in hints.events]
    facts = read_if_told(worker, hints.merchant_id, hints.provider, hints.about, kinds)
    listed = worker.gateway.list_refunds(hints.provider, hints.about)
    moved = facts + sum(worker.patiently(_apply_one, worker, hints, refund) for refund in listed)
    return _answered(hints.events, listed), moved


def read_dispute(worker: Worker, hints: Hints) -> tuple[list[RowMapping], int]:
    """The one dispute that the hints name."""
    found = worker.gateway.dispute(hints.provider, hints.about)

    def record() -> str:
        with transaction(worker.engine, hints.merchant_id) as db:
            return record_dispute(db, hints.merchant_id, hints.account["provider_account_id"], found, "hook")

    return hints.events, int(worker.patiently(record) in NEWS)


def read_again(worker: Worker, hints: Hints) -> tuple[list[RowMapping], int]:
    """After a refusal that shows somebody acted elsewhere: the refunds of the payment, and the account's disputes."""
    answered, moved = read_payment(worker, hints)
    read: Counts = Counter()
    disputes_read(worker, hints.merchant_id, hints.account["provider_account_id"], read)
    return answered, moved + read["disputes"]


# The kinds of events that are worth a reading, by how they begin, and what is read. An event of any other kind is put aside.
READERS: Final[dict[str, Reader]] = {
    "onceback.reread": read_again,
    "refund.": read_payment,
    "charge.refund": read_payment,
    "charge.dispute.": read_dispute,
    "charge.": read_payment,
    "payment_intent.": read_payment,
}


def reader_of(kind: str) -> Reader | None:
    """What reads for an event of this kind: the longest beginning that fits decides."""
    fits = [begins for begins in READERS if kind.startswith(begins)]
    return READERS[max(fits, key=len)] if fits else None


_COUNT_READ: Final = """
    INSERT INTO payment_reads AS r (merchant_id, payment_intent_ref) VALUES (:m, :payment)
    ON CONFLICT (merchant_id, payment_intent_ref) DO UPDATE SET
        reads = CASE WHEN r.minute_at > now() - interval '1 minute' THEN r.reads + 1 ELSE 1 END,
        minute_at = CASE WHEN r.minute_at > now() - interval '1 minute' THEN r.minute_at ELSE now() END
    WHERE r.minute_at <= now() - interval '1 minute' OR r.reads < :most
"""


def may_read(db: Connection, merchant_id: UUID, payment: str) -> bool:
    """Counts a reading of a payment against this minute's; False when there were enough, and its hints wait."""
    return run(db, _COUNT_READ, m=merchant_id, payment=payment, most=READS_A_MINUTE) == 1


def _answered(events: list[RowMapping], listed: list[ProviderRefund]) -> list[RowMapping]:
    """The hints this reading answers: all but those about a refund that the list does not show yet."""
    shown = {refund.refund_ref for refund in listed}
    oldest = datetime.now(UTC) - LISTED_WITHIN
    return [
        event for event in events
        if not event["object_ref"].startswith("re_") or event["object_ref"] in shown or event["received_at"] < oldest
    ]  # fmt: skip


def _apply_one(worker: Worker, hints: Hints, refund: ProviderRefund) -> bool:
    """Brings the intent a refund names to what the provider shows, or records one that is not ours; whether that moved
    anything. Locks as `record_found` or `record_external`."""
    merchant_id = hints.merchant_id
    with transaction(worker.engine, merchant_id) as db:
        account_id = hints.account["provider_account_id"]
        result = record_external(db, merchant_id, account_id, refund, "hook", worker.verifier)
        if result != "ours":
            return result in NEWS
        intent = first(db, _INTENT, m=merchant_id, r=refund.refund_ref, mark=refund.intent_id)
        if intent is None or intent["state"] not in ("unknown", "pending", "succeeded"):
            return False
        state: str = intent["state"]
        if state == SETTLED.get(refund.status) and refund.reference == intent["provider_reference"]:
            return False
        after = record_found(db, merchant_id, intent["intent_id"], refund)
    log.info(
        "hinted", merchant=str(merchant_id), intent=str(intent["intent_id"]), key=intent["provider_key"], state=after,
        trace=intent["trace"],
    )  # fmt: skip
    return after != state


# By the reference first: two people may have said of a refund without our mark that it is an intent's.
_INTENT: Final = """
    SELECT i.intent_id, i.state, i.provider_reference, i.provider_key, coalesce(o.trace, '') AS trace FROM intents i
    LEFT JOIN outbox o ON o.merchant_id = i.merchant_id AND o.intent_id = i.intent_id
    WHERE i.merchant_id = :m AND (i.provider_refund_ref = :r OR (i.provider_refund_ref IS NULL AND i.intent_id::text = :mark))
    ORDER BY i.provider_refund_ref NULLS LAST LIMIT 1
"""


def done(worker: Worker, merchant_id: UUID, events: list[RowMapping], result: str) -> int:
    """Marks hints as answered, with what came of them; how many."""
    refs: list[Any] = [event["event_ref"] for event in events]
    if not refs:
        return 0
    with transaction(worker.engine, merchant_id) as db:
        return run(
            db, "UPDATE provider_events SET done_at = now(), result = :result WHERE merchant_id = :m"
            " AND event_ref = ANY(:refs) AND done_at IS NULL", result=result, m=merchant_id, refs=refs,
        )  # fmt: skip
