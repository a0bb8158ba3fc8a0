"""Each fault does what it says, to whom it is meant for, as often as asked, and the money listing tells the truth."""

import threading
import time
from typing import Any

import pytest
import requests
import stripe

from sandbox.client import Running, SandboxRefusedError
from tests.sandbox.shop import SPEC, CheckedClient, Shop, refused, stripe_client, word
from tests.sandbox.spec import ABSENT


def counts(sandbox: Running, payment: Any) -> tuple[int, int]:
    held = sandbox.money(payment.id)
    return held["refund_count"], held["refunded"]


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_lost_reply_leaves_the_refund_and_the_same_key_finds_it(rough: Shop, sandbox: Running, reset: bool) -> None:
    payment = rough.pay()
    sandbox.fault("lose_reply", path="/v1/refunds", reset=reset)
    error = refused(rough.refund, payment, 100, "k")
    assert isinstance(error, stripe.APIConnectionError)
    assert (error.http_status, counts(sandbox, payment)) == (None, (1, 100))
    assert rough.refund(payment, 100, "k").id == sandbox.money(payment.id)["refunds"][0]["id"]
    assert counts(sandbox, payment) == (1, 100)


def test_a_call_lost_before_acting_leaves_nothing(rough: Shop, sandbox: Running) -> None:
    payment = rough.pay()
    sandbox.fault("lose_before", path="/v1/refunds")
    assert isinstance(refused(rough.refund, payment, 100, "k"), stripe.APIConnectionError)
    assert counts(sandbox, payment) == (0, 0)
    rough.refund(payment, 100, "k")
    assert counts(sandbox, payment) == (1, 100)


def test_a_reply_that_comes_too_late_is_a_time_out_and_the_refund_exists(sandbox: Running, rough: Shop) -> None:
    payment = rough.pay()
    impatient = Shop(stripe_client(sandbox.base_url, sandbox.secret_key, CheckedClient(read_seconds=0.3)), sandbox)
    sandbox.fault("delay_after", ms=700, path="/v1/refunds")
    assert isinstance(refused(impatient.refund, payment, 100, "k"), stripe.APIConnectionError)
    assert counts(sandbox, payment) == (1, 100)


def test_a_call_may_be_made_slow(rough: Shop, sandbox: Running) -> None:
    payment = rough.pay()
    sandbox.fault("delay_before", ms=300, method="GET", path="/v1/charges/")
    begun = time.monotonic()
    rough.v1.charges.retrieve(payment.latest_charge)
    assert time.monotonic() - begun >= 0.3


def test_a_body_cut_short_is_no_answer(rough: Shop, sandbox: Running) -> None:
    payment = rough.pay()
    sandbox.fault("truncated_body", path="/v1/refunds")
    error = refused(rough.refund, payment, 100)
    assert isinstance(error, stripe.APIConnectionError)
    assert counts(sandbox, payment) == (1, 100)


def test_garbage_under_200_is_no_answer(rough: Shop, sandbox: Running) -> None:
    payment = rough.pay()
    sandbox.fault("garbage_200", path="/v1/refunds")
    error = refused(rough.refund, payment, 100)
    assert (type(error), error.http_status, error.error) == (stripe.APIError, 200, None)
    assert counts(sandbox, payment) == (1, 100)


def test_an_answer_may_name_another_amount(rough: Shop, sandbox: Running) -> None:
    payment = rough.pay()
    sandbox.fault("wrong_amount", path="/v1/refunds")
    assert rough.refund(payment, 100).amount == 101
    sandbox.fault("wrong_answer", path="/v1/refunds", fields={"currency": "usd", "metadata": {"intent": "another"}})
    wrong = rough.refund(payment, 100)
    assert (wrong.currency, wrong.metadata["intent"]) == ("usd", "another")
    assert counts(sandbox, payment) == (2, 200)


def test_a_wrong_answer_does_not_get_past_the_check_of_these_tests(sandbox: Running) -> None:
    if SPEC is None:
        pytest.skip(ABSENT)
    transport = CheckedClient()
    shop = Shop(stripe_client(sandbox.base_url, sandbox.secret_key, transport), sandbox)
    payment = shop.pay()
    sandbox.fault("wrong_answer", path="/v1/refunds", fields={"amount": "much"})
    shop.refund(payment, 100)
    assert transport.problems == ["post /v1/refunds 200: amount: str is not integer"]


def test_an_endless_answer_comes_in_pieces(sandbox: Running) -> None:
    payment = sandbox.create_payment(1000)
    sandbox.fault("huge_body", method="GET", bytes=5_000_000)
    address = f"{sandbox.base_url}/v1/payment_intents/{payment['payment_intent']}"
    headers = {"Authorization": f"Bearer {sandbox.secret_key}"}
    with requests.get(address, headers=headers, stream=True, timeout=10) as answer:
        assert int(answer.headers["Content-Length"]) > 5_000_000
        assert sum(len(piece) for piece in answer.iter_content(65536)) > 5_000_000


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_is_not_followed(rough: Shop, sandbox: Running, status: int) -> None:
    payment = rough.pay()
    sandbox.fault("redirect", path="/v1/refunds", status=status, location=f"{sandbox.base_url}/v1/account")
    error = refused(rough.refund, payment, 100, "k")
    assert isinstance(error, stripe.APIConnectionError)
    assert [call["path"] for call in sandbox.requests()] == ["/v1/payment_intents", "/v1/refunds"]
    assert counts(sandbox, payment) == (0, 0)


