"""Approved work that is due: claimed and committed before the call, so a crash leaves a row that says what was going on.

A worker claims inside one merchant: the case rows of due intents are taken with SKIP LOCKED, each intent is verified again
from live rows (P6), an attempt is written, and the intent is `submitting` when the transaction commits. Only then may the
caller send the frozen request, under the intent's one key.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.approvals import Live, fault_before_send, hold, read_live
from ledger.brakes import find_brakes
from ledger.database import rows, run, run_later, scalar, together
from ledger.events import (
    LOCKED_CASE,
    LockedCase,
    append,
    append_all,
    lock_case,
    locked_case,
    next_event,
    stage_after,
)
from ledger.fingerprint import read_intent
from ledger.hops import hop
from ledger.ids import uuid7
from ledger.log_fields import log
from ledger.seals import SealVerifier

# A lease is the backstop for a worker that hangs; one that died is noticed at once by its advisory lock. It is longer than
# any call can take (5 s to connect, 30 s to read), so a slow call is never taken over.
LEASE_SECONDS: Final = 120
# Sending stops this long before the lease ends, so that no call is under way when another worker takes over.
SEND_MARGIN_SECONDS: Final = 60
# Stripe keeps a key for at least 24 h; after that the same key would refund again. An hour is kept in hand for clocks.
KEY_SAFE_HOURS: Final = 23


@dataclass(frozen=True)
class Claimed:
    """One attempt this worker may make: send `request` under `key`, then record the outcome as `attempt_no`."""

    merchant_id: UUID
    intent_id: UUID
    attempt_no: int
    key: str
    request: dict[str, Any]
    trace: str
    lease_until: datetime


# What is joined to the locked case is as old as the statement: `attempts` tells whether another worker was here since. The
# case's own columns are as new as its lock.
_DUE: Final = """
    SELECT {columns}, i.intent_id, o.attempts FROM outbox o
    JOIN intents i ON i.merchant_id = o.merchant_id AND i.intent_id = o.intent_id
    JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    WHERE o.merchant_id = :m AND o.done_at IS NULL AND o.due_at <= now() AND i.act <> 'manual' AND (
        i.state = 'approved' OR (i.state = 'submitting' AND EXISTS (
            SELECT 1 FROM attempt_results r WHERE r.merchant_id = o.merchant_id AND r.intent_id = o.intent_id
                AND r.attempt_no = o.attempts AND r.outcome = 'not_accepted')))
        AND (CAST(:accounts AS uuid[]) IS NULL OR i.provider_account_id = ANY(CAST(:accounts AS uuid[])))
    ORDER BY o.due_at, o.intent_id LIMIT :batch
    FOR NO KEY UPDATE OF c SKIP LOCKED
