"""A record by hand behind which no good approval stands: a manager and finance say what became of it, and no provider is asked."""

from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import pytest
from sqlalchemy.exc import IntegrityError

from jobs import by_hand, reconciler
from jobs.worker import Worker
from ledger import review
from ledger.assessment import work_out_again
from ledger.by_hand import Recorded, record
from ledger.database import run, transaction
from ledger.errors import NotAllowed, SamePerson, Stale, WrongState
from ledger.events import append, lock_case
from ledger.people import switch_off
from ledger.recovery import put_to_rest
from ledger.revocation import revoke_over_limits
from sandbox.client import Running
from tests import lives
from tests.jobs.settling import agree, choices, confirm, digest_of, propose, results, seen, turn_down
from tests.orders import LAMP, TEE
from tests.refunds import Proposed, alarms, as_administrator, make_due, row_of, state_of, worker_at
from tests.stack import Server, Stack, fresh_stack, without
from tests.world import Person, World, add_order, build_world

ALL = 137_60


def paid_by_hand(
    stack: Stack, world: World, lines: tuple[tuple[str, int], ...] = ((TEE, 3), (LAMP, 1)), *, by: Person | None = None
) -> Proposed:
    """Approved by Priya (or `by`), paid to the gift card by Tobias under GC-7; no worker has seen it yet."""
    order = add_order(stack, world, "G-1", captured={"gift_card": ALL}, by_hand=frozenset({"gift_card"}))
    opened = lives.open_case(stack, world, ((TEE, 3), (LAMP, 1)), order_ref=order.external_ref, reference="G-1")
    lives.arrive(stack, world, opened.case_id, *lines)
    (intent,) = lives.intents(stack, world, opened.case_id)
    lives.approve_as(stack, world, by or world.priya, intent["intent_id"])
    record_it(stack, world, intent["intent_id"])
    return Proposed(opened.case_id, intent["intent_id"], "", "", intent["amount_minor"], intent["currency"],
                    intent["provider_key"], order)  # fmt: skip


def record_it(stack: Stack, world: World, intent_id: Any, reference: str = "GC-7") -> None:
    with transaction(stack.console, world.merchant_id) as db:
        record(db, world.merchant_id, intent_id, world.tobias.staff_id, Recorded(reference=reference))


def edited(stack: Stack, world: World) -> Proposed:
    one = paid_by_hand(stack, world)
    as_administrator(stack, "UPDATE approvals SET note = 'edited' WHERE intent_id = %s", one.intent_id)
    return one


def ran_out(stack: Stack, world: World) -> Proposed:
    one = paid_by_hand(stack, world)
    as_administrator(stack, "UPDATE manual_settlements SET recorded_at = recorded_at + interval '2 days'")
    return one


def new_evidence(stack: Stack, world: World) -> Proposed:
    """Another shirt arrives in the seconds between."""
    one = paid_by_hand(stack, world, ((TEE, 1),))
    lives.arrive(stack, world, one.case_id, (TEE, 1))
    return one


def approver_left(stack: Stack, world: World) -> Proposed:
    """Held, it could neither be settled nor called back: what was paid by hand has left, and stays with the worker."""
    one = paid_by_hand(stack, world)
    with transaction(stack.console, world.merchant_id) as db:
        switch_off(db, world.merchant_id, world.priya.staff_id, world.mara.actor)
    assert (state_of(stack, one), alarms(stack)) == ("approved", {"approver_left"})
    return one


WAYS_IN = [("seal", edited), ("expired", ran_out), ("fingerprint", new_evidence), ("left", approver_left)]


def in_doubt(stack: Stack, world: World, worker: Worker, *, by: Person | None = None) -> Proposed:
    """In review, for its seal."""
    one = paid_by_hand(stack, world, by=by)
    as_administrator(stack, "UPDATE approvals SET note = 'edited' WHERE intent_id = %s", one.intent_id)
    assert by_hand.run_once(worker) == {"by_hand_needs_review": 1}
    return one


