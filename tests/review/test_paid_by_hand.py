"""A gift card is paid back by hand: approved like any refund, done elsewhere, recorded once with a reference, then settled."""

from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.brakes import pull
from ledger.by_hand import Recorded, carry_out, record, to_carry_out
from ledger.database import run, transaction
from ledger.errors import AlreadyDecided, BadInput, WrongState
from ledger.intents import cancel_before_send
from ledger.queries.overdue import overdue_intents
from ledger.states import BY_HAND_LIMIT
from tests import lives
from tests.orders import LAMP, TEE
from tests.refunds import alarms, as_administrator
from tests.stack import Stack
from tests.world import Person, World, add_order

CARD, GIFT = 4760, 9000


def proposed(
    stack: Stack, world: World, ref: str = "G-1", lines: tuple[tuple[str, int], ...] = ((TEE, 3), (LAMP, 1))
) -> UUID:
    """An order paid with a card and a gift card; everything in `lines` comes back: the case."""
    order = add_order(
        stack, world, ref, captured={"card": CARD, "gift_card": GIFT}, by_hand=frozenset({"gift_card"})
    )  # fmt: skip
    return UUID(str(lives.propose(stack, world, lines, order=order, reference=ref)["case_id"]))


def of_gift_card(stack: Stack, world: World, case_id: UUID) -> UUID:
    (one,) = [row for row in lives.intents(stack, world, case_id) if row["act"] == "manual"]
    return UUID(str(one["intent_id"]))


def approved(stack: Stack, world: World, ref: str = "G-1") -> tuple[UUID, UUID]:
    """The case, and its refund to the gift card once Priya approved it."""
    case_id = proposed(stack, world, ref)
    intent_id = of_gift_card(stack, world, case_id)
    assert lives.approve_as(stack, world, world.priya, intent_id).state == "approved"
    return case_id, intent_id


def says(stack: Stack, world: World, by: Person, intent_id: UUID, *, reference: str = "", reason: str = "") -> None:
    with transaction(stack.console, world.merchant_id) as db:
        record(db, world.merchant_id, intent_id, by.staff_id, Recorded(reference, reason))


def carried_out(stack: Stack, world: World, intent_id: UUID) -> str:
    with transaction(stack.worker, world.merchant_id) as db:
        assert to_carry_out(db, world.merchant_id) == [intent_id]
        return carry_out(db, world.merchant_id, intent_id, lives.verifier())


def figures(stack: Stack, intent_id: UUID) -> tuple[int, int, int, int]:
    """Available, reserved, refunded of the gift card, and what the cap of the day holds."""
    (row,) = as_administrator(
        stack, "SELECT c.available_minor AS a, c.reserved_minor AS b, c.refunded_minor AS c, (SELECT coalesce(sum(used_minor), 0)"
        " FROM cap_days)::bigint AS d FROM captures c JOIN intents i USING (capture_id) WHERE i.intent_id = %s", intent_id,
    )  # fmt: skip
    return row["a"], row["b"], row["c"], row["d"]


def test_what_a_card_and_a_gift_card_paid_goes_back_to_both_and_only_the_card_by_the_provider(
    stack: Stack, world: World
) -> None:
    case_id = proposed(stack, world)
    acts = {row["act"]: (row["amount_minor"], row["destination_kind"]) for row in lives.intents(stack, world, case_id)}
    assert acts == {"refund": (CARD - 490, "card"), "manual": (GIFT, "gift_card")} or acts == {
        "refund": (CARD, "card"), "manual": (GIFT - 490, "gift_card")
    }  # fmt: skip
    for row in lives.intents(stack, world, case_id):
        lives.approve_as(stack, world, world.priya, row["intent_id"])
    (claimed,) = lives.claim(stack, world)
    assert claimed.request["act"] == "refund"


