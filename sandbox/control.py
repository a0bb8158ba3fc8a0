"""``/_sandbox/…`` in JSON or plain forms: money, calls, faults, states, clock, settings, accounts, webhook endpoints.

No key is asked for: the server listens on the loopback address and takes no cross-site posts.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qsl

from sandbox import bulk, disputes, money, page, refunds
from sandbox.calls import Actor, find
from sandbox.errors import ProviderError, missing, not_valid
from sandbox.faults import KINDS, STAGE_OF
from sandbox.provider import Provider
from sandbox.webhooks import Webhooks
from sandbox.wire import Reply, Request

Wishes = dict[str, Any]


class Control:
    """The sandbox's own interface, beside the provider it steers."""

    def __init__(self, provider: Provider, webhooks: Webhooks) -> None:
        self.provider = provider
        self.store = provider.store
        self.webhooks = webhooks
        self._routes: dict[str, Callable[[Wishes], Any]] = {
            "GET health": lambda _: {"ready": True},
            "GET money": self.money,
            "GET requests": self.requests,
            "POST requests/clear": self.clear_requests,
            "POST payments": self.create_payments,
            "GET faults": self.list_faults,
            "POST faults": self.queue_fault,
            "POST faults/drop": self.drop_faults,
            "GET clock": lambda _: {"now": self.store.now()},
            "POST clock": self.move_clock,
            "GET settings": lambda _: dict(self.store.settings),
            "POST settings": self.change_settings,
            "POST reset": self.reset,
            "POST refunds": self.dashboard_refund,
            "POST refunds/status": self.change_refund,
            "POST disputes": self.open_dispute,
            "POST disputes/close": self.close_dispute,
            "GET accounts": lambda _: {"accounts": provider.accounts.listed()},
            "POST accounts": self.connect_account,
            "GET endpoints": lambda _: {"endpoints": webhooks.endpoints()},
            "POST endpoints": self.set_endpoint,
            "POST endpoints/drop": self.drop_endpoints,
            "GET deliveries": lambda wishes: {"deliveries": webhooks.deliveries(wishes.get("state"))},
            "POST deliveries/now": lambda _: {"due": webhooks.hurry()},
            "POST events/resend": lambda wishes: {"queued": webhooks.resend(str(wishes.get("event", "")))},
        }

    def answer(self, request: Request) -> Reply:
        """Answer one call under /_sandbox. A browser's form is sent back to the page."""
        from_form = request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        try:
            if request.method != "GET" and not _same_site(request.headers):
                raise not_valid("The sandbox takes no posts from other sites.")
            name = request.path.removeprefix("/_sandbox").strip("/")
            if name == "" and request.method in ("GET", "HEAD"):
                return page.show(self.provider, self.webhooks)
            call = self._routes.get(f"{request.method} {name}")
            if call is None:
                raise not_valid(f"No such call. There are: {', '.join(sorted(self._routes))}.")
            answer = call(_wishes(request, from_form))
        except ProviderError as error:
            body = {"error": error.error["message"], "param": error.error.get("param")}
            return Reply(error.status, json.dumps(body).encode(), {"Content-Type": "application/json"})
        if from_form:
            return Reply(303, b"", {"Location": "/_sandbox/"})
        return Reply(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _account(self, wishes: Wishes) -> str | None:
        return self.provider.accounts.named(wishes.get("account"))

    def money(self, wishes: Wishes) -> Any:
        """``payment_intent``, ``account`` → per payment and per currency; ``totals`` alone: only the sums."""
        account = self._account(wishes)
        with self.store.read() as db:
            if wishes.get("totals"):
                condition, values = ("account = ?", [account]) if account else ("1", [])
                return {"totals": money.totals(db, condition, values)}
            found = money.held(db, account, wishes.get("payment_intent"))
        if wishes.get("payment_intent") and not found["payments"]:
            raise missing("payment_intent", wishes["payment_intent"], "payment_intent")
        return found

    def requests(self, wishes: Wishes) -> Any:
        account = self._account(wishes)
        asked = {name: wishes.get(name) for name in ("method", "path", "key")}
        calls = self.provider.journal.listed(account, **asked, limit=int(wishes.get("limit", 10_000)))
        return {"requests": calls, "count": len(calls)}

    def clear_requests(self, _: Wishes) -> Any:
        self.provider.journal.clear()
        return {"cleared": True}

    def create_payments(self, wishes: Wishes) -> Any:
        account = self._account(wishes)
        wanted = wishes.get("payments")
        if account is None or not isinstance(wanted, list):
            raise not_valid("Give account (a test key or account id) and payments, a list.", "payments")
        with self.store.write() as db:
            return {"payments": bulk.create(db, account, wanted, self.store.now())}

    def list_faults(self, wishes: Wishes) -> Any:
        waiting = self.provider.faults.waiting(self._account(wishes))
        return {"faults": [asdict(fault) for fault in waiting], "kinds": KINDS}

    def queue_fault(self, wishes: Wishes) -> Any:
        kind = str(wishes.get("kind", ""))
        if kind not in STAGE_OF:
            raise not_valid(f"kind is one of {', '.join(STAGE_OF)}.", "kind")
        fixed = ("account", "kind", "method", "path", "payment_intent", "charge", "count", "skip", "options")
        options = dict(wishes.get("options") or {}) | {name: wishes[name] for name in wishes if name not in fixed}
        matching = {name: wishes.get(name) or None for name in ("method", "path", "payment_intent", "charge")}
        counts = {"count": int(wishes.get("count") or 1), "skip": int(wishes.get("skip") or 0)}
        return asdict(
            self.provider.faults.queue(kind, account=self._account(wishes), options=options, **matching, **counts)
        )

    def drop_faults(self, wishes: Wishes) -> Any:
        seq = int(wishes["seq"]) if wishes.get("seq") else None
        return {"dropped": self.provider.faults.drop(seq, self._account(wishes))}

    def move_clock(self, wishes: Wishes) -> Any:
        """``advance_seconds`` adds to the clock; ``now`` sets it."""
        offset = float(self.store.settings["clock_offset_seconds"]) + float(wishes.get("advance_seconds") or 0)
        if wishes.get("now"):
            offset += float(wishes["now"]) - self.store.moment()
        self.store.change_settings({"clock_offset_seconds": offset})
        self.apply_due()
        return {"now": self.store.now()}

    def apply_due(self) -> int:
        """Make the refund changes whose time has come on the sandbox's clock."""
        with self.store.read() as db:
            due = db.execute("select 1 from refunds where next_at <= ? limit 1", (self.store.now(),)).fetchone()
        if not due:
            return 0
        with self.store.write() as db:
            made = refunds.apply_due(db, self.store.now())
        self.webhooks.wake()
        return made

    def change_settings(self, wishes: Wishes) -> Any:
        changes = {name: _number(value) for name, value in wishes.items()}
        try:
            self.store.change_settings(changes)
        except KeyError as error:
            names = ", ".join(sorted(self.store.settings))
            raise not_valid(f"No such setting: {error.args[0]}. There are: {names}.") from error
        self.webhooks.wake()
        return dict(self.store.settings)

    def reset(self, _: Wishes) -> Any:
        self.provider.faults.drop()
        self.provider.journal.clear()
        self.store.empty()
        return {"reset": True}

    def _dashboard(self, account: str) -> Actor:
        return Actor(account, self.store.now(), origin="dashboard")

    def dashboard_refund(self, wishes: Wishes) -> Any:
        """A refund made by a person at the provider: no metadata of ours, no key. ``amount`` absent: the remainder."""
        with self.store.write() as db:
            payment = self._payment(db, wishes)
            amount = int(wishes["amount"]) if wishes.get("amount") else None
            amount = refunds.refundable_amount(payment, amount)
            made = refunds.make(db, self._dashboard(payment["account"]), payment, amount, {}, {})
        self.webhooks.wake()
        return made

    def change_refund(self, wishes: Wishes) -> Any:
        """``refund``, ``status`` (succeeded, failed, canceled, pending), ``reason``: also the late failure."""
        with self.store.write() as db:
            refund = _any_account(db, "refunds", "id", wishes.get("refund"), "refund")
            actor, reason = self._dashboard(refund["account"]), wishes.get("reason") or None
            changed = refunds.change_status(db, actor, refund, str(wishes.get("status")), reason)
        self.webhooks.wake()
        return changed

    def _payment(self, db: Any, wishes: Wishes) -> Any:
        if wishes.get("charge"):
            return _any_account(db, "payments", "charge", wishes["charge"], "charge")
        return _any_account(db, "payments", "id", wishes.get("payment_intent"), "payment_intent")

    def open_dispute(self, wishes: Wishes) -> Any:
        """``payment_intent`` or ``charge``, ``inquiry`` (else formal), ``amount`` (else all captured), ``reason``."""
        with self.store.write() as db:
            payment = self._payment(db, wishes)
            amount = int(wishes.get("amount") or payment["amount_captured"])
            inquiry, reason = bool(_number(wishes.get("inquiry"))), str(wishes.get("reason") or "fraudulent")
            actor = self._dashboard(payment["account"])
            opened = disputes.open_one(db, actor, payment, amount, inquiry=inquiry, reason=reason)
        self.webhooks.wake()
        return opened

    def close_dispute(self, wishes: Wishes) -> Any:
        with self.store.write() as db:
            dispute = _any_account(db, "disputes", "id", wishes.get("dispute"), "dispute")
            actor = self._dashboard(dispute["account"])
            closed = disputes.close_one(db, actor, dispute, str(wishes.get("outcome")))
        self.webhooks.wake()
        return closed

    def connect_account(self, wishes: Wishes) -> Any:
        """``platform`` (a key or account id) from now on reaches ``account`` by Stripe-Account."""
        platform, account = self.provider.accounts.named(wishes.get("platform")), str(wishes.get("account", ""))
        if not platform or not account.startswith("acct_"):
            raise not_valid("Give platform (its test key) and account (acct_…).", "account")
        self.provider.accounts.connect(platform, account)
        return {"platform": platform, "account": account}

    def set_endpoint(self, wishes: Wishes) -> Any:
        secrets = wishes.get("secrets") or [wishes.get("secret")]
        account = self._account(wishes)
        if account is None or not wishes.get("url") or not all(secrets):
            raise not_valid("Give account (its test key), url and secret or secrets.", "url")
        connect = bool(_number(wishes.get("connect")))
        return self.webhooks.set_endpoint(account, str(wishes["url"]), [str(one) for one in secrets], connect=connect)

    def drop_endpoints(self, wishes: Wishes) -> Any:
        return {"dropped": self.webhooks.drop_endpoints(self._account(wishes))}


def _any_account(db: Any, table: str, column: str, value: Any, what: str) -> Any:
    row = db.execute(f"select * from {table} where {column} = ?", (value,)).fetchone()  # noqa: S608 - constants
    if row is None:
        raise missing(what, str(value), what)
    return row


def _number(value: Any) -> Any:
    """A form's word as JSON would have it: ``true``, ``3``, ``0.5``; other words stay."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _wishes(request: Request, from_form: bool) -> Wishes:
    if request.method == "GET" or from_form:
        text = request.body.decode() if from_form else request.query
        return {name: value for name, value in parse_qsl(text, keep_blank_values=True) if value != ""}
    try:
        wishes = json.loads(request.body or b"{}")
    except ValueError as error:
        raise not_valid(f"The body is no JSON: {error}") from error
    if not isinstance(wishes, dict):
        raise not_valid("The body is a JSON object.")
    return wishes


def _same_site(headers: dict[str, str]) -> bool:
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")
