"""A provider that costs next to nothing, for measuring: refunds, their list and empty lists of all else, over HTTP.

`python -m bench.double --delay-ms 20` prints its port and serves until its standard input closes. It forgets keys: a call
that is made twice pays twice, and `GET /counts` says for how many metadata ids that is so. It stores nothing on disk; what
it answers is read by the real gateway, so it has the fields that one checks.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import requests

ROOT_NAME: Final = "bench.double"
_INTENT: Final = "metadata[onceback_intent]"


class Provider:
    """What was paid. One event loop, so nothing here needs a lock."""

    def __init__(self, delay_seconds: float) -> None:
        self.delay_seconds = delay_seconds
        self.by_payment: dict[str, list[dict[str, Any]]] = {}
        self.calls: Counter[str] = Counter()
        self.number = 0

    def create(self, params: dict[str, str]) -> dict[str, Any]:
        """One more refund, whatever came before."""
        self.number += 1
        metadata = {name[9:-1]: value for name, value in params.items() if name.startswith("metadata[")}
        payment = params.get("payment_intent") or params.get("charge", "").replace("ch_", "pi_", 1)
        refund = {
            "id": f"re_bench{self.number}", "object": "refund", "amount": int(params.get("amount", "0")),
            "currency": params.get("currency", "eur"), "status": "succeeded", "charge": params.get("charge"),
            "payment_intent": payment, "metadata": metadata, "created": int(time.time()),
        }  # fmt: skip
        self.by_payment.setdefault(payment, []).append(refund)
        self.calls[params.get(_INTENT, "")] += 1
        return refund

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and JSON of one request."""
        url = urlsplit(target)
        if method == "POST" and url.path == "/v1/refunds":
            return 200, self.create(dict(parse_qsl(body.decode())))
        if method == "POST" and url.path == "/forget":
            asked = dict(parse_qsl(body.decode()))
            self.delay_seconds = float(asked.get("delay_seconds", self.delay_seconds))
            self.by_payment.clear()
            self.calls.clear()
            return 200, {}
        if url.path == "/counts":
            return 200, {"calls": sum(self.calls.values()), "paid": len(self.calls),
                         "paid_twice": sum(count > 1 for count in self.calls.values())}  # fmt: skip
        if url.path == "/v1/refunds":
            asked = dict(parse_qsl(url.query))
            return 200, _listed(self.by_payment.get(asked.get("payment_intent", ""), []))
        if url.path == "/v1/account":
            return 200, {"id": "acct_bench", "object": "account"}
        return 200, _listed([])


def _listed(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": found, "has_more": False, "url": "/v1/refunds"}


async def _serve_one(provider: Provider, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *headers = head.split("\r\n")
            method, target, _ = request_line.split(" ")
            length = next((int(line[15:]) for line in headers if line.lower().startswith("content-length:")), 0)
            body = await reader.readexactly(length) if length else b""
            # What a call does is done when it arrives; the delay is that of the answer.
            status, answer = provider.answer(method, target, body)
            if provider.delay_seconds and target.startswith("/v1/"):
                await asyncio.sleep(provider.delay_seconds)
            text = json.dumps(answer).encode()
            writer.write(
                b"HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nRequest-Id: req_bench\r\nContent-Length: %d\r\n\r\n%b"
                % (status, len(text), text)
            )
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def serve(delay_seconds: float) -> None:
    """Serves on a free port of 127.0.0.1, printed as the first line, until standard input closes."""
    provider = Provider(delay_seconds)
    server = await asyncio.start_server(lambda r, w: _serve_one(provider, r, w), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@dataclass(frozen=True)
class Double:
    """A running double: its address, and the verbs of whoever measures."""

    url: str

    def forget(self, delay_ms: float) -> None:
        """Forgets what was paid; answers come `delay_ms` late from now on."""
        requests.post(f"{self.url}/forget", {"delay_seconds": delay_ms / 1000}, timeout=5).raise_for_status()

    def counts(self) -> dict[str, int]:
        """Calls made, ids paid, ids paid more than once."""
        found: dict[str, int] = requests.get(f"{self.url}/counts", timeout=5).json()
        return found


@contextmanager
def running_double(delay_ms: float = 0) -> Iterator[Double]:
    """A double in a process of its own, ended with the block."""
    command = [sys.executable, "-m", ROOT_NAME, "--delay-ms", str(delay_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise RuntimeError("the double has no output")
        try:
            yield Double(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=0)
    asyncio.run(serve(parser.parse_args().delay_ms / 1000))
