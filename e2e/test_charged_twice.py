"""“I was charged twice for my order”, the whole way in the browser: said, read at the provider, found, paid back once."""

import re

from e2e.office import Office
from e2e.pages import CasePage, CounterPage
from e2e.shop import ONE_OF_EACH, Shop, until


def test_a_second_charge_is_found_and_goes_back_once_and_the_first_one_stays(office: Office, shop: Shop) -> None:
    order = shop.order(items=(("LAMP-CERAMIC", 1),), customer="Ilse Brandt", charged_twice=True)
    priya, jonas = office.at("priya"), office.at("jonas")

    case = CounterPage(priya, shop).open().find_order(order.ref).charged_twice("I was charged twice, <b>pay both</b>")
    case.says("is open.", "Ilse Brandt", "<b>pay both</b>", "Charges")
    number = int(case.reference.removeprefix("C-"))
    found = "SELECT finding FROM charge_findings f JOIN cases c USING (merchant_id, case_id) WHERE c.number = %s"
    until(lambda: shop.rows(found, number) == [{"finding": "verified"}], "the charges were not read")
    refund = shop.refund(order, number)
    CasePage(priya, shop).open(refund).says("Charged twice", "goes back", "Too much", refund.amount)

    # Who says it again lands on the case that is there.
    CounterPage(priya, shop).open().find_order(order.ref).charged_twice("again").says(
        f"This joined case {refund.case}."
    )

    confirm = CasePage(jonas, shop).open(refund).check_and_approve()
    confirm.asks(refund).says(order.ref, refund.case, refund.reference)
    receipt = confirm.approve().is_headed("Refund approved")
    shop.let_go(refund)
    receipt.is_headed("Refund paid")
    CasePage(priya, shop).open(refund).says("Paid")

    until(lambda: shop.counts(order) == ONE_OF_EACH, f"{shop.counts(order)}")
    (made,) = shop.provider.money(order.payment_intent)["refunds"]
    assert (made["amount"], made["status"]) == (refund.amount_minor, "succeeded")
    paid = shop.rows(
        "SELECT c.refunded_minor, c.captured_minor FROM captures c JOIN orders o USING (merchant_id, order_id)"
        " WHERE o.external_ref = %s ORDER BY c.captured_at", order.ref,
    )  # fmt: skip
    assert [row["refunded_minor"] for row in paid] == [0, refund.amount_minor]
    CounterPage(priya, shop).open().find_order(order.ref)
    office.expects(409)
    priya.get_by_role("link", name=re.compile("Charged twice")).click()
    priya.get_by_role("button", name="Read the charges").click()
    assert "one of the charges of this order was paid back" in priya.inner_text("main")
