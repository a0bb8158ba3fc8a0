"""S65, S66: a hook is believed by nothing but its signature, and then it is only a hint."""

import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from pydantic import SecretStr
from stripe import WebhookSignature
from werkzeug.test import TestResponse

from tests.api.web import web_app
from tests.stack import Server, Stack, fresh_stack
from tests.world import World, build_world

SECRETS = {"harbour": ("whsec_harbour_new", "whsec_harbour_old"), "northwind": ("whsec_northwind",)}
REFUSED = b"This hook was not accepted.\n"


@pytest.fixture(scope="module")
def stack(server: Server) -> Iterator[Stack]:
    """One database for this file: its hooks are taken away after each test."""
    with fresh_stack(server) as made:
        yield made


@pytest.fixture(scope="module")
def world(stack: Stack) -> World:
    return build_world(stack)


@pytest.fixture(scope="module")
def northwind(stack: Stack) -> World:
    return build_world(stack, "northwind")


@pytest.fixture
def app(stack: Stack, world: World, northwind: World) -> Iterator[Flask]:
    assert {world.slug, northwind.slug} == set(SECRETS)
    yield web_app(stack, webhook_secrets={slug: tuple(map(SecretStr, texts)) for slug, texts in SECRETS.items()})
    with stack.admin() as admin:
        admin.execute("TRUNCATE provider_events")
        admin.execute("UPDATE deployment SET livemode = false")
        admin.execute("UPDATE provider_accounts SET account_ref = ''")


def event(**changes: Any) -> bytes:
    """A refund changed at the provider."""
    refund = {"id": "re_1", "object": "refund", "payment_intent": "pi_A-20417_card", "status": "succeeded",
              "billing_details": {"name": "Ilse Brandt"}}  # fmt: skip
    usual = {"id": "evt_1", "object": "event", "type": "refund.updated", "created": 1_796_000_000, "livemode": False,
             "data": {"object": refund}}  # fmt: skip
    return json.dumps({**usual, **changes}).encode()


def signed(content: bytes, secret: str = "whsec_harbour_new", at: float | None = None) -> str:
    return str(WebhookSignature.generate_signature_header(content.decode(), secret, int(at or time.time())))


def send(app: Flask, content: bytes, signature: Any, shop: str = "harbour", **more: Any) -> TestResponse:
    headers = [("Content-Type", more.pop("kind", "application/json; charset=utf-8"))]
    headers += [("Stripe-Signature", text) for text in ([signature] if isinstance(signature, str) else signature)]
    return app.test_client().post(f"/hooks/stripe/{shop}", data=content, headers=headers, **more)


def kept(stack: Stack) -> list[Any]:
    with stack.admin() as admin:
        return admin.execute(
            "SELECT m.slug, e.event_ref, e.kind, e.object_ref, e.payment_intent_ref, e.body_digest"
            " FROM provider_events e JOIN merchants m ON m.id = e.merchant_id ORDER BY 1, 2"
        ).fetchall()


def refused(answer: TestResponse) -> bool:
    return answer.status_code == 400 and answer.get_data() == REFUSED


def test_a_signed_event_is_kept_as_a_hint_without_its_body(app: Flask, stack: Stack) -> None:
    content = event()
    assert send(app, content, signed(content)).status_code == 200
    digest = hashlib.sha256(content).digest()
    assert kept(stack) == [("harbour", "evt_1", "refund.updated", "re_1", "pi_A-20417_card", digest)]
    with stack.admin() as admin:
        row = admin.execute("SELECT to_jsonb(e)::text FROM provider_events e").fetchone()
    assert "Ilse" not in str(row)


@pytest.mark.parametrize("configured", [{}, {"harbour": ()}])
@pytest.mark.parametrize("secret", ["", " ", "whsec_", "whsec_harbour_new"])
def test_a_shop_without_a_secret_takes_no_event_signed_with_nothing(
    app: Flask, stack: Stack, configured: dict[str, tuple[str, ...]], secret: str
) -> None:
    """B137, beside a process that does not start with an empty one. Where the shop has that secret it is taken (control)."""
    content = event()
    without = web_app(stack, webhook_secrets={slug: tuple(map(SecretStr, texts)) for slug, texts in configured.items()})
    assert refused(send(without, content, signed(content, secret)))
    assert kept(stack) == []
    assert send(app, content, signed(content, "whsec_harbour_new")).status_code == 200
    assert len(kept(stack)) == 1


def test_a_replayed_event_is_one_row_and_still_accepted(app: Flask, stack: Stack) -> None:
    content = event()
    assert [send(app, content, signed(content, at=time.time() - n)).status_code for n in range(3)] == [200, 200, 200]
    assert len(kept(stack)) == 1


def test_both_secrets_hold_while_one_is_rolled(app: Flask, stack: Stack) -> None:
    content = event()
    assert send(app, content, signed(content, "whsec_harbour_old")).status_code == 200
    now = int(time.time())
    new, old = (signed(content, secret, now).partition(",v1=")[2] for secret in SECRETS["harbour"])
    other = event(id="evt_2")
    assert refused(send(app, other, f"t={now},v1={new},v1={old}"))
    again = [signed(other, secret, now).partition(",v1=")[2] for secret in ("whsec_retired", "whsec_harbour_old")]
    assert send(app, other, f"t={now},v1={again[0]},v1={again[1]},v0={'0' * 64}").status_code == 200
    assert len(kept(stack)) == 2


@pytest.mark.parametrize("seconds", [-301, 301, -86_400, 365 * 86_400])
def test_a_time_too_far_away_is_refused_both_ways(app: Flask, stack: Stack, seconds: int) -> None:
    content = event()
    assert refused(send(app, content, signed(content, at=time.time() + seconds)))
    assert kept(stack) == []


