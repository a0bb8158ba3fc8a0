"""The web process counts its answers, and serves the figures on a port of its own and nowhere else."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from flask import Flask

from console import gunicorn_conf, metrics
from ledger.seals import new_key
from tests.stack import Stack
from tests.web.conftest import COOKIE_KEY, ORIGIN
from tests.web.pages import Browser
from tests.world import World

ROOT = Path(__file__).parents[2]
ASKED = 24


def test_answers_are_counted_by_endpoint_and_served_apart_from_the_application(app: Flask) -> None:
    browser = Browser(app, ORIGIN)
    browser.get("/sign-in")
    browser.ask("GET", "/nowhere/Ilse-Brandt")
    assert browser.ask("GET", "/metrics").status_code == 404
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    metrics.serve("127.0.0.1", port)

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert 'onceback_web_requests_total{endpoint="sign_in.sign_in",method="GET",status="200"}' in text
    assert 'onceback_web_requests_total{endpoint="none",method="GET",status="404"}' in text
    assert "onceback_web_request_seconds_bucket" in text
    assert "Ilse" not in text
    assert callable(gunicorn_conf.when_ready)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def two_processes(stack: Stack, figures: Path, port: int, metrics_port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The console as operators start it, with two processes and its figures on a port of their own."""
    environment = {
        "PATH": os.environ["PATH"], "ENVIRONMENT": "test", "DATABASE_URL": stack.console_url, "SEAL_KEY": new_key("seal-test"),
        "COOKIE_KEY": COOKIE_KEY, "PUBLIC_ORIGIN": f"http://127.0.0.1:{port}", "BIND": f"127.0.0.1:{port}",
        "WEB_PROCESSES": "2", "WEB_POOL_SIZE": "2", "METRICS_PORT": str(metrics_port),
        "PROMETHEUS_MULTIPROC_DIR": str(figures),
    }  # fmt: skip
    command = [sys.executable, "-m", "gunicorn", "--config", "console/gunicorn_conf.py", "app:create_app()"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def ask(port: int) -> None:
    """Over a connection of its own, so that any process may take it."""
    requests.get(f"http://127.0.0.1:{port}/sign-in", headers={"Connection": "close"}, timeout=20).raise_for_status()


def counted(metrics_port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(
        r'onceback_web_requests_total\{endpoint="sign_in.sign_in",method="GET",status="200"\} (\d+)', text
    )
    return int(found[1]) if found else 0


def children_that_counted(figures: Path) -> set[int]:
    return {int(found[1]) for path in figures.iterdir() if (found := re.fullmatch(r"counter_(\d+)\.db", path.name))}


def test_two_processes_are_counted_as_one_also_when_one_of_them_ends(
    stack: Stack, world: World, tmp_path: Path
) -> None:
    port, metrics_port = free_port(), free_port()
    with two_processes(stack, tmp_path, port, metrics_port) as console:
        deadline, asked = time.monotonic() + 60, 0
        while asked < ASKED or len(children_that_counted(tmp_path) - {console.pid}) < 2:
            assert time.monotonic() < deadline, "two processes did not both answer"
            try:
                ask(port)
                asked += 1
            except requests.ConnectionError:
                time.sleep(0.1)
        assert counted(metrics_port) == asked
        # One ends, another comes in its place: what it had counted stays counted.
        gone = min(children_that_counted(tmp_path) - {console.pid})
        os.kill(gone, signal.SIGTERM)
        cut_off = 0
        while len(children_that_counted(tmp_path) - {console.pid}) < 3:
            assert time.monotonic() < deadline, "no third process answered"
            try:
                ask(port)
                asked += 1
            except requests.RequestException:
                cut_off += 1
                time.sleep(0.1)
        assert asked <= counted(metrics_port) <= asked + cut_off
        assert requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).status_code == 404
