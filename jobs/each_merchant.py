"""The loop over merchants that jobs share: a database that is busy for one, or refuses, is noted, and the next has its turn."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID

from sqlalchemy.exc import SQLAlchemyError

from jobs.busy import BUSY, sqlstate
from jobs.logs import log
from jobs.worker import Counts, Worker


def each_merchant(
    worker: Worker, name: str, work: Callable[[Worker, UUID, Counts], None], *, alive: bool = False
) -> Counts:
    """Calls `work` for one merchant after another until the worker stops; with `alive` also until its lock is gone.

    Counts: busy and failed (merchants whose turn ended at the database, logged with the job's name), beside
    what `work` counts.
    """
    counts: Counts = Counter()
    for merchant_id in worker.merchants():
        if worker.stopping.is_set() or (alive and not worker.liveness.alive()):
            break
        try:
            work(worker, merchant_id, counts)
        except BUSY as error:
            counts["busy"] += 1
            log.warning("merchant_waits", job=name, merchant=str(merchant_id), error=error, code=sqlstate(error))
        except SQLAlchemyError as error:
            counts["failed"] += 1
            log.error("merchant_failed", job=name, merchant=str(merchant_id), error=error, code=sqlstate(error))
    return +counts
