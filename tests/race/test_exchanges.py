"""Units that are kept for money or exchanged: two real connections in either order, and the same with the guard taken away."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from ledger.database import run, transaction
from ledger.ids import uuid7
from tests import lives
from tests.allowances import generous_policy
from tests.database import rows as put
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import World, build_world

GUARD = "DROP TRIGGER kept_or_exchanged ON intents"
WAITS = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
Write = Callable[[Connection], None]


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=generous_policy())


def asks_to_keep(stack: Stack, world: World, units: str, kind: str = "keep_item") -> UUID:
    """A case that gives something on these T-shirts, of which nothing is proposed yet; written past the ledger, which asks."""
    case_id = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        run(
            db, "INSERT INTO cases (merchant_id, case_id, order_id, customer_id, kind, reason, opened_by, channel, due_at,"
            " currency) VALUES (:m, :c, :o, :customer, :kind, 'other', :by, 'counter', now() + interval '14 days', 'GBP')",
            m=world.merchant_id, c=case_id, o=world.order.order_id, customer=world.order.customer_id, kind=kind,
            by=world.priya.actor,
        )  # fmt: skip
        run(
            db, "INSERT INTO case_asks (merchant_id, case_id, kind, order_id, line_id, line_quantity, units, minor, entry,"
            " asked_by) VALUES (:m, :c, :kind, :o, :l, 3, CAST(:units AS int4range), 500, 'gross', :by)", m=world.merchant_id,
            c=case_id, kind=kind, o=world.order.order_id, l=world.order.lines["TEE"], units=units, by=world.priya.actor,
        )  # fmt: skip
    return case_id


def keep(world: World, case_id: UUID, db: Connection) -> None:
    put.propose(db, world, case_id, 500)


def exchange(world: World, case_id: UUID, db: Connection) -> None:
    run(
        db, "INSERT INTO exchanges (merchant_id, case_id, wish, in_stock, policy_id, policy_version, recorded_by)"
        " VALUES (:m, :c, 'in large', true, :p, 1, :who)", m=world.merchant_id, c=case_id, p=world.policy_id, who=world.priya.actor,
    )  # fmt: skip


def second_of(stack: Stack, world: World, first: Write, second: Write) -> list[Any]:
    """What becomes of the second write, begun on a connection of its own while the first is not committed: "stored", or why not."""
    found: list[Any] = []

    def write() -> None:
        try:
            with transaction(stack.console, world.merchant_id) as db:
                second(db)
            found.append("stored")
        except IntegrityError as refused:
            found.append(str(refused.orig))

    thread = threading.Thread(target=write)
    with transaction(stack.console, world.merchant_id) as db:
        first(db)
        thread.start()
        until = time.monotonic() + 20
        while thread.is_alive() and not as_administrator(stack, WAITS):
            assert time.monotonic() < until, "it neither ended nor waits"
    thread.join()
    return found


# A unit whose price was adjusted first is still exchanged for the whole of it (decision 0025).
@pytest.mark.parametrize(
    ("kind", "kept_first"), [("keep_item", False), ("keep_item", True), ("price_adjustment", False)]
)
def test_units_are_kept_or_exchanged_in_either_order_and_without_the_guard_both(
    stack: Stack, world: World, kind: str, kept_first: bool
) -> None:
    for guarded in (True, False):
        opened = lives.open_case(stack, world, (("TEE", 1),), reference=f"chat-{guarded}", relation="separate")
        units = "[0,1)" if guarded else "[1,2)"
        writes = [
            partial(exchange, world, opened.case_id),
            partial(keep, world, asks_to_keep(stack, world, units, kind)),
        ]
        if not guarded:
            without(stack, GUARD)
        found = second_of(stack, world, *(reversed(writes) if kept_first else writes))
        assert [("stored" if one == "stored" else "kept or exchanged" in one) for one in found] == [guarded or "stored"]


def test_the_guard_lets_go_what_is_about_other_units(stack: Stack, world: World) -> None:
    opened = lives.open_case(stack, world, (("TEE", 1),))
    writes = [partial(exchange, world, opened.case_id), partial(keep, world, asks_to_keep(stack, world, "[1,3)"))]
    assert second_of(stack, world, *writes) == ["stored"]
