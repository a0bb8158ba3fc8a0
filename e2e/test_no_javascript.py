"""With scripts switched off everything works: the same forms, the same guards (CONSOLE rule 1)."""

from playwright.sync_api import expect

from demo.people import PASSWORD
from e2e.office import Office
from e2e.pages import CasePage, CounterPage, DecisionPage, GoodsInPage, QueuePage, SignInPage
from e2e.shop import DECIDED, ONE_OF_EACH, Shop


def test_a_refund_is_approved_and_paid_without_a_script(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.stranger(java_script_enabled=False)
    SignInPage(page, shop).open().sign_in("tobias", PASSWORD)
    expect(page.get_by_role("heading", name="Queue", level=1)).to_be_visible()
    QueuePage(page, shop).find(refund.case).link(refund.case).click()
    confirm = CasePage(page, shop).looks_right().says("Ilse Brandt", refund.amount).check_and_approve().asks(refund)
    confirm.note.fill("by hand")
    receipt = confirm.approve().is_headed("Refund approved").says("by hand", "Sends at ")
    assert shop.counts(refund.order) == DECIDED
    shop.settled(refund)
    page.reload()
    receipt.is_headed("Refund paid")
    assert shop.counts(refund.order) == ONE_OF_EACH


def test_a_refund_is_called_back_without_a_script(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya", java_script_enabled=False)
    receipt = CasePage(page, shop).open(refund).check_and_approve().approve()
    receipt.cancel_button.click()
    receipt.is_headed("Refund withdrawn").says("before it was sent. Nothing was paid.")
    assert shop.state(refund) == "withdrawn"


def test_a_return_is_opened_and_received_without_a_script(office: Office, shop: Shop) -> None:
    order = shop.order(items=(("LAMP-CERAMIC", 2),))
    page = office.at("priya", java_script_enabled=False)
    case = CounterPage(page, shop).open().find_order(order.ref).take_back("Ceramic lamp", 1, "Faulty")
    reference = case.reference
    GoodsInPage(page, shop).open().find_case(reference).report("Ceramic lamp", 1, "M").says("Recorded what arrived.")
    refund = shop.refund(order, int(reference.removeprefix("C-")))
    DecisionPage(page, shop).open(refund).is_headed("Refund proposed")


def test_the_menus_of_case_and_bar_open_without_a_script(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya", java_script_enabled=False, viewport={"width": 600, "height": 800})
    case = CasePage(page, shop).open(refund)
    case.button("More…").click()
    expect(case.link("Reject this case…")).to_be_visible()
    page.keyboard.press("Escape")
    case.button("Desks").click()
    expect(case.link("Daily cap")).to_be_visible()
