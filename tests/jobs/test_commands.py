"""How a worker starts, what it says, how it lives with a database that goes away, and when it is quiet."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from jobs import submitter
from jobs.commands import jobs
from jobs.liveness import Liveness
from jobs.schedule import NotQuiet, prove_life, until_quiet
from jobs.worker import Worker
from ledger.log_fields import only_allowed
from ledger.seals import new_key
from sandbox.client import Running
from tests import lives
from tests.jobs.processes import jobs_process, wait_until
from tests.refunds import approved, as_administrator, creates, refunds_at, state_of, worker_environment
from tests.stack import Stack
from tests.world import World


def start(stack: Stack, sandbox: Running, world: World, *arguments: str, **changes: str | None) -> Result:
    given = {**worker_environment(stack, sandbox.base_url, world, sandbox.secret_key), **changes}
    return CliRunner().invoke(jobs, ["run", "--once", "submitter", *arguments], env=given)


REFUSED: list[tuple[dict[str, str | None], str]] = [
    ({"SEAL_KEY": new_key("test-1")}, "SEAL_KEY is given to the worker"),
    ({"SEAL_KEY_FILE": "/etc/hostname"}, "SEAL_KEY is given to the worker"),
    ({"AUTOMATIC_SEAL_KEY": new_key("test-2")}, "AUTOMATIC_SEAL_KEY is given to the worker"),
    ({"AUTOMATIC_SEAL_KEY_FILE": "/etc/hostname"}, "AUTOMATIC_SEAL_KEY is given to the worker"),
    ({"AUTOMATIC_SEAL_PUBLIC": json.dumps([lives.sealer().public_text()])}, "each has a key of its own"),
    ({"SEAL_PUBLIC_KEYS": "[]"}, "SEAL_PUBLIC_KEYS is missing"),
    ({"SEAL_PUBLIC_KEYS": '["nonsense"]'}, "a seal key is written"),
    ({"PROVIDER_KEYS": "{}"}, "PROVIDER_KEYS is missing"),
    ({"DEPLOYMENT_ID": None}, "DEPLOYMENT_ID or GENERATION is missing"),
    ({"GENERATION": None}, "DEPLOYMENT_ID or GENERATION is missing"),
    ({"PROVIDER_KEYS": '{"harbour": "sk_live_SECRETSECRET"}'}, "a live provider key outside production"),
    ({"PROVIDER_KEYS": "sk_test_SECRETSECRET"}, "provider_keys"),
    ({"PROVIDER_READ_SECONDS": "80"}, "PROVIDER_READ_SECONDS"),
    ({"DATABASE_URL": None}, "DATABASE_URL"),
    ({"DATABASE_URL": "postgresql://worker:SECRETSECRET@127.0.0.1:9/none"}, "The database does not answer"),
]


def test_a_worker_with_the_wrong_configuration_says_what_to_do_and_no_secret(
    stack: Stack, sandbox: Running, world: World
) -> None:
    for changes, sentence in REFUSED:
        refused = start(stack, sandbox, world, **changes)
        assert refused.exit_code == 1, changes
        assert sentence in refused.output, (changes, refused.output)
        assert "SECRETSECRET" not in refused.output
        assert not isinstance(refused.exception, psycopg.Error)


@pytest.mark.parametrize("role", ["owner_url", "console_url", "admin_url"])
def test_a_worker_in_another_role_does_not_start(stack: Stack, sandbox: Running, world: World, role: str) -> None:
    refused = start(stack, sandbox, world, DATABASE_URL=getattr(stack, role))
    assert refused.exit_code == 1
    assert "it has to be onceback_worker" in refused.output
    assert sandbox.requests() == []


def test_one_run_of_one_job_from_the_command_line_pays_what_is_due(
    stack: Stack, sandbox: Running, world: World
) -> None:
    one = approved(stack, world, sandbox)
    done = start(stack, sandbox, world)
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "claimed=1 confirmed=1")
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)
    assert start(stack, sandbox, world).output.splitlines()[-1] == "nothing to do"


def test_until_quiet_waits_for_what_is_due_soon_and_not_for_what_is_due_later(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    soon, later = approved(stack, world, sandbox, window=1), approved(stack, world, sandbox, window=600)
    counts = until_quiet(worker, 30)
    assert counts == {"claimed": 1, "confirmed": 1}
    assert (state_of(stack, soon), state_of(stack, later)) == ("succeeded", "approved")


def test_until_quiet_says_when_work_is_due_and_nothing_moves_it(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    with psycopg.connect(stack.admin_url) as blocker:
        blocker.execute("SELECT 1 FROM cases WHERE case_id = %s FOR UPDATE", (one.case_id,))
        with pytest.raises(NotQuiet):
            until_quiet(worker, 1)
    assert until_quiet(worker, 1) == {"claimed": 1, "confirmed": 1}


def test_until_quiet_does_not_wait_for_a_merchant_that_is_paused(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    approved(stack, world, sandbox)
    as_administrator(stack, "UPDATE merchant_brakes SET paused_at = now(), paused_by = 'Jonas Okonjo'")
    assert until_quiet(worker, 30) == {}
    assert creates(sandbox) == []


def test_a_worker_that_lost_its_lock_sends_nothing_until_it_has_a_new_one(
    stack: Stack, sandbox: Running, world: World, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.liveness.CHECK_SECONDS", 0)
    one = approved(stack, world, sandbox)
    before = worker.liveness.worker_id
    as_administrator(
        stack, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'onceback-alive'"
        " AND datname = current_database()",
    )  # fmt: skip
    assert (submitter.run_once(worker), creates(sandbox)) == ({}, [])
    assert prove_life(worker) == {"renewed": 1}
    assert worker.liveness.worker_id not in (before, 0)
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert state_of(stack, one) == "succeeded"


def test_a_worker_outlives_a_database_that_goes_away_in_the_middle_of_a_call(
    stack: Stack, sandbox: Running, world: World, worker: Worker
) -> None:
    one = approved(stack, world, sandbox)
    sandbox.fault("delay_after", ms=800, charge=one.charge)
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(until_quiet, worker, 40)
        wait_until(lambda: refunds_at(sandbox, one), "the refund")
        with psycopg.connect(stack.server.url("postgres"), autocommit=True) as away:
            away.execute("UPDATE pg_database SET datallowconn = false WHERE datname = %s", (stack.name,))
            away.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (stack.name,))
            time.sleep(2)
            away.execute("UPDATE pg_database SET datallowconn = true WHERE datname = %s", (stack.name,))
        counts = work.result(timeout=60)
    assert counts["claimed"] == 1
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("succeeded", 1)
    assert len(creates(sandbox)) == 1


def test_the_lock_is_seen_by_the_others_under_the_workers_id_and_goes_with_it(stack: Stack, world: World) -> None:
    held = "SELECT (classid::bigint << 32 | objid::bigint) AS id FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"
    with Liveness(stack.worker_url) as one, Liveness(stack.worker_url) as other:
        here = {row["id"] for row in as_administrator(stack, held)}
        assert {one.worker_id, other.worker_id} <= here
        assert one.worker_id != other.worker_id
        with one.singleton(world.merchant_id) as first, other.singleton(world.merchant_id) as second:
            assert (first, second) == (True, False)
        with other.singleton(world.merchant_id) as alone:
            assert alone
        gone = other.worker_id
    # The server lets go when it notices that the connection was closed.
    wait_until(lambda: gone not in {row["id"] for row in as_administrator(stack, held)}, "the lock to go")


def test_the_log_takes_listed_fields_only_and_no_objects() -> None:
    entry: dict[str, Any] = {
        "event": "sent", "intent": "i-1", "key": "onceback-refund-x", "customer": "Ilse Brandt", "password": "p",
        "counts": {"confirmed": 2, "note": "Ilse"}, "error": ValueError("Ilse Brandt"), "code": "x" * 500,
    }  # fmt: skip
    written = only_allowed(None, "info", entry)
    assert written == {
        "event": "sent", "intent": "i-1", "key": "onceback-refund-x", "counts": {"confirmed": 2}, "error": "ValueError",
        "code": "x" * 200,
    }  # fmt: skip


def test_a_worker_says_nothing_of_customers_credentials_or_addresses(
    stack: Stack, sandbox: Running, world: World
) -> None:
    one = approved(stack, world, sandbox)
    sandbox.fault("lose_reply", path="/v1/refunds")
    with jobs_process(stack, sandbox, world, "--until-quiet", "--horizon", "20") as process:
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0, printed
    assert state_of(stack, one) == "succeeded"
    password = psycopg.conninfo.conninfo_to_dict(stack.worker_url)["password"]
    for secret in ("Ilse", "ilse.", sandbox.secret_key, str(password), "T-shirt"):
        assert secret not in printed
    assert {"sent", "found", "run"} <= {json.loads(line)["event"] for line in printed.splitlines() if line[0] == "{"}
    assert os.environ.get("SEAL_KEY") is None
