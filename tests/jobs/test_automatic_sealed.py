"""A policy's approval is verified again before each send, by the key of policies alone (S26, S30, S31, S36, S38)."""

from collections.abc import Callable
from datetime import timedelta
from typing import LiteralString

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError

from jobs import submitter
from jobs.worker import Worker
from ledger.approvals import Decision, approve
from ledger.assessment import work_out_again
from ledger.automatic import Left, approve_by_policy
from ledger.database import run, transaction
from ledger.events import append, lock_case
from ledger.intents import cancel_before_send
from ledger.revocation import revoke_automatic
from ledger.seals import Sealer, SealVerifier, new_key
from sandbox.client import Running
from tests import lives
from tests.automatic import by_policy, generous, returned
from tests.jobs.test_automatic import superseded
from tests.refunds import Proposed, alarms, as_administrator, balances, creates, refunds_at, row_of, worker_at
from tests.stack import Stack
from tests.world import World


@pytest.fixture
def world(stack: Stack) -> World:
    return generous(stack)


def held_without_a_call(stack: Stack, sandbox: Running, one: Proposed, reason: str) -> None:
    row = row_of(stack, one)
    assert (row["state"], row["state_reason"]) == ("held", reason)
    assert (creates(sandbox), refunds_at(sandbox, one)) == ([], 0)
    assert alarms(stack) == {f"not_sent_{reason}"}
    assert balances(stack, one)[1] == one.amount_minor


@pytest.mark.parametrize("which", ["a stranger's key of the same name", "the key of people"])
def test_a_perfect_row_of_a_policy_sealed_by_another_key_sends_nothing(
    stack: Stack, world: World, sandbox: Running, worker: Worker, which: str
) -> None:
    forger = Sealer.from_text(new_key(lives.policy_sealer().key_id)) if "stranger" in which else lives.sealer()
    one = returned(stack, world, sandbox)
    assert isinstance(by_policy(stack, world, one.case_id, forger), Decision)
    submitter.run_once(worker)
    held_without_a_call(stack, sandbox, one, "seal")


