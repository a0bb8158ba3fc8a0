"""What only people settle (SECURITY §2): every way into review leads out of it by a manager and finance, on the provider's list."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError
from stripe import StripeClient

from jobs import inbox, reconciler, submitter
from jobs.worker import Worker
from ledger import approvals
from ledger.assessment import work_out_again
from ledger.database import run, transaction
from ledger.errors import NotAllowed, SamePerson, Stale, WrongState
from ledger.events import append, lock_case
from ledger.queries.overdue import overdue_intents
from ledger.reconciliation import MOST_UNCLEAR
from ledger.review import ask_again
from ledger.settlement import Unknown
from sandbox.client import Running
from tests import lives
from tests.jobs.settling import agree, choices, confirm, propose, results, seen, shown_for, turn_down
from tests.refunds import (
    Proposed,
    alarms,
    approved,
    as_administrator,
    balances,
    creates,
    grow_old,
    make_due,
    paid_order,
    refunds_at,
    row_of,
    state_of,
    worker_at,
)
from tests.stack import Server, Stack, fresh_stack, without
from tests.world import World, build_world


def in_review(stack: Stack, world: World, sandbox: Running, worker: Worker, *, acted: bool) -> Proposed:
    """Its key passed its safe age before anybody knew; with `acted` the provider had done it, and its list lags."""
    if acted:
        sandbox.fault("list_lag", seconds=7200)
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    if acted:
        worker.gateway.refund(claimed.request, claimed.key)
    lives.record(stack, claimed, Unknown("no_answer", "ReadTimeout"))
    grow_old(stack, one, hours=23)
    reconciler.run_once(worker)
    assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("needs_review", "key_too_old")
    return one


def asked_again(stack: Stack, world: World, worker: Worker, one: Proposed) -> dict[str, int]:
    """Somebody presses the button; the worker asks."""
    as_administrator(stack, "UPDATE looks SET at = at - interval '1 minute'")
    with transaction(stack.console, world.merchant_id) as db:
        assert ask_again(db, world.merchant_id, one.intent_id)
    return dict(reconciler.run_once(worker))


def paid(stack: Stack, sandbox: Running, one: Proposed, *, there: int = 1) -> None:
    assert state_of(stack, one) == "succeeded"
    assert refunds_at(sandbox, one) == there
    assert balances(stack, one) == (one.order.total_minor - one.amount_minor, 0, one.amount_minor)


def not_paid(stack: Stack, sandbox: Running, one: Proposed, *, there: int = 0) -> None:
    assert state_of(stack, one) == "failed"
    assert refunds_at(sandbox, one) == there
    assert balances(stack, one) == (one.order.total_minor, 0, 0)
    assert as_administrator(stack, "SELECT sum(used_minor)::int AS used FROM cap_days")[0]["used"] == 0


def test_an_absence_that_two_people_saw_gives_everything_back_and_only_a_new_approval_pays(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    assert choices(stack, world, one) == (["failed:"], "")
    agree(stack, world, one, "failed:")
    assert reconciler.run_once(patient) == {"looks": 1, "listed": 1, "settled": 1}
    not_paid(stack, sandbox, one)
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, one.case_id, world.tobias.actor)
    again = lives.intents(stack, world, one.case_id)[-1]
    assert (again["replaces"], again["state"]) == (one.intent_id, "proposed")
    assert again["provider_key"] != one.key
    lives.approve_as(stack, world, world.priya, again["intent_id"])
    submitter.run_once(patient)
    assert (lives.state(stack, world, again["intent_id"]), refunds_at(sandbox, one)) == ("succeeded", 1)


def test_a_refund_that_the_list_shows_later_is_settled_as_paid(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=True)
    shown = shown_for(stack, world, one)
    assert shown is not None
    assert shown.refunds == ()
    sandbox.advance(7200)
    assert asked_again(stack, world, patient, one) == {"looks": 1, "listed": 1}
    refund = sandbox.money(one.payment_intent)["refunds"][0]["id"]
    assert choices(stack, world, one) == ([f"succeeded:{refund}"], "")
    assert state_of(stack, one) == "needs_review"
    agree(stack, world, one, f"succeeded:{refund}")
    assert reconciler.run_once(patient) == {"looks": 1, "listed": 1, "settled": 1}
    paid(stack, sandbox, one)
    assert row_of(stack, one)["provider_refund_ref"] == refund
    assert alarms(stack) == set()


def differs(what: str, value: str | int) -> Callable[..., Proposed]:
    def enter(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
        sandbox.fault("wrong_answer", fields={what: value}, path="/v1/refunds")
        one = approved(stack, world, sandbox)
        submitter.run_once(worker)
        reconciler.run_once(worker)
        return one

    return enter


@pytest.mark.parametrize(
    ("what", "value", "said"),
    [
        ("amount", 1, "amount differs: asked for 24.90 GBP, the provider shows 0.01 GBP"),
        ("currency", "jpy", "currency differs: asked for 24.90 GBP, the provider shows 2490 JPY"),
        ("charge", "ch_other", "the provider shows ch_other"),
    ],
    ids=["amount", "currency", "charge"],
)
def test_the_alarm_about_an_answer_names_what_was_asked_for_and_what_was_answered(
    stack: Stack, world: World, sandbox: Running, patient: Worker, what: str, value: str | int, said: str
) -> None:
    differs(what, value)(stack, world, sandbox, patient)
    (alarm,) = as_administrator(stack, "SELECT kind, text FROM alarms")
    assert alarm["kind"] == "answer_differs"
    assert said in alarm["text"]


def keeps_failing(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    sandbox.fault("error_500_before", path="/v1/refunds")
    one = approved(stack, world, sandbox)
    submitter.run_once(worker)
    for sent in range(1, MOST_UNCLEAR + 2):
        assert len(creates(sandbox)) == min(sent, MOST_UNCLEAR)
        as_administrator(stack, "UPDATE attempt_results SET at = at - interval '10 minutes'")
        make_due(stack)
        reconciler.run_once(worker)
    assert {call["idempotency_key"] for call in creates(sandbox)} == {one.key}
    return one


def two_refunds(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    for key in (claimed.key, "a-key-that-is-not-its-own"):
        worker.gateway.refund(claimed.request, key)
    lives.record(stack, claimed, Unknown("no_answer", "ReadTimeout"))
    reconciler.run_once(worker)
    return one


def vanished(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    """The provider named a refund that is pending, and then shows nothing of it, nor of any other."""
    sandbox.fault("refund_pending")
    sandbox.fault("list_lag", seconds=10_000_000)
    one = approved(stack, world, sandbox)
    submitter.run_once(worker)
    as_administrator(stack, "UPDATE intents SET provider_refund_ref = 're_gone' WHERE intent_id = %s", one.intent_id)
    make_due(stack)
    reconciler.run_once(worker)
    return one


def another_than_named(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    """The provider named a refund that is pending; it is gone, and another one bears our mark."""
    sandbox.fault("refund_pending")
    one = approved(stack, world, sandbox)
    submitter.run_once(worker)
    as_administrator(stack, "UPDATE intents SET provider_refund_ref = 're_gone' WHERE intent_id = %s", one.intent_id)
    make_due(stack)
    reconciler.run_once(worker)
    return one


def not_sendable(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    """The charge that the shop sent us is written as no charge of the provider is: no call is made with it."""
    order = paid_order(stack, world, sandbox)
    as_administrator(stack, "UPDATE captures SET charge_ref = 'ch_/../x' WHERE capture_id = %s", order.captures["card"])
    one = approved(stack, world, sandbox, order=order)
    submitter.run_once(worker)
    assert creates(sandbox) == []
    reconciler.run_once(worker)
    return one


def key_of_another(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    one = approved(stack, world, sandbox)
    request = as_administrator(stack, "SELECT request FROM outbox")[0]["request"]
    worker.gateway.refund({**request, "amount_minor": "1", "metadata": {"onceback_intent": "other"}}, one.key)
    submitter.run_once(worker)
    reconciler.run_once(worker)
    return one


def without_mark(stack: Stack, world: World, sandbox: Running, worker: Worker) -> Proposed:
    """The refund is there, and somebody took our mark off before it was found."""
    one = in_review(stack, world, sandbox, worker, acted=True)
    refund = sandbox.money(one.payment_intent)["refunds"][0]["id"]
    client = StripeClient(sandbox.secret_key, base_addresses={"api": sandbox.base_url})
    client.v1.refunds.update(refund, {"metadata": {"onceback_intent": ""}})
    sandbox.advance(7200)
    asked_again(stack, world, worker, one)
    return one


WAYS_IN: list[tuple[str, Callable[..., Proposed], str, int]] = [
    ("differs:amount", differs("amount", 1), "succeeded", 1),
    ("differs:currency", differs("currency", "usd"), "succeeded", 1),
    ("differs:charge", differs("charge", "ch_other"), "succeeded", 1),
    ("differs:refund", another_than_named, "failed", 1),
    ("not_sendable", not_sendable, "failed", 0),
    ("unlisted_status", differs("status", "resting"), "succeeded", 1),
    ("keeps_failing", keeps_failing, "failed", 0),
    ("two_refunds", two_refunds, "succeeded", 2),
    ("refund_vanished", vanished, "failed", 1),
    ("idempotency_error", key_of_another, "failed", 1),
    ("key_too_old", without_mark, "succeeded", 1),
]


# Where another refund with our mark stands beside it: named, it is somebody's to explain.
NAMES_ANOTHER = ("two_refunds", "differs:refund")
# Settled as well, and yet for somebody to find out why.
OUR_FAULTS = {"idempotency_error", "not_sendable"}


@pytest.mark.parametrize(
    ("reason", "enter", "ends", "there"), WAYS_IN, ids=[f"{way[0]} {way[1].__name__}" for way in WAYS_IN]
)
def test_every_way_into_review_leads_out_of_it_by_two_people(
    stack: Stack, world: World, sandbox: Running, patient: Worker,
    reason: str, enter: Callable[..., Proposed], ends: str, there: int,
) -> None:  # fmt: skip
    one = enter(stack, world, sandbox, patient)
    assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("needs_review", reason)
    assert shown_for(stack, world, one) is not None, "the provider's list lies beside it"
    as_administrator(stack, "UPDATE attempt_results SET at = at - interval '5 minutes'")
    found, why = choices(stack, world, one)
    chosen = next((choice for choice in found if choice.startswith(ends)), "")
    assert chosen, (found, why)
    before = alarms(stack)
    agree(stack, world, one, chosen)
    assert reconciler.run_once(patient) == {"looks": 1, "listed": 1, "settled": 1}
    if ends == "succeeded":
        paid(stack, sandbox, one, there=there)
    else:
        not_paid(stack, sandbox, one, there=there)
    assert alarms(stack) - before == ({"unexplained_refund"} if reason in NAMES_ANOTHER else set())
    assert alarms(stack) & before == before & OUR_FAULTS, "what is settled is no alarm any more"
    assert (submitter.run_once(patient), refunds_at(sandbox, one)) == ({}, there)


def test_an_approval_that_ends_while_nobody_knows_is_peoples_and_never_sent(
    stack: Stack, world: World, sandbox: Running, patient: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S31: approved for half a second, sent inside it, absent after it."""
    monkeypatch.setitem(approvals.APPROVAL_HOURS, "session", 0.5 / 3600)
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    lives.record(stack, claimed, Unknown("no_answer", "ReadTimeout"))
    as_administrator(
        stack, "SELECT pg_sleep(greatest(0, extract(epoch FROM max(expires_at) - clock_timestamp()))) FROM approvals"
    )
    as_administrator(stack, "UPDATE attempt_results SET at = at - interval '3 seconds'")
    make_due(stack)
    reconciler.run_once(patient)
    assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("needs_review", "expired")
    assert (creates(sandbox), balances(stack, one)[1]) == ([], one.amount_minor)
    as_administrator(stack, "UPDATE attempt_results SET at = at - interval '5 minutes'")
    agree(stack, world, one, "failed:")
    reconciler.run_once(patient)
    not_paid(stack, sandbox, one)


