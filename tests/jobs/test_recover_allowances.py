"""S86 of money that was given with the goods kept: after an old backup was restored, what was paid comes off what returns pay."""

from dataclasses import dataclass
from typing import Any

import pytest

from ledger.errors import AlreadyRefunded
from ledger.recovered_units import read_kept
from sandbox.client import Running
from tests import lives
from tests.allowances import generous_policy, give, intent_of
from tests.jobs.test_recover import lets_everybody_in, run_recover, send
from tests.orders import Line, Order
from tests.refunds import Proposed as Sent
from tests.refunds import as_administrator, balances, paid_order, refunds_at
from tests.restores import back_up, forget, restore
from tests.stack import Stack
from tests.world import World, build_world

LINES = (Line("TEE", 3, 7470), Line("LAMP", 1, 5800), Line("POST", 1, 490, kind="shipping"))


@dataclass(frozen=True)
class Kept:
    """What was given, on what, and what a return of that line pays afterwards."""

    kind: str
    line: str
    minor: int
    later: int
    told: str
    more: dict[str, Any]


KEPT = {
    "money back with a T-shirt kept": Kept("keep_item", "TEE", 1245, 1245, "kept:TEE[0,1)", {}),
    "a price reduced for a defect": Kept(
        "price_reduction", "TEE", 1000, 1245, "kept:TEE[0,1)", {"conform_minor": 2000}
    ),
    "a lower price made good": Kept("price_adjustment", "TEE", 2000, 2000, "kept:TEE[0,1)", {}),
    "goodwill": Kept("goodwill", "LAMP", 1000, 4800, "kept:LAMP[0,0)", {}),
    "shipping alone": Kept("shipping_only", "POST", 490, 0, "kept:POST[0,0)", {}),
}


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=generous_policy())


def asked(stack: Stack, world: World, order: Order, kept: Kept) -> Sent:
    """Its one refund, proposed."""
    given = give(stack, world, order, kept.kind, kept.line, kept.minor, **kept.more)
    row = intent_of(stack, world, given)
    return Sent(given.case_id, row["intent_id"], row["payment_intent_ref"], row["charge_ref"], row["amount_minor"], row["currency"],
                row["provider_key"], order)  # fmt: skip


def comes_back(stack: Stack, world: World, order: Order, line: str) -> int:
    """What a return of one unit of the line pays."""
    opened = lives.open_case(stack, world, ((line, 1),), order_ref=order.external_ref, reference="chat-later")
    lives.arrive(stack, world, opened.case_id, (line, 1))
    return sum(row["amount_minor"] for row in lives.intents(stack, world, opened.case_id) if row["state"] == "proposed")


@pytest.mark.parametrize("what", KEPT)
@pytest.mark.parametrize("known", ["lost", "proposed", "approved"])
def test_what_was_given_after_the_backup_is_taken_up_and_comes_off_what_a_return_pays(
    stack: Stack, sandbox: Running, world: World, what: str, known: str
) -> None:
    """Of one that was proposed or approved in the backup, of another its case is lost: the provider's metadata is all there is."""
    kept, order = KEPT[what], paid_order(stack, world, sandbox, LINES)
    backup = back_up(stack) if known == "lost" else None
    one = asked(stack, world, order, kept)
    backup = back_up(stack) if known == "proposed" else backup
    lives.approve_as(stack, world, world.jonas, one.intent_id)
    backup = backup or back_up(stack)
    send(stack, sandbox, world)
    restore(stack, backup)

    done = run_recover(stack, sandbox, world)

    assert done.exit_code == 0, done.output
    assert f"harbour: 1 {'adopted' if known == 'approved' else 'rebuilt'}" in done.output
    assert balances(stack, one) == (order.total_minor - one.amount_minor, 0, one.amount_minor)
    (case,) = as_administrator(
        stack, "SELECT stage, closed_at IS NULL AS open FROM cases WHERE case_id = %s", one.case_id
    )
    assert case == {"stage": "paid", "open": False}
    assert as_administrator(stack, "SELECT 1 FROM external_refunds WHERE allocated_minor < amount_minor") == []
    lets_everybody_in(stack)
    if kept.later:
        assert comes_back(stack, world, order, kept.line) == kept.later
    assert refunds_at(sandbox, one) == 1
    assert run_recover(stack, sandbox, world).output.count("rebuilt") == 0
    forget(backup)


def test_units_that_money_for_keeping_them_closed_are_closed_again(stack: Stack, sandbox: Running) -> None:
    world = build_world(stack, policy=generous_policy(keep_item={"max_bps": 5000, "closes_unit": True}))
    order = paid_order(stack, world, sandbox, LINES)
    backup = back_up(stack)
    one = asked(stack, world, order, Kept("keep_item", "LAMP", 2900, 0, "LAMP[0,1)", {}))
    lives.approve_as(stack, world, world.jonas, one.intent_id)
    send(stack, sandbox, world)
    restore(stack, backup)
    assert "harbour: 1 rebuilt" in run_recover(stack, sandbox, world).output
    lets_everybody_in(stack)
    with pytest.raises(AlreadyRefunded):
        lives.open_case(stack, world, (("LAMP", 1),), order_ref=order.external_ref, reference="chat-later")
    forget(backup)


@pytest.mark.parametrize("what", KEPT)
def test_the_provider_is_told_on_what_it_was_given(stack: Stack, world: World, sandbox: Running, what: str) -> None:
    kept = KEPT[what]
    one = asked(stack, world, paid_order(stack, world, sandbox, LINES), kept)
    lives.approve_as(stack, world, world.jonas, one.intent_id)
    (row,) = as_administrator(stack, "SELECT request->'metadata'->>'onceback_units' AS units FROM outbox WHERE intent_id = %s",
                              one.intent_id)  # fmt: skip
    assert row == {"units": kept.told}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("kept:TEE[0,1)", ("TEE", 0, 1)),
        ("kept:A [0,1) b[2,3)", ("A [0,1) b", 2, 3)),
        ("kept:LAMP[0,0)", ("LAMP", 0, 0)),
        ("kept:", None),
        ("TEE[0,1)", None),
        ("", None),
    ],
)
def test_what_it_was_given_on_is_read_back_as_it_was_written(text: str, kept: tuple[str, int, int] | None) -> None:
    assert read_kept(text) == kept
