"""Money back with the goods kept, and exchanges, as a person at the counter records them."""

import itertools
from typing import Any

from sqlalchemy import RowMapping

from ledger.allowances import AllowanceRequest, Given, open_allowance
from ledger.database import first, transaction
from ledger.room import OrderRoom, read_room
from tests import lives
from tests.orders import Order
from tests.stack import Stack
from tests.world import World, usual_policy

_numbers = itertools.count(1)


def generous_policy(**more: Any) -> dict[str, Any]:
    """Half of a unit's price for keeping it, which stays open; lower prices for ten years; goodwill up to 20.00; exchanges."""
    return usual_policy("harbour-usual") | {
        "keep_item": {"max_bps": 5000, "closes_unit": False},
        "price_adjust": {"days": 3650},
        "goodwill": {"max_minor": {"GBP": 20_00, "EUR": 20_00}},
        "exchange": {"allowed": True},
        **more,
    }


def asked(world: World, order: Order, kind: str, line: str, minor: int, **changes: Any) -> AllowanceRequest:
    usual = {
        "order_id": order.order_id, "kind": kind, "line_ref": line, "minor": minor, "currency": order.currency,
        "entry": "gross", "reason": "other", "actor": world.priya.actor, "reference": f"call-{next(_numbers)}",
    }  # fmt: skip
    return AllowanceRequest(**{**usual, **changes})


def give(stack: Stack, world: World, order: Order, kind: str, line: str, minor: int, **changes: Any) -> Given:
    """Priya records it."""
    with transaction(stack.console, world.merchant_id) as db:
        return open_allowance(db, world.merchant_id, asked(world, order, kind, line, minor, **changes))


def intent_of(stack: Stack, world: World, given: Given) -> RowMapping:
    """The one refund it asks for."""
    (row,) = [one for one in lives.intents(stack, world, given.case_id) if one["state"] != "withdrawn"]
    return row


def room_of(stack: Stack, world: World, order: Order) -> OrderRoom:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return read_room(db, world.merchant_id, order.order_id)


def record_of(stack: Stack, world: World, case_id: Any) -> dict[str, Any]:
    """The newest entitlement of a case."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        row = first(
            db, "SELECT record FROM entitlements WHERE merchant_id = :m AND case_id = :c ORDER BY n DESC LIMIT 1",
            m=world.merchant_id, c=case_id,
        )  # fmt: skip
    assert row is not None
    return dict(row["record"])
