"""Workers as processes of their own, as they are run, so that they can be killed."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.client import SandboxClient
from tests.refunds import Proposed, as_administrator, worker_environment
from tests.stack import Stack
from tests.world import World

ROOT = Path(__file__).parents[2]


@contextmanager
def jobs_process(
    stack: Stack, sandbox: SandboxClient, world: World, *arguments: str, **environment: str
) -> Iterator["subprocess.Popen[str]"]:
    """`python -m jobs run …`, killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jobs", "run", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=worker_environment(stack, sandbox.base_url, world, sandbox.secret_key, **environment),
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=15)


def wait_until(true: Callable[[], Any], what: str, seconds: float = 40) -> None:
    """Waits for something to become true; the machine may be busy, so it waits long and asks often."""
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, f"in {seconds} s there was no sign of: {what}"
        time.sleep(0.02)


def run_until_quiet(stack: Stack, sandbox: SandboxClient, world: World) -> str:
    """A new worker works until nothing is due; waits between looks are cut short. Returns what it printed."""
    with jobs_process(stack, sandbox, world, "--until-quiet", "--horizon", "60") as process:
        while process.poll() is None:
            as_administrator(
                stack, "UPDATE outbox SET due_at = now() WHERE done_at IS NULL AND due_at <= now() + '1 min'"
            )
            # Longer than the window of a worker that believes lists at once, so that no look is wasted.
            time.sleep(1.3)
        printed, _ = process.communicate()
    assert process.returncode == 0, printed
    return printed


def lines_of(printed: str) -> list[dict[str, Any]]:
    """The log, line by line."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def call_about(sandbox: SandboxClient, one: Proposed) -> dict[str, Any] | None:
    """The last call under this intent's key, if there was one."""
    calls = sandbox.requests(key=one.key)
    return calls[-1] if calls else None
