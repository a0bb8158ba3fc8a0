"""S84: a worker sends nothing from a database that is not the one it was, or that went back in time."""

import json
from pathlib import Path
from uuid import uuid4

import pytest

from jobs import reconciler, submitter
from jobs.standing import FAULTS, Standing
from sandbox.client import Running
from tests.refunds import (
    Proposed,
    alarms,
    approved,
    as_administrator,
    creates,
    deployment_of,
    make_due,
    refunds_at,
    state_of,
    worker_at,
)
from tests.restores import back_up, forget, restore
from tests.stack import Stack
from tests.world import World


def send_once(stack: Stack, world: World, sandbox: Running, standing: Standing | None) -> tuple[int, str]:
    """One run of the submitter and the reconciler under a guard: how many creates the provider saw, and the guard's fault."""
    before = len(creates(sandbox))
    with worker_at(stack, sandbox, world, standing=standing, consistency_seconds=0) as worker:
        submitter.run_once(worker)
        reconciler.run_once(worker)
    return len(creates(sandbox)) - before, standing.fault if standing else ""


def guard(stack: Stack, folder: Path, **other: object) -> Standing:
    deployment_id, generation = deployment_of(stack)
    given = {"deployment_id": deployment_id, "generation": generation, **other}
    return Standing(stack.worker, state_dir=folder, **given)  # type: ignore[arg-type]


def three_paid_after_a_backup(
    stack: Stack, world: World, sandbox: Running, folder: Path
) -> tuple[Stack, list[Proposed]]:
    """A backup that holds three approved refunds; then they are paid, and the backup comes back."""
    earlier = approved(stack, world, sandbox)
    assert send_once(stack, world, sandbox, guard(stack, folder)) == (1, "")
    assert state_of(stack, earlier) == "succeeded"
    three = [approved(stack, world, sandbox) for _ in range(3)]
    backup = back_up(stack)
    assert send_once(stack, world, sandbox, guard(stack, folder)) == (3, "")
    assert [state_of(stack, one) for one in three] == ["succeeded"] * 3
    restore(stack, backup)
    assert [state_of(stack, one) for one in three] == ["approved"] * 3
    return backup, three


def test_a_restored_backup_sends_nothing_again(stack: Stack, world: World, sandbox: Running, tmp_path: Path) -> None:
    backup, three = three_paid_after_a_backup(stack, world, sandbox, tmp_path)
    make_due(stack)

    assert send_once(stack, world, sandbox, guard(stack, tmp_path)) == (0, "attempt_missing")

    assert [refunds_at(sandbox, one) for one in three] == [1, 1, 1]
    assert alarms(stack) == {"sending_refused"}
    forget(backup)


def test_a_restored_backup_sends_nothing_from_a_host_that_has_no_mark(
    stack: Stack, world: World, sandbox: Running, tmp_path: Path
) -> None:
    """The host burned with the database: the new one must not take the backup for the books either."""
    backup, three = three_paid_after_a_backup(stack, world, sandbox, tmp_path)

    assert send_once(stack, world, sandbox, guard(stack, tmp_path / "new")) == (0, "no_mark")

    assert [refunds_at(sandbox, one) for one in three] == [1, 1, 1]
    forget(backup)


def test_without_the_guard_a_restored_backup_calls_the_provider_again(
    stack: Stack, world: World, sandbox: Running, tmp_path: Path
) -> None:
    """The control. The provider's key still answers for a day; past that each call is a second refund."""
    backup, three = three_paid_after_a_backup(stack, world, sandbox, tmp_path)
    sandbox.advance(25 * 3600)

    assert send_once(stack, world, sandbox, None) == (3, "")

    assert [refunds_at(sandbox, one) for one in three] == [2, 2, 2]
    forget(backup)


