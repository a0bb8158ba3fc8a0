"""One call under /v1 from its bytes to its reply, in the order Stripe does it (§3):

key → door (rate limits, outages) → idempotency → parameters → the charge's lock → the operation → reply.
"""

import base64
import binascii
import time
from typing import Any

from sandbox import errors, refunds
from sandbox.accounts import Accounts
from sandbox.calls import Actor, Call
from sandbox.errors import ProviderError
from sandbox.expand import expand
from sandbox.faults import Fault, Faults, Target
from sandbox.forms import checked, decode
from sandbox.idempotency import Kept, Keys, fingerprint
from sandbox.ids import new_id
from sandbox.journal import Entry, Journal
from sandbox.locks import ObjectLocks, Rates
from sandbox.operations import Operation, operation
from sandbox.render import compact
from sandbox.replies import at_the_door, spoil, state_options
from sandbox.store import Store
from sandbox.wire import Reply, Request

VERSION = "2026-10-28.endive"


class Exchange:
    """One call while it is answered."""

    def __init__(self, request: Request, request_id: str) -> None:
        self.request = request
        self.request_id = request_id
        self.key = (request.headers.get("idempotency-key") or None) if request.method == "POST" else None
        self.text = request.query
        if request.body:
            self.text = "&".join(filter(None, (request.query, request.body.decode("utf-8", "replace"))))
        self.words: list[str] = []
        self.target: Target | None = None

    @property
    def outcome(self) -> str:
        """``done``, or what became of the call instead: ``replayed``, an error's code, the faults it met."""
        return " ".join(self.words) or "done"

    def headers(self) -> dict[str, str]:
        asked = self.request.headers
        found = {
            "Content-Type": "application/json",
            "Request-Id": self.request_id,
            "Stripe-Version": asked.get("stripe-version", VERSION),
        }
        if self.key:
            found["Idempotency-Key"] = self.key
        if "stripe-account" in asked:
            found["Stripe-Account"] = asked["stripe-account"]
        return found


