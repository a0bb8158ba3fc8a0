"""Starting an engine's program and measuring it: a drain, a worker killed in the middle, a second worker beside a healthy one."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from bench.double import Double
from bench.peers.environment import python
from demo.postgres import EmbeddedPostgres

ENGINES: Final = ("procrastinate", "pgqueuer", "dbos")
_PROGRAMS: Final = Path(__file__).with_name("engines")
# A takeover that has not come by then is written down as none.
TAKEOVER_SECONDS: Final = 45
UNFINISHED_SECONDS: Final = 60


@dataclass(frozen=True)
class Drained:
    """`rate` in jobs a second, `cpu_ms` of the worker for each job."""

    rate: float
    cpu_ms: float


@dataclass(frozen=True)
class Killed:
    """What a kill -9 in the middle of a drain left behind, in jobs."""

    paid_twice: int
    never_paid: int
    unfinished: int


@dataclass(frozen=True)
class Peer:
    """One engine with a database of its own on the server that is measured."""

    name: str
    database: str
    double: Double

    def tell(self, command: str, *arguments: int, **environment: str) -> dict[str, Any]:
        """Runs one command of the engine's program to its end; its answer, seconds and CPU seconds."""
        done = subprocess.run(
            self._command(command, *arguments), env=self._environment(environment), capture_output=True, text=True,
            check=False, timeout=900,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{self.name} {command}: {done.stderr[-500:]}")
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return said

    @contextmanager
    def serving(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that runs until the block ends, under its own name where the engine has names."""
        process = subprocess.Popen(
            self._command("serve"), env=self._environment({"PEER_WORKER": name}), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            kill(process)

    def ready(self, jobs: int, delay_ms: float) -> None:
        """Nothing left of an earlier run, `jobs` waiting, the provider answering `delay_ms` late."""
        self.tell("empty")
        self.double.forget(delay_ms)
        self.tell("enqueue", jobs)

    def drain(self, jobs: int, delay_ms: float) -> Drained:
        """One worker drains `jobs`, one bare POST each."""
        self.ready(jobs, delay_ms)
        took = self.tell("drain")
        if self.double.counts()["paid"] != jobs:
            raise RuntimeError(f"{self.name} did not pay all of {jobs} jobs")
        return Drained(jobs / took["seconds"], took["cpu"] / jobs * 1000)

    def takeover_seconds(self, most: float = TAKEOVER_SECONDS) -> float | None:
        """From the kill -9 of a worker in mid-call until the other worker calls for one of its jobs; None: not within `most`."""
        self.ready(16, 2000)
        with self.serving("one") as one:
            until(lambda: self.double.counts()["paid"] == 16, 30)
            with self.serving("two"):
                time.sleep(1)
                kill(one)
                killed = time.monotonic()
                again = until(lambda: self.double.counts()["calls"] > 16, most)
                return time.monotonic() - killed if again else None

    def killed_in_mid_drain(self, jobs: int, delay_ms: float = 20) -> Killed:
        """One worker is killed halfway, and started again: what a supervisor does."""
        self.ready(jobs, delay_ms)
        with self.serving("one") as one:
            until(lambda: self.double.counts()["calls"] >= jobs // 2, 120)
            kill(one)
        with self.serving("one"):
            until(lambda: self.tell("unfinished")["answer"] == 0, UNFINISHED_SECONDS, pause=1)
        counts = self.double.counts()
        return Killed(counts["paid_twice"], jobs - counts["paid"], self.tell("unfinished")["answer"])

    def calls_too_many(self, jobs: int, delay_ms: float = 500) -> int:
        """Calls beyond one for each job, when a second worker starts beside a healthy one that is busy."""
        self.ready(jobs, delay_ms)
        with self.serving("one"):
            until(lambda: self.double.counts()["calls"] >= 16, 30)
            with self.serving("two"):
                until(lambda: self.tell("unfinished")["answer"] == 0, UNFINISHED_SECONDS, pause=1)
        counts = self.double.counts()
        return counts["calls"] - counts["paid"]

    def _command(self, command: str, *arguments: int) -> list[str]:
        # Absolute, because a link to the interpreter would lead to the packages of another environment.
        program = str(Path.cwd() / python())
        return [program, str(_PROGRAMS / f"{self.name}_engine.py"), command, *map(str, arguments)]

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {**os.environ, "PEER_DATABASE": self.database, "PEER_PROVIDER": self.double.url, **more}


def prepared(server: EmbeddedPostgres, double: Double, name: str) -> Peer:
    """An engine in a new database of its own, its tables made by itself."""
    admin = make_url(server.admin_url).set(drivername="postgresql")
    with psycopg.connect(admin.render_as_string(hide_password=False), autocommit=True) as db:
        db.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(f"peer_{name}")))
        db.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(f"peer_{name}")))
    peer = Peer(name, admin.set(database=f"peer_{name}").render_as_string(hide_password=False), double)
    peer.tell("setup")
    return peer


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a worker and whatever it started; nothing when it is gone already."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(done: Any, seconds: float, pause: float = 0.02) -> bool:
    """Whether `done()` came true within `seconds`."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if done():
            return True
        time.sleep(pause)
    return bool(done())
