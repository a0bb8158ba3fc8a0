"""What is watched: figures for Prometheus, rules that alert on them, and the scanner of what waits too long (P16, S75)."""

import re
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from console import metrics as web_metrics
from jobs import inbox, metrics, overdue, reconciler, submitter
from jobs.schedule import PERIODIC, run_job
from jobs.worker import Worker
from ledger import brakes
from ledger.database import transaction
from ledger.queries.waiting import kinds
from sandbox.client import Running
from tests.books import month
from tests.jobs.processes import jobs_process, wait_until
from tests.refunds import alarms, approved, as_administrator, make_due, proposed, refunds_at, state_of
from tests.stack import Stack
from tests.world import World

ROOT = Path(__file__).parents[2]
# What a label may be called. A merchant is named by its slug; nothing names a customer, an order or a person.
LABELS = {
    "merchant",
    "state",
    "currency",
    "kind",
    "brake",
    "outcome",
    "job",
    "result",
    "endpoint",
    "method",
    "status",
    "le",
}


def scraped(worker: Worker) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a scrape of the books, by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in metrics.Books(worker).collect()
        for sample in family.samples
    }


def value(worker: Worker, name: str, **labels: str) -> float:
    return scraped(worker)[name, tuple(sorted({"merchant": "harbour", **labels}.items()))]


