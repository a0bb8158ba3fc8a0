"""One refund's whole life through the pages: counter, bench, queue, case, confirm, receipt; real worker, real provider.

It ends by asking the database and the provider how many decisions, keys and refunds there are (CONSOLE, "QA").
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from flask import Flask
from pydantic import SecretStr

from app import create_app
from jobs import submitter
from jobs.liveness import Liveness
from jobs.stripe_gateway import StripeGateway
from jobs.worker import Worker
from ledger.database import connect
from ledger.seals import SealVerifier
from sandbox.client import Running
from tests.refunds import paid_order
from tests.stack import Stack
from tests.web.conftest import ORIGIN, web_settings
from tests.web.desk import Desk
from tests.web.pages import Browser
from tests.world import World


@pytest.fixture
def desk(stack: Stack, world: World, quick_hashing: None) -> Iterator[Desk]:
    """Harbour's desks, where an approved refund may leave at once."""
    app = create_app(web_settings(stack, cancel_window_seconds=0))
    yield Desk(stack, world, lambda: Browser(app, ORIGIN))
    app.extensions["onceback"].engine.dispose()


@contextmanager
def worker_of(desk: Desk, sandbox: Running, app: Flask) -> Iterator[Worker]:
    """A worker that knows the public half of this web process's seal."""
    engine = connect(desk.stack.worker_url, pool_size=6, name="test-jobs")
    gateway = StripeGateway({desk.world.slug: SecretStr(sandbox.secret_key)}, sandbox.base_url, 1, 5.0)
    verifier = SealVerifier([app.extensions["onceback"].sealer.public_text()])
    with (
        Liveness(desk.stack.worker_url) as liveness,
        Worker(engine, gateway, liveness, verifier, in_flight=2) as worker,
    ):
        yield worker
    engine.dispose()


def test_a_return_from_the_counter_to_paid_and_nothing_twice(desk: Desk, sandbox: Running) -> None:
    world, app = desk.world, desk.at(desk.world.priya).client.application
    order = paid_order(desk.stack, world, sandbox)
    priya, tobias = desk.at(world.priya), desk.at(world.tobias)

    page = priya.get(desk.url("/counter/"), query_string={"q": order.external_ref})
    page = priya.get(next(link for link in page.links if "/counter/orders/" in link))
    opening = page.form("/counter/orders/")
    for _ in range(2):
        priya.submit(opening, quantity_1="2", reason="size")
    case = desk.rows("SELECT case_id, number FROM cases WHERE merchant_id = :m")
    assert len(case) == 1

    page = priya.get(desk.url("/goods-in/"), query_string={"q": f"C-{case[0]['number']}"})
    page = priya.get(next(link for link in page.links if "/goods-in/" in link and str(case[0]["case_id"]) in link))
    arrival = page.form("/goods-in/")
    for _ in range(2):
        priya.submit(arrival, received_1="2", grade_1_0="A", grade_1_1="A")

    page = tobias.get(desk.url("/queue/?view=ready"))
    page = tobias.get(next(link for link in page.links if "/cases/" in link))
    page = tobias.get(next(link for link in page.links if link.endswith("/approval")))
    sheet = page.form("/approval")
    first = tobias.submit(sheet)
    assert "Refund approved" in first.text
    assert "already approved, by you" in tobias.submit(sheet).text

    with worker_of(desk, sandbox, app) as worker:
        assert submitter.run_once(worker)["confirmed"] == 1
        assert submitter.run_once(worker)["claimed"] == 0
    receipt = tobias.get(tobias.path)
    assert "Refund paid" in receipt.text
    assert "is paid. Your bank may need some days" in receipt.text
    assert "closed" in tobias.get(desk.case(case[0]["case_id"])).text

    intent = desk.rows("SELECT * FROM intents WHERE merchant_id = :m AND state <> 'withdrawn'")
    assert [(row["state"], row["amount_minor"]) for row in intent] == [("succeeded", 4980)]
    assert desk.count("approvals") == desk.count("attempts") == desk.count("outbox") == 1
    refunds = sandbox.money(intent[0]["payment_intent_ref"])["refunds"]
    assert [refund["amount"] for refund in refunds] == [4980]
    assert refunds[0]["id"] == intent[0]["provider_refund_ref"]

    again = priya.submit(priya.get(desk.url(f"/counter/orders/{order.order_id}")).form("/counter/orders/"), status=409,
                         quantity_1="2", reason="size")  # fmt: skip
    assert "only 1 of 3 left" in again.text
    assert "Units 1 and 2 were refunded on" in again.text
    assert f"by Tobias Renk, reference R-{intent[0]['number']}." in again.text
    assert len(desk.rows("SELECT 1 FROM cases WHERE merchant_id = :m")) == 1
