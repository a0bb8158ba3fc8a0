"""Approvals over HTTP as a browser makes them: a session, the form's token, the origin, and one POST for each refund."""

import http.client
import re
import socket
from typing import Final
from urllib.parse import urlencode, urlsplit

from demo.people import PASSWORD

_MOST_AT_ONCE: Final = 65_536
_LENGTH: Final = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
_TOKEN: Final = re.compile(r'name="csrf_token"[^>]*value="([^"]+)"')


class Browser:
    """One connection that stays open, and the cookies it was given."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._connection = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=30)
        self._cookies: dict[str, str] = {}
        self._token = ""

    def ask(self, method: str, path: str, fields: dict[str, str] | None = None) -> tuple[int, str]:
        """Status and body. Redirects are answers."""
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        body = None
        if fields is not None:
            body = urlencode(fields)
            headers |= {
                "Content-Type": "application/x-www-form-urlencoded", "Origin": self._origin, "Sec-Fetch-Site": "same-origin",
            }  # fmt: skip
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode(errors="replace")
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name] = value
        return answer.status, text

    def fetch(self, path: str) -> bytes:
        """The bytes of a file. Raises RuntimeError when it is not there."""
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered with {answer.status}")
        return body

    def rest(self) -> None:
        """Lets the connection go, which the server closes anyway while refunds are made; the next request opens another."""
        self._connection.close()

    def sign_in(self, email: str, page: str) -> None:
        """Signs in, and takes the token of the session's forms from a page that has one."""
        _, door = self.ask("GET", "/sign-in")
        status, _ = self.ask(
            "POST", "/sign-in", {"csrf_token": _token(door), "email": email, "password": PASSWORD, "next": ""}
        )
        if status != 303:
            raise RuntimeError(f"signing in was answered with {status}")
        self._token = _token(self.ask("GET", page)[1])

    def approve(self, slug: str, intent_id: str, fingerprint: str, operation: str) -> int:
        """Sends the confirm sheet's form; the status."""
        fields = {"csrf_token": self._token, "fingerprint": fingerprint, "operation": operation, "note": ""}
        return self._post(f"/{slug}/refunds/{intent_id}/approval", urlencode(fields))

    def _post(self, path: str, body: str) -> int:
        """The status alone, by hand: the client runs on the processors of what is measured, and must not be a part of it."""
        if self._connection.sock is None:
            self._connection.connect()
        wire = self._connection.sock
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        wire.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {self._connection.host}:{self._connection.port}\r\nOrigin: {self._origin}\r\n"
            f"Sec-Fetch-Site: same-origin\r\nCookie: {cookies}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode("ascii")
        )
        answer = wire.recv(_MOST_AT_ONCE)
        while not (ended := answer.find(b"\r\n\r\n") + 4) > 3:
            answer += _more(wire)
        length = _LENGTH.search(answer, 0, ended)
        if length is None:
            raise RuntimeError("an answer does not say how long it is")
        while len(answer) < ended + int(length[1]):
            answer += _more(wire)
        return int(answer[9:12])


def _more(wire: socket.socket) -> bytes:
    received = wire.recv(_MOST_AT_ONCE)
    if not received:
        raise RuntimeError("an answer ends before it is whole")
    return received


def _token(page: str) -> str:
    found = _TOKEN.search(page)
    if found is None:
        raise RuntimeError("the page has no form of ours")
    return found[1]
