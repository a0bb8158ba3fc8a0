"""Money that was never taken: the provider refuses, by name, and nothing of ours moves. Money that a bank is taking back: it is
not sent at all."""

import pytest

from ledger.errors import WrongState
from tests.cases.desk import Desk
from tests.cases.sale import Books, Payment, Refund
from tests.refunds import as_administrator


def refused(desk: Desk, one: Refund, reason: str) -> None:
    """Sent once, refused by name, and everything it held is given back."""
    assert desk.send() == {"claimed": 1, "refused": 1}
    assert (desk.state(one), desk.reason(one)) == ("failed", reason)
    assert (desk.send(), desk.look()) == ({}, {})


def said(desk: Desk, one: Refund) -> str:
    """The provider's own sentence about the last attempt."""
    return str(as_administrator(desk.stack, "SELECT detail FROM attempt_results WHERE intent_id = %s ORDER BY at DESC",
                                one.intent_id)[0]["detail"])  # fmt: skip


@pytest.mark.parametrize("lapsed", [False, True], ids=["still held", "released"])
def test_part_of_an_authorisation_is_not_refunded_and_the_authorisation_is_left_as_it_is(
    desk: Desk, lapsed: bool
) -> None:
    """The shop says that 110.00 was captured; at the provider it is only held, or the hold has gone. 40.00 is asked back."""
    held = desk.authorised(110_00, "USD")
    if lapsed:
        assert desk.at_provider(f"payment_intents/{held.payment_intent}/cancel")["status"] == "canceled"
    status = "canceled" if lapsed else "requires_capture"
    sale = desk.sold(40_00, 70_00, currency="USD", payments=[held])
    desk.sandbox.clear_requests()
    one = desk.approved(sale, ("L1", 1))
    refused(desk, one, "not_refundable_as_it_stands")
    assert "uncaptured" in said(desk, one)
    assert [call["path"] for call in desk.calls("POST", "/v1/")] == ["/v1/refunds"]
    money = desk.sandbox.money(held.payment_intent)
    assert (money["status"], money["amount"], money["captured"]) == (status, 110_00, 0)
    desk.ends(sale, refunds=0, refunded=0, left=110_00)
    # The refusal has the payment read: what the shop called captured is held, or gone, and nothing of it is proposed in parts.
    assert desk.hear()["moved"] > 0
    assert desk.holds(sale) == ((0, 0, 110_00) if lapsed else (110_00, 0, 0))
    assert desk.case(one.case_id) == ("needs_person", True)
    desk.ends(sale, refunds=0, refunded=0, left=0)


def test_a_payment_captured_in_the_dashboard_is_refunded_by_the_part_that_was_asked_for(desk: Desk) -> None:
    """95.00 held, refused; then captured in the dashboard, and 22.00 of it goes back, not 95.00."""
    desk.listen()
    held = desk.authorised(95_00, "USD")
    sale = desk.sold(22_00, 73_00, currency="USD", payments=[held])
    one = desk.approved(sale, ("L1", 1))
    refused(desk, one, "not_refundable_as_it_stands")
    assert desk.at_provider(f"payment_intents/{held.payment_intent}/capture")["amount_received"] == 95_00
    desk.told()
    assert "moved" not in desk.hear()
    (again,) = desk.work_out_again(one.case_id)
    desk.approve(again)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=22_00, left=95_00 - 22_00)


def test_the_part_of_a_hold_that_was_never_captured_is_no_refund_and_is_not_paid_back(desk: Desk) -> None:
    """120.00 held, 78.00 captured, 42.00 released. A return of everything draws 78.00, by a manager, and no more."""
    desk.listen()
    held = desk.authorised(120_00, "USD")
    desk.at_provider(f"payment_intents/{held.payment_intent}/capture", amount_to_capture=78_00)
    taken = Payment(held.payment_intent, held.charge, 78_00)
    sale = desk.sold(78_00, 42_00, currency="USD", payments=[taken])
    desk.told()
    assert "moved" not in desk.hear()
    desk.ends(sale, refunds=0, refunded=0, left=120_00 - 42_00)
    one = desk.owed(sale, ("L1", 1), ("L2", 1))
    assert (one.amount_minor, one.route) == (78_00, "manager")
    desk.approve(one, by=desk.world.jonas)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=78_00, left=0)


