"""Signed delivery of events: at least once, with retries; paused, doubled or out of order when asked."""

import hashlib
import hmac
import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from sandbox import render
from sandbox.ids import new_id
from sandbox.store import Store

_TIMEOUT_SECONDS = 10
_SENDERS = 4
_LONGEST_BACKOFF_SECONDS = 60


def signature(payload: bytes, secrets: list[str], timestamp: int) -> str:
    """``t=…,v1=…``: HMAC-SHA256 over ``t.payload``, one ``v1`` for each secret valid now (§4)."""
    signed = f"{timestamp}.".encode() + payload
    marks = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join([f"t={timestamp}", *(f"v1={mark}" for mark in marks)])


class Webhooks:
    """Endpoints and the deliveries owed to them. A delivery row is written with its event and outlives a restart."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due = threading.Event()
        self._stop = threading.Event()
        self._senders = ThreadPoolExecutor(_SENDERS, thread_name_prefix="webhook")
        self._session = requests.Session()
        self._session.trust_env = False

    def set_endpoint(self, account: str, url: str, secrets: list[str], *, connect: bool) -> dict[str, Any]:
        """Where an account's events go. The same account and url again: its secrets are replaced.

        ``connect``: events of the accounts joined to this platform, with their ``account`` named in each.
        """
        with self._store.write() as db:
            old = db.execute("select id from endpoints where account = ? and url = ?", (account, url)).fetchone()
            identifier = old["id"] if old else new_id("we_1")
            db.execute(
                "insert or replace into endpoints values (?, ?, ?, ?, ?)",
                (identifier, account, url, json.dumps(secrets), connect),
            )
        return {"id": identifier, "account": account, "url": url, "connect": connect}

    def endpoints(self) -> list[dict[str, Any]]:
        """Every endpoint, without its secrets."""
        with self._store.read() as db:
            return [dict(row) for row in db.execute("select id, account, url, connect from endpoints order by id")]

    def drop_endpoints(self, account: str | None) -> int:
        with self._store.write() as db:
            return db.execute("delete from endpoints where ? is null or account = ?", (account, account)).rowcount

    def deliveries(self, state: str | None = None) -> list[dict[str, Any]]:
        """Deliveries in the order of their events: waiting, delivered or given_up, with the last answer."""
        with self._store.read() as db:
            rows = db.execute(
                "select d.*, e.type, e.account from deliveries d join events e on e.id = d.event"
                " where ? is null or d.state = ? order by d.seq",
                (state, state),
            ).fetchall()
        return [dict(row) for row in rows]

    def hurry(self) -> int:
        """Make every waiting delivery due now."""
        with self._store.write() as db:
            count = db.execute("update deliveries set due = 0 where state = 'waiting'").rowcount
        self.wake()
        return count

    def resend(self, event: str) -> int:
        """Send an event once more to each endpoint that had it."""
        with self._store.write() as db:
            count = db.execute(
                "insert into deliveries (event, endpoint, due) select distinct event, endpoint, 0 from deliveries"
                " where event = ?",
                (event,),
            ).rowcount
        self.wake()
        return count

    def wake(self) -> None:
        """There may be something to deliver."""
        self._due.set()

    def run(self) -> None:
        """Deliver what is due until ``stop``; one thread runs this."""
        while not self._stop.is_set():
            if not self.deliver_due():
                self._due.wait(0.1)
                self._due.clear()

    def stop(self) -> None:
        self._stop.set()
        self._due.set()
        self._senders.shutdown(wait=False, cancel_futures=True)

    def deliver_due(self) -> int:
        """Deliver one batch; returns its size. Order and copies are as the settings ask."""
        settings = self._store.settings
        if settings["webhooks_paused"]:
            return 0
        with self._store.read() as db:
            rows = db.execute(
                "select d.seq as delivery, d.attempts, e.*, p.url, p.secrets, p.connect from deliveries d"
                " join events e on e.id = d.event join endpoints p on p.id = d.endpoint"
                " where d.state = 'waiting' and d.due <= ? order by d.seq limit 64",
                (time.time(),),
            ).fetchall()
        batch = list(rows) * max(1, int(settings["webhooks_copies"]))
        if settings["webhooks_reorder"]:
            random.shuffle(batch)
            batch.sort(key=lambda row: -row["created"])
        answers = list(self._senders.map(self._send, batch)) if not self._stop.is_set() else []
        with self._store.write() as db:
            for row, answer in dict(zip((row["delivery"] for row in batch), zip(batch, answers, strict=False), strict=False)).values():
                self._note(db, row, answer)
        return len(batch)

    def _send(self, row: Any) -> str:
        """Post one event; returns the status, or what stopped it."""
        body = render.event(row, 1, row["account"] if row["connect"] else None)
        payload = json.dumps(body, indent=2).encode()
        stamp = int(time.time()) + int(self._store.settings["webhooks_clock_skew_seconds"])
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Stripe-Signature": signature(payload, json.loads(row["secrets"]), stamp),
            "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        }
        try:
            answer = self._session.post(
                row["url"], data=payload, headers=headers, timeout=_TIMEOUT_SECONDS, allow_redirects=False
            )
        except requests.RequestException as error:
            return type(error).__name__
        return str(answer.status_code)

    def _note(self, db: Any, row: Any, answer: str) -> None:
        settings = self._store.settings
        attempts = row["attempts"] + 1
        state = "delivered" if answer.startswith("2") else "waiting"
        if state == "waiting" and attempts >= int(settings["webhooks_tries"]):
            state = "given_up"
        pause = min(float(settings["webhooks_retry_seconds"]) * 2 ** (attempts - 1), _LONGEST_BACKOFF_SECONDS)
        db.execute(
            "update deliveries set attempts = ?, state = ?, due = ?, answer = ? where seq = ?",
            (attempts, state, time.time() + pause, answer, row["delivery"]),
        )
