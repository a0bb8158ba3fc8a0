"""A refund counts for what its status says: settled, under way, or come to nothing; and each may change days later."""

from typing import Any

import pytest

from ledger.database import first, transaction
from tests import lives
from tests.cases.desk import Desk
from tests.cases.sale import Books, Refund, Sale
from tests.refunds import as_administrator

ON_ITS_WAY = Books(left=0, reserved=82_00, refunded=0)
THOUGHT_PAID = Books(left=0, reserved=0, refunded=82_00)


@pytest.mark.parametrize(
    ("day_0", "shown", "reason"),
    [
        (ON_ITS_WAY, "failed", "expired_or_canceled_card"),
        (THOUGHT_PAID, "failed", "expired_or_canceled_card"),
        (ON_ITS_WAY, "failed", "charge_for_pending_refund_disputed"),
        (ON_ITS_WAY, "canceled", "merchant_request"),
        (THOUGHT_PAID, "canceled", "merchant_request"),
    ],
)
def test_a_refund_undone_four_days_later_is_owed_again_and_its_case_is_a_persons(
    desk: Desk, day_0: Books, shown: str, reason: str
) -> None:
    """All of 82.00 is on its way, or thought paid; then it comes to nothing. It is owed again, and by itself nothing goes."""
    desk.listen()
    sale = desk.sold(82_00, currency="USD")
    one = desk.approved(sale, ("L1", 1))
    waits = day_0 == ON_ITS_WAY
    if waits:
        desk.sandbox.fault("refund_pending")
    desk.send()
    assert desk.books(sale) == day_0
    assert (desk.state(one), desk.case(one.case_id)) == (
        ("pending", ("pending", True)) if waits else ("succeeded", ("paid", False))
    )
    desk.hours_pass(4 * 24)
    desk.sandbox.change_refund(desk.refund_ref(one), shown, reason)
    desk.told()
    assert desk.hear()["moved"] == 1
    assert (desk.state(one), desk.reason(one)) == ("failed" if waits else "reversed", reason)
    assert desk.case(one.case_id) == ("refused" if waits else "came_back", True)
    desk.retell("refund.created", desk.refund_ref(one))
    assert (desk.hear(), desk.send(), desk.look()) == ({}, {}, {})
    desk.ends(sale, refunds=0, refunded=0, left=82_00 - 0)
    pay_again(desk, sale, one)


def pay_again(desk: Desk, sale: Sale, before: Refund) -> None:
    """It is owed once more, as a new refund under a new key that names the one before, and only when a person asks."""
    (again,) = desk.work_out_again(before.case_id)
    assert (again.amount_minor, replaces(desk, again)) == (before.amount_minor, before.intent_id)
    assert again.provider_key != before.provider_key
    desk.approve(again)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=before.amount_minor, left=0)


def replaces(desk: Desk, one: Refund) -> Any:
    with transaction(desk.stack.console, desk.world.merchant_id, read_only=True) as db:
        row = first(db, "SELECT replaces FROM intents WHERE intent_id = :i", i=one.intent_id)
    return row["replaces"] if row else None


def test_of_five_refunds_each_counts_by_its_own_status(desk: Desk) -> None:
    """Five of 12.00 out of 60.00: one settled, two under way, two come to nothing. 12.00 is gone and 24.00 held."""
    sale = desk.sold((12_00, 5))
    states = {}
    for fault in (None, "refund_pending", "refund_requires_action", "refund_fails", "refund_pending"):
        one = desk.approved(sale, ("L1", 1), relation="separate")
        if fault:
            desk.sandbox.fault(fault)
        desk.send()
        states[desk.refund_ref(one)] = one
    last = list(states)[-1]
    desk.sandbox.change_refund(last, "canceled")
    desk.look()
    assert [desk.state(one) for one in states.values()] == ["succeeded", "pending", "pending", "failed", "failed"]
    there = [refund["status"] for refund in desk.refunds_there(sale)]
    assert there == ["succeeded", "pending", "requires_action", "failed", "canceled"]
    desk.ends(sale, refunds=1, refunded=12_00, reserved=2 * 12_00, left=60_00 - 12_00 - 2 * 12_00)


KINDS = ["charge.refunded", "refund.created", "refund.updated", "charge.refund.updated", ""]


