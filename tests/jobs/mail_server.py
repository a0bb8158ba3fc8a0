"""A mail server for tests: it keeps what it was handed, and refuses or hangs up when it is told to."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class MailServer:
    """`refuse`: the answer to each RCPT instead of 250; `hangs_up`: it closes before it says anything."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    refuse: str = ""
    hangs_up: bool = False


class _Talk(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        kept: MailServer = self.server.kept  # type: ignore[attr-defined]
        if kept.hangs_up:
            return
        self._say("220 here")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"QUIT":
                self._say("221 bye")
                return
            if verb == b"RCPT" and kept.refuse:
                self._say(kept.refuse)
            elif verb == b"DATA":
                self._say("354 go on")
                text = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    text += part[1:] if part.startswith(b".") else part
                kept.mails.append(message_from_bytes(text, policy=policy.default))
                self._say("250 taken")
            else:
                self._say("250 good")

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """A server on a free port of this machine."""
    kept = MailServer()
    with _Server(("127.0.0.1", 0), _Talk) as server:
        server.kept = kept  # type: ignore[attr-defined]
        kept.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield kept
        server.shutdown()
        thread.join()
