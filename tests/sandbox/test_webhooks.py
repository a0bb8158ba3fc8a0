"""Events reach a receiver signed, at least once, and as badly as asked."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import stripe

from sandbox.client import Running
from tests.sandbox.shop import SPEC, CheckedClient, Shop, stripe_client

SECRET, OLD_SECRET = "whsec_sandbox_new", "whsec_sandbox_old"


@dataclass
class Receiver:
    """A merchant's endpoint: keeps what came, answers the statuses given, then 200."""

    url: str = ""
    came: list[tuple[bytes, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def events(self, secret: str = SECRET) -> list[stripe.Event]:
        """What came, each signature verified by Stripe's SDK."""
        return [stripe.Webhook.construct_event(body.decode(), mark, secret) for body, mark in self.came]

    def kinds(self) -> list[str]:
        return [event.type for event in self.events()]


def eventually(wanted: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.02)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()

    class Endpoint(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.came.append((body, self.headers["Stripe-Signature"]))
            self.send_response(kept.statuses.pop(0) if kept.statuses else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}/hooks"
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    yield kept
    server.shutdown()
    serving.join()
    server.server_close()


def test_events_come_signed_and_in_order(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.set_webhook(receiver.url, SECRET)
    refund = shop.refund(shop.pay(), 100, "key-1")
    wanted = ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"]
    wanted += ["refund.created", "charge.refunded"]
    eventually(lambda: len(receiver.came) >= len(wanted))
    assert receiver.kinds() == wanted
    event = receiver.events()[3]
    made: Any = event.data.object
    assert (made["id"], event.livemode, "account" in event) == (refund.id, False, False)
    assert event.request is not None
    assert event.request.idempotency_key == "key-1"
    if SPEC:
        problems = [
            SPEC.answer_problems("GET", f"/v1/events/{one.id}", 200, one.to_dict()) for one in receiver.events()
        ]
        assert problems == [[]] * len(wanted)
    eventually(lambda: not sandbox.deliveries("waiting"))
    assert {one["answer"] for one in sandbox.deliveries("delivered")} == {"200"}


def test_each_secret_valid_now_has_its_own_signature(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.set_webhook(receiver.url, SECRET, OLD_SECRET)
    shop.pay()
    eventually(lambda: len(receiver.came) == 3)
    assert receiver.events(SECRET)[0].id == receiver.events(OLD_SECRET)[0].id
    assert receiver.came[0][1].count("v1=") == 2
    with pytest.raises(stripe.SignatureVerificationError):
        receiver.events("whsec_of_another")


def test_a_changed_body_does_not_verify(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.set_webhook(receiver.url, SECRET)
    shop.pay()
    eventually(lambda: len(receiver.came) == 3)
    receiver.came = [(body.replace(b"1000", b"9000"), mark) for body, mark in receiver.came]
    with pytest.raises(stripe.SignatureVerificationError):
        receiver.events()


def test_a_refused_event_comes_again_with_a_new_signature(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.settings(webhooks_retry_seconds=1.0)
    payment = shop.pay()
    sandbox.set_webhook(receiver.url, SECRET)
    receiver.statuses = [500, 500]
    sandbox.dashboard_refund(payment.id, 100)
    eventually(lambda: len(receiver.came) >= 4)
    eventually(lambda: not sandbox.deliveries("waiting"))
    assert sorted(receiver.kinds()) == ["charge.refunded"] * 2 + ["refund.created"] * 2
    bodies = {body for body, _ in receiver.came}
    assert len(bodies) == 2
    assert len({mark for _, mark in receiver.came}) == 4


def test_after_its_tries_an_event_is_given_up_and_can_be_sent_again(
    shop: Shop, sandbox: Running, receiver: Receiver
) -> None:
    sandbox.settings(webhooks_retry_seconds=0.05, webhooks_tries=2)
    payment = shop.pay()
    sandbox.set_webhook(receiver.url, SECRET)
    receiver.statuses = [500] * 4
    sandbox.dashboard_refund(payment.id, 100)
    eventually(lambda: len(sandbox.deliveries("given_up")) == 2)
    event = sandbox.deliveries("given_up")[0]["event"]
    assert sandbox.resend_event(event) == 1
    eventually(lambda: len(sandbox.deliveries("delivered")) == 1)
    assert receiver.events()[-1].id == event


def test_an_endpoint_that_is_away_gets_its_events_later(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.settings(webhooks_retry_seconds=30)
    sandbox.set_webhook("http://127.0.0.1:9/away", SECRET)
    shop.pay()
    eventually(lambda: {one["answer"] for one in sandbox.deliveries()} == {"ConnectionError"})
    assert len(sandbox.deliveries("waiting")) == 3
    assert sandbox.deliver_now() == 3


def test_paused_delivery_waits(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.set_webhook(receiver.url, SECRET)
    sandbox.settings(webhooks_paused=True)
    shop.pay()
    time.sleep(0.4)
    assert receiver.came == []
    sandbox.settings(webhooks_paused=False)
    eventually(lambda: len(receiver.came) == 3)


def test_delivery_may_be_doubled(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.settings(webhooks_copies=2)
    sandbox.set_webhook(receiver.url, SECRET)
    shop.pay()
    eventually(lambda: len(receiver.came) == 6)
    assert len({event.id for event in receiver.events()}) == 3


def test_delivery_may_be_out_of_order(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.set_webhook(receiver.url, SECRET)
    sandbox.settings(webhooks_paused=True, webhooks_reorder=True)
    shop.refund(shop.pay(), 100)
    sandbox.settings(webhooks_paused=False)
    eventually(lambda: len(receiver.came) == 5)
    assert receiver.kinds()[0] == "charge.refunded"
    assert receiver.kinds()[-1] == "payment_intent.created"


def test_a_platform_hears_of_its_connected_accounts_by_name(sandbox: Running, receiver: Receiver) -> None:
    sandbox.connect_account("acct_seller1")
    sandbox.set_webhook(receiver.url, SECRET, connect=True)
    client = stripe_client(sandbox.base_url, sandbox.secret_key, CheckedClient(), stripe_account="acct_seller1")
    Shop(client, sandbox).pay()
    eventually(lambda: len(receiver.came) == 3)
    assert {event.account for event in receiver.events()} == {"acct_seller1"}


def test_the_signature_may_carry_a_time_ahead(shop: Shop, sandbox: Running, receiver: Receiver) -> None:
    sandbox.settings(webhooks_clock_skew_seconds=3600)
    sandbox.set_webhook(receiver.url, SECRET)
    shop.pay()
    eventually(lambda: len(receiver.came) == 3)
    stamp = int(receiver.came[0][1].partition(",")[0].removeprefix("t="))
    assert 3500 < stamp - time.time() <= 3600
