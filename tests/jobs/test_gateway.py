"""One call at a time: what the provider answers, and which of the four outcomes it is (STRIPE.md §2–§4)."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from jobs import stripe_gateway
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from ledger.database import transaction
from ledger.errors import NetworkInsideTransaction
from ledger.settlement import Confirmed, NotAccepted, Outcome, Refused, Unknown
from sandbox.client import Running
from tests.jobs.calls import ACCOUNT, gateway_at, key, look_for, request_for
from tests.stack import Stack
from tests.world import World

# fault, its options, the outcome and its code, whether the refund was made
FAULTS: list[tuple[str, dict[str, Any], type[Outcome], str, int]] = [
    ("lose_before", {}, Unknown, "no_answer", 0),
    ("lose_reply", {}, Unknown, "no_answer", 1),
    ("lose_reply", {"reset": True}, Unknown, "no_answer", 1),
    ("truncated_body", {}, Unknown, "no_answer", 1),
    ("delay_after", {"ms": 900}, Unknown, "no_answer", 1),
    ("huge_body", {"bytes": 20_000_000}, Unknown, "no_answer", 1),
    ("garbage_200", {}, Unknown, "unreadable_error", 1),
    ("redirect", {"location": "http://127.0.0.1:9/"}, Unknown, "unreadable_error", 0),
    ("redirect", {"location": "http://127.0.0.1:9/", "status": 302}, Unknown, "unreadable_error", 0),
    ("error_503", {}, Unknown, "api_error", 0),
    ("error_500_before", {}, Unknown, "api_error", 0),
    ("error_500_after", {}, Unknown, "api_error", 1),
    ("wrong_amount", {}, Unknown, "differs:amount", 1),
    ("wrong_answer", {"fields": {"currency": "eur"}}, Unknown, "differs:currency", 1),
    ("wrong_answer", {"fields": {"charge": "ch_other"}}, Unknown, "differs:charge", 1),
    ("wrong_answer", {"fields": {"metadata": {}}}, Unknown, "differs:metadata", 1),
    ("wrong_answer", {"fields": {"id": "../x"}}, Unknown, "unreadable_answer", 1),
    ("wrong_answer", {"fields": {"object": "charge"}}, Unknown, "unreadable_answer", 1),
    ("wrong_answer", {"fields": {"amount": "2490"}}, Unknown, "unreadable_answer", 1),
    ("unauthorized", {}, NotAccepted, "unauthorized", 0),
    ("forbidden", {}, NotAccepted, "forbidden", 0),
    ("rate_limit", {}, NotAccepted, "rate_limit", 0),
    ("lock_timeout", {}, NotAccepted, "lock_timeout", 0),
    ("in_use", {}, NotAccepted, "idempotency_key_in_use", 0),
    ("insufficient_balance", {"refuse": True}, Refused, "insufficient_balance_for_refund", 0),
]


@pytest.mark.parametrize(("fault", "options", "kind", "code", "made"), FAULTS, ids=lambda value: str(value)[:40])
def test_a_fault_is_one_of_the_four_outcomes_and_never_releases_by_default(
    sandbox: Running,
    gateway: StripeGateway,
    fault: str,
    options: dict[str, Any],
    kind: type[Outcome],
    code: str,
    made: int,
) -> None:
    payment = sandbox.create_payment(7470)
    sandbox.fault(fault, method="POST", path="/v1/refunds", **options)
    outcome = gateway.refund(request_for(payment), key())
    assert (type(outcome), getattr(outcome, "code", "")) == (kind, code)
    assert sandbox.money(payment["payment_intent"])["refund_count"] == made
    if isinstance(outcome, NotAccepted):
        assert outcome.stops_merchant == (outcome.http_status in (401, 403))
        assert outcome.retry_after_seconds >= 1
    if isinstance(outcome, Unknown):
        assert outcome.needs_person == code.startswith("differs:")


@pytest.mark.parametrize("status", ["succeeded", "pending", "requires_action", "failed"])
def test_a_refund_that_is_what_was_asked_for_is_confirmed_whatever_its_status(
    sandbox: Running, gateway: StripeGateway, status: str
) -> None:
    payment = sandbox.create_payment(7470)
    if status != "succeeded":
        sandbox.fault({"failed": "refund_fails"}.get(status, f"refund_{status}"))
    request = request_for(payment)
    outcome = gateway.refund(request, key())
    assert isinstance(outcome, Confirmed)
    assert (outcome.refund.status, outcome.refund.amount_minor, outcome.refund.currency) == (status, 2490, "GBP")
    assert outcome.refund.intent_id == request["metadata"]["onceback_intent"]


def refusals(sandbox: Running) -> list[tuple[str, dict[str, Any]]]:
    gone, disputed = sandbox.create_payment(100), sandbox.create_payment(100)
    sandbox.dashboard_refund(gone["payment_intent"])
    sandbox.open_dispute(disputed["payment_intent"])
    fresh = sandbox.create_payment(100)
    return [
        ("charge_already_refunded", request_for(gone, 100)),
        ("charge_disputed", request_for(disputed, 100)),
        ("amount_not_accepted", request_for(fresh, 101)),
        ("resource_missing", request_for({**fresh, "charge": "ch_nobody"}, 1)),
    ]


def test_a_refusal_the_provider_names_is_a_refusal(sandbox: Running, gateway: StripeGateway) -> None:
    for code, request in refusals(sandbox):
        outcome = gateway.refund(request, key())
        assert isinstance(outcome, Refused), outcome
        assert outcome.code == code


def test_the_same_key_pays_once_and_another_body_under_it_is_a_bug_for_a_person(
    sandbox: Running, gateway: StripeGateway
) -> None:
    payment, same = sandbox.create_payment(7470), key()
    request = request_for(payment)
    first, again = gateway.refund(request, same), gateway.refund(request, same)
    assert isinstance(first, Confirmed)
    assert isinstance(again, Confirmed)
    assert first.refund == again.refund
    other = gateway.refund({**request, "amount_minor": "1"}, same)
    assert isinstance(other, Unknown)
    assert (other.code, other.needs_person) == ("idempotency_error", True)
    assert sandbox.money(payment["payment_intent"])["refunded"] == 2490


def test_a_key_still_running_is_turned_away_and_pays_once(sandbox: Running, gateway: StripeGateway) -> None:
    payment, same = sandbox.create_payment(7470), key()
    request = request_for(payment)
    sandbox.fault("delay_before", ms=400, path="/v1/refunds")
    slow = threading.Thread(target=gateway.refund, args=(request, same))
    slow.start()
    while not sandbox.requests(path="/v1/refunds"):
        pass
    outcome = gateway.refund(request, same)
    slow.join()
    assert isinstance(outcome, NotAccepted)
    assert outcome.code == "idempotency_key_in_use"
    assert sandbox.money(payment["payment_intent"])["refund_count"] == 1


def test_a_refused_connection_is_not_accepted_and_a_silent_one_is_unknown() -> None:
    payment = {"payment_intent": "pi_1", "charge": "ch_1", "currency": "gbp"}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        refused = gateway_at(url).refund(request_for(payment), key())
        listener.listen()
        silent = gateway_at(url).refund(request_for(payment), key())
    assert isinstance(refused, NotAccepted)
    assert refused.code == "connection_refused"
    assert isinstance(silent, Unknown)


ODD = [
    (200, b"[]"), (200, b"null"), (200, b'"x"'), (200, b"{}"), (200, b"\xff\xfe"), (200, b"[" * 100_000), (204, b""),
    (201, b'{"object":"refund"}'), (300, b"{}"), (400, b"{}"), (400, b'{"error":"x"}'), (400, b'{"error":null}'),
    (400, b'{"error":{"type":5}}'), (400, b'{"error":{"type":"api_error"}}'), (400, b"<html>"), (401, b"<html>"),
    (404, b"<html>"), (402, b'{"error":{}}'), (408, b'{"error":{"type":"invalid_request_error"}}'),
    (409, b'{"error":{"type":"invalid_request_error"}}'), (424, b'{"error":{"type":"invalid_request_error"}}'),
    (429, b"slow down"), (500, b'{"error":{"type":"invalid_request_error","code":"charge_disputed"}}'), (502, b""),
]  # fmt: skip


class _Odd(BaseHTTPRequestHandler):
    answer: tuple[int, bytes] = (200, b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def odd() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Odd)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_nobody_can_read_is_unknown_under_every_status(odd: ThreadingHTTPServer) -> None:
    gateway = gateway_at(f"http://127.0.0.1:{odd.server_port}")
    payment = {"payment_intent": "pi_1", "charge": "ch_1", "currency": "gbp"}
    for status, body in ODD:
        _Odd.answer = (status, body)
        outcome = gateway.refund(request_for(payment), key())
        assert isinstance(outcome, Unknown), (status, body[:40], outcome)


def test_a_402_with_a_card_error_is_a_refusal(odd: ThreadingHTTPServer) -> None:
    _Odd.answer = (402, json.dumps({"error": {"type": "card_error", "code": "expired_card", "message": "no"}}).encode())
    payment = {"payment_intent": "pi_1", "charge": "ch_1", "currency": "gbp"}
    outcome = gateway_at(f"http://127.0.0.1:{odd.server_port}").refund(request_for(payment), key())
    assert outcome == Refused("expired_card", "no", 402)


def test_the_whole_call_says_what_stripe_asks_for_and_nothing_else(sandbox: Running, gateway: StripeGateway) -> None:
    payment, same = sandbox.create_payment(7470), key()
    gateway.refund(request_for(payment), same)
    (call,) = sandbox.requests()
    assert call["idempotency_key"] == same
    fields = {part.split("=")[0] for part in call["body"].split("&")}
    assert fields == {"charge", "amount", "metadata[onceback_intent]", "metadata[onceback_units]"}


def test_what_cannot_be_said_to_the_provider_makes_no_call(sandbox: Running, gateway: StripeGateway) -> None:
    payment = sandbox.create_payment(7470)
    wrong: list[dict[str, Any]] = [{"charge": "ch_/../x"}, {"charge": ""}, {"currency": "CLF"}]
    for changes in [*wrong, {"currency": "KWD", "amount_minor": "5124"}]:
        outcome = gateway.refund(request_for(payment, **changes), key())
        assert isinstance(outcome, Unknown)
        assert (outcome.code, outcome.needs_person) == ("not_sendable", True)
    wrong = [{"credential": "another"}, {"livemode": True}, {"account": "acct_/x"}]
    for changes in wrong:
        outcome = gateway.refund(request_for(payment, **changes), key())
        assert isinstance(outcome, NotAccepted)
        assert outcome.stops_merchant
    assert sandbox.requests() == []


def test_a_connected_account_is_named_in_each_call(sandbox: Running, gateway: StripeGateway) -> None:
    sandbox.connect_account("acct_connected1")
    (payment,) = sandbox.create_payments([{"amount": 7470, "currency": "gbp"}], account="acct_connected1")
    request = request_for(payment, account="acct_connected1")
    assert isinstance(gateway.refund(request, key()), Confirmed)
    assert isinstance(gateway.refund({**request, "account": ""}, key()), Refused)


def test_no_call_is_made_inside_a_transaction_and_without_the_guard_one_would_be(
    stack: Stack, world: World, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = sandbox.create_payment(7470)
    request = request_for(payment)
    calls: list[Callable[[], object]] = [
        lambda: worker.gateway.refund(request, key()),
        lambda: worker.gateway.find(look_for(request)),
        lambda: worker.gateway.retrieve(ACCOUNT, "re_1"),
        lambda: worker.in_thread(worker.gateway.refund, request, key()).result(),
    ]
    with transaction(stack.worker, world.merchant_id):
        for call in calls:
            with pytest.raises(NetworkInsideTransaction):
                call()
        assert sandbox.requests() == []
        monkeypatch.setattr(stripe_gateway, "forbid_open_transaction", lambda: None)
        assert isinstance(worker.gateway.refund(request, key()), Confirmed)


def test_a_call_that_could_outlast_its_lease_margin_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="PROVIDER_READ_SECONDS"):
        StripeGateway({}, "https://api.stripe.com", 5, 80)
