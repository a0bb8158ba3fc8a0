"""The case changes between page and button: 409 with old and new amounts, the note kept, nothing sent (CONSOLE rule 3)."""

from playwright.sync_api import expect

from e2e.office import Office
from e2e.pages import CasePage, ConfirmPage, DecisionPage
from e2e.shop import DECIDED, NOTHING, ONE_OF_EACH, Refund, Shop

# An open case asks again after five seconds while somebody is there.
POLL_MS = 6000


def _half_arrived(shop: Shop) -> tuple[Refund, int]:
    """Two mugs were announced and one is here: its refund waits."""
    order = shop.order()
    number = shop.ask(order, 2)
    shop.receive(number, 1)
    return shop.refund(order, number), number


def test_goods_that_arrive_between_page_and_button_refuse_it_with_both_amounts(office: Office, shop: Shop) -> None:
    refund, number = _half_arrived(shop)
    page = office.at("tobias")
    office.expects(409)
    confirm = ConfirmPage(page, shop).open(refund).asks(refund)
    confirm.note.fill("called her, she waits for the other mug")
    shop.receive(number, 1)
    confirm.press()
    confirm.says(
        "Not approved: the amount changed from 11.75 GBP to 23.50 GBP.", "Nothing was sent.", "Your note is kept."
    )
    confirm.says("warehouse system")
    confirm.looks_right()
    assert page.title().startswith("Error:")
    expect(confirm.note).to_have_value("called her, she waits for the other mug")
    assert shop.counts(refund.order) == NOTHING
    assert shop.state(refund) == "withdrawn"

    now = shop.refund(refund.order, number)
    assert (now.amount_minor, now.intent_id != refund.intent_id) == (2350, True)
    receipt = confirm.asks(now).approve().is_headed("Refund approved")
    receipt.says("23.50 GBP", "called her, she waits for the other mug")
    assert shop.counts(refund.order) == DECIDED
    shop.settled(now)
    assert shop.counts(refund.order) == ONE_OF_EACH


def test_the_refused_form_sent_again_is_refused_again(office: Office, shop: Shop) -> None:
    refund, number = _half_arrived(shop)
    page = office.at("tobias")
    office.expects(409)
    confirm = ConfirmPage(page, shop).open(refund)
    shop.receive(number, 1)
    confirm.press()
    confirm.says("Not approved: ")
    page.reload()  # sends the same form once more
    confirm.says("Not approved: ", "Nothing was sent.")
    assert shop.counts(refund.order) == NOTHING


def test_an_open_case_says_that_it_changed_and_keeps_what_was_typed(office: Office, shop: Shop) -> None:
    refund, number = _half_arrived(shop)
    page = office.at("tobias")
    page.clock.install()
    case = CasePage(page, shop).open(refund)
    case.write_note("half a thought")
    shop.receive(number, 1)
    page.clock.run_for(POLL_MS)
    case.says("This case changed while you were reading.")
    expect(page.get_by_label("Note", exact=True)).to_have_value("half a thought")
    expect(case.approve_link).to_have_count(0)
    page.get_by_role("group", name="What you can do with this case").get_by_role("link", name="Reload").click()
    case.says("23.50 GBP").never_says("changed while you were reading")
    assert shop.counts(refund.order) == NOTHING


def test_a_refund_that_was_withdrawn_meanwhile_cannot_be_approved(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    priya, tobias = office.at("priya"), office.at("tobias")
    office.expects(409)
    confirm = ConfirmPage(tobias, shop).open(refund)
    rejecting = CasePage(priya, shop).open(refund)
    rejecting.link("Reject this case…").click()
    priya.get_by_label("Not our item").check()
    rejecting.button("Reject this case").click()
    rejecting.says("is rejected.", "Nothing was paid.")
    confirm.press()
    confirm.says("Not approved: this intent is", "Withdrawn", "By Priya Raman", "Your click changed nothing.")
    DecisionPage(tobias, shop).open(refund).is_headed("Refund withdrawn")
    assert shop.counts(refund.order) == NOTHING
