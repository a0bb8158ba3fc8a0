"""``/_sandbox/…`` in JSON or plain forms: money, calls, faults, states, clock, settings, accounts, webhook endpoints.

No key is asked for: the server listens on the loopback address and takes no posts from other sites.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from sandbox import bulk, money, page, wishes
from sandbox.errors import ProviderError, missing, not_valid
from sandbox.faults import KINDS, STAGE_OF
from sandbox.provider import Provider
from sandbox.states import States
from sandbox.store import DEFAULTS
from sandbox.webhooks import Webhooks
from sandbox.wire import Reply, Request
from sandbox.wishes import Wishes

_FAULT_FIELDS = ("account", "kind", "method", "path", "payment_intent", "charge", "count", "skip", "options")


class Control:
    """The sandbox's own interface, beside the provider it steers."""

    def __init__(self, provider: Provider, webhooks: Webhooks) -> None:
        self.provider = provider
        self.store = provider.store
        self.webhooks = webhooks
        self.states = States(provider.store)
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
            "GET settings": lambda _: dict(self.store.settings),
            "POST settings": self.change_settings,
            "POST reset": self.reset,
            "POST keep": self.keep,
            "POST put-back": self.put_back,
            "GET accounts": lambda _: {"accounts": provider.accounts.listed()},
            "POST accounts": self.connect_account,
            "GET endpoints": lambda _: {"endpoints": webhooks.endpoints()},
            "POST endpoints": self.set_endpoint,
            "POST endpoints/drop": self.drop_endpoints,
            "GET deliveries": lambda asked: {"deliveries": webhooks.deliveries(asked.get("state"))},
            "POST deliveries/now": lambda _: {"due": webhooks.hurry()},
            "POST events/resend": lambda asked: {"queued": webhooks.resend(str(asked.get("event", "")))},
            **self.states.routes,
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
            answer = call(wishes.read(request, from_form=from_form))
        except ProviderError as error:
            if from_form:
                return page.refusal(error.status, str(error))
            return _json(error.status, {"error": str(error), "param": error.error.get("param")})
        return Reply(303, b"", {"Location": "/_sandbox/"}) if from_form else _json(200, answer)

    def _account(self, asked: Wishes) -> str | None:
        return self.provider.accounts.named(asked.get("account"))

    def money(self, asked: Wishes) -> Any:
        """``payment_intent``, ``account`` → per payment and per currency; ``totals``: only the sums."""
        account = self._account(asked)
        intent = asked.get("payment_intent")
        with self.store.read() as db:
            if asked.get("totals"):
                return {"totals": money.totals(db, account, intent)}
            found = money.held(db, account, intent)
        if intent and not found["payments"]:
            raise missing("payment_intent", intent, "payment_intent")
        return found

    def requests(self, asked: Wishes) -> Any:
        """``account``, ``method``, ``path`` (prefix), ``key``, ``limit`` → calls in the order of arrival."""
        matching = {name: asked.get(name) for name in ("method", "path", "key")}
        limit = wishes.whole(asked, "limit", 1)
        calls = self.provider.journal.listed(self._account(asked), **matching, limit=limit)
        return {"requests": calls, "count": len(calls)}

    def clear_requests(self, _: Wishes) -> Any:
        self.provider.journal.clear()
        return {"cleared": True}

    def create_payments(self, asked: Wishes) -> Any:
        """``account``, ``payments`` (a list, see ``bulk.create``); a form gives one: ``amount``, ``currency``."""
        account = self._account(asked)
        wanted = asked.get("payments")
        if "amount" in asked:
            wanted = [{"amount": wishes.whole(asked, "amount", 1), "currency": asked.get("currency", "gbp")}]
        if account is None or not isinstance(wanted, list):
            raise not_valid("Give account (a test key or account id) and payments, a list.", "payments")
        with self.store.write() as db:
            return {"payments": bulk.create(db, account, wanted, self.store.now())}

    def list_faults(self, asked: Wishes) -> Any:
        waiting = self.provider.faults.waiting(self._account(asked))
        return {"faults": [asdict(fault) for fault in waiting], "kinds": KINDS}

    def queue_fault(self, asked: Wishes) -> Any:
        """``kind``, whom it meets, ``count``, ``skip``, and the options of the kind beside them."""
        kind = str(asked.get("kind", ""))
        if kind not in STAGE_OF:
            raise not_valid(f"kind is one of {', '.join(STAGE_OF)}.", "kind")
        options = {name: wishes.loose(value) for name, value in asked.items() if name not in _FAULT_FIELDS}
        options |= dict(asked.get("options") or {})
        matching = {name: asked.get(name) or None for name in ("method", "path", "payment_intent", "charge")}
        count, skip = wishes.whole(asked, "count", 1) or 1, wishes.whole(asked, "skip") or 0
        account = self._account(asked)
        fault = self.provider.faults.queue(kind, count=count, skip=skip, options=options, account=account, **matching)
        return asdict(fault)

    def drop_faults(self, asked: Wishes) -> Any:
        return {"dropped": self.provider.faults.drop(wishes.whole(asked, "seq"), self._account(asked))}

    def change_settings(self, asked: Wishes) -> Any:
        """Names of ``store.DEFAULTS``; a value of another type than the default's is refused."""
        changes = {name: wishes.loose(value) for name, value in asked.items()}
        for name, value in changes.items():
            if name not in DEFAULTS:
                raise not_valid(f"No such setting: {name}. There are: {', '.join(sorted(DEFAULTS))}.", name)
            if isinstance(DEFAULTS[name], bool) != isinstance(value, bool) or not isinstance(value, (int, float)):
                kind = "true or false" if isinstance(DEFAULTS[name], bool) else "a number"
                raise not_valid(f"{name} is {kind}.", name)
        self.store.change_settings(changes)
        return dict(self.store.settings)

    def reset(self, _: Wishes) -> Any:
        """Forget payments, refunds, keys, events, endpoints, faults, calls and settings."""
        self.provider.faults.drop()
        self.provider.journal.clear()
        self.store.empty()
        return {"reset": True}

    def keep(self, _: Wishes) -> Any:
        """Remember payments, refunds, keys, events, endpoints, faults, calls and settings as they are now."""
        self.provider.journal.flush()
        self.store.keep()
        return {"kept": True}

    def put_back(self, _: Wishes) -> Any:
        """Make all of that what it was when it was kept last."""
        self.provider.journal.clear()
        try:
            self.store.put_back()
        except KeyError as error:
            raise not_valid("Nothing was kept: post to keep first.") from error
        self.provider.faults.read_again()
        return {"put_back": True}

    def connect_account(self, asked: Wishes) -> Any:
        """``platform`` (a key or account id) from now on reaches ``account`` by Stripe-Account."""
        platform, account = self.provider.accounts.named(asked.get("platform")), str(asked.get("account", ""))
        if not platform or not account.startswith("acct_"):
            raise not_valid("Give platform (its test key) and account (acct_…).", "account")
        self.provider.accounts.connect(platform, account)
        return {"platform": platform, "account": account}

    def set_endpoint(self, asked: Wishes) -> Any:
        """``account``, ``url``, ``secret`` or ``secrets``, ``connect``."""
        account, url = self._account(asked), str(asked.get("url", ""))
        secrets = asked.get("secrets") or [asked.get("secret")]
        if account is None or not url.startswith(("http://", "https://")) or not all(secrets):
            raise not_valid("Give account (its test key), url (http://…) and secret, or secrets.", "url")
        connect = wishes.flag(asked, "connect")
        return self.webhooks.set_endpoint(account, url, [str(one) for one in secrets], connect=connect)

    def drop_endpoints(self, asked: Wishes) -> Any:
        return {"dropped": self.webhooks.drop_endpoints(self._account(asked))}


def _json(status: int, body: Any) -> Reply:
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _same_site(headers: dict[str, str]) -> bool:
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")
