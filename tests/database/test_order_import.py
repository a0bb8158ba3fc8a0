"""Orders by the file: a real month counted, repeated without change, interrupted and finished, in bounded memory."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

import order_commands
from demo.provider_payments import LocalPayments
from ledger import order_import
from ledger.cases import open_return
from ledger.database import rows, transaction
from ledger.order_facts import OrderFacts
from order_commands import Report, import_orders, orders, read_entries
from sandbox.client import Running, running
from tests.engine import document, line
from tests.lives import request
from tests.shared import ROOT, shared_file
from tests.stack import Server, Stack, fresh_stack
from tests.world import World, build_world

# Everything an import writes, without the identifiers and instants it makes up.
IMPORTED = """
    SELECT to_jsonb(o) - '{order_id,customer_id,imported_at,lock_no}'::text[] AS "order",
        (SELECT jsonb_agg(to_jsonb(l) - '{line_id,order_id}'::text[] ORDER BY l.position)
            FROM order_lines l WHERE l.order_id = o.order_id) AS lines,
        (SELECT jsonb_agg(to_jsonb(c) - '{capture_id,order_id,provider_account_id}'::text[] ORDER BY c.position)
            FROM captures c WHERE c.order_id = o.order_id) AS captures
    FROM orders o WHERE o.merchant_id = :m ORDER BY o.external_ref
"""
HALF = """
    SELECT count(*) FROM orders o
    WHERE total_minor <> (SELECT coalesce(sum(gross_minor), 0) FROM order_lines l WHERE l.order_id = o.order_id)
        OR total_minor <> (SELECT coalesce(sum(captured_minor), 0) FROM captures c WHERE c.order_id = o.order_id)
