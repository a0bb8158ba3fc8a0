"""Each row of the idempotency table (STRIPE.md §3), at the sandbox."""

import threading
from typing import Any

import pytest
import stripe

from sandbox.client import Running
from tests.sandbox.shop import CheckedClient, Shop, refused, stripe_client, word

DAY_SECONDS = 24 * 3600


def replayed(thing: Any) -> bool:
    headers = thing.headers if isinstance(thing, stripe.StripeError) else thing.last_response.headers
    return (headers or {}).get("Idempotent-Replayed") == "true"


def test_eight_calls_released_at_once_with_one_key_make_one_refund(sandbox: Running) -> None:
    payment = sandbox.create_payment(1000)
    callers = 8
    for round_ in range(20):
        start = threading.Barrier(callers)
        outcomes: list[str] = []

        def call(start: threading.Barrier = start, key: str = f"race-{round_}", outcomes: list[str] = outcomes) -> None:
            client = stripe_client(sandbox.base_url, sandbox.secret_key, CheckedClient())
            start.wait()
            try:
                params = {"payment_intent": payment["payment_intent"], "amount": 10}
                outcomes.append(client.v1.refunds.create(params, {"idempotency_key": key}).id)  # type: ignore[arg-type]
            except stripe.StripeError as error:
                outcomes.append(f"{error.http_status} {word(error, 'code')}")

        threads = [threading.Thread(target=call) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == callers
        assert len({outcome for outcome in outcomes if outcome.startswith("re_")}) == 1
        assert {outcome for outcome in outcomes if not outcome.startswith("re_")} <= {"409 idempotency_key_in_use"}
        held = sandbox.money(payment["payment_intent"])
        assert (held["refund_count"], held["refunded"]) == (round_ + 1, 10 * (round_ + 1))


def test_without_a_shared_key_the_same_race_makes_eight_refunds(sandbox: Running) -> None:
    payment = sandbox.create_payment(1000)
    start = threading.Barrier(8)

    def call(key: str) -> None:
        client = stripe_client(sandbox.base_url, sandbox.secret_key, CheckedClient())
        start.wait()
        client.v1.refunds.create({"payment_intent": payment["payment_intent"], "amount": 10}, {"idempotency_key": key})

    threads = [threading.Thread(target=call, args=(f"each-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sandbox.money(payment["payment_intent"])["refund_count"] == 8


def test_while_the_first_call_runs_the_key_is_in_use_and_later_replays(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("delay_before", ms=1000, path="/v1/refunds")
    first: list[Any] = []
    running = threading.Thread(target=lambda: first.append(shop.refund(payment, 100, "slow")))
    running.start()
    while not any(call["outcome"] == "running" for call in sandbox.requests(path="/v1/refunds")):
        pass
    error = refused(shop.refund, payment, 100, "slow")
    assert (error.http_status, word(error, "code")) == (409, "idempotency_key_in_use")
    running.join()
    again = shop.refund(payment, 100, "slow")
    assert (again.id, replayed(again)) == (first[0].id, True)
    assert sandbox.money(payment.id)["refund_count"] == 1


def test_a_500_after_acting_stays_500_under_its_key_though_the_refund_exists(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("error_500_after", path="/v1/refunds")
    assert refused(shop.refund, payment, 100, "k").http_status == 500
    again = refused(shop.refund, payment, 100, "k")
    assert (again.http_status, replayed(again)) == (500, True)
    assert sandbox.money(payment.id)["refunded"] == 100
    assert [one.amount for one in shop.v1.refunds.list({"payment_intent": payment.id}).data] == [100]


def test_a_500_before_acting_stays_500_under_its_key_and_nothing_exists(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.fault("error_500_before", path="/v1/refunds")
    assert refused(shop.refund, payment, 100, "k").http_status == 500
    assert replayed(refused(shop.refund, payment, 100, "k"))
    assert sandbox.money(payment.id)["refunds"] == []


@pytest.mark.parametrize("amount", [1001, 0, -1], ids=["more than there is", "nothing", "less than nothing"])
def test_an_executed_400_is_kept(shop: Shop, amount: int) -> None:
    payment = shop.pay(1000)
    assert not replayed(refused(shop.refund, payment, amount, "k"))
    again = refused(shop.refund, payment, amount, "k")
    assert (again.http_status, replayed(again)) == (400, True)


@pytest.mark.parametrize(
    "wrong",
    [{"speed": "high"}, {"amount": "ten"}, {"reason": "whim"}, {"expand": ["colour"]}, {"charge": "ch_3"}],
    ids=str,
)
def test_a_request_that_was_not_valid_leaves_its_key_usable(
    shop: Shop, sandbox: Running, wrong: dict[str, Any]
) -> None:
    payment = shop.pay()
    error = refused(shop.v1.refunds.create, {"payment_intent": payment.id, **wrong}, {"idempotency_key": "k"})
    assert error.http_status == 400
    made = shop.refund(payment, 100, "k")
    assert not replayed(made)
    assert sandbox.money(payment.id)["refund_count"] == 1


@pytest.mark.parametrize(
    ("fault", "status"),
    [("rate_limit", 429), ("lock_timeout", 429), ("in_use", 409), ("error_503", 503), ("unauthorized", 401)],
)
def test_an_answer_from_before_the_key_leaves_it_usable(shop: Shop, sandbox: Running, fault: str, status: int) -> None:
    payment = shop.pay()
    sandbox.fault(fault, path="/v1/refunds")
    assert refused(shop.refund, payment, 100, "k").http_status == status
    assert sandbox.money(payment.id)["refunds"] == []
    assert not replayed(shop.refund(payment, 100, "k"))


def test_a_key_is_remembered_for_a_day_and_then_pays_again(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    first = shop.refund(payment, 100, "k")
    sandbox.advance(DAY_SECONDS - 60)
    assert shop.refund(payment, 100, "k").id == first.id
    sandbox.advance(120)
    second = shop.refund(payment, 100, "k")
    assert second.id != first.id
    assert shop.refund(payment, 100, "k").id == second.id
    assert sandbox.money(payment.id)["refund_count"] == 2


def test_the_age_of_keys_can_be_set(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.settings(idempotency_age_seconds=60)
    first = shop.refund(payment, 100, "k")
    sandbox.advance(61)
    assert shop.refund(payment, 100, "k").id != first.id


def test_the_same_key_at_another_address_is_refused(shop: Shop) -> None:
    payment = shop.pay()
    refund = shop.refund(payment, 100, "k")
    error = refused(shop.v1.refunds.update, refund.id, {"metadata": {"a": "b"}}, {"idempotency_key": "k"})
    assert isinstance(error, stripe.IdempotencyError)


def test_the_order_of_parameters_does_not_make_another_request(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    one, two = {"payment_intent": payment.id, "amount": 100}, {"amount": 100, "payment_intent": payment.id}
    first, second = (shop.v1.refunds.create(params, {"idempotency_key": "k"}) for params in (one, two))
    assert first.id == second.id


def test_two_accounts_may_use_one_key(shop: Shop, sandbox: Running) -> None:
    other = Shop(stripe_client(sandbox.base_url, "sk_test_other", CheckedClient()), sandbox)
    refunds = [each.refund(each.pay(), 100, "k") for each in (shop, other)]
    assert refunds[0].id != refunds[1].id


def test_a_key_longer_than_255_characters_is_refused(shop: Shop) -> None:
    error = refused(shop.refund, shop.pay(), 100, "k" * 256)
    assert error.http_status == 400
