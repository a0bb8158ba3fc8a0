"""Looking at the provider for intents whose outcome is not known or not final (P10).

Nothing is sent again before absence is proven by listing after the provider's consistency window, and never past the
key's safe age: then it is a person's. A timer alone never decides anything.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.brakes import brakes_on
from ledger.database import first, rows, run, scalar
from ledger.events import lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.ids import uuid7
from ledger.outbox import KEY_SAFE_HOURS, Claimed, give_to_person, raise_alarm, start_attempt
from ledger.seals import SealVerifier
from ledger.settlement import ProviderRefund, apply_refund

# No read-after-write promise is documented for the provider's lists; a minute is many times what was ever observed.
CONSISTENCY_SECONDS: Final = 60
# Looks for an unknown outcome: soon, because most answers are there at once, then backing off so that an outage of the
# provider is not met with a storm.
UNKNOWN_LOOK_SECONDS: Final = (5, 15, 60, 300, 900, 1800, 3600)
# While one worker looks, others leave the row alone for this long; a look is one or a few list pages.
LOOK_LEASE_SECONDS: Final = 60


@dataclass(frozen=True)
class Look:
    """One intent to ask the provider about. `refund_ref` is known once the provider has named the refund."""

    merchant_id: UUID
    intent_id: UUID
    state: str
    refund_ref: str | None
    account: str
    credential: str
    livemode: bool
    payment_intent_ref: str
    currency: str
    key: str = ""
    trace: str = ""


_TAKE: Final = """
    UPDATE outbox o SET due_at = now() + :lease FROM intents i, provider_accounts a
    WHERE o.merchant_id = :m AND i.merchant_id = o.merchant_id AND i.intent_id = o.intent_id
        AND a.merchant_id = i.merchant_id AND a.provider_account_id = i.provider_account_id
        AND (o.merchant_id, o.intent_id) IN (
            SELECT o2.merchant_id, o2.intent_id FROM outbox o2
            JOIN intents i2 ON i2.merchant_id = o2.merchant_id AND i2.intent_id = o2.intent_id
            WHERE o2.merchant_id = :m AND o2.done_at IS NULL AND o2.due_at <= now() AND i2.state IN ('unknown', 'pending')
            ORDER BY o2.due_at LIMIT :batch FOR UPDATE OF o2 SKIP LOCKED)
    RETURNING o.merchant_id, o.intent_id, i.state, i.provider_refund_ref AS refund_ref, a.account_ref AS account,
        a.credential, a.livemode, i.payment_intent_ref, i.currency, i.provider_key AS key, o.trace
"""


def take_looks(db: Connection, merchant_id: UUID, batch: int) -> list[Look]:
    """Takes due looks of one merchant under a short lease; the caller commits, then asks the provider. Locks outbox rows."""
    lease = timedelta(seconds=LOOK_LEASE_SECONDS)
    return [Look(**row) for row in rows(db, _TAKE, m=merchant_id, batch=batch, lease=lease)]


def record_found(db: Connection, merchant_id: UUID, intent_id: UUID, refund: ProviderRefund) -> str:
    """The provider shows our refund: adopt it. Returns the state afterwards. Locks case, intent and what settling locks."""
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None:
        return "absent"
    _write_look(db, intent, "ours", refund.refund_ref, refund.status)
    return apply_refund(db, case, intent, refund)


def record_no_answer(db: Connection, merchant_id: UUID, intent_id: UUID, detail: str) -> None:
    """The provider could not be asked: look again later. Proves nothing."""
    intent = read_intent(db, merchant_id, intent_id)
    if intent is not None:
        _write_look(db, intent, "no_answer", None, None, detail)
        _schedule(db, intent)


def record_absent(
    db: Connection,
    merchant_id: UUID,
    intent_id: UUID,
    worker_id: int,
    verifier: SealVerifier,
    asked_after_seconds: int = CONSISTENCY_SECONDS,
) -> Claimed | None:
    """A complete list without our refund. Returns the next attempt (same key, same request) once absence is proven.

    Proven: the list was taken at least the consistency window after the last attempt could still have been under way. Past
    the key's safe age the intent becomes a person's. A pending refund that is not listed is a person's at once: the
    provider had named it. Locks case and intent.
    """
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None or intent["state"] not in ("unknown", "pending"):
        return None
    _write_look(db, intent, "nothing", None, None)
    if intent["state"] == "pending" or intent["provider_refund_ref"] is not None:
        raise_alarm(
            db, merchant_id, "refund_vanished", intent_id, f"R-{intent['number']}: the provider no longer lists it"
        )
        give_to_person(db, case, intent, "refund_vanished")
        return None
    row = first(db, _AGES, m=merchant_id, i=intent_id)
    if row is None or row["approved_age"] >= timedelta(hours=KEY_SAFE_HOURS):
        give_to_person(db, case, intent, "key_too_old")
        return None
    if (
        row["settled_age"] is None
        or row["settled_age"] < timedelta(seconds=asked_after_seconds)
        or brakes_on(db, merchant_id)
    ):
        _schedule(db, intent)
        return None
    return start_attempt(db, case, intent, worker_id, verifier)


# The age of the last attempt counts from when its result was recorded (the call was over) by the database clock.
_AGES: Final = """
    SELECT now() - o.approved_at AS approved_age, now() - r.at AS settled_age FROM outbox o
    LEFT JOIN attempt_results r ON r.merchant_id = o.merchant_id AND r.intent_id = o.intent_id AND r.attempt_no = o.attempts
    WHERE o.merchant_id = :m AND o.intent_id = :i
"""


def _write_look(
    db: Connection, intent: RowMapping, found: str, ref: str | None, status: str | None, detail: str = ""
) -> None:
    run(db, "INSERT INTO looks (merchant_id, look_id, intent_id, found, refund_ref, refund_status, detail)"
        " VALUES (:m, :l, :i, :f, :r, :s, :d)", m=intent["merchant_id"], l=uuid7(), i=intent["intent_id"], f=found, r=ref,
        s=status, d=detail[:300])  # fmt: skip


def _schedule(db: Connection, intent: RowMapping) -> None:
    looked = scalar(db, "SELECT count(*) FROM looks WHERE merchant_id = :m AND intent_id = :i",
                    m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip
    wait = timedelta(seconds=UNKNOWN_LOOK_SECONDS[min(looked, len(UNKNOWN_LOOK_SECONDS)) - 1])
    run(db, "UPDATE outbox SET due_at = now() + :wait WHERE merchant_id = :m AND intent_id = :i",
        wait=wait, m=intent["merchant_id"], i=intent["intent_id"])  # fmt: skip