def figures(stack: Stack, one: Proposed) -> tuple[tuple[int, int, int], int, int]:
    """Available, reserved and refunded of the gift card; claimed of the order's lines; used of the caps."""
    (row,) = as_administrator(
        stack, "SELECT c.available_minor AS a, c.reserved_minor AS b, c.refunded_minor AS c,"
        " (SELECT sum(claimed_minor)::bigint FROM order_lines l WHERE l.order_id = i.order_id) AS claimed,"
        " (SELECT coalesce(sum(used_minor), 0)::bigint FROM cap_days) AS used"
        " FROM captures c JOIN intents i USING (capture_id) WHERE i.intent_id = %s", one.intent_id,
    )  # fmt: skip
    return (row["a"], row["b"], row["c"]), row["claimed"], row["used"]


def untouched(sandbox: Running) -> None:
    """The provider was asked nothing and holds no refund."""
    assert (sandbox.requests(), sandbox.totals()) == ([], {})


def paid(stack: Stack, sandbox: Running, one: Proposed, before: tuple[tuple[int, int, int], int, int]) -> None:
    (left, reserved, refunded), claimed, used = before
    assert (reserved, refunded, used) == (one.amount_minor, 0, one.amount_minor)
    assert state_of(stack, one) == "succeeded"
    assert figures(stack, one) == ((left, 0, one.amount_minor), claimed, used)
    untouched(sandbox)


def not_paid(stack: Stack, sandbox: Running, one: Proposed) -> None:
    assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("failed", "not_paid_by_hand")
    assert figures(stack, one) == ((ALL, 0, 0), 0, 0)
    untouched(sandbox)


@pytest.mark.parametrize("outcome", ["succeeded", "failed"])
@pytest.mark.parametrize(("reason", "enter"), WAYS_IN, ids=[way[0] for way in WAYS_IN])
def test_every_record_in_doubt_is_led_out_of_review_by_two_people(
    stack: Stack, world: World, sandbox: Running, worker: Worker,
    reason: str, enter: Callable[[Stack, World], Proposed], outcome: str,
) -> None:  # fmt: skip
    one = enter(stack, world)
    before = figures(stack, one)
    assert by_hand.run_once(worker) == {"by_hand_needs_review": 1}
    assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("needs_review", reason)
    assert f"by_hand_{reason}" in alarms(stack)
    assert (figures(stack, one), by_hand.run_once(worker)) == (before, {})
    assert choices(stack, world, one) == (["succeeded:", "failed:"], "")
    agree(stack, world, one, f"{outcome}:")
    assert by_hand.run_once(worker) == {f"by_hand_{outcome}": 1}
    if outcome == "succeeded":
        paid(stack, sandbox, one, before)
    else:
        not_paid(stack, sandbox, one)
    assert (results(stack), by_hand.run_once(worker)) == ([("carried_out", "")], {})


def test_what_was_not_paid_is_owed_again_and_a_new_approval_pays_it_once(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = in_doubt(stack, world, worker)
    agree(stack, world, one, "failed:")
    by_hand.run_once(worker)
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, one.case_id, world.tobias.actor)
    again = lives.intents(stack, world, one.case_id)[-1]
    assert (again["state"], again["replaces"]) == ("proposed", one.intent_id)
    lives.approve_as(stack, world, world.priya, again["intent_id"])
    record_it(stack, world, again["intent_id"], "GC-8")
    assert by_hand.run_once(worker) == {"by_hand_succeeded": 1}
    assert figures(stack, one)[0] == (ALL - one.amount_minor, 0, one.amount_minor)
    untouched(sandbox)


