"""STRIPE.md §1, §2 and §4 row by row: what the provider answers, what becomes of the refund, and what staff read about it.

One shop serves all rows; each row has a payment of its own at the real local provider, and ends by asking both sides.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Flask
from pydantic import SecretStr

from app import create_app
from jobs import reconciler, submitter
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from ledger.refusals import SITUATIONS
from sandbox.client import Running
from tests import lives
from tests.refunds import (
    Proposed,
    approved,
    as_administrator,
    balances,
    creates,
    make_due,
    paid_order,
    refunds_at,
    row_of,
    state_of,
    worker_at,
)
from tests.stack import Server, Stack, fresh_stack
from tests.web.conftest import ORIGIN, web_settings
from tests.web.pages import Browser
from tests.world import World, build_world

REFUSED, REVIEW, STOPPED = "failed", "needs_review", "stopped"


@dataclass(frozen=True)
class Row:
    """One answer. `after`: the state when it was recorded; `then`: after the worker went on; `paid`: refunds that stand."""

    name: str
    code: str
    after: str
    then: str = ""
    paid: int = 0
    alarm: str = ""
    reread: bool = False
    fault: dict[str, Any] = field(default_factory=dict)
    before: str = ""


def error(status: int, code: str | None = None, **more: Any) -> dict[str, Any]:
    said = {"type": "invalid_request_error", "message": f"The provider says no ({code}).", **more}
    return {"kind": "refuse", "status": status, "error": said | ({"code": code} if code else {})}


def fault(kind: str, **options: Any) -> dict[str, Any]:
    return {"kind": kind, **options}


ROWS = [
    # §1: what a refund can be when it is made.
    Row("succeeded at once", "", "succeeded", paid=1),
    Row("pending", "pending:processing", "pending", paid=1, fault=fault("refund_pending")),
    Row("pending for the balance", "pending:insufficient_funds", "pending", paid=1, fault=fault("insufficient_balance")),
    Row("pending for the charge", "pending:charge_pending", "pending", paid=1,
        fault=fault("refund_pending", pending_reason="charge_pending")),
    Row("requires action", "pending:requires_action", "pending", paid=1, fault=fault("refund_requires_action")),
    Row("failed at once", "declined", REFUSED, fault=fault("refund_fails", failure_reason="declined")),
    Row("a status that is not listed", "unlisted_status", REVIEW, paid=1, alarm="unlisted_status",
        fault=fault("wrong_answer", fields={"status": "resting"})),
    # §2: refusals of one refund. Made by the state of the payment where the provider can be brought into it.
    Row("nothing left", "charge_already_refunded", REFUSED, reread=True, before="refunded"),
    Row("more than is left", "amount_not_accepted", REFUSED, reread=True, before="partly refunded"),
    Row("amount below one", "parameter_not_accepted", REFUSED, alarm="request_not_valid",
        fault=error(400, "parameter_invalid_integer", param="amount")),
    # Disputes are read right before the call; this is one opened in the same moment.
    Row("disputed", "charge_disputed", REFUSED, reread=True, fault=error(400, "charge_disputed")),
    Row("disputed, other methods", "refund_disputed_payment", REFUSED, reread=True, fault=error(400, "refund_disputed_payment")),
    Row("too old", "charge_not_refundable", REFUSED, fault=error(400, "charge_not_refundable")),
    Row("not captured", "not_refundable_as_it_stands", REFUSED, reread=True,
        fault=error(400, message="This uncaptured Charge was created by a PaymentIntent (pi_1).")),
    Row("never paid", "not_refundable_as_it_stands", REFUSED, reread=True,
        fault=error(400, message="This PaymentIntent (pi_1) does not have a successful charge to refund.")),
    Row("unknown charge", "resource_missing", REFUSED, alarm="no_such_payment", before="unknown"),
    Row("unknown payment", "resource_missing", REFUSED, alarm="no_such_payment",
        fault=error(404, "resource_missing", param="payment_intent")),
    Row("neither charge nor payment", "not_refundable_as_it_stands", REFUSED, reread=True,
        fault=error(400, message="One of the following params should be provided for this request.")),
    Row("bad reason", "parameter_not_accepted", REFUSED, alarm="request_not_valid", fault=error(400, param="reason")),
    Row("unknown parameter", "parameter_not_accepted", REFUSED, alarm="request_not_valid",
        fault=error(400, "parameter_unknown", param="amuont")),
    Row("balance too low", "insufficient_balance_for_refund", REFUSED, fault=fault("insufficient_balance", refuse=True)),
    Row("underfunded seller", "balance_insufficient", REFUSED, fault=error(400, "balance_insufficient")),
    Row("no funds", "insufficient_funds", REFUSED, fault=error(400, "insufficient_funds")),
    Row("too large", "amount_too_large", REFUSED, alarm="request_not_valid", fault=error(400, "amount_too_large")),
    Row("too small", "amount_too_small", REFUSED, alarm="request_not_valid", fault=error(400, "amount_too_small")),
    Row("changed elsewhere", "payment_intent_unexpected_state", REFUSED, reread=True,
        fault=error(400, "payment_intent_unexpected_state")),
    Row("card error", "card_error", REFUSED, fault=error(402, type="card_error")),
    Row("a code nobody has heard of", "brand_new_code", REFUSED, fault=error(400, "brand_new_code")),
    # §2 and §4: our credential. The merchant stops; after a person started it again the same key pays once.
    Row("test key on live object", "livemode_mismatch", STOPPED, "succeeded", 1, "submitter_stopped",
        fault=error(400, "livemode_mismatch", type="invalid_request_error") | {"kept": False}),
    Row("key expired", "api_key_expired", STOPPED, "succeeded", 1, "submitter_stopped",
        fault=error(401, "api_key_expired") | {"kept": False}),
    Row("401", "unauthorized", STOPPED, "succeeded", 1, "submitter_stopped", fault=fault("unauthorized")),
    Row("403", "forbidden", STOPPED, "succeeded", 1, "submitter_stopped", fault=fault("forbidden")),
    # §3 and §4: not looked at. The same key goes again.
    Row("409 in use", "idempotency_key_in_use", "submitting", "succeeded", 1, fault=fault("in_use")),
    Row("429 lock", "lock_timeout", "submitting", "succeeded", 1, fault=fault("lock_timeout")),
    Row("429 rate", "rate_limit", "submitting", "succeeded", 1, fault=fault("rate_limit")),
    Row("429 concurrency", "rate_limit", "submitting", "succeeded", 1, fault=fault("rate_limit", reason="global-concurrency")),
    Row("connection refused", "connection_refused", "submitting", "succeeded", 1, before="nobody listens"),
    # §4: unknown. Asked about; adopted, or sent again under the same key once its absence is proven.
    Row("500, acted", "api_error", "unknown", "succeeded", 1, fault=fault("error_500_after")),
    Row("503", "api_error", "unknown", "succeeded", 1, fault=fault("error_503")),
    Row("424", "api_error", "unknown", "succeeded", 1, fault=error(424, type="api_error") | {"kept": False}),
    Row("redirect", "unreadable_error", "unknown", "succeeded", 1, fault=fault("redirect")),
    Row("closed before", "no_answer", "unknown", "succeeded", 1, fault=fault("lose_before")),
    Row("reset before", "no_answer", "unknown", "succeeded", 1, fault=fault("lose_before", reset=True)),
    Row("closed after", "no_answer", "unknown", "succeeded", 1, fault=fault("lose_reply")),
    Row("cut short", "no_answer", "unknown", "succeeded", 1, fault=fault("truncated_body")),
    Row("time-out", "no_answer", "unknown", "succeeded", 1, fault=fault("delay_after", ms=1500)),
    Row("no JSON under 200", "unreadable_error", "unknown", "succeeded", 1, fault=fault("garbage_200")),
    # §3 and S68: what only people settle. Never paid twice, never let go.
    Row("the key of another request", "idempotency_error", REVIEW, alarm="idempotency_error", before="key used"),
    *(
        Row(f"another {what}", f"differs:{what}", REVIEW, paid=1, alarm="answer_differs",
            fault=fault("wrong_answer", fields=fields))
        for what, fields in (
            ("amount", {"amount": 1}), ("currency", {"currency": "usd"}), ("charge", {"charge": "ch_another"}),
            ("metadata", {"metadata": {"onceback_intent": "018f0000-0000-7000-8000-000000000000"}}),
        )
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Shop:
    stack: Stack
    world: World
    sandbox: Running
    worker: Worker
    priya: Browser

    def page(self, one: Proposed) -> str:
        return self.priya.get(f"/{self.world.slug}/refunds/{one.intent_id}").text


@pytest.fixture(scope="module")
def shop(server: Server, provider: Running) -> Iterator[Shop]:
    provider.reset()
    with fresh_stack(server) as stack:
        world = build_world(stack)
        app: Flask = create_app(web_settings(stack))
        priya = Browser(app, ORIGIN)
        priya.sign_in(world.priya)
        with worker_at(stack, provider, world, consistency_seconds=0) as worker:
            yield Shop(stack, world, provider, worker, priya)
        app.extensions["onceback"].engine.dispose()


@pytest.fixture(autouse=True)
def nothing_left_over(shop: Shop) -> Iterator[None]:
    yield
    shop.sandbox.drop_faults()
    as_administrator(shop.stack, "UPDATE outbox SET done_at = now() WHERE done_at IS NULL")
    as_administrator(shop.stack, "UPDATE merchant_brakes SET stopped_at = NULL, stopped_reason = NULL")
    as_administrator(shop.stack, "DELETE FROM alarms")


def prepare(shop: Shop, row: Row, one: Proposed) -> None:
    match row.before:
        case "refunded":
            shop.sandbox.dashboard_refund(one.payment_intent)
        case "partly refunded":
            shop.sandbox.dashboard_refund(one.payment_intent, one.order.total_minor - one.amount_minor + 1)
        case "key used":
            request = as_administrator(shop.stack, "SELECT request FROM outbox WHERE intent_id = %s", one.intent_id)[0][
                "request"
            ]
            shop.worker.gateway.refund(
                {**request, "amount_minor": "1", "metadata": {"onceback_intent": "ours-not"}}, one.key
            )
    if row.fault:
        options = dict(row.fault)
        shop.sandbox.fault(options.pop("kind"), path="/v1/refunds", method="POST", **options)


def send(shop: Shop, row: Row) -> None:
    """Once; to nobody when the row says so: the disputes were read, then nothing listens any more."""
    if row.before == "nobody listens":
        keys = {shop.world.slug: SecretStr(shop.sandbox.secret_key)}
        shop.worker.gateway.__dict__["refund"] = StripeGateway(keys, "http://127.0.0.1:9", 1, 1).refund
    submitter.run_once(shop.worker)
    shop.worker.gateway.__dict__.pop("refund", None)


def go_on(shop: Shop, one: Proposed) -> None:
    """The waits are over, whatever they were for."""
    for _ in range(4):
        make_due(shop.stack)
        as_administrator(
            shop.stack, "UPDATE attempt_results SET at = at - interval '3 seconds' WHERE intent_id = %s", one.intent_id
        )
        reconciler.run_once(shop.worker)
        submitter.run_once(shop.worker)


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_each_answer_of_the_provider_ends_in_its_state_with_its_sentence_and_once_paid(shop: Shop, row: Row) -> None:
    order = paid_order(shop.stack, shop.world, shop.sandbox)
    if row.before == "unknown":
        as_administrator(shop.stack, "UPDATE captures SET charge_ref = 'ch_nobody' WHERE order_id = %s", order.order_id)
    one = approved(shop.stack, shop.world, shop.sandbox, order=order)
    prepare(shop, row, one)
    outside = refunds_that_stand(shop, one)
    send(shop, row)
    state = state_of(shop.stack, one)
    assert state == ("submitting" if row.after == STOPPED else row.after), row_of(shop.stack, one)["state_reason"]
    said(shop, row, one)
    assert alarms_of(shop, one) == ({row.alarm} if row.alarm else set())
    assert hints(shop, one) == (1 if row.reread else 0)
    if row.after == STOPPED:
        stopped_until_started_again(shop, one)
    if row.then:
        go_on(shop, one)
        assert state_of(shop.stack, one) == row.then
    ended(shop, row, one, outside)


def said(shop: Shop, row: Row, one: Proposed) -> None:
    page = shop.page(one)
    if row.code == "brand_new_code":
        assert "The provider refused it, for a reason this version has no words for." in page
        return
    if row.code:
        sentence = SITUATIONS[row.code]
        assert sentence.sentence in page
        assert sentence.then in page
    if row.fault.get("kind") == "refuse" and row.after == REFUSED:
        assert f"The provider's own words: “{row.fault['error']['message']}”" in page


def alarms_of(shop: Shop, one: Proposed) -> set[str]:
    found = as_administrator(
        shop.stack,
        "SELECT kind FROM alarms WHERE closed_at IS NULL AND coalesce(intent_id, %s) = %s",
        one.intent_id,
        one.intent_id,
    )
    return {row["kind"] for row in found}


def hints(shop: Shop, one: Proposed) -> int:
    return len(as_administrator(
        shop.stack, "SELECT 1 FROM provider_events WHERE kind = 'onceback.reread' AND payment_intent_ref = %s", one.payment_intent
    ))  # fmt: skip


def stopped_until_started_again(shop: Shop, one: Proposed) -> None:
    """Nothing more is sent, also when it is due; a credential that is still wrong stops it again, with a new alarm."""
    make_due(shop.stack)
    before = len(creates(shop.sandbox))
    assert (submitter.run_once(shop.worker), len(creates(shop.sandbox))) == ({}, before)
    shop.sandbox.fault("unauthorized", path="/v1/refunds")
    for _ in range(2):
        if not lives.start_again(shop.stack, shop.world, "stop"):
            break
        assert alarms_of(shop, one) == set()
        make_due(shop.stack)
        submitter.run_once(shop.worker)
    assert state_of(shop.stack, one) == "succeeded"


def refunds_that_stand(shop: Shop, one: Proposed) -> int:
    there = shop.sandbox.money(one.payment_intent)["refunds"]
    return sum(refund["status"] not in ("failed", "canceled") for refund in there)


def ended(shop: Shop, row: Row, one: Proposed, outside: int) -> None:
    """The books and the provider: one refund or none, and what is not settled stays set aside."""
    state, total, amount = state_of(shop.stack, one), one.order.total_minor, one.amount_minor
    held = amount if state in ("submitting", "unknown", "pending", "needs_review") else 0
    gone = amount if state == "succeeded" else 0
    assert balances(shop.stack, one) == (total - held - gone, held, gone)
    ours = refunds_that_stand(shop, one) - outside
    assert ours == row.paid
    assert refunds_at(shop.sandbox, one) >= ours
    keys = {call["idempotency_key"] for call in creates(shop.sandbox) if one.charge in str(call)}
    assert keys <= {one.key}