def test_a_cancelled_authorisation_is_an_order_without_money_and_never_a_refund(desk: Desk) -> None:
    """55.00 held and let go; the provider tells of it, and a return of the goods finds nothing to pay from."""
    desk.listen()
    held = desk.authorised(55_00, "USD")
    sale = desk.sold(55_00, currency="USD", payments=[])
    desk.at_provider(f"payment_intents/{held.payment_intent}/cancel")
    assert desk.told()["payment_intent.canceled"] == 1
    assert "moved" not in desk.hear()
    case = desk.returned(sale, ("L1", 1))
    assert (desk.refunds_of(case), desk.case(case)) == ([], ("needs_person", True))
    money = desk.sandbox.money(held.payment_intent)
    assert (money["status"], money["refunds"], desk.calls()) == ("canceled", [], [])


@pytest.mark.parametrize("part", [130_00, 52_00], ids=["all of it", "a part of it"])
@pytest.mark.parametrize("found", ["hook", "poll", "send"])
def test_what_the_bank_is_pulling_back_is_not_paid_as_well_and_is_paid_once_the_dispute_is_won(
    desk: Desk, part: int, found: str
) -> None:
    """130.00, approved; the customer's bank disputes all or 52.00 of it. It is held, not sent, however the dispute is found, even
    when nothing but the sending itself looks; after the win it goes by itself, once."""
    if found == "hook":
        desk.listen()
    sale = desk.sold(130_00, currency="USD")
    one = desk.approved(sale, ("L1", 1))
    dispute = desk.sandbox.open_dispute(sale.payment.payment_intent, amount=part)
    if found == "hook":
        desk.told()
        assert desk.hear()["moved"] == 1
    elif found == "poll":
        assert desk.find() == {"disputes": 1}
    assert desk.send() == ({"disputes": 1} if found == "send" else {})
    assert (desk.state(one), desk.reason(one), desk.calls()) == ("held", "disputed", [])
    desk.ends(sale, refunds=0, refunded=0, left=0, reserved=130_00, held=130_00)
    desk.sandbox.close_dispute(dispute["id"], "won")
    assert desk.find() == {"disputes": 1}
    assert (desk.state(one), desk.send()) == ("approved", {"claimed": 1, "confirmed": 1})
    desk.ends(sale, refunds=1, refunded=130_00, left=0)


def test_an_approval_that_grew_old_while_the_bank_decided_is_asked_for_again(desk: Desk) -> None:
    sale = desk.sold(64_00, 6_00)
    one = desk.approved(sale, ("L1", 1))
    dispute = desk.sandbox.open_dispute(sale.payment.payment_intent)
    desk.find()
    desk.hours_pass(24 * 20)
    desk.sandbox.close_dispute(dispute["id"], "won")
    desk.find()
    assert (desk.state(one), desk.reason(one)) == ("withdrawn", "dispute_over")
    (again,) = [owed for owed in desk.refunds_of(one.case_id) if owed != one]
    replaced = as_administrator(desk.stack, "SELECT replaces FROM intents WHERE intent_id = %s", again.intent_id)
    assert (desk.send(), desk.calls(), replaced) == ({}, [], [{"replaces": one.intent_id}])
    desk.approve(again)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=64_00, left=6_00)


