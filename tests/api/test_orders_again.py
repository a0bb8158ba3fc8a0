"""A shop states an order again once it knows when it was delivered: that is learnt, and open returns are worked out again."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from flask import Flask
from sqlalchemy import RowMapping

from ledger.allocation_lines import Allocation
from ledger.charge_facts import read_inputs
from ledger.database import first, rows, transaction
from tests import lives
from tests.api.conftest import Caller, fact
from tests.api.test_orders import order
from tests.engine import line
from tests.stack import Stack
from tests.web.test_commands import flask
from tests.world import World, build_world, usual_policy

REF = "A-30001"
IN_MAY, LATER = "2026-05-02T10:40:00Z", "2026-05-04T08:00:00Z"
ROWS = "SELECT line_ref, n, delivered_at, shipment FROM order_deliveries WHERE merchant_id = :m ORDER BY line_ref, n"
# What the rule of the window says while nobody knows when that began.
UNKNOWN = [("pass", "holds")]
BLOCKED = "SELECT count(*) FROM orders WHERE merchant_id = :m AND blocked"


def delivered(at: str | None, shipment: str | None = None, **line_facts: Any) -> dict[str, Any]:
    """The usual order, its line delivered at this time in this parcel."""
    made = order()
    stated = {"delivered_at": at, "shipment": shipment} | line_facts
    made["lines"][0] |= {name: value for name, value in stated.items() if value is not None}
    return made


def put(shop: Caller, body: dict[str, Any]) -> tuple[int, str]:
    answer = shop.put(f"/orders/{body['external_ref']}", body)
    return answer.status_code, fact(answer)["result"]


def learnt(stack: Stack, world: World) -> list[tuple[Any, ...]]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [tuple(row.values()) for row in rows(db, ROWS, m=world.merchant_id)]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.fixture
def nord(stack: Stack) -> World:
    """A merchant whose thirty days run from delivery."""
    usual = usual_policy("nord-usual") | {"window": {"days": 30, "starts": "delivered"}}
    return build_world(stack, "nord", policy=usual)


@pytest.fixture
def nord_shop(app: Flask, nord: World) -> Caller:
    return Caller(app, nord.shop)


def here(stack: Stack, world: World) -> UUID:
    """Ilse's return of both jumpers, here and in good state."""
    opened = lives.open_case(stack, world, (("L1", 2),), order_ref=REF)
    lives.arrive(stack, world, opened.case_id, ("L1", 2))
    return opened.case_id


def latest(stack: Stack, world: World, case_id: UUID) -> RowMapping:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = first(
            db, "SELECT e.outcome, e.record->'rules' AS rules, e.evidence::jsonb->'delivered' AS delivered, c.number, c.stage"
            " FROM entitlements e JOIN cases c USING (merchant_id, case_id) WHERE merchant_id = :m AND case_id = :c"
            " ORDER BY n DESC LIMIT 1", m=world.merchant_id, c=case_id,
        )  # fmt: skip
    assert found is not None
    return found


def windows(found: RowMapping) -> list[tuple[str, str]]:
    return [(one["status"], one["reason_code"]) for one in found["rules"] if one["id"] == "window.merchant"]


def states(stack: Stack, world: World, case_id: UUID) -> list[str]:
    return [row["state"] for row in lives.intents(stack, world, case_id)]


def test_what_is_learnt_of_a_delivery_is_kept_once_and_blocks_nothing(shop: Caller, stack: Stack, world: World) -> None:
    assert put(shop, order()) == (201, "created")
    assert put(shop, delivered(IN_MAY)) == (200, "updated")
    assert put(shop, delivered(IN_MAY)) == (200, "unchanged")
    assert put(shop, delivered("2026-05-02T12:40:00+02:00")) == (200, "unchanged")
    assert learnt(stack, world) == [("L1", 1, at(IN_MAY), None)]
    assert lives.count(stack.console, world, BLOCKED) == 0


