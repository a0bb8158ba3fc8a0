"""One trace from the request that approves to the provider's call and back, and what the log says on the way (S74)."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app import create_app
from jobs import reconciler, submitter
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from ledger.log_fields import ALLOWED
from ledger.seals import SealVerifier
from ledger.tracing import trace_id
from sandbox.client import Running, running
from tests import lives
from tests.refunds import as_administrator, creates, make_due, paid_order, refunds_at, worker_at
from tests.refunds import proposed as proposed_refund
from tests.stack import Stack
from tests.web.conftest import COOKIE_KEY, ORIGIN, web_settings
from tests.web.desk import Desk
from tests.web.pages import Browser
from tests.world import PASSWORD, World

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("provider")
    with running(folder / "provider.sqlite", secret_key="sk_test_MARKEDSECRET") as process:
        yield process


@pytest.fixture
def desk(stack: Stack, world: World, quick_hashing: None) -> Iterator[Desk]:
    hooks = {world.slug: ("whsec_MARKEDSECRETMARKEDSECRET",)}
    app = create_app(web_settings(stack, cancel_window_seconds=0, webhook_secrets=hooks))
    yield Desk(stack, world, lambda: Browser(app, ORIGIN))
    app.extensions["onceback"].engine.dispose()


@contextmanager
def worker_of(desk: Desk, provider: Running) -> Iterator[Worker]:
    app: Flask = desk.at(desk.world.priya).client.application
    with worker_at(desk.stack, provider, desk.world, consistency_seconds=0) as worker:
        worker.verifier = SealVerifier([app.extensions["onceback"].sealer.public_text()])
        worker.gateway = StripeGateway(worker.gateway._keys, provider.base_url, 1, 1.0)
        yield worker


def lines(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def approve(desk: Desk, provider: Running, **headers: str) -> Any:
    one = proposed_refund(desk.stack, desk.world, provider)
    form = desk.confirm(desk.world.tobias, one.intent_id)
    answer = desk.at(desk.world.tobias).ask("POST", form.action, data=form.values, headers=headers)
    assert answer.status_code == 303
    return one


def test_a_callers_trace_reaches_the_provider_and_every_line_of_the_log(
    desk: Desk, provider: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    provider.reset()
    one = approve(desk, provider, traceparent=SENT)
    (kept,) = as_administrator(desk.stack, "SELECT trace FROM outbox WHERE intent_id = %s", one.intent_id)
    assert trace_id(kept["trace"]) == TRACE
    assert kept["trace"] != SENT
    provider.fault("lose_reply", path="/v1/refunds")
    with worker_of(desk, provider) as worker:
        submitter.run_once(worker)
        make_due(desk.stack)
        reconciler.run_once(worker)

    calls = [call for call in provider.requests(path="/v1/refunds") if call["trace"]]
    assert [call["method"] for call in calls] == ["POST", "GET"]
    assert {trace_id(call["trace"]) for call in calls} == {TRACE}
    assert len({call["trace"] for call in calls} | {kept["trace"]}) == 3
    hops = {line["event"]: line for line in lines(capsys.readouterr().out) if line.get("trace") == TRACE}
    assert set(hops) >= {"approved", "claimed", "sent", "found"}
    assert hops["found"]["state"] == "succeeded"
    for hop in ("approved", "claimed", "sent", "found"):
        found = hops[hop]
        assert (found["intent"], found["key"]) == (str(one.intent_id), one.key)
    assert refunds_at(provider, one) == 1


@pytest.mark.parametrize(
    "sent", ["", "nonsense", SENT.upper(), f"00-{'0' * 32}-00f067aa0ba902b7-01", f"ff-{TRACE}-00f067aa0ba902b7-01",
             SENT + "-more", "00-" + "4" * 600, f"00-{TRACE}-{'0' * 16}-01"],
)  # fmt: skip
def test_a_trace_that_is_none_is_replaced_by_one_of_ours(desk: Desk, provider: Running, sent: str) -> None:
    one = approve(desk, provider, traceparent=sent)
    (kept,) = as_administrator(desk.stack, "SELECT trace FROM outbox WHERE intent_id = %s", one.intent_id)
    assert len(kept["trace"]) == 55
    assert trace_id(kept["trace"]) not in ("", TRACE, "0" * 32)


def test_a_whole_life_with_its_failures_writes_no_secret_and_nothing_of_the_customer(
    desk: Desk, provider: Running, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S74: everything that the web process, the worker and their libraries print, searched for marked values."""
    provider.reset()
    world, stack = desk.world, desk.stack
    marked = {"name": "Marked Customer", "email": "marked.customer@example.org", "note": "marked note of a person",
              "title": "Marked product", "text": "marked text of a customer", "card": "4242424242424242"}  # fmt: skip
    as_administrator(stack, "UPDATE customers SET name = %s, email = %s", marked["name"], marked["email"])
    as_administrator(stack, "UPDATE order_lines SET title = %s", marked["title"])
    order = paid_order(stack, world, provider)
    lives.open_case(stack, world, order_ref=order.external_ref, customer_text=marked["text"])
    # Signing in with a wrong and a right password, a wrong token, a forged hook, an unknown page, a broken query.
    stranger = Browser(desk.at(world.priya).client.application, ORIGIN)
    stranger.get("/sign-in")
    stranger.submit(
        stranger.shown.form("/sign-in"), status=422, email=world.mara.email, password="Marked wrong password"
    )
    stranger.ask("GET", "/nowhere?q=marked-query")
    stranger.ask(
        "POST", "/api/v1/returns", json={}, headers={"Authorization": f"Bearer {world.chat.text[:-4]}XXXX"}, site=None
    )
    forged = {"Stripe-Signature": "t=1,v1=markedsignature", "Content-Type": "application/json"}
    stranger.ask("POST", f"/hooks/stripe/{world.slug}", data=b'{"marked": "body"}', headers=forged, site=None)
    desk.at(world.priya).ask("GET", desk.url("/queue/?q=marked.customer@example.org"))
    form = desk.confirm(world.tobias, proposed_refund(stack, world, provider).intent_id)
    with monkeypatch.context() as broken:
        broken.setattr("console.confirm.approve", _raises(marked))
        desk.at(world.tobias).send(form, note=f"{marked['note']} {marked['card']}")
    one = approve(desk, provider)
    for fault in ("error_500_after", "garbage_200", "unauthorized"):
        provider.fault(fault, path="/v1/refunds")
    with worker_of(desk, provider) as worker:
        for _ in range(4):
            submitter.run_once(worker)
            make_due(stack)
            reconciler.run_once(worker)
    session = desk.at(world.tobias).client.get_cookie("__Host-onceback", domain="console.example")
    assert session is not None

    printed = "".join(capfd.readouterr())
    assert {"approved", "sent", "unexpected", "api_refused", "hook_refused", "sign_in_refused"} <= {
        line["event"] for line in lines(printed)
    }
    hidden = [*marked.values(), PASSWORD, "Marked wrong password", "MARKEDSECRET", COOKIE_KEY, "markedsignature", "marked-query",
              '"marked"', world.chat.secret, form.values["csrf_token"], session.value, world.mara.email]  # fmt: skip
    assert [value for value in hidden if value in printed] == []
    assert {key for line in lines(printed) for key in line} <= ALLOWED
    assert refunds_at(provider, one) <= 1
    assert len(creates(provider)) >= 1


def _raises(marked: dict[str, str]) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"{marked['name']} {marked['card']} {secrets.token_hex(4)}")

    return fail