"""
SMALL = "SELECT count(*), count(DISTINCT external_ref) FROM orders WHERE external_ref LIKE 'S-%'"
SMALL_LINES = "SELECT count(*) FROM order_lines l JOIN orders o USING (order_id) WHERE o.external_ref LIKE 'S-%'"


@pytest.fixture(scope="module")
def month() -> Path:
    return shared_file("data", "online-retail-2010-12.csv")


@pytest.fixture(scope="module")
def kept(server: Server) -> Iterator[Stack]:
    """A database for the tests that only read what the month left."""
    with fresh_stack(server) as made:
        yield made


@pytest.fixture(scope="module")
def shop(kept: Stack) -> World:
    return build_world(kept)


@pytest.fixture(scope="module")
def imported(kept: Stack, shop: World, month: Path) -> Report:
    """The real month, imported once."""
    return take(kept.console, shop, month)


def take(engine: Engine, world: World, path: Path, name: str = "online-retail", payments: Any = None) -> Report:
    with path.open("rb") as file:
        return import_orders(engine, world.merchant_id, read_entries(file, name), Report(), payments)


def written(stack: Stack, world: World) -> list[dict[str, Any]]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [dict(row) for row in rows(db, IMPORTED, m=world.merchant_id)]


def counted_by_hand(month: Path) -> tuple[int, int, int]:
    """Sales, their lines, and their money in pence, by the csv module alone."""
    invoices: dict[str, int] = {}
    lines = 0
    with month.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            quantity = int(float(row["Quantity"]))
            if row["InvoiceNo"].isdigit() and quantity > 0:
                pounds, _, parts = row["UnitPrice"].partition(".")
                pence = int(pounds) * 10**8 + int(parts.ljust(8, "0"))
                earlier = invoices.get(row["InvoiceNo"], 0)
                invoices[row["InvoiceNo"]] = earlier + (2 * pence * quantity + 10**6) // (2 * 10**6)
                lines += 1
    return len(invoices), lines, sum(invoices.values())


def test_a_real_month_is_counted_to_the_line_and_the_penny(
    imported: Report, kept: Stack, shop: World, month: Path
) -> None:
    invoices, lines, pence = counted_by_hand(month)
    assert (imported.orders, imported.lines) == ({"created": invoices}, lines) == ({"created": 1629}, 41_683)
    with transaction(kept.console, shop.merchant_id, read_only=True) as db:
        (sums,) = rows(
            db, "SELECT count(*) AS orders, sum(total_minor)::bigint AS pence, (SELECT count(*) FROM order_lines) AS lines,"
            " (SELECT sum(gross_minor)::bigint FROM order_lines) AS gross,"
            " (SELECT sum(captured_minor)::bigint FROM captures) AS captured FROM orders",
        )  # fmt: skip
    own = shop.order.total_minor
    assert sums["orders"] == invoices + 1
    assert sums["lines"] == lines + len(shop.order.lines)
    assert sums["pence"] == sums["gross"] == sums["captured"] == pence + own


def test_every_line_of_the_month_is_accounted_for(imported: Report, month: Path) -> None:
    with month.open(encoding="utf-8") as file:
        in_file = sum(1 for _ in file) - 1
    assert imported.refusals == {"stock_correction": 70}
    assert imported.returns == 728
    assert imported.lines + imported.returns + imported.refusals.total() == in_file


def test_a_second_run_changes_nothing(imported: Report, kept: Stack, shop: World, month: Path) -> None:
    def traces() -> list[Any]:
        with kept.admin() as admin:
            return [
                admin.execute(f"SELECT count(*), sum(xmin::text::bigint) FROM {table}").fetchone()  # noqa: S608
                for table in ("orders", "order_lines", "captures", "customers", "order_conflicts")
            ]

    before = traces()
    again = take(kept.console, shop, month)
    assert again.orders == {"unchanged": imported.orders["created"]}
    assert again.lines == 0
    assert again.refusals == imported.refusals
    assert traces() == before


def test_an_import_leaves_the_same_rows_as_storing_each_order_by_itself(
    imported: Report, kept: Stack, shop: World, server: Server, month: Path
) -> None:
    from ledger.orders import store_order

    wanted = {row["order"]["external_ref"]: row for row in written(kept, shop)}
    assert len(wanted) > imported.orders["created"]
    with fresh_stack(server) as other, month.open("rb") as file:
        world = build_world(other)
        some = [entry for entry in read_entries(file, "online-retail") if isinstance(entry, OrderFacts)][:40]
        with transaction(other.console, world.merchant_id) as db:
            for facts in some:
                store_order(db, world.merchant_id, facts)
        for row in written(other, world):
            if row["order"]["external_ref"] != world.order.external_ref:
                assert without_merchant(row) == without_merchant(wanted[row["order"]["external_ref"]])


def without_merchant(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str).replace(row["order"]["merchant_id"], "the merchant")


def environment(stack: Stack, **more: str) -> dict[str, str]:
    return {**os.environ, "DATABASE_URL": stack.console_url, "ENVIRONMENT": "test", "PYTHONPATH": str(ROOT), **more}


def command(stack: Stack, *words: str, **more: str) -> subprocess.Popen[bytes]:
    """The command as a process of its own."""
    call = [sys.executable, "-m", "flask", "--app", "app", "orders", "import", *words]
    return subprocess.Popen(
        call, env=environment(stack, **more), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_a_run_killed_half_way_and_repeated_ends_as_a_clean_run(
    stack: Stack, world: World, month: Path, imported: Report, kept: Stack, shop: World
) -> None:
    words = (str(month), "--format", "online-retail", "--merchant", world.slug)
    running_import = command(stack, *words)
    half = wait_for_orders(stack, 400)
    running_import.send_signal(signal.SIGKILL)
    running_import.wait()
    assert 400 <= half < imported.orders["created"]
    with stack.admin() as admin:
        # Nothing is half there: each order has its lines and its money.
        assert admin.execute(HALF).fetchone() == (0,)
    again = command(stack, *words)
    said, _ = again.communicate(timeout=120)
    assert again.returncode == 0, said.decode()
    assert f"Orders: {imported.orders['created'] - stored_before(said)} stored".encode() in said
    ours, clean = written(stack, world), written(kept, shop)
    assert [without_merchant(row) for row in ours] == [without_merchant(row) for row in clean]


def wait_for_orders(stack: Stack, least: int) -> int:
    until = time.monotonic() + 60
    with stack.admin() as admin:
        while time.monotonic() < until:
            (found,) = admin.execute("SELECT count(*) - 1 FROM orders").fetchone() or (0,)
            if found >= least:
                return int(found)
            time.sleep(0.01)
    raise AssertionError("the import did not get that far")


def stored_before(said: bytes) -> int:
    return int(said.split(b" lines), ")[1].split(b" unchanged")[0])


def test_two_imports_of_one_merchant_at_once_are_refused_in_words(stack: Stack, world: World, tmp_path: Path) -> None:
    path = shop_file(tmp_path, 3)
    with stack.console.connect() as held:
        held.exec_driver_sql("SELECT pg_advisory_lock(%s)", (world.merchant_id.int & 0x7FFF_FFFF_FFFF_FFFF,))
        refused = call(stack, str(path), "--format", "onceback", "--merchant", world.slug)
    assert refused.exit_code == 1
    assert "Another import of this merchant is running" in refused.output


def shop_file(folder: Path, count: int, *, first: int = 1, spoil: dict[int, str] | None = None) -> Path:
    """`count` orders in the onceback format, some lines replaced."""
    spoilt = spoil or {}
    made = [spoilt.get(number) or json.dumps(small_order(number)) for number in range(first, first + count)]
    path = folder / f"orders-{first}-{count}.jsonl"
    path.write_text("\n".join(made) + "\n", encoding="utf-8")
    return path


def small_order(number: int, **changes: Any) -> dict[str, Any]:
    made = document([line(1, 1000 + number, 2)], 2 * (1000 + number), external_ref=f"S-{number}", **changes)
    made["captures"][0] |= {"payment_intent_ref": f"pi_{number}", "charge_ref": f"ch_{number}"}
    return made


def call(stack: Stack, *words: str) -> Result:
    runner = CliRunner(env=environment(stack))
    return runner.invoke(orders, ["import", *words])


def test_refused_lines_are_reported_with_number_and_reason_and_the_rest_is_taken(
    stack: Stack, world: World, tmp_path: Path
) -> None:
    spoil = {
        3: "not json",
        5: json.dumps(small_order(5) | {"total_minor": "20.10"}),
        7: json.dumps(small_order(7) | {"note": "x"}),
        9: '{"external_ref": "S-9", "external_ref": "S-10"}',
    }
    path, report = shop_file(tmp_path, 12, spoil=spoil), tmp_path / "refused.csv"
    result = call(stack, str(path), "--format", "onceback", "--merchant", world.slug, "--report", str(report))
    assert result.exit_code == 0, result.output
    assert "Orders: 8 stored (8 lines), 0 unchanged." in result.output
    assert "Lines refused: 4" in result.output
    with report.open(newline="", encoding="utf-8") as file:
        told = list(csv.DictReader(file))
    assert [row["line"] for row in told] == ["3", "5", "7", "9"]
    assert all(row["reason"] == "order_refused" for row in told)
    assert told[1]["what to do"].startswith("total_minor: ")
    assert not report.with_name("refused.csv.part").exists()


def test_one_order_that_the_ledger_refuses_costs_only_itself(stack: Stack, world: World, tmp_path: Path) -> None:
    thief = small_order(4)
    thief["captures"][0]["charge_ref"] = "ch_1"
    report = tmp_path / "refused.csv"
    path = shop_file(tmp_path, 8, spoil={4: json.dumps(thief)})
    result = call(stack, str(path), "--format", "onceback", "--merchant", world.slug, "--report", str(report))
    assert "Orders: 7 stored" in result.output
    assert "1 payment taken" in result.output
    assert list(csv.reader(io.StringIO(report.read_text())))[1][1:3] == ["S-4", "payment_taken"]
    with stack.admin() as admin:
        assert admin.execute("SELECT count(*) FROM orders WHERE external_ref = 'S-4'").fetchone() == (0,)
        assert admin.execute(SMALL_LINES).fetchone() == (7,)


def test_an_order_twice_in_one_file_is_one_order_and_with_other_money_a_conflict(
    stack: Stack, world: World, tmp_path: Path
) -> None:
    spoil = {2: json.dumps(small_order(1)), 3: json.dumps(small_order(1) | {"total_minor": 1})}
    result = call(stack, str(shop_file(tmp_path, 4, spoil=spoil)), "--format", "onceback", "--merchant", world.slug)
    assert "Orders: 2 stored (2 lines), 1 unchanged." in result.output
    assert "1 orders came with other amounts than before" in result.output
    with stack.admin() as admin:
        assert admin.execute("SELECT blocked FROM orders WHERE external_ref = 'S-1'").fetchone() == (True,)


def test_a_file_that_tells_when_orders_were_delivered_is_learnt_once_and_is_no_conflict(
    stack: Stack, world: World, tmp_path: Path
) -> None:
    def told(number: int, at: str, **changes: Any) -> str:
        made = small_order(number) | changes
        made["lines"][0]["delivered_at"] = at
        return json.dumps(made)

    def import_file(spoil: dict[int, str]) -> str:
        path = shop_file(tmp_path, 4, spoil=spoil)
        return call(stack, str(path), "--format", "onceback", "--merchant", world.slug).output

    import_file({})
    with transaction(stack.console, world.merchant_id) as db:
        case_id = open_return(db, world.merchant_id, request(world, (("L1", 1),), order_ref="S-2")).case_id
    news = {2: told(2, "2026-05-02T10:40:00Z"), 3: told(3, "2026-05-02T10:40:00Z", total_minor=1)}
    said = import_file(news)
    assert "Orders: 0 stored (0 lines), 2 unchanged." in said
    assert "1 orders came with news of their delivery" in said
    assert "1 orders came with other amounts than before" in said
    assert "Orders: 0 stored (0 lines), 3 unchanged." in import_file(news)
    # A file that leaves it out changes nothing; the newest word counts.
    assert "Orders: 0 stored (0 lines), 4 unchanged." in import_file({})
    assert "1 orders came with news" in import_file({2: told(2, "2026-05-04T08:00:00Z")})
    with stack.admin() as admin:
        rows = admin.execute("SELECT n FROM order_deliveries ORDER BY n").fetchall()
        counted = admin.execute("SELECT evidence::jsonb->'delivered' FROM entitlements WHERE case_id = %s ORDER BY n",
                                [case_id]).fetchall()  # fmt: skip
        blocked = admin.execute("SELECT external_ref FROM orders WHERE blocked").fetchall()
    assert (rows, blocked) == ([(1,), (2,)], [("S-3",)])
    assert [one for (one,) in counted] == [
        None,
        [{"at": "2026-05-02T10:40:00Z", "line_id": "L1"}],
        [{"at": "2026-05-04T08:00:00Z", "line_id": "L1"}],
    ]


def test_a_batch_in_somebodys_way_is_done_again(
    stack: Stack, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server ends the connection in the middle of a batch, twice. No word of it with what was in the batch."""
    store, losses = order_import.store_orders, [1, 1]

    def lost(db: Any, *asked: Any) -> Any:
        stored = store(db, *asked)
        if losses:
            losses.pop()
            pid = db.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            with stack.admin() as admin:
                admin.execute("SELECT pg_terminate_backend(%s)", [pid])
        return stored

    monkeypatch.setattr(order_commands, "store_orders", lost)
    report = take(stack.console, world, shop_file(tmp_path, 20), "onceback")
    assert (report.orders, losses) == ({"created": 20}, [])
    assert capfd.readouterr() == ("", "")


