"""The sandbox's own interface: accounts and keys, bulk payments, the journal of calls, the money listing, the page."""

import base64
import re
import socket
from typing import Any

import pytest
import requests

from sandbox.client import Running, SandboxRefusedError
from tests.sandbox.shop import SPEC, CheckedClient, Shop, refused, stripe_client
from tests.sandbox.spec import ABSENT


def plain(sandbox: Running, method: str, path: str, **more: Any) -> requests.Response:
    return requests.request(method, f"{sandbox.base_url}{path}", timeout=10, allow_redirects=False, **more)


@pytest.mark.parametrize("key", ["", "sk_live_4eC39HqLyjW", "sk_test_", "pk_test_shop", "sk_test_<b>"])
def test_a_key_that_is_no_test_key_is_401(sandbox: Running, key: str) -> None:
    answer = plain(sandbox, "GET", "/v1/refunds", headers={"Authorization": f"Bearer {key}"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "invalid_request_error")
    assert key[8:-4] == "" or key[8:-4] not in answer.text


def test_a_key_also_comes_by_basic_authentication(sandbox: Running) -> None:
    words = base64.b64encode(f"{sandbox.secret_key}:".encode()).decode()
    assert plain(sandbox, "GET", "/v1/refunds", headers={"Authorization": f"Basic {words}"}).status_code == 200
    assert plain(sandbox, "GET", "/v1/refunds", headers={"Authorization": "Basic ==="}).status_code == 401


def test_one_account_does_not_see_another(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    refund = shop.refund(payment, 100)
    other = Shop(stripe_client(sandbox.base_url, "sk_test_other", CheckedClient()), sandbox)
    assert refused(other.refund, payment).code == "resource_missing"
    assert refused(other.v1.refunds.retrieve, refund.id).code == "resource_missing"
    assert refused(other.v1.payment_intents.retrieve, payment.id).code == "resource_missing"
    assert other.v1.refunds.list().data == []
    assert other.v1.events.list().data == []
    assert sandbox.all_money("sk_test_other")["payments"] == []


def test_a_restricted_key_reaches_the_account_of_the_secret_key(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    restricted = stripe_client(sandbox.base_url, sandbox.secret_key.replace("sk_", "rk_"), CheckedClient())
    assert restricted.v1.payment_intents.retrieve(payment.id).status == "succeeded"


def test_a_platform_reaches_only_the_accounts_joined_to_it(sandbox: Running) -> None:
    sandbox.connect_account("acct_seller2")
    there = stripe_client(sandbox.base_url, sandbox.secret_key, CheckedClient(), stripe_account="acct_seller2")
    payment = Shop(there, sandbox).pay()
    assert sandbox.money(payment.id)["account"] == "acct_seller2"
    assert payment.last_response.headers["Stripe-Account"] == "acct_seller2"
    without = stripe_client(sandbox.base_url, sandbox.secret_key, CheckedClient())
    assert refused(without.v1.payment_intents.retrieve, payment.id).http_status == 404
    stranger = stripe_client(sandbox.base_url, "sk_test_other", CheckedClient(), stripe_account="acct_seller2")
    error = refused(stranger.v1.payment_intents.retrieve, payment.id)
    assert (error.http_status, error.error.code if error.error else None) == (403, "account_invalid")


def test_a_month_of_payments_is_made_at_once(shop: Shop, sandbox: Running) -> None:
    wanted = [
        {"amount": 100 + place, "currency": "GBP", "created": 1_291_000_000 + place, "metadata": {"order": str(place)}}
        for place in range(3000)
    ]
    wanted[0] |= {"brand": "mastercard", "last4": "5454", "exp_month": 2, "exp_year": 2031, "description": "Order 0"}
    made = sandbox.create_payments(wanted)
    assert [one["amount"] for one in made] == [one["amount"] for one in wanted]
    charge = shop.v1.charges.retrieve(made[0]["charge"])
    card = charge.payment_method_details.card
    assert (card.brand, card.last4, card.exp_month, card.exp_year) == ("mastercard", "5454", 2, 2031)
    assert (charge.created, charge.metadata["order"], charge.description) == (1_291_000_000, "0", "Order 0")
    assert sandbox.totals()["gbp"] == {
        "payments": 3000,
        "captured": sum(range(100, 3100)),
        "refunds": 0,
        "refunded": 0,
        "came_to_nothing": 0,
    }
    newest = shop.v1.payment_intents.list({"limit": 1}).data[0]
    assert newest.id == made[-1]["payment_intent"]
    assert shop.v1.refunds.create({"charge": made[1]["charge"]}).amount == 101


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"amount": 0, "currency": "gbp"}, r"payments\[1\].amount is a whole number of minor units"),
        ({"amount": 10.5, "currency": "gbp"}, r"payments\[1\].amount is a whole number"),
        ({"amount": 10, "currency": "pounds"}, r"payments\[1\].currency is a three-letter code"),
        ({"amount": 10, "currency": "gbp", "colour": "red"}, r"payments\[1\] takes amount, brand"),
        ({"amount": 10, "currency": "gbp", "metadata": {"a": 1}}, r"payments\[1\].metadata maps words to strings"),
    ],
)
def test_one_wrong_payment_among_many_makes_none(sandbox: Running, wish: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxRefusedError, match=message):
        sandbox.create_payments([{"amount": 10, "currency": "gbp"}, wish])
    assert sandbox.all_money()["payments"] == []


