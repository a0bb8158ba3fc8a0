"""A case is closed as paid when what it owes is paid, and is open again when more turns up (P16)."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import RowMapping

from ledger.assessment import work_out_again
from ledger.cases import reject
from ledger.database import first, rows, transaction
from ledger.errors import WrongState
from ledger.evidence import Arrival, ReceivedLine, report_arrival
from ledger.intents import cancel_before_send
from ledger.reconciliation import record_found
from ledger.settlement import Confirmed, ProviderRefund, Refused
from tests import lives
from tests.stack import Stack
from tests.world import Person, World, add_order


def case_of(stack: Stack, world: World, case_id: UUID) -> tuple[str, bool]:
    """Its stage, and whether it is open."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        row = first(db, "SELECT stage, closed_at IS NULL AS open FROM cases WHERE case_id = :c", c=case_id)
    assert row is not None
    return row["stage"], row["open"]


def split_case(stack: Stack, world: World) -> list[RowMapping]:
    """All of an order that was paid by card and by bank comes back: two proposed intents, the card's first."""
    order = add_order(stack, world, "A-2", captured={"card": 10000, "bank": 3760})
    opened = lives.open_case(stack, world, (("TEE", 3), ("LAMP", 1)), order_ref=order.external_ref)
    lives.arrive(stack, world, opened.case_id, ("TEE", 3), ("LAMP", 1))
    found = lives.intents(stack, world, opened.case_id)
    assert [intent["amount_minor"] for intent in found] == [10000, 3270]
    return found


def shown(intent: RowMapping, status: str = "succeeded") -> ProviderRefund:
    return ProviderRefund(
        f"re_{intent['number']}", status, intent["amount_minor"], intent["currency"], intent["payment_intent_ref"],
        intent["charge_ref"], str(intent["intent_id"]),
    )  # fmt: skip


def settle(stack: Stack, world: World, *outcomes: tuple[RowMapping, Any]) -> None:
    """Approves the intents, sends them, then records the outcomes in this order."""
    for intent, _ in outcomes:
        lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    claimed = {one.intent_id: one for one in lives.claim(stack, world)}
    for intent, outcome in outcomes:
        assert lives.record(stack, claimed[intent["intent_id"]], outcome)


def work_out(stack: Stack, world: World, case_id: UUID, person: Person) -> list[RowMapping]:
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, case_id, person.actor)
    return [intent for intent in lives.intents(stack, world, case_id) if intent["state"] == "proposed"]


def test_one_part_refused_and_the_other_paid_later_leaves_the_case_to_a_person(stack: Stack, world: World) -> None:
    card, bank = split_case(stack, world)
    settle(stack, world, (bank, Refused("charge_disputed", "", 400)), (card, Confirmed(shown(card))))
    assert case_of(stack, world, card["case_id"]) == ("needs_person", True)
    (again,) = work_out(stack, world, card["case_id"], world.priya)
    assert (again["amount_minor"], again["replaces"]) == (3270, bank["intent_id"])


def test_one_part_called_back_and_the_other_paid_later_leaves_the_case_to_a_person(stack: Stack, world: World) -> None:
    card, bank = split_case(stack, world)
    with transaction(stack.console, world.merchant_id) as db:
        cancel_before_send(db, world.merchant_id, bank["intent_id"], world.priya.actor, "suspicion")
    settle(stack, world, (card, Confirmed(shown(card))))
    assert case_of(stack, world, card["case_id"]) == ("needs_person", True)


def test_both_parts_paid_close_the_case(stack: Stack, world: World) -> None:
    card, bank = split_case(stack, world)
    settle(stack, world, (bank, Confirmed(shown(bank))), (card, Confirmed(shown(card))))
    assert case_of(stack, world, card["case_id"]) == ("paid", False)


def test_what_came_back_late_is_not_forgotten_when_the_rest_is_paid(stack: Stack, world: World) -> None:
    opened = lives.open_case(stack, world, (("TEE", 2),))
    lives.arrive(stack, world, opened.case_id, ("TEE", 1))
    (early,) = lives.intents(stack, world, opened.case_id)
    settle(stack, world, (early, Confirmed(shown(early))))
    lives.arrive(stack, world, opened.case_id, ("TEE", 1))
    late = lives.intents(stack, world, opened.case_id)[-1]
    with transaction(stack.worker, world.merchant_id) as db:
        assert record_found(db, world.merchant_id, early["intent_id"], shown(early, "failed")) == "reversed"
    settle(stack, world, (late, Confirmed(shown(late))))
    assert case_of(stack, world, opened.case_id) == ("needs_person", True)
    (again,) = work_out(stack, world, opened.case_id, world.tobias)
    assert again["amount_minor"] == early["amount_minor"]


def test_what_the_payments_of_the_order_do_not_cover_is_a_persons(stack: Stack, world: World) -> None:
    order = add_order(stack, world, "A-3", captured={"card": 5000})
    one = lives.propose(stack, world, (("TEE", 3),), order=order)
    assert one["amount_minor"] == 5000
    settle(stack, world, (one, Confirmed(shown(one))))
    assert case_of(stack, world, one["case_id"]) == ("needs_person", True)


def test_goods_found_foreign_after_the_payment_open_the_case_again(stack: Stack, world: World) -> None:
    opened = lives.open_case(stack, world)
    with transaction(stack.console, world.merchant_id) as db:
        arrived = Arrival((ReceivedLine("TEE", 1),), "warehouse", world.warehouse.actor)
        report_arrival(db, world.merchant_id, opened.case_id, arrived)
    (one,) = lives.intents(stack, world, opened.case_id)
    settle(stack, world, (one, Confirmed(shown(one))))
    assert case_of(stack, world, opened.case_id) == ("paid", False)
    with transaction(stack.console, world.merchant_id) as db:
        found = Arrival((ReceivedLine("TEE", 0, ((1, "X", "a brick"),)),), "warehouse", world.warehouse.actor)
        report_arrival(db, world.merchant_id, opened.case_id, found)
    assert case_of(stack, world, opened.case_id) == ("needs_person", True)


def test_news_that_changes_nothing_leaves_a_paid_case_paid(stack: Stack, world: World) -> None:
    one = lives.propose(stack, world)
    settle(stack, world, (one, Confirmed(shown(one))))
    with transaction(stack.console, world.merchant_id) as db:
        again = Arrival((ReceivedLine("TEE", 1),), "warehouse", world.warehouse.actor)
        report_arrival(db, world.merchant_id, one["case_id"], again)
    assert case_of(stack, world, one["case_id"]) == ("paid", False)
    assert len(lives.intents(stack, world, one["case_id"])) == 1


def test_a_closed_case_is_not_worked_out_again(stack: Stack, world: World) -> None:
    one = lives.propose(stack, world)
    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, one["case_id"], world.tobias.actor, "not_our_item")
    with pytest.raises(WrongState):
        work_out(stack, world, one["case_id"], world.priya)
    assert case_of(stack, world, one["case_id"]) == ("rejected", False)


def test_nothing_is_paid_twice_when_a_part_was_refused(stack: Stack, world: World) -> None:
    card, bank = split_case(stack, world)
    settle(stack, world, (bank, Refused("charge_disputed", "", 400)), (card, Confirmed(shown(card))))
    (again,) = work_out(stack, world, card["case_id"], world.priya)
    settle(stack, world, (again, Confirmed(shown(again))))
    assert case_of(stack, world, card["case_id"]) == ("paid", False)
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        sums = rows(
            db, "SELECT sum(refunded_minor)::bigint AS minor FROM captures WHERE order_id = :o", o=card["order_id"]
        )
    assert sums[0]["minor"] == 13270
