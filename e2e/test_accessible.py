"""Every page in both themes and at 320 px: axe finds nothing, nothing scrolls sideways, focus is seen where it goes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, ViewportSize

from e2e.office import Office
from e2e.pages import AllowancePage, CasePage, ConfirmPage, CounterPage, Desk, QueuePage, SignInPage
from e2e.shop import Shop

WIDE, NARROW = ViewportSize(width=1366, height=768), ViewportSize(width=320, height=640)
Opens = Callable[[Page, Shop], object]


@dataclass(frozen=True)
class Look:
    """One page to look at. `state`: the seeded refund in that state whose case (or refund) stands for {} in the path; of an order
    in question, how it stands."""

    path: str
    state: str = ""
    person: str = "priya"
    status: int = 200


_DECISIONS = ("held", "unknown", "pending", "needs_review", "succeeded", "reversed", "failed", "withdrawn")
LOOKS = {
    "queue": Look("/queue/"),
    "empty view": Look("/queue/?view=open&q=nobody"),
    "case ready": Look("/cases/{case_id}", "proposed"),
    "whose and when": Look("/cases/{case_id}/work", "proposed"),
    "whose and when of a manager": Look("/cases/{case_id}/work", "proposed", person="mara"),
    "case paid": Look("/cases/{case_id}", "succeeded"),
    "confirm": Look("/refunds/{intent_id}/approval", "proposed"),
    "confirm above the limit": Look("/refunds/{intent_id}/approval", "above", status=403),
    **{f"decision {state}": Look("/refunds/{intent_id}", state) for state in _DECISIONS},
    "rejection": Look("/cases/{case_id}/rejection", "proposed"),
    "unknown outcomes": Look("/unknown/"),
    "cap": Look("/cap/", person="mara"),
    "counter": Look("/counter/?q=A-20671"),
    "counter order": Look("/counter/orders/{order_id}", "succeeded"),
    "without a return": Look("/orders/{order_id}/allowances", "succeeded"),
    "goodwill": Look("/orders/{order_id}/allowances/goodwill", "succeeded"),
    "exchange": Look("/orders/{order_id}/exchange", "succeeded"),
    "facts": Look("/cases/{case_id}/facts/", "proposed"),
    "where the goods are": Look("/cases/{case_id}/facts/not_delivered", "proposed"),
    "a repair": Look("/cases/{case_id}/facts/cure", "proposed"),
    "who asks": Look("/cases/{case_id}/facts/claimant", "proposed"),
    "warranty": Look("/orders/{order_id}/warranty/", "succeeded"),
    "export of credit entries": Look("/exports/credits", person="farah"),
    "another amount": Look("/cases/{case_id}/override", "proposed"),
    "goods in": Look("/goods-in/"),
    "goods in case": Look("/goods-in/{case_id}", "proposed"),
    "photo": Look("/goods-in/{case_id}/photos", "proposed"),
    "orders in question": Look("/orders-in-question/", person="farah"),
    "order to be settled": Look("/orders-in-question/{order_id}", "in question", person="farah"),
    "order whose settlement waits": Look("/orders-in-question/{order_id}", "settlement proposed", person="farah"),
    "order whose settlement is one's own": Look("/orders-in-question/{order_id}", "settlement proposed", person="mara"),
    "policies": Look("/policies/", person="mara"),
    "policy version": Look("/policies/hollowbrook-returns/1", person="farah"),
    "policy drafting": Look("/policies/drafting?of=hollowbrook-returns", person="mara"),
    "policy as JSON": Look("/policies/drafting/document?of=hollowbrook-returns", person="mara"),
    "audit trail": Look("/trail/?kind=decisions", person="farah"),
    "audit trail of nothing": Look("/trail/?case=1", person="mara"),
    "exports": Look("/exports/", person="farah"),
    "export": Look("/exports/trail?kind=money", person="farah"),
    "metrics": Look("/metrics/?days=7", person="mara"),
    "metrics of nothing": Look("/metrics/?days=91&until=2001-01-01", person="farah"),
    "people": Look("/people", person="ada"),
    "sessions": Look("/sessions"),
    "own factors": Look("/factors"),
    "factors of people": Look("/people/factors", person="ada"),
    "no such page": Look("/nowhere", status=404),
    "not allowed": Look("/people", status=403),
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_page_has_no_fault_in_either_theme_or_width(office: Office, shop: Shop, name: str) -> None:
    look = LOOKS[name]
    page = office.at(look.person, color_scheme="light")
    if look.status != 200:
        office.expects(look.status)
    _go(page, shop, look)
    _has_no_fault(page)


def _go(page: Page, shop: Shop, look: Look) -> None:
    ids = _seeded(shop, look.state) if look.state else {}
    answer = page.goto(shop.url(look.path.format(**ids)))
    assert answer is not None
    assert answer.status == look.status
    Desk(page, shop).looks_right()


def _seeded(shop: Shop, state: str) -> dict[str, Any]:
    """Ids of a refund that the seed left in this state; "above": one that waits for a manager."""
    if state in ("in question", "settlement proposed"):
        (order, *_) = shop.rows(
            "SELECT o.order_id FROM orders o WHERE o.blocked AND EXISTS (SELECT 1 FROM order_settlements s"
            " WHERE s.order_id = o.order_id) = %s ORDER BY o.external_ref", state == "settlement proposed",
        )  # fmt: skip
        return order
    route = "manager" if state == "above" else "desk"
    (row, *_) = shop.rows(
        "SELECT i.intent_id, i.case_id, c.order_id FROM intents i JOIN cases c USING (merchant_id, case_id)"
        " WHERE i.state = %s AND c.opened_at < now() - interval '1 hour' AND (i.route = %s OR i.state <> 'proposed')"
        " ORDER BY c.number", "proposed" if state == "above" else state, route,
    )  # fmt: skip
    return row


def _approved(office: Office, shop: Shop) -> Page:
    page = office.at("priya")
    ConfirmPage(page, shop).open(shop.proposed()).approve()
    return page


def _changed_meanwhile(office: Office, shop: Shop) -> Page:
    page, order = office.at("priya"), shop.order()
    number = shop.ask(order, 2)
    shop.receive(number, 1)
    office.expects(409)
    confirm = ConfirmPage(page, shop).open(shop.refund(order, number))
    shop.receive(number, 1)
    confirm.press()
    confirm.says("Not approved: ")
    return page


def _nothing_chosen(office: Office, shop: Shop) -> Page:
    page, order = office.at("priya"), shop.order()
    office.expects(422)
    counter = CounterPage(page, shop).open().find_order(order.ref)
    page.get_by_label("Units of Enamel mug, cream to return").fill("two")
    page.get_by_label("Reason given").select_option(label="Size")
    counter.button("Open this return").click()
    counter.says("write a whole number")
    return page


def _above_what_is_left(office: Office, shop: Shop) -> Page:
    page = office.at("priya")
    office.expects(422)
    form = AllowancePage(page, shop).open(shop.order(), "Goodwill")
    form.check("Enamel mug, cream", "900.00", "Poor service").says("is left of this line")
    return page


def _sheet_of_goodwill(office: Office, shop: Shop) -> Page:
    page = office.at("priya")
    AllowancePage(page, shop).open(shop.order(), "Goodwill").check("Enamel mug, cream", "5.00", "Poor service").says(
        "check before you ask"
    )
    return page


def _customer_to_ask(office: Office, shop: Shop) -> Page:
    page, order = office.at("priya"), shop.order()
    shop.ask(order, 1)
    office.expects(409)
    counter = CounterPage(page, shop).open().find_order(order.ref)
    counter.take_back("Enamel mug, cream", 1, "Size").says("Ask the customer")
    return page


def _already_refunded(office: Office, shop: Shop) -> Page:
    page, order = office.at("priya"), shop.order(items=(("MUG-CREAM", 1),))
    counter = CounterPage(page, shop).open().find_order(order.ref)
    number = shop.ask(order)
    shop.receive(number)
    refund = shop.refund(order, number)
    ConfirmPage(office.at("tobias"), shop).open(refund).approve()
    shop.settled(refund)
    office.expects(409)
    counter.take_back("Enamel mug, cream", 1, "Size").says("Already refunded.", refund.reference, "by Tobias Renk")
    return page


def _refused_at_the_door(office: Office, shop: Shop) -> Page:
    page = office.stranger()
    office.expects(422)
    door = SignInPage(page, shop).open()
    page.get_by_label("E-mail").fill("nobody@hollowbrook.example")
    page.get_by_label("Password").fill("not this one at all")
    door.button("Sign in").click()
    door.says("There is a problem")
    return page


def _snooze_form_open(office: Office, shop: Shop) -> Page:
    page = office.at("priya")
    QueuePage(page, shop).open().button("Snooze…").click()
    return page


def _picked_and_wrong(office: Office, shop: Shop) -> Page:
    page, refund = office.at("priya"), shop.proposed()
    office.expects(422)
    queue = QueuePage(page, shop).open().find(refund.case)
    queue.pick(refund)
    queue.tag_picked("no_good").says("Nothing was changed.")
    return page


def _in_a_colleagues_hand(office: Office, shop: Shop) -> Page:
    page, other, refund = office.at("mara"), office.at("tobias"), shop.proposed()
    CasePage(other, shop).open(refund).button("Claim").click()
    CasePage(other, shop).says("In your hand")
    CasePage(page, shop).open(refund).says("In hand: Tobias Renk")
    return page


MADE: dict[str, Callable[[Office, Shop], Page]] = {
    "decision approved": _approved,
    "confirm changed": _changed_meanwhile,
    "counter with an error": _nothing_chosen,
    "goodwill above what is left": _above_what_is_left,
    "sheet of goodwill": _sheet_of_goodwill,
    "ask the customer": _customer_to_ask,
    "already refunded": _already_refunded,
    "snoozing what is picked": _snooze_form_open,
    "what is wrong with the picked": _picked_and_wrong,
    "in a colleague's hand": _in_a_colleagues_hand,
    "door with an error": _refused_at_the_door,
}


@pytest.mark.parametrize("name", MADE)
def test_a_page_that_came_of_an_act_has_no_fault_either(office: Office, shop: Shop, name: str) -> None:
    page = MADE[name](office, shop)
    Desk(page, shop).looks_right()
    _has_no_fault(page)


def test_axe_finds_the_faults_of_a_bad_page(office: Office) -> None:
    """The control: without it, a broken axe would find every page in order."""
    page = office.stranger()
    page.set_content("<html><body><h3>Refund</h3><img src='data:,'><p style='color:#ccc'>pale</p><input></body></html>")
    found = {fault["id"] for fault in _faults(page)}
    assert {"html-has-lang", "image-alt", "color-contrast", "label", "document-title"} <= found


def test_a_wide_part_is_seen_as_scrolling_sideways(office: Office) -> None:
    page = office.stranger()
    page.set_viewport_size(NARROW)
    page.set_content("<div style='width: 400px'>wide</div>")
    assert _overflow(page) > 0


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("path", ["/queue/?view=late", "/cases/{case_id}", "/refunds/{intent_id}/approval"])
def test_tab_goes_in_reading_order_and_is_seen_at_every_stop(office: Office, shop: Shop, size: Any, path: str) -> None:
    page = office.at("priya", viewport=size)
    _go(page, shop, Look(path, "proposed"))
    stops = 0
    page.evaluate("() => { window.stop = null; }")
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(_STOP)
        if found is None:
            break
        assert found["later"], f"{found['what']} comes before the stop before it"
        assert found["ringed"], f"no ring around {found['what']}"
        assert found["seen"], f"{found['what']} is covered or out of sight"
        stops += 1
    assert stops >= 3


def _has_no_fault(page: Page) -> None:
    """Light and wide, then dark and narrow: both themes, both layouts."""
    looks: tuple[tuple[Literal["light", "dark"], ViewportSize], ...] = (("light", WIDE), ("dark", NARROW))
    for scheme, size in looks:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        bad = [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in _faults(page)]
        assert not bad, (scheme, size, bad)
        assert not page.evaluate(_CUT_OFF), "something runs out of its card and cannot be reached"
    assert _overflow(page) <= 0, "the page scrolls sideways at 320 px"


def _faults(page: Page) -> list[dict[str, Any]]:
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return list(found["violations"])


def _overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth"))


# Headings of the cards whose content is wider than they are.
_CUT_OFF = """() => [...document.querySelectorAll(".card, .receipt, .sheet, .stop, .note")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText.slice(0, 60))"""

# What has focus now: is it later in the page than the stop before, ringed, and itself what one sees where it stands?
_STOP = """() => {
    const at = document.activeElement;
    if (!at || at === document.body) return null;
    const before = window.stop;
    window.stop = at;
    const box = at.getBoundingClientRect();
    const x = Math.min(Math.max(box.x + box.width / 2, 0), innerWidth - 1), y = box.y + Math.min(box.height / 2, 12);
    const top = document.elementFromPoint(x, y);
    const ringed = [undefined, "::after"].some((part) => getComputedStyle(at, part).outlineStyle !== "none");
    return {
        what: at.outerHTML.slice(0, 120),
        later: !before || Boolean(before.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_FOLLOWING),
        ringed,
        seen: Boolean(top) && (at.contains(top) || top.contains(at) && top !== document.body && top.tagName !== "MAIN"
            || at.matches("a") && at.closest("tr")?.contains(top)),
    };
}"""
