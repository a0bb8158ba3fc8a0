"""The refunds of one case approved together: all of them or none, whoever else presses, and each with its own fate after."""

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from ledger.approvals import Decision, Seen
from ledger.approvals_together import approve_together
from ledger.caps import release_held
from ledger.database import transaction
from ledger.errors import AlreadyDecided, NotFound, SamePerson, Stale
from ledger.settlement import Confirmed, ProviderRefund, Refused
from tests import lives
from tests.orders import LAMP, TEE
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import Person, World, add_order, build_world

ROUNDS = 25


def split(stack: Stack, world: World, ref: str = "A-2") -> tuple[UUID, list[UUID]]:
    """Everything comes back of an order paid by card and bank: the case and its two proposed refunds."""
    order = add_order(stack, world, ref, captured={"card": 10000, "bank": 3760})
    case_id = lives.propose(stack, world, ((TEE, 3), (LAMP, 1)), order=order, reference=ref)["case_id"]
    return case_id, [row["intent_id"] for row in lives.intents(stack, world, case_id)]


def see_all(stack: Stack, world: World, intents: list[UUID]) -> dict[UUID, Seen]:
    key = secrets.token_hex(16)
    return {one: Seen(lives.see(stack, world, one).fingerprint, key) for one in intents}


def together(stack: Stack, world: World, by: Person, case_id: UUID, seen: Mapping[UUID, Seen]) -> list[Decision]:
    with transaction(stack.console, world.merchant_id) as db:
        return approve_together(
            db, world.merchant_id, case_id, by.staff_id, seen, lives.sealer(), cancel_window_seconds=0
        )  # fmt: skip


def figures(stack: Stack) -> dict[str, int]:
    (row,) = as_administrator(
        stack, "SELECT (SELECT count(*) FROM approvals) AS approvals, (SELECT count(*) FROM outbox) AS outbox,"
        " (SELECT count(*) FROM transfers) AS transfers, (SELECT count(*) FROM cap_entries) AS cap_entries",
    )  # fmt: skip
    return row


def all_(number: int) -> dict[str, int]:
    return dict.fromkeys(("approvals", "outbox", "transfers", "cap_entries"), number)


def test_two_people_press_at_once_and_one_of_them_approved_all(stack: Stack) -> None:
    world = build_world(stack, cap_minor={"GBP": 10_000_000})
    for number in range(ROUNDS):
        case_id, intents = split(stack, world, f"A-{number}")
        seen = see_all(stack, world, intents)
        raced = lives.race(*[partial(together, stack, world, by, case_id, seen) for by in (world.priya, world.jonas)])
        assert [type(refusal) for refusal in raced.refusals] == [AlreadyDecided], raced.refusals
        by = as_administrator(
            stack,
            "SELECT DISTINCT approver FROM approvals a JOIN intents i USING (intent_id) WHERE i.case_id = %s",
            case_id,
        )
        assert len(by) == 1
    assert figures(stack) == all_(2 * ROUNDS)


def test_one_approved_alone_meanwhile_leaves_the_other_alone(stack: Stack, world: World) -> None:
    case_id, intents = split(stack, world)
    seen = see_all(stack, world, intents)
    lives.approve_as(stack, world, world.jonas, intents[0])
    with pytest.raises(Stale):
        together(stack, world, world.priya, case_id, seen)
    assert figures(stack) == all_(1)
    assert lives.state(stack, world, intents[1]) == "proposed"


def test_one_that_changed_refuses_all_with_old_and_new_values(stack: Stack, world: World) -> None:
    order = add_order(stack, world, "A-3", captured={"card": 5000, "bank": 8760})
    opened = lives.open_case(stack, world, ((TEE, 3), (LAMP, 1)), order_ref="A-3", reference="A-3")
    lives.arrive(stack, world, opened.case_id, (TEE, 1), (LAMP, 1))
    before = lives.intents(stack, world, opened.case_id)
    assert order.order_id == before[0]["order_id"]
    seen = see_all(stack, world, [row["intent_id"] for row in before])
    lives.arrive(stack, world, opened.case_id, (TEE, 1))
    with pytest.raises(Stale) as refused:
        together(stack, world, world.priya, opened.case_id, seen)
    assert len(refused.value.facts["all"]) == len(before)
    assert all(one["new_minor"] is not None for one in refused.value.facts["all"])
    assert figures(stack) == all_(0)


def test_one_that_the_page_did_not_show_refuses_all(stack: Stack, world: World) -> None:
    case_id, intents = split(stack, world)
    with pytest.raises(Stale) as refused:
        together(stack, world, world.priya, case_id, see_all(stack, world, intents[:1]))
    assert [row["intent_id"] for row in refused.value.facts["more"]] == intents[1:]
    assert figures(stack) == all_(0)


def test_a_refund_of_another_case_is_not_slipped_in(stack: Stack, world: World) -> None:
    case_id, intents = split(stack, world)
    _, others = split(stack, world, "A-9")
    with pytest.raises(NotFound):
        together(stack, world, world.priya, case_id, see_all(stack, world, [*intents, *others]))
    assert figures(stack) == all_(0)


def test_who_asked_approves_none_of_them(stack: Stack, world: World) -> None:
    order = add_order(stack, world, "A-4", captured={"card": 10000, "bank": 3760})
    opened = lives.open_case(
        stack, world, ((TEE, 3), (LAMP, 1)), order_ref=order.external_ref, reference="A-4", actor=world.priya.actor,
        channel="counter",
    )  # fmt: skip
    lives.arrive(stack, world, opened.case_id, (TEE, 3), (LAMP, 1))
    intents = [row["intent_id"] for row in lives.intents(stack, world, opened.case_id)]
    assert len(intents) == 2
    with pytest.raises(SamePerson):
        together(stack, world, world.priya, opened.case_id, see_all(stack, world, intents))
    assert figures(stack) == all_(0)


def test_each_goes_on_by_itself_one_refused_and_one_paid(stack: Stack, world: World) -> None:
    case_id, intents = split(stack, world)
    decided = together(stack, world, world.priya, case_id, see_all(stack, world, intents))
    assert [one.state for one in decided] == ["approved", "approved"]
    by_amount = {}
    for claimed in lives.claim(stack, world):
        row = next(one for one in lives.intents(stack, world, case_id) if one["intent_id"] == claimed.intent_id)
        paid = ProviderRefund("re_1", "succeeded", row["amount_minor"], "GBP", row["payment_intent_ref"], row["charge_ref"],
                              str(claimed.intent_id))  # fmt: skip
        card = row["destination_kind"] == "card"
        lives.record(stack, claimed, Confirmed(paid) if card else Refused("charge_not_refundable", "too old", 400))
        by_amount[row["destination_kind"]] = lives.state(stack, world, claimed.intent_id)
    assert by_amount == {"card": "succeeded", "bank": "failed"}


def test_the_cap_counts_each_and_what_does_not_fit_is_held(stack: Stack) -> None:
    world = build_world(stack, cap_minor={"GBP": 11_000})
    case_id, intents = split(stack, world)
    decided = together(stack, world, world.priya, case_id, see_all(stack, world, intents))
    states: dict[Any, str] = {one.intent_id: one.state for one in decided}
    assert sorted(states.values()) == ["approved", "held"]
    with transaction(stack.worker, world.merchant_id) as db:
        assert not release_held(db, world.merchant_id)
