"""What the gateway may rely on, tried through Stripe's SDK: at the sandbox, and at Stripe with STRIPE_API_KEY set."""

import time
from typing import Any
from uuid import uuid4

import pytest
import stripe

from tests.sandbox.shop import SPEC, Shop, refused, stripe_key, word
from tests.sandbox.spec import ABSENT

PAID_BACK = ("succeeded", "pending")  # Stripe holds a refund when the test account's balance is low


def fresh() -> str:
    return f"onceback-contract-{uuid4()}"


def test_the_specification_is_at_hand_and_finds_a_wrong_answer() -> None:
    if SPEC is None:
        pytest.skip(ABSENT)
    refund = {"id": "re_1", "object": "refund", "amount": "100", "currency": "gbp", "created": 1, "colour": "red"}
    assert SPEC.answer_problems("POST", "/v1/refunds", 200, refund) == [
        "amount: str is not integer",
        "colour: is not in the document",
    ]
    assert SPEC.request_problems("POST", "/v1/refunds", "amount=ten&weight=3") == [
        "amount: 'ten' is no integer",
        "weight: is not taken",
    ]


@pytest.mark.skipif(bool(stripe_key()), reason="the tests below run at Stripe too")
def test_the_contract_is_also_tried_at_stripe() -> None:
    pytest.skip("set STRIPE_API_KEY to a test key (sk_test_…) to run the tests below at Stripe itself too")


def test_a_confirmed_payment_is_paid_at_once(anywhere: Shop) -> None:
    payment = anywhere.pay(2599, "usd", metadata={"order": "R-1"}, expand=["latest_charge"])
    assert (payment.status, payment.amount_received, payment.metadata["order"]) == ("succeeded", 2599, "R-1")
    charge = payment.latest_charge
    assert (charge.paid, charge.captured, charge.amount_captured, charge.amount_refunded) == (True, True, 2599, 0)
    assert (charge.payment_method_details.card.brand, charge.payment_method_details.card.last4) == ("visa", "4242")
    assert anywhere.v1.payment_intents.retrieve(payment.id).latest_charge == charge.id


def test_a_partial_refund_carries_our_reference_and_leaves_the_rest(anywhere: Shop) -> None:
    payment = anywhere.pay(1000)
    refund = anywhere.refund(payment, 300, reason="requested_by_customer", metadata={"intent": "I-1"})
    assert refund.status in PAID_BACK
    assert (refund.amount, refund.currency, refund.charge) == (300, "gbp", payment.latest_charge)
    assert (refund.payment_intent, refund.metadata["intent"]) == (payment.id, "I-1")
    charge = anywhere.v1.charges.retrieve(payment.latest_charge)
    assert (charge.amount_refunded, charge.refunded) == (300, False)


def test_a_refund_without_an_amount_is_the_whole_rest(anywhere: Shop) -> None:
    payment = anywhere.pay(1000)
    anywhere.refund(payment, 300)
    assert anywhere.refund(payment).amount == 700
    assert anywhere.v1.charges.retrieve(payment.latest_charge).refunded is True


def test_two_equal_refunds_under_two_keys_are_two_refunds(anywhere: Shop) -> None:
    payment = anywhere.pay(1000)
    first, second = (anywhere.refund(payment, 400, fresh()) for _ in range(2))
    assert first.id != second.id
    assert len(anywhere.v1.refunds.list({"payment_intent": payment.id}).data) == 2


def test_refunds_are_listed_newest_first_in_pages(anywhere: Shop) -> None:
    payment = anywhere.pay(1000)
    made = [anywhere.refund(payment, amount).id for amount in (100, 200, 300)]
    of_payment = {"payment_intent": payment.id, "limit": 2}
    first = anywhere.v1.refunds.list(of_payment)
    assert ([one.id for one in first.data], first.has_more) == ([made[2], made[1]], True)
    second = anywhere.v1.refunds.list({**of_payment, "starting_after": made[1]})
    assert ([one.id for one in second.data], second.has_more) == ([made[0]], False)
    before = anywhere.v1.refunds.list({**of_payment, "ending_before": made[0]})
    assert [one.id for one in before.data] == [made[2], made[1]]
    assert [one.id for one in first.auto_paging_iter()] == made[::-1]
    of_charge = anywhere.v1.refunds.list({"charge": payment.latest_charge, "created": {"gte": payment.created}})
    assert len(of_charge.data) == 3
    assert anywhere.v1.refunds.list({**of_payment, "created": {"lt": payment.created - 10}}).data == []


def test_a_list_for_an_unknown_charge_is_an_error(anywhere: Shop) -> None:
    error = refused(anywhere.v1.refunds.list, {"charge": "ch_3unknown"})
    assert (error.http_status, error.code) in ((404, "resource_missing"), (400, "resource_missing"))


