"""One real return, the whole way, in the browser: counter, goods in, approval by another person, money, settled."""

from e2e.office import Office
from e2e.pages import CasePage, ConfirmPage, CounterPage, GoodsInPage
from e2e.shop import ONE_OF_EACH, Refund, Shop, until


def test_one_return_goes_from_the_counter_to_the_customers_card(office: Office, shop: Shop) -> None:
    order = shop.order(items=(("LAMP-CERAMIC", 2),), customer="Ilse Brandt")
    priya, tobias = office.at("priya"), office.at("tobias")

    case = CounterPage(priya, shop).open().find_order(order.ref).take_back("Ceramic lamp", 1, "Faulty")
    case.says("is open.", "Ilse Brandt", "Waiting: warehouse", "No amount yet.")
    reference = case.reference
    arrived = GoodsInPage(priya, shop).open().find_case(reference).report("Ceramic lamp", 1, "M")
    arrived.says("Recorded what arrived.")
    refund = shop.refund(order, int(reference.removeprefix("C-")))
    arrived.says(refund.amount, "Visa ending 4242", "added up again by the checker")

    confirm = CasePage(tobias, shop).open(refund).says("Ilse Brandt").check_and_approve()
    confirm.asks(refund).says(order.ref, refund.case, refund.reference, "It cannot be changed.")
    confirm.note.fill("crack in the foot, seen")
    receipt = confirm.approve().is_headed("Refund approved")
    receipt.says("crack in the foot, seen", "It is not paid yet").never_says("already approved")
    shop.let_go(refund)
    receipt.is_headed("Refund paid").says("is paid. Your bank may need some days")
    CasePage(priya, shop).open(refund).says("Paid")
    _is_one_of_everything(shop, refund)


def _is_one_of_everything(shop: Shop, refund: Refund) -> None:
    until(lambda: shop.counts(refund.order) == ONE_OF_EACH, f"{shop.counts(refund.order)}")
    (made,) = shop.provider.money(refund.order.payment_intent)["refunds"]
    assert (made["amount"], made["status"]) == (refund.amount_minor, "succeeded")
    (row,) = shop.rows(
        "SELECT c.refunded_minor, c.reserved_minor FROM captures c WHERE c.charge_ref = %s", refund.order.charge
    )
    assert (row["refunded_minor"], row["reserved_minor"]) == (refund.amount_minor, 0)


def test_who_opened_a_return_at_the_counter_cannot_approve_it(office: Office, shop: Shop) -> None:
    order = shop.order()
    priya = office.at("priya")
    case = CounterPage(priya, shop).open().find_order(order.ref).take_back("Enamel mug, cream", 1, "Size")
    number = int(case.reference.removeprefix("C-"))
    shop.receive(number)
    refund = shop.refund(order, number)
    page = CasePage(priya, shop).open(refund).says("another person has to approve it")
    assert page.approve_link.count() == 0
    office.expects(403)
    ConfirmPage(priya, shop).open(refund).says("another person has to approve it")
    assert shop.state(refund) == "proposed"