def test_a_gift_card_paid_back_by_hand_settles_once_with_its_reference(stack: Stack, world: World) -> None:
    _, intent_id = approved(stack, world)
    left, reserved, refunded, cap = figures(stack, intent_id)
    assert (left + reserved, refunded, cap) == (GIFT, 0, reserved)
    says(stack, world, world.tobias, intent_id, reference="GC-2026-11")
    says(stack, world, world.tobias, intent_id, reference="GC-2026-11")
    assert lives.state(stack, world, intent_id) == "approved"
    assert carried_out(stack, world, intent_id) == "succeeded"
    assert figures(stack, intent_id) == (left, 0, reserved, cap)
    with transaction(stack.worker, world.merchant_id) as db:
        assert (to_carry_out(db, world.merchant_id), carry_out(db, world.merchant_id, intent_id, lives.verifier())) == (
            [],
            "",
        )
    assert figures(stack, intent_id) == (left, 0, reserved, cap)


def test_what_could_not_be_done_by_hand_gives_everything_back_and_may_be_asked_for_again(
    stack: Stack, world: World
) -> None:
    case_id, intent_id = approved(stack, world)
    says(stack, world, world.tobias, intent_id, reason="the card was thrown away")
    assert carried_out(stack, world, intent_id) == "failed"
    assert figures(stack, intent_id) == (GIFT, 0, 0, 0)
    assert lives.intents(stack, world, case_id)[-1]["state_reason"] in ("", "not_done_by_hand")


def test_two_people_who_record_at_once_are_one_record_and_the_other_learns_whose(stack: Stack, world: World) -> None:
    _, intent_id = approved(stack, world)
    raced = lives.race(
        lambda: says(stack, world, world.tobias, intent_id, reference="GC-1"),
        lambda: says(stack, world, world.mara, intent_id, reference="GC-2"),
    )
    (refused,) = raced.refusals
    assert isinstance(refused, AlreadyDecided)
    kept = as_administrator(stack, "SELECT reference FROM manual_settlements")
    assert len(kept) == 1
    assert refused.facts["recorded"]["reference"] == kept[0]["reference"]
    assert carried_out(stack, world, intent_id) == "succeeded"


def test_control_without_its_key_two_records_of_one_refund_would_stand(stack: Stack, world: World) -> None:
    _, intent_id = approved(stack, world)
    says(stack, world, world.tobias, intent_id, reference="GC-1")
    twice = (
        "INSERT INTO manual_settlements (merchant_id, intent_id, outcome, tender, reference, recorded_by)"
        " VALUES (:m, :i, 'done', 'gift_card', 'GC-2', :who)"
    )
    keys = {"m": world.merchant_id, "i": intent_id, "who": world.mara.staff_id}
    with (
        pytest.raises(IntegrityError, match="manual_settlements_pkey"),
        transaction(stack.console, world.merchant_id) as db,
    ):
        run(db, twice, **keys)
    with stack.admin() as admin:
        admin.execute("ALTER TABLE manual_settlements DROP CONSTRAINT manual_settlements_pkey")
    with transaction(stack.console, world.merchant_id) as db:
        assert run(db, twice, **keys) == 1


def test_one_reference_is_one_payment(stack: Stack, world: World) -> None:
    _, one = approved(stack, world)
    _, other = approved(stack, world, "G-2")
    says(stack, world, world.tobias, one, reference="GC-1")
    with pytest.raises(BadInput, match="recorded for another refund"):
        says(stack, world, world.tobias, other, reference="GC-1")
    assert lives.state(stack, world, other) == "approved"


@pytest.mark.parametrize("reference", ["x" * 81, "4242 4242 4242 4242"], ids=["too long", "a card number"])
def test_a_reference_that_is_none_is_refused(stack: Stack, world: World, reference: str) -> None:
    _, intent_id = approved(stack, world)
    with pytest.raises(BadInput):
        says(stack, world, world.tobias, intent_id, reference=reference)
    assert as_administrator(stack, "SELECT 1 FROM manual_settlements") == []


def test_calling_it_back_and_recording_it_race_and_one_wins(stack: Stack, world: World) -> None:
    _, intent_id = approved(stack, world)

    def call_back() -> None:
        with transaction(stack.console, world.merchant_id) as db:
            cancel_before_send(db, world.merchant_id, intent_id, world.mara.actor, "other")

    raced = lives.race(call_back, lambda: says(stack, world, world.tobias, intent_id, reference="GC-1"))
    assert [type(refusal) for refusal in raced.refusals] == [WrongState]
    recorded = as_administrator(stack, "SELECT 1 FROM manual_settlements")
    assert (lives.state(stack, world, intent_id), len(recorded)) in (("withdrawn", 0), ("approved", 1))


