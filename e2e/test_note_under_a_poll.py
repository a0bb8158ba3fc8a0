"""Typing is no activity to the server: a poll finds the session over while a note stands half written."""

import re

from playwright.sync_api import expect

from demo.people import PASSWORD
from e2e.office import Office
from e2e.pages import CasePage, SignInPage
from e2e.shop import Shop

POLL_MS = 6000


def test_a_note_half_written_when_a_poll_finds_the_session_over_comes_back(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.stranger()
    SignInPage(page, shop).open().sign_in("lena", PASSWORD)
    office.expects(401)
    page.clock.install()
    case = CasePage(page, shop).open(refund)
    case.write_note("Ilse rang: she sends the other one on Monday.")
    aged = shop.change(
        "UPDATE sessions s SET seen_at = s.seen_at - interval '16 minutes', created_at = s.created_at - interval '16 minutes'"
        " FROM staff p WHERE p.staff_id = s.staff_id AND p.email = 'lena@hollowbrook.example' AND s.ended_at IS NULL"
    )
    assert aged > 0
    with page.expect_request(re.compile("/kept-note$")):
        page.clock.run_for(POLL_MS)
    SignInPage(page, shop).is_shown().sign_in("lena", PASSWORD)
    expect(page).to_have_url(re.compile(f"/cases/{refund.case_id}$"))
    expect(page.get_by_label("Note", exact=True)).to_have_value("Ilse rang: she sends the other one on Monday.")
    assert shop.rows("SELECT 1 FROM notes WHERE case_id = %s", refund.case_id) == []
