"""Fixtures of the browser tests: one `shop` and one Chromium for the run, new browser contexts for each test.

A test fails on whatever its pages said: a policy violation, an error in the console, an exception of a script. What a
failed test did is kept in build/e2e-traces (open it with `playwright show-trace`).
"""

import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright
from sqlalchemy.engine import make_url

from demo.browser import ensure, flags
from demo.people import PASSWORD
from e2e.office import Office
from e2e.pictures import take_pictures
from e2e.shop import ROOT, Shop, open_shop

TRACES = ROOT / "build" / "e2e-traces"
# The machine may be busy with other work; a page that answers at once is not slowed by this.
PATIENCE_MS = 15_000

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=ensure(), args=flags())
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def shop(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Shop]:
    folder = ROOT / "build" / f"e2e-{os.getpid()}"
    with open_shop(folder) as opened:
        take_pictures(chromium, opened)
        yield opened
        said_too_much = _secrets_in_logs(opened)
    assert said_too_much == [], "in the logs of the whole run"
    if not request.session.testsfailed:  # else its logs are of use
        shutil.rmtree(folder, ignore_errors=True)


def _secrets_in_logs(opened: Shop) -> list[str]:
    """S74: what the processes wrote in the whole run, searched for every secret they were given and for the customers."""
    known = opened.stack.secrets
    marked = {
        "seal key": known["seal_key"].partition(":")[2],
        "policies' seal key": known["automatic_seal_key"].partition(":")[2],
        "cookie key": known["cookie_key"], "password": PASSWORD,
        **{f"provider key of {name}": key for name, key in known["provider_keys"].items()},
        **{f"webhook secret of {name}": key for name, key in known["webhook_secrets"].items()},
        **{f"database password of {role}": make_url(url).password for role, url in opened.stack.role_urls.items()},
        **{f"a customer of {address}": address for address in ("@example.org", "@hollowbrook.example", "@northwind.example")},
    }  # fmt: skip
    found = []
    for process in ("web", "worker"):
        text = opened.stack.log(process).read_text(encoding="utf-8")
        found += [f"{what} in the log of {process}" for what, value in marked.items() if value and value in text]
    return found


@pytest.fixture
def office(chromium: Browser, shop: Shop, request: pytest.FixtureRequest) -> Iterator[Office]:
    """The people of the shop at their browsers."""
    made = Office(chromium, shop, _trace_of(request))
    yield made
    outcome = request.node.stash.get(_CALL, None)
    made.close(keep_traces=outcome is None or outcome.failed)


def _trace_of(request: pytest.FixtureRequest) -> Path:
    return TRACES / re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name)[:120]


_CALL: pytest.StashKey[pytest.TestReport] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Lets the fixture know how the test ended, so that only failures leave a trace."""
    report = yield
    if report.when == "call":
        item.stash[_CALL] = report
    return report
