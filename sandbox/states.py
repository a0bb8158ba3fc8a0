"""What happens at a provider without us: a person at its dashboard, a bank, a customer, the passing of time."""

import sqlite3
from collections.abc import Callable
from typing import Any

from sandbox import balance, disputes, payments, refunds
from sandbox.calls import Actor
from sandbox.errors import missing
from sandbox.store import Store
from sandbox.wishes import Wishes, flag, number, whole


def _row(db: sqlite3.Connection, table: str, column: str, wishes: Wishes, name: str) -> sqlite3.Row:
    value = str(wishes.get(name, ""))
    row: sqlite3.Row | None = db.execute(f"select * from {table} where {column} = ?", (value,)).fetchone()  # noqa: S608
    if row is None:
        raise missing(name, value, name)
    return row


def _payment(db: sqlite3.Connection, wishes: Wishes) -> sqlite3.Row:
    if wishes.get("charge"):
        return _row(db, "payments", "charge", wishes, "charge")
    return _row(db, "payments", "id", wishes, "payment_intent")


class States:
    """Changes to refunds and payments from outside the interface."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.routes: dict[str, Callable[[Wishes], Any]] = {
            "POST clock": self.move_clock,
            "POST refunds": self.dashboard_refund,
            "POST refunds/status": self.change_refund,
            "POST accounts/payout": self.take_funds,
            "POST disputes": self.open_dispute,
            "POST disputes/close": self.close_dispute,
            "POST disputes/escalate": self.escalate_dispute,
        }

    def _actor(self, row: sqlite3.Row) -> Actor:
        return Actor(row["account"], self._store.now(), origin="dashboard")

    def move_clock(self, wishes: Wishes) -> Any:
        """``advance_seconds`` adds to the clock, ``now`` sets it; refund changes that fall due are made."""
        offset = float(self._store.settings["clock_offset_seconds"]) + number(wishes, "advance_seconds")
        if wishes.get("now"):
            offset += number(wishes, "now") - self._store.moment()
        self._store.change_settings({"clock_offset_seconds": offset})
        self.apply_due()
        return {"now": self._store.now()}

    def apply_due(self) -> int:
        """Make the refund changes whose time has come on the sandbox's clock; returns how many."""
        now = self._store.now()
        with self._store.read() as db:
            lapsed = "select 1 from payments where status = 'requires_capture' and charge_created <= ? limit 1"
            if (
                not db.execute("select 1 from refunds where next_at <= ? limit 1", (now,)).fetchone()
                and not db.execute(lapsed, (now - payments.AUTHORISATION_SECONDS,)).fetchone()
            ):
                return 0
        with self._store.write() as db:
            return refunds.apply_due(db, now) + payments.expire_due(db, now)

    def take_funds(self, wishes: Wishes) -> Any:
        """``account``, ``currency``, ``amount``: a connected account pays out, so that it may lack the funds of a reversal."""
        with self._store.write() as db:
            actor = Actor(str(wishes.get("account", "")), self._store.now(), origin="stripe")
            amount = whole(wishes, "amount", 1) or 0
            currency = str(wishes.get("currency", "gbp"))
            return {"moved": balance.move(db, actor, "payout", -amount, currency, actor.account)}

    def dashboard_refund(self, wishes: Wishes) -> Any:
        """A refund made by a person: no metadata, no key. ``amount`` (minor units) absent: the whole remainder."""
        with self._store.write() as db:
            payment = _payment(db, wishes)
            amount = refunds.refundable_amount(payment, whole(wishes, "amount"))
            return refunds.make(db, self._actor(payment), payment, amount, {}, {})

    def change_refund(self, wishes: Wishes) -> Any:
        """``refund``, ``status`` (succeeded, failed, canceled, pending), ``reason``: also the late failure."""
        with self._store.write() as db:
            refund = _row(db, "refunds", "id", wishes, "refund")
            reason = wishes.get("reason") or None
            return refunds.change_status(db, self._actor(refund), refund, str(wishes.get("status")), reason)

    def open_dispute(self, wishes: Wishes) -> Any:
        """``payment_intent`` or ``charge``, ``inquiry`` (else formal), ``amount`` (else all captured), ``reason``."""
        with self._store.write() as db:
            payment = _payment(db, wishes)
            amount = whole(wishes, "amount", 1) or payment["amount_captured"]
            reason = str(wishes.get("reason") or "fraudulent")
            inquiry = flag(wishes, "inquiry")
            return disputes.open_one(db, self._actor(payment), payment, amount, inquiry=inquiry, reason=reason)

    def escalate_dispute(self, wishes: Wishes) -> Any:
        """``dispute``: an open inquiry, which becomes a formal dispute of the same id."""
        with self._store.write() as db:
            dispute = _row(db, "disputes", "id", wishes, "dispute")
            return disputes.escalate_one(db, self._actor(dispute), dispute)

    def close_dispute(self, wishes: Wishes) -> Any:
        """``dispute``, ``outcome``: ``won`` or ``lost``; ``warning_closed`` for an inquiry."""
        with self._store.write() as db:
            dispute = _row(db, "disputes", "id", wishes, "dispute")
            return disputes.close_one(db, self._actor(dispute), dispute, str(wishes.get("outcome")))
