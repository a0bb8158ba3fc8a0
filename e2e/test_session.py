"""A session that ends under one's hands: back to where one was, with what was typed; and gone when one leaves."""

import re

import pytest
from playwright.sync_api import Page, expect

from demo.people import PASSWORD
from e2e.office import Office
from e2e.pages import CasePage, ConfirmPage, QueuePage, SessionsPage, SignInPage
from e2e.shop import DECIDED, NOTHING, Shop

# Pages that wait ask again after five seconds while somebody is there.
POLL_MS = 6000


def _lena(office: Office, shop: Shop) -> Page:
    """Lena, signed in for this test only."""
    page = office.stranger()
    SignInPage(page, shop).open().sign_in("lena", PASSWORD)
    return page


def _fifteen_minutes_pass(shop: Shop) -> None:
    aged = shop.change(
        "UPDATE sessions s SET seen_at = s.seen_at - interval '16 minutes', created_at = s.created_at - interval '16 minutes'"
        " FROM staff p WHERE p.staff_id = s.staff_id AND p.email = 'lena@hollowbrook.example' AND s.ended_at IS NULL"
    )
    assert aged > 0


def test_an_approval_after_the_idle_limit_asks_to_sign_in_and_keeps_the_note(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = _lena(office, shop)
    confirm = ConfirmPage(page, shop).open(refund)
    confirm.note.fill("tags were on")
    _fifteen_minutes_pass(shop)
    confirm.press()
    door = SignInPage(page, shop).is_shown()
    door.says(
        "You were signed out after 15 minutes without activity.",
        "Your note is kept.",
        "You come back to where you were.",
    )
    assert shop.counts(refund.order) == NOTHING
    door.sign_in("lena", PASSWORD)
    expect(page).to_have_url(re.compile(f"/refunds/{refund.intent_id}/approval$"))
    expect(confirm.note).to_have_value("tags were on")
    assert shop.counts(refund.order) == NOTHING
    confirm.approve().is_headed("Refund approved").says("tags were on")
    assert shop.counts(refund.order) == DECIDED


def test_a_note_on_a_case_is_kept_over_the_idle_limit(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = _lena(office, shop)
    case = CasePage(page, shop).open(refund)
    case.write_note("Ilse rang: she sends the other one on Monday.")
    _fifteen_minutes_pass(shop)
    case.add_note()
    SignInPage(page, shop).is_shown().says("Your note is kept.").sign_in("lena", PASSWORD)
    expect(page).to_have_url(re.compile(f"/cases/{refund.case_id}$"))
    expect(page.get_by_label("Note", exact=True)).to_have_value("Ilse rang: she sends the other one on Monday.")
    case.add_note()
    case.says("Note added.")
    assert len(shop.rows("SELECT 1 FROM notes WHERE case_id = %s", refund.case_id)) == 1


def test_a_page_that_refreshes_itself_leads_to_the_door_when_the_session_is_over(office: Office, shop: Shop) -> None:
    page = _lena(office, shop)
    office.expects(401)
    page.clock.install()
    QueuePage(page, shop).open()
    _fifteen_minutes_pass(shop)
    page.clock.run_for(POLL_MS)
    SignInPage(page, shop).is_shown().sign_in("lena", PASSWORD)
    expect(page.get_by_role("heading", name="Queue", level=1)).to_be_visible()


def test_signing_out_everywhere_ends_the_other_browser_too(office: Office, shop: Shop) -> None:
    here, there = _lena(office, shop), _lena(office, shop)
    QueuePage(there, shop).open()
    SessionsPage(here, shop).open().says("this one").sign_out_everywhere()
    SignInPage(here, shop).is_shown().says("You are signed out.")
    there.reload()
    SignInPage(there, shop).is_shown()


@pytest.mark.parametrize("javascript", [True, False], ids=["with-scripts", "without-scripts"])
def test_back_after_signing_out_shows_nothing(office: Office, shop: Shop, javascript: bool) -> None:
    refund = shop.proposed()
    page = office.stranger(java_script_enabled=javascript)
    SignInPage(page, shop).open().sign_in("lena", PASSWORD)
    case = CasePage(page, shop).open(refund).says("Ilse Brandt")
    case.sign_out()
    SignInPage(page, shop).is_shown().says("You are signed out.")
    page.go_back()
    SignInPage(page, shop).is_shown().never_says("Ilse Brandt", refund.case)


def test_a_wrong_password_and_an_unknown_person_get_the_same_words(office: Office, shop: Shop) -> None:
    page = office.stranger()
    office.expects(422)
    for person in ("lena", "nobody"):
        door = SignInPage(page, shop).open()
        page.get_by_label("E-mail").fill(f"{person}@hollowbrook.example")
        page.get_by_label("Password").fill("not this one at all")
        door.button("Sign in").click()
        door.says("E-mail, password or code is not right, or this account cannot sign in now.")
        assert page.title().startswith("Error:")
