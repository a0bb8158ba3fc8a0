"""S22 and the windows of a person: what one person may approve, and what two sessions of that person may at once."""

from typing import Any

import pytest

from ledger.database import transaction
from ledger.errors import LedgerError, LimitReached, SumTooHigh
from ledger.limits import windows
from tests import lives
from tests.orders import Line
from tests.refunds import as_administrator
from tests.stack import Server, Stack, fresh_stack, without
from tests.world import Person, World, add_customer, add_order, build_world, usual_policy


def policy(**limits: Any) -> dict[str, Any]:
    """The usual terms with these limits of people; none for the defaults."""
    usual = usual_policy("harbour-usual")
    del usual["limits"]
    return usual | {"routes": {"manager_from_minor": {"GBP": 250_00, "EUR": 250_00}}} | limits


def proposed(stack: Stack, world: World, minor: int = 149_00, customer: Any = None, reference: str = "L-1") -> Any:
    order = add_order(stack, world, reference, customer_id=customer or world.omar, lines=(Line("LAMP", 1, minor),))
    return lives.propose(stack, world, (("LAMP", 1),), order=order, reference=f"chat-{reference}")["intent_id"]


def many(stack: Stack, world: World, count: int, minor: int) -> list[Any]:
    """As many refunds of as many customers, each of one order."""
    return [
        proposed(stack, world, minor, add_customer(stack, world, f"K-{number}"), f"M-{number}")
        for number in range(count)
    ]


def test_the_second_of_two_refunds_just_under_the_limit_takes_a_manager(stack: Stack) -> None:
    """Attack story 11 with what exists: the manager's route stands for the next strength."""
    world = build_world(stack, policy=policy())
    first, second = (proposed(stack, world, reference=f"L-{n}") for n in (1, 2))
    routes = [row["route"] for row in as_administrator(stack, "SELECT route FROM intents ORDER BY number")]
    assert routes == ["desk", "manager"]
    assert lives.approve_as(stack, world, world.priya, first).state == "approved"
    with pytest.raises(LedgerError, match="Hand it to a manager"):
        lives.approve_as(stack, world, world.tobias, second)
    assert lives.approve_as(stack, world, world.jonas, second).state == "approved"
    assert len(lives.claim(stack, world)) == 2


def test_a_reviewer_who_splits_a_sum_over_the_day_is_stopped_at_the_second(stack: Stack) -> None:
    world = build_world(stack, policy=policy())
    passed = 0
    for number in range(4):
        intent = proposed(stack, world, reference=f"S-{number}")
        try:
            lives.approve_as(stack, world, world.priya, intent)
            passed += 149_00
        except LedgerError:
            continue
    assert passed == 149_00 < 250_00
    sent = [one.request["amount_minor"] for one in lives.claim(stack, world)]
    assert sent == ["14900"]


def test_after_a_day_the_customer_begins_anew_and_another_customer_never_counted(stack: Stack) -> None:
    world = build_world(stack, policy=policy())
    lives.approve_as(stack, world, world.priya, proposed(stack, world, reference="L-1"))
    lives.approve_as(stack, world, world.priya, proposed(stack, world, customer=world.ilse, reference="L-2"))
    as_administrator(stack, "UPDATE approval_entries SET at = at - interval '25 hours'")
    lives.approve_as(stack, world, world.priya, proposed(stack, world, reference="L-3"))


def proposed_as_if_alone(stack: Stack, world: World) -> tuple[Any, Any]:
    """Two refunds of one customer whose proposals did not see each other."""
    first, second = (proposed(stack, world, reference=f"L-{n}") for n in (1, 2))
    as_administrator(stack, "UPDATE intents SET route = 'desk'")
    return first, second


def both(stack: Stack, world: World, people: tuple[Person, Person], pair: tuple[Any, Any]) -> lives.Raced:
    seen = [lives.see(stack, world, one) for one in pair]
    return lives.race(
        lambda: lives.approve_as(stack, world, people[0], pair[0], seen[0]),
        lambda: lives.approve_as(stack, world, people[1], pair[1], seen[1]),
    )


def test_two_at_once_cannot_both_pass_under_the_sum(stack: Stack) -> None:
    world = build_world(stack, policy=policy())
    raced = both(stack, world, (world.priya, world.tobias), proposed_as_if_alone(stack, world))
    assert len(raced.results) == 1, raced.refusals
    assert [type(one) for one in raced.refusals] == [SumTooHigh]
    assert len(lives.claim(stack, world)) == 1


