"""The list pages of Flask-Admin and Django's admin, under gunicorn like ours, on the same rows and server."""

import http.client
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.peers.environment import python

_PROGRAMS: Final = Path(__file__).with_name("admins")
# What each is asked for: the first page, a page at half of everything, a state, the beginning of a reference.
ASKED: Final = {
    "flask-admin": {
        "program": "flask_admin_pages:application()", "first": "/admin/case/", "deep": "/admin/case/?page={page}",
        "state": "/admin/case/?flt0_stage_equals=ready", "search": "/admin/case/?search=%5E{reference}",
    },
    "django": {
        "program": "django_pages:application", "first": "/admin/auth/case/", "deep": "/admin/auth/case/?p={page}",
        "state": "/admin/auth/case/?stage__exact=ready", "search": "/admin/auth/case/?q={reference}",
    },
}  # fmt: skip
READY_SECONDS: Final = 60


@dataclass
class Admin:
    """One of them, running; `get` answers with the status."""

    name: str
    port: int

    def path(self, page: str, **places: object) -> str:
        """The address of a page."""
        return ASKED[self.name][page].format(**places)

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)


@contextmanager
def running_admin(name: str, database_url: str, workers: int = 1) -> Iterator[Admin]:
    """Starts one under gunicorn with eight threads. Raises PeersMissing, RuntimeError when it does not answer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PEER_DATABASE_URL": database_url, "PYTHONPATH": str(_PROGRAMS)}
    command = [str(python().absolute()), "-m", "gunicorn", ASKED[name]["program"], "--bind", f"127.0.0.1:{port}",
               "--worker-class", "gthread", "--workers", str(workers), "--threads", "8", "--keep-alive", "15",
               "--log-level", "warning"]  # fmt: skip
    with subprocess.Popen(command, env=environment, cwd=_PROGRAMS) as process:
        try:
            made = Admin(name, port)
            _wait(made, process)
            yield made
        finally:
            process.terminate()


def _wait(made: Admin, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            asked = made.connection()
            asked.request("GET", made.path("first"))
            status = asked.getresponse().status
        except OSError:
            time.sleep(0.3)
            continue
        if status == 200:
            return
        raise RuntimeError(f"{made.name} answers its first page with {status}")
    raise RuntimeError(f"{made.name} did not start")
