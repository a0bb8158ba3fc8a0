"""The web process's figures for Prometheus: requests by endpoint, method and status, and how long they took.

They are served on a port of their own (METRICS_PORT, loopback unless METRICS_ADDRESS says otherwise), never by the application:
what faces browsers and channels has no such page. With several processes PROMETHEUS_MULTIPROC_DIR has to name a folder.
"""

import os
import time
from typing import Final

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector

# F-marks of pages are 50 to 300 ms; what takes longer than 5 s is cut off.
BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
REGISTRY: Final = CollectorRegistry()

_requests = Counter(
    "onceback_web_requests",
    "Answers by endpoint, method and status",
    ["endpoint", "method", "status"],
    registry=REGISTRY,
)
_seconds = Histogram(
    "onceback_web_request_seconds", "Time to an answer", ["endpoint"], buckets=BUCKETS, registry=REGISTRY
)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def measure(app: Flask) -> None:
    """Counts every answer of the app. An address that is none counts under one endpoint, whatever was asked for."""
    app.before_request(_begin)
    app.after_request(_count)


def _begin() -> None:
    g.began = time.monotonic()


def _count(answer: Response) -> Response:
    endpoint = request.endpoint or "none"
    method = request.method if request.method in _METHODS else "other"
    _requests.labels(endpoint, method, str(answer.status_code)).inc()
    _seconds.labels(endpoint).observe(time.monotonic() - g.get("began", time.monotonic()))
    return answer


def serve(address: str, port: int) -> None:
    """Answers scrapes for all processes of this console; called once, in the process that starts the others."""
    registry = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    start_http_server(port, addr=address, registry=registry)
