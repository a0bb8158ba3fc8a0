"""``python -m sandbox --port 4242 --db build/sandbox.sqlite`` runs the sandbox until it is told to stop."""

import argparse
import signal
import sqlite3
import sys
import threading
from pathlib import Path

from sandbox.control import Control
from sandbox.provider import Provider
from sandbox.store import SandboxBusyError, Store
from sandbox.webhooks import Webhooks
from sandbox.wire import Reply, Request, Server

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _port(word: str) -> int:
    if not word.isdigit() or int(word) > 65_535:
        raise argparse.ArgumentTypeError(f"{word} is no port; give a number from 0 to 65535")
    return int(word)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sandbox", description="A local Stripe-compatible server.")
    parser.add_argument("--port", type=_port, default=4242, help="0 takes a free one; the ready line names it")
    parser.add_argument("--host", default="127.0.0.1", choices=_LOOPBACK)
    parser.add_argument("--db", default="sandbox.sqlite", help="its SQLite file, made when absent")
    parser.add_argument("--latency-ms", type=float, help="time each call under /v1 takes at least")
    return parser.parse_args(arguments)


def build(store: Store) -> tuple[Provider, Control, Webhooks]:
    """The parts of a sandbox on one store."""
    provider, webhooks = Provider(store), Webhooks(store)
    return provider, Control(provider, webhooks), webhooks


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    try:
        Path(options.db).parent.mkdir(parents=True, exist_ok=True)
        store = Store(options.db)
    except (SandboxBusyError, OSError, sqlite3.DatabaseError) as error:
        print(f"sandbox: cannot use {options.db}: {error}", file=sys.stderr)
        return 1
    if options.latency_ms is not None:
        store.change_settings({"latency_ms": options.latency_ms})
    provider, control, webhooks = build(store)

    def answer(request: Request) -> Reply:
        if request.path.startswith("/_sandbox"):
            return control.answer(request)
        return provider.answer(request)

    try:
        server = Server(options.host, options.port, answer)
    except OSError as error:
        print(f"sandbox: cannot listen on port {options.port}: {error}; choose another --port", file=sys.stderr)
        return 1
    stopping = threading.Event()

    def tick() -> None:
        while not stopping.wait(0.2):
            provider.journal.flush()
            control.states.apply_due()

    threading.Thread(target=tick, daemon=True).start()
    threading.Thread(target=webhooks.run, daemon=True).start()
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    print(f"sandbox ready on {server.url} db {options.db}", flush=True)
    while not stopping.wait(3600):
        pass
    server.shutdown()
    webhooks.stop()
    provider.journal.flush()
    store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
