"""HTTP/1.1 over sockets: one thread a connection, keep-alive, and replies that can be lost, cut or refused.

A ready-made server would never let go of a connection in the middle of an answer; here that is the point.
"""

import socket
import socketserver
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

LONGEST_LINE, MOST_HEADERS, LARGEST_BODY = 16_384, 100, 64 * 1024 * 1024
_IDLE_SECONDS = 75


@dataclass(slots=True)
class Request:
    """One request as it came: header names in lower case, body as bytes."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass(slots=True)
class Reply:
    """What to send. ``lost``: ``close`` or ``reset`` without a byte. ``cut``: bytes missing from the body's end."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    lost: str | None = None
    cut: int = 0
    padding: int = 0


class BadRequestError(Exception):
    """The bytes received are no HTTP request this server takes."""


Answer = Callable[[Request], Reply]


class Connection(socketserver.StreamRequestHandler):
    """One client's connection: requests one after the other until either side ends it."""

    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    server: "Server"

    def handle(self) -> None:
        try:
            while self._exchange():
                pass
        except (ConnectionError, TimeoutError):
            return  # the client went away: nothing to answer

    def _exchange(self) -> bool:
        try:
            request = self._read()
        except (BadRequestError, ValueError, UnicodeDecodeError) as error:
            self._send(Reply(400, f"{error}\n".encode(), {"Content-Type": "text/plain"}), "", keep=False)
            return False
        if request is None:
            return False
        keep = request.headers.get("connection", "").lower() != "close"
        return self._send(self.server.answer(request), request.method, keep=keep)

    def _read(self) -> Request | None:
        line = self.rfile.readline(LONGEST_LINE + 1)
        while line == b"\r\n":
            line = self.rfile.readline(LONGEST_LINE + 1)
        if not line:
            return None
        parts = line.decode("ascii").split()
        if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not line.endswith(b"\n") or parts[1][0] != "/":
            raise BadRequestError("This is no HTTP/1.1 request line.")
        path, _, query = parts[1].partition("?")
        headers = self._read_headers()
        if parts[2] == "HTTP/1.0":
            headers["connection"] = "close"
        return Request(parts[0], path, query, headers, self._read_body(headers))

    def _read_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        while True:
            line = self.rfile.readline(LONGEST_LINE + 1)
            if line in (b"\r\n", b"\n"):
                return headers
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or not line.endswith(b"\n") or len(headers) >= MOST_HEADERS:
                raise BadRequestError("These headers are not complete, too long or too many.")
            headers[name.lower()] = value.strip()

    def _read_body(self, headers: dict[str, str]) -> bytes:
        if "transfer-encoding" in headers:
            raise BadRequestError("Send a Content-Length; chunked requests are not taken.")
        length = int(headers.get("content-length", "0"))
        if not 0 <= length <= LARGEST_BODY:
            raise BadRequestError(f"A body can have up to {LARGEST_BODY} bytes.")
        if headers.get("expect", "").lower() == "100-continue":
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionAbortedError
        return body

    def _send(self, reply: Reply, method: str, *, keep: bool) -> bool:
        """Send the reply; returns whether the connection lives on."""
        if reply.lost:
            if reply.lost == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.rfile.close()
                self.connection.close()
            return False
        keep = keep and not reply.cut
        try:
            phrase = HTTPStatus(reply.status).phrase
        except ValueError:
            phrase = "Unknown"
        lines = [
            f"HTTP/1.1 {reply.status} {phrase}",
            f"Date: {formatdate(usegmt=True)}",
            f"Content-Length: {len(reply.body) + reply.padding}",
            f"Connection: {'keep-alive' if keep else 'close'}",
            *(f"{name}: {value}" for name, value in reply.headers.items()),
        ]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        body = b"" if method == "HEAD" else reply.body[: len(reply.body) - reply.cut]
        self.connection.sendall(head + body)
        block = b" " * 65536
        for _ in range(reply.padding // len(block)):
            self.connection.sendall(block)
        self.connection.sendall(block[: reply.padding % len(block)])
        return keep


class Server(socketserver.ThreadingTCPServer):
    """Listens on the loopback address and gives each request to ``answer``."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, host: str, port: int, answer: Answer) -> None:
        self.answer = answer
        super().__init__((host, port), Connection)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"
