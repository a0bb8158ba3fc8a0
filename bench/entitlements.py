"""F14: entitlements derived and stored a second, the cost of a long line, and the memory of an audit over very many.

The audit is the command that people use, in a process of its own, over rows that are copies of ones the ledger stored.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection

from bench.measure import RUNS, Result, per_second, run_watched, side_by_side
from bench.work import SLUG, Bench, Ready
from demo.roles import CONSOLE
from ledger.allocation import allocate
from ledger.allocation_lines import Allocation
from ledger.assessment_facts import Facts, read_facts
from ledger.database import rows, transaction
from ledger.entitlement import derive
from ledger.entitlement_facts import CaptureState, CaseUnits, Evidence, Priors, Received
from ledger.entitlement_store import store_entitlement
from ledger.events import LockedCase, lock_order_and_case
from ledger.fingerprint import evidence_digest
from ledger.order_document import order_facts
from ledger.policy_terms import read_terms

THREADS: Final = 8
CASES: Final = 400
LONG: Final = 80_000
SMALL: Final = 10_000
LARGE: Final = 100_000
DERIVED_PER_BATCH: Final = 60
BATCHES: Final = 60


def f14(bench: Bench, audited: int = LARGE) -> list[Result]:
    """Derived and stored beside approvals, a long line beside a short one, an audit of many beside one of few."""
    return [
        side_by_side(
            "F14 entitlements derived and stored, 8 threads", "/s", _derived_and_stored(bench),
            "F1, approvals, one cap row, 8 threads", bench.approvals(CASES, THREADS), 1.5,
        ),
        side_by_side(
            "F14 the same with every fact read under the lock", "/s", _worked_out(bench),
            "F1, approvals, one cap row, 8 threads", bench.approvals(CASES, THREADS),
        ),
        _long_and_short(),
        *_audits(bench, audited),
    ]  # fmt: skip


def _derived_and_stored(bench: Bench) -> Callable[[], float]:
    """Per second: derive from facts that are at hand, store the record with its inputs, commit."""
    cases = _cases(bench, bench.ready(CASES))
    facts = []
    for case_id in cases:
        with transaction(bench.console, bench.m) as db:
            case = lock_order_and_case(db, bench.m, case_id)
            facts.append((case, read_facts(db, case), evidence_digest(db, bench.m, case_id)))
    latest = 1

    def measure() -> float:
        nonlocal latest
        latest += 1

        def one(number: int) -> None:
            case, known, seen = facts[number]
            with transaction(bench.console, bench.m) as db:
                _store(db, case, known, seen, latest)

        return per_second(CASES, THREADS, one)

    return measure


def _worked_out(bench: Bench) -> Callable[[], float]:
    """Per second: lock order and case, read every fact, derive, store, commit."""
    cases = _cases(bench, bench.ready(CASES))
    latest = 1

    def measure() -> float:
        nonlocal latest
        latest += 1

        def one(number: int) -> None:
            with transaction(bench.console, bench.m) as db:
                case = lock_order_and_case(db, bench.m, cases[number])
                _store(db, case, read_facts(db, case), evidence_digest(db, bench.m, case.case_id), latest)

        return per_second(CASES, THREADS, one)

    return measure


def _store(db: Connection, case: LockedCase, facts: Facts, seen: bytes, n: int) -> None:
    policy, terms = facts.deciding.options[0]
    result = derive(Allocation.from_document(facts.order["allocation"]), facts.evidence, facts.priors, terms, case.at)
    store_entitlement(db, case, policy, result, seen, n)


def _cases(bench: Bench, ready: list[Ready]) -> list[Any]:
    with transaction(bench.console, bench.m, read_only=True) as db:
        found = rows(db, "SELECT case_id FROM intents WHERE merchant_id = :m AND intent_id = ANY(:ids)", m=bench.m,
                     ids=[one.intent_id for one in ready])  # fmt: skip
    return [row["case_id"] for row in found]


def _derived(quantity: int) -> Callable[[], float]:
    """Microseconds of processor time to derive a return of every unit of an order of one line."""
    total = 19 * quantity
    at = "2026-05-02T10:40:00Z"
    allocation = allocate(order_facts({
        "external_ref": "B-long", "currency": "EUR", "total_minor": total, "placed_at": at, "zone": "Europe/Berlin",
        "channel": "web", "price_mode": "inclusive",
        "lines": [{"line_ref": "L1", "position": 1, "kind": "goods", "sku": "BOLT", "title": "A bolt", "quantity": quantity,
                   "unit_price_minor": 19, "tax_minor": 3 * quantity}],
        "captures": [{"capture_ref": "c1", "tender": "card", "currency": "EUR", "captured_minor": total, "captured_at": at}],
    }))  # fmt: skip
    evidence = Evidence("B-1", (CaseUnits("L1", 0, quantity, "size", at),), (Received("L1", quantity, "P-1", at),))
    priors = Priors((CaptureState("c1", "card", "EUR", total, total, total),))
    terms = read_terms({"policy_id": "bench", "version": 1, "refund_trigger": "received"})
    as_of = datetime(2026, 5, 13, tzinfo=UTC)

    def measure() -> float:
        began = time.process_time()
        found = [derive(allocation, evidence, priors, terms, as_of) for _ in range(DERIVED_PER_BATCH)]
        took = time.process_time() - began
        if any(one.total_minor != total for one in found):
            raise RuntimeError(f"{found[0].total_minor} of {total} is owed")
        return took / DERIVED_PER_BATCH * 1e6

    return measure


def _long_and_short() -> Result:
    """The fastest of many short batches of each, one after the other: whatever else runs only makes one slower."""
    long, short = _derived(LONG), _derived(1)
    runs: list[tuple[float, float]] = []
    for _ in range(RUNS):
        batches = [(long(), short()) for _ in range(BATCHES)]
        runs.append((min(one for one, _ in batches), min(one for _, one in batches)))
    of_long, of_short = zip(*runs, strict=True)
    return Result(
        f"F14 an entitlement of a line of {LONG:,} units", statistics.median(of_long), "µs", "of a line of 1 unit",
        statistics.median(of_short), 1.1, of_long, of_short, at_most=True,
    )  # fmt: skip


# Spread over a month, with identifiers that carry the time of their making, as the application's do.
_COPIES: Final = """
    INSERT INTO entitlements (merchant_id, entitlement_id, case_id, n, policy_id, policy_version, evidence_digest, outcome,
        currency, total_minor, tax_minor, payable_minor, record, digest, at, allocation_digest, terms_digest, evidence, priors)
    SELECT merchant_id, (lpad(to_hex((s * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0'))::uuid, case_id,
        %(first)s + i, policy_id, policy_version, evidence_digest, outcome, currency, total_minor, tax_minor, payable_minor,
        record, digest, to_timestamp(s), allocation_digest, terms_digest, evidence, priors
    FROM (SELECT of.*, i, %(since)s + i::bigint * %(span)s / %(count)s AS s FROM generate_series(0, %(count)s - 1) i
        JOIN (SELECT e.*, row_number() OVER (ORDER BY entitlement_id) - 1 AS place FROM entitlements e
            WHERE merchant_id = %(m)s AND n = 1 ORDER BY entitlement_id LIMIT %(cases)s) of ON of.place = i %% %(cases)s) made
"""
_MONTHS: Final = (datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 8, 1, tzinfo=UTC))


def _audits(bench: Bench, size: int) -> list[Result]:
    """Peak memory of an audit over `size` entitlements beside that over SMALL, and how many it derives again a second."""
    sizes = (SMALL, size)
    with bench.as_administrator() as db:
        db.execute("SET session_replication_role = replica")
        for place, (since, count) in enumerate(zip(_MONTHS, sizes, strict=True)):
            db.execute(_COPIES.encode(), {
                "m": bench.m, "first": 10**8 * (place + 1), "count": count, "cases": CASES,
                "since": int(since.timestamp()) + 86_400, "span": 86_400 * 25,
            })  # fmt: skip
        db.execute("VACUUM (ANALYZE) entitlements")
    (small, small_rate), (large, rate) = (
        _audit(bench, since, count) for since, count in zip(_MONTHS, sizes, strict=True)
    )
    few = f"an audit of {SMALL:,}"
    return [
        Result(f"F14 memory of an audit of {size:,} entitlements", large, "MiB", few, small, 1.5, (large,), (small,), at_most=True),
        Result("F14 entitlements derived again from storage", rate, "/s", few, small_rate, None, (rate,), (small_rate,)),
    ]  # fmt: skip


def _audit(bench: Bench, since: datetime, count: int) -> tuple[float, float]:
    """Peak resident memory in MiB, and entitlements a second, of the command over a month. Every one has to be proved."""
    last = since + timedelta(days=27)
    command = [sys.executable, "-m", "flask", "entitlement", "audit", "--merchant", SLUG, "--from", since.date().isoformat(),
               "--to", last.date().isoformat()]  # fmt: skip
    given = {**os.environ, "DATABASE_URL": bench.stack.role_urls[CONSOLE], "FLASK_APP": "app:application",
             "ENVIRONMENT": "test"}  # fmt: skip
    run = run_watched(command, given)
    if run.status or f"{count} entitlements, {count} proved" not in run.printed:
        raise RuntimeError(f"the audit of {count} did not prove them all: {run.printed[-500:]}")
    return run.peak_mib, count / run.seconds