""".replace("{columns}", LOCKED_CASE)


def claim_due(
    db: Connection,
    merchant_id: UUID,
    worker_id: int,
    verifier: SealVerifier,
    batch: int,
    *,
    accounts: list[UUID] | None = None,
) -> list[Claimed]:
    """Claims up to `batch` due intents of one merchant; the caller commits, then sends.

    `accounts`: only refunds at these accounts of the provider, whose disputes the caller has just read; None for all.

    Nothing is claimed while the merchant is paused or stopped (read inside this transaction). In shadow mode what would be
    claimed is verified, recorded and held instead, and what was tried before waits. An intent that fails the
    check before send becomes `held` with an alarm instead; one whose key is past its safe age is never sent.
    Locks cases (skipping those taken), then their intents.
    """
    brakes = find_brakes(db, merchant_id)
    if brakes is None or not brakes.moves:
        return []
    found = [dict(row) for row in rows(db, _DUE, m=merchant_id, batch=batch, accounts=accounts)]
    if not found:
        return []
    attempts = {row.pop("intent_id"): row.pop("attempts") for row in found}
    cases = {row["case_id"]: locked_case(row) for row in found}
    live = read_live(db, merchant_id, list(attempts))
    if brakes.shadow_at is not None:
        for one in live.values():
            if one.intent["state"] == "approved":
                _keep_in_shadow(db, cases[one.intent["case_id"]], one, verifier)
        return []
    begun = _Begun(db, merchant_id, worker_id)
    with together(db):
        tried = [
            _start(db, cases[one.intent["case_id"]], one, begun, verifier)
            for one in (live[intent_id] for intent_id in attempts if intent_id in live)
            if one.intent["state"] in ("approved", "submitting") and _as_found(one, attempts)
        ]
        begun.write()
    return [attempt for attempt in tried if attempt is not None]


@dataclass
class _Begun:
    """Attempts that were verified, written down together: three statements, however many they are."""

    db: Connection
    merchant_id: UUID
    worker_id: int
    attempts: list[Claimed] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def write(self) -> None:
        """Writes and forgets what was added. Called too before another event is added to a case of them."""
        if self.attempts:
            ids, numbers = [one.intent_id for one in self.attempts], [one.attempt_no for one in self.attempts]
            keys = {"m": self.merchant_id, "ids": ids, "ns": numbers, "l": self.attempts[0].lease_until}
            run_later(self.db, _ATTEMPTS, w=self.worker_id, **keys)
            run_later(self.db, _LEASED, **keys)
            append_all(self.db, self.merchant_id, self.events)
            self.attempts.clear()
            self.events.clear()


def _keep_in_shadow(db: Connection, case: LockedCase, live: Live, verifier: SealVerifier) -> None:
    """Records what would have been sent now, after every check that sending makes, and holds it."""
    intent, row = live.intent, live.approval
    fault = fault_before_send(db, live, verifier)
    if fault or row is None:
        _refuse_to_send(db, case, intent, fault or "seal")
        return
    run(
        db, "INSERT INTO shadow_sends (merchant_id, intent_id, request_digest, currency, amount_minor)"
        " VALUES (:m, :i, :d, :c, :a) ON CONFLICT DO NOTHING", m=case.merchant_id, i=intent["intent_id"],
        d=bytes(row["request_digest"]), c=intent["currency"], a=intent["amount_minor"],
    )  # fmt: skip
    hold(db, case, intent, "system", "shadow")


def _as_found(one: Live, attempts: dict[UUID, int]) -> bool:
    """Whether no other worker made an attempt since the intent was found due."""
    return one.approval is None or one.approval["attempts"] == attempts[one.intent["intent_id"]]


def stop_merchant(db: Connection, merchant_id: UUID, reason: str) -> bool:
    """Stops the merchant's submitter until a person has looked; False when it was stopped already."""
    return run(
        db, "UPDATE merchant_brakes SET stopped_at = now(), stopped_reason = :r WHERE merchant_id = :m AND stopped_at IS NULL",
        r=reason, m=merchant_id,
    ) == 1  # fmt: skip


def start_attempt(
    db: Connection, case: LockedCase, intent: RowMapping, worker_id: int, verifier: SealVerifier
) -> Claimed | None:
    """Verifies again and writes the next attempt; None when the intent must not be sent (it is held or left to a person).

    Case and intent are locked by the caller. From `unknown` the caller has proven absence at the provider (P10).
    """
    live = read_live(db, case.merchant_id, [intent["intent_id"]])
    begun = _Begun(db, case.merchant_id, worker_id)
    claimed = _start(db, case, live[intent["intent_id"]], begun, verifier)
    begun.write()
    return claimed


