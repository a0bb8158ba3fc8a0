"""Who sees what: a reader acts on nothing, an admin sees people and no customer, another shop finds nothing."""

import pytest
from playwright.sync_api import Page

from demo.people import PASSWORD
from e2e.office import Office
from e2e.pages import CasePage, ConfirmPage, Desk, PeoplePage, QueuePage, SignInPage
from e2e.shop import NILS, NOTHING, Refund, Shop

# Sends what the confirm form sends, from a page of this person, with the token of that page.
_POST = """async ([address, fingerprint]) => {
    const token = document.querySelector("input[name=csrf_token]").value;
    const body = new URLSearchParams({csrf_token: token, operation: "0".repeat(32), fingerprint, note: ""});
    return (await fetch(address, {method: "POST", body, redirect: "manual"})).status;
}"""


def _posts(page: Page, shop: Shop, refund: Refund, slug: str = "hollowbrook") -> int:
    address = f"{shop.stack.origin}/{slug}/refunds/{refund.intent_id}/approval"
    return int(page.evaluate(_POST, [address, "0" * 64]))


def test_a_reader_sees_no_button_no_name_and_is_refused(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("noor")
    office.expects(403)
    case = CasePage(page, shop).open(refund).says("I. B.", refund.amount).never_says("Ilse Brandt")
    assert case.approve_link.count() == 0
    assert page.get_by_role("group", name="What you can do with this case").count() == 0
    assert page.get_by_label("Note", exact=True).count() == 0
    assert _posts(page, shop, refund) == 403
    ConfirmPage(page, shop).open(refund).says("You may not do this", "Your role does not allow this.")
    assert shop.counts(refund.order) == NOTHING


def test_an_admin_sees_people_and_the_brakes_only(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("ada")
    office.expects(403)
    people = PeoplePage(page, shop).open().says("Priya Raman", "tobias@hollowbrook.example")
    rail = page.get_by_role("navigation", name="Desks")
    assert rail.get_by_role("link").all_inner_texts() == ["Brakes", "People", "Erasure"]
    assert _posts(page, shop, refund) == 403
    for path in (f"/cases/{refund.case_id}", "/queue/", "/cap/", "/counter/", f"/refunds/{refund.intent_id}"):
        page.goto(shop.url(path))
        people.says("You may not do this").never_says("Ilse", refund.amount)
    assert shop.counts(refund.order) == NOTHING


def test_a_desk_clerk_is_sent_to_a_manager_above_the_limit(office: Office, shop: Shop) -> None:
    refund = shop.proposed(items=(("COAT-NAVY-42", 1),), currency="EUR")
    page = office.at("priya")
    office.expects(403)
    case = CasePage(page, shop).open(refund).says("Hand it to a manager")
    assert case.approve_link.count() == 0
    ConfirmPage(page, shop).open(refund).says(
        "289.00 EUR is above the 249.99 EUR you may approve.", "Nothing was sent."
    )
    CasePage(page, shop).open(refund)
    assert _posts(page, shop, refund) == 403
    assert shop.counts(refund.order) == NOTHING


@pytest.mark.parametrize("slug", ["hollowbrook", "northwind"])
def test_people_of_another_shop_find_nothing(office: Office, shop: Shop, slug: str) -> None:
    refund = shop.proposed()
    page = office.at(NILS.email)
    office.expects(404)
    page.goto(f"{shop.stack.origin}/northwind/queue/")
    assert _posts(page, shop, refund, slug) == 404
    for path in (f"/cases/{refund.case_id}", f"/refunds/{refund.intent_id}", f"/refunds/{refund.intent_id}/approval"):
        page.goto(f"{shop.stack.origin}/{slug}{path}")
        Desk(page, shop).says("There is no such page").never_says("Ilse", refund.amount, refund.case)
    assert shop.counts(refund.order) == NOTHING


def test_a_stranger_is_led_to_the_door(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.stranger()
    for path in (f"/cases/{refund.case_id}", f"/refunds/{refund.intent_id}/approval", "/queue/"):
        page.goto(shop.url(path))
        SignInPage(page, shop).is_shown().never_says("Ilse", refund.amount)
    SignInPage(page, shop).sign_in("priya", PASSWORD)
    QueuePage(page, shop).looks_right()
    assert page.url.endswith("/queue/")