def test_a_dispute_that_was_lost_is_no_refund_and_nothing_more_is_paid_on_top_of_it(desk: Desk) -> None:
    """33.00 of 108.00 was refunded, then the dispute over the other 75.00 was lost: 33.00 stays the sum of refunds."""
    desk.listen()
    sale = desk.sold(33_00, 75_00, currency="USD")
    desk.paid_back(sale, ("L1", 1))
    waiting = desk.approved(sale, ("L2", 1))
    dispute = desk.sandbox.open_dispute(sale.payment.payment_intent, amount=75_00)
    desk.sandbox.close_dispute(dispute["id"], "lost")
    assert desk.told()["charge.dispute.closed"] == 1
    assert desk.hear()["moved"] == 1
    assert (desk.state(waiting), desk.reason(waiting), desk.send()) == ("held", "disputed", {})
    desk.withdraw(waiting, "disputed")
    assert desk.find() == {"placed": 1}
    desk.ends(sale, refunds=1, refunded=33_00, left=0, disputed=75_00)
    assert desk.work_out_again(waiting.case_id) == []
    assert desk.case(waiting.case_id) == ("needs_person", True)
    assert [call["path"] for call in desk.calls()] == ["/v1/refunds"]


def test_a_dispute_of_money_that_was_refunded_before_is_said_aloud(desk: Desk) -> None:
    sale = desk.sold(75_00, currency="USD")
    desk.paid_back(sale, ("L1", 1))
    desk.sandbox.open_dispute(sale.payment.payment_intent, amount=75_00)
    assert desk.find() == {"disputes": 1}
    desk.ends(sale, refunds=1, refunded=75_00, left=0, said=["disputed_after_refund"])


def test_a_question_of_the_bank_takes_no_money_and_holds_the_refund_for_a_person(desk: Desk) -> None:
    """19.00 of 60.00. Farah rules that one refund goes; another waits until the bank has its answer."""
    sales = [desk.sold(19_00, 41_00) for _ in range(2)]
    ruled, answered = ones = [desk.approved(sale, ("L1", 1)) for sale in sales]
    asks = [desk.sandbox.open_dispute(sale.payment.payment_intent, inquiry=True)["id"] for sale in sales]
    assert (desk.send(), desk.calls()) == ({"disputes": 2}, [])
    assert [(desk.state(one), desk.reason(one)) for one in ones] == [("held", "disputed")] * 2
    assert [desk.books(sale).left for sale in sales] == [41_00, 41_00]
    desk.rules(asks[0])
    assert (desk.state(ruled), desk.send(), desk.state(answered)) == (
        "approved",
        {"claimed": 1, "confirmed": 1},
        "held",
    )
    desk.sandbox.close_dispute(asks[1], "warning_closed")
    assert desk.find() == {"disputes": 1}
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    for sale in sales:
        desk.ends(sale, refunds=1, refunded=19_00, left=60_00 - 19_00)


@pytest.mark.parametrize("found", ["hook", "poll", "send"])
def test_a_question_that_was_ruled_on_and_becomes_a_dispute_of_the_same_id_holds_the_refund_after_all(
    desk: Desk, found: str
) -> None:
    """19.00 of 60.00, and Farah ruled that it goes. Before it leaves the bank takes all 60.00: the ruling was about a question."""
    if found == "hook":
        desk.listen()
    sale = desk.sold(19_00, 41_00)
    one = desk.approved(sale, ("L1", 1))
    asked = desk.sandbox.open_dispute(sale.payment.payment_intent, inquiry=True)["id"]
    assert desk.find() == {"disputes": 1}
    desk.rules(asked)
    assert (desk.state(one), desk.books(sale)) == ("approved", Books(41_00, 19_00, 0))
    desk.sandbox.escalate_dispute(asked)
    if found == "hook":
        desk.told()
        assert desk.hear()["moved"] == 1
    elif found == "poll":
        assert desk.find() == {"disputes": 1}
    else:
        as_administrator(desk.stack, "UPDATE account_readings SET read_at = NULL")
    assert desk.send() == ({"disputes": 1} if found == "send" else {})
    assert (desk.state(one), desk.reason(one), desk.calls()) == ("held", "disputed", [])
    # All that nobody was promised is the bank's; the 19.00 follow when the refund is called back.
    desk.ends(sale, refunds=0, refunded=0, left=0, reserved=19_00, held=19_00, disputed=41_00)
    with pytest.raises(WrongState, match="Only an open question"):
        desk.rules(asked)
    desk.withdraw(one, "disputed")
    desk.find()
    desk.ends(sale, refunds=0, refunded=0, left=0, disputed=60_00)
    desk.sandbox.close_dispute(asked, "won")
    assert desk.find()["disputes"] == 1
    desk.ends(sale, refunds=0, refunded=0, left=60_00)