@pytest.mark.parametrize(
    ("fault", "kind", "status", "code"),
    [
        ("unauthorized", stripe.AuthenticationError, 401, None),
        ("forbidden", stripe.PermissionError, 403, None),
        ("rate_limit", stripe.RateLimitError, 429, "rate_limit"),
        ("lock_timeout", stripe.RateLimitError, 429, "lock_timeout"),
        ("in_use", stripe.APIError, 409, "idempotency_key_in_use"),
        ("error_503", stripe.APIError, 503, None),
        ("error_500_before", stripe.APIError, 500, None),
    ],
)
def test_an_error_asked_for_is_answered_and_nothing_is_done(
    shop: Shop, sandbox: Running, fault: str, kind: type[stripe.StripeError], status: int, code: str | None
) -> None:
    payment = shop.pay()
    sandbox.fault(fault, path="/v1/refunds")
    error = refused(shop.refund, payment, 100)
    assert (type(error), error.http_status, word(error, "code")) == (kind, status, code)
    limited = "Stripe-Rate-Limited-Reason" in (error.headers or {})
    assert limited == (fault == "rate_limit")
    assert counts(sandbox, payment) == (0, 0)


def test_a_read_may_fail_too(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("error_500_before", method="GET", path="/v1/refunds")
    error = refused(shop.v1.refunds.list, {"payment_intent": payment.id})
    assert error.http_status == 500
    assert shop.v1.refunds.list({"payment_intent": payment.id}).data == []


def test_a_fault_waits_for_its_call_and_is_used_up(shop: Shop, sandbox: Running) -> None:
    one, other = shop.pay(), shop.pay()
    sandbox.fault("error_503", method="POST", path="/v1/refunds", payment_intent=one.id, count=2, skip=1)
    assert shop.v1.refunds.list({"payment_intent": one.id}).data == []
    shop.refund(other, 10)
    shop.refund(one, 10)
    for _ in range(2):
        assert refused(shop.refund, one, 10).http_status == 503
    assert shop.refund(one, 10).amount == 10
    assert sandbox.faults() == []


def test_a_fault_for_a_payment_meets_calls_that_name_its_charge_or_refund(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    refund = shop.refund(payment, 10)
    sandbox.fault("error_503", payment_intent=payment.id, count=3)
    assert refused(shop.v1.refunds.create, {"charge": payment.latest_charge}).http_status == 503
    assert refused(shop.v1.refunds.retrieve, refund.id).http_status == 503
    assert refused(shop.v1.payment_intents.retrieve, payment.id).http_status == 503


def test_a_fault_for_one_account_leaves_another_alone(shop: Shop, sandbox: Running) -> None:
    other = Shop(stripe_client(sandbox.base_url, "sk_test_other", CheckedClient()), sandbox)
    sandbox.fault("error_503", account="sk_test_other", path="/v1/payment_intents")
    assert shop.pay().status == "succeeded"
    assert refused(other.pay).http_status == 503


def test_two_faults_of_different_stages_meet_in_one_call(rough: Shop, sandbox: Running) -> None:
    payment = rough.pay()
    sandbox.fault("refund_pending", path="/v1/refunds")
    sandbox.fault("lose_reply", path="/v1/refunds")
    assert isinstance(refused(rough.refund, payment, 100), stripe.APIConnectionError)
    assert sandbox.money(payment.id)["refunds"][0]["status"] == "pending"


def test_a_charge_held_by_one_call_times_out_for_another(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.settings(lock_wait_seconds=0.05)
    sandbox.fault("delay_holding", ms=1000, path="/v1/refunds")
    slow = threading.Thread(target=shop.refund, args=(payment, 10))
    slow.start()
    while sandbox.faults():
        pass
    error = refused(shop.refund, payment, 20, "k")
    assert (error.http_status, word(error, "code")) == (429, "lock_timeout")
    assert shop.refund(shop.pay(), 20).amount == 20
    slow.join()
    assert shop.refund(payment, 20, "k").amount == 20
    assert counts(sandbox, payment) == (2, 30)


def test_an_unknown_fault_is_refused_with_the_known_ones(sandbox: Running) -> None:
    with pytest.raises(SandboxRefusedError, match="kind is one of lose_before"):
        sandbox.fault("lose_everything")


def test_a_call_that_came_before_the_fault_does_not_meet_it(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("delay_after", ms=500, path="/v1/refunds")
    amounts: list[int] = []
    slow = threading.Thread(target=lambda: amounts.append(shop.refund(payment, 10).amount))
    slow.start()
    while sandbox.faults():
        pass
    sandbox.fault("wrong_amount", path="/v1/refunds")
    slow.join()
    assert (amounts, shop.refund(payment, 20).amount) == ([10], 21)


def test_faults_can_be_dropped(shop: Shop, sandbox: Running) -> None:
    sandbox.fault("error_503", count=5)
    sandbox.drop_faults()
    assert shop.pay().status == "succeeded"


def test_an_account_may_be_held_to_a_rate(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.settings(refunds_per_second=3)
    for _ in range(3):
        shop.refund(payment, 1)
    error = refused(shop.refund, payment, 1, "k")
    assert (error.http_status, (error.headers or {})["Stripe-Rate-Limited-Reason"]) == (429, "endpoint-rate")
    sandbox.settings(refunds_per_second=0)
    assert shop.refund(payment, 1, "k").amount == 1