@pytest.mark.parametrize("seconds", [-290, 290])
def test_a_time_within_five_minutes_is_taken(app: Flask, seconds: int) -> None:
    content = event()
    assert send(app, content, signed(content, at=time.time() + seconds)).status_code == 200


def test_another_merchants_secret_opens_nothing(app: Flask, stack: Stack) -> None:
    content = event()
    assert refused(send(app, content, signed(content, "whsec_northwind")))
    assert refused(send(app, content, signed(content), "northwind"))
    assert refused(send(app, content, signed(content), "nobody"))
    assert refused(send(app, content, signed(content, "whsec_of_nobody"), "nobody"))
    assert kept(stack) == []
    assert send(app, content, signed(content, "whsec_northwind"), "northwind").status_code == 200
    assert [row[0] for row in kept(stack)] == ["northwind"]


def test_live_events_do_not_reach_a_test_deployment_nor_test_events_a_live_one(app: Flask, stack: Stack) -> None:
    live = event(livemode=True)
    assert refused(send(app, live, signed(live)))
    with stack.admin() as admin:
        admin.execute("UPDATE deployment SET livemode = true")
    test = event()
    assert refused(send(app, test, signed(test)))
    assert send(app, live, signed(live)).status_code == 200
    assert [row[1] for row in kept(stack)] == ["evt_1"]


def test_an_event_of_another_account_is_refused(app: Flask, stack: Stack, world: World) -> None:
    named = event(account="acct_harbour")
    assert refused(send(app, named, signed(named)))
    with stack.admin() as admin:
        admin.execute(
            "UPDATE provider_accounts SET account_ref = 'acct_harbour' WHERE merchant_id = %s", [world.merchant_id]
        )
    foreign = event(account="acct_northwind")
    assert refused(send(app, foreign, signed(foreign)))
    assert refused(send(app, event(account={"id": 1}), signed(event(account={"id": 1}))))
    assert kept(stack) == []
    assert send(app, named, signed(named)).status_code == 200


@pytest.mark.parametrize(
    "kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""]
)
def test_a_form_typed_body_is_refused(app: Flask, stack: Stack, kind: str) -> None:
    content = event()
    assert refused(send(app, content, signed(content), kind=kind))
    assert kept(stack) == []


def test_more_signatures_than_secrets_can_have_are_refused(app: Flask, stack: Stack) -> None:
    content = event()
    header = signed(content)
    mark = header.partition(",")[2]
    assert refused(send(app, content, header + f",{mark}" * 8))
    assert refused(send(app, content, header.partition(",")[0] + ",v1=" + "0" * 64 + f",{mark}" * 3))
    assert kept(stack) == []


def test_two_signature_headers_are_refused_even_when_both_are_good(app: Flask, stack: Stack) -> None:
    content = event()
    assert refused(send(app, content, [signed(content), signed(content)]))
    assert refused(send(app, content, [signed(content), "t=1,v1=" + "0" * 64]))
    assert kept(stack) == []


@pytest.mark.parametrize(
    "header", ["", "t=1", "v1=" + "a" * 64, "t=x,v1=" + "a" * 64, "t=1,v1=short", "t=1," + "x" * 5000]
)
def test_a_header_of_another_form_is_refused(app: Flask, header: str) -> None:
    assert refused(send(app, event(), header))


def test_a_body_above_the_limit_is_refused_before_it_is_read(app: Flask, stack: Stack) -> None:
    content = event(padding="x" * (256 * 1024))
    assert refused(send(app, content, signed(content)))
    assert kept(stack) == []
    fits = event(padding="x" * (255 * 1024))
    assert send(app, fits, signed(fits)).status_code == 200


def test_an_edited_body_is_refused(app: Flask, stack: Stack) -> None:
    content = event()
    assert refused(send(app, content.replace(b"re_1", b"re_2"), signed(content)))
    assert refused(send(app, content + b" ", signed(content)))
    assert kept(stack) == []


@pytest.mark.parametrize(
    "content",
    [
        b"not json", b"[]", b"{}", b'{"object": "event"}', event(livemode="false"), event(livemode=None), event(object="refund"),
        event(data={}), event(data={"object": []}), event(id=""), event(id="x" * 81), event(id=7), event(created="now"),
        event(created=-1), event(type=None), event(data={"object": {"id": "re_1", "payment_intent": 7}}), b"[" * 5000,
    ],
)  # fmt: skip
def test_a_signed_body_that_is_no_event_is_refused(app: Flask, stack: Stack, content: bytes) -> None:
    assert refused(send(app, content, signed(content)))
    assert kept(stack) == []


def test_events_about_payments_charges_and_disputes_name_their_payment(app: Flask, stack: Stack) -> None:
    for number, about in enumerate([
        {"id": "pi_9", "object": "payment_intent"}, {"id": "ch_9", "object": "charge", "payment_intent": "pi_9"},
        {"id": "dp_9", "object": "dispute", "payment_intent": {"id": "pi_9"}}, {"id": "po_9", "object": "payout"},
    ]):  # fmt: skip
        content = event(id=f"evt_{number}", data={"object": about})
        assert send(app, content, signed(content)).status_code == 200
    assert [row[4] for row in kept(stack)] == ["pi_9", "pi_9", "pi_9", ""]


def test_only_a_post_is_a_hook(app: Flask) -> None:
    for method in ("GET", "PUT", "OPTIONS", "DELETE"):
        assert app.test_client().open("/hooks/stripe/harbour", method=method).status_code == 405
