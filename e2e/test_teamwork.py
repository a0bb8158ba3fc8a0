"""Several people on the same cases, each at a browser of their own: claims, presence, the next case, and forms without scripts."""

import re

from playwright.sync_api import Page, expect

from e2e.office import Office
from e2e.pages import CasePage, ConfirmPage, QueuePage
from e2e.shop import DECIDED, Refund, Shop

_CHANGE = re.compile("^Change…$")
_CASE = re.compile(r"/cases/[0-9a-f-]{36}$")


def _case_of(page: Page, shop: Shop) -> str:
    expect(page).to_have_url(_CASE)
    return CasePage(page, shop).looks_right().reference


def test_two_who_press_n_get_two_cases_and_going_on_lets_the_first_go(office: Office, shop: Shop) -> None:
    for _ in range(3):
        shop.proposed()
    priya, tobias = office.at("priya"), office.at("tobias")
    for page in (priya, tobias):
        QueuePage(page, shop).open("ready")
    for page in (priya, tobias):
        page.keyboard.press("n")
    first, other = _case_of(priya, shop), _case_of(tobias, shop)
    assert first != other
    CasePage(priya, shop).says("In your hand")
    priya.keyboard.press("n")
    expect(priya.get_by_role("heading", level=1)).not_to_contain_text(first)
    assert _case_of(priya, shop) not in (first, other)
    QueuePage(tobias, shop).find(first)
    expect(tobias.get_by_role("row").filter(has_text=first)).not_to_contain_text("in hand until")
    _let_go(shop)


def test_a_held_n_presses_once(office: Office, shop: Shop) -> None:
    shop.proposed()
    page = office.at("priya")
    QueuePage(page, shop).open("ready")
    page.keyboard.down("n")
    reference = _case_of(page, shop)
    for _ in range(4):
        page.keyboard.down("n")
    page.keyboard.up("n")
    assert _case_of(page, shop) == reference
    _let_go(shop)


def test_who_comes_shows_by_itself_and_a_claim_stops_nobody(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    priya, tobias = office.at("priya"), office.at("tobias")
    case = CasePage(priya, shop).open(refund)
    CasePage(tobias, shop).open(refund).button("Claim").click()
    CasePage(tobias, shop).says("In your hand")
    case.says("In hand: Tobias Renk", "has it open")
    case.write_note("still here")
    confirm = case.check_and_approve().says("Tobias Renk has this case in hand since")
    confirm.asks(refund).approve().is_headed("Refund approved")
    assert shop.counts(refund.order) == DECIDED


def test_a_note_keeps_what_is_typed_while_others_come(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    priya, tobias = office.at("priya"), office.at("tobias")
    case = CasePage(priya, shop).open(refund)
    case.write_note("half a sente")
    CasePage(tobias, shop).open(refund)
    case.says("has it open")
    expect(priya.get_by_label("Note", exact=True)).to_have_value("half a sente")
    expect(priya.get_by_label("Note", exact=True)).to_be_focused()


def test_a_case_is_claimed_given_snoozed_and_tagged_without_a_script(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya", java_script_enabled=False)
    case = CasePage(page, shop).open(refund)
    case.button("Claim").click()
    case.says("In your hand").link(_CHANGE).click()
    page.get_by_label("Give it to").select_option(label="Tobias Renk")
    case.button("Assign").click()
    case.says("Assigned.").link(_CHANGE).click()
    page.get_by_label("Rests until").fill(_days_ahead(shop, 3))
    page.get_by_label("What it waits for").select_option(label="The customer answers")
    case.button("Snooze").click()
    case.says("the customer answers").button("End it now").click()
    case.says("It rests no more.").button("Release").click()
    expect(case.button("Claim")).to_be_visible()
    _tag_without_a_script(page, shop, refund)


def _tag_without_a_script(page: Page, shop: Shop, refund: Refund) -> None:
    queue = QueuePage(page, shop).find(refund.case)
    queue.pick(refund).tag_picked("by-hand").says("1 case tagged by-hand.")
    expect(queue.row(refund)).to_contain_text("by-hand")


def test_the_next_case_and_a_pick_are_within_reach_of_keys(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    QueuePage(page, shop).open().find(refund.case)
    page.locator("body").press("j")
    page.keyboard.press("x")
    expect(page.get_by_label(f"Pick {refund.case}")).to_be_checked()
    page.keyboard.press("x")
    expect(page.get_by_label(f"Pick {refund.case}")).not_to_be_checked()
    ConfirmPage(page, shop).open(refund)
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("/approval$"))


def _days_ahead(shop: Shop, days: int) -> str:
    (row, *_) = shop.rows("SELECT ((now() AT TIME ZONE 'Europe/Berlin')::date + CAST(%s AS int))::text AS day", days)
    return str(row["day"])


def _let_go(shop: Shop) -> None:
    """Nobody has a case in hand for the tests that follow: the time of every lease passes."""
    shop.change("UPDATE case_leases SET until = taken_at WHERE until > now()")
