"""Signed delivery of events: at least once, with retries; paused, doubled or out of order when asked."""

import hashlib
import hmac
import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from sandbox import render
from sandbox.ids import new_id
from sandbox.store import Store

_TIMEOUT_SECONDS = 10
_SENDERS = 8
_LONGEST_PAUSE_SECONDS = 60
_REORDER_SECONDS = 0.3  # how long events gather before they are sent newest first

_OWED = """
select d.seq as delivery, d.attempts, e.*, p.id as endpoint, p.url, p.secrets, p.connect
from deliveries d join events e on e.id = d.event join endpoints p on p.id = d.endpoint
where d.state = 'waiting' and d.due <= ? order by d.seq limit 200
"""


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
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._senders = ThreadPoolExecutor(_SENDERS, thread_name_prefix="webhook")

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
        self._due.set()
        return count

    def resend(self, event: str) -> int:
        """Send an event once more to each endpoint that was owed it."""
        with self._store.write() as db:
            count = db.execute(
                "insert into deliveries (event, endpoint, due) select distinct event, endpoint, 0 from deliveries"
                " where event = ?",
                (event,),
            ).rowcount
        self._due.set()
        return count

    def run(self) -> None:
        """Deliver what is due until ``stop``; one thread runs this."""
        while not self._stop.is_set():
            if self._store.settings["webhooks_reorder"]:
                self._stop.wait(_REORDER_SECONDS)
            self._hand_out()
            self._due.wait(0.1)
            self._due.clear()

    def stop(self) -> None:
        """Begin nothing new; what is not answered stays owed."""
        self._stop.set()
        self._due.set()
        self._senders.shutdown(wait=False, cancel_futures=True)

    def _hand_out(self) -> None:
        """Give what is due to the senders, one endpoint to one sender at a time, so a slow one delays only itself."""
        if self._store.settings["webhooks_paused"]:
            return
        with self._store.read() as db:
            rows = db.execute(_OWED, (time.time(),)).fetchall()
        if self._store.settings["webhooks_reorder"]:
            rows.reverse()
        owed: dict[str, list[sqlite3.Row]] = {}
        for row in rows:
            owed.setdefault(row["endpoint"], []).append(row)
        for endpoint, batch in owed.items():
            with self._lock:
                if endpoint in self._busy or self._stop.is_set():
                    continue
                self._busy.add(endpoint)
            self._senders.submit(self._deliver, endpoint, batch)

    def _deliver(self, endpoint: str, batch: list[sqlite3.Row]) -> None:
        try:
            with requests.Session() as session:
                session.trust_env = False
                for row in batch:
                    if self._stop.is_set() or self._store.settings["webhooks_paused"]:
                        break
                    for _ in range(int(self._store.settings["webhooks_copies"]) - 1):
                        self._send(session, row)
                    self._note(row, self._send(session, row))
        finally:
            with self._lock:
                self._busy.discard(endpoint)
            self._due.set()

    def _send(self, session: requests.Session, row: sqlite3.Row) -> str:
        """Post one event, signed now; returns the status, or what stopped it."""
        payload = json.dumps(render.event(row, 1, row["account"] if row["connect"] else None), indent=2).encode()
        stamp = int(time.time()) + int(self._store.settings["webhooks_clock_skew_seconds"])
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Stripe-Signature": signature(payload, json.loads(row["secrets"]), stamp),
            "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
        }
        try:
            answer = session.post(
                row["url"], data=payload, headers=headers, timeout=_TIMEOUT_SECONDS, allow_redirects=False
            )
        except requests.RequestException as error:
            return type(error).__name__
        return str(answer.status_code)

    def _note(self, row: sqlite3.Row, answer: str) -> None:
        settings = self._store.settings
        attempts = row["attempts"] + 1
        state = "delivered" if answer.startswith("2") else "waiting"
        if state == "waiting" and attempts >= int(settings["webhooks_tries"]):
            state = "given_up"
        pause = min(float(settings["webhooks_retry_seconds"]) * 2 ** (attempts - 1), _LONGEST_PAUSE_SECONDS)
        with self._store.write() as db:
            db.execute(
                "update deliveries set attempts = ?, state = ?, due = ?, answer = ? where seq = ?",
                (attempts, state, time.time() + pause, answer, row["delivery"]),
            )
