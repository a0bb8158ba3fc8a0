"""What may never stand in a template, and what every page must say, whatever the views hand over."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from flask import Flask, render_template
from jinja2 import StrictUndefined

from console.customer_words import refund_sentence
from console.filters import add_filters
from ledger.refusals import said_otherwise
from ledger.states import State

ROOT: Final = Path(__file__).parents[2]
TEMPLATES: Final = sorted((ROOT / "templates").rglob("*.html"))
STATES: Final[tuple[str, ...]] = get_args(State)
AT: Final = datetime(2026, 11, 29, 13, 2, 58, tzinfo=UTC)
HOSTILE: Final = "Sam \u202eOkafor\"'><script>alert(1)</script>"

BANNED: Final = {
    "a handler attribute of htmx": r"hx-on",
    "a script in an htmx value": r"\bjs:|javascript:",
    "a filter on a trigger": r"hx-trigger=\"[^\"]*\[",
    "boosted links": r"hx-boost",
    "an inline style": r"\sstyle=|<style",
    "an inline handler": r"\son[a-z]+\s*=\s*[\"']",
    "an inline script": r"<script(?![^>]*\bsrc=)",
    # Jinja finds the method of that name before the entry: whatever the view says, it is true.
    "an entry with the name of a mapping's method": (
        r"\{[{%][^}]*\.(?:keys|items|values|get|pop|popitem|update|copy|clear|setdefault|fromkeys)\b(?!\()"
    ),
    "text declared safe": r"\|\s*safe\b|\bMarkup\b|autoescape\s+false",
}
SLIPS: Final = {
    "a handler attribute of htmx": '<p hx-on:click="x">',
    "a script in an htmx value": '<p hx-vals="js:{a: 1}">',
    "a filter on a trigger": '<p hx-trigger="keyup[ctrlKey]">',
    "boosted links": '<body hx-boost="true">',
    "an inline style": '<p style="color: red">',
    "an inline handler": '<button onclick="approve()">',
    "an inline script": '<script nonce="x">approve()</script>',
    "an entry with the name of a mapping's method": "{{ 'on' if shell.person.keys else 'off' }}",
    "text declared safe": "{{ note | safe }}",
}


def markup(path: Path) -> str:
    """The template without its comments: those may name what is banned."""
    return re.sub(r"\{#.*?#\}", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def unquoted(text: str) -> list[str]:
    """Attributes whose value stands without quotes. What Jinja writes counts as a word, what is quoted as nothing."""
    written = re.sub(r"\{%.*?%\}", "", re.sub(r"\{\{.*?\}\}", "word", text, flags=re.DOTALL), flags=re.DOTALL)
    tags = re.findall(r"<[a-z][^<>]*>", re.sub(r"\"[^\"]*\"", '""', written))
    return [hit for tag in tags for hit in re.findall(r"[\w-]+=(?!\")[^\s>]*", tag)]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_no_template_holds_what_is_banned(template: Path) -> None:
    text = markup(template)
    found = {what: hit.group() for what, pattern in BANNED.items() if (hit := re.search(pattern, text))}
    assert found == {}
    assert unquoted(text) == []


@pytest.mark.parametrize("slip", ["<input name=note>", "<input value={{ note }}>", "<input value='{{ note }}'>"])
def test_an_attribute_without_double_quotes_would_be_noticed(slip: str) -> None:
    assert unquoted(slip) != []


@pytest.mark.parametrize("what", BANNED)
def test_each_ban_would_be_noticed(what: str) -> None:
    assert re.search(BANNED[what], SLIPS[what])


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_every_form_that_posts_carries_the_session_token(template: Path) -> None:
    for form in re.findall(r"<form\b.*?</form>", markup(template), flags=re.DOTALL):
        if 'method="post"' in form:
            assert "csrf()" in form or "hidden_tag()" in form, form[:120]


def test_only_the_confirm_pages_have_the_solid_button() -> None:
    assert [path.name for path in TEMPLATES if "btn-act" in markup(path)] == [
        "confirm.html",
        "confirm_proof.html",
        "confirm_together.html",
    ]


def test_no_part_of_the_confirm_page_is_fetched_or_leads_to_a_desk() -> None:
    for name in ("confirm.html", "confirm_together.html", "confirm_refusal.html", "confirm_proof.html", "alone.html"):
        text = markup(ROOT / "templates" / name)
        assert "hx-" not in text
        assert "shell_rail" not in text


def test_every_poll_says_that_it_is_one() -> None:
    polled = [tag for path in TEMPLATES for tag in re.findall(r"hx-get=[^>]*poll-due[^>]*", markup(path))]
    assert len(polled) >= 4
    assert all("Onceback-Poll" in tag and "data-poll" in tag for tag in polled)


class Seen(HTMLParser):
    """Start tags with their attributes, and the words between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def steps(self) -> int:
        """How many steps the life of the refund shows."""
        start = next(place for place, (_, attributes) in enumerate(self.tags) if attributes.get("class") == "steps")
        end = next(place for place, (tag, _) in enumerate(self.tags) if place > start and tag == "dl")
        return sum(tag == "li" for tag, _ in self.tags[start:end])

    def said(self) -> str:
        return " ".join(self.words.split())


