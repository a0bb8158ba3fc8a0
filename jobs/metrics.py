"""The worker's figures for Prometheus: what this process did, counted here, and how the books stand, read when asked.

Labels are the merchant's slug, states, kinds, currencies and names of jobs; none is a customer, an order or a person (S75).
"""

import threading
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from jobs.logs import log
from jobs.worker import BUSY, Counts, Worker
from ledger.database import rows, transaction
from ledger.position import deployment
from ledger.queries.gauges import figures

REGISTRY: Final = CollectorRegistry()
OUTCOMES: Final = ("confirmed", "refused", "not_accepted", "unknown")

_outcomes = Counter(
    "onceback_outcomes", "Answers to calls for a refund, by what they amount to", ["outcome"], registry=REGISTRY
)
_runs = Counter("onceback_job_runs", "Runs of periodic jobs, by how they ended", ["job", "result"], registry=REGISTRY)
_last = Gauge(
    "onceback_job_last_success_timestamp_seconds", "When a job last ran to its end", ["job"], registry=REGISTRY
)
_spent = Counter("onceback_job_seconds", "Time that jobs took", ["job"], registry=REGISTRY)
for _outcome in OUTCOMES:
    _outcomes.labels(_outcome)

# Figure of the books to metric, help, and the name of its second label ("" for none).
GAUGES: Final = {
    "intents": ("onceback_intents", "Refunds by state, those that are not final", "state"),
    "intent_age": ("onceback_intent_oldest_seconds", "How long the oldest refund is in a state", "state"),
    "outbox_due": ("onceback_outbox_due", "Approved work whose time has come", ""),
    "outbox_lag": ("onceback_outbox_lag_seconds", "How long the oldest due work waits", ""),
    "cap_limit": ("onceback_cap_limit_minor", "Today's cap, in minor units", "currency"),
    "cap_used": ("onceback_cap_used_minor", "What today's approvals took of the cap, in minor units", "currency"),
    "automatic_count": (
        "onceback_automatic_approvals_today",
        "Refunds that a policy approved by itself today",
        "currency",
    ),
    "automatic_used": (
        "onceback_automatic_used_minor",
        "What they took of today's automatic limit, in minor units",
        "currency",
    ),
    "automatic_limit": ("onceback_automatic_limit_minor", "Today's automatic limit, in minor units", "currency"),
    "discrepancies": ("onceback_discrepancies_open", "Discrepancies nobody resolved yet", "kind"),
    "alarms": ("onceback_alarms_open", "Alarms nobody closed yet", "kind"),
    "hooks_waiting": ("onceback_hooks_waiting", "Hints of the provider not worked yet", ""),
    "hook_lag": ("onceback_hook_lag_seconds", "How long the oldest hint waits", ""),
    "brake": ("onceback_brake_on", "Whether a brake is on", "brake"),
    "unverified": ("onceback_captures_unverified", "Payments not read again since a recovery", ""),
    "review_backlog": ("onceback_review_backlog", "Refunds only a person can settle", ""),
    "overdue": ("onceback_overdue", "Rows past the time limit of their state", "kind"),
}


class Books(Collector):
    """How the books stand, one round trip a merchant at each scrape. A database that is away shows as such."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._one_at_a_time = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read the database."""
        return []

    def collect(self) -> Iterable[Metric]:
        """All figures of all merchants."""
        up = GaugeMetricFamily("onceback_database_up", "Whether the books could be read")
        sending = GaugeMetricFamily("onceback_sending_allowed", "Whether this worker may send from this database")
        families = {name: _family(name) for name in GAUGES}
        generation = GaugeMetricFamily("onceback_generation", "How often the books were taken up, first time included")
        try:
            with self._one_at_a_time:
                sending.add_metric([], float(self._worker.may_send()))
                self._read(families, generation)
            up.add_metric([], 1)
        except (*BUSY, SQLAlchemyError) as error:
            log.warning("scrape_failed", error=error)
            up.add_metric([], 0)
        return [up, sending, generation, *families.values()]

    def _read(self, families: dict[str, GaugeMetricFamily], generation: GaugeMetricFamily) -> None:
        with transaction(self._worker.engine, read_only=True) as db:
            merchants = rows(db, "SELECT id, slug FROM merchants ORDER BY slug")
            known = deployment(db)
        if known is not None:
            generation.add_metric([], known[1])
        for merchant in merchants:
            with transaction(self._worker.engine, merchant["id"], read_only=True) as db:
                found = figures(db, merchant["id"])
            for one in found:
                labels = [merchant["slug"], one.label] if GAUGES[one.name][2] else [merchant["slug"]]
                families[one.name].add_metric(labels, one.value)


def _family(name: str) -> GaugeMetricFamily:
    metric, text, label = GAUGES[name]
    return GaugeMetricFamily(metric, text, labels=["merchant", *([label] if label else [])])


def ran(job: str, counts: Counts, seconds: float, now: float) -> None:
    """Counts one run of a job, and the answers of the provider that it says it met."""
    busy = bool(counts["busy"] or counts["failed"])
    _runs.labels(job, "busy" if busy else "done").inc()
    _spent.labels(job).inc(seconds)
    if not busy:
        _last.labels(job).set(now)
    for outcome in OUTCOMES:
        if counts[outcome]:
            _outcomes.labels(outcome).inc(counts[outcome])


def raised(job: str) -> None:
    """Counts a run that ended in a mistake of ours."""
    _runs.labels(job, "error").inc()


def serve(worker: Worker, address: str, port: int) -> None:
    """Answers scrapes at `http://address:port/metrics` in a thread of its own, until the process ends."""
    REGISTRY.register(Books(worker))
    start_http_server(port, addr=address, registry=REGISTRY)
    log.info("metrics_served", count=port)
