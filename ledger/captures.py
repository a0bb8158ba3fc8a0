"""What the provider holds and took of a payment: read there, compared with our capture, written down as facts.

A capture that was only authorised holds its money beside the balances (`held`). Somebody may capture it elsewhere, in whole
or in part, or it lapses; the worker reads the payment and inserts what changed (`capture_facts`), which moves the capture.
Open cases of its order are then worked out again: what waited to be canceled becomes a refund, or nothing.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.assessment import reassess
from ledger.database import first, rows, run, scalar
from ledger.events import append, lock_open_cases
from ledger.ids import uuid7
from ledger.outbox import raise_alarm

# After the time in which an authorisation lapses, a hold that stands is read daily.
READ_AGAIN_AFTER: Final = timedelta(days=1)
# An account that does not answer may in a while; each payment of it may cost a whole call.
READ_SOON_AFTER: Final = timedelta(minutes=10)
# Reasons with which a worker calls back what waits; the policy on events names them too.
CAPTURED: Final = "captured_elsewhere"
RELEASED: Final = "payment_released"


@dataclass(frozen=True)
class ProviderPayment:
    """A payment as the provider shows it; amounts in our minor units of `currency`. `received_minor` is what was captured."""

    payment_intent_ref: str
    charge_ref: str
    status: str
    amount_minor: int
    received_minor: int
    capturable_minor: int
    currency: str


@dataclass(frozen=True)
class ToRead:
    """A payment to read, and whose account it is on."""

    payment_intent_ref: str
    account: str
    credential: str
    livemode: bool
    expected_account: str


_TAKE: Final = """
    UPDATE captures c SET next_read_at = now() + :again FROM provider_accounts a
    WHERE c.merchant_id = :m AND a.merchant_id = c.merchant_id AND a.provider_account_id = c.provider_account_id
        AND c.capture_id IN (SELECT capture_id FROM captures WHERE merchant_id = :m AND next_read_at <= now()
            ORDER BY next_read_at LIMIT :batch FOR UPDATE SKIP LOCKED)
    RETURNING c.payment_intent_ref, a.account_ref AS account, a.credential, a.livemode,
        coalesce(a.expected_account_ref, '') AS expected_account
"""


def take_reads(db: Connection, merchant_id: UUID, batch: int) -> list[ToRead]:
    """Takes payments whose hold is due to be read; one that fails is due again tomorrow. Locks their rows shortly."""
    return [ToRead(**row) for row in rows(db, _TAKE, m=merchant_id, batch=batch, again=READ_AGAIN_AFTER)]


def read_soon(db: Connection, merchant_id: UUID, payment_intent_refs: list[str]) -> None:
    """What was taken and not read, for its account does not answer, is due again in minutes. Locks their rows shortly."""
    run(
        db, "UPDATE captures SET next_read_at = now() + :soon WHERE merchant_id = :m AND payment_intent_ref = ANY(:refs)"
        " AND next_read_at IS NOT NULL", soon=READ_SOON_AFTER, m=merchant_id, refs=payment_intent_refs,
    )  # fmt: skip


_HOLDING: Final = """
    SELECT 1 FROM captures WHERE merchant_id = :m AND payment_intent_ref = :p AND held_minor + releasing_minor > 0 LIMIT 1
"""


def holds(db: Connection, merchant_id: UUID, payment_intent_ref: str) -> bool:
    """Whether we think that something of a payment is held and not taken."""
    return scalar(db, _HOLDING, m=merchant_id, p=payment_intent_ref) is not None


_CAPTURE: Final = """
    SELECT capture_id, order_id, currency, charge_ref FROM captures
    WHERE merchant_id = :m AND payment_intent_ref = :p AND charge_ref = :c
"""
_LOCKED: Final = """
    SELECT captured_minor, available_minor, held_minor, releasing_minor, released_minor FROM captures
    WHERE merchant_id = :m AND capture_id = :id FOR NO KEY UPDATE
"""


def record_payment(db: Connection, merchant_id: UUID, payment: ProviderPayment) -> list[str]:
    """Brings our capture to what the provider shows; returns the kinds of facts that were new, [] for none.

    Open cases of the order are worked out again when anything changed. Locks order, its open cases, the capture, and what
    `reassess` locks. A payment that differs in amount or currency is a person's, with an alarm, and changes nothing.
    """
    capture = first(db, _CAPTURE, m=merchant_id, p=payment.payment_intent_ref, c=payment.charge_ref)
    if capture is None:
        return []
    first(
        db, "SELECT 1 FROM orders WHERE merchant_id = :m AND order_id = :o FOR NO KEY UPDATE",
        m=merchant_id, o=capture["order_id"],
    )  # fmt: skip
    cases = lock_open_cases(db, merchant_id, [capture["order_id"]])
    now = first(db, _LOCKED, m=merchant_id, id=capture["capture_id"])
    facts = _facts(now, payment) if now is not None and payment.currency == capture["currency"] else None
    if facts is None:
        text = f"The payment {payment.payment_intent_ref} is not what the order says of it"
        raise_alarm(db, merchant_id, "payment_differs", None, text[:300])
        return []
    for kind, minor in facts:
        run(
            db, "INSERT INTO capture_facts (merchant_id, fact_id, capture_id, kind, amount_minor, payment_status)"
            " VALUES (:m, :f, :c, :kind, :minor, :status)", m=merchant_id, f=uuid7(), c=capture["capture_id"], kind=kind,
            minor=minor, status=payment.status[:40],
        )  # fmt: skip
    if payment.status != "requires_capture":
        run(db, "UPDATE captures SET next_read_at = NULL WHERE merchant_id = :m AND capture_id = :c AND next_read_at IS NOT NULL",
            m=merchant_id, c=capture["capture_id"])  # fmt: skip
    if facts:
        taken = any(kind == "captured" for kind, _ in facts)
        kind, because = ("capture.taken", CAPTURED) if taken else ("capture.not_taken", RELEASED)
        body = {"amount_minor": str(payment.received_minor), "currency": payment.currency}
        for case in cases:
            append(db, case, kind, "system", body)
            reassess(db, case, "system", because=because)
    return [kind for kind, _ in facts]


def _facts(now: RowMapping, payment: ProviderPayment) -> list[tuple[str, int]] | None:
    """What has to be written so that the capture says what the payment says; None when no fact could."""
    on_hold = now["held_minor"] + now["releasing_minor"]
    whole = now["captured_minor"] + on_hold + now["released_minor"]
    taken = payment.received_minor - now["captured_minor"]
    if payment.amount_minor < whole or taken > on_hold or -taken > now["available_minor"]:
        return None
    open_ = payment.capturable_minor if payment.status == "requires_capture" else 0
    let_go = on_hold - taken - open_
    if let_go < 0:
        return None
    found = [("captured", taken)] if taken > 0 else [("not_captured", -taken)] if taken < 0 else []
    return found + ([("released", let_go)] if let_go else [])