def draw(template: str, **view: Any) -> Seen:
    """Renders as the console does: escaping on, an undefined name is an error."""
    app = Flask(__name__, root_path=str(ROOT))
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.globals.update(asset=str, integrity=str, csrf_token=lambda: "token")
    add_filters(app)
    with app.test_request_context():
        return Seen(render_template(template, csp_nonce="nonce", **view))


def shell() -> dict[str, Any]:
    person = {"name": "Tobias Renk", "initials": "TR", "role_text": "Returns desk", "theme": None, "shortcuts": True}
    return {
        "shop_name": "Hollowbrook Outfitters", "zone": "Berlin", "zone_key": "Europe/Berlin", "now": AT, "test_money": True,
        "brake": None,
        "person": person, "links": {"queue": "/q", "sign_out": "/out"}, "counts": {}, "cap_text": "", "status": None,
        "session": None,
    }  # fmt: skip


def card(label: str = "Visa") -> dict[str, str]:
    return {"kind": "card", "label": label, "last4": "4242"}


def confirm(sheet: dict[str, Any] | None, refusal: dict[str, Any] | None = None, note: str = "") -> Seen:
    back = {"url": "/case", "case_reference": "C-20431"}
    typed = {"text": note, "max": 500, "error": ""}
    return draw(
        "confirm.html", shell=shell(), back=back, sheet=sheet, note=typed, refusal=refusal, hand="", proof_error=""
    )


def sheet(**other: Any) -> dict[str, Any]:
    return {
        "act": {"kind": "refund", "says": "", "warns": ""},
        "action_url": "/approve", "operation": "op-1", "fingerprint": "7f3a91c20b5d", "fingerprint_short": "7f3a 91c2 0b5d",
        "amount_minor": 1230, "currency": "GBP", "destination": card(), "order_reference": "A-20588",
        "case_reference": "C-20431", "intent_reference": "R-1042", "customer": "Ilse Vandermeer-Okoye",
        "merchant_name": "Hollowbrook Outfitters", "units_text": "line 1, units 1 and 2 of 3", "policy": "apparel@7",
        "computed": None, "approval_text": "your session", "proof": None, "valid_until": AT, "send_delay_seconds": 30,
    } | other  # fmt: skip


def test_the_confirm_page_names_the_act_and_carries_what_was_seen() -> None:
    page = confirm(sheet())
    assert "Approve refund of 12.30 GBP to Visa ending 4242" in page.said()
    assert [form["method"] for form in page.of("form")] == ["post"]
    hidden = {field["name"]: field["value"] for field in page.of("input") if field["type"] == "hidden"}
    assert hidden == {"csrf_token": "token", "operation": "op-1", "fingerprint": "7f3a91c20b5d"}
    assert [link["href"] for link in page.of("a")] == ["/case"]


def test_hostile_names_stay_text_on_the_confirm_page_and_show_what_hides_in_them() -> None:
    page = confirm(sheet(customer=HOSTILE, destination=card(HOSTILE), order_reference=HOSTILE))
    assert all(script.get("src") for script in page.of("script"))
    assert "\u202e" not in page.words
    assert page.said().count("U+202E") >= 3
    busy = next(button["data-busy"] for button in page.of("button") if "data-busy" in button)
    assert busy is not None
    assert "U+202E" in busy


def test_a_stale_approve_shows_old_and_new_value_and_keeps_the_note() -> None:
    changes = [{"what": "amount", "was": "118.00 EUR", "now": "94.40 EUR"}]
    refusal = {"kind": "changed", "changes": changes, "reason": "Unit 2 was graded C.", "by": "Warehouse 2", "at": AT}
    page = confirm(sheet(), refusal, note="Spoke to Ilse.")
    assert "Not approved: the amount changed from 118.00 EUR to 94.40 EUR." in page.said()
    assert "Nothing was sent. Your note is kept." in page.said()
    assert "Spoke to Ilse." in page.words
    assert "Error:" in page.said()


