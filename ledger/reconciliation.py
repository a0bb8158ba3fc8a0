"""Looking at the provider for intents whose outcome is not known or not final (P10).

Nothing is sent again before absence is proven by listing after the provider's consistency window, and never past the
key's safe age: then it is a person's. A timer alone never decides anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.brakes import may_send
from ledger.database import first, rows, run, scalar
from ledger.events import LockedCase, lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.ids import uuid7
from ledger.outbox import KEY_SAFE_HOURS, Claimed, give_to_person, raise_alarm, start_attempt
from ledger.provider_lists import CONSISTENCY_SECONDS, keep_list
from ledger.review import carry_out, open_settlement
from ledger.seals import SealVerifier
from ledger.settlement import ProviderRefund, apply_refund, read_payment_again

# Looks for an unknown outcome: soon, because most answers are there at once, then backing off so that an outage of the
# provider is not met with a storm.
UNKNOWN_LOOK_SECONDS: Final = (5, 15, 60, 300, 900, 1800, 3600)
# While one worker looks, others leave the row alone for this long; a look is one or a few list pages.
LOOK_LEASE_SECONDS: Final = 60
# A request that got no clear answer this often, every time absent at the provider afterwards, gets none by being repeated: a
# stored 500 answers every repetition alike. Each time it is waited twice as long, so this is about four hours after the first.
MOST_UNCLEAR: Final = 8
# A provider that could not be asked for so long is said aloud; the refund stays unknown, for a timer proves nothing.
NOT_ASKED_ALARM_HOURS: Final = 24


@dataclass(frozen=True)
class Look:
    """One intent to ask the provider about. `refund_ref` is known once the provider has named the refund; `asked_at` is before
    the provider is asked, by the database's clock."""

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
    asked_at: datetime | None = None
    act: str = "refund"
    charge_ref: str = ""
    amount_minor: int = 0
    expected_account: str = ""


_TAKE: Final = """
    UPDATE outbox o SET due_at = now() + :lease FROM intents i, provider_accounts a
    WHERE o.merchant_id = :m AND i.merchant_id = o.merchant_id AND i.intent_id = o.intent_id
        AND a.merchant_id = i.merchant_id AND a.provider_account_id = i.provider_account_id
        AND (o.merchant_id, o.intent_id) IN (
            SELECT o2.merchant_id, o2.intent_id FROM outbox o2
            JOIN intents i2 ON i2.merchant_id = o2.merchant_id AND i2.intent_id = o2.intent_id
            WHERE o2.merchant_id = :m AND o2.done_at IS NULL AND o2.due_at <= now()
                AND i2.state IN ('unknown', 'pending', 'needs_review')
            ORDER BY o2.due_at LIMIT :batch FOR UPDATE OF o2 SKIP LOCKED)
    RETURNING o.merchant_id, o.intent_id, i.state, i.provider_refund_ref AS refund_ref, a.account_ref AS account,
        a.credential, a.livemode, i.payment_intent_ref, i.currency, i.provider_key AS key, o.trace, now() AS asked_at,
        i.act, i.charge_ref, i.amount_minor, coalesce(a.expected_account_ref, '') AS expected_account
"""


def take_looks(db: Connection, merchant_id: UUID, batch: int) -> list[Look]:
    """Takes due looks of one merchant under a short lease; the caller commits, then asks the provider. Locks outbox rows."""
    lease = timedelta(seconds=LOOK_LEASE_SECONDS)
    return [Look(**row) for row in rows(db, _TAKE, m=merchant_id, batch=batch, lease=lease)]


@dataclass(frozen=True)
class WholeList:
    """Every refund of a payment as the provider listed them, asked for at `asked_at` by the database's clock."""

    refunds: Sequence[ProviderRefund]
    asked_at: datetime


def record_found(
    db: Connection, merchant_id: UUID, intent_id: UUID, refund: ProviderRefund, whole: WholeList | None = None
) -> str:
    """The provider shows our refund: adopt it. Returns the state afterwards. Locks case, intent and what settling locks.

    `whole`: the list it was found on, which is kept; None when it was read by its id.
    """
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None:
        return "absent"
    if whole is not None:
        keep_list(db, merchant_id, intent_id, whole.refunds, whole.asked_at)
    _write_look(db, intent, "ours", refund.refund_ref, refund.status, refund.pending_reason)
    state = apply_refund(db, case, intent, refund)
    if state == "failed" and intent["act"] == "cancel_payment":
        read_payment_again(db, intent, "look")
    if state == "needs_review" and whole is not None:
        _rest(db, merchant_id, intent_id)
    return state


def record_two(db: Connection, merchant_id: UUID, intent_id: UUID, whole: WholeList) -> None:
    """The provider shows two refunds of one intent: nothing is adopted or sent, people settle it. Locks case and intent."""
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None or intent["state"] not in ("unknown", "pending"):
        return
    keep_list(db, merchant_id, intent_id, whole.refunds, whole.asked_at)
    _write_look(db, intent, "ours", None, None, "two refunds")
    raise_alarm(
        db, merchant_id, "two_refunds", intent_id, f"R-{intent['number']}: the provider shows two refunds of it"
    )
    give_to_person(db, case, intent, "two_refunds")
    _rest(db, merchant_id, intent_id)


