"""Several people on one case: two real connections, a barrier, and one answer each. The controls are the same without the guard."""

import threading
from uuid import UUID

import pytest

from ledger import leases
from ledger.database import run, scalar, transaction
from ledger.errors import InHand
from ledger.leases import claim_case, read_lease, release_case, take_next
from ledger.teamwork import assign, snooze, tag
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import Person, World, add_order

ROUNDS = 40


def ready(stack: Stack, world: World, count: int) -> list[UUID]:
    """So many cases that wait for an approval, the first due first."""
    return [
        lives.propose(stack, world, order=add_order(stack, world, f"T-{n}"), reference=f"chat-{n}")["case_id"]
        for n in range(count)
    ]


def press_next(stack: Stack, world: World, person: Person, after: UUID | None = None) -> UUID | None:
    with transaction(stack.console, world.merchant_id) as db:
        found = take_next(db, world.merchant_id, person.staff_id, after, managers=person.role == "manager")
    return found.case_id if found else None


def claim(stack: Stack, world: World, person: Person, case_id: UUID, **how: bool) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        claim_case(db, world.merchant_id, case_id, person.staff_id, **how)


def holder(stack: Stack, world: World, case_id: UUID) -> str:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        lease = read_lease(db, world.merchant_id, case_id)
    return lease.name if lease else "nobody"


def lapse(stack: Stack, case_id: UUID) -> None:
    """The time of a lease passes."""
    as_administrator(
        stack, "UPDATE case_leases SET taken_at = taken_at - interval '1 hour', until = until - interval '1 hour'"
        " WHERE case_id = %s", case_id,
    )  # fmt: skip


def test_two_who_press_next_together_get_two_cases_every_time(stack: Stack, world: World) -> None:
    cases = ready(stack, world, 3)
    for number in range(ROUNDS):
        raced = lives.race(
            lambda: press_next(stack, world, world.priya),
            lambda: press_next(stack, world, world.tobias),
            lambda: press_next(stack, world, world.jonas),
        )
        assert sorted(raced.results) == sorted(cases), (number, raced)
        as_administrator(stack, "UPDATE case_leases SET until = taken_at")


def test_without_the_lease_they_would_get_the_same_case(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = ready(stack, world, 2)
    monkeypatch.setattr(leases, "claim_case", lambda *_, **__: None)
    assert {press_next(stack, world, person) for person in (world.priya, world.tobias)} == {first}


def test_next_passes_over_a_case_that_is_being_decided_this_moment(stack: Stack, world: World) -> None:
    first, second = ready(stack, world, 2)
    with transaction(stack.console, world.merchant_id) as db:
        run(db, "SELECT 1 FROM cases WHERE case_id = :c FOR NO KEY UPDATE", c=first)
        assert press_next(stack, world, world.tobias) == second
    assert press_next(stack, world, world.jonas) == first


def test_of_two_who_claim_together_one_has_it_and_the_other_is_told_who_and_since_when(
    stack: Stack, world: World
) -> None:
    case_id = lives.open_case(stack, world).case_id
    for number in range(ROUNDS):
        raced = lives.race(
            lambda: claim(stack, world, world.priya, case_id), lambda: claim(stack, world, world.tobias, case_id)
        )
        assert len(raced.results) == 1, number
        (refused,) = raced.refusals
        assert isinstance(refused, InHand)
        lease = refused.facts["lease"]
        assert lease.name == holder(stack, world, case_id)
        assert lease.taken_at < lease.until
        as_administrator(stack, "UPDATE case_leases SET until = taken_at")


def test_a_claim_lapses_by_itself_and_then_the_next_person_has_it(stack: Stack, world: World) -> None:
    case_id = lives.open_case(stack, world).case_id
    claim(stack, world, world.priya, case_id)
    with pytest.raises(InHand):
        claim(stack, world, world.tobias, case_id)
    lapse(stack, case_id)
    assert holder(stack, world, case_id) == "nobody"
    claim(stack, world, world.tobias, case_id)
    assert holder(stack, world, case_id) == "Tobias Renk"
    with transaction(stack.console, world.merchant_id) as db:
        assert not release_case(db, world.merchant_id, case_id, world.priya.staff_id)
        assert release_case(db, world.merchant_id, case_id, world.tobias.staff_id)
    assert holder(stack, world, case_id) == "nobody"


def test_going_on_lets_go_of_what_next_took_and_keeps_what_was_claimed(stack: Stack, world: World) -> None:
    first, second, third = ready(stack, world, 3)
    assert press_next(stack, world, world.priya) == first
    claim(stack, world, world.priya, second)
    assert press_next(stack, world, world.priya, second) == third
    assert [holder(stack, world, case) for case in (first, second, third)] == ["nobody", "Priya Raman", "Priya Raman"]
    assert press_next(stack, world, world.priya, third) is None
    assert [holder(stack, world, case) for case in (first, second, third)] == ["nobody", "Priya Raman", "nobody"]


def test_a_claim_never_holds_up_somebody_elses_approval(stack: Stack, world: World) -> None:
    intent = lives.propose(stack, world)
    claim(stack, world, world.tobias, intent["case_id"])
    # Not even while the claim is being written.
    written, decided = threading.Event(), threading.Event()

    def take() -> None:
        with transaction(stack.console, world.merchant_id) as db:
            claim_case(db, world.merchant_id, intent["case_id"], world.jonas.staff_id, over=True)
            written.set()
            assert decided.wait(timeout=10)

    def approve() -> str:
        assert written.wait(timeout=10)
        try:
            return lives.approve_as(stack, world, world.priya, intent["intent_id"]).state
        finally:
            decided.set()

    raced = lives.race(take, approve)
    assert raced.refusals == []
    assert "approved" in raced.results
    assert lives.state(stack, world, intent["intent_id"]) == "approved"


def test_people_who_change_overlapping_cases_together_all_get_through(stack: Stack, world: World) -> None:
    cases = ready(stack, world, 4)
    m = world.merchant_id

    def at_once(act: str, chosen: list[UUID]) -> list[int]:
        with transaction(stack.console, m) as db:
            if act == "assign":
                return assign(db, m, chosen, world.jonas.staff_id, world.tobias.staff_id).changed
            if act == "tag":
                return tag(db, m, chosen, world.priya.staff_id, "fragile").changed
            until = scalar(db, "SELECT now() + interval '1 day'")
            return snooze(db, m, chosen, world.mara.staff_id, until, "customer").changed

    raced = lives.race(
        lambda: at_once("assign", cases), lambda: at_once("tag", cases[::-1]), lambda: at_once("snooze", cases[1:])
    )
    assert raced.refusals == []
    assert sorted(len(changed) for changed in raced.results) == [3, 4, 4]