def test_nothing_can_be_pressed_when_nothing_can_be_approved() -> None:
    page = confirm(None, {"kind": "own"}, note="Spoke to Ilse.")
    assert "You asked for this, so another person has to approve it." in page.said()
    assert page.of("form") == []
    assert "Spoke to Ilse." in page.words


def decision(state: str, **other: Any) -> dict[str, Any]:
    return {
        "reference": "R-1042", "case_reference": "C-20431", "case_url": "/case", "state": state, "state_text": "",
        "amount_minor": 1230, "currency": "GBP", "destination": card(), "customer": "Ilse Vandermeer-Okoye",
        "order_text": "A-20588, line 1, unit 1 of 3", "units_text": "Unit 1 of line 1", "asked_by": "Priya Raman",
        "asked_at": AT, "policy": "apparel@7", "computed": None, "second": None,
        "entitlement_version": 2, "approved_by": "Tobias Renk", "approved_at": AT,
        "approval_text": "session", "approval_reference": "P-1", "fingerprint": "7f3a", "fingerprint_short": "7f3a",
        "provider_key": "ob-1", "provider_reference": "", "note": "", "sends_at": AT, "sent_at": AT, "settled_at": AT,
        "withdrawn_at": AT, "withdrawn_by": "Tobias Renk", "units_now": "the case still holds its units",
        "cancel": None, "held": None, "unknown": None,
        "answer": {"text": "Refused.", "then": "Try another way.", "words": ""},
        "act": {"kind": "refund", "says": "", "warns": ""}, "by_hand": None,
        "to_customer": refund_sentence({
            "act": "refund", "state": state, "state_reason": "", "amount_minor": 1230, "currency": "GBP",
            "destination_kind": "card", "destination_last4": "4242"}),
        "final": state == "succeeded", "poll_url": "/poll",
    } | other  # fmt: skip


def decided(state: str, already: dict[str, Any] | None = None, **other: Any) -> Seen:
    view = decision(state, **other)
    return draw("decision.html", shell=shell(), decision=view, already=already, result=None, next=None)


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_badge_four_steps_and_a_sentence_for_the_customer(state: str) -> None:
    held = {"by": "cap", "goes_at": AT, "since": None, "who": "", "short": "by the daily cap"}
    page = decided(state, held=held if state == "held" else None)
    assert any(f"st-{state.replace('_', '-')}" in str(span.get("class")) for span in page.of("span"))
    assert "Your refund of 12.30 GBP" in page.said()
    assert page.steps() == 4


@pytest.mark.parametrize("state", [state for state in STATES if state != "succeeded"])
def test_nothing_reads_as_paid_before_the_provider_says_so(state: str) -> None:
    held = {"by": "cap", "goes_at": AT, "since": None, "who": "", "short": "by the daily cap"}
    page = decided(state, held=held if state == "held" else None)
    badges = [span for span in page.of("span") if "st-succeeded" in str(span.get("class"))]
    assert badges == []
    assert "4242 is paid." not in page.said()


def test_a_second_press_is_told_whose_decision_it_looks_at() -> None:
    own = decided("approved", {"by_you": True, "by": "Tobias Renk", "at": AT}).said()
    other = decided("approved", {"by_you": False, "by": "Priya Raman", "at": AT}).said()
    assert "already approved, by you, at" in own
    assert "Your second click changed nothing." in own
    assert "already approved, by Priya Raman, at" in other
    assert "Nothing was sent twice." in other


def test_an_unknown_outcome_says_do_not_repeat_and_offers_no_button_that_sends() -> None:
    page = decided("unknown", unknown={"sent_at": AT, "next_check_at": AT, "differs": ""})
    assert "answer not known. Do not repeat by hand. Next check" in page.said()
    assert [form["action"] for form in page.of("form")] == ["/out"]


def test_an_answer_that_differs_is_not_called_unknown_and_says_what_differs() -> None:
    differs = said_otherwise("needs_review", "differs:amount")
    page = decided("needs_review", unknown={"sent_at": AT, "next_check_at": None, "differs": differs})
    assert "not known" not in page.said()
    assert "The provider's refund has another amount than was approved. Do not repeat by hand." in page.said()
    assert said_otherwise("needs_review", "key_too_old") == ""


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422, 429, 500, 503, 418])
def test_an_error_page_needs_nothing_shows_its_reference_and_runs_no_script(status: int) -> None:
    error = {
        "status": status,
        "reference": "7Q4M2K",
        "detail": "",
        "retry_after_seconds": None,
        "home_url": None,
        "back_url": None,
    }
    page = draw("error.html", error=error)
    assert "7Q4M2K" in page.said()
    assert "What to do:" in page.said()
    assert page.of("script") == []
