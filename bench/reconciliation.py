"""F15: the memory of a reconciliation run over 1,000,000 settled refunds beside that over 10,000, and rows a second.

`python -m bench.reconciliation --size 100000` measures it alone. Both sides are made here: the books by plain statements with
triggers off, the provider by a double that makes each page as it is asked for. The run is the command that people use, in a
process of its own, and its peak of resident memory is what the system says of that process when it has ended.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import psycopg
from sqlalchemy.engine import make_url

from bench.measure import Result, run_watched
from bench.work import SLUG, Bench

SMALL: Final = 10_000
LARGE: Final = 1_000_000
MARK: Final = 1.5
_AMOUNT_MINOR: Final = 2490


@dataclass(frozen=True)
class Month:
    """`count` refunds spread evenly over the days of a month; `mark` is in their ids."""

    mark: str
    since: datetime
    count: int

    @property
    def until(self) -> datetime:
        return self.since + timedelta(days=28)

    def made_at(self, number: int) -> int:
        """When a refund was made, in seconds: a day inside the month at either end, so that it lies in it in every zone."""
        return self.first_at + number * self.span_seconds // self.count

    @property
    def first_at(self) -> int:
        return int(self.since.timestamp()) + 86_400

    @property
    def span_seconds(self) -> int:
        return int((self.until - self.since).total_seconds()) - 2 * 86_400

    def intent(self, number: int) -> str:
        return f"{self.mark}0000000-0000-7000-8000-{number:012x}"


SMALL_MONTH: Final = Month("a", datetime(2026, 9, 1, tzinfo=UTC), SMALL)


def f15(bench: Bench, size: int = LARGE) -> list[Result]:
    """Peak memory of the run over `size` refunds beside that over SMALL, which is the mark; and the provider's rows a second."""
    months = (SMALL_MONTH, Month("b", datetime(2026, 10, 1, tzinfo=UTC), size))
    _seed(bench, months)
    with _double(bench.m, months) as url:
        (small, small_seconds), (large, seconds) = (_run(bench, month, url) for month in months)
    per_second, small_per_second = 2 * size / seconds, 2 * SMALL_MONTH.count / small_seconds
    few = f"a run over {SMALL_MONTH.count:,}"
    return [
        Result(f"F15 memory of a run over {size:,} refunds", large, "MiB", few, small, MARK, (large,), (small,), at_most=True),
        Result("F15 rows of the provider compared", per_second, "/s", few, small_per_second, None, (per_second,),
               (small_per_second,)),
    ]  # fmt: skip


_CAPTURE: Final = """
    INSERT INTO captures (merchant_id, capture_id, order_id, position, capture_ref, tender, provider_account_id,
        payment_intent_ref, charge_ref, destination_kind, currency, captured_minor, order_minor, captured_at, available_minor,
        refunded_minor)
    SELECT merchant_id, %(capture)s, %(capture)s, 1, 'bench', 'card', provider_account_id, 'pi_bench', 'ch_' || %(mark)s, 'card',
        'EUR', %(sum)s, %(sum)s, now(), 0, %(sum)s FROM provider_accounts WHERE merchant_id = %(m)s
"""
_INTENTS: Final = """
    INSERT INTO intents (merchant_id, intent_id, number, case_id, order_id, capture_id, entitlement_id, amount_minor, order_minor,
        currency, exponent, destination_kind, destination_brand, destination_last4, provider_account_id, payment_intent_ref,
        charge_ref, units, entitlement_digest, evidence_digest, policy_id, policy_version, requester, case_opener, route,
        provider_key, state, provider_refund_ref)
    SELECT a.merchant_id, (%(mark)s || '0000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, %(first)s + n, %(capture)s,
        %(capture)s, %(capture)s, %(capture)s, %(minor)s, %(minor)s, 'EUR', 2, 'card', 'visa', '4242', a.provider_account_id,
        'pi_bench', 'ch_bench', '[]', '', '', 'bench', 1, 'token:bench', 'token:bench', 'desk',
        'onceback-refund-' || %(mark)s || lpad(n::text, 12, '0'), 'succeeded', 're_' || %(mark)s || lpad(n::text, 12, '0')
    FROM provider_accounts a CROSS JOIN generate_series(0, %(last)s) n WHERE a.merchant_id = %(m)s
"""
# Ids carry the time of their making, as the application's do.
_TRANSFERS: Final = """
    INSERT INTO transfers (merchant_id, transfer_id, capture_id, currency, intent_id, step, from_balance, to_balance,
        amount_minor, at)
    SELECT %(m)s, (lpad(to_hex(s * 1000), 12, '0') || '7000' || '8' || %(mark)s || '00' || lpad(to_hex(n), 12, '0'))::uuid,
        %(capture)s, 'EUR', (%(mark)s || '0000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'settle', 'reserved',
        'refunded', %(minor)s, to_timestamp(s + 1)
    FROM (SELECT n, %(since)s + n::bigint * %(span)s / %(count)s AS s FROM generate_series(0, %(last)s) n) made
"""


