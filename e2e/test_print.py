"""A case on paper: one column, black on white, whole cards, and nothing that can be pressed."""

import re

from playwright.sync_api import Page, expect

from e2e.office import Office
from e2e.pages import CasePage
from e2e.shop import Shop


def sheets(page: Page) -> int:
    """How many sheets Chromium makes of it."""
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))


def test_a_case_prints_to_two_sheets_at_most_with_its_shop_and_who_printed_it(office: Office, shop: Shop) -> None:
    page = office.at("priya", color_scheme="dark")
    CasePage(page, shop).open(shop.proposed())
    expect(page.get_by_role("button", name="Print")).to_be_visible()
    printed = page.locator(".print-only")
    expect(printed).to_be_hidden()

    page.emulate_media(media="print")

    expect(printed).to_contain_text("by Priya Raman")
    expect(page.get_by_text("Hollowbrook Outfitters").first).to_be_visible()
    for shown in ("What was claimed", "Evidence", "Entitlement", "Timeline"):
        expect(page.get_by_role("heading", name=shown, level=2)).to_be_visible()
    assert page.locator("button:visible, input:visible, textarea:visible, nav:visible, .bar:visible").count() == 0
    ink, paper = (
        page.evaluate(f"() => getComputedStyle(document.body).{what}") for what in ("color", "backgroundColor")
    )
    assert (ink, paper) == ("rgb(0, 0, 0)", "rgb(255, 255, 255)")
    assert 1 <= sheets(page) <= 2


def test_sheets_are_counted(office: Office) -> None:
    """The control: three pages of text are three sheets."""
    page = office.stranger()
    page.set_content("<p style='break-after: page'>a</p><p style='break-after: page'>b</p><p>c</p>")
    assert sheets(page) == 3