def test_leaving_it_out_says_nothing_and_what_is_said_last_counts(shop: Caller, stack: Stack, world: World) -> None:
    put(shop, delivered(IN_MAY))
    assert put(shop, order()) == (200, "unchanged")
    assert put(shop, delivered(None, "P-1")) == (200, "updated")
    assert put(shop, delivered(LATER)) == (200, "updated")
    assert put(shop, order()) == (200, "unchanged")
    # The first facts to the byte are the newest word again.
    assert put(shop, delivered(IN_MAY)) == (200, "updated")
    assert learnt(stack, world) == [
        ("L1", 1, at(IN_MAY), "P-1"),
        ("L1", 2, at(LATER), "P-1"),
        ("L1", 3, at(IN_MAY), "P-1"),
    ]


def test_a_corrected_title_changes_nothing(shop: Caller, stack: Stack, world: World) -> None:
    put(shop, order())
    assert put(shop, delivered(None, title="Jumper, blue")) == (200, "unchanged")
    assert (learnt(stack, world), lives.count(stack.console, world, BLOCKED)) == ([], 0)


@pytest.mark.parametrize("other", [{"unit_price_minor": 2000}, {"quantity": 1}, {"sku": "SKU-9"}])
def test_another_sale_beside_a_delivery_is_a_conflict_and_nothing_is_learnt(
    shop: Caller, stack: Stack, world: World, other: dict[str, Any]
) -> None:
    put(shop, order())
    assert put(shop, delivered(IN_MAY, **other)) == (409, "conflict")
    assert (learnt(stack, world), lives.count(stack.console, world, BLOCKED)) == ([], 1)


def test_another_customer_beside_a_delivery_is_a_conflict(shop: Caller, stack: Stack, world: World) -> None:
    put(shop, order())
    body = delivered(IN_MAY) | {"customer": {"external_ref": "c_900", "name": "Omar Haddad"}}
    assert put(shop, body) == (409, "conflict")
    assert (learnt(stack, world), lives.count(stack.console, world, BLOCKED)) == ([], 1)


def test_a_payment_that_was_taken_meanwhile_and_the_delivery_are_learnt_together(
    shop: Caller, stack: Stack, world: World
) -> None:
    held = order()
    held["captures"][0] |= {"status": "authorised", "authorised_minor": 6000, "captured_minor": 0}
    assert put(shop, held) == (201, "created")
    assert put(shop, delivered(IN_MAY)) == (200, "updated")
    assert learnt(stack, world) == [("L1", 1, at(IN_MAY), None)]
    assert lives.count(stack.console, world, BLOCKED) == 0


def test_a_refund_that_waits_is_called_back_once_the_days_turn_out_to_be_over(
    nord_shop: Caller, stack: Stack, nord: World
) -> None:
    put(nord_shop, order())
    case_id = here(stack, nord)
    assert (latest(stack, nord, case_id)["outcome"], states(stack, nord, case_id)) == ("payable", ["proposed"])

    assert put(nord_shop, delivered(IN_MAY)) == (200, "updated")

    found = latest(stack, nord, case_id)
    assert (found["outcome"], found["stage"]) == ("refused", "needs_person")
    assert windows(found) == [("fail", "announced_too_late")]
    assert found["delivered"] == [{"line_id": "L1", "at": IN_MAY}]
    assert states(stack, nord, case_id) == ["withdrawn"]
    status, told = flask(stack.owner_url, "entitlement", "explain", f"C-{found['number']}", "--recompute")
    assert (status, told.splitlines()[-1]) == (0, "proved: its stored inputs give the same record, to the byte")


def test_a_refund_inside_the_days_waits_on_and_its_days_count_from_the_delivery(
    nord_shop: Caller, stack: Stack, nord: World
) -> None:
    put(nord_shop, order())
    case_id = here(stack, nord)
    assert windows(latest(stack, nord, case_id)) == UNKNOWN
    yesterday = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

    put(nord_shop, delivered(yesterday))

    found = latest(stack, nord, case_id)
    assert (found["outcome"], windows(found)) == ("payable", [("pass", "announced_in_time")])
    assert states(stack, nord, case_id) == ["withdrawn", "proposed"]
    put(nord_shop, delivered(yesterday))
    assert states(stack, nord, case_id) == ["withdrawn", "proposed"]


def test_an_engine_that_does_not_look_at_what_was_learnt_would_pay(
    nord_shop: Caller, stack: Stack, nord: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Allocation, "delivered", lambda self, stated: self)
    put(nord_shop, order())
    case_id = here(stack, nord)
    put(nord_shop, delivered(IN_MAY))
    assert latest(stack, nord, case_id)["outcome"] == "payable"


