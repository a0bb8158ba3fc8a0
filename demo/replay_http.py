"""Channels, warehouse and reviewers of the replay: HTTP clients that repeat an unanswered request under the same key."""

import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import requests

# A killed web process or database is back within seconds; longer than this is a fault of its own.
PATIENCE_SECONDS: Final = 90
_CSRF: Final = re.compile(r'name="csrf_token"[^>]*value="([^"]+)"|value="([^"]+)"[^>]*name="csrf_token"')
_HIDDEN: Final = re.compile(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">')
_TRANSIENT: Final = (500, 502, 503, 504)


class Silent(RuntimeError):
    """The console gave no answer for longer than the replay waits."""


def insist(send: Any) -> requests.Response:
    """Calls `send` until it is answered with something final; no answer, a 5xx and "still running" are tried again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    last = "no answer"
    while time.monotonic() < deadline:
        try:
            answer: requests.Response = send()
        except requests.RequestException as error:
            last = type(error).__name__
        else:
            running = answer.status_code == 409 and "idempotency-key-in-use" in answer.text
            if answer.status_code not in _TRANSIENT and not running:
                return answer
            last = f"{answer.status_code}: {answer.text[:200]}"
        time.sleep(0.25)
    raise Silent(f"no final answer within {PATIENCE_SECONDS} s ({last})")


@dataclass
class Api:
    """One channel system with its token. Each thread keeps its own connection."""

    origin: str
    token: str
    _local: threading.local = field(default_factory=threading.local)

    def post(self, path: str, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """POSTs once in effect: whatever happens to the answer, the request is repeated under the same key."""
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key}
        answer = insist(
            lambda: self._session().post(f"{self.origin}/api/v1{path}", json=body, headers=headers, timeout=30)
        )
        return answer.status_code, answer.json()

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.trust_env = False
        session: requests.Session = self._local.session
        return session


class Reviewer:
    """A member of staff in a browser of their own: signs in, opens the confirm page, presses the button."""

    def __init__(self, origin: str, merchant: str, email: str, password: str) -> None:
        self.origin, self.merchant, self.email = origin, merchant, email
        self._session = requests.Session()
        self._session.trust_env = False
        self._cookies: dict[str, str] = {}
        page = self._get("/sign-in")
        answer = self._post("/sign-in", {**_hidden(page.text), "email": email, "password": password})
        if answer.status_code != 303:
            raise RuntimeError(f"{email} could not sign in: {answer.status_code}")

    def approve(self, intent_id: Any) -> bool:
        """Opens the confirm page of an intent and approves what it shows; 303 to the decision, whoever was first.

        False when it is above what this person may approve: two refunds of a customer that were proposed in one instant come to
        more together (S22). Raises RuntimeError for any other answer.
        """
        path = f"/{self.merchant}/refunds/{intent_id}/approval"
        page = self._get(path)
        fields = _hidden(page.text)
        if page.status_code == 200 and "fingerprint" in fields:
            page = self._post(path, {**fields, "note": ""})
        if page.status_code not in (303, 403):
            raise RuntimeError(f"{self.email} meant to approve {intent_id} and was answered {page.status_code}")
        return page.status_code == 303

    def _get(self, path: str) -> requests.Response:
        return insist(lambda: self._send("GET", path, None))

    def _post(self, path: str, form: dict[str, str]) -> requests.Response:
        return insist(lambda: self._send("POST", path, form))

    def _send(self, method: str, path: str, form: dict[str, str] | None) -> requests.Response:
        # The cookies are Secure; a browser sends them to a loopback address in plain http, this library would not.
        headers = {
            "Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items()),
            "Origin": self.origin, "Sec-Fetch-Site": "same-origin", "User-Agent": f"replay {self.email}",
        }  # fmt: skip
        answer = self._session.request(
            method, self.origin + path, data=form, headers=headers, allow_redirects=False, timeout=30
        )  # fmt: skip
        for cookie in answer.cookies:
            if cookie.value:
                self._cookies[cookie.name] = cookie.value
        return answer


def _hidden(page: str) -> dict[str, str]:
    found = dict(_HIDDEN.findall(page))
    token = _CSRF.search(page)
    if token is not None:
        found["csrf_token"] = token[1] or token[2]
    return found


def new_key() -> str:
    """An idempotency key as a channel would make it."""
    return str(uuid4())
