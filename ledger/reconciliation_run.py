"""A run: the books of one account against the provider's, over a period, both ways, page by page.

A run is rows. Each side keeps a cursor; a page, the sums it adds to, what it found and the cursor after it commit together,
so a worker that dies in the middle has done whole pages, and whoever takes the run goes on at the next one. Two who work on
the same page meet at its cursor: one turns it, the other is told `Overtaken` and nothing of its page stays.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from ledger.database import first, rows, run, run_many, scalar
from ledger.discrepancies import resolve_gone
from ledger.errors import BadInput, NotFound
from ledger.ids import uuid7
from ledger.reconciliation_compare import Part, Sum

# In the order they are read. The provider lists balance movements of one type at a time; ours come when everything the
# provider shows of the period has been seen.
SIDES: Final = (
    "refunds", "refund", "payment_refund", "refund_failure", "payment_failure_refund", "payment_reversal", "ours", "disputes",
    "our_disputes",
)  # fmt: skip
# A late failure comes up to 30 days after the refund (STRIPE.md §1); five more for a worker that was away.
NIGHTLY_DAYS: Final = 35
# By then the day's refunds have been answered, listed and, where they could be, settled.
NIGHT_HOUR: Final = 3
# What was made in the last minutes may be on its way or not be listed yet; a run ends before it.
SETTLE_MINUTES: Final = 15
LONGEST_DAYS: Final = 400
# A page takes a second or two; a worker that turns none for so long is taken for hung.
LEASE_SECONDS: Final = 120
# After an answer that could not be relied on, the page is read again no sooner than this.
WAIT_SECONDS: Final = 60


class Overtaken(Exception):
    """Another worker turned this page. Nothing of ours stays; it goes on from there."""


@dataclass(frozen=True)
class Run:
    """A run that a worker holds, and whose key reads its account. `started_at`: what was shown since then counts as seen."""

    merchant_id: UUID
    run_id: UUID
    provider_account_id: UUID
    from_at: datetime
    to_at: datetime
    started_at: datetime
    worker_id: int
    account: str
    credential: str
    livemode: bool
    expected_account: str

    def covers(self, at: datetime) -> bool:
        """Whether a moment lies in the period."""
        return self.from_at <= at < self.to_at


@dataclass(frozen=True)
class Place:
    """Where a side of a run stands: `cursor` is "" at its beginning."""

    side: str
    cursor: str


@dataclass
class Tally:
    """What one page adds to the sums, by part and currency: [ours, theirs, how many ours, how many theirs]."""

    sums: dict[tuple[Part, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0, 0, 0]))

    def add(self, part: Part, ours: Sum, theirs: Sum) -> None:
        """Counts both sides of one refund or movement; a side that has nothing of it adds nothing."""
        for place, side in ((0, ours), (1, theirs)):
            if side:
                found = self.sums[part, side.currency]
                found[place] += side.minor
                found[place + 2] += 1


def ask_run(
    db: Connection, merchant_id: UUID, from_at: datetime, to_at: datetime, asked_by: str, account_id: UUID | None = None
) -> list[UUID]:
    """Queues a run over [from_at, to_at), for one account or each of the merchant; returns them.

    The last minutes are cut off (SETTLE_MINUTES). An unfinished run over the same period is gone on with instead of a second
    one. Raises BadInput for a period that is empty, too long or not over yet.
    """
    from_at = from_at.replace(microsecond=0)
    row = first(db, _CLIPPED, to_at=to_at, margin=timedelta(minutes=SETTLE_MINUTES))
    end: datetime = row["to_at"] if row else to_at
    if from_at >= end:
        raise BadInput("from", f"begin the period earlier: it ends {SETTLE_MINUTES} minutes ago at the latest")
    if end - from_at > timedelta(days=LONGEST_DAYS):
        raise BadInput("from", f"a run covers at most {LONGEST_DAYS} days")
    accounts = rows(db, _ACCOUNTS, m=merchant_id, a=account_id)
    if not accounts:
        raise NotFound
    return [
        _ask_one(db, merchant_id, account["provider_account_id"], from_at, to_at, end, asked_by) for account in accounts
    ]


# In whole seconds, as the provider counts.
_CLIPPED: Final = """
    SELECT date_trunc('second', least(CAST(:to_at AS timestamptz), now() - CAST(:margin AS interval))) AS to_at
"""
_ACCOUNTS: Final = """
    SELECT provider_account_id FROM provider_accounts WHERE merchant_id = :m
        AND (CAST(:a AS uuid) IS NULL OR provider_account_id = :a) ORDER BY provider_account_id
"""
# A day that is not over ends a little later at the next asking, and is the same period still.
_UNFINISHED: Final = """
    SELECT run_id FROM reconciliation_runs WHERE merchant_id = :m AND provider_account_id = :a AND finished_at IS NULL
        AND from_at = :from_at AND to_at BETWEEN CAST(:end AS timestamptz) - interval '1 day' AND :to_at ORDER BY asked_at LIMIT 1
