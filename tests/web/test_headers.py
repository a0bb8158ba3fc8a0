"""S52, S53, S57: what every answer carries, whoever gave it, and under which name the console answers at all."""

import re
from collections.abc import Callable

import pytest
from flask import Flask

from app import create_app
from console.headers import EVERY_ANSWER, SecurityHeaders
from console.tracing import Traced
from tests.stack import Stack
from tests.web.conftest import ORIGIN, web_settings
from tests.web.pages import Browser
from tests.world import World

Opened = Callable[..., Browser]

EXPECTED = {
    "Strict-Transport-Security": "max-age=63072000; includeSubDomains",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=(), display-capture=(), "
    "publickey-credentials-get=(self), publickey-credentials-create=(self)",
    "Reporting-Endpoints": 'csp="/csp-report"',
}
POLICY = (
    r"default-src 'none'; script-src 'nonce-([A-Za-z0-9_-]{22,})'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    r"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; object-src 'none'; "
    r"report-uri /csp-report; report-to csp"
)


def static_address(browser: Browser, name: str) -> str:
    found = re.search(rf'"(/static/{name}\.[0-9a-f]{{16}}\.[a-z]+)"', browser.ask("GET", "/sign-in").text)
    assert found
    return found[1]


def break_things(app: Flask) -> None:
    from console.access import public

    def broken() -> str:
        raise RuntimeError("secret detail")

    app.add_url_rule("/broken", "broken", public("a test")(broken))


@pytest.mark.usefixtures("own_web")
def test_every_kind_of_answer_carries_every_header(app: Flask, open_browser: Opened, world: World) -> None:
    break_things(app)
    priya = open_browser()
    priya.sign_in(world.priya)
    css = static_address(priya, "console")
    answers = {
        "page": priya.ask("GET", f"/{world.slug}/sessions"),
        "no content": priya.ask("GET", f"/{world.slug}/sessions/stay"),
        "redirect": priya.ask("GET", "/"),
        "forbidden": priya.ask("GET", f"/{world.slug}/people"),
        "not found": priya.ask("GET", "/nowhere"),
        "wrong method": priya.ask("PUT", "/sign-in"),
        "forged form": priya.ask("POST", "/sign-out", data={"csrf_token": "x"}),
        "broken": priya.ask("GET", "/broken"),
        "static": priya.ask("GET", css),
        "static head": priya.ask("HEAD", css),
        "no such static": priya.ask("GET", "/static/console.css"),
        "api": open_browser().ask("GET", "/api/v1/returns/1"),
        "no such api": open_browser().ask("GET", "/api/v1/nothing"),
        "hook": open_browser().ask("POST", f"/hooks/stripe/{world.slug}"),
        "foreign host": priya.ask("GET", "/sign-in", base_url="https://evil.example"),
    }
    for what, answer in answers.items():
        for name, value in EXPECTED.items():
            assert answer.headers.getlist(name) == [value], (what, name)
        assert len(answer.headers.getlist("Content-Security-Policy")) == 1, what
        assert not [name for name, _ in answer.headers if name.lower().startswith("access-control")], what
        stored = answer.headers.getlist("Cache-Control")
        assert stored == (
            ["public, max-age=31536000, immutable"] if what in ("static", "static head") else ["no-store"]
        ), what
        assert "Server" not in answer.headers, what
    assert {what: answer.status_code for what, answer in answers.items()} == {
        "page": 200, "no content": 204, "redirect": 303, "forbidden": 403, "not found": 404, "wrong method": 405,
        "forged form": 400, "broken": 500, "static": 200, "static head": 200, "no such static": 404, "api": 401,
        "no such api": 404, "hook": 400, "foreign host": 400,
    }  # fmt: skip
    assert answers["no such api"].mimetype == "application/problem+json"
    assert dict(EVERY_ANSWER) == EXPECTED


@pytest.mark.usefixtures("own_web")
def test_without_the_outer_layer_static_files_carry_nothing(app: Flask, open_browser: Opened) -> None:
    """The control: what the layer is for."""
    css = static_address(open_browser(), "console")
    traced = app.wsgi_app
    assert isinstance(traced, Traced)
    assert isinstance(traced._inside, SecurityHeaders)
    app.wsgi_app = traced._inside.application  # type: ignore[method-assign, assignment]
    answer = open_browser().ask("GET", css)
    assert answer.status_code == 200
    assert "X-Frame-Options" not in answer.headers


