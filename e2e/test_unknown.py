"""The provider's answer is lost: plain words, no button to send again, and the worker finds out. And calling back in time."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from playwright.sync_api import Page

from e2e.office import Office
from e2e.pages import CasePage, ConfirmPage, DecisionPage, UnknownPage
from e2e.shop import ONE_OF_EACH, Counts, Refund, Shop, until

# A receipt asks again after five seconds while somebody is there.
POLL_MS = 6000
AGAIN = re.compile(r"send|again|retry|repeat|resubmit|refund now", re.IGNORECASE)


@contextmanager
def _answer_lost(shop: Shop, refund: Refund) -> Iterator[None]:
    """The provider pays and its answer never arrives; inside the block it does not say so either."""
    payment = refund.order.payment_intent
    shop.provider.fault("lose_reply", method="POST", path="/v1/refunds", payment_intent=payment)
    silent = shop.provider.fault("error_503", method="GET", path="/v1/refunds", payment_intent=payment, count=100_000)
    shop.let_go(refund)
    until(lambda: shop.state(refund) == "unknown", f"{refund.reference} did not become unknown")
    yield
    shop.provider.drop_faults(silent["seq"])


def _offers_no_second_sending(page: Page) -> None:
    roles: tuple[Literal["button", "link"], ...] = ("button", "link")
    for role in roles:
        names = page.get_by_role(role, include_hidden=True).all_inner_texts()
        assert not [name for name in names if AGAIN.search(name)], names


def test_a_lost_answer_is_said_in_plain_words_and_found_by_the_worker(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    page.clock.install()
    receipt = ConfirmPage(page, shop).open(refund).approve()
    with _answer_lost(shop, refund):
        page.clock.run_for(POLL_MS)
        receipt.is_headed("Refund sent, answer not known")
        receipt.says(
            "answer not known. Do not repeat by hand.", "could pay this customer twice", "You do not need to ask again."
        )
        _offers_no_second_sending(page)
        CasePage(page, shop).open(refund).says("Answer not known")
        _offers_no_second_sending(page)
        desk = UnknownPage(page, shop).open().says(refund.reference)
        desk.link(refund.reference).click()
        desk.says("We do not know", "What happens next", "What was tried")
        _offers_no_second_sending(page)
        assert shop.counts(refund.order) == ONE_OF_EACH
    shop.settled(refund)
    DecisionPage(page, shop).open(refund).is_headed("Refund paid").never_says("not known")
    assert shop.counts(refund.order) == ONE_OF_EACH


def test_another_click_while_the_answer_is_not_known_sends_nothing(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    priya, tobias = office.at("priya"), office.at("tobias")
    late = ConfirmPage(tobias, shop).open(refund)
    ConfirmPage(priya, shop).open(refund).approve()
    with _answer_lost(shop, refund):
        late.approve().is_headed("Refund sent, answer not known").says(
            "already approved, by Priya Raman", "Nothing was sent twice."
        )
        calls = shop.provider.requests(method="POST", path="/v1/refunds")
        assert len([call for call in calls if refund.order.charge in str(call["body"])]) <= 1
    shop.settled(refund)
    assert shop.counts(refund.order) == ONE_OF_EACH


def test_a_refund_is_called_back_before_it_is_sent_and_never_leaves(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    priya, tobias = office.at("priya"), office.at("tobias")
    ConfirmPage(priya, shop).open(refund).approve().says("Sends at ", "Until then you can call it back.")
    receipt = DecisionPage(tobias, shop).open(refund)
    receipt.cancel_button.click()
    receipt.is_headed("Refund withdrawn").says(
        "Cancelled at ", "before it was sent. Nothing was paid; the case still holds its units."
    )
    shop.let_go(refund)
    later = shop.proposed()
    ConfirmPage(priya, shop).open(later).approve()
    shop.settled(later)  # the worker was there since
    DecisionPage(priya, shop).open(refund).is_headed("Refund withdrawn").says("Tobias Renk")
    assert shop.provider.requests(method="POST", path="/v1/refunds", key=_key(shop, refund)) == []
    assert shop.counts(refund.order) == Counts(1, 1, 0)


def test_calling_back_after_it_left_says_too_late(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya", java_script_enabled=False)  # a page that does not learn by itself that it is too late
    receipt = ConfirmPage(page, shop).open(refund).approve()
    shop.settled(refund)
    receipt.cancel_button.click()
    receipt.says("Too late to cancel: it left at ", "The answer will show here.").is_headed("Refund paid")
    assert receipt.cancel_button.count() == 0
    assert shop.counts(refund.order) == ONE_OF_EACH


def _key(shop: Shop, refund: Refund) -> str:
    return str(shop.rows("SELECT provider_key FROM intents WHERE intent_id = %s", refund.intent_id)[0]["provider_key"])
