"""Whose a case is, until when it rests, when it is due, its tags, and whom notes speak to: what the ledger lets whom change."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection

from ledger.database import first, rows, transaction
from ledger.errors import BadInput, InHand, NotAllowed, NotFound, WrongState
from ledger.events import broken_link
from ledger.ids import uuid7
from ledger.leases import claim_case, read_lease
from ledger.mentions import Colleague, read_mentions, spoken_to
from ledger.notes import add_note
from ledger.people import change_role, switch_off
from ledger.presence import note_present, read_present
from ledger.queries.teamwork import case_team, known_tags, teams
from ledger.teamwork import MOST_TAGS, assign, set_due, snooze, tag, untag, wake
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import Person, World, add_order


def open_cases(stack: Stack, world: World, count: int = 1) -> list[UUID]:
    return [
        lives.open_case(
            stack, world, order_ref=add_order(stack, world, f"W-{n}").external_ref, reference=f"chat-{n}"
        ).case_id
        for n in range(count)
    ]


@pytest.fixture
def case_id(stack: Stack, world: World) -> UUID:
    return open_cases(stack, world)[0]


def done(stack: Stack, world: World, act: Callable[[Connection], Any]) -> Any:
    with transaction(stack.console, world.merchant_id) as db:
        return act(db)


def now(stack: Stack) -> datetime:
    at: datetime = as_administrator(stack, "SELECT now() AS at")[0]["at"]
    return at


def of_case(stack: Stack, world: World, case_id: UUID) -> dict[str, Any]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        row = first(db, "SELECT * FROM cases WHERE case_id = :c", c=case_id)
        assert row is not None
        assert broken_link(db, world.merchant_id, case_id) is None
        return dict(row)


def kinds(stack: Stack, world: World, case_id: UUID) -> list[str]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [
            row["kind"] for row in rows(db, "SELECT kind FROM events WHERE case_id = :c ORDER BY number", c=case_id)
        ]


def give(stack: Stack, world: World, by: Person, to: Person | None, *cases: UUID) -> Any:
    target = to.staff_id if to else None
    return done(stack, world, lambda db: assign(db, world.merchant_id, cases, by.staff_id, target))


def take(stack: Stack, world: World, case_id: UUID, by: Person) -> None:
    done(stack, world, lambda db: claim_case(db, world.merchant_id, case_id, by.staff_id))


def test_a_case_is_given_once_with_one_event_and_again_changes_nothing(
    stack: Stack, world: World, case_id: UUID
) -> None:
    before = kinds(stack, world, case_id)
    assert len(give(stack, world, world.priya, world.tobias, case_id).changed) == 1
    assert give(stack, world, world.priya, world.tobias, case_id).changed == []
    assert of_case(stack, world, case_id)["assigned_to"] == world.tobias.staff_id
    assert kinds(stack, world, case_id) == [*before, "case.assigned"]


def test_what_is_a_colleagues_is_passed_on_by_them_or_by_a_manager(stack: Stack, world: World, case_id: UUID) -> None:
    give(stack, world, world.priya, world.tobias, case_id)
    with pytest.raises(NotAllowed):
        give(stack, world, world.priya, world.priya, case_id)
    assert of_case(stack, world, case_id)["assigned_to"] == world.tobias.staff_id
    give(stack, world, world.tobias, world.priya, case_id)
    give(stack, world, world.jonas, None, case_id)
    assert of_case(stack, world, case_id)["assigned_to"] is None


@pytest.mark.parametrize("who", ["rita", "farah", "ada"])
def test_a_case_is_nobodys_who_does_not_work_on_cases(stack: Stack, world: World, case_id: UUID, who: str) -> None:
    with pytest.raises(BadInput):
        give(stack, world, world.jonas, getattr(world, who), case_id)


def test_of_many_what_refuses_one_leaves_the_others_and_is_said(stack: Stack, world: World) -> None:
    mine, theirs, closed = open_cases(stack, world, 3)
    give(stack, world, world.jonas, world.tobias, theirs)
    as_administrator(stack, "UPDATE cases SET closed_at = now() WHERE case_id = %s", closed)
    changed = give(stack, world, world.priya, world.priya, mine, theirs, closed)
    assert changed.changed == [of_case(stack, world, mine)["number"]]
    assert sorted(number for number, _ in changed.left) == sorted(
        of_case(stack, world, one)["number"] for one in (theirs, closed)
    )
    assert of_case(stack, world, theirs)["assigned_to"] == world.tobias.staff_id


def test_nothing_picked_and_too_much_picked_are_said_and_a_foreign_case_is_not_found(
    stack: Stack, world: World
) -> None:
    with pytest.raises(BadInput):
        give(stack, world, world.priya, None)
    with pytest.raises(BadInput):
        give(stack, world, world.priya, None, *(uuid7() for _ in range(51)))
    with pytest.raises(NotFound):
        give(stack, world, world.priya, None, uuid7())


def test_a_case_rests_until_its_day_for_a_reason_and_is_woken(stack: Stack, world: World, case_id: UUID) -> None:
    m, me, until = world.merchant_id, world.priya.staff_id, now(stack) + timedelta(days=3)
    done(stack, world, lambda db: snooze(db, m, [case_id], me, until, "customer"))
    found = of_case(stack, world, case_id)
    assert (found["snoozed_until"], found["snooze_reason"]) == (until, "customer")
    assert done(stack, world, lambda db: snooze(db, m, [case_id], me, until, "customer")).changed == []
    done(stack, world, lambda db: wake(db, m, [case_id], me))
    assert of_case(stack, world, case_id)["snoozed_until"] is None
    assert kinds(stack, world, case_id)[-2:] == ["case.snoozed", "case.woken"]


@pytest.mark.parametrize(("days", "reason"), [(-1, "customer"), (61, "customer"), (2, "because"), (2, "")])
def test_a_rest_has_a_day_ahead_and_a_reason_that_is_on_the_list(
    stack: Stack, world: World, case_id: UUID, days: int, reason: str
) -> None:
    until = now(stack) + timedelta(days=days)
    with pytest.raises(BadInput):
        done(stack, world, lambda db: snooze(db, world.merchant_id, [case_id], world.priya.staff_id, until, reason))
    assert of_case(stack, world, case_id)["snoozed_until"] is None


def test_only_a_manager_sets_another_due_date(stack: Stack, world: World, case_id: UUID) -> None:
    due, m = now(stack) + timedelta(days=5), world.merchant_id
    with pytest.raises(NotAllowed):
        done(stack, world, lambda db: set_due(db, m, case_id, world.priya.staff_id, due))
    with pytest.raises(BadInput):
        done(stack, world, lambda db: set_due(db, m, case_id, world.jonas.staff_id, due - timedelta(days=6)))
    assert of_case(stack, world, case_id)["due_at"] != due
    assert done(stack, world, lambda db: set_due(db, m, case_id, world.jonas.staff_id, due))
    assert of_case(stack, world, case_id)["due_at"] == due
    assert not done(stack, world, lambda db: set_due(db, m, case_id, world.jonas.staff_id, due))


def test_tags_are_words_that_come_and_go_and_are_few(stack: Stack, world: World, case_id: UUID) -> None:
    m, me = world.merchant_id, world.priya.staff_id

    def put(text: str) -> list[int]:
        changed: list[int] = done(stack, world, lambda db: tag(db, m, [case_id], me, text)).changed
        return changed

    assert len(put(" Fragile  Item ")) == 1
    assert put("fragile-item") == []
    assert done(stack, world, lambda db: untag(db, m, case_id, me, "fragile-item"))
    assert not done(stack, world, lambda db: untag(db, m, case_id, me, "fragile-item"))
    assert len(put("fragile-item")) == 1
    for text in ("", "-x", "ä", "x" * 25, "a_b"):
        with pytest.raises(BadInput):
            put(text)
    for n in range(MOST_TAGS - 1):
        put(f"t{n}")
    with pytest.raises(WrongState):
        put("one-too-many")
    with transaction(stack.console, m, read_only=True) as db:
        assert len(known_tags(db, m)) == MOST_TAGS
        assert "fragile-item" in teams(db, m, [case_id])[case_id].tags


def test_who_leaves_or_works_on_cases_no_more_holds_none(stack: Stack, world: World) -> None:
    one, other = open_cases(stack, world, 2)
    m = world.merchant_id
    for person, case_id in ((world.priya, one), (world.tobias, other)):
        give(stack, world, world.jonas, person, case_id)
        take(stack, world, case_id, person)
    with transaction(stack.owner, m) as db:
        change_role(db, m, world.priya.staff_id, "reader")
    done(stack, world, lambda db: switch_off(db, m, world.tobias.staff_id, world.ada.actor))
    for case_id in (one, other):
        assert of_case(stack, world, case_id)["assigned_to"] is None
        assert kinds(stack, world, case_id)[-1] == "case.assigned"
        with transaction(stack.console, m, read_only=True) as db:
            assert read_lease(db, m, case_id) is None


def test_who_becomes_a_manager_keeps_their_cases(stack: Stack, world: World, case_id: UUID) -> None:
    give(stack, world, world.jonas, world.priya, case_id)
    take(stack, world, case_id, world.priya)
    with transaction(stack.owner, world.merchant_id) as db:
        change_role(db, world.merchant_id, world.priya.staff_id, "manager")
    assert of_case(stack, world, case_id)["assigned_to"] == world.priya.staff_id
    with pytest.raises(InHand):
        done(stack, world, lambda db: claim_case(db, world.merchant_id, case_id, world.tobias.staff_id))


def test_a_closed_case_is_claimed_by_nobody(stack: Stack, world: World, case_id: UUID) -> None:
    as_administrator(stack, "UPDATE cases SET closed_at = now() WHERE case_id = %s", case_id)
    with pytest.raises(WrongState):
        done(stack, world, lambda db: claim_case(db, world.merchant_id, case_id, world.priya.staff_id))
    with pytest.raises(NotFound):
        done(stack, world, lambda db: claim_case(db, world.merchant_id, uuid7(), world.priya.staff_id))


PEOPLE = (
    Colleague(UUID(int=1), "Tobias Renk", "desk", "tobias"),
    Colleague(UUID(int=2), "Tobias Renk-Vogel", "desk", "trv"),
    Colleague(UUID(int=3), "Jonas Okonjo", "manager", "jonas"),
    Colleague(UUID(int=4), "Zoë d'Arcy", "finance", "z.darcy"),
)


@pytest.mark.parametrize(
    ("text", "people", "nobody", "several"),
    [
        ("@Jonas, look", ["Jonas Okonjo"], (), ()),
        ("(@jonas okonjo) and @trv.", ["Jonas Okonjo", "Tobias Renk-Vogel"], (), ()),
        ("@Tobias Renk saw it", ["Tobias Renk"], (), ()),
        ("@tobias renk-vogel saw it", ["Tobias Renk-Vogel"], (), ()),
        ("@tobias saw it", [], (), ("tobias",)),
        ("@zoë and @Z.Darcy", ["Zoë d'Arcy"], (), ()),
        ("write to info@jonas.example", [], (), ()),
        ("@nobody here, @@jonas, @ jonas", [], ("nobody",), ()),
    ],
)
def test_a_note_speaks_to_whom_it_names_after_an_at_sign(
    text: str, people: list[str], nobody: tuple[str, ...], several: tuple[str, ...]
) -> None:
    found = spoken_to(text, PEOPLE)
    assert ([one.name for one in found.people], found.nobody, found.several) == (people, nobody, several)


def test_a_mention_shows_the_case_to_that_person_until_they_have_read_it(
    stack: Stack, world: World, case_id: UUID
) -> None:
    m, note_id = world.merchant_id, uuid7()
    text = "@Tobias and @Priya: is that ours? Not @Ada"
    done(stack, world, lambda db: add_note(db, m, case_id, world.priya.staff_id, note_id, text))
    spoken = done(stack, world, lambda db: add_note(db, m, case_id, world.priya.staff_id, note_id, text))
    assert {one.name for one in spoken.people} == {"Tobias Renk", "Priya Raman"}
    assert spoken.nobody == ("Ada",)

    def unread(person: Person) -> int:
        with transaction(stack.console, m, read_only=True) as db:
            return len(case_team(db, m, case_id, person.staff_id).unread)

    assert (unread(world.tobias), unread(world.priya), unread(world.jonas)) == (1, 0, 0)
    assert done(stack, world, lambda db: read_mentions(db, m, case_id, world.tobias.staff_id)) == 1
    assert unread(world.tobias) == 0


def test_presence_is_of_one_case_at_a_time_and_fades(stack: Stack, world: World) -> None:
    one, other = open_cases(stack, world, 2)
    m = world.merchant_id

    def present(case_id: UUID) -> list[tuple[str, str, bool]]:
        found = done(stack, world, lambda db: read_present(db, m, case_id))
        return [(person.name, person.doing, person.here) for person in found]

    done(stack, world, lambda db: note_present(db, m, one, world.priya.staff_id, "looking"))
    done(stack, world, lambda db: note_present(db, m, one, world.tobias.staff_id, "deciding"))
    assert present(one) == [("Priya Raman", "looking", True), ("Tobias Renk", "deciding", True)]
    done(stack, world, lambda db: note_present(db, m, other, world.priya.staff_id, "looking"))
    as_administrator(stack, "UPDATE case_presence SET seen_at = now() - interval '2 minutes' WHERE case_id = %s", one)
    assert present(one) == [("Tobias Renk", "deciding", False)]
    as_administrator(stack, "UPDATE case_presence SET seen_at = now() - interval '11 minutes' WHERE case_id = %s", one)
    assert present(one) == []
