"""Whose key it is: every test key has an account of its own; a platform's key reaches the accounts joined to it."""

import sqlite3

from sandbox import errors
from sandbox.calls import Call
from sandbox.ids import account_id
from sandbox.render import Body
from sandbox.store import Store

_PREFIXES = ("sk_test_", "rk_test_")


class Accounts:
    """Accounts by key. ``sk_test_shop`` and ``rk_test_shop`` are two keys of one account, made when first seen."""

    def __init__(self, store: Store) -> None:
        self._store = store
        with store.read() as db:
            rows = db.execute("select id, platform from accounts").fetchall()
        self._platform_of: dict[str, str | None] = {row["id"]: row["platform"] for row in rows}
        self._by_secret: dict[str, str] = {}

    def of_secret(self, secret: str) -> str:
        """The account of a test key. Raises ``ProviderError`` 401 for anything else, live keys first of all."""
        known = self._by_secret.get(secret)
        if known:
            return known
        words = secret[len(_PREFIXES[0]) :]
        if not secret.startswith(_PREFIXES) or not words or not words.replace("_", "").isalnum():
            raise errors.bad_key(secret)
        account = account_id(secret)
        self._remember(account, f"…{secret[-4:]}", None)
        self._by_secret[secret] = account
        return account

    def reached(self, secret: str, connected: str | None) -> str:
        """The account a call works in, which ``Stripe-Account`` may name. Raises 401 or 403."""
        own = self.of_secret(secret)
        if connected is None or connected == own:
            return own
        if self._platform_of.get(connected) != own:
            raise errors.no_access(secret, connected)
        return connected

    def named(self, word: str | None) -> str | None:
        """The account meant by an account id or by one of its keys, as the controls take it."""
        if not word:
            return None
        return word if word.startswith("acct_") else self.of_secret(word)

    def connect(self, platform: str, account: str) -> None:
        """Join a connected account to a platform's."""
        self._remember(account, "connected", platform)

    def _remember(self, account: str, hint: str, platform: str | None) -> None:
        if account in self._platform_of and platform is None:
            return
        with self._store.write() as db:
            db.execute(
                "insert into accounts values (?, ?, ?, ?) on conflict (id) do update set platform = excluded.platform",
                (account, hint, platform, self._store.now()),
            )
        self._platform_of[account] = platform

    def listed(self) -> list[dict[str, str | None]]:
        with self._store.read() as db:
            rows = db.execute("select id, key_hint, platform from accounts order by created, id").fetchall()
        return [dict(row) for row in rows]


def retrieve(_db: sqlite3.Connection, call: Call) -> Body:
    """``GET /v1/account``: which account a key works in."""
    return {
        "id": call.account,
        "object": "account",
        "business_type": None,
        "charges_enabled": True,
        "country": "GB",
        "created": 0,
        "default_currency": "gbp",
        "details_submitted": True,
        "email": None,
        "payouts_enabled": True,
        "settings": {"dashboard": {"display_name": "Sandbox", "timezone": "Etc/UTC"}},
        "type": "standard",
    }
