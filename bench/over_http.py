"""Approvals over HTTP as a browser makes them: a session, the form's token, the origin, and one POST for each refund."""

import http.client
import re
from typing import Final
from urllib.parse import urlencode, urlsplit

from demo.people import PASSWORD

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
        return self.ask("POST", f"/{slug}/refunds/{intent_id}/approval", fields)[0]


def _token(page: str) -> str:
    found = _TOKEN.search(page)
    if found is None:
        raise RuntimeError("the page has no form of ours")
    return found[1]