def test_an_order_put_while_it_is_imported_is_one_order(stack: Stack, world: World, tmp_path: Path) -> None:
    from ledger.order_document import order_facts
    from ledger.orders import store_order

    path = shop_file(tmp_path, 300)
    stop = threading.Event()

    def put() -> None:
        for number in range(300, 0, -1):
            if stop.is_set():
                return
            with transaction(stack.console, world.merchant_id) as db:
                store_order(db, world.merchant_id, order_facts(small_order(number)))

    other = threading.Thread(target=put)
    other.start()
    report = take(stack.console, world, path, "onceback")
    stop.set()
    other.join()
    assert report.orders.total() == 300
    assert report.orders["conflict"] == 0
    with stack.admin() as admin:
        assert admin.execute(SMALL).fetchone() == (300, 300)
        assert admin.execute(SMALL_LINES).fetchone() == (300,)


def test_memory_does_not_grow_with_the_file(
    stack: Stack, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_commands, "BATCH_ORDERS", 100)
    peaks = []
    for count, first in ((600, 10_000), (2_400, 20_000)):
        path = shop_file(tmp_path, count, first=first)
        take(stack.console, world, shop_file(tmp_path, 100, first=first + 5_000), "onceback")
        tracemalloc.start()
        take(stack.console, world, path, "onceback")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] / peaks[0] < 1.3


