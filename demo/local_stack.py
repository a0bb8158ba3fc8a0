"""All of Onceback on this machine: database, provider, web and worker, each its own process with its own secrets.

Used by `make demo`, by the browser tests and by the replay. Everything listens on 127.0.0.1 only and is stopped by its
process id, in the reverse order of starting.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import requests

from demo.postgres import EmbeddedPostgres
from demo.roles import CONSOLE, OWNER, WORKER, prepare, roles_exist
from ledger.database import connect, transaction
from ledger.migrations.run import migrate
from ledger.position import deployment
from ledger.seals import Sealer, new_key
from sandbox.client import SandboxClient

ROOT = Path(__file__).parents[1]
READY_SECONDS = 60
STOP_SECONDS = 20
DATABASE = "onceback"


class StackError(Exception):
    """The local stack cannot start; the message is one sentence that says what to do."""


@dataclass
class LocalStack:
    """One local Onceback in `folder`. Ports of 0 take free ones. `say` is told what is going on, a line at a time.

    `durable` as for EmbeddedPostgres.
    """

    folder: Path
    web_port: int = 0
    provider_port: int = 0
    merchants: tuple[str, ...] = ("hollowbrook",)
    cancel_window_seconds: int = 30
    consistency_seconds: int = 60
    web_workers: int = 1
    environment: str = "demo"
    durable: bool = True
    say: Callable[[str], None] = lambda _line: None
    role_urls: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.web_port = _port(self.web_port, "web")
        self.provider_port = _port(self.provider_port, "provider")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.postgres = EmbeddedPostgres(self.folder / "postgres", durable=self.durable)
        self.secrets = _secrets(self.folder / "secrets.json", self.merchants)

    @property
    def origin(self) -> str:
        """The address of the console. By name, for a browser keeps no passkey for a bare address."""
        return f"http://localhost:{self.web_port}"

    @property
    def provider_url(self) -> str:
        return f"http://127.0.0.1:{self.provider_port}"

    def provider(self, merchant: str = "hollowbrook") -> SandboxClient:
        """The local provider's controls in the name of a merchant's account."""
        return SandboxClient(self.provider_url, self.secrets["provider_keys"][merchant])

    def sealer(self) -> Sealer:
        """The key with which approvals are sealed; for a seed that acts as the web process."""
        return Sealer.from_text(self.secrets["seal_key"])

    def start_database(self) -> None:
        """Starts PostgreSQL, makes the roles and migrates."""
        self.say("Starting the database")
        self.postgres.start()
        passwords = self.folder / "role-passwords.json"
        if os.environ.get("DATABASE_URL") and not passwords.exists() and roles_exist(self.postgres.admin_url):
            raise StackError(
                "DATABASE_URL names a server that has Onceback's roles already, so it may be a real one: "
                "unset it, or name an empty server."
            )
        self.role_urls = prepare(self.postgres.admin_url, DATABASE, passwords)
        migrate(self.role_urls[OWNER])

    def start_provider(self) -> None:
        """Starts the local provider."""
        self.say("Starting the local payment provider")
        command = [
            sys.executable,
            "-m",
            "sandbox",
            "--port",
            str(self.provider_port),
            "--db",
            str(self.folder / "provider.sqlite"),
        ]
        self._start("provider", command, {})
        self._wait("provider", f"{self.provider_url}/_sandbox/clock")
        for merchant, secret in self.secrets["webhook_secrets"].items():
            self.provider(merchant).set_webhook(f"{self.origin}/hooks/stripe/{merchant}", secret)

    def start_web(self) -> None:
        """Starts the console and the API under gunicorn."""
        self.say("Starting the console")
        command = [
            sys.executable, "-m", "gunicorn", "app:create_app()", "--bind", f"127.0.0.1:{self.web_port}", "--worker-class",
            "gthread", "--workers", str(self.web_workers), "--threads", "8", "--log-level", "warning",
            "--graceful-timeout", "10", "--keep-alive", "15",
        ]  # fmt: skip
        secret = self.secrets
        self._start("web", command, {
            "DATABASE_URL": self.role_urls[CONSOLE], "SEAL_KEY": secret["seal_key"], "COOKIE_KEY": secret["cookie_key"],
            "AUTOMATIC_SEAL_KEY": secret["automatic_seal_key"],
            "WEBHOOK_SECRETS": json.dumps({name: [value] for name, value in secret["webhook_secrets"].items()}),
            "CANCEL_WINDOW_SECONDS": str(self.cancel_window_seconds),
        })  # fmt: skip
        self._wait("web", f"{self.origin}/sign-in")

    def start_worker(self, name: str = "worker", **environment: str) -> None:
        """Starts a worker; any number may run under different names."""
        self.say("Starting a worker")
        self._start(name, [sys.executable, "-m", "jobs", "run"], {**self.worker_environment(), **environment})

    def worker_environment(self) -> dict[str, str]:
        """What a worker process is given: its database role, the public half of the seal, the provider's keys."""
        known = self.deployment()
        standing = {"DEPLOYMENT_ID": str(known[0]), "GENERATION": str(known[1])} if known else {}
        return {
            "DATABASE_URL": self.role_urls[WORKER],
            "STATE_DIR": str(self.folder / "state"),
            **standing,
            "SEAL_PUBLIC_KEYS": json.dumps([self.sealer().public_text()]),
            "AUTOMATIC_SEAL_PUBLIC": json.dumps([Sealer.from_text(self.secrets["automatic_seal_key"]).public_text()]),
            "PROVIDER_KEYS": json.dumps(self.secrets["provider_keys"]),
            "PROVIDER_BASE_URL": self.provider_url,
            "CONSISTENCY_SECONDS": str(self.consistency_seconds),
            "ENVIRONMENT": self.environment,
        }

    def deployment(self) -> tuple[UUID, int] | None:
        """Id and generation of the deployment; None before its first merchant."""
        owner = connect(self.role_urls[OWNER], pool_size=1, name="local")
        try:
            with transaction(owner, read_only=True) as db:
                return deployment(db)
        finally:
            owner.dispose()

    def kill(self, name: str) -> None:
        """SIGKILL to one process and to what it started: as a power cut would."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Stops what was started, last first: each is asked, and after a while killed, by its process id."""
        while self.processes:
            name, process = self.processes.popitem()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.say(f"The {name} process did not stop and is killed")
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.postgres.stop()

    def dead(self) -> str | None:
        """The name of a process that ended by itself, or None."""
        return next((name for name, process in self.processes.items() if process.poll() is not None), None)

    def log(self, name: str) -> Path:
        """Where a process writes what it prints."""
        return self.folder / "logs" / f"{name}.log"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        log = self.log(name)
        log.parent.mkdir(exist_ok=True)
        # Children get what they need and nothing else: no secret of this shell, and none of each other.
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV") if key in os.environ}
        usual = {"ENVIRONMENT": self.environment, "PUBLIC_ORIGIN": self.origin, "PYTHONUNBUFFERED": "1"}
        with log.open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command, cwd=ROOT, env={**kept, **usual, **environment}, stdout=output, stderr=output,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def _wait(self, name: str, url: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.processes[name].poll() is not None:
                raise StackError(f"The {name} process ended while starting; its log {self.log(name)} says why.")
            try:
                if requests.get(url, timeout=2, allow_redirects=False).status_code < 500:
                    return
            except requests.RequestException:
                time.sleep(0.1)
        raise StackError(
            f"The {name} process did not answer within {READY_SECONDS} s; its log {self.log(name)} says more."
        )


def forget(folder: Path) -> None:
    """Ends a database that is still running there, and removes the folder."""
    if folder.exists():
        EmbeddedPostgres(folder / "postgres").destroy()
        shutil.rmtree(folder, ignore_errors=True)


def _port(wanted: int, name: str) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            raise StackError(
                f"Port {wanted} for the {name} is taken: stop what uses it, or `make demo ARGS=--{name}-port=…` with another."
            ) from None
        return int(probe.getsockname()[1])


def _secrets(path: Path, merchants: tuple[str, ...]) -> dict[str, Any]:
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known.setdefault("seal_key", new_key("local-1"))
    known.setdefault("automatic_seal_key", new_key("local-automatic-1"))
    known.setdefault("cookie_key", secrets.token_urlsafe(48))
    keys, hooks = known.setdefault("provider_keys", {}), known.setdefault("webhook_secrets", {})
    for merchant in merchants:
        keys.setdefault(merchant, f"sk_test_{secrets.token_hex(16)}")
        hooks.setdefault(merchant, f"whsec_{secrets.token_hex(24)}")
    path.touch(mode=0o600, exist_ok=True)
    path.write_text(json.dumps(known, indent=1), encoding="utf-8")
    return dict(known)
