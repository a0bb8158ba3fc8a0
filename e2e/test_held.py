"""Over the daily cap: approved and held, in words; two managers raise the cap, and it goes."""

from e2e.office import Office
from e2e.pages import CapsPage, CasePage, ConfirmPage
from e2e.shop import DECIDED, ONE_OF_EACH, Shop


def test_a_refund_over_the_cap_is_held_and_goes_when_two_managers_raise_it(office: Office, shop: Shop) -> None:
    # Twelve coats at 289.00 are more than the 3,000.00 USD of a day; no other test pays in dollars.
    refund = shop.proposed(12, items=(("COAT-NAVY-42", 12),), currency="USD", customer="Wholesale Quist")
    jonas, mara, priya = office.at("jonas"), office.at("mara"), office.at("priya")

    receipt = ConfirmPage(jonas, shop).open(refund).asks(refund).approve().is_headed("Refund approved, held")
    receipt.says("Approved, held by the daily cap.", "Nobody has to approve it again.", "It is not sent yet")
    CasePage(priya, shop).open(refund).says("Held")
    assert shop.counts(refund.order) == DECIDED

    asking = CapsPage(mara, shop).open().says(refund.reference, "Full. 1 refund waits.")
    asking.ask_for("USD", "5,000.00", "A recall of the navy coat")
    asking.says("You asked for this, so another person has to activate it.")
    assert asking.button("Raise the USD cap").count() == 0
    seen = CapsPage(priya, shop).open().says("A recall of the navy coat")
    assert seen.button("Raise the USD cap").count() == 0
    assert shop.state(refund) == "held"

    CapsPage(jonas, shop).open().grant("USD", "5,000.00")
    shop.settled(refund)
    receipt.page.goto(shop.url(f"/refunds/{refund.intent_id}"))
    receipt.is_headed("Refund paid")
    assert shop.counts(refund.order) == ONE_OF_EACH
