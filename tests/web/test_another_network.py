"""S13: money moves from the network the person signed in on; from another one they sign in again first. Reading goes on."""

from typing import Any

import pytest

from app import create_app
from console.networks import same_network
from tests import lives
from tests.web.conftest import ORIGIN, web_settings
from tests.web.desk import Desk
from tests.web.pages import Browser, Form
from tests.world import PASSWORD

SAME, OTHER = "203.0.113.200", "198.51.100.9"


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    return shared_desk


def refused(browser: Browser, form: Form, **values: str) -> Any:
    """Sends the form: the answer is the way to sign in, in a browser and for htmx."""
    by_htmx = browser.ask(
        "POST", form.action, data=form.values | values,
        headers={"HX-Request": "true", "HX-Current-URL": f"{ORIGIN}{browser.path}"},
    )  # fmt: skip
    assert (by_htmx.status_code, by_htmx.text) == (401, "")
    assert by_htmx.headers["HX-Redirect"].startswith("/sign-in")
    answer = browser.send(form, **values)
    assert answer.status_code == 303
    assert answer.headers["Location"] == by_htmx.headers["HX-Redirect"]
    return answer


def test_priya_approves_from_the_next_desk_and_signs_in_again_from_another_network(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    priya = desk.at(desk.world.priya)
    sheet, priya.address = priya.path, OTHER
    answer = refused(priya, form, note="Seen the tags.")
    assert (desk.state(intent["intent_id"]), desk.count("approvals")) == ("proposed", 0)
    assert "Approve refund" in priya.get(sheet).text
    door = priya.get(answer.headers["Location"])
    assert "Sign in again before you act on money." in door.text
    assert "Nothing was done. Your note is kept." in door.text
    page = priya.submit(door.form("/sign-in"), email=desk.world.priya.email, password=PASSWORD)
    assert priya.path == sheet
    receipt = priya.submit(page.form("/approval"), note="Seen the tags.")
    assert "Refund approved" in receipt.text
    assert desk.state(intent["intent_id"]) == "approved"


def test_the_note_that_was_typed_stands_in_the_sheet_after_signing_in_again(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    priya = desk.at(desk.world.priya)
    priya.address = OTHER
    door = priya.get(priya.send(form, note="Seen the tags.").headers["Location"])
    page = priya.submit(door.form("/sign-in"), email=desk.world.priya.email, password=PASSWORD)
    assert "Seen the tags." in page.html


def test_within_the_network_nobody_is_asked_again(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    desk.at(desk.world.priya).address = SAME
    assert "Refund approved" in desk.at(desk.world.priya).submit(form).text


def test_no_other_act_on_money_goes_through_from_another_network(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.tobias, intent["intent_id"])
    priya, jonas, mara = (desk.at(one) for one in (desk.world.priya, desk.world.jonas, desk.world.mara))
    cancel = priya.get(desk.refund(intent["intent_id"])).form("/withdrawal")
    asked = jonas.get(desk.url("/cap/")).form("/cap/raises")
    jonas.submit(asked, currency="GBP", limit="90000.00", reason="A recall")
    grant = mara.get(desk.url("/cap/")).form("/grant")
    refusal = mara.shown.form("/refusal")
    waiting = lives.open_case(desk.stack, desk.world, (("LAMP", 1),), reference="chat-2").case_id
    reject = priya.get(f"{desk.case(waiting)}/rejection").form("/rejection")
    priya.address = jonas.address = mara.address = OTHER
    refused(priya, cancel)
    refused(priya, reject, reason="other")
    refused(jonas, asked, currency="GBP", limit="95000.00", reason="Another recall")
    refused(mara, grant)
    refused(mara, refusal)
    assert desk.state(intent["intent_id"]) == "approved"
    assert desk.rows("SELECT granted FROM cap_raises WHERE merchant_id = :m") == [{"granted": None}]
    stage = "SELECT stage FROM cases WHERE merchant_id = :m AND case_id = :c"
    assert desk.rows(stage, c=waiting) == [{"stage": "waiting_goods"}]


def test_what_moves_no_money_goes_on_from_another_network(desk: Desk) -> None:
    case = lives.open_case(desk.stack, desk.world).case_id
    priya = desk.at(desk.world.priya)
    priya.address = OTHER
    page = priya.submit(priya.get(desk.case(case)).form("/notes"), note="On the train.")
    assert "Note added." in page.text
    rita = desk.at(desk.world.rita)
    rita.address = OTHER
    assert rita.ask("GET", desk.case(case)).status_code == 200


def test_a_header_that_anyone_can_send_neither_hides_a_network_nor_makes_one(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    priya = desk.at(desk.world.priya)
    lie = {"X-Forwarded-For": "203.0.113.7", "Forwarded": "for=203.0.113.7", "X-Real-IP": "203.0.113.7"}
    priya.address = OTHER
    assert priya.ask("POST", form.action, data=form.values, headers=lie).status_code == 303
    assert desk.state(intent["intent_id"]) == "proposed"
    priya.address = SAME
    lie = {"X-Forwarded-For": OTHER}
    answer = priya.ask("POST", form.action, data=form.values, headers=lie)
    assert (answer.status_code, desk.state(intent["intent_id"])) == (303, "approved")


@pytest.mark.usefixtures("quick_hashing")
def test_behind_a_proxy_the_address_is_what_the_proxy_saw(desk: Desk) -> None:
    app = create_app(web_settings(desk.stack, trusted_hops=1))
    intent = lives.propose(desk.stack, desk.world)
    behind = Browser(app, ORIGIN, address="10.0.0.1")
    behind.sign_in(desk.world.priya)  # without a forwarded address: that of the proxy
    form = behind.get(f"{desk.refund(intent['intent_id'])}/approval").form("/approval")
    seen = {"X-Forwarded-For": f"10.0.0.1, {OTHER}", "X-Forwarded-Proto": "https"}
    assert behind.ask("POST", form.action, data=form.values, headers=seen).headers["Location"].startswith("/sign-in")
    assert desk.state(intent["intent_id"]) == "proposed"
    app.extensions["onceback"].engine.dispose()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("203.0.113.7", "203.0.113.255", True), ("203.0.113.7", "203.0.114.7", False), ("203.0.113.7", "", False),
        ("::ffff:203.0.113.7", "203.0.113.9", True), ("2001:db8:1:2::3", "2001:db8:1:ffff::9", True),
        ("2001:db8:1::3", "2001:db8:2::3", False), ("2001:db8:1::3", "203.0.113.7", False), ("::", "0.0.0.0", False),  # noqa: S104
        ("", "", True), ("unix:", "unix:", True), ("unix:", "unix:2", False),
    ],
)  # fmt: skip
def test_a_network_is_a_24_of_ipv4_and_a_48_of_ipv6(one: str, other: str, same: bool) -> None:
    assert same_network(one, other) is same
    assert same_network(other, one) is same
