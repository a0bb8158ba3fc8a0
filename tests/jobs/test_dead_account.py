"""An account that does not answer is let be for longer and longer, and one whose key proves nothing gets no real money (S68)."""

import pytest
from sqlalchemy.exc import IntegrityError

from jobs import submitter
from jobs.worker import Worker
from ledger.database import transaction
from ledger.errors import BadInput, WrongState
from ledger.merchants import expect_account
from sandbox.client import Running
from sandbox.ids import account_id
from tests import lives
from tests.refunds import alarms, approved, as_administrator, refunds_at, state_of
from tests.stack import Stack, without
from tests.world import World


def runs(sandbox: Running, worker: Worker, times: int) -> int:
    """How many calls so many runs of the submitter cost."""
    sandbox.clear_requests()
    for _ in range(times):
        submitter.run_once(worker)
    return len(sandbox.requests())


def later(stack: Stack, seconds: int) -> None:
    """So much time passes for what is known of the account's lists."""
    as_administrator(
        stack, "UPDATE account_readings SET failing_since = failing_since - make_interval(secs => %s),"
        " let_be_until = let_be_until - make_interval(secs => %s)", seconds, seconds,
    )  # fmt: skip


def test_a_dead_account_costs_a_call_now_and_then_and_its_merchant_is_told(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    sandbox.fault("error_503", path="/v1/disputes", count=6)
    assert runs(sandbox, worker, 3) == 3, "what fails for a moment is tried again at once"
    later(stack, 16)
    assert runs(sandbox, worker, 10) == 1
    later(stack, 60)
    assert runs(sandbox, worker, 10) == 1
    assert alarms(stack) == {"disputes_unread"}
    (row,) = as_administrator(stack, "SELECT text FROM alarms")
    assert "Nothing of that account is sent until then" in row["text"]
    later(stack, 30)
    assert runs(sandbox, worker, 10) == 0, "it has failed for longer, and is let be for longer"
    later(stack, 3600)
    assert runs(sandbox, worker, 1) == 1
    (waits,) = as_administrator(
        stack, "SELECT max(let_be_until) <= now() + interval '5 minutes' AS ok FROM account_readings"
    )
    assert waits["ok"]

    # It answers again.
    later(stack, 301)
    submitter.run_once(worker)
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)
    left = as_administrator(
        stack, "SELECT 1 FROM account_readings WHERE list = 'disputes' AND let_be_until IS NOT NULL"
    )
    assert left == []


@pytest.fixture
def added_earlier(stack: Stack, world: World) -> None:
    """Harbour's money is real, and its account was added when nobody had to name what its key opens."""
    without(stack, "ALTER TABLE provider_accounts DROP CONSTRAINT real_money_names_its_account")
    as_administrator(stack, "UPDATE deployment SET livemode = true")
    as_administrator(stack, "UPDATE provider_accounts SET livemode = true")


@pytest.mark.usefixtures("added_earlier")
def test_nothing_of_an_account_that_nobody_named_is_approved_with_real_money(stack: Stack, world: World) -> None:
    intent = lives.propose(stack, world)
    with pytest.raises(WrongState, match="Ask an engineer to name it"):
        lives.approve_as(stack, world, world.priya, intent["intent_id"])


@pytest.mark.usefixtures("added_earlier")
def test_what_was_approved_before_is_held_and_goes_once_it_is_named_and_approved_anew(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent = lives.propose(stack, world)
    with monkeypatch.context() as before:
        before.setattr("ledger.approvals.refuse_not_sendable", lambda _intent: None)
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
    assert lives.claim(stack, world) == []
    held = as_administrator(stack, "SELECT state, state_reason FROM intents")
    assert held == [{"state": "held", "state_reason": "account"}]
    assert alarms(stack) == {"not_sent_account"}

    with transaction(stack.owner, world.merchant_id) as db:
        expect_account(db, world.merchant_id, "harbour", "acct_1OfHarbour")
    other = lives.propose(stack, world, (("LAMP", 1),), reference="chat-2", relation="separate")
    lives.approve_as(stack, world, world.priya, other["intent_id"])
    assert [one.request["expected_account"] for one in lives.claim(stack, world)] == ["acct_1OfHarbour"]


@pytest.mark.usefixtures("added_earlier")
def test_control_without_the_check_it_would_be_sent(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.approvals.not_sendable", lambda _intent: "")
    lives.approve_as(stack, world, world.priya, lives.propose(stack, world)["intent_id"])
    assert len(lives.claim(stack, world)) == 1


def test_the_database_takes_no_account_of_real_money_whose_key_proves_nothing(stack: Stack, world: World) -> None:
    with (
        pytest.raises(IntegrityError, match="real_money_names_its_account"),
        transaction(stack.owner, world.merchant_id) as db,
    ):
        db.exec_driver_sql("UPDATE provider_accounts SET livemode = true")


def test_an_account_is_named_by_its_id_for_a_key_of_the_merchant(stack: Stack, world: World, sandbox: Running) -> None:
    for credential, account, field in (("harbour", "Harbour", "account"), ("quay", "acct_1", "credential")):
        with pytest.raises(BadInput, match=field), transaction(stack.owner, world.merchant_id) as db:
            expect_account(db, world.merchant_id, credential, account)
    with transaction(stack.owner, world.merchant_id) as db:
        expect_account(db, world.merchant_id, "harbour", account_id(sandbox.secret_key))