def test_without_the_sum_at_approval_the_worker_still_sends_one(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """S30: computed again from live rows over the approvals before this one."""
    world = build_world(stack, policy=policy())
    pair = proposed_as_if_alone(stack, world)
    monkeypatch.setattr("ledger.approvals.check_sum", lambda *_: None)
    raced = both(stack, world, (world.priya, world.tobias), pair)
    assert len(raced.results) == 2, raced.refusals
    assert len(lives.claim(stack, world)) == 1
    held = as_administrator(stack, "SELECT state_reason FROM intents WHERE state = 'held'")
    assert held == [{"state_reason": "strength"}]


def test_a_manager_s_refund_that_was_edited_to_the_desk_s_is_not_sent(stack: Stack) -> None:
    """Edited before a desk person saw and approved it, so that fingerprint and seal are right: the sum is not."""
    world = build_world(stack, policy=policy())
    intent = proposed(stack, world, 251_00)
    as_administrator(stack, "UPDATE intents SET route = 'desk'")
    as_administrator(stack, """UPDATE entitlements SET record = jsonb_set(record, '{route,level}', '"staff"')""")
    with pytest.raises(SumTooHigh):
        lives.approve_as(stack, world, world.priya, intent)
    with pytest.MonkeyPatch.context() as off:
        off.setattr("ledger.approvals.check_sum", lambda *_: None)
        lives.approve_as(stack, world, world.priya, intent)
    assert lives.claim(stack, world) == []
    row = as_administrator(stack, "SELECT state, state_reason FROM intents")
    assert row == [{"state": "held", "state_reason": "strength"}]


HOUR = {"limits": {role: {"GBP": {"hour": {"count": 2, "minor": 100_00}, "day": {"count": 3, "minor": 120_00}}}
                   for role in ("desk", "manager")}}  # fmt: skip


@pytest.mark.parametrize(
    ("minor", "span", "left", "left_minor"),
    [(30_00, "hour", 0, 40_00), (60_00, "hour", 1, 40_00)],
)
def test_the_hour_of_a_person_is_a_count_and_a_sum(
    stack: Stack, minor: int, span: str, left: int, left_minor: int
) -> None:
    world = build_world(stack, policy=policy(**HOUR))
    *fit, over = many(stack, world, 3 if minor == 30_00 else 2, minor)
    for intent in fit:
        lives.approve_as(stack, world, world.priya, intent)
    with pytest.raises(LimitReached):
        lives.approve_as(stack, world, world.priya, over)
    assert lives.state(stack, world, over) == "proposed"
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        hour = windows(db, world.merchant_id, world.priya.staff_id, "GBP", 2)[0]
    assert (hour.span, hour.limit_count - hour.used_count, hour.limit_minor - hour.used_minor) == (
        span,
        left,
        left_minor,
    )
    assert lives.approve_as(stack, world, world.tobias, over).state == "approved"


def test_the_default_limits_and_a_currency_that_a_policy_does_not_name(stack: Stack) -> None:
    usual = build_world(stack, policy=policy())
    named = build_world(stack, "quay", policy=policy(**HOUR) | {"policy_id": "quay-usual"})
    with transaction(stack.console, usual.merchant_id, read_only=True) as db:
        desk = windows(db, usual.merchant_id, usual.priya.staff_id, "GBP", 2)
        yen = windows(db, usual.merchant_id, usual.priya.staff_id, "JPY", 0)
        manager = windows(db, usual.merchant_id, usual.jonas.staff_id, "GBP", 2)
        nobody = windows(db, usual.merchant_id, usual.farah.staff_id, "GBP", 2)
    assert [(w.span, w.limit_count, w.limit_minor) for w in desk] == [("hour", 40, 150_000), ("day", 150, 500_000)]
    assert [(w.span, w.limit_minor) for w in yen] == [("hour", 1500), ("day", 5000)]
    assert [(w.span, w.limit_count, w.limit_minor) for w in manager] == [("hour", 40, 1_000_000)]
    assert nobody == []
    with transaction(stack.console, named.merchant_id, read_only=True) as db:
        euro = windows(db, named.merchant_id, named.priya.staff_id, "EUR", 2)
    assert [(w.span, w.limit_count, w.limit_minor) for w in euro] == [("hour", 0, 0)]


def two_sessions(stack: Stack, world: World) -> lives.Raced:
    """Priya in two browsers, with room for one of two refunds."""
    one, other = many(stack, world, 2, 60_00)
    return both(stack, world, (world.priya, world.priya), (one, other))


def test_two_sessions_of_one_person_cannot_both_pass(stack: Stack) -> None:
    world = build_world(stack, policy=policy(**HOUR))
    raced = two_sessions(stack, world)
    assert len(raced.results) == 1
    assert [type(one) for one in raced.refusals] == [LimitReached]
    assert as_administrator(stack, "SELECT used_minor FROM reviewer_windows WHERE span = 'hour'") == [
        {"used_minor": 60_00}
    ]


def test_without_the_count_both_sessions_pass(server: Server) -> None:
    with fresh_stack(server) as stack:
        world = build_world(stack, policy=policy(**HOUR))
        without(stack, "ALTER TABLE approvals DISABLE TRIGGER counts_for_its_person")
        raced = two_sessions(stack, world)
        assert len(raced.results) == 2