@pytest.mark.parametrize(
    ("words", "say"),
    [
        (("--format", "online-retail", "--merchant", "harbour"), "the first line lacks the column"),
        (("--format", "onceback", "--merchant", "nobody"), "There is no merchant 'nobody'"),
        (("--format", "excel", "--merchant", "harbour"), "Invalid value for '--format'"),
        (
            ("--format", "onceback", "--merchant", "harbour", "--payments", "nowhere:nothing"),
            "there is no such function",
        ),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence(
    kept: Stack, shop: World, words: tuple[str, ...], say: str, tmp_path: Path
) -> None:
    assert shop.slug == "harbour"
    result = call(kept, str(shop_file(tmp_path, 1)), *words)
    assert result.exit_code != 0
    assert say in result.output
    assert "Traceback" not in result.output


def test_text_in_the_report_is_never_a_formula(stack: Stack, world: World, tmp_path: Path) -> None:
    report = tmp_path / "refused.csv"
    path = tmp_path / "ledger.csv"
    path.write_text("InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"
                    "=HYPERLINK(1),85123A,HEART,6,2010-12-01 08:26:00,2.55,17850.0,United Kingdom\n", encoding="utf-8")  # fmt: skip
    call(stack, str(path), "--format", "online-retail", "--merchant", world.slug, "--report", str(report))
    assert list(csv.reader(io.StringIO(report.read_text())))[1][1] == "'=HYPERLINK(1)"


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "provider.sqlite") as started:
        yield started


def test_payments_are_made_once_at_the_provider_whatever_is_interrupted(
    stack: Stack, world: World, tmp_path: Path, provider: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.csv"
    lines = ["InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"]
    sale = "{},85123A,HEART,6,2010-12-01 08:26:00,2.5{},17850.0,United Kingdom"
    lines += [sale.format(number, number % 10) for number in range(1000, 1130)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(order_commands, "BATCH_ORDERS", 30)
    store, batches = order_import.store_orders, iter(range(10))

    def killed(db: Any, *asked: Any) -> Any:
        if next(batches) == 2:
            raise SystemExit
        return store(db, *asked)

    with monkeypatch.context() as broken:
        broken.setattr(order_commands, "store_orders", killed)
        with pytest.raises(SystemExit):
            take(stack.console, world, path, payments=LocalPayments(provider, stack.console, world.merchant_id))
    # Three batches were paid for, two were stored.
    assert provider.totals(provider.secret_key)["gbp"]["payments"] == 90
    finished = take(stack.console, world, path, payments=LocalPayments(provider, stack.console, world.merchant_id))
    assert finished.orders == {"created": 70, "unchanged": 60}
    assert finished.unpayable == 0
    again = take(stack.console, world, path, payments=LocalPayments(provider, stack.console, world.merchant_id))
    assert again.orders == {"unchanged": 130}
    total = provider.totals(provider.secret_key)["gbp"]
    with stack.admin() as admin:
        ours = admin.execute("SELECT count(*), sum(captured_minor) FROM captures c JOIN orders o USING (order_id)"
                             " WHERE o.external_ref ~ '^1[01]' AND c.charge_ref LIKE 'ch\\_%'").fetchone()  # fmt: skip
    assert ours == (total["payments"], total["captured"]) == (130, total["captured"])
