"""What two managers decide: neither asked for it, both approve exactly it, and nothing moves before the second."""

from datetime import timedelta
from typing import cast

import pytest
from sqlalchemy import RowMapping
from sqlalchemy.exc import IntegrityError

from ledger import approvals
from ledger.cases import reject
from ledger.database import run, transaction
from ledger.errors import AlreadyDecided, NotAllowed, SamePerson, Stale, WrongState
from ledger.events import append, lock_case_of_intent
from ledger.fingerprint import evidence_digest, fingerprint, read_intent
from ledger.leases import release_all, take_next
from ledger.two_managers import fault_of_second
from tests import lives
from tests.allowances import generous_policy, give, intent_of, record_of
from tests.orders import Order
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import Person, World, add_order, build_world


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=generous_policy())


def goodwill(stack: Stack, world: World, minor: int = 30_00) -> RowMapping:
    """Above the 20.00 that the policy gives without asking two."""
    return intent_of(stack, world, give(stack, world, world.order, "goodwill", "LAMP", minor, reason="service"))


def test_goodwill_above_the_policy_s_maximum_leaves_after_the_second_manager(stack: Stack, world: World) -> None:
    intent = goodwill(stack, world)
    assert (intent["route"], goodwill_below(stack, world)["route"]) == ("two_managers", "desk")
    with pytest.raises(NotAllowed):
        lives.approve_as(stack, world, world.tobias, intent["intent_id"])
    with pytest.raises(SamePerson):
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
    first = lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    assert (first.state, lives.state(stack, world, intent["intent_id"])) == ("proposed", "proposed")
    assert lives.claim(stack, world) == []
    assert offered(stack, world, world.jonas) != intent["case_id"] == offered(stack, world, world.mara)
    with pytest.raises(AlreadyDecided):
        lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    second = lives.approve_as(stack, world, world.mara, intent["intent_id"])
    assert second.state == "approved"
    assert [one.intent_id for one in lives.claim(stack, world)] == [intent["intent_id"]]


def offered(stack: Stack, world: World, person: Person) -> object:
    """The case that the queue hands this manager next."""
    with transaction(stack.console, world.merchant_id) as db:
        found = take_next(db, world.merchant_id, person.staff_id, None, managers=True)
        release_all(db, world.merchant_id, person.staff_id)
    return found.case_id if found else None


def goodwill_below(stack: Stack, world: World) -> RowMapping:
    """Of another order."""
    return intent_of(
        stack, world, give(stack, world, add_order(stack, world, "A-7"), "goodwill", "TEE", 20_00, reason="service")
    )


def test_several_small_goodwills_of_one_order_are_summed_against_the_policy_s_maximum(
    stack: Stack, world: World
) -> None:
    def route(line: str, minor: int, order: Order = world.order, kind: str = "goodwill") -> RowMapping:
        return intent_of(stack, world, give(stack, world, order, kind, line, minor, reason="service"))

    first, kept, second = route("LAMP", 12_00), route("TEE", 8_00, kind="keep_item"), route("TEE", 8_00)
    # 20.00 in all: what was given for keeping goods is none, and neither is what another order has.
    other = route("LAMP", 20_00, add_order(stack, world, "A-2"))
    assert [one["route"] for one in (first, kept, second, other)] == ["desk"] * 4
    third = route("LAMP", 1)
    assert third["route"] == "two_managers"
    (said,) = [
        one
        for one in record_of(stack, world, third["case_id"])["rules"]
        if one["reason_code"] == "goodwill_above_the_policy"
    ]
    assert said["facts"] == ["most_minor:2000", "asked_minor:1", "given_before_minor:2000"]
    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, first["case_id"], world.priya.actor, "other")
        reject(db, world.merchant_id, third["case_id"], world.priya.actor, "other")
    # What was closed without paying counts no more.
    assert route("LAMP", 12_00)["route"] == "desk"


def test_one_manager_alone_moves_nothing_in_the_database_either_and_without_the_guard_does(
    stack: Stack, world: World
) -> None:
    intent = goodwill(stack, world)
    as_administrator(stack, "UPDATE intents SET route = 'manager' WHERE intent_id = %s", intent["intent_id"])
    seen = lives.see(stack, world, intent["intent_id"])
    as_administrator(stack, "UPDATE intents SET route = 'two_managers' WHERE intent_id = %s", intent["intent_id"])
    with pytest.raises(Stale):
        lives.approve_as(stack, world, world.jonas, intent["intent_id"], seen)
    lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    with pytest.raises(IntegrityError, match="two managers approve this"):
        move(stack, world, intent)
    without(stack, "DROP TRIGGER as_approved ON events")
    move(stack, world, intent)
    assert lives.state(stack, world, intent["intent_id"]) == "approved"


