"""A return that pays itself, over HTTP: the chat asks, the warehouse reports, nobody presses a button; and every page says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.exc import OperationalError
from werkzeug.test import TestResponse

from app import create_app
from jobs import submitter
from jobs.worker import Worker
from ledger.seals import SealVerifier, new_key
from sandbox.client import Running
from tests import lives
from tests.automatic import generous
from tests.orders import Order
from tests.refunds import as_administrator, paid_order, worker_at
from tests.stack import Stack
from tests.web.conftest import ORIGIN, web_settings
from tests.web.desk import Desk
from tests.web.pages import Browser
from tests.world import Token, World

ROOM = {"automatic": {"GBP": {"most_minor": 2500, "day_minor": 4000}}}


@pytest.fixture
def world(stack: Stack) -> World:
    """A shop whose policy has room for one small refund a day."""
    return generous(stack, policy=ROOM)


@pytest.fixture
def app(stack: Stack, world: World, quick_hashing: None, tmp_path: Path) -> Iterator[Flask]:
    """A web process that holds the policies' key and is told of the switch outside the database."""
    made = create_app(web_settings(
        stack, automatic_seal_key=new_key("automatic-test"), cancel_window_seconds=0, pause_file=tmp_path / "pause"
    ))  # fmt: skip
    yield made
    made.extensions["onceback"].engine.dispose()


@pytest.fixture
def desk(stack: Stack, world: World, app: Flask) -> Desk:
    return Desk(stack, world, lambda: Browser(app, ORIGIN))


@pytest.fixture
def worker(stack: Stack, world: World, sandbox: Running, app: Flask) -> Iterator[Worker]:
    process = app.extensions["onceback"]
    with worker_at(stack, sandbox, world) as made:
        made.verifier = SealVerifier([process.sealer.public_text()], [process.policy_sealer.public_text()])
        yield made


def post(app: Flask, token: Token, path: str, key: str, body: dict[str, Any]) -> TestResponse:
    return app.test_client(use_cookies=False).post(
        f"/api/v1{path}", base_url=ORIGIN, json=body,
        headers={"Authorization": f"Bearer {token.text}", "Idempotency-Key": key},
    )  # fmt: skip


def asked(app: Flask, world: World, order: Order) -> str:
    """The chat, which verified the customer, asks to return one T-shirt."""
    talk = {"reference": f"talk-{order.external_ref}", "customer_verified": "signed_in"}
    body = {
        "order": order.external_ref,
        "lines": [{"line": "TEE", "quantity": 1}],
        "reason": "size",
        "conversation": talk,
    }
    answer = post(app, world.chat, "/returns", f"ask-{order.external_ref}", body)
    assert answer.status_code == 201, answer.text
    return str(answer.get_json()["case"])


def reported(app: Flask, world: World, case: str) -> TestResponse:
    """The warehouse says that it is here, always under the same key."""
    grades = [{"grade": "A", "units": 1}]
    return post(
        app, world.warehouse, "/receipts", f"receipt-{case}",
        {"case": case, "lines": [{"line": "TEE", "received": 1, "grades": grades}]},
    )  # fmt: skip


def refunds(sandbox: Running) -> int:
    """How many the provider made of all payments."""
    return sum(sums["refunds"] for sums in sandbox.totals().values())


def approvals(stack: Stack) -> list[str]:
    return [row["approver"] for row in as_administrator(stack, "SELECT approver FROM approvals ORDER BY approved_at")]


