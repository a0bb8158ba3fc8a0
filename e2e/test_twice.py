"""The same approval sent twice, in every way a browser can: each lands on the one decision (CONSOLE rule 2)."""

from functools import partial

import pytest
from playwright.sync_api import Page, Request, Route

from e2e.office import HeldPosts, Office, pumped_until
from e2e.pages import ConfirmPage, DecisionPage
from e2e.shop import DECIDED, NOTHING, ONE_OF_EACH, Refund, Shop

SECOND_CLICK = ("This refund was already approved, by you, at ", "Your second click changed nothing.")


def _ends_with_one(shop: Shop, refund: Refund) -> None:
    """Whatever was pressed: one decision now, and one refund once the worker has paid."""
    assert shop.counts(refund.order) == DECIDED
    shop.settled(refund)
    assert shop.counts(refund.order) == ONE_OF_EACH


def _open_and_keep(page: Page, shop: Shop, refund: Refund) -> ConfirmPage:
    """Opens the sheet in a browser that shows this very page again on Back, form and all, whatever we say of caching."""
    answer = page.goto(shop.url(f"/refunds/{refund.intent_id}/approval"))
    assert answer is not None
    body, headers = answer.body(), answer.all_headers()

    def from_memory(route: Route) -> None:
        if route.request.method == "GET":
            route.fulfill(status=200, headers=headers, body=body)
        else:
            route.fallback()

    page.route("**/approval", from_memory)
    return ConfirmPage(page, shop).looks_right().asks(refund)


def _posts_of(page: Page) -> list[Request]:
    """The POSTs that the page sends from now on."""
    posts: list[Request] = []
    page.on("request", lambda request: posts.append(request) if request.method == "POST" else None)
    return posts


def _send_again(page: Page) -> None:
    """Reloads the browser's own error page, which sends the form again; it comes a moment after the request failed."""
    page.wait_for_url("chrome-error://**")
    page.reload()


@pytest.mark.parametrize("javascript", [True, False], ids=["with-scripts", "without-scripts"])
def test_a_double_click_lands_on_the_first_result(office: Office, shop: Shop, javascript: bool) -> None:
    refund = shop.proposed()
    page = office.at("priya", java_script_enabled=javascript)
    ConfirmPage(page, shop).open(refund).approve_button.dblclick(no_wait_after=True)
    DecisionPage(page, shop).is_shown().is_headed("Refund approved")
    _ends_with_one(shop, refund)


def test_a_second_click_while_the_first_is_on_its_way_sends_a_second_post_and_makes_one_decision(
    office: Office, shop: Shop
) -> None:
    """Nothing greys the button here, so the browser drops the first answer and shows that to the second POST."""
    refund = shop.proposed()
    page = office.at("priya", java_script_enabled=False)
    box = ConfirmPage(page, shop).open(refund).approve_button.bounding_box()
    assert box is not None
    posts = _posts_of(page)
    for count in (1, 2):
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        pumped_until(page, partial(_are, posts, count), f"not {count} POSTs were sent")
    DecisionPage(page, shop).is_shown().is_headed("Refund approved")
    _ends_with_one(shop, refund)


def _are(posts: list[Request], count: int) -> bool:
    return len(posts) == count


def test_back_and_resubmit_shows_the_decision(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    confirm = _open_and_keep(page, shop, refund)
    confirm.approve().never_says("already approved")
    page.go_back()
    confirm.asks(refund).approve().says(*SECOND_CLICK)
    _ends_with_one(shop, refund)


def test_back_by_itself_asks_us_again_and_leads_to_the_decision(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    ConfirmPage(page, shop).open(refund).approve()
    page.go_back()
    DecisionPage(page, shop).is_shown().is_headed("Refund approved")
    _ends_with_one(shop, refund)


def test_a_reload_of_the_receipt_sends_nothing(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    ConfirmPage(page, shop).open(refund).approve()
    posts = _posts_of(page)
    page.reload()
    DecisionPage(page, shop).is_headed("Refund approved").never_says("already approved")
    assert posts == []
    _ends_with_one(shop, refund)


def test_an_answer_lost_after_the_commit_is_found_by_sending_again(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    office.expects("net::ERR_FAILED")
    confirm = _open_and_keep(page, shop, refund)
    answered: list[int] = []

    def lose_the_answer(route: Route) -> None:
        answered.append(route.fetch(max_redirects=0).status)
        route.abort()

    page.route("**/approval", lose_the_answer, times=1)
    with page.expect_event("requestfailed"):
        confirm.press()
    assert answered == [303]
    assert shop.counts(refund.order) == DECIDED
    _send_again(page)
    DecisionPage(page, shop).is_shown().says(*SECOND_CLICK)
    _ends_with_one(shop, refund)


def test_a_press_while_offline_sends_nothing_and_can_be_made_again(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    page = office.at("priya")
    office.expects("net::ERR_INTERNET_DISCONNECTED")
    confirm = ConfirmPage(page, shop).open(refund)
    page.context.set_offline(True)
    with page.expect_event("requestfailed"):
        confirm.press()
    assert shop.counts(refund.order) == NOTHING
    page.context.set_offline(False)
    _send_again(page)
    DecisionPage(page, shop).is_shown().is_headed("Refund approved").never_says("already approved")
    _ends_with_one(shop, refund)


def test_two_tabs_of_one_person_make_one_decision(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    first = office.at("priya")
    second = first.context.new_page()
    confirms = [ConfirmPage(page, shop).open(refund) for page in (first, second)]
    confirms[0].approve().never_says("already approved")
    confirms[1].approve().says(*SECOND_CLICK)
    _ends_with_one(shop, refund)


def test_two_devices_of_one_person_pressed_together_make_one_decision(office: Office, shop: Shop) -> None:
    refund = shop.proposed()
    pages = [office.at("priya"), office.at("priya")]
    held = HeldPosts(*pages)
    for page in pages:
        ConfirmPage(page, shop).open(refund).press()
    held.release(2)
    receipts = [DecisionPage(page, shop).is_shown().is_headed("Refund approved") for page in pages]
    assert len({receipt.approved_line.inner_text() for receipt in receipts}) == 1
    assert sum(SECOND_CLICK[1] in page.locator("main").inner_text() for page in pages) == 1
    _ends_with_one(shop, refund)


@pytest.mark.parametrize("javascript", [True, False], ids=["with-scripts", "without-scripts"])
def test_enter_held_down_on_the_button_makes_one_decision(office: Office, shop: Shop, javascript: bool) -> None:
    refund = shop.proposed()
    page = office.at("priya", java_script_enabled=javascript)
    ConfirmPage(page, shop).open(refund).approve_button.focus()
    for _ in range(8):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    DecisionPage(page, shop).is_shown().is_headed("Refund approved")
    _ends_with_one(shop, refund)
