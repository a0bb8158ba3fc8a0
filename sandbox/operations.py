"""The calls the sandbox serves: method and path, the parameters they take, what runs."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

from sandbox import accounts, balance, charges, disputes, events, payments, refunds
from sandbox.calls import Call
from sandbox.errors import no_route
from sandbox.forms import EXPAND, Check
from sandbox.render import Body


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of Stripe's interface. ``locks``: it holds its charge while it runs (§6)."""

    name: str
    takes: dict[str, Check]
    run: Callable[[sqlite3.Connection, Call], Body]
    locks: bool = False


_INTENT, _REFUND, _CHARGE = "/v1/payment_intents", "/v1/refunds", "/v1/charges"
OPERATIONS: dict[str, Operation] = {
    f"POST {_INTENT}": Operation("payment_intents.create", payments.CREATE, payments.create),
    f"GET {_INTENT}": Operation("payment_intents.list", payments.LIST, payments.list_all),
    f"GET {_INTENT}/{{}}": Operation("payment_intents.retrieve", EXPAND, payments.retrieve),
    f"POST {_INTENT}/{{}}": Operation("payment_intents.update", payments.UPDATE, payments.update),
    f"POST {_INTENT}/{{}}/confirm": Operation("payment_intents.confirm", payments.CONFIRM, payments.confirm, True),
    f"POST {_INTENT}/{{}}/capture": Operation("payment_intents.capture", payments.CAPTURE, payments.capture, True),
    f"POST {_INTENT}/{{}}/cancel": Operation("payment_intents.cancel", payments.CANCEL, payments.cancel, True),
    f"GET {_CHARGE}": Operation("charges.list", charges.LIST, charges.list_all),
    f"GET {_CHARGE}/{{}}": Operation("charges.retrieve", EXPAND, charges.retrieve),
    f"POST {_CHARGE}/{{}}": Operation("charges.update", charges.UPDATE, charges.update),
    f"POST {_REFUND}": Operation("refunds.create", refunds.CREATE, refunds.create, True),
    f"GET {_REFUND}": Operation("refunds.list", refunds.LIST, refunds.list_all),
    f"GET {_REFUND}/{{}}": Operation("refunds.retrieve", EXPAND, refunds.retrieve),
    f"POST {_REFUND}/{{}}": Operation("refunds.update", refunds.UPDATE, refunds.update),
    f"POST {_REFUND}/{{}}/cancel": Operation("refunds.cancel", EXPAND, refunds.cancel),
    "GET /v1/disputes": Operation("disputes.list", disputes.LIST, disputes.list_all),
    "GET /v1/disputes/{}": Operation("disputes.retrieve", EXPAND, disputes.retrieve),
    "GET /v1/events": Operation("events.list", events.LIST, events.list_all),
    "GET /v1/events/{}": Operation("events.retrieve", EXPAND, events.retrieve),
    "GET /v1/balance_transactions": Operation("balance_transactions.list", balance.LIST, balance.list_all),
    "GET /v1/balance_transactions/{}": Operation("balance_transactions.retrieve", EXPAND, balance.retrieve),
    "GET /v1/balance": Operation("balance.retrieve", EXPAND, balance.total),
    "GET /v1/account": Operation("account.retrieve", EXPAND, accounts.retrieve),
}


def operation(method: str, path: str) -> tuple[Operation, tuple[str, ...]]:
    """The operation at an address and the ids in it. Raises ``ProviderError`` 404."""
    version, *parts = path.strip("/").split("/")
    shape = "/".join(["", version, *("{}" if place == 1 else part for place, part in enumerate(parts))])
    found = OPERATIONS.get(f"{method} {shape}")
    if found is None:
        raise no_route(method, path)
    return found, tuple(unquote(part) for part in parts[1:2])
