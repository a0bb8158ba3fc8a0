"""S6, S8: at the door the password is half of it. Who has a factor shows it, who lacks one that is asked for adds it first, and
a session of the password alone opens nothing else."""

import re
import time
from collections.abc import Callable
from typing import Any

import pyotp
import pytest
from flask import Flask
from sqlalchemy.exc import IntegrityError

from console.access import WHOLE, stated
from console.installation import installed
from ledger.seals import Sealer
from tests import lives
from tests.authenticator import Authenticator, enrolled
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.pages import Browser, Page
from tests.web.test_access import example
from tests.web.test_factors import challenge_in, code_of, fetched
from tests.world import PASSWORD, World

Opened = Callable[..., Browser]
FACTOR, ENROLMENT = "/sign-in/second-factor", "/sign-in/enrolment"


@pytest.fixture
def sealer(app: Flask) -> Sealer:
    with app.app_context():
        return installed().sealer


def asks(stack: Stack, of: str) -> None:
    as_administrator(stack, "UPDATE merchants SET second_factor = %s", of)


def at_step(browser: Browser, email: str, path: str = "/sign-in") -> Page:
    """The page after the right password."""
    browser.get(path)
    return browser.submit(browser.shown.form("/sign-in"), email=email, password=PASSWORD)


def adds_app(browser: Browser, page: Page) -> tuple[str, Page]:
    """An app is added at the door; its secret, and the page with the recovery codes."""
    page = browser.submit(page.form(f"{ENROLMENT}/app"))
    secret = re.sub(r"\s", "", re.findall(r"<dd><code>([A-Z2-7 ]+)</code>", page.html)[0])
    return secret, browser.submit(page.form("/app/first-code"), code=code_of(secret))


def codes_in(page: Page) -> list[str]:
    return re.findall(r"<li><code>([A-Z2-7-]+)</code>", page.html)


@pytest.fixture
def priya(open_browser: Opened, world: World, stack: Stack) -> tuple[str, list[str]]:
    """Priya has added an app at the door: its secret, and her recovery codes. Its codes were not used today."""
    asks(stack, "money")
    browser = open_browser()
    secret, page = adds_app(browser, at_step(browser, world.priya.email))
    as_administrator(stack, "UPDATE totp_factors SET last_step = last_step - 10")
    return secret, codes_in(page)


def signed_out(browser: Browser, world: World) -> bool:
    return browser.ask("GET", f"/{world.slug}/sessions").status_code == 303


def test_who_has_an_app_is_asked_for_its_code_and_comes_to_where_they_were_going(
    open_browser: Opened, world: World, priya: tuple[str, list[str]]
) -> None:
    browser = open_browser()
    page = at_step(browser, world.priya.email, f"/{world.slug}/sessions?from=queue")
    assert "One more step" in page.title
    assert signed_out(browser, world)
    browser.submit(browser.get(FACTOR).form("/code"), code=code_of(priya[0]))
    assert browser.path == f"/{world.slug}/sessions?from=queue"


def test_a_session_of_the_password_alone_opens_no_page_but_its_step(
    app: Flask, open_browser: Opened, world: World, priya: tuple[str, list[str]]
) -> None:
    """Every route there is: with a half session each leads to its step, or is for nobody's session."""
    browser = open_browser()
    token = at_step(browser, world.priya.email).form("/code").values["csrf_token"]
    walked = 0
    adapter = app.url_map.bind("console.example", url_scheme="https")
    for rule in app.url_map.iter_rules():
        said = stated(app.view_functions[rule.endpoint])
        if said is None or said.kind != "permission" or "factor" in said.half:
            continue
        slug = {"merchant_slug": world.slug} if "merchant_slug" in rule.arguments else {}
        for method in (rule.methods or set()) & {"GET", "POST"}:
            path = adapter.build(rule.endpoint, example(rule) | slug, method=method)
            answer = browser.ask(method, path, data={"csrf_token": token} if method == "POST" else None)
            assert (answer.status_code, answer.headers.get("Location")) == (303, FACTOR), (method, path)
            walked += 1
    assert walked > 100
    part = browser.part(f"/{world.slug}/queue/fresh")
    assert (part.status_code, part.headers["HX-Redirect"]) == (401, FACTOR)


