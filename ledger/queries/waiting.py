"""Everything that waits for somebody, with how long it may: one table, for the overdue scanner and the metrics (P16).

Refund intents and cases have their limits in `ledger.states`; what else waits is a line here. A query gives how many rows are
past the limit and since when the oldest is. Empty is healthy.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first
from ledger.queries.overdue import overdue_cases, overdue_intents


@dataclass(frozen=True)
class Waits:
    """One kind of thing that waits. `sql` selects `since`, the moment from which each row waits; `desk` shows it."""

    kind: str
    sql: str
    limit: timedelta
    desk: str
    owner: str


@dataclass(frozen=True)
class Late:
    """How many rows of a kind are past their limit, and since when the oldest is."""

    kind: str
    count: int
    since: datetime
    desk: str
    owner: str


# The reasons of the limits: a hint is read within seconds; a raise and a brake hold the day up; what was found at the
# provider is answered while the customer still remembers; a capture that was not read again blocks its approval.
WAITING: Final = (
    Waits("hook", "SELECT received_at AS since FROM provider_events WHERE merchant_id = :m AND done_at IS NULL",
          timedelta(minutes=15), "operations", "worker"),
    Waits("cap_raise", "SELECT asked_at AS since FROM cap_raises WHERE merchant_id = :m AND decided_at IS NULL"
          " AND business_day >= (SELECT (now() AT TIME ZONE zone)::date FROM merchants WHERE id = :m)",
          timedelta(hours=2), "caps", "managers"),
    Waits("stopped", "SELECT stopped_at AS since FROM merchant_brakes WHERE merchant_id = :m AND stopped_at IS NOT NULL",
          timedelta(minutes=30), "brakes", "managers"),
    Waits("paused", "SELECT paused_at AS since FROM merchant_brakes WHERE merchant_id = :m AND paused_at IS NOT NULL",
          timedelta(days=1), "brakes", "managers"),
    Waits("discrepancy", "SELECT d.found_at AS since FROM discrepancies d WHERE d.merchant_id = :m AND NOT EXISTS ("
          "SELECT 1 FROM discrepancy_acts a WHERE a.merchant_id = d.merchant_id AND a.discrepancy_id = d.discrepancy_id"
          " AND a.kind = 'resolved')", timedelta(days=5), "discrepancies", "finance"),
    Waits("outside_refund", "SELECT found_at AS since FROM external_refunds WHERE merchant_id = :m"
          " AND allocated_minor < amount_minor AND status NOT IN ('failed', 'canceled')", timedelta(days=3), "outside", "finance"),
    Waits("order_in_question", "SELECT imported_at AS since FROM orders WHERE merchant_id = :m AND blocked", timedelta(days=5),
          "in_question", "managers"),
    Waits("dispute_answer", "SELECT due_at - interval '3 days' AS since FROM disputes WHERE merchant_id = :m"
          " AND status LIKE '%needs\\_response' AND due_at IS NOT NULL", timedelta(0), "disputes", "finance"),
    Waits("run", "SELECT asked_at AS since FROM reconciliation_runs WHERE merchant_id = :m AND finished_at IS NULL",
          timedelta(hours=6), "discrepancies", "worker"),
    Waits("unverified", "SELECT r.started_at AS since FROM captures c JOIN intents i ON i.merchant_id = c.merchant_id"
          " AND i.capture_id = c.capture_id AND i.state = 'proposed' CROSS JOIN deployment d"
          " JOIN recoveries r ON r.generation = d.generation"
          " WHERE c.merchant_id = :m AND c.provider_account_id IS NOT NULL AND c.verified_generation <> d.generation",
          timedelta(hours=1), "operations", "worker"),
    Waits("recovered_by_hand", "SELECT r.found_at AS since FROM recovered_refunds r WHERE r.merchant_id = :m"
          " AND r.outcome = 'by_hand' AND NOT EXISTS (SELECT 1 FROM recovered_refunds n WHERE n.merchant_id = r.merchant_id"
          " AND n.refund_ref = r.refund_ref AND n.outcome <> 'by_hand')", timedelta(days=1), "operations", "engineers"),
)  # fmt: skip
_LATE: Final = (
    "SELECT count(*) AS n, min(w.since) AS since FROM ({}) w WHERE w.since < now() - CAST(:limit AS interval)"
)
_SQL: Final = {waits.kind: _LATE.format(waits.sql) for waits in WAITING}


def late(db: Connection, merchant_id: UUID) -> list[Late]:
    """What is past its limit, by kind: intents as their state, cases as `case`, and the lines of WAITING. Locks nothing."""
    found: dict[str, Late] = {}
    for one in [*overdue_intents(db, merchant_id), *overdue_cases(db, merchant_id)]:
        kind = one.state if one.intent_id else "case"
        before = found.get(kind)
        count, since = (before.count + 1, min(before.since, one.since)) if before else (1, one.since)
        found[kind] = Late(kind, count, since, one.desk, one.owner)
    for waits in WAITING:
        row = first(db, _SQL[waits.kind], m=merchant_id, limit=waits.limit)
        if row is not None and row["n"]:
            found[waits.kind] = Late(waits.kind, row["n"], row["since"], waits.desk, waits.owner)
    return list(found.values())


def kinds() -> set[str]:
    """Every kind that `late` can give."""
    from ledger.states import TIME_LIMITS  # noqa: PLC0415 - read when asked, so that a new state is never forgotten

    return {*TIME_LIMITS, "case", *(waits.kind for waits in WAITING)}