def test_a_pause_while_it_is_recorded_keeps_the_one_record_of_money_that_left(stack: Stack, world: World) -> None:
    """A brake stops what would leave. What a person paid has left: it is recorded once and booked, whichever came first."""
    _, intent_id = approved(stack, world)
    reserved = figures(stack, intent_id)[1]

    def pause() -> None:
        with transaction(stack.console, world.merchant_id) as db:
            pull(db, world.merchant_id, "pause", "something looks wrong", staff_id=world.jonas.staff_id)

    raced = lives.race(pause, lambda: says(stack, world, world.tobias, intent_id, reference="GC-1"))
    assert raced.refusals == []
    assert len(as_administrator(stack, "SELECT 1 FROM manual_settlements")) == 1
    assert carried_out(stack, world, intent_id) == "succeeded"
    assert figures(stack, intent_id)[1:3] == (0, reserved)


def test_evidence_that_comes_after_the_payment_takes_nothing_of_it_back(stack: Stack, world: World) -> None:
    """The customer has the money: new evidence owes the difference only, and what was recorded settles."""
    order = add_order(stack, world, "G-9", captured={"gift_card": 13760}, by_hand=frozenset({"gift_card"}))
    opened = lives.open_case(stack, world, ((TEE, 3),), order_ref=order.external_ref, reference="G-9")
    lives.arrive(stack, world, opened.case_id, (TEE, 1))
    intent_id = of_gift_card(stack, world, opened.case_id)
    lives.approve_as(stack, world, world.priya, intent_id)
    says(stack, world, world.tobias, intent_id, reference="GC-9")
    lives.arrive(stack, world, opened.case_id, (TEE, 1))
    assert [row["state"] for row in lives.intents(stack, world, opened.case_id)] == ["approved"]
    with transaction(stack.worker, world.merchant_id) as db:
        carry_out(db, world.merchant_id, intent_id, lives.verifier())
    assert lives.state(stack, world, intent_id) in ("succeeded", "needs_review")
    assert figures(stack, intent_id)[2] + figures(stack, intent_id)[1] == 2490


def test_an_approval_that_ran_out_is_not_paid_by_hand(stack: Stack, world: World) -> None:
    _, intent_id = approved(stack, world)
    as_administrator(
        stack,
        "UPDATE approvals SET approved_at = approved_at - interval '2 days', expires_at = expires_at - interval '2 days'",
    )
    with pytest.raises(WrongState, match="ran out"):
        says(stack, world, world.tobias, intent_id, reference="GC-1")
    with pytest.raises(IntegrityError, match="by hand is settled"), transaction(stack.console, world.merchant_id) as db:
        run(
            db, "INSERT INTO manual_settlements (merchant_id, intent_id, outcome, tender, reference, recorded_by)"
            " VALUES (:m, :i, 'done', 'gift_card', 'GC-1', :who)",
            m=world.merchant_id, i=intent_id, who=world.tobias.staff_id,
        )  # fmt: skip


def test_a_record_behind_which_stands_no_good_approval_is_a_persons_with_an_alarm(stack: Stack, world: World) -> None:
    _, intent_id = approved(stack, world)
    says(stack, world, world.tobias, intent_id, reference="GC-1")
    as_administrator(stack, "UPDATE approvals SET note = 'edited' WHERE intent_id = %s", intent_id)
    assert carried_out(stack, world, intent_id) == "needs_review"
    assert alarms(stack) == {"by_hand_seal"}
    assert figures(stack, intent_id)[1] > 0


def test_one_that_nobody_pays_is_overdue_at_its_own_desk(stack: Stack, world: World) -> None:
    _, intent_id = approved(stack, world)
    limit, desk = BY_HAND_LIMIT
    for spent, late in ((limit - timedelta(minutes=5), []), (timedelta(minutes=10), [(intent_id, desk)])):
        as_administrator(stack, "UPDATE intents SET state_at = state_at - %s WHERE intent_id = %s", spent, intent_id)
        with transaction(stack.console, world.merchant_id, read_only=True) as db:
            assert [(one.intent_id, one.desk) for one in overdue_intents(db, world.merchant_id)] == late