def _start(db: Connection, case: LockedCase, live: Live, begun: _Begun, verifier: SealVerifier) -> Claimed | None:
    intent, row = live.intent, live.approval
    fault = fault_before_send(db, live, verifier)
    if not fault and row is not None and case.at - row["key_since"] >= timedelta(hours=KEY_SAFE_HOURS):
        fault = "expired"
    if fault or row is None:
        begun.write()
        _refuse_to_send(db, case, intent, fault or "seal")
        return None
    claimed = Claimed(
        case.merchant_id,
        intent["intent_id"],
        row["attempts"] + 1,
        intent["provider_key"],
        row["request"],
        row["trace"],
        case.at + timedelta(seconds=LEASE_SECONDS),
    )
    if intent["state"] != "submitting":
        stage = stage_after(db, case, intent["intent_id"], "submitting")
        event = next_event(
            case, "intent.submitting", "system", {"attempt": str(claimed.attempt_no)}, intent_id=intent["intent_id"],
            move=(intent["state"], "submitting"), stage=stage,
        )  # fmt: skip
        case.followed_by(event)
        begun.events.append(event)
    begun.attempts.append(claimed)
    return claimed


_ATTEMPTS: Final = """
    INSERT INTO attempts (merchant_id, intent_id, attempt_no, worker_id, lease_until)
    SELECT :m, id, n, :w, :l FROM unnest(CAST(:ids AS uuid[]), CAST(:ns AS integer[])) AS a(id, n)
"""
_LEASED: Final = """
    UPDATE outbox o SET attempts = a.n, due_at = :l FROM unnest(CAST(:ids AS uuid[]), CAST(:ns AS integer[])) AS a(id, n)
    WHERE o.merchant_id = :m AND o.intent_id = a.id
"""


def _refuse_to_send(db: Connection, case: LockedCase, intent: RowMapping, fault: str) -> None:
    # A disputed one has its own desk, where it waits for the bank.
    if fault != "disputed":
        raise_alarm(
            db,
            case.merchant_id,
            f"not_sent_{fault}",
            intent["intent_id"],
            f"R-{intent['number']} was not sent: {fault}",
        )
    match intent["state"]:
        case "approved":
            hold(db, case, intent, "system", fault)
        case "submitting":
            # An earlier attempt was turned away before it was looked at. It is not known that nothing happened: look first.
            mark_unknown(db, case, intent, fault)
        case "unknown":
            give_to_person(db, case, intent, fault)


def mark_unknown(db: Connection, case: LockedCase, intent: RowMapping, reason: str) -> None:
    """submitting → unknown; the first look at the provider is due at once. Nothing is released (P9)."""
    move = ("submitting", "unknown")
    append(db, case, "intent.unknown", "system", intent_id=intent["intent_id"], move=move, reason=reason)
    run_later(
        db,
        "UPDATE outbox SET due_at = now() WHERE merchant_id = :m AND intent_id = :i",
        m=case.merchant_id,
        i=intent["intent_id"],
    )


def give_to_person(db: Connection, case: LockedCase, intent: RowMapping, reason: str) -> None:
    """unknown or pending → needs_review. Nothing is released and nothing is sent again; the provider's list is asked for once,
    as evidence for people."""
    move = (intent["state"], "needs_review")
    append(db, case, "intent.needs_review", "system", intent_id=intent["intent_id"], move=move, reason=reason)
    run(db, "UPDATE outbox SET due_at = now() WHERE merchant_id = :m AND intent_id = :i",
        m=case.merchant_id, i=intent["intent_id"])  # fmt: skip


def raise_alarm(db: Connection, merchant_id: UUID, kind: str, intent_id: UUID | None, text: str) -> None:
    """Writes an alarm row unless the same one is still open, and a line of the security log with its kind (S75)."""
    open_already = scalar(
        db, "SELECT 1 FROM alarms WHERE merchant_id = :m AND kind = :k AND intent_id IS NOT DISTINCT FROM :i AND closed_at IS NULL",
        m=merchant_id, k=kind, i=intent_id,
    )  # fmt: skip
    if not open_already:
        run(db, "INSERT INTO alarms (merchant_id, alarm_id, kind, intent_id, text) VALUES (:m, :a, :k, :i, :t)",
            m=merchant_id, a=uuid7(), k=kind, i=intent_id, t=text)  # fmt: skip
        about = hop(db, merchant_id, intent_id) if intent_id is not None else {}
        log.warning("alarm", kind=kind, merchant=str(merchant_id), **about)


