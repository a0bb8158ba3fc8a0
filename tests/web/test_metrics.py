"""The web process counts its answers, and serves the figures on a port of its own and nowhere else."""

import socket
import urllib.request

from flask import Flask

from console import gunicorn_conf, metrics
from tests.web.conftest import ORIGIN
from tests.web.pages import Browser


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
