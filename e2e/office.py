"""People at their browsers: a context of its own for each, watched for whatever a page should never say."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route

from demo.people import PASSWORD
from e2e.pages import SignInPage
from e2e.shop import PATIENCE_SECONDS, Shop

# The idle limit is fifteen minutes; a session that nobody used for ten is not begun with.
FRESH_SECONDS = 600
_LOADING = "Failed to load resource: "
_STATUS = re.compile(r"the server responded with a status of (\d+)")


@dataclass
class Office:
    """One test's browsers. Closing it fails the test for what its pages said."""

    chromium: Browser
    shop: Shop
    trace: Path
    contexts: list[BrowserContext] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    _expected: list[str] = field(default_factory=list)

    def at(self, person: str, **options: Any) -> Page:
        """A page of a browser in which the person is signed in. `options` as for a new context."""
        page = self.stranger(**options)
        kept = _signed_in.get(person)
        if kept is None or time.monotonic() - kept.used_at > FRESH_SECONDS:
            SignInPage(page, self.shop).open().sign_in(person, PASSWORD)
            kept = _signed_in[person] = _Kept([*page.context.cookies()])
        else:
            page.context.add_cookies([_addressed(cookie, self.shop.stack.origin) for cookie in kept.cookies])
        kept.used_at = time.monotonic()
        return page

    def stranger(self, **options: Any) -> Page:
        """A page of a browser that nobody signed in with."""
        context = self.chromium.new_context(**{"viewport": {"width": 1366, "height": 768}, **options})
        context.tracing.start(snapshots=True, title=self.trace.name)
        context.on("weberror", lambda error: self.said.append(f"exception: {error.error}"))
        context.on("console", self._listen)
        self.contexts.append(context)
        return context.new_page()

    def expects(self, *signs: int | str) -> None:
        """Statuses and network faults that this test brings about; the browser names them in its console."""
        self._expected += [str(sign) for sign in signs]

    def close(self, *, keep_traces: bool) -> None:
        """Ends every context. Raises AssertionError for what was said and not expected."""
        bad = [text for text in self.said if not self._is_expected(text)]
        for number, context in enumerate(self.contexts, 1):
            path = self.trace.with_name(f"{self.trace.name}-{number}.zip") if keep_traces or bad else None
            context.tracing.stop(path=path)
            context.close()
        assert not bad, f"the pages said: {bad}"

    def _listen(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.said.append(f"{message.text} at {message.location.get('url', '')}")

    def _is_expected(self, text: str) -> bool:
        if not text.startswith(_LOADING):
            return False
        status = _STATUS.search(text)
        sign = status[1] if status else text.removeprefix(_LOADING).partition(" ")[0]
        return sign in self._expected


@dataclass
class _Kept:
    cookies: list[Any]
    used_at: float = 0.0


# Each password costs a second of argon2 on a busy machine, so a person signs in once for all tests that are not about it.
_signed_in: dict[str, _Kept] = {}


def _addressed(cookie: dict[str, Any], origin: str) -> Any:
    """A __Host- cookie is set for an address, never for a domain, and this way only for one of https."""
    kept = {name: value for name, value in cookie.items() if name not in ("domain", "path", "partitionKey")}
    return {**kept, "url": origin.replace("http:", "https:")}


def pumped_until(page: Page, holds: Callable[[], bool], otherwise: str) -> None:
    """Waits for what the browser tells by events, which come in only while its page is asked to wait."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, otherwise
        page.wait_for_timeout(5)


class HeldPosts:
    """Holds the POSTs of some pages at the browser's door, to let them go together."""

    def __init__(self, *pages: Page) -> None:
        self.pages = pages
        self.routes: list[Route] = []
        self._order = 1
        for page in pages:
            page.route("**/approval", self._hold)

    def release(self, count: int) -> None:
        """Waits until `count` POSTs stand there, then lets all of them go, each time from the other end."""
        self.wait(count)
        going, self.routes = self.routes[:: self._order], []
        self._order = -self._order
        for route in going:
            route.continue_()

    def wait(self, count: int) -> None:
        """Until `count` POSTs stand at the door."""
        pumped_until(self.pages[0], lambda: len(self.routes) >= count, f"not {count} POSTs were sent")

    def _hold(self, route: Route, request: Request) -> None:
        if request.method == "POST":
            self.routes.append(route)
        else:
            route.fallback()
