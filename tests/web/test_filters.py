"""S55 and the edges where money and times become text."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import jinja2
import pytest
from flask import Flask, g, render_template

from console.filters import LONGEST_SHOWN, age, instant, money, visible

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


@pytest.fixture
def at_ten_in_berlin() -> Any:
    """A request of a merchant in Berlin at 11:00 there."""
    app = Flask("test")
    with app.test_request_context():
        g.person = SimpleNamespace(now=NOW, zone="")
        g.member = SimpleNamespace(time_zone=ZoneInfo("Europe/Berlin"))
        yield


@pytest.mark.parametrize(
    ("minor", "currency", "text"),
    [
        (0, "EUR", "0.00"), (5, "EUR", "0.05"), (1230, "EUR", "12.30"), (123450, "EUR", "1,234.50"),
        (-1230, "EUR", "−12.30"), (-5, "GBP", "−0.05"), (500, "JPY", "500"), (1234567, "JPY", "1,234,567"),
        (1234567, "KWD", "1,234.567"), (10**13, "EUR", "100,000,000,000.00"), (9007199254740993, "EUR", "90,071,992,547,409.93"),
    ],
)  # fmt: skip
def test_an_amount_shows_every_minor_unit_and_no_code(minor: int, currency: str, text: str) -> None:
    assert money(minor, currency) == text


@pytest.mark.parametrize(
    ("at", "style", "text"),
    [
        (NOW, "", "11:00"),
        (NOW, "second", "11:00:00"),
        (NOW - timedelta(hours=12), "", "29 Nov 23:00"),
        (NOW - timedelta(hours=10, minutes=59), "", "00:01"),
        (NOW - timedelta(days=40), "", "21 Oct 12:00"),
        (NOW - timedelta(days=400), "", "26 Oct 2025 11:00"),
        (NOW, "day", "30 Nov"),
        (NOW - timedelta(days=400), "day", "26 Oct 2025"),
        (datetime(2026, 11, 29, 23, 30, tzinfo=UTC), "day", "30 Nov"),
        (NOW, "date", "Monday 30 November 2026"),
        (date(2026, 11, 29), "date", "Sunday 29 November 2026"),
        (date(2026, 11, 4), "day", "4 Nov"),
        (NOW - timedelta(days=2), "time", "11:00"),
    ],
)
def test_a_moment_is_told_in_the_merchants_zone(at_ten_in_berlin: None, at: Any, style: str, text: str) -> None:
    assert instant(at, style) == text


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        ({"seconds": 20}, "now"), ({"minutes": 5}, "5 min"), ({"hours": 2, "minutes": 15}, "2 h 15 min"), ({"hours": 2}, "2 h"),
        ({"days": 1, "hours": 3, "minutes": 9}, "1 d 3 h"), ({"days": 16, "hours": 3}, "16 d"), ({"seconds": -30}, "now"),
    ],
)  # fmt: skip
def test_an_age_has_two_units_at_most(at_ten_in_berlin: None, ago: dict[str, int], text: str) -> None:
    assert age(NOW - timedelta(**ago)) == text


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("plain", [("plain", False)]),
        ("", []),
        ("Sam \u202eOkafor", [("Sam ", False), ("U+202E", True), ("Okafor", False)]),
        ("a\u200bb", [("a", False), ("U+200B", True), ("b", False)]),
        ("\x00\x1b[31m", [("U+0000", True), ("U+001B", True), ("[31m", False)]),
        ("pass\u00adword", [("pass", False), ("U+00AD", True), ("word", False)]),
        ("\ufefftext", [("U+FEFF", True), ("text", False)]),
        ("a\u2066b\u2069", [("a", False), ("U+2066", True), ("b", False), ("U+2069", True)]),
        ("x\u3164y", [("x", False), ("U+3164", True), ("y", False)]),
        ("tag\U000e0041", [("tag", False), ("U+E0041", True)]),
        ("a\u200db", [("a", False), ("U+200D", True), ("b", False)]),
        ("line\u2028break", [("line", False), ("U+2028", True), ("break", False)]),
        ("two\nlines\tand a tab", [("two\nlines\tand a tab", False)]),
        ("\u202e\u202d", [("U+202E", True), ("U+202D", True)]),
    ],
)
def test_nothing_hidden_stays_hidden(text: str, pieces: list[tuple[str, bool]]) -> None:
    assert visible(text) == pieces


@pytest.mark.parametrize(
    "text", ["Zoë Müller", "Ольга", "李雷", "محمد", "क्‍ष", "👩‍💻 dev", "👨‍👩‍👧", "❤️", "naïve – “quoted”"]
)
def test_names_as_people_write_them_stay_whole(text: str) -> None:
    assert visible(text) == [(text, False)]


def test_two_spellings_of_a_letter_are_shown_as_one() -> None:
    assert visible("Zoe\u0308") == [("Zoë", False)]


def test_a_very_long_text_is_cut_where_one_sees_it() -> None:
    assert visible("x" * 10_000) == [("x" * LONGEST_SHOWN + "…", False)]


@pytest.mark.parametrize("name", ["page.html", "page.html.j2", "mail.txt", "export.csv", "noending"])
def test_every_template_escapes_whatever_its_name(app: Flask, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{{ text }}", encoding="utf-8")
    app.jinja_loader.searchpath.append(str(tmp_path))  # type: ignore[union-attr]
    with app.test_request_context(base_url="https://console.example"):
        assert render_template(name, text="<b>'\"&") == "&lt;b&gt;&#39;&#34;&amp;"


def test_a_name_that_a_template_misspells_is_an_error_not_a_blank(app: Flask, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("{{ amuont }}", encoding="utf-8")
    app.jinja_loader.searchpath.append(str(tmp_path))  # type: ignore[union-attr]
    with app.test_request_context(base_url="https://console.example"), pytest.raises(jinja2.UndefinedError):
        render_template("page.html")