def test_the_policy_is_exact_and_its_nonce_is_that_of_the_scripts_and_never_the_same(open_browser: Opened) -> None:
    nonces = set()
    for _ in range(20):
        answer = open_browser().ask("GET", "/sign-in")
        found = re.fullmatch(POLICY, answer.headers["Content-Security-Policy"])
        assert found
        nonces.add(found[1])
        scripts = re.findall(r"<script[^>]*>", answer.text)
        assert scripts
        assert all(f'nonce="{found[1]}"' in script for script in scripts)
    assert len(nonces) == 20


def test_an_answer_may_bring_a_stricter_policy_of_its_own() -> None:
    def photo(_environ: object, start: Callable[..., object]) -> list[bytes]:
        start("200 OK", [("Content-Security-Policy", "default-src 'none'; sandbox")])
        return [b""]

    sent: list[tuple[str, str]] = []
    layer = SecurityHeaders(photo, ORIGIN)
    layer({"HTTP_HOST": "console.example", "PATH_INFO": "/"}, lambda _status, headers, _info=None: sent.extend(headers))
    assert [value for name, value in sent if name == "Content-Security-Policy"] == ["default-src 'none'; sandbox"]


def test_foreign_files_are_loaded_with_their_hash(open_browser: Opened) -> None:
    text = open_browser().ask("GET", "/sign-in").text
    assert re.search(r'<script src="/static/vendor/htmx\.min\.[0-9a-f]{16}\.js" integrity="sha384-[^"]{64}"', text)
    assert re.search(r'href="/static/vendor/bootstrap\.min\.[0-9a-f]{16}\.css" integrity="sha384-[^"]{64}"', text)


def test_on_one_s_own_machine_a_bare_address_is_told_the_name_to_open() -> None:
    layer = SecurityHeaders(lambda _environ, _start: [b"never"], "http://localhost:8000")
    said = b"".join(layer({"HTTP_HOST": "127.0.0.1:8000", "PATH_INFO": "/"}, lambda *_: None))
    assert said == b"This console is not known under that name. Open http://localhost:8000 instead.\n"


@pytest.mark.parametrize(
    "host", ["evil.example", "console.example.evil.example", "console.example:8443", "127.0.0.1", ""]
)
def test_the_console_answers_under_one_name_only(open_browser: Opened, host: str) -> None:
    answer = open_browser().ask("GET", "/sign-in", headers={"Host": host})
    assert answer.status_code == 400
    assert answer.text == "This console is not known under that name.\n"
    assert host not in answer.text or not host
    assert (
        open_browser().ask("GET", static_address(open_browser(), "console"), headers={"Host": host}).status_code == 400
    )


def test_a_proxys_headers_count_only_with_a_configured_hop(stack: Stack, world: World, quick_hashing: None) -> None:
    forged = {"X-Forwarded-For": "198.51.100.9", "X-Forwarded-Host": "evil.example", "X-Forwarded-Prefix": "/evil"}
    for hops, expected in ((0, "203.0.113.0/24"), (1, "198.51.100.0/24")):
        app = create_app(web_settings(stack, trusted_hops=hops))
        priya = Browser(app, ORIGIN)
        form = priya.get("/sign-in").form("/sign-in")
        from tests.world import PASSWORD

        data = form.values | {"email": world.priya.email, "password": PASSWORD}
        answer = priya.ask("POST", "/sign-in", data=data, headers=forged)
        assert answer.headers["Location"] == "/"
        page = priya.get(f"/{world.slug}/sessions", headers=forged)
        assert expected in page.text
        assert "evil" not in page.html
        app.extensions["onceback"].engine.dispose()


def test_reports_of_the_policy_are_taken_and_say_no_more_than_the_directive(
    capsys: pytest.CaptureFixture[str], open_browser: Opened
) -> None:
    report = {
        "csp-report": {"effective-directive": "script-src-elem", "document-uri": "https://console.example/x?q=Ilse"}
    }
    answer = open_browser().ask("POST", "/csp-report", json=report, site=None)
    assert answer.status_code == 204
    for odd in (b"", b"[]", b'["x"]', b"null", b'{"csp-report": 7}', b"\xff"):
        assert open_browser().ask("POST", "/csp-report", data=odd, site=None).status_code == 204
    said = capsys.readouterr().out
    assert "script-src-elem" in said
    assert "Ilse" not in said