def test_the_figures_follow_a_refund_from_approval_to_paid(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    as_administrator(stack, "UPDATE outbox SET due_at = now() - interval '10 minutes'")
    assert value(worker, "onceback_intents", state="approved") == 1
    assert value(worker, "onceback_outbox_due") == 1
    assert 590 < value(worker, "onceback_outbox_lag_seconds") < 900
    assert value(worker, "onceback_cap_used_minor", currency="GBP") == one.amount_minor
    assert value(worker, "onceback_cap_limit_minor", currency="GBP") == 10_000_00
    sandbox.fault("lose_reply", path="/v1/refunds")
    submitter.run_once(worker)
    as_administrator(
        stack, "UPDATE intents SET state_at = now() - interval '2 hours' WHERE intent_id = %s", one.intent_id
    )
    assert value(worker, "onceback_intents", state="unknown") == 1
    assert 7100 < value(worker, "onceback_intent_oldest_seconds", state="unknown") < 7600
    make_due(stack)
    reconciler.run_once(worker)
    assert state_of(stack, one) == "succeeded"
    assert {value(worker, "onceback_intents", state=state) for state in ("approved", "unknown", "pending")} == {0}
    assert value(worker, "onceback_outbox_lag_seconds") == 0
    assert refunds_at(sandbox, one) == 1


def test_what_waits_for_people_is_counted_discrepancies_reviews_alarms_and_brakes(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """One of each is made by its own way, and read where there was none before."""
    empty = scraped(worker)
    assert empty["onceback_review_backlog", (("merchant", "harbour"),)] == 0
    counted = ("onceback_discrepancies_open", "onceback_alarms_open")
    assert [name for (name, _), count in empty.items() if name in counted and count] == []
    assert {value(worker, "onceback_brake_on", brake=brake) for brake in ("pause", "stop", "shadow", "all")} == {0}
    earlier = month(stack, sandbox, world, worker, 1)
    earlier.at_provider("UPDATE refunds SET amount = amount + 7 WHERE id = ?", earlier.ref(earlier.paid[0]))
    earlier.run()
    assert value(worker, "onceback_discrepancies_open", kind="amount") == 1
    waits = approved(stack, world, sandbox)
    sandbox.fault("refund_pending", path="/v1/refunds")
    submitter.run_once(worker)
    as_administrator(
        stack, "UPDATE intents SET state_at = now() - interval '3 days' WHERE intent_id = %s", waits.intent_id
    )
    assert value(worker, "onceback_intents", state="pending") == 1
    assert 259_000 < value(worker, "onceback_intent_oldest_seconds", state="pending") < 261_000
    differs = approved(stack, world, sandbox)
    sandbox.fault("wrong_amount", path="/v1/refunds")
    submitter.run_once(worker)
    assert state_of(stack, differs) == "needs_review"
    assert value(worker, "onceback_review_backlog") == 1
    assert value(worker, "onceback_alarms_open", kind="answer_differs") == 1
    with transaction(stack.console, world.merchant_id) as db:
        brakes.pull(db, world.merchant_id, "pause", "Something looks wrong", staff_id=world.mara.staff_id)
    assert value(worker, "onceback_brake_on", brake="pause") == 1
    assert value(worker, "onceback_brake_on", brake="stop") == 0


def test_runs_and_outcomes_of_the_jobs_are_counted(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    def outcome(name: str) -> float:
        return metrics.REGISTRY.get_sample_value("onceback_outcomes_total", {"outcome": name}) or 0

    before = {name: outcome(name) for name in metrics.OUTCOMES}
    approved(stack, world, sandbox)
    run_job(next(one for one in PERIODIC if one.name == "submitter"), worker)
    lost = approved(stack, world, sandbox)
    sandbox.fault("lose_reply", path="/v1/refunds")
    run_job(next(one for one in PERIODIC if one.name == "submitter"), worker)
    assert {name: outcome(name) - before[name] for name in metrics.OUTCOMES} == {
        "confirmed": 1, "refused": 0, "not_accepted": 0, "unknown": 1,
    }  # fmt: skip
    last = metrics.REGISTRY.get_sample_value("onceback_job_last_success_timestamp_seconds", {"job": "submitter"})
    assert last
    assert refunds_at(sandbox, lost) == 1


def test_no_label_names_a_customer_an_order_or_a_person(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """And their number does not grow with the number of refunds."""
    approved(stack, world, sandbox)
    before = scraped(worker)
    for _ in range(3):
        approved(stack, world, sandbox)
    after = scraped(worker)
    assert before.keys() == after.keys()
    used = {label for _, labels in after for label, _ in labels}
    values = " ".join(text for _, labels in after for _, text in labels)
    assert used <= LABELS
    assert re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", values) is None
    for foreign in (*(person.name for person in world.people), "Ilse", "Omar", world.order.external_ref, "@"):
        assert foreign not in values
    names = {label for one in (metrics.REGISTRY, web_metrics.REGISTRY) for family in one.collect()
             for sample in family.samples for label in sample.labels}  # fmt: skip
    assert names <= LABELS


def test_a_database_that_is_away_is_a_figure_and_no_error(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.exc import OperationalError

    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("SELECT", {}, Exception("away"))

    monkeypatch.setattr(metrics, "transaction", away)
    assert scraped(worker)["onceback_database_up", ()] == 0


def test_a_worker_process_answers_scrapes_on_its_own_port(stack: Stack, world: World, sandbox: Running) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with jobs_process(stack, sandbox, world, METRICS_PORT=str(port)):
        wait_until(lambda: _listens(port), "metrics")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    found = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    assert (found["onceback_database_up"], found["onceback_sending_allowed"], found["onceback_generation"]) == (1, 1, 1)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def rules() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    groups = yaml.safe_load((ROOT / "ops" / "alerts.yml").read_text())["groups"]
    assert all(set(group) == {"name", "rules"} for group in groups)
    return [rule for group in groups for rule in group["rules"]]


def emitted() -> set[str]:
    """Every name a scrape of a worker or of the console can give."""
    books = {metric for metric, _, _ in metrics.GAUGES.values()}
    books |= {"onceback_database_up", "onceback_sending_allowed", "onceback_generation"}
    for registry in (metrics.REGISTRY, web_metrics.REGISTRY):
        for family in registry.collect():
            suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
            books |= {family.name + suffix for suffix in suffixes}
    return books


def test_every_alert_rule_asks_for_figures_that_exist_over_a_window_and_has_its_runbook() -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    found, seen = rules(), set()
    for rule in found:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        asked = set(re.findall(r"onceback_[a-z_]+", rule["expr"]))
        assert asked, rule["alert"]
        assert asked <= emitted(), (rule["alert"], asked - emitted())
        assert re.search(r"\[\d+[mhd]\]", rule["expr"]), f"{rule['alert']} looks at one moment"
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "5m"))
        path, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert path == "docs/operations.md"
        assert anchor in anchors, (rule["alert"], anchor)
        assert rule["annotations"]["summary"]
        seen |= asked
    assert len({rule["alert"] for rule in found}) == len(found)
    # A job that never once ended well has no series that could be too old.
    (never,) = [rule["expr"] for rule in found if rule["alert"] == "OncebackJobNeverRan"]
    assert set(re.findall(r'job="([a-z_]+)"', never)) == {one.name for one in PERIODIC if one.seconds <= 300}
    # What the design asks to be watched is alerted on.
    assert seen >= {
        "onceback_intent_oldest_seconds", "onceback_outbox_lag_seconds", "onceback_outcomes_total", "onceback_cap_used_minor",
        "onceback_discrepancies_open", "onceback_review_backlog", "onceback_overdue", "onceback_sending_allowed",
    }  # fmt: skip


def test_what_waits_too_long_is_said_once_and_is_over_when_it_is_healthy(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    assert overdue.run_once(worker) == {}
    one = approved(stack, world, sandbox)
    other = proposed(stack, world, sandbox)
    as_administrator(stack, "UPDATE outbox SET due_at = now() - interval '1 hour'")
    as_administrator(
        stack, "UPDATE intents SET state_at = now() - interval '1 hour' WHERE intent_id = %s", one.intent_id
    )
    as_administrator(
        stack, "UPDATE intents SET state_at = now() - interval '20 days' WHERE intent_id = %s", other.intent_id
    )
    assert overdue.run_once(worker) == {"raised": 2}
    assert overdue.run_once(worker) == {}
    assert alarms(stack) == {"overdue_approved", "overdue_proposed"}
    assert value(worker, "onceback_overdue", kind="approved") == 1
    assert len(as_administrator(stack, "SELECT 1 FROM alarms")) == 2

    submitter.run_once(worker)
    assert overdue.run_once(worker) == {"closed": 1}
    assert alarms(stack) == {"overdue_proposed"}
    assert refunds_at(sandbox, one) == 1


def test_a_hint_that_nobody_worked_is_late_too(stack: Stack, world: World, worker: Worker) -> None:
    as_administrator(
        stack, "INSERT INTO provider_events (merchant_id, event_ref, kind, object_ref, created_at, body_digest, received_at)"
        " VALUES (%s, 'evt_1', 'refund.updated', 're_1', now(), sha256('x'), now() - interval '1 hour')", world.merchant_id,
    )  # fmt: skip
    assert overdue.run_once(worker) == {"raised": 1}
    assert value(worker, "onceback_hooks_waiting") == 1
    assert value(worker, "onceback_hook_lag_seconds") > 3500
    inbox.run_once(worker)
    assert overdue.run_once(worker) == {"closed": 1}
    assert alarms(stack) == set()


def test_every_kind_of_late_row_can_be_the_name_of_an_alarm() -> None:
    assert [kind for kind in kinds() if not re.fullmatch(r"[a-z_]+", kind)] == []
