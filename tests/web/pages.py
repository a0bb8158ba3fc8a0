"""A browser for the tests. It looks at every page it fetches: status, title, one h1, unique ids, tokens in forms, no inline
script or style; and it sends what a browser sends about where a request came from."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

from flask import Flask
from werkzeug.test import TestResponse

from tests.world import PASSWORD, Person

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@dataclass
class Form:
    """A form of a page, with the values it would send as it stands."""

    action: str
    method: str
    values: dict[str, str] = field(default_factory=dict)


class Page(HTMLParser):
    """What a test asks of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html, self.title, self.headings, self.text = html, "", 0, ""
        self.ids: list[str] = []
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.faults: list[str] = []
        self._form: Form | None = None
        self._choosing, self._chosen, self._writing = "", False, False
        self._inside: list[str] = []
        self.feed(html)
        self.text = re.sub(r"\s+", " ", self.text)

    def form(self, action: str) -> Form:
        """The first form whose address contains `action`."""
        found = [form for form in self.forms if action in form.action]
        assert found, f"there is no form to {action!r}; there are {[form.action for form in self.forms]}"
        return found[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        got = {name: value or "" for name, value in attrs}
        if "id" in got:
            self.ids.append(got["id"])
        self.headings += tag == "h1"
        self._look_for_inline(tag, got)
        match tag:
            case "a" if "href" in got:
                self.links.append(got["href"])
            case "form":
                self._form = Form(got.get("action", ""), got.get("method", "get").lower())
                self.forms.append(self._form)
            case "textarea" | "select" if self._form and got.get("name"):
                self._form.values[got["name"]] = ""
                self._choosing, self._chosen = got["name"], False
                self._writing = tag == "textarea"
            case "option" if self._form and self._choosing and ("selected" in got or not self._chosen):
                self._form.values[self._choosing], self._chosen = got.get("value", ""), True
            case "input" if self._form and got.get("name"):
                if got.get("type") not in ("checkbox", "radio") or "checked" in got:
                    self._form.values[got["name"]] = got.get("value", "")
        if tag in ("title", "script", "style", "svg") and "svg" not in self._inside:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        if self._form and self._writing:
            # A browser leaves the first new line of a text area out.
            self._form.values[self._choosing] = (
                self._form.values[self._choosing].replace("\r\n", "\n").removeprefix("\n")
            )
        if tag in ("textarea", "select"):
            self._choosing, self._writing = "", False
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside == ["title"]:
            self.title += data
        elif self._inside in ([], ["svg"]):
            self.text += data
            if self._form and self._writing:
                self._form.values[self._choosing] += data
        elif data.strip() and "script" in self._inside:
            self.faults.append("a script stands in the page")

    def _look_for_inline(self, tag: str, got: dict[str, str]) -> None:
        if "style" in got or tag == "style":
            self.faults.append(f"<{tag}> has a style of its own")
        for name in got:
            if name.startswith(("on", "hx-on")):
                self.faults.append(f"<{tag}> has {name}")
        if tag == "script" and not (got.get("src") and got.get("nonce")):
            self.faults.append("a script without address or nonce")


def check(answer: TestResponse) -> Page:
    """The page, after everything that holds for each of ours was looked at."""
    assert answer.mimetype == "text/html", answer.mimetype
    page = Page(answer.text)
    assert not page.faults, page.faults
    assert page.title.endswith("– Onceback"), page.title
    assert page.title.strip() != "– Onceback"
    assert page.headings == 1, f"{page.headings} h1 on {page.title}"
    twice = {one for one in page.ids if page.ids.count(one) > 1}
    assert not twice, f"ids twice: {twice}"
    for form in page.forms:
        if form.method == "post":
            assert form.values.get("csrf_token"), f"no token in the form to {form.action}"
    if answer.status_code == 422:
        assert page.title.startswith("Error:")
    return page


class Browser:
    """One browser: cookies of its own. `page` is what it shows."""

    def __init__(self, app: Flask, origin: str, *, agent: str = FIREFOX, address: str = "203.0.113.7") -> None:
        self.client = app.test_client()
        self.origin, self.agent, self.address = origin, agent, address
        self.page: Page | None = None
        self.path = ""

    def ask(self, method: str, path: str, *, site: str | None = "same-origin", **options: Any) -> TestResponse:
        """One request as this browser sends it; no redirect is followed and no page looked at. A Cookie header stands for all."""
        headers = {"User-Agent": self.agent, **options.pop("headers", {})}
        if site:
            headers.setdefault("Sec-Fetch-Site", site)
        if self.path:
            headers.setdefault("Referer", f"{self.origin}{self.path}")
        client = self.client
        if "Cookie" in headers:
            client = self.client.application.test_client(use_cookies=False)
        environ = {"REMOTE_ADDR": self.address, **options.pop("environ", {})}
        return client.open(
            path, method=method, base_url=options.pop("base_url", self.origin), headers=headers, environ_overrides=environ,
            **options,
        )  # fmt: skip

    def get(self, path: str, status: int = 200, **options: Any) -> Page:
        """Opens a page, following redirects as a browser does."""
        return self._show(path, self.ask("GET", path, **options), status)

    def submit(self, form: Form, status: int = 200, **values: str) -> Page:
        """Sends a form with `values` filled in and shows where it leads."""
        return self._show(form.action, self.send(form, **values), status)

    def send(self, form: Form, **values: str) -> TestResponse:
        """Sends a form and returns the first answer."""
        return self.ask(form.method.upper(), form.action, data=form.values | values)

    def sign_in(self, person: Person, password: str = PASSWORD) -> Page:
        """Signs a person in through the form."""
        self.get("/sign-in")
        page = self.submit(self.shown.form("/sign-in"), email=person.email, password=password)
        assert "Sign in" not in page.title, page.text
        return page

    def part(self, path: str, **headers: str) -> TestResponse:
        """What htmx asks for from the page that is shown."""
        wanted = {"HX-Request": "true", "HX-Current-URL": f"{self.origin}{self.path}", **headers}
        return self.ask("GET", path, headers=wanted)

    def cookie(self, name: str) -> str | None:
        """A cookie's value, or None."""
        found = self.client.get_cookie(name, domain=urlsplit(self.origin).hostname or "")
        return found.decoded_value if found else None

    @property
    def shown(self) -> Page:
        """The page that is open."""
        assert self.page is not None
        return self.page

    def _show(self, path: str, answer: TestResponse, status: int) -> Page:
        for _ in range(5):
            if answer.status_code not in (301, 302, 303, 307, 308):
                break
            path = answer.headers["Location"].removeprefix(self.origin)
            answer = self.ask("GET", path)
        assert answer.status_code == status, f"{path}: {answer.status_code}, expected {status}: {_title(answer)}"
        self.path, self.page = path, check(answer)
        return self.page


def _title(answer: TestResponse) -> str:
    found = re.search(r"<title>(.*?)</title>", answer.text, re.DOTALL)
    return found[1] if found else answer.text[:200]