def test_only_the_door_takes_half_sessions(app: Flask) -> None:
    taking = {
        rule.endpoint.partition(".")[0]
        for rule in app.url_map.iter_rules()
        if (said := stated(app.view_functions[rule.endpoint])) and said.half != WHOLE
    }
    assert taking == {"second_factor", "enrolment", "sign_in"}


def test_a_half_session_is_never_made_whole_the_new_one_has_another_id(
    open_browser: Opened, world: World, stack: Stack, priya: tuple[str, list[str]]
) -> None:
    browser = open_browser()
    page = at_step(browser, world.priya.email)
    half = browser.cookie("__Host-onceback")
    browser.submit(page.form("/code"), code=code_of(priya[0]))
    assert browser.cookie("__Host-onceback") != half
    found = as_administrator(stack, "SELECT ended_at IS NULL AS open, waits_for FROM sessions ORDER BY created_at")
    assert [(row["open"], row["waits_for"]) for row in found][-2:] == [(False, "factor"), (True, None)]


def test_a_code_that_was_shown_at_the_door_approves_nothing_afterwards(
    open_browser: Opened, world: World, priya: tuple[str, list[str]]
) -> None:
    """S4: a step is spent once, across sign-in and everything else."""
    browser, code = open_browser(), code_of(priya[0])
    browser.submit(at_step(browser, world.priya.email).form("/code"), code=code)
    page = browser.get(f"/{world.slug}/factors")
    page = browser.submit(page.form("/factors/code"), status=422, code=code)
    assert "was used before" in page.text
    other = open_browser()
    assert (
        "was used before" in other.submit(at_step(other, world.priya.email).form("/code"), status=422, code=code).text
    )


def test_five_wrong_codes_close_the_step_but_not_for_a_browser_she_uses_nor_for_a_passkey(
    open_browser: Opened, world: World, stack: Stack, priya: tuple[str, list[str]], sealer: Sealer
) -> None:
    known = open_browser()
    known.submit(at_step(known, world.priya.email).form("/code"), code=code_of(priya[0]))
    as_administrator(stack, "UPDATE totp_factors SET last_step = last_step - 10")
    key = enrolled(stack, world.priya, sealer)
    thief = open_browser(address="198.51.100.4")
    page = at_step(thief, world.priya.email)
    for _ in range(5):
        page = thief.submit(page.form("/code"), status=422, code="000000")
        assert page.title.startswith("Error:")
    page = thief.submit(page.form("/code"), status=422, code=code_of(priya[0]))
    assert "Five wrong tries" in page.text
    assert signed_out(thief, world)
    again = at_step(known, world.priya.email)
    known.submit(again.form("/code"), code=code_of(priya[0]))
    assert not signed_out(known, world)
    shows_key(thief, page, key)
    assert not signed_out(thief, world)


def shows_key(browser: Browser, page: Page, key: Authenticator, status: int = 200, **forged: Any) -> Page:
    given = fetched(browser, page, "/key", f"{FACTOR}/key/challenge")
    answer = key.answers(challenge_in(given), **forged)
    return browser.submit(page.form(f"{FACTOR}/key"), status=status, nonce=given["nonce"], answer=answer)


def test_a_passkey_signs_in_and_one_that_was_proxied_does_not(
    open_browser: Opened, world: World, stack: Stack, sealer: Sealer
) -> None:
    """Attack story 2, at the door."""
    key = enrolled(stack, world.priya, sealer)
    browser = open_browser()
    page = at_step(browser, world.priya.email)
    assert "/sign-in/second-factor/code" not in [form.action for form in page.forms]
    page = shows_key(browser, page, key, 422, origin="https://console.example.attacker.test")
    assert signed_out(browser, world)
    shows_key(browser, page, key)
    assert not signed_out(browser, world)


def test_a_passkey_whose_counter_went_back_lets_nobody_in_and_is_ended(
    open_browser: Opened, world: World, stack: Stack, sealer: Sealer
) -> None:
    key = enrolled(stack, world.priya, sealer)
    browser = open_browser()
    shows_key(browser, at_step(browser, world.priya.email), key)
    key.counter = 0
    thief = open_browser()
    page = shows_key(thief, at_step(thief, world.priya.email), key, 422)
    assert "there may be a copy" in page.text
    assert signed_out(thief, world)
    assert as_administrator(stack, "SELECT ended_because FROM passkeys") == [{"ended_because": "counter"}]
    assert [row["kind"] for row in as_administrator(stack, "SELECT kind FROM alarms")] == ["passkey_counter"]