def test_the_money_listing_counts_what_is_on_its_way_and_lists_what_failed(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay(1000, metadata={"order": "R-9"})
    kept = shop.refund(payment, 300, "key-a", metadata={"intent": "I-9"})
    gone = shop.refund(payment, 200)
    sandbox.change_refund(gone.id, "failed")
    held = sandbox.money(payment.id)
    assert (held["captured"], held["refunded"], held["refund_count"]) == (1000, 300, 1)
    assert [(one["id"], one["status"]) for one in held["refunds"]] == [(kept.id, "succeeded"), (gone.id, "failed")]
    assert (held["refunds"][0]["idempotency_key"], held["refunds"][0]["metadata"]) == ("key-a", {"intent": "I-9"})
    sums = sandbox.totals()["gbp"]
    assert (sums["captured"], sums["refunds"], sums["refunded"], sums["came_to_nothing"]) == (1000, 1, 300, 1)


def test_money_of_an_unknown_payment_is_an_error(sandbox: Running) -> None:
    with pytest.raises(SandboxRefusedError, match="No such payment_intent: 'pi_none'"):
        sandbox.money("pi_none")


def test_the_journal_shows_that_two_calls_were_alike_and_that_none_was_made(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    sandbox.clear_requests()
    assert sandbox.requests() == []
    for _ in range(2):
        shop.refund(payment, 100, "key-j", metadata={"intent": "I-7"})
    refused(shop.refund, payment, 5000)
    first, second, third = sandbox.requests(method="POST", path="/v1/refunds")
    assert (first["digest"], first["idempotency_key"]) == (second["digest"], "key-j")
    assert third["digest"] != first["digest"]
    outcomes = [(call["status"], call["outcome"]) for call in (first, second, third)]
    assert outcomes == [(200, "done"), (200, "replayed"), (400, "invalid_request_error")]
    assert sandbox.requests(key="key-j") == [first, second]
    assert sandbox.requests(account="sk_test_other") == []


def test_what_the_sdk_sent_is_what_the_specification_takes(shop: Shop, sandbox: Running) -> None:
    if SPEC is None:
        pytest.skip(ABSENT)
    payment = shop.pay(metadata={"order": "R-1"})
    shop.refund(payment, 100, metadata={"intent": "I-1", "case": "C-1"}, reason="requested_by_customer")
    shop.v1.refunds.list({"payment_intent": payment.id, "created": {"gte": 5}, "limit": 100, "expand": ["data.charge"]})
    calls = sandbox.requests()
    assert len(calls) == 3
    for call in calls:
        assert SPEC.request_problems(call["method"], call["path"], call["body"] or call["query"]) == []


@pytest.mark.parametrize(
    ("name", "wishes", "message"),
    [
        ("clock", {"advance_seconds": "soon"}, "advance_seconds is a number"),
        ("settings", {"colour": 1}, "No such setting: colour"),
        ("settings", {"webhooks_paused": "maybe"}, "webhooks_paused is true or false"),
        ("refunds", {"payment_intent": "pi_none"}, "No such payment_intent"),
        ("refunds/status", {"refund": "re_none", "status": "failed"}, "No such refund"),
        ("disputes/close", {"dispute": "dp_none"}, "No such dispute"),
        ("endpoints", {"account": "sk_test_x", "url": "ftp://x", "secret": "s"}, r"url \(http"),
        ("accounts", {"platform": "sk_test_x", "account": "seller"}, "acct_"),
        ("faults", {"kind": "lose_reply", "count": 0.5}, "count is a whole number"),
        ("payments", {"account": "sk_test_x"}, "payments, a list"),
        ("nowhere", {}, "No such call. There are: GET accounts"),
    ],
)
def test_a_control_call_that_cannot_be_meant_says_what_is_wanted(
    sandbox: Running, name: str, wishes: dict[str, Any], message: str
) -> None:
    answer = plain(sandbox, "POST", f"/_sandbox/{name}", json=wishes)
    assert answer.status_code in (400, 404)
    assert re.search(message, answer.json()["error"])


def test_a_body_that_is_no_json_is_refused(sandbox: Running) -> None:
    assert "no JSON" in plain(sandbox, "POST", "/_sandbox/clock", data=b"{").json()["error"]
    assert plain(sandbox, "POST", "/_sandbox/clock", data=b"[]").json()["error"] == "The body is a JSON object."


def test_posts_from_other_sites_are_refused(sandbox: Running) -> None:
    answer = plain(sandbox, "POST", "/_sandbox/reset", headers={"Origin": "http://elsewhere.example"})
    assert (answer.status_code, answer.json()["error"]) == (400, "The sandbox takes no posts from other sites.")


def test_the_page_shows_money_calls_and_faults_without_scripts(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay(1234, "eur")
    shop.refund(payment, 234, "<key>")
    sandbox.fault("lose_reply", path="/v1/refunds", reset=True)
    answer = plain(sandbox, "GET", "/_sandbox/")
    assert answer.status_code == 200
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    page = answer.text
    assert payment.id in page
    assert "12.34&nbsp;EUR" in page
    assert "2.34&nbsp;EUR" in page
    assert "reset=True" in page
    assert "&lt;key&gt;" in page
    assert "<script" not in page
    assert page.count("<h1>") == 1


def test_the_forms_of_the_page_work_without_json(shop: Shop, sandbox: Running) -> None:
    payment = shop.pay()
    form = {"kind": "delay_before", "count": "2", "path": "/v1/refunds", "ms": "5", "payment_intent": "", "account": ""}
    answer = plain(sandbox, "POST", "/_sandbox/faults", data=form)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/_sandbox/")
    fault = sandbox.faults()[0]
    assert (fault["kind"], fault["remaining"], fault["options"], fault["account"]) == (
        "delay_before",
        2,
        {"ms": 5},
        None,
    )
    plain(sandbox, "POST", "/_sandbox/faults/drop", data={"seq": str(fault["seq"])})
    assert sandbox.faults() == []
    plain(sandbox, "POST", "/_sandbox/refunds", data={"payment_intent": payment.id})
    assert sandbox.money(payment.id)["refunded"] == 1000
    plain(sandbox, "POST", "/_sandbox/payments", data={"account": "sk_test_sandbox", "amount": "55", "currency": "usd"})
    assert sandbox.totals()["usd"]["captured"] == 55
    wrong = plain(sandbox, "POST", "/_sandbox/refunds", data={"payment_intent": payment.id})
    assert wrong.status_code == 400
    assert "has already been refunded" in wrong.text


def test_unknown_addresses_and_methods_are_404_in_stripes_words(sandbox: Running) -> None:
    headers = {"Authorization": f"Bearer {sandbox.secret_key}"}
    for method, path in (("GET", "/v1/coupons"), ("DELETE", "/v1/refunds/re_1"), ("GET", "/"), ("PUT", "/v1/refunds")):
        answer = plain(sandbox, method, path, headers=headers)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == f"Unrecognized request URL ({method}: {path})."


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET * HTTP/1.1\r\n\r\n",
        b"POST /v1/refunds HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/refunds HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST /v1/refunds HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /v1/refunds HTTP/1.1\r\nno colon here\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_get_400_and_the_end(sandbox: Running, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", sandbox.port), timeout=5) as connection:
        connection.sendall(sent)
        received = b""
        while piece := connection.recv(4096):
            received += piece
    assert received.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in received
    assert sandbox.requests() == []


def test_one_connection_carries_many_calls(sandbox: Running) -> None:
    head = f"GET /v1/refunds HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {sandbox.secret_key}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", sandbox.port), timeout=5) as connection:
        answers = connection.makefile("rb")
        connection.sendall(head * 3)
        for _ in range(3):
            assert answers.readline().startswith(b"HTTP/1.1 200 ")
            headers = dict(line.split(": ", 1) for line in iter(lambda: answers.readline().decode().strip(), ""))
            assert headers["Connection"] == "keep-alive"
            answers.read(int(headers["Content-Length"]))