class Provider:
    """Everything behind /v1."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.accounts = Accounts(store)
        self.faults = Faults(store)
        self.journal = Journal(store)
        self.keys = Keys(store)
        self.locks = ObjectLocks()
        self.rates = Rates()

    def answer(self, request: Request) -> Reply:
        """Answer one call and write it into the journal."""
        exchange = Exchange(request, new_id("req_", 14))
        entry = self.journal.arrived(
            request.method,
            request.path,
            request.query,
            exchange.key,
            request.body,
            exchange.request_id,
            request.headers.get("traceparent"),
        )
        reply = Reply(0, b"", lost="close")
        try:
            reply = self._answer(exchange, entry)
        finally:
            self.journal.over(entry, None if reply.lost else reply.status, exchange.outcome)
        return reply

    def _answer(self, exchange: Exchange, entry: Entry) -> Reply:
        try:
            secret = _secret(exchange.request.headers.get("authorization", ""))
            entry.account = self.accounts.reached(secret, exchange.request.headers.get("stripe-account"))
            served, ids = operation(exchange.request.method, exchange.request.path)
            call = Call(
                Actor(entry.account, self.store.now(), exchange.request_id, exchange.key),
                exchange.request.path,
                decode(exchange.text),
                ids,
            )
            exchange.target = self._target(exchange.request, call, entry.started)
            fault = self._meet(exchange, "door")
            if fault:
                reply = at_the_door(fault, exchange.key)
                return Reply(reply.status, reply.body, exchange.headers() | reply.headers, reply.lost)
            most = int(self.store.settings["refunds_per_second"])
            if most and served.run is refunds.create:
                self.rates.count(call.account, most)
            reply = self._with_key(exchange, served, call)
        except ProviderError as error:
            exchange.words.append(error.error.get("code") or error.error["type"])
            body = _encoded(error.body(exchange.request_id))
            reply = Reply(error.status, body, error.headers)
        reply.headers = exchange.headers() | reply.headers
        fault = self._meet(exchange, "reply")
        return spoil(reply, fault) if fault else reply

    def _meet(self, exchange: Exchange, stage: str) -> Fault | None:
        if not self.faults.any or exchange.target is None:
            return None
        fault = self.faults.meet(stage, exchange.target)
        if fault:
            exchange.words.append(f"+{fault.kind}")
        return fault

    def _target(self, request: Request, call: Call, arrived: float) -> Target:
        intent, charge = _named(call, "payment_intent", "pi_"), _named(call, "charge", "ch_")
        if self.faults.by_object or (charge and not intent):
            with self.store.read() as db:
                row = db.execute(
                    "select id, charge from payments where id = ? or charge = ? or id in"
                    " (select payment_intent from refunds where id = ?)",
                    (intent, charge, call.ids[0] if call.ids else None),
                ).fetchone()
            if row:
                intent, charge = row["id"], row["charge"]
        about = bool(call.ids or intent or charge)
        return Target(call.account, request.method, request.path, intent, charge, arrived, about)

    def _with_key(self, exchange: Exchange, served: Operation, call: Call) -> Reply:
        """Answer from the kept result, or run the operation and keep its result."""
        if exchange.key is None:
            self._wait(exchange, "wait_before")
            return self._act(exchange, served, call, "")
        print_ = fingerprint(exchange.request.method, exchange.request.path, exchange.text)
        kept = self.keys.claim(call.account, exchange.key, print_)
        if kept:
            exchange.words.append("replayed")
            again = {"Idempotent-Replayed": "true", "Original-Request": kept.request_id}
            return Reply(kept.status, kept.body, again)
        try:
            self._wait(exchange, "wait_before")
            return self._act(exchange, served, call, print_)
        finally:
            self.keys.release(call.account, exchange.key)

    def _act(self, exchange: Exchange, served: Operation, call: Call, print_: str) -> Reply:
        call.params = checked(call.params, served.takes)
        latency = float(self.store.settings["latency_ms"]) / 1000
        held = exchange.target.payment_intent if exchange.target and served.locks else None
        with self.locks.holding(held, float(self.store.settings["lock_wait_seconds"])):
            self._wait(exchange, "hold", latency)
            fault = self._meet(exchange, "act")
            if fault and fault.kind == "lock_timeout":
                raise errors.lock_timeout()
            if exchange.request.method == "GET":
                reply = self._read(served, call, fault)
            else:
                reply = self._change(exchange, served, call, print_, fault)
        self._wait(exchange, "wait_after")
        return reply

    def _read(self, served: Operation, call: Call, fault: Fault | None) -> Reply:
        if fault:
            raise errors.server_error(kept=False)
        with self.store.read() as db:
            body = served.run(db, call)
            expand(db, call.account, body, call.params.get("expand", []))
        return Reply(200, _encoded(body))

    def _change(self, exchange: Exchange, served: Operation, call: Call, print_: str, fault: Fault | None) -> Reply:
        """Run an operation that writes; its result is kept in the same transaction."""
        if served.run is refunds.create:
            call.options = state_options(self._meet(exchange, "state"), self._meet(exchange, "listing"))
            call.options.setdefault("lag_seconds", self.store.settings["list_lag_seconds"])
        with self.store.write() as db:
            try:
                if fault and fault.kind == "error_500_before":
                    raise errors.server_error()
                if fault and fault.kind == "refuse":
                    asked = fault.options
                    status, keep = int(asked.get("status", 400)), bool(asked.get("kept", True))
                    raise errors.refusal_asked_for(status, dict(asked.get("error", {})), kept=keep)
                body, status = served.run(db, call), 200
                expand(db, call.account, body, call.params.get("expand", []))
                if fault:
                    raise errors.server_error()
            except ProviderError as error:
                if not error.kept:
                    raise
                exchange.words.append(error.error.get("code") or error.error["type"])
                body, status = error.body(exchange.request_id), error.status
            payload = _encoded(body)
            if exchange.key:
                kept = Kept(status, payload, exchange.request_id)
                self.keys.keep(db, call.account, exchange.key, print_, call.now, kept)
        return Reply(status, payload)

    def _wait(self, exchange: Exchange, stage: str, least_seconds: float = 0.0) -> None:
        fault = self._meet(exchange, stage)
        seconds = least_seconds + (float(fault.options.get("ms", 1000)) / 1000 if fault else 0.0)
        if seconds:
            time.sleep(seconds)


def _named(call: Call, name: str, prefix: str) -> str | None:
    value = call.params.get(name)
    if not isinstance(value, str):
        value = call.ids[0] if call.ids and call.ids[0].startswith(prefix) else None
    return value


def _secret(authorization: str) -> str:
    """The key of ``Bearer KEY`` or of basic authentication with the key as user name."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return rest.strip() if scheme.lower() == "bearer" else ""


def _encoded(body: dict[str, Any]) -> bytes:
    return compact(body).encode()
