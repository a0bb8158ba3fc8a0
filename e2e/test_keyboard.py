"""By keyboard alone: j k Enter a, Tab to the button, Enter. No key approves by itself (CONSOLE rule 6)."""

from playwright.sync_api import Locator, Page, expect

from demo.people import PASSWORD
from e2e.office import Office
from e2e.pages import CasePage, ConfirmPage, DecisionPage, QueuePage, SignInPage
from e2e.shop import DECIDED, NOTHING, ONE_OF_EACH, Shop

FEW_TABS = 6


def _links_of_rows(page: Page) -> Locator:
    return page.get_by_role("table").get_by_role("rowheader").get_by_role("link")


def _tab_to(page: Page, wanted: Locator) -> None:
    for _ in range(FEW_TABS):
        page.keyboard.press("Tab")
        if wanted.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError(f"{wanted} is not within {FEW_TABS} tabs")


def test_a_refund_goes_from_queue_to_receipt_by_keys(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    QueuePage(page, shop).open()
    page.keyboard.press("/")
    page.keyboard.type(refund.case)
    page.keyboard.press("Enter")
    expect(_links_of_rows(page)).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(refund.case)
    page.keyboard.press("a")
    confirm = ConfirmPage(page, shop).asks(refund)
    assert not confirm.approve_button.evaluate("one => one === document.activeElement")
    _tab_to(page, confirm.approve_button)
    assert shop.counts(refund.order) == NOTHING
    page.keyboard.press("Enter")
    DecisionPage(page, shop).is_shown().is_headed("Refund approved")
    shop.settled(refund)
    assert shop.counts(refund.order) == ONE_OF_EACH


def test_j_and_k_move_one_row_at_a_time_and_a_held_key_moves_once(office: Office, shop: Shop) -> None:
    page = office.at("priya")
    QueuePage(page, shop).open()
    rows = _links_of_rows(page)
    page.keyboard.press("j")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(rows.nth(0)).to_be_focused()
    for _ in range(5):
        page.keyboard.down("j")
    page.keyboard.up("j")
    expect(rows.nth(1)).to_be_focused()
    for modified in ("Alt+j", "Meta+j"):
        page.keyboard.press(modified)
    expect(rows.nth(1)).to_be_focused()


def test_no_key_approves_by_itself(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    confirm = ConfirmPage(page, shop).open(refund)
    for key in ("a", "Enter", "Space", "j", "k", "n", "y", "?", "Control+Enter", "Alt+a", "Escape"):
        page.keyboard.press(key)
    confirm.note.fill("still reading")
    for key in ("Enter", "Control+Enter"):
        confirm.note.press(key)
    confirm.asks(refund)
    assert page.url.endswith(f"/refunds/{refund.intent_id}/approval")
    assert shop.counts(refund.order) == NOTHING


def test_enter_held_down_on_the_case_opens_the_sheet_and_approves_nothing(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    CasePage(page, shop).open(refund).approve_link.focus()
    page.keyboard.down("Enter")
    confirm = ConfirmPage(page, shop).asks(refund)
    for _ in range(10):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    confirm.asks(refund)
    assert shop.counts(refund.order) == NOTHING


def test_letters_typed_into_a_field_are_letters(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    case = CasePage(page, shop).open(refund)
    note = page.get_by_label("Note", exact=True)
    note.click()
    page.keyboard.type("a jar, not kept")
    expect(note).to_have_value("a jar, not kept")
    case.looks_right()
    assert page.url.endswith(f"/cases/{refund.case_id}")


def test_a_with_a_modifier_opens_nothing(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    case = CasePage(page, shop).open(refund)
    for modified in ("Control+a", "Alt+a", "Meta+a"):
        page.keyboard.press(modified)
    case.looks_right()
    assert page.url.endswith(f"/cases/{refund.case_id}")


def test_keys_switched_off_do_nothing(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.stranger()
    SignInPage(page, shop).open().sign_in("lena", PASSWORD)
    switch = "UPDATE staff SET shortcuts = %s WHERE email = 'lena@hollowbrook.example'"
    shop.change(switch, False)
    try:
        case = CasePage(page, shop).open(refund)
        page.keyboard.press("/")
        expect(page.locator("#go")).not_to_be_focused()
        expect(page.locator("body")).to_have_attribute("data-keys", "off")
        page.keyboard.press("a")
        case.looks_right()
        assert page.url.endswith(f"/cases/{refund.case_id}")
    finally:
        shop.change(switch, True)
    case.open(refund)
    page.keyboard.press("/")
    expect(page.locator("#go")).to_be_focused()
    page.keyboard.press("Escape")
    case.open(refund)
    page.keyboard.press("a")
    ConfirmPage(page, shop).asks(refund)


def test_space_on_the_focused_button_is_the_browsers_own_press(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    ConfirmPage(page, shop).open(refund).approve_button.focus()
    page.keyboard.press("Space")
    DecisionPage(page, shop).is_shown().is_headed("Refund approved")
    assert shop.counts(refund.order) == DECIDED