def test_another_deployment_or_generation_than_the_settings_say_sends_nothing(
    stack: Stack, world: World, sandbox: Running, tmp_path: Path
) -> None:
    one = approved(stack, world, sandbox)

    assert send_once(stack, world, sandbox, guard(stack, tmp_path, deployment_id=uuid4())) == (0, "other_deployment")
    assert send_once(stack, world, sandbox, guard(stack, tmp_path, generation=2)) == (0, "other_generation")
    assert refunds_at(sandbox, one) == 0

    # The same database, known for what it is: sent, and the alarm is over.
    assert send_once(stack, world, sandbox, guard(stack, tmp_path)) == (1, "")
    assert (refunds_at(sandbox, one), alarms(stack)) == (1, set())


@pytest.mark.parametrize(
    ("changed", "fault"),
    [({"system_identifier": "1"}, "other_server"), ({"timeline": 99}, "other_timeline"),
     ({"log_position": 2**62}, "log_behind"), ({"generation": 7}, "other_generation"),
     ({"merchant": "MERCHANT", "intent": str(uuid4()), "attempt": 1}, "attempt_missing")],
)  # fmt: skip
def test_a_mark_that_the_database_does_not_fit_stops_all_sending(
    stack: Stack, world: World, sandbox: Running, tmp_path: Path, changed: dict[str, object], fault: str
) -> None:
    one = approved(stack, world, sandbox)
    assert guard(stack, tmp_path).good()
    (path,) = tmp_path.glob("*.json")
    mark = json.loads(path.read_text()) | changed
    path.write_text(json.dumps({k: str(world.merchant_id) if v == "MERCHANT" else v for k, v in mark.items()}))

    assert send_once(stack, world, sandbox, guard(stack, tmp_path)) == (0, fault)

    assert (fault in FAULTS, refunds_at(sandbox, one), alarms(stack)) == (True, 0, {"sending_refused"})


def test_a_mark_that_cannot_be_read_or_written_stops_all_sending(
    stack: Stack, world: World, sandbox: Running, tmp_path: Path
) -> None:
    one = approved(stack, world, sandbox)
    assert guard(stack, tmp_path).good()
    (path,) = tmp_path.glob("*.json")
    path.write_text("half a ma")
    assert send_once(stack, world, sandbox, guard(stack, tmp_path)) == (0, "mark_unreadable")
    taken = tmp_path / "a file"
    taken.write_text("")
    assert send_once(stack, world, sandbox, guard(stack, taken)) == (0, "mark_not_kept")
    assert refunds_at(sandbox, one) == 0


def test_a_mark_that_is_lost_between_claim_and_send_keeps_the_claim_from_being_sent(
    stack: Stack, world: World, sandbox: Running, tmp_path: Path
) -> None:
    one = approved(stack, world, sandbox)
    standing = guard(stack, tmp_path)
    assert standing.good()
    (path,) = tmp_path.glob("*.json")
    path.unlink()
    assert send_once(stack, world, sandbox, standing)[0] == 0
    assert (state_of(stack, one), refunds_at(sandbox, one)) == ("submitting", 0)


@pytest.mark.usefixtures("world")
def test_the_look_at_the_database_is_believed_for_a_minute(stack: Stack, tmp_path: Path) -> None:
    now = [0.0]
    deployment_id, generation = deployment_of(stack)
    standing = Standing(stack.worker, deployment_id, generation, tmp_path, clock=lambda: now[0])
    assert standing.good()
    as_administrator(stack, "UPDATE deployment SET generation = 2")
    now[0] = 59.9
    assert standing.good()
    now[0] = 60.0
    assert not standing.good()
    as_administrator(stack, "UPDATE deployment SET generation = 1")
    assert standing.good()
    assert alarms(stack) == set()


def test_a_new_host_begins_its_mark_by_command(stack: Stack, world: World, sandbox: Running, tmp_path: Path) -> None:
    approved(stack, world, sandbox)
    send_once(stack, world, sandbox, guard(stack, tmp_path))
    new = tmp_path / "new"
    assert send_once(stack, world, sandbox, guard(stack, new)) == (0, "no_mark")
    other = guard(stack, new, deployment_id=uuid4())
    assert (other.begin(), guard(stack, new).begin()) == ("other_deployment", "")
    assert guard(stack, new).good()