def _seed(bench: Bench, months: tuple[Month, ...]) -> None:
    """Settled refunds, each with its transfer, in bounded statements; triggers and keys to other tables are left out."""
    administrator = make_url(bench.stack.postgres.admin_url)
    address = administrator.set(drivername="postgresql", database=make_url(bench.url).database)
    with psycopg.connect(address.render_as_string(hide_password=False), autocommit=True) as db:
        db.execute("SET session_replication_role = replica")
        for place, month in enumerate(months):
            capture = UUID(f"{month.mark * 8}-0000-7000-8000-000000000000")
            given = {
                "m": bench.m, "mark": month.mark, "capture": capture, "minor": _AMOUNT_MINOR, "last": month.count - 1,
                "count": month.count, "first": 10**9 * (place + 1), "since": month.first_at, "span": month.span_seconds,
                "sum": _AMOUNT_MINOR * month.count,
            }  # fmt: skip
            for statement in (_CAPTURE, _INTENTS, _TRANSFERS):
                db.execute(statement.encode(), given)
        for table in ("intents", "transfers"):
            db.execute(f"VACUUM (ANALYZE) {table}".encode())


def _run(bench: Bench, month: Month, url: str) -> tuple[float, float]:
    """Peak resident memory in MiB, and seconds, of the command over a month. Everything has to agree."""
    last = month.until - timedelta(days=1)
    command = [sys.executable, "-m", "flask", "reconcile", "run", "--merchant", SLUG]
    days = ["--from", month.since.date().isoformat(), "--to", last.date().isoformat()]
    given = {**os.environ, **bench.stack.worker_environment(), "FLASK_APP": "app:application", "PROVIDER_BASE_URL": url}
    run = run_watched(command + days, given)
    expected = _AMOUNT_MINOR * month.count
    if (
        run.status
        or f"movements EUR: ours {expected}, theirs {expected}" not in run.printed
        or "nothing differs" not in run.printed
    ):
        raise RuntimeError(f"the run over {month.count} refunds did not agree: {run.printed[-500:]}")
    return run.peak_mib, run.seconds


class _Provider(BaseHTTPRequestHandler):
    """Lists, made as they are asked for: newest first, a hundred a page."""

    protocol_version = "HTTP/1.1"
    months: tuple[Month, ...] = ()
    merchant = ""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = dict(parse_qsl(url.query))
        rows: list[dict[str, Any]] = []
        more = False
        month = next((one for one in self.months if int(one.since.timestamp()) <= int(asked.get("created[gte]", 0))
                      + 86_400 < int(one.until.timestamp())), None)  # fmt: skip
        if month is not None and (url.path == "/v1/refunds" or asked.get("type") == "refund"):
            after = asked.get("starting_after")
            top = int(after[-12:]) if after else month.count
            bottom = max(0, top - int(asked.get("limit", "10")))
            make = _refund if url.path == "/v1/refunds" else _movement
            rows = [make(month, number, self.merchant) for number in range(top - 1, bottom - 1, -1)]
            more = bottom > 0
        text = json.dumps({"object": "list", "data": rows, "has_more": more, "url": url.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Request-Id", "req_bench")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own names
        """Says nothing."""


def _refund(month: Month, number: int, merchant: str) -> dict[str, Any]:
    return {
        "id": f"re_{month.mark}{number:012d}", "object": "refund", "amount": _AMOUNT_MINOR, "balance_transaction":
        f"txn_{month.mark}{number:012d}", "charge": "ch_bench", "created": month.made_at(number), "currency": "eur",
        "customer": None, "destination_details": {"card": {"reference_status": "pending", "reference_type":
        "acquirer_reference_number", "type": "refund"}, "type": "card"}, "failure_balance_transaction": None,
        "metadata": {"onceback_intent": month.intent(number), "onceback_merchant": merchant, "onceback_units": "L1[0,1)"},
        "payment_intent": "pi_bench", "payment_method": "pm_bench", "reason": None, "receipt_number": None,
        "source_transfer_reversal": None, "status": "succeeded", "transfer_reversal": None,
    }  # fmt: skip


def _movement(month: Month, number: int, _merchant: str) -> dict[str, Any]:
    return {
        "id": f"txn_{month.mark}{number:012d}", "object": "balance_transaction", "amount": -_AMOUNT_MINOR, "available_on":
        month.made_at(number), "balance_type": "payments", "created": month.made_at(number), "currency": "eur",
        "description": None, "exchange_rate": None, "fee": 0, "fee_details": [], "net": -_AMOUNT_MINOR, "reporting_category":
        "refund", "source": f"re_{month.mark}{number:012d}", "status": "available", "type": "refund",
    }  # fmt: skip


@contextmanager
def _double(merchant_id: UUID, months: tuple[Month, ...]) -> Iterator[str]:
    """The provider's side of the months, on a free port, in threads of this process."""
    handler = type("Provider", (_Provider,), {"months": months, "merchant": str(merchant_id)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.reconciliation")
    parser.add_argument("--size", type=int, default=LARGE, help="settled refunds of the large run")
    size = parser.parse_args().size
    with Bench(Path("build/bench-books")) as bench:
        for result in f15(bench, size):
            print(result.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