"""


def _ask_one(
    db: Connection,
    merchant_id: UUID,
    account_id: UUID,
    from_at: datetime,
    to_at: datetime,
    end: datetime,
    asked_by: str,
) -> UUID:
    there = scalar(db, _UNFINISHED, m=merchant_id, a=account_id, from_at=from_at, end=end, to_at=to_at)
    if there is not None:
        return UUID(str(there))
    run_id = uuid7()
    run(
        db, "INSERT INTO reconciliation_runs (merchant_id, run_id, provider_account_id, from_at, to_at, asked_by)"
        " VALUES (:m, :r, :a, :from_at, :to_at, :by)", m=merchant_id, r=run_id, a=account_id, from_at=from_at, to_at=end,
        by=asked_by,
    )  # fmt: skip
    return run_id


# The first night after a merchant came: it had no whole day before.
_TONIGHT: Final = """
    SELECT a.provider_account_id, t.night, CAST(t.night AS timestamp) AT TIME ZONE t.zone AS to_at,
        CAST(t.night - CAST(:days AS integer) AS timestamp) AT TIME ZONE t.zone AS from_at
    FROM (SELECT zone, created_at, (now() AT TIME ZONE zone)::date AS night, extract(hour FROM now() AT TIME ZONE zone) AS hour
        FROM merchants WHERE id = :m) t
    JOIN provider_accounts a ON a.merchant_id = :m
    WHERE t.hour >= :hour AND t.created_at < CAST(t.night AS timestamp) AT TIME ZONE t.zone
        AND NOT EXISTS (SELECT 1 FROM reconciliation_runs r WHERE r.merchant_id = :m
            AND r.provider_account_id = a.provider_account_id AND r.night = t.night)
"""


def schedule_tonight(db: Connection, merchant_id: UUID) -> int:
    """Queues the night's run of each account over the last NIGHTLY_DAYS business days, once; returns how many it queued."""
    due = rows(db, _TONIGHT, m=merchant_id, days=NIGHTLY_DAYS, hour=NIGHT_HOUR)
    return sum(
        run(
            db, "INSERT INTO reconciliation_runs (merchant_id, run_id, provider_account_id, from_at, to_at, night, asked_by)"
            " VALUES (:m, :r, :a, :from_at, :to_at, :night, 'system') ON CONFLICT DO NOTHING", m=merchant_id, r=uuid7(),
            a=row["provider_account_id"], from_at=row["from_at"], to_at=row["to_at"], night=row["night"],
        )
        for row in due
    )  # fmt: skip


# A run belongs to nobody when its worker's advisory lock is gone or its lease has ended, as attempts do (ledger.outbox).
_TAKE: Final = """
    UPDATE reconciliation_runs r SET worker_id = :w, lease_until = now() + CAST(:lease AS interval),
        started_at = coalesce(r.started_at, now()), waits_for = ''
    FROM provider_accounts a
    WHERE a.merchant_id = r.merchant_id AND a.provider_account_id = r.provider_account_id
        AND (r.merchant_id, r.run_id) IN (
            SELECT u.merchant_id, u.run_id FROM reconciliation_runs u
            WHERE u.merchant_id = :m AND u.finished_at IS NULL AND (CAST(:r AS uuid) IS NULL OR u.run_id = :r)
                AND (u.lease_until IS NULL OR u.lease_until <= now() OR (u.worker_id IS NOT NULL AND NOT EXISTS (
                    SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
                        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                        AND (l.classid::bigint << 32 | l.objid::bigint) = u.worker_id)))
            ORDER BY u.asked_at LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING r.merchant_id, r.run_id, r.provider_account_id, r.from_at, r.to_at, r.started_at, r.worker_id,
        a.account_ref AS account, a.credential, a.livemode, coalesce(a.expected_account_ref, '') AS expected_account
"""


def take_run(db: Connection, merchant_id: UUID, worker_id: int, run_id: UUID | None = None) -> Run | None:
    """Takes the oldest unfinished run that no living worker holds (or `run_id`, if that may be had). Locks the run's row."""
    lease = timedelta(seconds=LEASE_SECONDS)
    row = first(db, _TAKE, m=merchant_id, w=worker_id, r=run_id, lease=lease)
    if row is None:
        return None
    run_many(
        db, "INSERT INTO reconciliation_sides (merchant_id, run_id, side, position) VALUES (:m, :r, :side, :n)"
        " ON CONFLICT DO NOTHING",
        [{"m": merchant_id, "r": row["run_id"], "side": side, "n": n} for n, side in enumerate(SIDES)],
    )  # fmt: skip
    return Run(**row)


