"""Says once, aloud, that something waits too long, and that it no longer does (P16)."""

from typing import Final
from uuid import UUID

from jobs.each_merchant import each_merchant
from jobs.logs import log
from jobs.worker import Counts, Worker
from ledger.database import rows, transaction
from ledger.outbox import close_alarms, raise_alarm
from ledger.queries.waiting import late

PREFIX: Final = "overdue_"


def run_once(worker: Worker) -> Counts:
    """Looks at every merchant; one open alarm per kind of late row, closed when the last is gone. Counts: raised, closed."""
    return each_merchant(worker, "overdue", _scan)


def _scan(worker: Worker, merchant_id: UUID, counts: Counts) -> None:
    with transaction(worker.engine, merchant_id, read_only=True) as db:
        found = {PREFIX + one.kind: one for one in late(db, merchant_id)}
        standing = {row["kind"] for row in rows(db, _OPEN, m=merchant_id)}
    for kind in sorted(found.keys() - standing):
        one = found[kind]
        text = f"{one.count} waits too long as {one.kind}, since {one.since:%Y-%m-%d %H:%M} UTC: {one.owner}, desk {one.desk}"
        with transaction(worker.engine, merchant_id) as db:
            raise_alarm(db, merchant_id, kind, None, text[:300])
        counts["raised"] += 1
        log.warning("overdue", merchant=str(merchant_id), kind=one.kind, count=one.count)
    for kind in sorted(standing - found.keys()):
        with transaction(worker.engine, merchant_id) as db:
            counts["closed"] += close_alarms(db, merchant_id, kind, "Nothing of this kind waits too long any more.")
        log.info("overdue_over", merchant=str(merchant_id), kind=kind.removeprefix(PREFIX))


_OPEN: Final = """
    SELECT DISTINCT kind FROM alarms WHERE merchant_id = :m AND starts_with(kind, 'overdue_') AND closed_at IS NULL
"""