def record_for_people(
    db: Connection, merchant_id: UUID, intent_id: UUID, whole: WholeList, window_seconds: int = CONSISTENCY_SECONDS
) -> str:
    """The provider's list for an intent that needs review: kept as evidence; what two people settled is carried out.

    Returns `gone` (it waits no more), `waits`, `settled` or `void`. Nothing leaves review by this alone. Locks case, intent, and
    what settling locks.
    """
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None or intent["state"] != "needs_review":
        return "gone"
    keep_list(db, merchant_id, intent_id, whole.refunds, whole.asked_at)
    ours = next((one for one in whole.refunds if one.intent_id == str(intent_id)), None)
    found = ("ours", ours.refund_ref, ours.status) if ours else ("nothing", None, None)
    _write_look(db, intent, *found)
    done = carry_out(db, case, intent, whole.refunds, window_seconds)
    if done != "settled":
        _rest(db, merchant_id, intent_id)
    return done


def record_no_answer(db: Connection, merchant_id: UUID, intent_id: UUID, detail: str) -> None:
    """The provider could not be asked: look again later. Proves nothing, and after a day without any answer says so."""
    intent = read_intent(db, merchant_id, intent_id)
    if intent is None:
        return
    _write_look(db, intent, "no_answer", None, None, detail)
    if intent["state"] == "needs_review" and not _confirmed(db, merchant_id, intent_id):
        _rest(db, merchant_id, intent_id)
        return
    _schedule(db, intent)
    if intent["state"] == "unknown" and intent["at"] - intent["state_at"] >= timedelta(hours=NOT_ASKED_ALARM_HOURS):
        text = (
            f"R-{intent['number']}: the provider could not be asked for {NOT_ASKED_ALARM_HOURS} hours; it stays unknown"
        )
        raise_alarm(db, merchant_id, "unknown_too_long", intent_id, text)


def _confirmed(db: Connection, merchant_id: UUID, intent_id: UUID) -> bool:
    found = open_settlement(db, merchant_id, intent_id)
    return found is not None and bool(found["confirmed"])


def _rest(db: Connection, merchant_id: UUID, intent_id: UUID) -> None:
    """The list lies beside it: nothing more is asked until a person wants it."""
    run(db, "UPDATE outbox SET due_at = 'infinity' WHERE merchant_id = :m AND intent_id = :i AND done_at IS NULL",
        m=merchant_id, i=intent_id)  # fmt: skip


def record_absent(
    db: Connection,
    merchant_id: UUID,
    intent_id: UUID,
    worker_id: int,
    verifier: SealVerifier,
    asked_after_seconds: int = CONSISTENCY_SECONDS,
    whole: WholeList | None = None,
) -> Claimed | None:
    """A complete list without our refund. Returns the next attempt (same key, same request) once absence is proven.

    Proven: the list was taken at least the consistency window after the last attempt could still have been under way; twice as
    long after each that got no clear answer, and after MOST_UNCLEAR of them it is people's. So it is past the key's safe age,
    and a pending refund that is not listed is at once: the provider had named it. Locks case and intent.
    """
    case = lock_case_of_intent(db, merchant_id, intent_id)
    intent = read_intent(db, merchant_id, intent_id, lock=True)
    if intent is None or intent["state"] not in ("unknown", "pending"):
        return None
    if whole is not None:
        keep_list(db, merchant_id, intent_id, whole.refunds, whole.asked_at)
    _write_look(db, intent, "nothing", None, None)
    claimed = _after_absence(db, case, intent, worker_id, verifier, asked_after_seconds)
    if claimed is None and whole is not None:
        _rest_in_review(db, merchant_id, intent_id)
    return claimed


def _rest_in_review(db: Connection, merchant_id: UUID, intent_id: UUID) -> None:
    if (
        scalar(db, "SELECT state FROM intents WHERE merchant_id = :m AND intent_id = :i", m=merchant_id, i=intent_id)
        == "needs_review"
    ):
        _rest(db, merchant_id, intent_id)


def _after_absence(
    db: Connection, case: LockedCase, intent: RowMapping, worker_id: int, verifier: SealVerifier, window_seconds: int
) -> Claimed | None:
    """What follows for a locked intent that the provider does not list."""
    merchant_id, intent_id = case.merchant_id, intent["intent_id"]
    if intent["state"] == "pending" or intent["provider_refund_ref"] is not None:
        raise_alarm(
            db, merchant_id, "refund_vanished", intent_id, f"R-{intent['number']}: the provider no longer lists it"
        )
        give_to_person(db, case, intent, "refund_vanished")
        return None
    row = first(db, _AGES, m=merchant_id, i=intent_id)
    if row is None or row["key_age"] is None or row["key_age"] >= timedelta(hours=KEY_SAFE_HOURS):
        give_to_person(db, case, intent, "key_too_old")
        return None
    if row["unclear"] >= MOST_UNCLEAR:
        text = f"R-{intent['number']}: sent {row['unclear']} times under one key and never clearly answered"
        raise_alarm(db, merchant_id, "keeps_failing", intent_id, text)
        give_to_person(db, case, intent, "keeps_failing")
        return None
    window = timedelta(seconds=window_seconds << max(row["unclear"] - 1, 0))
    if row["settled_age"] is None or row["settled_age"] < window or not may_send(db, merchant_id):
        _schedule(db, intent)
        return None
    return start_attempt(db, case, intent, worker_id, verifier)


# The age of the last attempt counts from when its result was recorded (the call was over) by the database clock.
_AGES: Final = """
    SELECT now() - (SELECT min(a.started_at) FROM attempts a WHERE a.merchant_id = o.merchant_id AND a.intent_id = o.intent_id)
        AS key_age, now() - r.at AS settled_age,
        (SELECT count(*) FROM attempt_results u WHERE u.merchant_id = o.merchant_id AND u.intent_id = o.intent_id
            AND u.outcome = 'unknown')::int AS unclear
    FROM outbox o
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