def test_a_persons_row_sealed_by_the_policies_key_sends_nothing(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = returned(stack, world, sandbox)
    seen = lives.see(stack, world, one.intent_id)
    with transaction(stack.console, world.merchant_id) as db:
        approve(
            db,
            world.merchant_id,
            one.intent_id,
            world.priya.staff_id,
            seen,
            lives.policy_sealer(),
            cancel_window_seconds=0,
        )
    submitter.run_once(worker)
    held_without_a_call(stack, sandbox, one, "seal")


def test_a_sealed_row_of_a_policy_copied_to_another_refund_sends_nothing(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    paid, other = returned(stack, world, sandbox), returned(stack, world, sandbox)
    for one in (paid, other):
        by_policy(stack, world, one.case_id)
    as_administrator(stack, "DELETE FROM approvals WHERE intent_id = %s", other.intent_id)
    as_administrator(
        stack, "INSERT INTO approvals SELECT merchant_id, gen_random_uuid(), %s, seat, approver, staff_id, requester, case_opener,"
        " fingerprint, strength, note, operation_key, approved_at, expires_at, seal_key_id, seal FROM approvals"
        " WHERE intent_id = %s", other.intent_id, paid.intent_id,
    )  # fmt: skip
    submitter.run_once(worker)
    assert (row_of(stack, other)["state_reason"], refunds_at(sandbox, other)) == ("seal", 0)
    assert refunds_at(sandbox, paid) == len(creates(sandbox)) == 1


EDITED: tuple[LiteralString, ...] = (
    "UPDATE approvals SET expires_at = expires_at - interval '1 minute'",
    "UPDATE approvals SET approver = 'policy:another@7'",
    "UPDATE approvals SET fingerprint = decode(repeat('00', 32), 'hex')",
    "UPDATE approvals SET operation_key = 'automatic-and-more'",
    # Passed off as a person's, by somebody who may write the table.
    (
        "UPDATE approvals SET (approver, staff_id, strength) = (SELECT 'staff:' || staff_id, staff_id, 'session' FROM staff"
        " WHERE name = 'Priya Raman')"
    ),
)


def test_one_column_of_a_policys_row_edited_sends_nothing(stack: Stack, sandbox: Running) -> None:
    for number, statement in enumerate(EDITED):
        world = generous(stack, f"quay-{number}")
        one = returned(stack, world, sandbox)
        by_policy(stack, world, one.case_id)
        as_administrator(stack, statement)
        with worker_at(stack, sandbox, world) as worker:
            submitter.run_once(worker)
        row = row_of(stack, one)
        assert (row["state"], row["state_reason"]) == ("held", "seal"), statement
        assert (creates(sandbox), refunds_at(sandbox, one)) == ([], 0)
        as_administrator(stack, "DELETE FROM staff")


def test_a_persons_row_passed_off_as_a_policys_sends_nothing(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = returned(stack, world, sandbox)
    lives.approve_as(stack, world, world.priya, one.intent_id)
    as_administrator(
        stack,
        "UPDATE approvals SET (approver, staff_id, strength, note) = ('policy:harbour-usual@1', NULL, 'policy', '')",
    )
    submitter.run_once(worker)
    held_without_a_call(stack, sandbox, one, "seal")


def test_one_key_is_never_both_peoples_and_policies() -> None:
    with pytest.raises(ValueError, match="each has a key of its own"):
        SealVerifier([lives.sealer().public_text()], [lives.sealer().public_text()])


def test_a_worker_without_the_policies_key_sends_nothing_of_theirs(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = returned(stack, world, sandbox)
    by_policy(stack, world, one.case_id)
    worker.verifier = SealVerifier([lives.sealer().public_text()])
    submitter.run_once(worker)
    held_without_a_call(stack, sandbox, one, "seal")


def test_a_policys_approval_is_good_for_a_day(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = returned(stack, world, sandbox)
    by_policy(stack, world, one.case_id)
    (aged,) = as_administrator(
        stack, "UPDATE approvals SET approved_at = approved_at - interval '25 hours', expires_at = expires_at - interval '25 hours'"
        " RETURNING *",
    )  # fmt: skip
    assert aged["expires_at"] - aged["approved_at"] == timedelta(hours=24)
    as_administrator(stack, "UPDATE approvals SET seal = %s", lives.policy_sealer().seal(aged))
    submitter.run_once(worker)
    held_without_a_call(stack, sandbox, one, "expired")


Change = Callable[[Stack, World, Proposed], object]


def _sql(statement: LiteralString) -> Change:
    return lambda stack, _world, _one: as_administrator(stack, statement)


# What happens after the policy approved and before it leaves, and for what it is then held.
SINCE: dict[str, tuple[Change, str]] = {
    "evidence": (_sql("UPDATE evidence SET note = 'looks new' WHERE number = 2"), "fingerprint"),
    "amount": (_sql("UPDATE intents SET amount_minor = amount_minor + 1"), "fingerprint"),
    "superseded by nothing": (lambda stack, world, _one: superseded(stack, world, None), "automatic_not_named"),
    "superseded by less": (lambda stack, world, _one: superseded(stack, world, "2000"), "automatic_above"),
    "edited down": (
        _sql("UPDATE policies SET document = jsonb_set(document, '{automatic,GBP,most_minor}', '2000')"), "automatic_above"),
    "the reporting token revoked": (_sql("UPDATE api_tokens SET revoked_at = now()"), "automatic_channel_only"),
    "unverified customer": (_sql("UPDATE conversations SET customer_verified = ''"), "automatic_not_verified"),
    "separate": (_sql("UPDATE cases SET separate = true"), "automatic_separate"),
    "unread payment": (_sql("UPDATE captures SET verified_generation = 0"), "automatic_unread"),
    "discrepancies": (_sql("UPDATE orders SET discrepancies = '{import_changed}'"), "automatic_blocked"),
    "a dispute that is over": (_sql("INSERT INTO disputes (merchant_id, dispute_ref, provider_account_id, charge_ref,"
        " payment_intent_ref, amount_minor, currency, reason, created_at, found_by, status) SELECT merchant_id, 'dp_1',"
        " provider_account_id, charge_ref, payment_intent_ref, 100, 'GBP', 'fraudulent', now(), 'hook', 'won' FROM intents"),
        "automatic_disputed"),
}  # fmt: skip


def test_what_a_policy_may_not_approve_any_more_is_held_before_it_leaves(stack: Stack, sandbox: Running) -> None:
    for number, (what, (change, reason)) in enumerate(SINCE.items()):
        world = generous(stack, f"quay-{number}")
        one = returned(stack, world, sandbox)
        assert isinstance(by_policy(stack, world, one.case_id), Decision)
        change(stack, world, one)
        with worker_at(stack, sandbox, world) as worker:
            submitter.run_once(worker)
        row = row_of(stack, one)
        assert (row["state"], row["state_reason"]) == ("held", reason), what
        assert (creates(sandbox), refunds_at(sandbox, one)) == ([], 0), what
        for table in (
            "disputes",
            "evidence",
            "policies",
            "api_tokens",
            "conversations",
            "intents",
            "outbox",
            "approvals",
        ):
            as_administrator(stack, f"DELETE FROM {table}")  # noqa: S608


def test_without_the_rule_worked_out_again_a_superseded_policy_would_pay(
    stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = returned(stack, world, sandbox)
    by_policy(stack, world, one.case_id)
    superseded(stack, world, None)
    monkeypatch.setattr("ledger.approvals.fault_of_policy", lambda *_: "")
    submitter.run_once(worker)
    assert refunds_at(sandbox, one) == 1


def test_a_version_that_names_less_holds_what_was_not_sent_and_a_person_approves_anew(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """S36. Held in the moment of the change, and no timer, day or dispute lets it go."""
    one = returned(stack, world, sandbox)
    by_policy(stack, world, one.case_id)
    with transaction(stack.owner, world.merchant_id) as db:
        assert revoke_automatic(db, world.merchant_id, "system") == 0
    superseded(stack, world, "2000")
    with transaction(stack.owner, world.merchant_id) as db:
        assert revoke_automatic(db, world.merchant_id, "system") == 1
        assert revoke_automatic(db, world.merchant_id, "system") == 0
    assert row_of(stack, one)["state_reason"] == "automatic_above"
    assert (submitter.run_once(worker), creates(sandbox)) == ({}, [])
    assert by_policy(stack, world, one.case_id) is None
    superseded_back(stack)
    with transaction(stack.console, world.merchant_id) as db:
        cancel_before_send(db, world.merchant_id, one.intent_id, world.tobias.actor, "other")
        work_out_again(db, world.merchant_id, one.case_id, world.tobias.actor)
    row = lives.intents(stack, world, one.case_id)[-1]
    assert by_policy(stack, world, one.case_id) == Left(row["intent_id"], "asked_again")
    lives.approve_as(stack, world, world.priya, row["intent_id"])
    submitter.run_once(worker)
    assert refunds_at(sandbox, one) == 1


def superseded_back(stack: Stack) -> None:
    as_administrator(stack, "UPDATE policies SET document = jsonb_set(document, '{automatic,GBP,most_minor}', '2500')")


def test_what_is_held_for_its_rule_is_let_go_by_nobody(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = returned(stack, world, sandbox)
    by_policy(stack, world, one.case_id)
    as_administrator(stack, "UPDATE conversations SET customer_verified = ''")
    submitter.run_once(worker)
    held_without_a_call(stack, sandbox, one, "automatic_not_verified")
    with transaction(stack.worker, world.merchant_id) as db:
        case = lock_case(db, world.merchant_id, one.case_id)
        with pytest.raises(IntegrityError, match="goes only by a new approval"):
            append(db, case, "intent.released", "system", intent_id=one.intent_id, move=("held", "approved"))
        db.rollback()


def test_the_worker_is_no_policy(stack: Stack, world: World, sandbox: Running) -> None:
    """S26: with every key it could have, its role writes neither approvals nor events in a policy's name."""
    one = returned(stack, world, sandbox)
    with pytest.raises(DBAPIError, match="permission denied"), transaction(stack.worker, world.merchant_id) as db:
        approve_by_policy(db, world.merchant_id, one.case_id, lives.policy_sealer(), cancel_window_seconds=0)
    with transaction(stack.worker, world.merchant_id) as db:
        case = lock_case(db, world.merchant_id, one.case_id)
        with pytest.raises(DBAPIError, match="row-level security"):
            append(db, case, "automatic.left", "policy:harbour-usual@1", intent_id=one.intent_id, reason="grade")
        db.rollback()


def test_the_console_writes_no_policys_row_that_is_not_the_policys_to_approve(
    stack: Stack, world: World, sandbox: Running
) -> None:
    """As a person's with no person, as another version's, and as a policy's move of another kind."""
    one = returned(stack, world, sandbox)
    insert = (
        "INSERT INTO approvals (merchant_id, approval_id, intent_id, seat, approver, staff_id, requester, case_opener, fingerprint,"
        " strength, operation_key, approved_at, expires_at, seal_key_id, seal) SELECT merchant_id, gen_random_uuid(), intent_id, 1,"
        " :approver, NULL, requester, case_opener, decode(repeat('00', 32), 'hex'), :strength, 'sixteen-or-more-keys', now(),"
        " now() + interval '1 hour', 'k', decode(repeat('00', 64), 'hex') FROM intents WHERE intent_id = :i"
    )
    for approver, strength, refused in (
        (world.priya.actor, "session", "a policy approves what is under it, now"),
        ("policy:harbour-usual@1", "session", "a_persons_or_a_policys"),
        ("policy:harbour-usual@2", "policy", "a policy approves what is under it, now"),
    ):
        with pytest.raises(Exception, match=refused), transaction(stack.console, world.merchant_id) as db:
            run(db, insert, i=one.intent_id, approver=approver, strength=strength)
    with transaction(stack.console, world.merchant_id) as db:
        case = lock_case(db, world.merchant_id, one.case_id)
        with pytest.raises(IntegrityError, match="a_policy_only_approves"):
            append(db, case, "case.rejected", "policy:harbour-usual@1", stage="rejected")
        db.rollback()