def test_a_verified_customers_small_return_is_paid_when_the_warehouse_reports_it_and_the_next_waits(
    desk: Desk, app: Flask, sandbox: Running, worker: Worker
) -> None:
    stack, world = desk.stack, desk.world
    order, later = (paid_order(stack, world, sandbox) for _ in range(2))
    case = asked(app, world, order)
    for _ in range(3):
        assert reported(app, world, case).status_code == 201
    assert approvals(stack) == ["policy:harbour-usual@1"]
    submitter.run_once(worker)
    (row,) = desk.rows("SELECT * FROM intents WHERE merchant_id = :m")
    assert (row["state"], refunds(sandbox)) == ("succeeded", 1)
    assert sandbox.money(row["payment_intent_ref"])["refunded"] == 2490

    named = "policy The usual terms, version 1, rule automatic"
    mara = desk.at(desk.world.mara)
    page = mara.get(desk.case(row["case_id"]))
    assert page.text.count(named) == 2
    assert "Approved by" in page.text
    assert named in mara.get(desk.refund(row["intent_id"])).text
    assert "without a person" in mara.get(desk.refund(row["intent_id"])).text
    assert "Policy" in mara.get(desk.url("/queue/?view=every")).text
    assert named in mara.get(desk.url("/cap/")).text
    brakes = mara.get(desk.url("/brakes/")).text
    assert "24.90 GBP in 1" in brakes
    assert "40.00 GBP" in brakes

    waits = asked(app, world, later)
    assert reported(app, world, waits).status_code == 201
    submitter.run_once(worker)
    (row,) = desk.rows("SELECT * FROM intents WHERE merchant_id = :m AND state = 'proposed'")
    page = mara.get(desk.case(row["case_id"]))
    assert "The day's automatic limit is used up" in page.text
    assert "is left to a person: the day's automatic limit is used up" in page.text
    assert refunds(sandbox) == 1
    mara.submit(desk.confirm(world.mara, row["intent_id"]))
    submitter.run_once(worker)
    assert (refunds(sandbox), approvals(stack)[1]) == (2, world.mara.actor)


def test_a_web_process_that_died_before_it_approved_goes_on_when_the_warehouse_asks_again(
    desk: Desk, app: Flask, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = asked(app, desk.world, paid_order(desk.stack, desk.world, sandbox))
    with monkeypatch.context() as dying:
        dying.setattr("console.api.reports.after_evidence", lambda *_: None)
        assert reported(app, desk.world, case).status_code == 201
    assert approvals(desk.stack) == []
    assert reported(app, desk.world, case).status_code == 201
    assert approvals(desk.stack) == ["policy:harbour-usual@1"]
    submitter.run_once(worker)
    (row,) = desk.rows("SELECT * FROM intents WHERE merchant_id = :m")
    assert len(sandbox.money(row["payment_intent_ref"])["refunds"]) == 1


def test_a_clerk_who_did_not_open_the_return_reports_it_at_the_bench_and_it_pays_itself(
    desk: Desk, app: Flask, sandbox: Running
) -> None:
    case = asked(app, desk.world, paid_order(desk.stack, desk.world, sandbox))
    (row,) = desk.rows("SELECT case_id FROM cases WHERE merchant_id = :m")
    tobias = desk.at(desk.world.tobias)
    page = tobias.submit(
        tobias.get(desk.url(f"/goods-in/{row['case_id']}")).form("/goods-in/"), received_1="1", grade_1_0="N"
    )
    assert "Recorded what arrived." in page.text
    assert case in page.text
    assert approvals(desk.stack) == ["policy:harbour-usual@1"]


@pytest.mark.parametrize("why", ["no key", "switched off outside", "the database is away"])
def test_what_keeps_the_policy_from_approving_is_no_error_for_who_reports(
    desk: Desk, app: Flask, sandbox: Running, worker: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("", None, Exception("away"))

    match why:
        case "no key":
            object.__setattr__(app.extensions["onceback"], "policy_sealer", None)
        case "switched off outside":
            (tmp_path / "pause").touch()
        case _:
            monkeypatch.setattr("console.automatic.approve_by_policy", away)
    case = asked(app, desk.world, paid_order(desk.stack, desk.world, sandbox))
    assert reported(app, desk.world, case).status_code == 201
    submitter.run_once(worker)
    (row,) = desk.rows("SELECT state, intent_id FROM intents WHERE merchant_id = :m")
    assert (row["state"], approvals(desk.stack), refunds(sandbox)) == ("proposed", [], 0)
    if why == "no key":
        brakes = desk.at(desk.world.farah).get(desk.url("/brakes/")).text
        assert "This installation has no key for it" in brakes
    lives.approve_as(desk.stack, desk.world, desk.world.priya, row["intent_id"])
    worker.verifier = lives.verifier()
    submitter.run_once(worker)
    assert refunds(sandbox) == 1