def move(stack: Stack, world: World, intent: RowMapping) -> None:
    """What a build with a fault would do: approve with one seat taken."""
    with transaction(stack.console, world.merchant_id) as db:
        case = lock_case_of_intent(db, world.merchant_id, intent["intent_id"])
        append(
            db,
            case,
            "intent.approved",
            world.jonas.actor,
            {},
            intent_id=intent["intent_id"],
            move=("proposed", "approved"),
        )


def test_two_managers_at_once_take_one_seat_each_and_it_leaves_once(stack: Stack, world: World) -> None:
    intent = goodwill(stack, world)
    seen = {person: lives.see(stack, world, intent["intent_id"]) for person in (world.jonas, world.mara)}
    raced = lives.race(*(
        lambda person=person: lives.approve_as(stack, world, person, intent["intent_id"], seen[person]) for person in seen
    ))  # fmt: skip
    assert raced.refusals == []
    assert sorted(one.state for one in raced.results) == ["approved", "proposed"]
    assert len(lives.claim(stack, world)) == 1


def test_a_second_manager_whose_approval_is_tampered_with_or_who_left_sends_nothing(stack: Stack, world: World) -> None:
    for change, reason in (
        ("UPDATE approvals SET note = 'more' WHERE seat = 2", "seal"),
        ("UPDATE memberships SET role = 'desk' WHERE staff_id = %s", "left"),
    ):
        intent = goodwill(stack, world, 21_00)
        lives.approve_as(stack, world, world.jonas, intent["intent_id"])
        lives.approve_as(stack, world, world.mara, intent["intent_id"])
        as_administrator(stack, change, *([world.mara.staff_id] if "%s" in change else []))
        assert lives.claim(stack, world) == []
        (row,) = lives.intents(stack, world, intent["case_id"])
        assert (row["state"], row["state_reason"]) == ("held", reason)


def test_whether_the_second_approval_had_run_out_is_judged_at_the_moment_that_counts(
    stack: Stack, world: World
) -> None:
    """What was paid by hand in time is settled also by a worker that comes days later."""
    intent = goodwill(stack, world)
    for person in (world.jonas, world.mara):
        lives.approve_as(stack, world, person, intent["intent_id"])
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        row = read_intent(db, world.merchant_id, intent["intent_id"])
        assert row is not None
        print_ = fingerprint(row, evidence_digest(db, world.merchant_id, intent["case_id"]))
        found = [
            fault_of_second(
                db,
                cast("RowMapping", {**row, "at": row["at"] + timedelta(hours=hours)}),
                print_,
                lives.verifier(),
                "session",
            )
            for hours in (0, 25)
        ]
    assert found == ["", "expired"]


@pytest.mark.parametrize(
    "change",
    ["UPDATE memberships SET role = 'desk' WHERE staff_id = %s", "UPDATE memberships SET ended_at = now() WHERE staff_id = %s",
     "UPDATE staff SET disabled_at = now() WHERE staff_id = %s"],
    ids=["fell", "left", "disabled"],
)  # fmt: skip
def test_the_approval_of_a_first_manager_who_is_none_any_more_is_not_seconded_and_the_second_is_told(
    stack: Stack, world: World, change: str
) -> None:
    intent = goodwill(stack, world)
    lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    as_administrator(stack, change, world.jonas.staff_id)
    with pytest.raises(WrongState, match="The first manager's approval no longer counts"):
        lives.approve_as(stack, world, world.mara, intent["intent_id"])
    assert lives.state(stack, world, intent["intent_id"]) == "proposed"


def test_without_the_look_at_the_first_manager_the_database_still_refuses_and_says_it_in_the_same_words(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent = goodwill(stack, world)
    lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    as_administrator(stack, "UPDATE staff SET disabled_at = now() WHERE staff_id = %s", world.jonas.staff_id)
    monkeypatch.setattr(approvals, "seat_for", lambda *_: 2)
    with pytest.raises(WrongState, match="The first manager's approval no longer counts"):
        lives.approve_as(stack, world, world.mara, intent["intent_id"])
    assert lives.state(stack, world, intent["intent_id"]) == "proposed"


def test_a_first_approval_of_something_else_is_not_seconded(stack: Stack, world: World) -> None:
    intent = goodwill(stack, world)
    lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    as_administrator(stack, "UPDATE approvals SET fingerprint = decode(repeat('00', 32), 'hex')")
    with pytest.raises(WrongState, match="no longer counts"):
        lives.approve_as(stack, world, world.mara, intent["intent_id"])
    with pytest.raises(IntegrityError, match="what the first did"), transaction(stack.console, world.merchant_id) as db:
        run(
            db, "INSERT INTO approvals SELECT merchant_id, gen_random_uuid(), intent_id, 2, 'staff:' || CAST(:who AS text), :who,"
            " requester, case_opener, decode(repeat('11', 32), 'hex'), strength, note, operation_key, approved_at, expires_at,"
            " seal_key_id, seal FROM approvals WHERE merchant_id = :m", m=world.merchant_id, who=world.mara.staff_id,
        )  # fmt: skip