def test_only_metadata_of_a_refund_changes(anywhere: Shop) -> None:
    payment = anywhere.pay()
    refund = anywhere.refund(payment, 100, metadata={"intent": "I-2", "desk": "north"})
    changed = anywhere.v1.refunds.update(refund.id, {"metadata": {"desk": "", "case": "C-7"}})
    assert changed.metadata.to_dict() == {"intent": "I-2", "case": "C-7"}
    assert anywhere.v1.refunds.retrieve(refund.id).metadata.to_dict() == {"intent": "I-2", "case": "C-7"}
    error = refused(anywhere.v1.refunds.update, refund.id, {"amount": 5})
    assert (error.http_status, error.code) == (400, "parameter_unknown")


# What is asked, given a payment of 1000 of which 400 is refunded → HTTP status, code, param, how the message begins.
REFUSALS: list[tuple[str, dict[str, Any], tuple[int, str | None, str | None, str]]] = [
    ("more than the rest", {"amount": 601}, (400, None, "amount", "Refund amount (")),
    ("nothing", {"amount": 0}, (400, "parameter_invalid_integer", "amount", "This value must be greater")),
    ("less than nothing", {"amount": -1}, (400, "parameter_invalid_integer", "amount", "This value must be greater")),
    ("a word for an amount", {"amount": "ten"}, (400, "parameter_invalid_integer", "amount", "Invalid integer: ten")),
    ("another reason", {"reason": "changed_mind"}, (400, None, "reason", "Invalid reason: must be one of ")),
    ("an unknown parameter", {"speed": "high"}, (400, "parameter_unknown", "speed", "Received unknown parameter")),
    (
        "an unknown payment",
        {"payment_intent": "pi_3unknown"},
        (404, "resource_missing", "payment_intent", "No such payment_intent"),
    ),
    (
        "an unknown charge",
        {"payment_intent": None, "charge": "ch_3unknown"},
        (404, "resource_missing", "id", "No such charge: 'ch_3unknown'"),
    ),
    ("nothing named", {"payment_intent": None}, (400, None, None, "One of the following params should be provided")),
]


