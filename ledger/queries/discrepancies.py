"""What the reconciliation desk shows: runs with how far they are and both sides' sums, and discrepancies with their story."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows, scalar
from ledger.errors import NotFound

RUNS_SHOWN: Final = 20
OPEN_SHOWN: Final = 200


@dataclass(frozen=True)
class Total:
    """Both sides of a currency in minor units. `difference`: theirs less ours; `explained`: what the discrepancies make of it."""

    part: str
    currency: str
    ours_minor: int
    theirs_minor: int
    ours_count: int
    theirs_count: int
    explained_minor: int

    @property
    def difference_minor(self) -> int:
        return self.theirs_minor - self.ours_minor

    @property
    def unexplained_minor(self) -> int:
        return self.difference_minor - self.explained_minor


@dataclass(frozen=True)
class Progress:
    """A run as it stands. `permille` of the period read, over all sides; `found`: discrepancies by kind."""

    run_id: UUID
    from_at: datetime
    to_at: datetime
    asked_by: str
    asked_by_name: str
    asked_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    waits_for: str
    pages: int
    rows_read: int
    permille: int
    totals: Sequence[Total]
    found: Mapping[str, int]


_RUNS: Final = """
    SELECT r.run_id, r.from_at, r.to_at, r.asked_by, coalesce(p.name, '') AS asked_by_name, r.asked_at, r.started_at,
        r.finished_at, r.waits_for, coalesce(s.pages, 0)::int AS pages, coalesce(s.rows_read, 0)::bigint AS rows_read,
        coalesce(s.permille, 0)::int AS permille
    FROM reconciliation_runs r
    LEFT JOIN staff p ON r.asked_by = 'staff:' || p.staff_id::text
    LEFT JOIN LATERAL (
        SELECT sum(s.pages) AS pages, sum(s.rows_read) AS rows_read, floor(1000 * avg(CASE
            WHEN s.done_at IS NOT NULL THEN 1 WHEN s.reached_at IS NULL THEN 0
            WHEN s.side IN ('ours', 'our_disputes')
                THEN extract(epoch FROM s.reached_at - r.from_at) / extract(epoch FROM r.to_at - r.from_at)
            ELSE extract(epoch FROM r.to_at - s.reached_at) / extract(epoch FROM r.to_at - r.from_at) END)) AS permille
        FROM reconciliation_sides s WHERE s.merchant_id = r.merchant_id AND s.run_id = r.run_id) s ON true
    WHERE r.merchant_id = :m AND (CAST(:r AS uuid) IS NULL OR r.run_id = :r) ORDER BY r.asked_at DESC, r.run_id DESC LIMIT :most
"""
_TOTALS: Final = """
    SELECT t.run_id, t.part, t.currency, t.ours_minor, t.theirs_minor, t.ours_count, t.theirs_count,
        coalesce((SELECT sum(f.difference_minor) FROM reconciliation_findings f WHERE f.merchant_id = t.merchant_id
            AND f.run_id = t.run_id AND f.part = t.part AND f.currency = t.currency), 0)::bigint AS explained_minor
    FROM reconciliation_totals t WHERE t.merchant_id = :m AND t.run_id = ANY(CAST(:runs AS uuid[]))
    ORDER BY t.part DESC, t.currency
"""
_FOUND: Final = """
    SELECT f.run_id, d.kind, count(DISTINCT d.discrepancy_id)::int AS number FROM reconciliation_findings f
    JOIN discrepancies d ON d.merchant_id = f.merchant_id AND d.discrepancy_id = f.discrepancy_id
    WHERE f.merchant_id = :m AND f.run_id = ANY(CAST(:runs AS uuid[])) GROUP BY f.run_id, d.kind
