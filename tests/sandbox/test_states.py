"""What happens to refunds and payments at the provider without us, and how the interface shows it."""

import time
from typing import Any

import pytest

from sandbox.client import Running, SandboxRefusedError
from tests.sandbox.shop import Shop, refused, word


def kinds(shop: Shop, thing: str) -> list[str]:
    """Types of the events about an object, oldest first."""
    events = shop.v1.events.list({"limit": 100}).data
    return [event.type for event in reversed(events) if event.data.object["id"] == thing]


def amounts_back(shop: Shop, payment: Any) -> int:
    return int(shop.v1.charges.retrieve(payment.latest_charge).amount_refunded)


def test_a_pending_refund_settles(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("refund_pending", pending_reason="charge_pending")
    refund = shop.refund(payment, 100)
    assert (refund.status, refund.pending_reason, refund.balance_transaction) == ("pending", "charge_pending", None)
    sandbox.change_refund(refund.id, "succeeded")
    settled = shop.v1.refunds.retrieve(refund.id)
    assert (settled.status, "pending_reason" in settled) == ("succeeded", False)
    assert settled.balance_transaction.startswith("txn_")
    assert kinds(shop, refund.id) == ["refund.created", "refund.updated", "charge.refund.updated"]


def test_a_pending_refund_fails_and_the_money_can_be_asked_for_again(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay(1000)
    sandbox.fault("insufficient_balance")
    refund = shop.refund(payment)
    assert (refund.status, refund.pending_reason) == ("pending", "insufficient_funds")
    assert refused(shop.refund, payment, 1).code == "charge_already_refunded"
    sandbox.change_refund(refund.id, "failed", "insufficient_funds")
    assert shop.v1.refunds.retrieve(refund.id).failure_reason == "insufficient_funds"
    assert shop.refund(payment).amount == 1000


def test_a_balance_far_too_low_refuses(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("insufficient_balance", refuse=True)
    error = refused(shop.refund, payment, 100)
    assert (error.http_status, word(error, "code")) == (400, None)
    assert word(error, "message") == "Insufficient funds in your Stripe balance to refund this amount."


def test_a_refund_that_waits_for_the_customer_can_be_canceled(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("refund_requires_action")
    refund = shop.refund(payment, 100, instructions_email="ilse@example.com")
    assert (refund.status, refund.next_action.type) == ("requires_action", "display_details")
    assert shop.v1.refunds.cancel(refund.id).status == "canceled"
    assert amounts_back(shop, payment) == 0


def test_a_refund_may_fail_at_once(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("refund_fails", failure_reason="lost_or_stolen_card")
    refund = shop.refund(payment, 100)
    assert (refund.status, refund.failure_reason) == ("failed", "lost_or_stolen_card")
    assert kinds(shop, refund.id) == ["refund.created", "refund.failed"]
    assert sandbox.money(payment.id)["refunded"] == 0


def test_a_succeeded_refund_may_fail_late(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay(1000)
    refund = shop.refund(payment, 400)
    sandbox.change_refund(refund.id, "failed", "expired_or_canceled_card")
    late = shop.v1.refunds.retrieve(refund.id)
    assert (late.status, late.failure_reason) == ("failed", "expired_or_canceled_card")
    back = shop.v1.balance_transactions.retrieve(late.failure_balance_transaction)
    assert (back.type, back.amount) == ("refund_failure", 400)
    assert amounts_back(shop, payment) == 0
    assert kinds(shop, refund.id)[-3:] == ["refund.updated", "charge.refund.updated", "refund.failed"]
    with pytest.raises(SandboxRefusedError, match="failed does not become succeeded"):
        sandbox.change_refund(refund.id, "succeeded")


def test_a_late_failure_comes_when_its_time_does(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("refund_fails_late", after_seconds=30 * 86400, failure_reason="declined")
    refund = shop.refund(payment, 100)
    assert refund.status == "succeeded"
    sandbox.advance(29 * 86400)
    assert shop.v1.refunds.retrieve(refund.id).status == "succeeded"
    sandbox.advance(86400)
    assert shop.v1.refunds.retrieve(refund.id).failure_reason == "declined"


def test_a_refund_settles_when_its_time_comes(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("refund_settles_late", after_seconds=5)
    refund = shop.refund(payment, 100)
    assert refund.status == "pending"
    sandbox.advance(5)
    assert shop.v1.refunds.retrieve(refund.id).status == "succeeded"


@pytest.mark.parametrize(
    ("card", "before", "after"),
    [("pm_card_refundFail", "succeeded", "failed"), ("pm_card_pendingRefund", "pending", "succeeded")],
)
def test_stripes_test_cards_behave_as_stripe_says(
    shop: Shop, sandbox: Running, card: str, before: str, after: str
) -> None:
    refund = shop.refund(shop.pay(payment_method=card), 100)
    assert refund.status == before
    sandbox.advance(10)
    assert shop.v1.refunds.retrieve(refund.id).status == after


def test_a_refund_made_at_the_dashboard_carries_nothing_of_ours(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay(1000)
    made = sandbox.dashboard_refund(payment.id, 250)
    listed = shop.v1.refunds.list({"payment_intent": payment.id}).data
    assert [(one.id, one.amount, one.metadata.to_dict()) for one in listed] == [(made["id"], 250, {})]
    event = next(one for one in shop.v1.events.list({"type": "refund.created"}).data)
    assert (event.request.id, event.request.idempotency_key) == (None, None)
    assert sandbox.money(payment.id)["refunds"][0]["origin"] == "dashboard"
    with pytest.raises(SandboxRefusedError, match="greater than unrefunded amount"):
        sandbox.dashboard_refund(payment.id, 751)


def test_a_refund_canceled_at_the_dashboard_gives_the_money_back(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    refund = shop.refund(payment, 100)
    sandbox.change_refund(refund.id, "canceled")
    canceled = shop.v1.refunds.retrieve(refund.id)
    assert (canceled.status, canceled.failure_reason) == ("canceled", "merchant_request")
    assert amounts_back(shop, payment) == 0


def test_a_formal_dispute_stops_refunds_until_it_is_won(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    opened = sandbox.open_dispute(payment.id, reason="product_not_received")
    dispute = shop.v1.disputes.list({"payment_intent": payment.id}).data[0]
    assert (dispute.id, dispute.status, dispute.is_charge_refundable) == (opened["id"], "needs_response", False)
    assert shop.v1.charges.retrieve(payment.latest_charge).disputed is True
    error = refused(shop.refund, payment, 100)
    assert (error.http_status, error.code) == (400, "charge_disputed")
    sandbox.close_dispute(dispute.id, "won")
    assert shop.v1.disputes.retrieve(dispute.id).status == "won"
    assert shop.refund(payment, 100).amount == 100
    about = kinds(shop, dispute.id)
    assert about[:2] == ["charge.dispute.created", "charge.dispute.funds_withdrawn"]
    assert about[2:] == ["charge.dispute.funds_reinstated", "charge.dispute.closed"]


def test_a_lost_dispute_stops_refunds_for_good(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay(payment_method="pm_card_createDispute")
    dispute = shop.v1.disputes.list({"charge": payment.latest_charge}).data[0]
    sandbox.close_dispute(dispute.id, "lost")
    assert refused(shop.refund, payment).code == "charge_disputed"
    with pytest.raises(SandboxRefusedError, match="that is lost does not end as won"):
        sandbox.close_dispute(dispute.id, "won")


def test_an_inquiry_leaves_refunds_possible(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    inquiry = sandbox.open_dispute(payment.id, inquiry=True)
    assert (inquiry["status"], inquiry["is_charge_refundable"]) == ("warning_needs_response", True)
    assert inquiry["balance_transactions"] == []
    assert shop.refund(payment).status == "succeeded"
    assert sandbox.close_dispute(inquiry["id"], "warning_closed")["status"] == "warning_closed"


def test_an_inquiry_that_nobody_answers_becomes_a_formal_dispute_of_the_same_id(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    inquiry = sandbox.open_dispute(payment.id, inquiry=True)
    formal = sandbox.escalate_dispute(inquiry["id"])
    assert (formal["id"], formal["status"], formal["is_charge_refundable"]) == (inquiry["id"], "needs_response", False)
    assert [move["amount"] for move in formal["balance_transactions"]] == [-inquiry["amount"]]
    assert refused(shop.refund, payment, 100).code == "charge_disputed"
    told = ["charge.dispute.created", "charge.dispute.updated", "charge.dispute.funds_withdrawn"]
    assert kinds(shop, inquiry["id"]) == told
    with pytest.raises(SandboxRefusedError, match="that is needs_response is no open inquiry"):
        sandbox.escalate_dispute(inquiry["id"])


def test_a_new_refund_may_be_missing_from_lists_for_a_while(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("list_lag", seconds=30)
    refund = shop.refund(payment, 100)
    of_payment = {"payment_intent": payment.id}
    assert shop.v1.refunds.list(of_payment).data == []
    assert shop.v1.refunds.retrieve(refund.id).status == "succeeded"
    assert sandbox.money(payment.id)["refunded"] == 100
    sandbox.advance(31)
    assert [one.id for one in shop.v1.refunds.list(of_payment).data] == [refund.id]


def test_the_lag_of_lists_may_be_set_for_all(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.settings(list_lag_seconds=5)
    shop.refund(payment, 100)
    assert shop.v1.refunds.list({"payment_intent": payment.id}).data == []
    sandbox.advance(6)
    assert len(shop.v1.refunds.list({"payment_intent": payment.id}).data) == 1


@pytest.mark.parametrize(
    ("currency", "amount", "possible"),
    [("jpy", 1, True), ("kwd", 5125, False), ("kwd", 5120, True), ("ugx", 550, False), ("ugx", 500, True)],
)
def test_amounts_keep_to_the_grain_of_their_currency(shop: Shop, currency: str, amount: int, possible: bool) -> None:
    payment = shop.pay(10_000, currency)
    if possible:
        assert shop.refund(payment, amount).amount == amount
    else:
        assert word(refused(shop.refund, payment, amount), "param") == "amount"


def test_events_older_than_thirty_days_are_gone(shop: Shop, sandbox: Running) -> None:
    shop.pay()
    assert shop.v1.events.list().data != []
    sandbox.advance(31 * 86400)
    assert shop.v1.events.list().data == []


def test_the_clock_can_be_set(sandbox: Running) -> None:
    began = time.monotonic()

    def is_about(told: float, wanted: float) -> bool:
        return abs(told - wanted) <= time.monotonic() - began + 1

    assert is_about(sandbox.set_clock(1_900_000_000), 1_900_000_000)
    assert is_about(sandbox.advance(-3600), 1_899_996_400)
    sandbox.reset()
    assert is_about(sandbox.now(), time.time())
