"""The Python face of ``/_sandbox``: start a sandbox, put money in it, make things go wrong, ask what is held.

>>> with running("build/sandbox.sqlite") as sandbox:
...     paid = sandbox.create_payment(1000, "gbp")
...     sandbox.fault("lose_reply", path="/v1/refunds")
...     sandbox.money(paid["payment_intent"])["refunded"]

Amounts are whole minor units. Imports nothing of the server, only ``requests``.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

DEFAULT_KEY = "sk_test_sandbox"
_TIMEOUT_SECONDS = 60
_BATCH = 5_000


class SandboxRefusedError(Exception):
    """The sandbox did not take a control call; the message says what it wants instead."""


class SandboxClient:
    """Controls of one sandbox, in the name of one account (``secret_key``) unless a call names another."""

    def __init__(self, base_url: str, secret_key: str = DEFAULT_KEY) -> None:
        self.base_url = base_url.rstrip("/")
        self.secret_key = secret_key
        self._session = requests.Session()
        self._session.trust_env = False

    def _get(self, name: str, **asked: Any) -> Any:
        wanted = {key: value for key, value in asked.items() if value is not None}
        url = f"{self.base_url}/_sandbox/{name}"
        return self._read(self._session.get(url, params=wanted, timeout=_TIMEOUT_SECONDS))

    def _post(self, name: str, **wishes: Any) -> Any:
        wanted = {key: value for key, value in wishes.items() if value is not None}
        url = f"{self.base_url}/_sandbox/{name}"
        return self._read(self._session.post(url, json=wanted, timeout=_TIMEOUT_SECONDS))

    @staticmethod
    def _read(answer: requests.Response) -> Any:
        body = answer.json()
        if answer.status_code != 200:
            raise SandboxRefusedError(body.get("error"))
        return body

    def create_payment(self, amount: int, currency: str = "gbp", **more: Any) -> dict[str, Any]:
        """One paid payment → ``{payment_intent, charge, amount, currency, created}``."""
        return self.create_payments([{"amount": amount, "currency": currency, **more}])[0]

    def create_payments(self, payments: list[dict[str, Any]], account: str | None = None) -> list[dict[str, Any]]:
        """Many paid payments, in order. Each: ``amount``, ``currency`` and, if wished, ``created`` (Unix seconds),
        ``brand``, ``last4``, ``exp_month``, ``exp_year``, ``metadata``, ``description``, ``customer``, ``email``."""
        made: list[dict[str, Any]] = []
        for start in range(0, len(payments), _BATCH):
            batch = payments[start : start + _BATCH]
            made += self._post("payments", account=account or self.secret_key, payments=batch)["payments"]
        return made

    def money(self, payment_intent: str) -> dict[str, Any]:
        """What is held for one payment: ``captured, refunded, refund_count, disputed, refunds[…]``, minor units."""
        payment: dict[str, Any] = self._get("money", payment_intent=payment_intent)["payments"][0]
        return payment

    def all_money(self, account: str | None = None) -> dict[str, Any]:
        """``{"payments": [...], "totals": [...]}`` of an account, or of all."""
        found: dict[str, Any] = self._get("money", account=account)
        return found

    def totals(self, account: str | None = None) -> dict[str, dict[str, int]]:
        """Per currency: ``payments, captured, refunds, refunded, came_to_nothing``."""
        rows = self._get("money", account=account, totals=1)["totals"]
        return {row.pop("currency"): row for row in rows}

    def requests(self, **asked: Any) -> list[dict[str, Any]]:
        """Calls received under /v1 in order; filters ``account, method, path`` (prefix)``, key, limit``."""
        calls: list[dict[str, Any]] = self._get("requests", **asked)["requests"]
        return calls

    def clear_requests(self) -> None:
        self._post("requests/clear")

    def fault(self, kind: str, **wishes: Any) -> dict[str, Any]:
        """Queue a fault: ``count, skip, method, path`` (prefix)``, payment_intent, charge, account``; the rest are the
        options of its kind (``ms``, ``reset``, ``failure_reason``, ``after_seconds``, ``seconds``, …)."""
        queued: dict[str, Any] = self._post("faults", kind=kind, **wishes)
        return queued

    def faults(self) -> list[dict[str, Any]]:
        """Faults still waiting for a call."""
        waiting: list[dict[str, Any]] = self._get("faults")["faults"]
        return waiting

    def drop_faults(self, seq: int | None = None) -> None:
        """Take one fault out of the queue, or all of them."""
        self._post("faults/drop", seq=seq)

    def now(self) -> int:
        """The sandbox's clock, Unix seconds."""
        return int(self._get("clock")["now"])

    def advance(self, seconds: float) -> int:
        """Move the clock on; what falls due meanwhile happens. Returns the new time."""
        return int(self._post("clock", advance_seconds=seconds)["now"])

    def set_clock(self, now: float) -> int:
        return int(self._post("clock", now=now)["now"])

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Change settings and read them all: see ``store.DEFAULTS`` for the names."""
        found: dict[str, Any] = self._post("settings", **changes) if changes else self._get("settings")
        return found

    def reset(self) -> None:
        """Empty the sandbox."""
        self._post("reset")

    def keep(self) -> None:
        """Remember everything as it is now."""
        self._post("keep")

    def put_back(self) -> None:
        """Make everything what it was when it was kept last."""
        self._post("put-back")

    def dashboard_refund(self, payment_intent: str, amount: int | None = None) -> dict[str, Any]:
        """A refund by a person at the provider, without our metadata."""
        made: dict[str, Any] = self._post("refunds", payment_intent=payment_intent, amount=amount)
        return made

    def change_refund(self, refund: str, status: str, reason: str | None = None) -> dict[str, Any]:
        """Settle a pending refund, fail a succeeded one late, cancel one at the dashboard."""
        changed: dict[str, Any] = self._post("refunds/status", refund=refund, status=status, reason=reason)
        return changed

    def open_dispute(self, payment_intent: str, *, inquiry: bool = False, **more: Any) -> dict[str, Any]:
        opened: dict[str, Any] = self._post("disputes", payment_intent=payment_intent, inquiry=inquiry, **more)
        return opened

    def escalate_dispute(self, dispute: str) -> dict[str, Any]:
        """An open inquiry becomes a formal dispute of the same id."""
        formal: dict[str, Any] = self._post("disputes/escalate", dispute=dispute)
        return formal

    def close_dispute(self, dispute: str, outcome: str) -> dict[str, Any]:
        """``won``, ``lost``, or ``warning_closed`` for an inquiry."""
        closed: dict[str, Any] = self._post("disputes/close", dispute=dispute, outcome=outcome)
        return closed

    def connect_account(self, account: str, platform: str | None = None) -> dict[str, Any]:
        """Let a platform's key reach ``account`` by Stripe-Account."""
        joined: dict[str, Any] = self._post("accounts", account=account, platform=platform or self.secret_key)
        return joined

    def pay_out(self, account: str, amount: int, currency: str = "gbp") -> None:
        """A connected account pays its balance out; what it then lacks it cannot give back."""
        self._post("accounts/payout", account=account, amount=amount, currency=currency)

    def set_webhook(self, url: str, *secrets: str, account: str | None = None, connect: bool = False) -> dict[str, Any]:
        """Send an account's events to ``url``, signed with each secret."""
        wishes = {"account": account or self.secret_key, "url": url, "secrets": list(secrets), "connect": connect}
        endpoint: dict[str, Any] = self._post("endpoints", **wishes)
        return endpoint

    def drop_webhooks(self) -> None:
        self._post("endpoints/drop")

    def deliveries(self, state: str | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("deliveries", state=state)["deliveries"]
        return found

    def deliver_now(self) -> int:
        """Make every waiting delivery due."""
        return int(self._post("deliveries/now")["due"])

    def resend_event(self, event: str) -> int:
        return int(self._post("events/resend", event=event)["queued"])


class Running(SandboxClient):
    """A sandbox process started here."""

    def __init__(
        self, db: str | Path, port: int = 0, secret_key: str = DEFAULT_KEY, latency_ms: float | None = None
    ) -> None:
        self.db = str(db)
        command = [sys.executable, "-m", "sandbox", "--port", str(port), "--db", self.db]
        if latency_ms is not None:
            command += ["--latency-ms", str(latency_ms)]
        root = str(Path(__file__).resolve().parents[1])
        environment = {**os.environ, "PYTHONPATH": root}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line.startswith("sandbox ready on "):
            self.process.wait()
            raise SandboxRefusedError(f"The sandbox did not start on {self.db}: see its message above.")
        super().__init__(line.split()[3], secret_key)

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    def kill(self) -> None:
        """``kill -9``, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self._gone()

    def stop(self) -> None:
        """Ask it to end and wait."""
        self.process.terminate()
        self._gone()

    def _gone(self) -> None:
        self.process.wait(timeout=15)
        if self.process.stdout:
            self.process.stdout.close()
        self._session.close()


@contextmanager
def running(db: str | Path, **options: Any) -> Iterator[Running]:
    """A sandbox for the length of a block."""
    sandbox = Running(db, **options)
    try:
        yield sandbox
    finally:
        if sandbox.process.poll() is None:
            sandbox.stop()