"""


def read_progress(db: Connection, merchant_id: UUID, run_id: UUID) -> Progress:
    """One run, whoever asked for it. Raises NotFound."""
    found = _progress(db, merchant_id, rows(db, _RUNS, m=merchant_id, r=run_id, most=1))
    if not found:
        raise NotFound
    return found[0]


def read_runs(db: Connection, merchant_id: UUID, run_id: UUID | None = None) -> list[Progress]:
    """The newest runs, or one of them."""
    return _progress(db, merchant_id, rows(db, _RUNS, m=merchant_id, r=run_id, most=RUNS_SHOWN))


def _progress(db: Connection, merchant_id: UUID, found: Sequence[RowMapping]) -> list[Progress]:
    runs = [row["run_id"] for row in found]
    totals = [dict(row) for row in rows(db, _TOTALS, m=merchant_id, runs=runs)]
    kinds = rows(db, _FOUND, m=merchant_id, runs=runs)
    return [
        Progress(
            **row,
            totals=[Total(**{k: v for k, v in one.items() if k != "run_id"}) for one in totals if one["run_id"] == row["run_id"]],
            found={one["kind"]: one["number"] for one in kinds if one["run_id"] == row["run_id"]},
        )
        for row in found
    ]  # fmt: skip


@dataclass(frozen=True)
class Discrepancy:
    """A discrepancy: both sides as they were found, who has it, and what resolved it ("" while it is open).

    `about`: refund, dispute or payment; `refund_ref` is its reference at the provider.
    """

    discrepancy_id: UUID
    number: int
    kind: str
    refund_ref: str
    intent_id: UUID | None
    intent_number: int | None
    about: str
    occurrence: int
    follows: UUID | None
    ours: Mapping[str, Any]
    theirs: Mapping[str, Any]
    owner: str
    dated_at: datetime
    found_at: datetime
    taken_by: str
    taken_by_id: UUID | None
    code: str
    last_seen_at: datetime


@dataclass(frozen=True)
class Act:
    """What somebody did with a discrepancy: taken, noted or resolved (then with a code)."""

    kind: str
    code: str
    note: str
    by: str
    at: datetime


_DISCREPANCIES: Final = """
    SELECT d.discrepancy_id, d.number, d.kind, d.refund_ref, d.intent_id, i.number AS intent_number, d.about, d.occurrence,
        d.follows, d.ours, d.theirs, d.owner, d.dated_at, d.found_at, coalesce(t.name, '') AS taken_by, t.staff_id AS taken_by_id,
        coalesce(c.code, '') AS code, greatest(d.found_at, (SELECT max(f.at) FROM reconciliation_findings f
            WHERE f.merchant_id = d.merchant_id AND f.discrepancy_id = d.discrepancy_id)) AS last_seen_at
    FROM discrepancies d
    LEFT JOIN intents i ON i.merchant_id = d.merchant_id AND i.intent_id = d.intent_id
    LEFT JOIN discrepancy_acts c ON c.merchant_id = d.merchant_id AND c.discrepancy_id = d.discrepancy_id AND c.kind = 'resolved'
    LEFT JOIN LATERAL (SELECT s.name, s.staff_id FROM discrepancy_acts a JOIN staff s ON s.staff_id = a.staff_id
        WHERE a.merchant_id = d.merchant_id AND a.discrepancy_id = d.discrepancy_id AND a.kind = 'taken'
        ORDER BY a.at DESC, a.act_id DESC LIMIT 1) t ON true
    WHERE d.merchant_id = :m AND {which} ORDER BY d.found_at DESC, d.discrepancy_id DESC LIMIT :most
"""
_OPEN: Final = _DISCREPANCIES.format(which="c.code IS NULL AND (CAST(:kind AS text) IS NULL OR d.kind = :kind)")
_ONE: Final = _DISCREPANCIES.format(which="d.discrepancy_id = :d")
_OF_RUN: Final = _DISCREPANCIES.format(
    which="EXISTS (SELECT 1 FROM reconciliation_findings f WHERE f.merchant_id = d.merchant_id"
    " AND f.discrepancy_id = d.discrepancy_id AND f.run_id = :r)"
)
_BUCKETS: Final = """
    SELECT d.kind, count(*)::int AS number FROM discrepancies d WHERE d.merchant_id = :m AND NOT EXISTS (
        SELECT 1 FROM discrepancy_acts c WHERE c.merchant_id = d.merchant_id AND c.discrepancy_id = d.discrepancy_id
            AND c.kind = 'resolved') GROUP BY d.kind
"""
_ACTS: Final = """
    SELECT a.kind, coalesce(a.code, '') AS code, a.note, coalesce(s.name, '') AS by, a.at FROM discrepancy_acts a
    LEFT JOIN staff s ON s.staff_id = a.staff_id
    WHERE a.merchant_id = :m AND a.discrepancy_id = :d ORDER BY a.at DESC, a.act_id DESC
"""


def read_open(db: Connection, merchant_id: UUID, kind: str | None = None) -> list[Discrepancy]:
    """Open discrepancies, newest first; of one kind if named. At most OPEN_SHOWN."""
    return [Discrepancy(**row) for row in rows(db, _OPEN, m=merchant_id, kind=kind, most=OPEN_SHOWN)]


def read_of_run(db: Connection, merchant_id: UUID, run_id: UUID) -> list[Discrepancy]:
    """What a run found, open or resolved since."""
    return [Discrepancy(**row) for row in rows(db, _OF_RUN, m=merchant_id, r=run_id, most=OPEN_SHOWN)]


def read_one(db: Connection, merchant_id: UUID, discrepancy_id: UUID) -> tuple[Discrepancy, list[Act]]:
    """A discrepancy and what was done with it, newest first. Raises NotFound."""
    row = first(db, _ONE, m=merchant_id, d=discrepancy_id, most=1)
    if row is None:
        raise NotFound
    return Discrepancy(**row), [Act(**act) for act in rows(db, _ACTS, m=merchant_id, d=discrepancy_id)]


def read_buckets(db: Connection, merchant_id: UUID) -> dict[str, int]:
    """How many are open, by kind."""
    return {row["kind"]: row["number"] for row in rows(db, _BUCKETS, m=merchant_id)}


def last_self_check(db: Connection, merchant_id: UUID) -> tuple[datetime, int] | None:
    """When the ledger was last checked against itself, and how many faults that found."""
    row = first(
        db,
        "SELECT checked_at, faults FROM self_checks WHERE merchant_id = :m ORDER BY night DESC LIMIT 1",
        m=merchant_id,
    )
    return (row["checked_at"], row["faults"]) if row else None


def following(db: Connection, merchant_id: UUID, discrepancy_id: UUID) -> UUID | None:
    """The discrepancy that opened again after this one."""
    found: UUID | None = scalar(
        db,
        "SELECT discrepancy_id FROM discrepancies WHERE merchant_id = :m AND follows = :d",
        m=merchant_id,
        d=discrepancy_id,
    )
    return found
