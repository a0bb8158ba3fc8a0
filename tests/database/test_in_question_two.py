"""Who settles an order in question: two people of a merchant, on exactly what both saw, and the database keeps it so."""

from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.database import run, transaction
from ledger.errors import BadInput, NotAllowed, NotFound, SamePerson, Stale, WrongState
from ledger.order_settlements import answer_settlement
from tests import in_question as asked
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import World, build_world


def test_who_proposes_does_not_confirm(stack: Stack, world: World) -> None:
    settlement_id = asked.propose(stack, world, asked.amiss(stack, world), "first/total", world.mara)
    with pytest.raises(SamePerson):
        asked.answer(stack, world, settlement_id, world.mara)


def by_hand(stack: Stack, world: World, settlement_id: Any) -> None:
    """As if Python asked nothing: Mara confirms what she proposed."""
    with transaction(stack.console, world.merchant_id) as db:
        run(
            db, "INSERT INTO order_settlement_answers (merchant_id, settlement_id, digest, proposed_by, decided_by, decided_role,"
            " confirmed) VALUES (:m, :s, :d, :who, :who, 'manager', true)", m=world.merchant_id, s=settlement_id,
            d=asked.digest_of(stack, world, settlement_id), who=world.mara.staff_id,
        )  # fmt: skip


def test_the_database_keeps_the_two_apart(stack: Stack, world: World) -> None:
    order_id = asked.amiss(stack, world)
    settlement_id = asked.propose(stack, world, order_id, "first/total", world.mara)
    with pytest.raises(IntegrityError, match="another_person_confirms"):
        by_hand(stack, world, settlement_id)
    without(stack, "ALTER TABLE order_settlement_answers DROP CONSTRAINT another_person_confirms")
    by_hand(stack, world, settlement_id)
    assert not asked.order_row(stack, world, order_id)["blocked"]


def test_the_console_lifts_no_block_by_itself(stack: Stack, world: World) -> None:
    order_id = asked.amiss(stack, world)
    lift = "UPDATE orders SET blocked = false, discrepancies = '{}' WHERE merchant_id = :m AND order_id = :o"
    with (
        pytest.raises(IntegrityError, match="as two people settled"),
        transaction(stack.console, world.merchant_id) as db,
    ):
        run(db, lift, m=world.merchant_id, o=order_id)
    without(stack, "DROP TRIGGER settled_by_two ON orders")
    with transaction(stack.console, world.merchant_id) as db:
        run(db, lift, m=world.merchant_id, o=order_id)
    assert not asked.order_row(stack, world, order_id)["blocked"]


def test_a_statement_that_came_since_makes_the_proposal_stale(stack: Stack, world: World) -> None:
    order_id = asked.twice(stack, world)
    settlement_id = asked.propose(stack, world, order_id, "newer", world.mara)
    asked.state(stack, world, asked.stated(**asked.cheaper(900)))
    with pytest.raises(Stale, match="turn it down"):
        asked.answer(stack, world, settlement_id, world.farah)
    with pytest.raises(WrongState, match="waits already"):
        asked.propose(stack, world, order_id, "first", world.jonas)
    assert asked.answer(stack, world, settlement_id, world.farah, confirmed=False, reason="a third statement came")
    asked.settle(stack, world, order_id, "newer")
    assert asked.line_grosses(stack, world, order_id)["MUG"] == 900


def test_what_changed_while_it_was_read_is_not_proposed(stack: Stack, world: World) -> None:
    order_id = asked.twice(stack, world)
    seen = asked.in_question(stack, world, order_id).seen
    asked.state(stack, world, asked.stated(**asked.cheaper(900)))
    with pytest.raises(Stale):
        asked.propose(stack, world, order_id, "first", world.mara, seen=seen)


@pytest.mark.parametrize("name", ["priya", "rita", "ada"])
def test_only_managers_and_finance_settle(stack: Stack, world: World, name: str) -> None:
    order_id = asked.amiss(stack, world)
    with pytest.raises(NotAllowed):
        asked.propose(stack, world, order_id, "first/total", getattr(world, name))
    settlement_id = asked.propose(stack, world, order_id, "first/total", world.farah)
    with pytest.raises(NotAllowed):
        asked.answer(stack, world, settlement_id, getattr(world, name))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"note": " "}, "note"),
        ({"note": "x" * 501}, "note"),
        ({"reason": "because"}, "reason"),
        ({"key": "first"}, "choice"),
    ],
)
def test_a_proposal_without_reason_note_or_choice_is_refused(
    stack: Stack, world: World, changes: dict[str, Any], field: str
) -> None:
    order_id = asked.amiss(stack, world)
    with pytest.raises(BadInput, match=f"^{field}:"):
        asked.propose(stack, world, order_id, changes.pop("key", "first/total"), world.mara, **changes)
    assert as_administrator(stack, "SELECT 1 FROM order_settlements") == []


def test_another_merchant_sees_and_settles_nothing_of_it(stack: Stack, world: World) -> None:
    other = build_world(stack, "quay")
    order_id = asked.amiss(stack, world)
    with pytest.raises(NotFound):
        asked.in_question(stack, other, order_id)
    settlement_id = asked.propose(stack, world, order_id, "first/total", world.mara)
    digest = asked.digest_of(stack, world, settlement_id)
    with pytest.raises(NotFound), transaction(stack.console, other.merchant_id) as db:
        answer_settlement(db, other.merchant_id, settlement_id, other.farah.staff_id, digest, confirmed=True)
