"""A policy approves once, whoever asks at the same moment: two reports, two requests, a person; and within its day (S38)."""

from dataclasses import replace
from typing import Any

import pytest

from jobs import submitter
from ledger.approvals import Decision, insert_approval, sealed_approval
from ledger.automatic import Left
from ledger.database import transaction
from ledger.errors import AlreadyDecided
from ledger.fingerprint import read_intent
from sandbox.client import Running
from tests import lives
from tests.automatic import approvals_of, by_policy, generous, newest, returned
from tests.orders import Line
from tests.refunds import Proposed, as_administrator, paid_order, refunds_at, state_of, worker_at
from tests.stack import Stack, without
from tests.world import World


@pytest.fixture
def world(stack: Stack) -> World:
    return generous(stack)


def paid_once(stack: Stack, world: World, sandbox: Running, one: Proposed) -> None:
    """Asked at the database and at the provider."""
    with worker_at(stack, sandbox, world) as worker:
        submitter.run_once(worker)
    assert (len(approvals_of(stack, one)), refunds_at(sandbox, one)) == (1, 1)


def test_two_reports_at_once_that_together_make_a_return_whole_pay_it_once(
    stack: Stack, world: World, sandbox: Running
) -> None:
    for number in range(3):
        order = paid_order(stack, world, sandbox, (Line("SOCK", 2, 2000),))
        opened = lives.open_case(
            stack, world, (("SOCK", 2),), order_ref=order.external_ref, customer_verified="signed in", reference=f"r-{number}"
        )  # fmt: skip

        def reported(case_id: Any = opened.case_id) -> Any:
            lives.arrive(stack, world, case_id, ("SOCK", 1))
            return by_policy(stack, world, case_id)

        raced = lives.race(reported, reported)
        assert raced.refusals == []
        assert sum(isinstance(done, Decision) for done in raced.results) == 1
        one = newest(stack, world, opened.case_id, order)
        paid_once(stack, world, sandbox, one)
        assert sandbox.money(one.payment_intent)["refunded"] == 2000


def test_two_requests_and_a_person_at_once_make_one_approval(stack: Stack, world: World, sandbox: Running) -> None:
    for _ in range(5):
        one = returned(stack, world, sandbox)
        seen = lives.see(stack, world, one.intent_id)

        def policy(case_id: Any = one.case_id) -> Any:
            return by_policy(stack, world, case_id)

        raced = lives.race(
            policy, policy, lambda: lives.approve_as(stack, world, world.priya, one.intent_id, seen)  # noqa: B023
        )  # fmt: skip
        assert sum(isinstance(done, Decision) for done in raced.results) == 1
        assert all(isinstance(refused, AlreadyDecided) for refused in raced.refusals)
        paid_once(stack, world, sandbox, one)


def _both_insert(stack: Stack, world: World, one: Proposed) -> int:
    """Two programs that look at nothing and lock nothing write the policy's approval at once; how many rows stand."""

    def written() -> None:
        with transaction(stack.console, world.merchant_id) as db:
            intent = read_intent(db, world.merchant_id, one.intent_id)
            assert intent is not None
            seen = replace(lives.see(stack, world, one.intent_id), note="")
            insert_approval(db, sealed_approval(intent, None, seen, lives.policy_sealer()))

    lives.race(written, written)
    return len(approvals_of(stack, one))


def test_programs_without_a_look_or_a_lock_write_one_approval_too(stack: Stack, world: World, sandbox: Running) -> None:
    assert _both_insert(stack, world, returned(stack, world, sandbox)) == 1


def test_without_the_keys_of_approvals_they_write_two(stack: Stack, world: World, sandbox: Running) -> None:
    without(
        stack,
        "ALTER TABLE approvals DROP CONSTRAINT approved_once_per_seat, DROP CONSTRAINT one_seat_per_person",
        "ALTER TABLE approval_entries DROP CONSTRAINT approval_entries_merchant_id_intent_id_seat_key",
    )
    assert _both_insert(stack, world, returned(stack, world, sandbox)) == 2


def _two_of_a_day(stack: Stack, sandbox: Running) -> list[Any]:
    """The day has room for one of two returns of two customers, which are decided at once."""
    world = generous(stack, "quay", policy={"automatic": {"GBP": {"most_minor": 2500, "day_minor": 4000}}})
    ones = [returned(stack, world, sandbox) for _ in range(2)]
    raced = lives.race(*(lambda one=one: by_policy(stack, world, one.case_id) for one in ones))
    assert raced.refusals == []
    with worker_at(stack, sandbox, world) as worker:
        submitter.run_once(worker)
    return [*raced.results, sum(refunds_at(sandbox, one) for one in ones), *(state_of(stack, one) for one in ones)]


def test_two_at_once_never_pass_the_days_automatic_limit(stack: Stack, sandbox: Running) -> None:
    first, second, refunds, *states = _two_of_a_day(stack, sandbox)
    assert {type(first), type(second)} == {Decision, Left}
    assert [done.reason for done in (first, second) if isinstance(done, Left)] == ["day_limit"]
    assert (refunds, sorted(states)) == (1, ["proposed", "succeeded"])
    assert as_administrator(stack, "SELECT used_minor FROM automatic_days") == [{"used_minor": 2490}]


def test_without_the_row_of_the_day_both_are_paid(stack: Stack, sandbox: Running) -> None:
    without(stack, "DROP TRIGGER counts_for_its_policy ON approvals")
    _, _, refunds, *states = _two_of_a_day(stack, sandbox)
    assert (refunds, states) == (2, ["succeeded", "succeeded"])