def next_place(db: Connection, of: Run) -> Place | None:
    """The side to read on, and where; None when every side is read to its end."""
    row = first(
        db, "SELECT side, cursor FROM reconciliation_sides WHERE merchant_id = :m AND run_id = :r AND done_at IS NULL"
        " ORDER BY position LIMIT 1", m=of.merchant_id, r=of.run_id,
    )  # fmt: skip
    return Place(**row) if row else None


_TURN: Final = """
    UPDATE reconciliation_sides s SET cursor = :next, reached_at = coalesce(:reached, s.reached_at), pages = s.pages + 1,
        rows_read = s.rows_read + :rows, done_at = CASE WHEN :done THEN now() END
    FROM reconciliation_runs r
    WHERE s.merchant_id = :m AND s.run_id = :r AND s.side = :side AND s.cursor = :cursor AND s.done_at IS NULL
        AND r.merchant_id = s.merchant_id AND r.run_id = s.run_id AND r.worker_id = :w AND r.finished_at IS NULL
"""


def turn_page(
    db: Connection, of: Run, place: Place, *, cursor: str, reached_at: datetime | None, rows_read: int, done: bool
) -> None:
    """Moves a side's cursor on and renews the lease. Call it first in the page's transaction: it is what two workers meet at.

    `reached_at` is the moment of the period that the page came to. Raises Overtaken. Locks the side's row.
    """
    moved = run(
        db, _TURN, m=of.merchant_id, r=of.run_id, w=of.worker_id, side=place.side, cursor=place.cursor, next=cursor,
        reached=reached_at, rows=rows_read, done=done,
    )  # fmt: skip
    if not moved:
        raise Overtaken
    run(
        db, "UPDATE reconciliation_runs SET lease_until = now() + CAST(:lease AS interval) WHERE merchant_id = :m AND run_id = :r",
        lease=timedelta(seconds=LEASE_SECONDS), m=of.merchant_id, r=of.run_id,
    )  # fmt: skip


_ADD: Final = """
    INSERT INTO reconciliation_totals AS t (merchant_id, run_id, part, currency, ours_minor, theirs_minor, ours_count, theirs_count)
    VALUES (:m, :r, :part, :currency, :ours, :theirs, :n_ours, :n_theirs)
    ON CONFLICT (merchant_id, run_id, part, currency) DO UPDATE SET ours_minor = t.ours_minor + excluded.ours_minor,
        theirs_minor = t.theirs_minor + excluded.theirs_minor, ours_count = t.ours_count + excluded.ours_count,
        theirs_count = t.theirs_count + excluded.theirs_count
"""


def add_up(db: Connection, of: Run, tally: Tally) -> None:
    """Adds a page's sums to the run's, in the page's transaction."""
    run_many(db, _ADD, [
        {"m": of.merchant_id, "r": of.run_id, "part": part, "currency": currency, "ours": ours, "theirs": theirs,
         "n_ours": n_ours, "n_theirs": n_theirs}
        for (part, currency), (ours, theirs, n_ours, n_theirs) in sorted(tally.sums.items())
    ])  # fmt: skip


def let_wait(db: Connection, of: Run, code: str) -> None:
    """The provider could not be asked: the run is given back, says why, and is taken again after WAIT_SECONDS."""
    run(
        db, "UPDATE reconciliation_runs SET waits_for = :code, worker_id = NULL, lease_until = now() + CAST(:wait AS interval)"
        " WHERE merchant_id = :m AND run_id = :r AND worker_id = :w", code=code[:80], wait=timedelta(seconds=WAIT_SECONDS),
        m=of.merchant_id, r=of.run_id, w=of.worker_id,
    )  # fmt: skip


def give_back(db: Connection, of: Run) -> None:
    """A worker that is asked to stop gives its run back at once."""
    run(
        db, "UPDATE reconciliation_runs SET worker_id = NULL, lease_until = NULL WHERE merchant_id = :m AND run_id = :r"
        " AND worker_id = :w AND finished_at IS NULL", m=of.merchant_id, r=of.run_id, w=of.worker_id,
    )  # fmt: skip


def finish(db: Connection, of: Run) -> bool:
    """Ends a run whose sides are all read; what it should have found again and did not is resolved as gone.

    False when it was finished, or taken over, before. Locks the run's row.
    """
    ended = run(
        db, "UPDATE reconciliation_runs r SET finished_at = now(), worker_id = NULL, lease_until = NULL, waits_for = ''"
        " WHERE r.merchant_id = :m AND r.run_id = :r AND r.worker_id = :w AND r.finished_at IS NULL AND NOT EXISTS ("
        " SELECT 1 FROM reconciliation_sides s WHERE s.merchant_id = r.merchant_id AND s.run_id = r.run_id"
        " AND s.done_at IS NULL)", m=of.merchant_id, r=of.run_id, w=of.worker_id,
    )  # fmt: skip
    if ended:
        resolve_gone(db, of.merchant_id, of.provider_account_id, of.run_id, of.from_at, of.to_at)
    return bool(ended)
