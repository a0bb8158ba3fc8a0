"""S87: a payment that is not what the books say is named, and nothing of it is approved until both sides agree."""

import sqlite3

import pytest

from jobs import submitter, verify_captures
from jobs.worker import Worker
from ledger.database import transaction
from ledger.errors import WrongState
from ledger.verification import differing_payment
from sandbox.client import Running
from tests import lives
from tests.books import work
from tests.refunds import Proposed, as_administrator, proposed, refunds_at
from tests.stack import Stack
from tests.world import World


@pytest.fixture
def one(stack: Stack, world: World, sandbox: Running) -> Proposed:
    """A refund that waits for its approval, in books that were taken up again."""
    made = proposed(stack, world, sandbox)
    as_administrator(
        stack, "INSERT INTO recoveries (generation, first_engineer, second_engineer, backup_at, finished_at)"
        " VALUES (2, 'Ute', 'Ravi', now(), now())",
    )  # fmt: skip
    as_administrator(stack, "UPDATE deployment SET generation = 2")
    # The order of the world has a payment that no provider knows; it is not what these tests are about.
    as_administrator(stack, "UPDATE captures SET verified_generation = 2 WHERE charge_ref <> %s", made.charge)
    return made


def at_provider(sandbox: Running, change: str, one: Proposed) -> None:
    """Changes the provider's own row of a payment, as no caller could."""
    with sqlite3.connect(sandbox.db, timeout=10) as db:
        db.execute(f"update payments set {change} where charge = ?", [one.charge])  # noqa: S608 - words of this file


@pytest.mark.parametrize(
    ("change", "kind", "back"),
    [
        ("amount_captured = amount_captured - 100", "amount", "amount_captured = amount_captured + 100"),
        ("currency = 'eur'", "currency", "currency = 'gbp'"),
        ("amount_refunded = amount_captured", "state", "amount_refunded = 0"),
    ],
)
def test_a_payment_that_differs_is_a_discrepancy_and_blocks_until_it_agrees(
    stack: Stack, world: World, sandbox: Running, worker: Worker, one: Proposed, change: str, kind: str, back: str
) -> None:
    at_provider(sandbox, change, one)

    assert verify_captures.run_once(worker) == {"differs": 1}
    assert verify_captures.run_once(worker) == {"differs": 1}

    (found,) = as_administrator(stack, "SELECT * FROM discrepancies")
    assert (found["about"], found["kind"], found["refund_ref"], found["run_id"]) == ("payment", kind, one.charge, None)
    with pytest.raises(WrongState, match="is read again at the provider first"):
        lives.approve_as(stack, world, world.priya, one.intent_id)
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        assert differing_payment(db, world.merchant_id, one.intent_id) == found["number"]
    # No run of the books says that it is gone.
    assert work(worker) == {}
    assert submitter.run_once(worker) == {}

    at_provider(sandbox, back, one)
    assert verify_captures.run_once(worker) == {"verified": 1}
    (act,) = as_administrator(stack, "SELECT code, actor, note FROM discrepancy_acts")
    assert act == {"code": "gone", "actor": "system", "note": "Read again: both sides agree."}
    lives.approve_as(stack, world, world.priya, one.intent_id)
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert refunds_at(sandbox, one) == 1


def test_what_was_refunded_whole_elsewhere_and_is_listed_is_taken_in_and_is_no_difference(
    stack: Stack, world: World, sandbox: Running, worker: Worker, one: Proposed
) -> None:
    sandbox.dashboard_refund(one.payment_intent)

    assert verify_captures.run_once(worker) == {"verified": 1}

    assert as_administrator(stack, "SELECT state FROM intents") == [{"state": "withdrawn"}]
    assert as_administrator(stack, "SELECT 1 FROM discrepancies") == []
    assert (submitter.run_once(worker), refunds_at(sandbox, one)) == ({}, 1)


def test_a_charge_that_cannot_be_read_is_named_and_holds_up_no_other(
    stack: Stack, world: World, sandbox: Running, worker: Worker, one: Proposed
) -> None:
    other = proposed(stack, world, sandbox)
    as_administrator(stack, "UPDATE captures SET verified_generation = 1 WHERE charge_ref = %s", other.charge)
    at_provider(sandbox, "currency = '12'", one)

    assert verify_captures.run_once(worker) == {"verified": 1, "differs": 1}

    (found,) = as_administrator(stack, "SELECT kind, refund_ref FROM discrepancies")
    assert found == {"kind": "unreadable", "refund_ref": one.charge}
    at_provider(sandbox, "currency = 'gbp'", one)
    assert verify_captures.run_once(worker) == {"verified": 1}
    assert as_administrator(stack, "SELECT code FROM discrepancy_acts") == [{"code": "gone"}]
