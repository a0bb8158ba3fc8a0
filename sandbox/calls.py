"""One request under /v1, and the person or program something is done for."""

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from sandbox.errors import missing


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something: an API call (with its request id and key), or a person at the dashboard (with neither)."""

    account: str
    now: int
    request_id: str | None = None
    key: str | None = None
    origin: str = "api"


@dataclass(slots=True)
class Call:
    """One request: its parameters, the ids in its path, and what is queued to happen to it."""

    actor: Actor
    path: str
    params: dict[str, Any]
    ids: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    """What a queued state asks of this one request: ``status``, ``failure_reason``, ``pending_reason``, …"""

    @property
    def account(self) -> str:
        return self.actor.account

    @property
    def now(self) -> int:
        return self.actor.now


TABLES = {
    "payment_intent": ("payments", "id"),
    "charge": ("payments", "charge"),
    "refund": ("refunds", "id"),
    "dispute": ("disputes", "id"),
    "event": ("events", "id"),
    "balance_transaction": ("balance_transactions", "id"),
}


def find(db: sqlite3.Connection, account: str, what: str, identifier: str, param: str | None = None) -> sqlite3.Row:
    """The row of an object of this account. Raises ``ProviderError`` 404 ``resource_missing``."""
    table, column = TABLES[what]
    row = db.execute(
        f"select * from {table} where {column} = ? and account = ?",  # noqa: S608 - constants above
        (identifier, account),
    ).fetchone()
    if row is None:
        raise missing(what, identifier, param or what)
    return row  # type: ignore[no-any-return]