def test_the_provider_is_never_asked_about_a_payment_by_hand(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = in_doubt(stack, world, worker)
    with transaction(stack.console, world.merchant_id) as db:
        assert not review.ask_again(db, world.merchant_id, one.intent_id)
    agree(stack, world, one, "succeeded:")
    make_due(stack)
    assert reconciler.run_once(worker) == {}
    assert state_of(stack, one) == "needs_review"
    untouched(sandbox)


def test_neither_the_approver_nor_one_person_nor_one_role_settles_it(
    stack: Stack, world: World, worker: Worker
) -> None:
    one = in_doubt(stack, world, worker, by=world.jonas)
    with pytest.raises(SamePerson):
        propose(stack, world, one, world.jonas, "succeeded:")
    for person in (world.tobias, world.rita):
        with pytest.raises(NotAllowed):
            propose(stack, world, one, person, "succeeded:")
    first = propose(stack, world, one, world.mara, "succeeded:")
    for person, refusal in ((world.mara, SamePerson), (world.jonas, SamePerson), (world.tobias, NotAllowed)):
        with pytest.raises(refusal):
            confirm(stack, world, first, person)
    assert (by_hand.run_once(worker), state_of(stack, one)) == ({}, "needs_review")


def test_two_managers_do_not_settle_it(stack: Stack, world: World, worker: Worker) -> None:
    one = in_doubt(stack, world, worker)
    first = propose(stack, world, one, world.mara, "failed:")
    with pytest.raises(NotAllowed, match="one of each"):
        confirm(stack, world, first, world.jonas)
    assert (by_hand.run_once(worker), state_of(stack, one)) == ({}, "needs_review")


def test_another_digest_than_was_proposed_is_refused_and_turned_down_it_is_proposed_anew(
    stack: Stack, world: World, worker: Worker
) -> None:
    one = in_doubt(stack, world, worker)
    with pytest.raises(Stale, match="recorded changed"):
        propose(stack, world, one, world.mara, "failed:", bytes(32))
    first = propose(stack, world, one, world.mara, "failed:")
    with pytest.raises(Stale, match="recorded changed"), transaction(stack.console, world.merchant_id) as db:
        review.decide(db, world.merchant_id, first, world.farah.staff_id, bytes(32), confirmed=True)
    with pytest.raises(WrongState, match="has proposed"):
        propose(stack, world, one, world.farah, "succeeded:")
    assert turn_down(stack, world, first, world.farah)
    agree(stack, world, one, "succeeded:")
    assert by_hand.run_once(worker) == {"by_hand_succeeded": 1}


def test_two_second_people_at_once_are_one_word(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    """Farah confirms while Jonas turns it down: one of them wins, and the worker does what that one said."""
    one = in_doubt(stack, world, worker)
    first = propose(stack, world, one, world.mara, "failed:")
    raced = lives.race(
        lambda: confirm(stack, world, first, world.farah), lambda: turn_down(stack, world, first, world.jonas)
    )
    assert (raced.results, [type(refusal) for refusal in raced.refusals]) == ([True], [WrongState])
    (said,) = as_administrator(stack, "SELECT confirmed FROM settlement_decisions")
    by_hand.run_once(worker)
    assert state_of(stack, one) == ("failed" if said["confirmed"] else "needs_review")
    untouched(sandbox)


def test_two_workers_carry_it_out_once(stack: Stack, world: World, sandbox: Running, worker: Worker) -> None:
    one = in_doubt(stack, world, worker)
    before = figures(stack, one)
    agree(stack, world, one, "succeeded:")
    with worker_at(stack, sandbox, world) as other:
        raced = lives.race(lambda: by_hand.run_once(worker), lambda: by_hand.run_once(other))
    assert (raced.refusals, results(stack)) == ([], [("carried_out", "")])
    paid(stack, sandbox, one, before)


def test_a_record_that_was_edited_or_a_person_who_left_makes_their_word_void(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = in_doubt(stack, world, worker)
    before = figures(stack, one)
    agree(stack, world, one, "succeeded:")
    as_administrator(stack, "UPDATE manual_settlements SET reference = 'GC-9'")
    assert by_hand.run_once(worker) == {"by_hand_void": 1}
    agree(stack, world, one, "failed:")
    as_administrator(stack, "UPDATE memberships SET ended_at = now() WHERE staff_id = %s", world.farah.staff_id)
    assert by_hand.run_once(worker) == {"by_hand_void": 1}
    assert set(results(stack)) == {("void", "evidence_changed"), ("void", "left")}
    assert "settlement_void" in alarms(stack)
    assert (state_of(stack, one), figures(stack, one)) == ("needs_review", before)


INSERT = (
    "INSERT INTO settlements (merchant_id, settlement_id, intent_id, n, list_id, outcome, refund_ref, note, proposed_by,"
    " proposed_role, digest) VALUES (:m, gen_random_uuid(), :i, 1, NULL, :outcome, :ref, 'x', :who, :role, :digest)"
)
DECIDE = (
    "INSERT INTO settlement_decisions (merchant_id, settlement_id, digest, proposed_by, proposed_role, decided_by,"
    " decided_role, confirmed) VALUES (:m, :s, :digest, :by, 'manager', :who, :role, true)"
)


def test_the_database_takes_no_proposal_but_on_a_record_and_no_second_word_but_the_other_roles(
    stack: Stack, world: World, worker: Worker
) -> None:
    """By plain statements of the console's role."""
    one = in_doubt(stack, world, worker, by=world.jonas)
    usual = {"m": world.merchant_id, "i": one.intent_id, "outcome": "succeeded", "ref": None, "role": "manager",
             "who": world.mara.staff_id, "digest": bytes(32)}  # fmt: skip
    for lie in (
        {"outcome": "pending"}, {"ref": "re_1"}, {"who": world.jonas.staff_id}, {"who": world.tobias.staff_id},
        {"role": "finance"},
    ):  # fmt: skip
        with pytest.raises(IntegrityError), transaction(stack.console, world.merchant_id) as db:
            run(db, INSERT, **(usual | lie))
    as_administrator(stack, "UPDATE manual_settlements SET outcome = 'not_done', reference = NULL, reason = 'no'")
    with pytest.raises(IntegrityError, match="on its record"), transaction(stack.console, world.merchant_id) as db:
        run(db, INSERT, **usual)
    as_administrator(stack, "UPDATE manual_settlements SET outcome = 'done', reference = 'GC-7', reason = ''")
    first = propose(stack, world, one, world.mara, "succeeded:")
    for who, role in (
        (world.mara, "manager"),
        (world.mara, "finance"),
        (world.jonas, "finance"),
        (world.jonas, "manager"),
    ):
        with pytest.raises(IntegrityError), transaction(stack.console, world.merchant_id) as db:
            run(db, DECIDE, m=world.merchant_id, s=first, digest=digest_of(stack, first), by=world.mara.staff_id,
                who=who.staff_id, role=role)  # fmt: skip


def alone(stack: Stack, world: World, one: Proposed, to: str) -> None:
    """The worker's role moves it out of review with nobody's word."""
    with transaction(stack.worker, world.merchant_id) as db:
        case = lock_case(db, world.merchant_id, one.case_id)
        append(db, case, f"intent.{to}", "system", intent_id=one.intent_id, move=("needs_review", to))


@pytest.mark.parametrize("to", ["succeeded", "failed"])
def test_the_worker_alone_leads_no_record_out_of_review(stack: Stack, world: World, worker: Worker, to: str) -> None:
    one = in_doubt(stack, world, worker)
    propose(stack, world, one, world.mara, f"{to}:")
    with pytest.raises(IntegrityError, match="settled by two people"):
        alone(stack, world, one, to)
    assert state_of(stack, one) == "needs_review"


@pytest.fixture
def unguarded(server: Server) -> Iterator[Stack]:
    with fresh_stack(server) as stack:
        yield stack


def test_control_without_the_guard_the_same_return_would_be_paid_by_hand_twice(
    unguarded: Stack, sandbox: Running
) -> None:
    """The customer has the money; a worker alone calls it failed, and it is approved and paid by hand once more."""
    stack, world = unguarded, build_world(unguarded)
    with worker_at(stack, sandbox, world) as worker:
        one = in_doubt(stack, world, worker)
        without(stack, "DROP TRIGGER settled_by_two ON events")
        alone(stack, world, one, "failed")
        as_administrator(stack, "DELETE FROM line_claims")
        as_administrator(stack, "UPDATE order_lines SET claimed_minor = 0")
        as_administrator(
            stack, "UPDATE captures SET available_minor = available_minor + reserved_minor, reserved_minor = 0"
        )
        with transaction(stack.console, world.merchant_id) as db:
            work_out_again(db, world.merchant_id, one.case_id, world.tobias.actor)
        again = lives.intents(stack, world, one.case_id)[-1]
        lives.approve_as(stack, world, world.priya, again["intent_id"])
        record_it(stack, world, again["intent_id"], "GC-8")
        by_hand.run_once(worker)
        assert len(as_administrator(stack, "SELECT 1 FROM manual_settlements WHERE outcome = 'done'")) == 2
        assert lives.state(stack, world, again["intent_id"]) == "succeeded"


def test_a_payment_recorded_before_the_books_went_back_is_peoples_and_not_held_for_ever(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = paid_by_hand(stack, world)
    before = figures(stack, one)
    with transaction(stack.owner, world.merchant_id) as db:
        assert put_to_rest(db, world.merchant_id, one.case_id) == (0, 1)
    assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("needs_review", "recovery")
    agree(stack, world, one, "succeeded:")
    assert by_hand.run_once(worker) == {"by_hand_succeeded": 1}
    paid(stack, sandbox, one, before)


def test_an_approver_who_leaves_while_it_is_recorded_leaves_it_held_or_with_two_people(
    stack: Stack, world: World, worker: Worker
) -> None:
    """Recorded after the hold, it is refused; recorded before, it is not held, and people settle it."""
    order = add_order(stack, world, "G-1", captured={"gift_card": ALL}, by_hand=frozenset({"gift_card"}))
    intent = lives.propose(stack, world, ((TEE, 3), (LAMP, 1)), order=order, reference="G-1")
    lives.approve_as(stack, world, world.priya, intent["intent_id"])

    def leave() -> None:
        with transaction(stack.console, world.merchant_id) as db:
            switch_off(db, world.merchant_id, world.priya.staff_id, world.mara.actor)

    raced = lives.race(leave, lambda: record_it(stack, world, intent["intent_id"]))
    recorded = len(as_administrator(stack, "SELECT 1 FROM manual_settlements"))
    by_hand.run_once(worker)
    found = (lives.state(stack, world, intent["intent_id"]), recorded, [type(one) for one in raced.refusals])
    assert found in (("held", 0, [WrongState]), ("needs_review", 1, []))


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "not recorded yet"])
def test_limits_that_fall_hold_what_was_not_paid_by_hand_and_settle_what_was(
    stack: Stack, world: World, sandbox: Running, worker: Worker, recorded: bool
) -> None:
    """What was recorded has left; held, it could neither be settled nor called back. It was within the limits when approved."""
    one = paid_by_hand(stack, world)
    before = figures(stack, one)
    if not recorded:
        as_administrator(stack, "DELETE FROM manual_settlements")
    as_administrator(
        stack,
        'UPDATE policies SET document = jsonb_set(document, \'{limits,desk,GBP}\', \'{"hour": {"count": 1, "minor": 1}}\')',
    )
    with transaction(stack.owner, world.merchant_id) as db:
        assert revoke_over_limits(db, world.merchant_id, "system") == (0 if recorded else 1)
    if not recorded:
        assert (state_of(stack, one), row_of(stack, one)["state_reason"]) == ("held", "left")
        with pytest.raises(WrongState):
            record_it(stack, world, one.intent_id)
        untouched(sandbox)
        return
    assert by_hand.run_once(worker) == {"by_hand_succeeded": 1}
    paid(stack, sandbox, one, before)


def test_the_digest_that_was_shown_covers_the_record(stack: Stack, world: World, worker: Worker) -> None:
    one = in_doubt(stack, world, worker)
    digests = {seen(stack, world, one)}
    edits: tuple[LiteralString, ...] = (
        "UPDATE manual_settlements SET reference = 'GC-8'", "UPDATE manual_settlements SET tender = 'cash'",
        "UPDATE manual_settlements SET recorded_at = recorded_at + interval '1 second'",
    )  # fmt: skip
    for edit in edits:
        as_administrator(stack, edit)
        digests.add(seen(stack, world, one))
    as_administrator(stack, "UPDATE manual_settlements SET recorded_by = %s", world.mara.staff_id)
    assert len(digests | {seen(stack, world, one)}) == 5