def close_alarms(db: Connection, merchant_id: UUID, kind: str, because: str) -> int:
    """What the alarms of a kind were about is over, and why that is known; returns how many were open. One row and one line of
    the log each say so."""
    return _end(db, merchant_id, _END_OF_KIND, because, kind=kind)


def close_alarms_of(db: Connection, intent: RowMapping, kinds: Collection[str], because: str) -> int:
    """The same for the alarms of one intent, of some kinds."""
    return _end(db, intent["merchant_id"], _END_OF_INTENT, because, i=intent["intent_id"], kinds=list(kinds))


def _end(db: Connection, merchant_id: UUID, statement: str, because: str, **which: Any) -> int:
    ended = rows(db, statement, m=merchant_id, because=because[:200], **which)
    for alarm in ended:
        about = hop(db, merchant_id, alarm["intent_id"]) if alarm["intent_id"] is not None else {}
        log.info("alarm_over", kind=alarm["kind"], merchant=str(merchant_id), **about)
    return len(ended)


_END: Final = """
    WITH open AS (SELECT alarm_id, intent_id, kind FROM alarms WHERE merchant_id = :m AND {which} AND closed_at IS NULL),
    ended AS (INSERT INTO alarm_endings (merchant_id, alarm_id, because) SELECT :m, alarm_id, :because FROM open
        ON CONFLICT DO NOTHING RETURNING alarm_id)
    SELECT o.intent_id, o.kind FROM open o JOIN ended e ON e.alarm_id = o.alarm_id
"""
_END_OF_KIND: Final = _END.format(which="kind = :kind")
_END_OF_INTENT: Final = _END.format(which="intent_id = :i AND kind = ANY(:kinds)")


# An attempt without a result belongs to nobody when its worker's advisory lock is gone, or its lease has ended.
_ORPHANS: Final = """
    SELECT i.case_id, i.intent_id, a.attempt_no FROM outbox o
    JOIN intents i ON i.merchant_id = o.merchant_id AND i.intent_id = o.intent_id AND i.state = 'submitting'
    JOIN attempts a ON a.merchant_id = o.merchant_id AND a.intent_id = o.intent_id AND a.attempt_no = o.attempts
    WHERE o.merchant_id = :m AND o.done_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM attempt_results r WHERE r.merchant_id = a.merchant_id AND r.intent_id = a.intent_id
            AND r.attempt_no = a.attempt_no)
        AND (a.lease_until <= now() OR NOT EXISTS (SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND l.granted AND (l.classid::bigint << 32 | l.objid::bigint) = a.worker_id))
    ORDER BY i.case_id LIMIT :batch
"""


def take_over_orphans(db: Connection, merchant_id: UUID, worker_id: int, batch: int = 100) -> int:
    """Attempts whose worker died or hangs become `unknown`; returns how many. Locks each case, then its intent."""
    taken = 0
    for orphan in rows(db, _ORPHANS, m=merchant_id, batch=batch):
        case = lock_case(db, merchant_id, orphan["case_id"])
        intent = read_intent(db, merchant_id, orphan["intent_id"], lock=True)
        if intent is None or intent["state"] != "submitting":
            continue
        # The key of attempt_results fences a slow worker: whichever result is first stands, the other is refused.
        added = run(
            db, "INSERT INTO attempt_results (merchant_id, intent_id, attempt_no, outcome, code, detail, recorded_by)"
            " VALUES (:m, :i, :n, 'unknown', 'worker_gone', 'the worker stopped before it recorded an answer', :w)"
            " ON CONFLICT DO NOTHING", m=merchant_id, i=intent["intent_id"], n=orphan["attempt_no"], w=worker_id,
        )  # fmt: skip
        if added:
            mark_unknown(db, case, intent, "worker_gone")
            log.warning(
                "taken_over",
                merchant=str(merchant_id),
                attempt=orphan["attempt_no"],
                **hop(db, merchant_id, intent["intent_id"]),
            )
            taken += 1
    return taken
