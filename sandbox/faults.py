"""What is queued to go wrong: each fault waits for matching calls under /v1 and is used up by ``count`` of them.

Each kind belongs to one stage of a call, and a call meets at most one fault of each stage, so a refund can be
pending *and* have its answer lost.
"""

import json
import sqlite3
import threading
import time
from dataclasses import dataclass
from typing import Any

from sandbox.store import Store

# stage → kind → what it does. The stages in the order a call meets them.
KINDS: dict[str, dict[str, str]] = {
    "door": {
        "lose_before": "connection closed without a byte, nothing done",
        "unauthorized": "401, before anything",
        "forbidden": "403, before anything",
        "rate_limit": "429 rate_limit, before the idempotency layer",
        "error_503": "503, before the idempotency layer",
        "redirect": "307 (or options.status) to options.location",
        "in_use": "409 idempotency_key_in_use",
    },
    "wait_before": {"delay_before": "waits options.ms before acting; the key is in use meanwhile"},
    "hold": {"delay_holding": "waits options.ms holding the charge, so others meet lock_timeout"},
    "act": {
        "error_500_before": "500 without acting, kept under the key",
        "error_500_after": "acts, then answers 500, kept under the key",
        "lock_timeout": "429 lock_timeout, nothing done",
        "refuse": "does nothing, answers options.status (400) with options.error, kept under the key unless options.kept is false",
    },
    "state": {
        "refund_pending": "the refund made is pending (options.pending_reason)",
        "refund_requires_action": "the refund made requires_action",
        "refund_fails": "the refund made is failed at once (options.failure_reason)",
        "refund_fails_late": "succeeded, then failed after options.after_seconds (options.failure_reason)",
        "refund_settles_late": "pending, then succeeded after options.after_seconds",
        "insufficient_balance": "pending for insufficient_funds; options.refuse: refused with 400",
    },
    "listing": {"list_lag": "the refund made is listed only after options.seconds"},
    "wait_after": {"delay_after": "acts, waits options.ms, answers"},
    "reply": {
        "lose_reply": "acts, closes the connection without a byte (options.reset: with a reset)",
        "truncated_body": "acts, cuts the body short of its Content-Length",
        "garbage_200": "acts, answers 200 with something that is no JSON",
        "wrong_amount": "acts, answers with another amount (options.amount, else one more)",
        "wrong_answer": "acts, answers with options.fields laid over the body",
        "huge_body": "acts, answers with options.bytes of nothing",
    },
}
STAGE_OF = {kind: stage for stage, kinds in KINDS.items() for kind in kinds}


@dataclass(slots=True)
class Fault:
    """One queued fault. ``path`` is a prefix; an unset field matches everything, but a list of a whole account only meets a
    fault that names its path."""

    seq: int
    kind: str
    account: str | None
    method: str | None
    path: str | None
    payment_intent: str | None
    charge: str | None
    skip: int
    remaining: int
    options: dict[str, Any]
    queued: float = 0.0
    """On the monotonic clock: a call that arrived before it does not meet it."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a call is about, as far as faults can ask. ``about``: it names a payment, a charge or an object by its id."""

    account: str
    method: str
    path: str
    payment_intent: str | None
    charge: str | None
    arrived: float
    about: bool = True


# An account's own lists are read all the time. A fault that names no path waits for the call a test has in mind.
_READ_ALL_THE_TIME = ("/v1/disputes", "/v1/refunds")


def _fits(fault: Fault, stage: str, target: Target) -> bool:
    if fault.path is None and target.method == "GET" and target.path in _READ_ALL_THE_TIME and not target.about:
        return False
    return (
        STAGE_OF[fault.kind] == stage
        and fault.queued <= target.arrived
        and fault.account in (None, target.account)
        and fault.method in (None, target.method)
        and target.path.startswith(fault.path or "")
        and fault.payment_intent in (None, target.payment_intent)
        and fault.charge in (None, target.charge)
    )


class Faults:
    """The queue, in memory for the speed of calls that meet none, in the file to outlive a restart."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.read_again()

    def read_again(self) -> None:
        """Take the queue from the file."""
        with self._lock, self._store.read() as db:
            rows = db.execute("select * from faults order by seq").fetchall()
            self._queue = [Fault(**{**dict(row), "options": json.loads(row["options"])}) for row in rows]

    @property
    def any(self) -> bool:
        return bool(self._queue)

    @property
    def by_object(self) -> bool:
        """Whether some fault asks for one payment, so that a call has to say which it is about."""
        return any(fault.payment_intent or fault.charge for fault in self._queue)

    def queue(self, kind: str, *, count: int, skip: int, options: dict[str, Any], **of: str | None) -> Fault:
        """Add a fault of a known kind for the next ``count`` matching calls after ``skip`` of them."""
        fields = {name: of.get(name) for name in ("account", "method", "path", "payment_intent", "charge")}
        with self._lock, self._store.write() as db:
            seq = _write(db, {**fields, "kind": kind, "skip": skip, "remaining": count}, options)
            fault = Fault(
                seq=seq, kind=kind, skip=skip, remaining=count, options=options, queued=time.monotonic(), **fields
            )
            self._queue.append(fault)
        return fault

    def meet(self, stage: str, target: Target) -> Fault | None:
        """The fault this call meets at a stage, now used up by one."""
        if not self._queue:
            return None
        with self._lock:
            fault = next((one for one in self._queue if _fits(one, stage, target)), None)
            if fault is None:
                return None
            met = fault.skip == 0
            if met:
                fault.remaining -= 1
            else:
                fault.skip -= 1
            with self._store.write() as db:
                db.execute(
                    "update faults set skip = ?, remaining = ? where seq = ?", (fault.skip, fault.remaining, fault.seq)
                )
                db.execute("delete from faults where remaining <= 0")
            self._queue = [one for one in self._queue if one.remaining > 0]
        return fault if met else None

    def waiting(self, account: str | None = None) -> list[Fault]:
        with self._lock:
            return [one for one in self._queue if account in (None, one.account)]

    def drop(self, seq: int | None = None, account: str | None = None) -> int:
        """Take faults out of the queue: one, those of an account, or all. Returns how many."""
        with self._lock, self._store.write() as db:
            going = [one for one in self._queue if seq in (None, one.seq) and account in (None, one.account)]
            db.executemany("delete from faults where seq = ?", [(one.seq,) for one in going])
            self._queue = [one for one in self._queue if one not in going]
        return len(going)


def _write(db: sqlite3.Connection, fields: dict[str, Any], options: dict[str, Any]) -> int:
    row = {**fields, "options": json.dumps(options)}
    statement = f"insert into faults ({', '.join(row)}) values ({', '.join('?' * len(row))}) returning seq"  # noqa: S608
    return int(db.execute(statement, tuple(row.values())).fetchone()["seq"])