def test_control_without_the_look_before_sending_a_refund_goes_out_beside_the_banks_question(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider itself pays it; a chargeback that follows would be the second loss."""
    monkeypatch.setattr("jobs.dispute_freshness.disputes_read", lambda *_: True)
    sale = desk.sold(19_00, 41_00)
    desk.approved(sale, ("L1", 1))
    desk.sandbox.open_dispute(sale.payment.payment_intent, inquiry=True)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=19_00, left=60_00 - 19_00)


def test_a_refund_that_never_arrived_is_not_sent_again_on_a_charge_disputed_meanwhile(desk: Desk) -> None:
    """Its absence is proven, and right before the same request goes again the disputes are read."""
    sale = desk.sold(19_00, 41_00)
    one = desk.approved(sale, ("L1", 1))
    desk.sandbox.fault("lose_before", charge=one.charge_ref, method="POST")
    assert desk.send() == {"claimed": 1, "unknown": 1}
    desk.sandbox.open_dispute(sale.payment.payment_intent, inquiry=True)
    as_administrator(desk.stack, "UPDATE account_readings SET read_at = NULL")
    as_administrator(desk.stack, "UPDATE attempt_results SET at = at - interval '1 hour'")
    assert desk.look()["absent"] == 1
    assert (desk.state(one), desk.reason(one), len(desk.calls())) == ("needs_review", "disputed", 1)
    assert (desk.refunds_there(sale), desk.books(sale).reserved) == ([], 19_00)


@pytest.mark.parametrize("fault", ["error_503", "lose_before", "garbage_200", "forbidden"])
def test_nothing_is_sent_while_the_disputes_cannot_be_read(desk: Desk, fault: str) -> None:
    sale = desk.sold(19_00, 41_00)
    one = desk.approved(sale, ("L1", 1))
    desk.sandbox.fault(fault, path="/v1/disputes", count=2)
    assert (desk.send(), desk.calls()) == ({"disputes_unread": 1}, [])
    as_administrator(desk.stack, "UPDATE account_readings SET failing_since = now() - interval '2 minutes'")
    again = {} if fault == "forbidden" else {"disputes_unread": 1}
    assert (desk.send(), desk.calls(), desk.state(one)) == (again, [], "approved")
    said = ["submitter_stopped"] if fault == "forbidden" else ["disputes_unread"]
    as_administrator(desk.stack, "UPDATE merchant_brakes SET stopped_at = NULL, stopped_reason = NULL")
    desk.sandbox.drop_faults()
    # What does not answer is let be for a while, at most five minutes.
    assert desk.send() == {}
    as_administrator(desk.stack, "UPDATE account_readings SET let_be_until = let_be_until - interval '5 minutes'")
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=19_00, left=60_00 - 19_00, said=said)


def test_a_thousand_refunds_cost_one_reading_of_the_disputes(desk: Desk) -> None:
    """Not one for each: here two batches of claims inside the two seconds that a reading holds."""
    for _ in range(3):
        desk.approved(desk.sold(5_00, 5_00), ("L1", 1))
    desk.sandbox.clear_requests()
    assert desk.send() == {"claimed": 3, "confirmed": 3}
    desk.approved(desk.sold(5_00, 5_00), ("L1", 1))
    as_administrator(desk.stack, "UPDATE account_readings SET read_at = now() + interval '1 hour'")
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    assert len(desk.calls("GET", "/v1/disputes")) == 1