@pytest.mark.parametrize(("params", "answer"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_a_refund_is_refused_in_the_words_of_stripe(
    anywhere: Shop, params: dict[str, Any], answer: tuple[int, str | None, str | None, str]
) -> None:
    payment = anywhere.pay(1000)
    anywhere.refund(payment, 400)
    wanted = {name: value for name, value in ({"payment_intent": payment.id} | params).items() if value is not None}
    error = refused(anywhere.v1.refunds.create, wanted)
    status, code, param, begin = answer
    assert isinstance(error, stripe.InvalidRequestError)
    assert (error.http_status, word(error, "code"), word(error, "param")) == (status, code, param)
    assert str(word(error, "message")).startswith(begin)
    assert len(anywhere.v1.refunds.list({"payment_intent": payment.id}).data) == 1


def test_a_charge_paid_back_in_full_is_refused(anywhere: Shop) -> None:
    payment = anywhere.pay()
    anywhere.refund(payment)
    error = refused(anywhere.refund, payment, 1)
    assert (error.http_status, error.code) == (400, "charge_already_refunded")
    assert f"Charge {payment.latest_charge} has already been refunded." in str(error.user_message)


def test_the_same_key_gives_the_first_result_again(anywhere: Shop) -> None:
    payment, key = anywhere.pay(), fresh()
    first = anywhere.refund(payment, 100, key, metadata={"intent": "I-3"})
    again = anywhere.refund(payment, 100, key, metadata={"intent": "I-3"})
    assert again.id == first.id
    assert again.last_response.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.last_response.headers
    assert again.last_response.headers["Idempotency-Key"] == key
    assert len(anywhere.v1.refunds.list({"payment_intent": payment.id}).data) == 1


def test_the_same_key_with_other_parameters_is_refused(anywhere: Shop) -> None:
    payment, key = anywhere.pay(), fresh()
    anywhere.refund(payment, 100, key)
    error = refused(anywhere.refund, payment, 101, key)
    assert isinstance(error, stripe.IdempotencyError)
    assert (error.http_status, word(error, "type"), word(error, "code")) == (400, "idempotency_error", None)


def test_a_refusal_that_was_executed_is_kept_though_its_cause_is_gone(anywhere: Shop) -> None:
    held, key = anywhere.pay(500, capture_method="manual"), fresh()
    assert refused(anywhere.refund, held, 100, key).http_status == 400
    anywhere.v1.payment_intents.capture(held.id)
    again = refused(anywhere.refund, held, 100, key)
    assert (again.http_status, (again.headers or {})["Idempotent-Replayed"]) == (400, "true")
    assert anywhere.refund(held, 100, fresh()).amount == 100


def test_what_was_not_captured_is_voided_and_not_refunded(anywhere: Shop) -> None:
    held = anywhere.pay(800, capture_method="manual")
    assert (held.status, held.amount_capturable, held.amount_received) == ("requires_capture", 800, 0)
    error = refused(anywhere.refund, held)
    assert (error.http_status, word(error, "code")) == (400, None)
    assert str(word(error, "message")).startswith(f"This uncaptured Charge was created by a PaymentIntent ({held.id}).")
    voided = anywhere.v1.payment_intents.cancel(held.id, {"cancellation_reason": "requested_by_customer"})
    assert (voided.status, voided.cancellation_reason) == ("canceled", "requested_by_customer")
    assert anywhere.v1.refunds.list({"payment_intent": held.id}).data == []


def test_after_a_partial_capture_only_what_was_captured_can_come_back(anywhere: Shop) -> None:
    held = anywhere.pay(1000, capture_method="manual")
    taken = anywhere.v1.payment_intents.capture(held.id, {"amount_to_capture": 600})
    assert (taken.status, taken.amount_received) == ("succeeded", 600)
    assert word(refused(anywhere.refund, held, 601), "param") == "amount"
    assert anywhere.refund(held).amount == 600


def test_a_paid_payment_cannot_be_voided(anywhere: Shop) -> None:
    payment = anywhere.pay()
    error = refused(anywhere.v1.payment_intents.cancel, payment.id)
    assert (error.http_status, error.code) == (400, "payment_intent_unexpected_state")
    assert word(error, "payment_intent")["id"] == payment.id


def test_a_payment_never_confirmed_has_nothing_to_refund(anywhere: Shop) -> None:
    payment = anywhere.v1.payment_intents.create({"amount": 700, "currency": "eur", "payment_method_types": ["card"]})
    assert payment.status == "requires_payment_method"
    error = refused(anywhere.refund, payment)
    message = f"This PaymentIntent ({payment.id}) does not have a successful charge to refund."
    assert (error.http_status, word(error, "message")) == (400, message)
    paid = anywhere.v1.payment_intents.confirm(payment.id, {"payment_method": "pm_card_visa"})
    assert (paid.status, anywhere.refund(paid).amount) == ("succeeded", 700)


def test_a_declined_card_is_402(anywhere: Shop) -> None:
    error = refused(anywhere.pay, 900, payment_method="pm_card_chargeDeclined")
    assert isinstance(error, stripe.CardError)
    assert (error.http_status, error.code) == (402, "card_declined")


def test_a_settled_refund_is_not_canceled_by_the_interface(anywhere: Shop) -> None:
    refund = anywhere.refund(anywhere.pay(), 100)
    error = refused(anywhere.v1.refunds.cancel, refund.id)
    assert (error.http_status, word(error, "message")) == (400, "Canceling this refund is unsupported.")


def test_objects_named_in_an_answer_can_be_expanded(anywhere: Shop) -> None:
    refund = anywhere.refund(anywhere.pay(), 100, expand=["charge", "payment_intent"])
    assert (refund.charge.object, refund.payment_intent.object) == ("charge", "payment_intent")
    listed = anywhere.v1.refunds.list({"payment_intent": refund.payment_intent.id, "expand": ["data.charge"]})
    assert listed.data[0].charge.amount_refunded == 100
    charge = anywhere.v1.charges.retrieve(refund.charge.id, {"expand": ["refunds"]})
    assert [one.id for one in charge.refunds.data] == [refund.id]


def test_the_event_of_a_refund_names_the_key_it_was_made_with(anywhere: Shop) -> None:
    payment, key = anywhere.pay(), fresh()
    refund = anywhere.refund(payment, 100, key)
    mine: list[Any] = []
    for _ in range(20):
        events = anywhere.v1.events.list({"type": "refund.created", "limit": 20}).data
        mine = [event for event in events if event.data.object["id"] == refund.id]
        if mine:
            break
        time.sleep(0.5)
    assert mine[0].request.idempotency_key == key
    assert anywhere.v1.events.retrieve(mine[0].id).data.object["amount"] == 100


def test_the_balance_shows_a_refund_under_its_id(anywhere: Shop) -> None:
    refund = anywhere.refund(anywhere.pay(1000), 250)
    if refund.status == "pending":
        pytest.skip("the test account's balance is too low: a pending refund has no balance transaction yet")
    moves = anywhere.v1.balance_transactions.list({"source": refund.id}).data
    assert [(move.type, move.amount) for move in moves] == [("refund", -250)]
    assert anywhere.v1.balance_transactions.retrieve(refund.balance_transaction).source == refund.id
    assert anywhere.v1.balance.retrieve().livemode is False


def test_payments_charges_and_disputes_are_listed(anywhere: Shop) -> None:
    payment = anywhere.pay()
    assert payment.id in [one.id for one in anywhere.v1.payment_intents.list({"limit": 5}).data]
    charges = anywhere.v1.charges.list({"payment_intent": payment.id}).data
    assert [one.id for one in charges] == [payment.latest_charge]
    assert anywhere.v1.disputes.list({"payment_intent": payment.id}).data == []


def test_every_answer_names_its_request_and_version(anywhere: Shop) -> None:
    headers = anywhere.v1.charges.retrieve(anywhere.pay().latest_charge).last_response.headers
    assert headers["Request-Id"].startswith("req_")
    assert headers["Stripe-Version"] == "2026-10-28.endive"
