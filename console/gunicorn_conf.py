"""gunicorn for the web process: `gunicorn --config console/gunicorn_conf.py 'app:create_app()'`.

One worker is one process with its own connections (WEB_POOL_SIZE) and eight hashing slots; threads stay at the pool's size,
so that a request never waits for a connection longer than for a thread.
"""

import os
from typing import Any

from prometheus_client.multiprocess import mark_process_dead

from console import metrics

bind = os.environ.get("BIND", "127.0.0.1:8000")
workers = int(os.environ.get("WEB_PROCESSES", "2"))
worker_class = "gthread"
threads = int(os.environ.get("WEB_POOL_SIZE", "8"))
timeout = 30
graceful_timeout = 20
keepalive = 5
# A page's address and headers; bodies have limits of their own in the application.
limit_request_line = 4094
limit_request_fields = 60
limit_request_field_size = 8190
# Only the application decides whom to believe about address and scheme (TRUSTED_HOPS).
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
# No access log of gunicorn's own: it writes addresses with their query.
accesslog = None
errorlog = "-"


def when_ready(_server: Any) -> None:
    """The first process answers scrapes for all; each of the others only counts."""
    port = int(os.environ.get("METRICS_PORT") or "0")
    if port:
        metrics.serve(os.environ.get("METRICS_ADDRESS", "127.0.0.1"), port)


def child_exit(_server: Any, worker: Any) -> None:
    """What a process that ended had counted stays counted."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
