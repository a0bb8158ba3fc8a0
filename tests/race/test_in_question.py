"""Two people who settle one order at once settle it once."""

from uuid import UUID

import pytest

from ledger.errors import LedgerError
from tests import in_question as asked
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import World

SETTLED = "SELECT count(*) AS n FROM order_allocations WHERE settlement_id IS NOT NULL"


def both_confirm(stack: Stack, world: World, settlement_id: UUID) -> lives.Raced:
    """Jonas and Farah confirm what Mara proposed, released together."""
    return lives.race(
        lambda: asked.answer(stack, world, settlement_id, world.jonas),
        lambda: asked.answer(stack, world, settlement_id, world.farah),
    )


@pytest.mark.parametrize("turn", range(3))
def test_two_who_confirm_at_once_settle_once(stack: Stack, world: World, turn: int) -> None:
    order_id = asked.amiss(stack, world)
    raced = both_confirm(stack, world, asked.propose(stack, world, order_id, "first/total", world.mara))
    assert (sorted(raced.results), raced.refusals) == ([False, True], [])
    assert as_administrator(stack, SETTLED) == [{"n": 1}]


@pytest.mark.parametrize("turn", range(3))
def test_two_who_propose_at_once_leave_one_proposal(stack: Stack, world: World, turn: int) -> None:
    order_id = asked.amiss(stack, world)
    raced = lives.race(
        lambda: asked.propose(stack, world, order_id, "first/total", world.mara),
        lambda: asked.propose(stack, world, order_id, "first/lines", world.jonas),
    )
    assert (len(raced.results), len(raced.refusals)) == (1, 1)
    assert len(as_administrator(stack, "SELECT 1 FROM order_settlements")) == 1


@pytest.mark.parametrize("turn", range(3))
def test_a_statement_that_comes_in_while_it_is_confirmed_is_never_settled_unseen(
    stack: Stack, world: World, turn: int
) -> None:
    order_id = asked.twice(stack, world)
    settlement_id = asked.propose(stack, world, order_id, "newer", world.mara)
    raced = lives.race(
        lambda: asked.answer(stack, world, settlement_id, world.farah),
        lambda: asked.state(stack, world, asked.stated(**asked.cheaper(900))),
    )
    assert all(isinstance(refused, LedgerError) for refused in raced.refusals)
    # Either it came first and nothing was settled, or it came after and is in question itself.
    row = asked.order_row(stack, world, order_id)
    assert (row["blocked"], "import_changed" in row["discrepancies"]) == (True, True)
    assert (
        as_administrator(stack, "SELECT open_conflicts(merchant_id, order_id) AS left FROM orders WHERE blocked") != []
    )


def test_without_the_guards_both_confirm_and_settle_it_twice(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: neither the lock of the order nor the one answer of a proposal."""
    order_id = asked.amiss(stack, world)
    settlement_id = asked.propose(stack, world, order_id, "first/total", world.mara)
    without(
        stack, "ALTER TABLE order_settlement_answers DROP CONSTRAINT order_settlement_answers_pkey CASCADE",
        "ALTER TABLE order_allocations DROP CONSTRAINT order_allocations_merchant_id_settlement_id_key",
        "CREATE OR REPLACE FUNCTION still_as_proposed(s order_settlements) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    )  # fmt: skip
    monkeypatch.setattr("ledger.order_settlements.still_as_proposed", lambda *_: True)
    monkeypatch.setattr(
        "ledger.order_settlements._STANDING", "SELECT confirmed FROM order_settlement_answers WHERE :m = :s"
    )
    raced = both_confirm(stack, world, settlement_id)
    assert raced.results == [True, True]
    assert as_administrator(stack, SETTLED) == [{"n": 2}]
