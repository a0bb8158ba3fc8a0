"""Goodwill from the order to the customer's card, and an amount other than computed with both figures up to the receipt."""

from e2e.office import Office
from e2e.pages import AllowancePage, CasePage, ConfirmPage, DecisionPage, OverridePage
from e2e.shop import NOTHING, ONE_OF_EACH, Shop


def test_goodwill_is_typed_checked_asked_for_and_paid_once_by_another_person_without_a_script(
    office: Office, shop: Shop
) -> None:
    order = shop.order()
    office.expects(422)
    form = AllowancePage(office.at("priya", java_script_enabled=False), shop).open(order, "Goodwill")
    form.says("What is left").check("Mug", "900.00", "Poor service").says("is left of this line")
    assert shop.counts(order) == NOTHING
    form.check("Mug", "5.00", "Poor service").says("5.00", "Visa ending 4242", "Left of it afterwards")
    case = form.ask("5.00 GBP").says("Goodwill", "Goods stay", "You asked for this")
    refund = shop.refund(order, int(case.reference.removeprefix("C-")))
    assert (refund.amount_minor, shop.counts(order)) == (5_00, NOTHING)
    ConfirmPage(office.at("tobias"), shop).open(refund).asks(refund).approve().says("Tobias Renk")
    shop.settled(refund)
    assert shop.counts(order) == ONE_OF_EACH
    form.open(order, "Goodwill").check("Mug", "900.00", "Poor service").says("is left of this line")
    assert shop.counts(order) == ONE_OF_EACH


def test_another_amount_shows_the_computed_one_to_whoever_approves_it_and_is_paid_once(
    office: Office, shop: Shop
) -> None:
    refund = shop.proposed(quantity=2)
    page = OverridePage(office.at("priya"), shop).open(refund).says("Computed in all", refund.amount)
    page.check("3.00", "A promise of ours is kept", "agreed on the phone").says(refund.amount, "3.00", "less")
    page.ask("3.00 GBP").says("Computed, before another amount was asked for", refund.amount)
    asked = shop.refund(refund.order, refund.case_number)
    assert (asked.amount_minor, shop.counts(refund.order)) == (3_00, NOTHING)
    CasePage(office.at("tobias"), shop).open(asked).says(
        "A manager decides this refund: another amount than computed: a promise of ours is kept"
    )
    sheet = (
        ConfirmPage(office.at("mara"), shop).open(asked).says("Computed", refund.amount, "A promise of ours is kept")
    )
    sheet.asks(asked).approve().says(refund.amount)
    shop.settled(asked)
    DecisionPage(office.at("mara"), shop).open(asked).says("Refund paid", "Computed", refund.amount)
    assert shop.counts(refund.order) == ONE_OF_EACH
