"""Two reviewers, one refund: both press the button at once, and one decision comes of it (P2, P3)."""

import re

from playwright.sync_api import Page

from e2e.office import HeldPosts, Office
from e2e.pages import ConfirmPage, DecisionPage
from e2e.shop import DECIDED, ONE_OF_EACH, Refund, Shop

ROUNDS = 20


def test_two_reviewers_who_press_at_once_make_one_decision_twenty_times(office: Office, shop: Shop) -> None:
    pages = {"Priya Raman": office.at("priya"), "Tobias Renk": office.at("tobias")}
    held = HeldPosts(*pages.values())
    refunds = [shop.proposed() for _ in range(ROUNDS)]
    winners = {_press_together(shop, held, pages, refund) for refund in refunds}
    assert winners == set(pages)  # each of them was first sometimes: it was a race
    shop.settled(*refunds)
    assert [shop.counts(refund.order) for refund in refunds] == [ONE_OF_EACH] * ROUNDS


def _press_together(shop: Shop, held: HeldPosts, pages: dict[str, Page], refund: Refund) -> str:
    """One round: both pages show the one decision, the second one says whose it is. Returns who was first."""
    for page in pages.values():
        ConfirmPage(page, shop).open(refund).asks(refund).press()
    held.release(2)
    receipts = {name: DecisionPage(page, shop).is_shown().is_headed("Refund approved") for name, page in pages.items()}
    lines = {receipt.approved_line.inner_text() for receipt in receipts.values()}
    assert len(lines) == 1, lines
    winner = next(name for name in pages if name in lines.copy().pop())
    for name, receipt in receipts.items():
        if name == winner:
            receipt.never_says("already approved")
        else:
            receipt.says(f"This refund was already approved, by {winner}, at ", "Nothing was sent twice.")
    assert shop.counts(refund.order) == DECIDED
    (row,) = shop.rows(
        "SELECT s.name FROM approvals a JOIN staff s USING (staff_id) WHERE a.intent_id = %s", refund.intent_id
    )
    assert row["name"] == winner
    return winner


def test_the_one_who_comes_later_is_led_to_the_decision(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    priya, tobias = office.at("priya"), office.at("tobias")
    late = ConfirmPage(tobias, shop).open(refund)
    ConfirmPage(priya, shop).open(refund).approve().is_headed("Refund approved")
    late.approve().says("This refund was already approved, by Priya Raman, at ")
    ConfirmPage(tobias, shop).page.goto(shop.url(f"/refunds/{refund.intent_id}/approval"))
    assert re.search(rf"/refunds/{refund.intent_id}$", tobias.url)
    shop.settled(refund)
    assert shop.counts(refund.order) == ONE_OF_EACH
