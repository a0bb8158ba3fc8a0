"""A return paid back to a card and to a bank has two refunds: while one waits for its approval, the desk sees the case as ready."""

from uuid import UUID

import pytest

from ledger.caps import ask_raise, decide_raise, release_held
from ledger.database import transaction
from ledger.intents import cancel_before_send
from ledger.queries.queue import Wanted, read_page
from ledger.settlement import Confirmed, Outcome, ProviderRefund, Unknown
from tests import lives
from tests.orders import LAMP, TEE
from tests.stack import Stack
from tests.world import World, add_order, build_world

TIMED_OUT = Unknown("timeout", "no answer came")


def split(stack: Stack, world: World) -> tuple[UUID, UUID, UUID]:
    """Everything comes back: the case, its refund to the card (or bank) and the other, both proposed."""
    order = add_order(stack, world, "A-2", captured={"card": 10000, "bank": 3760})
    intent = lives.propose(stack, world, ((TEE, 3), (LAMP, 1)), order=order)
    one, other = lives.intents(stack, world, intent["case_id"])
    assert (one["state"], other["state"]) == ("proposed", "proposed")
    return intent["case_id"], one["intent_id"], other["intent_id"]


def views(stack: Stack, world: World, case_id: UUID) -> list[str]:
    """The saved views of the queue that have the case."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        asked = {
            view: read_page(db, world.merchant_id, Wanted(view, "Europe/London", world.mara.staff_id))
            for view in ("ready", "held", "unknown")
        }
    return [view for view, found in asked.items() if case_id in {row.case_id for row in found.rows}]


def answered(stack: Stack, world: World, case_id: UUID, intent_id: UUID, status: str) -> Outcome:
    row = next(one for one in lives.intents(stack, world, case_id) if one["intent_id"] == intent_id)
    return Confirmed(ProviderRefund(
        f"re_{row['number']}", status, row["amount_minor"], row["currency"], row["payment_intent_ref"], row["charge_ref"],
        str(intent_id),
    ))  # fmt: skip


@pytest.mark.parametrize("end", ["unknown", "pending", "succeeded"])
def test_after_the_first_is_approved_sent_and_answered_the_second_is_still_in_the_ready_view(
    stack: Stack, world: World, end: str
) -> None:
    case_id, one, other = split(stack, world)
    assert views(stack, world, case_id) == ["ready"]
    lives.approve_as(stack, world, world.jonas, one)
    assert views(stack, world, case_id) == ["ready"]
    (claimed,) = lives.claim(stack, world)
    assert views(stack, world, case_id) == ["ready"]
    lives.record(stack, claimed, TIMED_OUT if end == "unknown" else answered(stack, world, case_id, one, end))
    assert (lives.state(stack, world, one), views(stack, world, case_id)) == (end, ["ready"])
    lives.approve_as(stack, world, world.jonas, other)
    assert "ready" not in views(stack, world, case_id)


def test_once_both_are_approved_the_case_leaves_the_view_and_is_paid_with_the_last(stack: Stack, world: World) -> None:
    case_id, one, other = split(stack, world)
    for intent_id in (other, one):
        lives.approve_as(stack, world, world.jonas, intent_id)
    assert views(stack, world, case_id) == []
    for claimed in lives.claim(stack, world):
        lives.record(stack, claimed, answered(stack, world, case_id, claimed.intent_id, "succeeded"))
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        assert [
            row.stage
            for row in read_page(db, world.merchant_id, Wanted("every", "Europe/London", world.mara.staff_id)).rows
        ] == ["paid"]


def test_one_that_the_cap_holds_and_lets_go_does_not_hide_the_other(stack: Stack) -> None:
    world = build_world(stack, "tight", cap_minor={"GBP": 100})
    case_id, one, _ = split(stack, world)
    lives.approve_as(stack, world, world.jonas, one)
    assert (lives.state(stack, world, one), views(stack, world, case_id)) == ("held", ["ready"])
    with transaction(stack.console, world.merchant_id) as db:
        asked = ask_raise(db, world.merchant_id, world.jonas.staff_id, "GBP", 90000, "a recall")
        assert decide_raise(db, world.merchant_id, asked, world.mara.staff_id, granted=True)
    with transaction(stack.worker, world.merchant_id) as db:
        assert release_held(db, world.merchant_id)
    assert (lives.state(stack, world, one), views(stack, world, case_id)) == ("approved", ["ready"])


def test_what_a_person_has_to_look_at_shows_before_what_waits(stack: Stack, world: World) -> None:
    case_id, one, _ = split(stack, world)
    lives.approve_as(stack, world, world.jonas, one, window=300)
    with transaction(stack.console, world.merchant_id) as db:
        cancel_before_send(db, world.merchant_id, one, world.jonas.actor, "not_yet")
    assert views(stack, world, case_id) == []