def test_where_a_shop_asks_for_a_factor_the_first_sign_in_adds_one_and_gets_ten_codes(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    asks(stack, "money")
    browser = open_browser()
    page = at_step(browser, world.priya.email, f"/{world.slug}/sessions")
    assert "Your shop asks for one beside your password" in page.text
    assert signed_out(browser, world)
    _, page = adds_app(browser, page)
    assert len(codes_in(page)) == 10
    assert f"/{world.slug}/sessions" in page.links
    assert not signed_out(browser, world)


def test_a_first_passkey_is_added_at_the_door_too(open_browser: Opened, world: World, stack: Stack) -> None:
    asks(stack, "money")
    browser, key = open_browser(), Authenticator()
    page = at_step(browser, world.priya.email)
    without = browser.submit(page.form(f"{ENROLMENT}/key"), status=422, name="ring", nonce="", answer="")
    assert "needs JavaScript" in without.text
    given = fetched(browser, page, f"{ENROLMENT}/key", f"{ENROLMENT}/key/challenge")
    page = browser.submit(
        page.form(f"{ENROLMENT}/key"), name="ring", nonce=given["nonce"], answer=key.makes(challenge_in(given))
    )
    assert len(codes_in(page)) == 10
    assert not signed_out(browser, world)


@pytest.mark.parametrize(("of", "reader", "desk"), [("own", False, False), ("money", False, True), ("all", True, True)])
def test_a_shop_asks_nobody_all_but_readers_or_everybody(
    open_browser: Opened, world: World, stack: Stack, of: str, *, reader: bool, desk: bool
) -> None:
    asks(stack, of)
    for person, asked in ((world.rita, reader), (world.priya, desk)):
        page = at_step(open_browser(), person.email)
        assert ("Add a second factor" in page.title) is asked


def test_a_shop_that_begins_to_ask_asks_whoever_is_signed_in_at_the_next_click_and_keeps_the_note(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    browser = open_browser()
    browser.sign_in(world.priya)
    asks(stack, "money")
    page = browser.get(f"/{world.slug}/queue/")
    assert "Your shop asks for a second factor." in page.text
    assert "Add a second factor" in at_step(browser, world.priya.email).title


def test_a_recovery_code_with_the_password_opens_the_adding_of_a_factor_and_nothing_else(
    open_browser: Opened, world: World, stack: Stack, priya: tuple[str, list[str]]
) -> None:
    """S8: the new app signs no money for a day, the old one is over, the code is used up and other sessions have ended."""
    other = open_browser()
    other.submit(at_step(other, world.priya.email).form("/code"), code=code_of(priya[0]))
    browser = open_browser()
    page = at_step(browser, world.priya.email)
    page = browser.submit(page.form("/recovery"), recovery=priya[1][3].lower())
    assert "Your recovery code is used up." in page.text
    assert browser.ask("GET", f"/{world.slug}/queue/").headers["Location"] == ENROLMENT
    secret, page = adds_app(browser, page)
    assert not signed_out(browser, world)
    assert signed_out(other, world)
    apps = as_administrator(stack, "SELECT ended_at IS NULL AS used FROM totp_factors ORDER BY made_at")
    assert [row["used"] for row in apps] == [False, True]
    as_administrator(stack, "UPDATE totp_factors SET last_step = last_step - 10 WHERE ended_at IS NULL")
    page = browser.get(f"/{world.slug}/factors")
    browser.submit(page.form("/factors/code"), code=code_of(secret))
    acts = as_administrator(stack, "SELECT signs_money FROM factor_acts WHERE kind = 'totp' AND spent_at IS NULL")
    assert not any(row["signs_money"] for row in acts[-1:])
    order = lives.propose(stack, world)["intent_id"]
    page = browser.get(f"/{world.slug}/refunds/{order}/approval", status=403)
    assert "with a recovery code less than a day ago" in page.text
    again = open_browser()
    page = at_step(again, world.priya.email)
    assert "That is not right" in again.submit(page.form("/recovery"), status=422, recovery=priya[1][3]).text


def test_a_half_session_ends_after_a_quarter_of_an_hour_and_says_so(
    open_browser: Opened, world: World, stack: Stack, priya: tuple[str, list[str]]
) -> None:
    browser = open_browser()
    page = at_step(browser, world.priya.email)
    as_administrator(
        stack, "UPDATE sessions SET created_at = now() - interval '16 minutes' WHERE waits_for IS NOT NULL"
    )
    page = browser.submit(page.form("/code"), code=code_of(priya[0]))
    assert "That took too long." in page.text
    assert signed_out(browser, world)


def test_who_has_only_the_password_signs_nobody_out(
    open_browser: Opened, world: World, priya: tuple[str, list[str]]
) -> None:
    working = open_browser()
    working.submit(at_step(working, world.priya.email).form("/code"), code=code_of(priya[0]))
    for _ in range(5):
        at_step(open_browser(), world.priya.email)
    assert not signed_out(working, world)
    page = working.get(f"/{world.slug}/sessions")
    assert "2 open" in page.text


def test_a_whole_session_has_nothing_to_do_at_the_steps(open_browser: Opened, world: World) -> None:
    browser = open_browser()
    browser.sign_in(world.priya)
    for path in (FACTOR, ENROLMENT, f"{ENROLMENT}/app"):
        assert browser.ask("GET", path).headers["Location"] == "/"


def test_whoever_is_switched_off_between_password_and_code_stays_outside(
    open_browser: Opened, world: World, stack: Stack, priya: tuple[str, list[str]]
) -> None:
    browser = open_browser()
    page = at_step(browser, world.priya.email)
    as_administrator(stack, "UPDATE staff SET disabled_at = now() WHERE staff_id = %s", world.priya.staff_id)
    page = browser.submit(page.form("/code"), code=code_of(priya[0]))
    assert "Sign in" in page.title
    assert signed_out(browser, world)


def test_the_note_of_a_session_that_ran_out_waits_until_the_factor_was_shown(
    open_browser: Opened, world: World, stack: Stack, priya: tuple[str, list[str]]
) -> None:
    browser = open_browser()
    browser.submit(at_step(browser, world.priya.email).form("/code"), code=code_of(priya[0]))
    as_administrator(stack, "UPDATE totp_factors SET last_step = last_step - 10")
    token = browser.get(f"/{world.slug}/sessions").form("end-all").values["csrf_token"]
    as_administrator(stack, "UPDATE sessions SET seen_at = now() - interval '16 minutes' WHERE waits_for IS NULL")
    browser.ask("POST", "/kept-note", data={"csrf_token": token, "note": "rang her twice"})
    browser.submit(at_step(browser, world.priya.email).form("/code"), code=code_of(priya[0]))
    kept = as_administrator(stack, "SELECT content->'kept'->>'note' AS note FROM sessions WHERE ended_at IS NULL")
    assert "rang her twice" in [row["note"] for row in kept]


def test_time_stands_still_for_no_code(open_browser: Opened, world: World, priya: tuple[str, list[str]]) -> None:
    browser = open_browser()
    page = at_step(browser, world.priya.email)
    old = pyotp.TOTP(priya[0]).generate_otp(int(time.time()) // 30 - 4)
    assert "not right" in browser.submit(page.form("/code"), status=422, code=old).text


def test_the_database_itself_refuses_an_approval_within_a_day_of_a_recovery_code(
    open_browser: Opened, world: World, stack: Stack, priya: tuple[str, list[str]]
) -> None:
    browser = open_browser()
    browser.submit(at_step(browser, world.priya.email).form("/recovery"), recovery=priya[1][0])
    intent_id = lives.propose(stack, world)["intent_id"]
    with pytest.raises(IntegrityError, match="approves nothing for a day"):
        lives.approve_as(stack, world, world.priya, intent_id)
    as_administrator(stack, "UPDATE factor_acts SET shown_at = shown_at - interval '25 hours'")
    lives.approve_as(stack, world, world.priya, intent_id)