def test_an_absence_seen_too_soon_or_too_long_ago_settles_nothing(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    as_administrator(stack, "UPDATE attempt_results SET at = now() - interval '30 seconds'")
    found, why = choices(stack, world, one)
    assert (found, "too recent" in why) == ([], True)
    as_administrator(stack, "UPDATE attempt_results SET at = now() - interval '1 hour'")
    as_administrator(
        stack, "UPDATE provider_lists SET asked_at = asked_at - interval '16 min', taken_at = taken_at - interval '16 min'"
    )  # fmt: skip
    found, why = choices(stack, world, one)
    assert (found, "too old" in why) == ([], True)
    assert asked_again(stack, world, patient, one) == {"looks": 1, "listed": 1}
    assert choices(stack, world, one) == (["failed:"], "")


def test_a_refund_made_by_hand_that_could_be_it_is_adopted_or_named_and_never_passed_over(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    by_hand = sandbox.dashboard_refund(one.payment_intent, one.amount_minor)["id"]
    asked_again(stack, world, patient, one)
    assert choices(stack, world, one)[0] == [f"succeeded:{by_hand}", "failed:"]
    agree(stack, world, one, "failed:")
    reconciler.run_once(patient)
    assert state_of(stack, one) == "failed"
    assert as_administrator(stack, "SELECT named FROM settlements")[0]["named"] == [by_hand]
    assert alarms(stack) == {"unexplained_refund"}
    assert refunds_at(sandbox, one) == 1


def test_neither_one_person_nor_one_role_nor_the_approver_settles_alone(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    for person in (world.priya, world.rita, world.ada):
        with pytest.raises(NotAllowed):
            propose(stack, world, one, person, "failed:")
    first = propose(stack, world, one, world.mara, "failed:")
    with pytest.raises(WrongState):
        propose(stack, world, one, world.farah, "failed:")
    for person, other_refusal in ((world.mara, SamePerson), (world.jonas, NotAllowed), (world.tobias, NotAllowed)):
        with pytest.raises(other_refusal):
            confirm(stack, world, first, person)
    assert turn_down(stack, world, first, world.jonas)
    with pytest.raises(WrongState):
        confirm(stack, world, first, world.farah)
    assert (state_of(stack, one), results(stack)) == ("needs_review", [])


def test_who_approved_the_refund_settles_no_part_of_it(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = approved(stack, world, sandbox, by=world.jonas)
    (claimed,) = lives.claim(stack, world)
    lives.record(stack, claimed, Unknown("idempotency_error", "", needs_person=True))
    reconciler.run_once(patient)
    as_administrator(stack, "UPDATE attempt_results SET at = at - interval '5 minutes'")
    with pytest.raises(SamePerson, match="You approved this refund"):
        propose(stack, world, one, world.jonas, "failed:")
    agree(stack, world, one, "failed:")


def decision(stack: Stack, settlement: Any, who: Any, role: str, **other: Any) -> dict[str, Any]:
    (row,) = as_administrator(stack, "SELECT * FROM settlements WHERE settlement_id = %s", settlement)
    return {"m": row["merchant_id"], "s": settlement, "digest": row["digest"], "by": row["proposed_by"],
            "by_role": row["proposed_role"], "who": who, "role": role, **other}  # fmt: skip


INSERT = (
    "INSERT INTO settlement_decisions (merchant_id, settlement_id, digest, proposed_by, proposed_role, decided_by, decided_role,"
    " confirmed) VALUES (:m, :s, :digest, :by, :by_role, :who, :role, true)"
)


def test_the_database_refuses_a_second_word_that_is_none(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    """By plain statements of the console's role: the same person, the same role, a role not held, another digest."""
    one = in_review(stack, world, sandbox, patient, acted=False)
    first = propose(stack, world, one, world.mara, "failed:")
    lies = [
        decision(stack, first, world.mara.staff_id, "manager"),
        decision(stack, first, world.mara.staff_id, "finance"),
        decision(stack, first, world.jonas.staff_id, "manager"),
        decision(stack, first, world.jonas.staff_id, "finance"),
        decision(stack, first, world.farah.staff_id, "manager"),
        decision(stack, first, world.priya.staff_id, "finance"),
        decision(stack, first, world.farah.staff_id, "finance", digest=bytes(32)),
        decision(stack, first, world.farah.staff_id, "finance", by=world.jonas.staff_id),
    ]
    for lie in lies:
        with pytest.raises(IntegrityError), transaction(stack.console, world.merchant_id) as db:
            run(db, INSERT, **lie)
    with pytest.raises(DBAPIError, match="permission denied"), transaction(stack.worker, world.merchant_id) as db:
        run(db, INSERT, **decision(stack, first, world.farah.staff_id, "finance"))
    assert state_of(stack, one) == "needs_review"


def test_the_database_refuses_a_proposal_that_the_list_does_not_support(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=True)
    sandbox.advance(7200)
    asked_again(stack, world, patient, one)
    other = sandbox.dashboard_refund(one.payment_intent, 1)["id"]
    ours = next(refund["id"] for refund in sandbox.money(one.payment_intent)["refunds"] if refund["id"] != other)
    shown = shown_for(stack, world, one)
    assert shown is not None
    insert = (
        "INSERT INTO settlements (merchant_id, settlement_id, intent_id, n, list_id, outcome, refund_ref, note, proposed_by,"
        " proposed_role, digest) VALUES (:m, gen_random_uuid(), :i, 1, :l, :outcome, :ref, 'x', :who, 'manager', :digest)"
    )
    for outcome, ref in (
        ("failed", None),
        ("failed", ours),
        ("pending", ours),
        ("succeeded", other),
        ("succeeded", "re_none"),
    ):
        with pytest.raises(IntegrityError), transaction(stack.console, world.merchant_id) as db:
            run(db, insert, m=world.merchant_id, i=one.intent_id, l=shown.list_id, outcome=outcome, ref=ref,
                who=world.mara.staff_id, digest=bytes(32))  # fmt: skip
    assert state_of(stack, one) == "needs_review"


def alone(stack: Stack, world: World, one: Proposed, to: str) -> None:
    """The worker's role moves an intent out of review with nobody's word."""
    with transaction(stack.worker, world.merchant_id) as db:
        case = lock_case(db, world.merchant_id, one.case_id)
        append(db, case, f"intent.{to}", "system", intent_id=one.intent_id, move=("needs_review", to))


@pytest.mark.parametrize("to", ["pending", "succeeded", "failed"])
def test_the_worker_alone_leads_nothing_out_of_review(
    stack: Stack, world: World, sandbox: Running, patient: Worker, to: str
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    propose(stack, world, one, world.mara, "failed:")
    with pytest.raises(IntegrityError, match="settled by two people"):
        alone(stack, world, one, to)
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("needs_review", 0)


def test_without_the_guard_a_worker_alone_would_let_the_same_return_be_paid_twice(
    server: Server, sandbox: Running
) -> None:
    """The control: the provider has the refund, and its list lags. One person's belief is enough, and it is paid again."""
    with fresh_stack(server) as stack:
        world = build_world(stack)
        with worker_at(stack, sandbox, world, consistency_seconds=0) as worker:
            one = in_review(stack, world, sandbox, worker, acted=True)
            without(stack, "DROP TRIGGER settled_by_two ON events")
            alone(stack, world, one, "failed")
            as_administrator(stack, "DELETE FROM line_claims")
            as_administrator(stack, "UPDATE order_lines SET claimed_minor = 0")
            with transaction(stack.console, world.merchant_id) as db:
                work_out_again(db, world.merchant_id, one.case_id, world.tobias.actor)
            again = lives.intents(stack, world, one.case_id)[-1]
            lives.approve_as(stack, world, world.priya, again["intent_id"])
            submitter.run_once(worker)
            assert refunds_at(sandbox, one) == 2


def test_what_changed_at_the_provider_after_the_second_word_is_void_and_back_with_people(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=True)
    agree(stack, world, one, "failed:")
    sandbox.advance(7200)
    assert reconciler.run_once(patient) == {"looks": 1, "listed": 1, "void": 1}
    assert (state_of(stack, one), results(stack)) == ("needs_review", [("void", "evidence_changed")])
    assert alarms(stack) == {"settlement_void"}
    assert balances(stack, one)[1] == one.amount_minor
    (refund,) = sandbox.money(one.payment_intent)["refunds"]
    agree(stack, world, one, f"succeeded:{refund['id']}")
    reconciler.run_once(patient)
    paid(stack, sandbox, one)


def test_somebody_who_left_after_their_word_settles_nothing(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    agree(stack, world, one, "failed:")
    as_administrator(stack, "UPDATE memberships SET ended_at = now() WHERE staff_id = %s", world.farah.staff_id)
    assert reconciler.run_once(patient) == {"looks": 1, "listed": 1, "void": 1}
    assert (state_of(stack, one), results(stack)) == ("needs_review", [("void", "left")])


def test_a_provider_that_cannot_be_asked_keeps_two_peoples_word_waiting(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    agree(stack, world, one, "failed:")
    sandbox.fault("error_503")
    assert reconciler.run_once(patient) == {"looks": 1, "no_answer": 1}
    assert (state_of(stack, one), results(stack)) == ("needs_review", [])
    make_due(stack)
    assert reconciler.run_once(patient) == {"looks": 1, "listed": 1, "settled": 1}
    not_paid(stack, sandbox, one)


def test_a_hook_settles_nothing_that_people_have_before_them(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=True)
    sandbox.advance(7200)
    as_administrator(
        stack, "INSERT INTO provider_events (merchant_id, event_ref, kind, object_ref, payment_intent_ref, created_at, body_digest)"
        " VALUES (%s, 'evt_1', 'refund.updated', 're_1', %s, now(), %s)", world.merchant_id, one.payment_intent, bytes(32),
    )  # fmt: skip
    inbox.run_once(patient)
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("needs_review", 1)


def test_two_second_people_at_once_are_one_word(stack: Stack, world: World, sandbox: Running, patient: Worker) -> None:
    """Farah confirms while Jonas turns it down: one of them wins, and the worker does what that one said."""
    one = in_review(stack, world, sandbox, patient, acted=False)
    first = propose(stack, world, one, world.mara, "failed:")
    raced = lives.race(
        lambda: confirm(stack, world, first, world.farah), lambda: turn_down(stack, world, first, world.jonas)
    )
    assert (raced.results, len(raced.refusals)) == ([True], 1)
    assert isinstance(raced.refusals[0], WrongState)
    said = as_administrator(stack, "SELECT confirmed FROM settlement_decisions")
    assert len(said) == 1
    make_due(stack)
    reconciler.run_once(patient)
    assert state_of(stack, one) == ("failed" if said[0]["confirmed"] else "needs_review")
    assert refunds_at(sandbox, one) == 0


def test_two_proposals_at_once_are_one(stack: Stack, world: World, sandbox: Running, patient: Worker) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    digest = seen(stack, world, one)
    raced = lives.race(
        lambda: propose(stack, world, one, world.mara, "failed:", digest),
        lambda: propose(stack, world, one, world.farah, "failed:", digest),
    )
    assert (len(raced.results), [type(refusal) for refusal in raced.refusals]) == (1, [WrongState])
    assert len(as_administrator(stack, "SELECT 1 FROM settlements")) == 1


def test_a_new_list_that_shows_something_else_comes_before_the_second_word(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=True)
    old = seen(stack, world, one)
    first = propose(stack, world, one, world.mara, "failed:", old)
    sandbox.advance(7200)
    asked_again(stack, world, patient, one)
    with pytest.raises(Stale):
        confirm(stack, world, first, world.farah)
    turn_down(stack, world, first, world.mara)
    with pytest.raises(Stale):
        propose(stack, world, one, world.mara, "failed:", old)
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("needs_review", 1)


def test_two_workers_carry_it_out_once(stack: Stack, world: World, sandbox: Running, patient: Worker) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    agree(stack, world, one, "failed:")
    with worker_at(stack, sandbox, world, consistency_seconds=0) as other:
        raced = lives.race(lambda: reconciler.run_once(patient), lambda: reconciler.run_once(other))
    assert raced.refusals == []
    assert results(stack) == [("carried_out", "")]
    not_paid(stack, sandbox, one)


def test_a_provider_away_for_a_day_is_said_aloud_and_nothing_is_decided_by_it(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = approved(stack, world, sandbox)
    (claimed,) = lives.claim(stack, world)
    lives.record(stack, claimed, Unknown("no_answer", "ReadTimeout"))
    grow_old(stack, one, hours=25)
    as_administrator(stack, "UPDATE intents SET state_at = state_at - interval '25 hours'")
    for _ in range(3):
        sandbox.fault("error_503")
        make_due(stack)
        assert reconciler.run_once(patient) == {"looks": 1, "no_answer": 1}
    assert (state_of(stack, one), alarms(stack)) == ("unknown", {"unknown_too_long"})
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        assert [late.intent_id for late in overdue_intents(db, world.merchant_id)] == [one.intent_id]
    assert (creates(sandbox), balances(stack, one)[1]) == ([], one.amount_minor)


def test_the_button_asks_once_however_often_it_is_pressed(
    stack: Stack, world: World, sandbox: Running, patient: Worker
) -> None:
    one = in_review(stack, world, sandbox, patient, acted=False)
    as_administrator(stack, "UPDATE looks SET at = at - interval '1 minute'")
    pressed = []
    for _ in range(3):
        with transaction(stack.console, world.merchant_id) as db:
            pressed.append(ask_again(db, world.merchant_id, one.intent_id))
    assert pressed == [True, False, False]
    assert reconciler.run_once(patient) == {"looks": 1, "listed": 1}
    with transaction(stack.console, world.merchant_id) as db:
        assert not ask_again(db, world.merchant_id, one.intent_id)
    assert reconciler.run_once(patient) == {}