def test_a_return_that_is_opened_later_sees_what_was_learnt(nord_shop: Caller, stack: Stack, nord: World) -> None:
    put(nord_shop, order())
    put(nord_shop, delivered(IN_MAY))
    assert latest(stack, nord, here(stack, nord))["outcome"] == "refused"


def test_two_who_say_the_same_at_once_add_one_row_and_two_who_differ_one_each(
    shop: Caller, stack: Stack, world: World
) -> None:
    put(shop, order())
    same = lives.race(*[partial(put, shop, delivered(IN_MAY))] * 2)
    assert (same.refusals, sorted(same.results)) == ([], [(200, "unchanged"), (200, "updated")])
    assert [n for _, n, _, _ in learnt(stack, world)] == [1]
    differ = lives.race(partial(put, shop, delivered(LATER)), partial(put, shop, delivered(LATER, "P-2")))
    assert differ.refusals == []
    assert [row[2:] for row in learnt(stack, world)][-1] == (at(LATER), "P-2")


def test_a_delivery_stated_while_a_return_is_opened_is_seen_whoever_is_first(
    nord_shop: Caller, stack: Stack, nord: World
) -> None:
    for number in range(5):
        ref = f"B-{number}"
        made = order(ref, charge=f"ch_{ref}")
        put(nord_shop, made)
        known = order(ref, charge=f"ch_{ref}")
        known["lines"][0]["delivered_at"] = IN_MAY
        opening = partial(lives.open_case, stack, nord, (("L1", 2),), order_ref=ref)
        raced = lives.race(partial(put, nord_shop, known), opening)
        assert raced.refusals == []
        (opened,) = [one for one in raced.results if not isinstance(one, tuple)]
        assert latest(stack, nord, opened.case_id)["outcome"] == "refused"


def test_what_one_merchant_learns_is_not_the_others(
    shop: Caller, nord_shop: Caller, stack: Stack, world: World, nord: World
) -> None:
    put(shop, order())
    put(nord_shop, order())
    case_id = here(stack, nord)
    put(shop, delivered(IN_MAY))
    assert (learnt(stack, nord), latest(stack, nord, case_id)["delivered"]) == ([], None)
    assert len(learnt(stack, world)) == 1


def test_a_second_order_counts_as_shipped_once_its_delivery_is_known(shop: Caller, stack: Stack, world: World) -> None:
    put(shop, order())
    other = order("A-30002", charge="ch_2")
    put(shop, other)

    def shipped() -> list[bool]:
        with transaction(stack.console, world.merchant_id, read_only=True) as db:
            mine = first(db, "SELECT order_id FROM orders WHERE external_ref = :r", r=REF)
            assert mine is not None
            return [one.shipped for one in read_inputs(db, world.merchant_id, mine["order_id"], (), ()).others]

    assert shipped() == [False]
    other["lines"][0]["delivered_at"] = IN_MAY
    put(shop, other)
    assert shipped() == [True]


def test_each_line_has_its_own_delivery_and_the_last_of_them_counts_where_the_policy_says_so(
    app: Flask, stack: Stack
) -> None:
    usual = usual_policy("sued-usual") | {"window": {"days": 30, "starts": "last_delivered"}}
    sued = build_world(stack, "sued", policy=usual)
    shop = Caller(app, sued.shop)

    def two(*known: str | None) -> dict[str, Any]:
        made = order()
        made["lines"] = [line(1, 3000), line(2, 3000)]
        for of_one, when in zip(made["lines"], known, strict=True):
            of_one |= {"delivered_at": when} if when else {}
        return made

    put(shop, two(None, None))
    opened = lives.open_case(stack, sued, (("L1", 1),), order_ref=REF)
    put(shop, two(IN_MAY, None))
    assert windows(latest(stack, sued, opened.case_id)) == UNKNOWN
    put(shop, two(IN_MAY, LATER))
    assert windows(latest(stack, sued, opened.case_id)) == [("fail", "announced_too_late")]
    assert [row[:2] for row in learnt(stack, sued)] == [("L1", 1), ("L2", 1)]
