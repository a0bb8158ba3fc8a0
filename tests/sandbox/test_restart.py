"""What was answered outlives kill -9 of the sandbox: money, keys, events owed, faults queued, clock."""

import ast
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
import stripe

from sandbox.__main__ import main
from sandbox.client import Running, SandboxRefusedError, running
from tests.sandbox.shop import CheckedClient, Shop, refused, stripe_client


def shop_at(sandbox: Running) -> Shop:
    return Shop(stripe_client(sandbox.base_url, sandbox.secret_key, CheckedClient()), sandbox)


def test_money_keys_faults_and_clock_outlive_a_kill(tmp_path: Path) -> None:
    db = tmp_path / "provider.sqlite"
    with running(db) as first:
        shop = shop_at(first)
        payment = shop.pay(1000)
        made = shop.refund(payment, 300, "kept", metadata={"intent": "I-1"})
        assert refused(shop.refund, payment, 5000, "kept-400").http_status == 400
        first.set_webhook("http://127.0.0.1:9/away", "whsec_x")
        shop.refund(payment, 50)
        first.fault("error_503", path="/v1/refunds", count=1)
        first.advance(3600)
        clock = first.now()
        first.kill()
    with running(db) as second:
        shop = shop_at(second)
        assert 0 <= second.now() - clock < 30
        assert second.money(payment.id)["refunded"] == 350
        assert refused(shop.refund, payment, 300, "kept", metadata={"intent": "I-1"}).http_status == 503
        again = shop.refund(payment, 300, "kept", metadata={"intent": "I-1"})
        assert (again.id, again.last_response.headers["Idempotent-Replayed"]) == (made.id, "true")
        assert (refused(shop.refund, payment, 5000, "kept-400").headers or {})["Idempotent-Replayed"] == "true"
        assert {one["type"] for one in second.deliveries()} == {"refund.created", "charge.refunded"}
        assert second.money(payment.id)["refunded"] == 350


def test_a_kill_among_many_calls_loses_none_that_was_answered_and_doubles_none(tmp_path: Path) -> None:
    db = tmp_path / "provider.sqlite"
    answered: dict[str, str] = {}
    with running(db) as first:
        payments = first.create_payments([{"amount": 1000, "currency": "gbp"}] * 400)

        def work(mine: list[dict[str, Any]]) -> None:
            shop = shop_at(first)
            for payment in mine:
                key = payment["payment_intent"]
                params = {"payment_intent": key, "amount": 100}
                try:
                    answered[key] = shop.v1.refunds.create(params, {"idempotency_key": key}).id
                except stripe.APIConnectionError:
                    return

        threads = [threading.Thread(target=work, args=(payments[number::4],)) for number in range(4)]
        for thread in threads:
            thread.start()
        while len(answered) < 60:
            pass
        first.kill()
        for thread in threads:
            thread.join()
    assert 60 <= len(answered) < 400
    with running(db) as second:
        shop = shop_at(second)
        for payment in payments:
            key = payment["payment_intent"]
            made = shop.v1.refunds.create({"payment_intent": key, "amount": 100}, {"idempotency_key": key})
            assert answered.get(key, made.id) == made.id
        assert second.totals()["gbp"]["refunds"] == 400
        assert second.totals()["gbp"]["refunded"] == 40_000
    assert sqlite3.connect(db).execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_call_cut_off_by_the_kill_left_nothing_and_its_key_works(tmp_path: Path) -> None:
    db = tmp_path / "provider.sqlite"
    with running(db) as first:
        payment = first.create_payment(1000)
        first.fault("delay_before", ms=5000, path="/v1/refunds")
        errors: list[stripe.StripeError] = []
        params = {"payment_intent": payment["payment_intent"], "amount": 100}
        shop = shop_at(first)
        cut = threading.Thread(
            target=lambda: errors.append(refused(shop.v1.refunds.create, params, {"idempotency_key": "k"}))
        )
        cut.start()
        while not first.requests(path="/v1/refunds"):
            pass
        first.kill()
        cut.join()
        assert isinstance(errors[0], stripe.APIConnectionError)
    with running(db) as second:
        assert second.money(payment["payment_intent"])["refunds"] == []
        made = shop_at(second).v1.refunds.create(params, {"idempotency_key": "k"})
        assert "Idempotent-Replayed" not in made.last_response.headers


def test_a_plain_stop_keeps_everything_in_one_file(tmp_path: Path) -> None:
    db = tmp_path / "provider.sqlite"
    with running(db) as first:
        payment = first.create_payment(1000)
        shop_at(first).v1.payment_intents.retrieve(payment["payment_intent"])
    assert first.process.returncode == 0
    with running(db) as second:
        assert second.money(payment["payment_intent"])["captured"] == 1000
        assert [call["method"] for call in second.requests()] == ["GET"]


def test_a_second_sandbox_on_the_same_file_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path / "provider.sqlite"):
        with pytest.raises(SandboxRefusedError):
            Running(tmp_path / "provider.sqlite")
        assert "Another sandbox already runs on this file" in capfd.readouterr().err


def test_the_sandbox_knows_nothing_of_the_product() -> None:
    own = Path(__file__).parents[2]
    foreign = {"ledger", "console", "jobs", "app", "settings", "demo", "flask", "sqlalchemy", "stripe"}
    for file in sorted((own / "sandbox").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & foreign, file


@pytest.mark.parametrize("port", ["high", "70000", "-1"])
def test_a_port_that_is_none_is_refused_in_words(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([f"--port={port}"])
    assert f"{port} is no port; give a number from 0 to 65535" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path / "one.sqlite") as first:
        with pytest.raises(SandboxRefusedError):
            Running(tmp_path / "two.sqlite", port=first.port)
        assert f"cannot listen on port {first.port}" in capfd.readouterr().err