@pytest.mark.parametrize("kind", KINDS)
def test_a_refund_settles_whichever_event_tells_of_it_and_also_when_none_does(desk: Desk, kind: str) -> None:
    """57.00 pending; the provider's one event of this kind is all that ever arrives, or nothing and the poll finds it."""
    sale = desk.sold(57_00, currency="EUR")
    one = desk.approved(sale, ("L1", 1))
    desk.sandbox.fault("refund_pending")
    desk.send()
    assert desk.state(one) == "pending"
    desk.sandbox.change_refund(desk.refund_ref(one), "succeeded")
    if kind:
        (event,) = desk.events(kind)
        desk.tell(event)
        assert desk.hear() == {"hints": 1, "reads": 1, "moved": 1}
    else:
        assert (desk.hear(), desk.look()) == ({}, {"looks": 1, "found": 1})
    assert desk.state(one) == "succeeded"
    desk.ends(sale, refunds=1, refunded=57_00, left=57_00 - 57_00)


def test_a_failed_refund_is_not_taken_off_what_is_left_and_does_not_stand_in_the_way(desk: Desk) -> None:
    """48.30 fails; then all of 63.05 is paid. Nothing is ever -48.30."""
    sale = desk.sold(48_30, 14_75, currency="EUR")
    case = lives.open_case(desk.stack, desk.world, (("L1", 1), ("L2", 1)), order_ref=sale.ref).case_id
    lives.arrive(desk.stack, desk.world, case, ("L1", 1))
    (first_half,) = desk.refunds_of(case)
    assert first_half.amount_minor == 48_30
    desk.approve(first_half)
    desk.sandbox.fault("refund_fails", failure_reason="lost_or_stolen_card")
    desk.send()
    assert (desk.state(first_half), desk.reason(first_half)) == ("failed", "lost_or_stolen_card")
    desk.ends(sale, refunds=0, refunded=0, left=63_05 - 0)
    lives.arrive(desk.stack, desk.world, case, ("L2", 1))
    whole = desk.refunds_of(case)[-1]
    assert whole.amount_minor == 48_30 + 14_75
    desk.approve(whole)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=63_05, left=63_05 - 63_05)


@pytest.mark.parametrize(("fault", "reason"), [("insufficient_balance", "insufficient_balance_for_refund")])
def test_what_the_provider_refuses_leaves_nothing_behind_and_may_be_asked_for_again(
    desk: Desk, fault: str, reason: str
) -> None:
    """All of 135.00 is refused once, by name, and accepted the second time, under another key."""
    sale = desk.sold(135_00, currency="PLN")
    one = desk.approved(sale, ("L1", 1))
    desk.sandbox.fault(fault, refuse=True)
    assert desk.send() == {"claimed": 1, "refused": 1}
    assert (desk.state(one), desk.reason(one)) == ("failed", reason)
    assert desk.refunds_there(sale) == []
    assert cap_used(desk) == 0
    desk.ends(sale, refunds=0, refunded=0, left=135_00)
    pay_again(desk, sale, one)
    assert cap_used(desk) == 135_00


def cap_used(desk: Desk) -> int:
    (row,) = as_administrator(desk.stack, "SELECT sum(used_minor)::bigint AS minor FROM cap_days")
    return int(row["minor"])


def test_a_part_of_a_charge_that_is_not_settled_waits_and_voids_nothing(desk: Desk) -> None:
    """28.00 of 112.00 waits for the charge; the payment is neither cancelled nor given back whole."""
    sale = desk.sold(28_00, 84_00, currency="USD")
    one = desk.approved(sale, ("L1", 1))
    desk.sandbox.fault("refund_pending", pending_reason="charge_pending")
    desk.send()
    assert desk.state(one) == "pending"
    desk.ends(sale, refunds=0, refunded=0, reserved=28_00, left=112_00 - 28_00)
    desk.sandbox.change_refund(desk.refund_ref(one), "succeeded")
    desk.look()
    assert [call["path"] for call in desk.calls("POST", "/v1/")] == ["/v1/refunds"]
    assert desk.sandbox.money(sale.payment.payment_intent)["status"] == "succeeded"
    desk.ends(sale, refunds=1, refunded=28_00, left=112_00 - 28_00)
