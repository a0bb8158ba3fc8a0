"""Passkeys in a real browser with a virtual authenticator: added, approving exactly one refund, verified by the real worker,
removed; and the code of an app where scripts are off."""

import re
import time
from collections.abc import Iterator

import pyotp
import pytest
from playwright.sync_api import CDPSession, Page, expect

from demo.people import PASSWORD
from e2e.office import Office
from e2e.pages import ConfirmPage, DecisionPage, FactorsPage, SignInPage
from e2e.shop import LENA, NOTHING, ONE_OF_EACH, Shop, until

WITH_KEY = re.compile("^Approve refund of .* with your passkey$")


@pytest.fixture
def lena(office: Office, shop: Shop) -> Iterator[Page]:
    """Lena at a browser with a built-in authenticator; what she added is gone afterwards."""
    page = office.stranger()
    SignInPage(page, shop).open().sign_in("lena", PASSWORD)
    yield page
    for table in ("passkeys", "totp_factors", "recovery_codes"):
        because = ", ended_because = 'reset'" if table == "passkeys" else ""
        shop.change(
            f"UPDATE {table} f SET ended_at = now(){because} FROM staff s"  # noqa: S608
            " WHERE s.staff_id = f.staff_id AND f.ended_at IS NULL AND s.email = %s", LENA.email,
        )  # fmt: skip


def authenticator(page: Page) -> CDPSession:
    """Gives the page's browser a key that verifies its person."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    session.send("WebAuthn.addVirtualAuthenticator", {"options": {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": True, "automaticPresenceSimulation": True,
    }})  # fmt: skip
    return session


def adds_key(page: Page, shop: Shop, name: str = "laptop") -> FactorsPage:
    authenticator(page)
    factors = FactorsPage(page, shop).open().show_password(PASSWORD).add_key(name)
    shop.a_day_passes_for_the_factors_of(LENA.email)
    return factors


def signs(page: Page) -> None:
    page.get_by_role("button", name=WITH_KEY).click()


def test_a_passkey_approves_one_refund_and_the_worker_pays_it(lena: Page, shop: Shop) -> None:
    adds_key(lena, shop)
    refund = shop.proposed()
    with shop.asking(passkey_from_minor=1):
        confirm = ConfirmPage(lena, shop).open(refund).says("your passkey, over exactly this")
        confirm.note.fill("rang her")
        signs(lena)
        DecisionPage(lena, shop).is_shown().is_headed("Refund approved").says("rang her")
        shop.settled(refund)
    (kept,) = shop.rows(
        "SELECT a.strength, s.counter_after > s.counter_before AS counted FROM approvals a JOIN approval_assertions s"
        " USING (merchant_id, approval_id) WHERE a.intent_id = %s", refund.intent_id,
    )  # fmt: skip
    assert kept == {"strength": "passkey", "counted": True}
    assert shop.counts(refund.order) == ONE_OF_EACH


def test_a_double_click_signs_once_and_pays_once(lena: Page, shop: Shop) -> None:
    adds_key(lena, shop)
    refund = shop.proposed()
    with shop.asking(passkey_from_minor=1):
        ConfirmPage(lena, shop).open(refund)
        lena.get_by_role("button", name=WITH_KEY).dblclick()
        DecisionPage(lena, shop).is_shown().is_headed("Refund approved")
        shop.settled(refund)
    assert shop.counts(refund.order) == ONE_OF_EACH


def test_a_key_that_is_not_used_says_so_and_the_page_stays(lena: Page, shop: Shop) -> None:
    adds_key(lena, shop)
    refund = shop.proposed()
    with shop.asking(passkey_from_minor=1):
        confirm = ConfirmPage(lena, shop).open(refund)
        confirm.note.fill("rang her")
        lena.evaluate(
            "() => { navigator.credentials.get = () => Promise.reject(new DOMException('no', 'NotAllowedError')); }"
        )
        signs(lena)
        confirm.says("The passkey was not used. Try again when you are ready.")
        expect(confirm.note).to_have_value("rang her")
        expect(lena.get_by_role("button", name=WITH_KEY)).to_be_enabled()
    assert shop.counts(refund.order) == NOTHING


def test_a_removed_key_sends_nothing(lena: Page, shop: Shop) -> None:
    adds_key(lena, shop)
    refund = shop.proposed()
    with shop.asking(passkey_from_minor=1):
        ConfirmPage(lena, shop).open(refund)
        signs(lena)
        DecisionPage(lena, shop).is_shown().is_headed("Refund approved")
        FactorsPage(lena, shop).open().show_key().remove_key("laptop").says("1 refund it had approved")
        shop.let_go(refund)
        until(lambda: shop.state(refund) == "held", "it is not held")
        DecisionPage(lena, shop).open(refund).says("does not hold any more")
    assert shop.counts(refund.order).refunds == 0


def test_without_a_script_a_passkey_is_said_to_need_one(office: Office, lena: Page, shop: Shop) -> None:
    adds_key(lena, shop)
    refund = shop.proposed()
    page = office.stranger(java_script_enabled=False)
    page.context.add_cookies(lena.context.cookies())  # type: ignore[arg-type]
    with shop.asking(passkey_from_minor=1):
        confirm = ConfirmPage(page, shop).open(refund).says("A passkey needs JavaScript", "There is no weaker way.")
        expect(page.get_by_label("Code from your app")).to_have_count(0)
        office.expects(422)
        signs(page)
        confirm.says("takes your passkey, and a passkey needs JavaScript", "Nothing was approved.")
    assert shop.counts(refund.order) == NOTHING


def test_the_code_of_an_app_approves_without_a_script(office: Office, shop: Shop, lena: Page) -> None:
    lena.goto("about:blank")  # its session is over once the app is added
    page = office.stranger(java_script_enabled=False)
    SignInPage(page, shop).open().sign_in("lena", PASSWORD)
    factors = FactorsPage(page, shop).open().show_password(PASSWORD)
    factors.button("Add an app").click()
    secret = page.locator("dd code").inner_text().replace(" ", "")
    page.get_by_label("Code the app shows now").fill(pyotp.TOTP(secret).now())
    factors.button("Use this app").click()
    expect(page.get_by_role("heading", name="Your recovery codes", level=1)).to_be_visible()
    assert page.locator("ol code").count() == 10
    shop.a_day_passes_for_the_factors_of(LENA.email)
    # The next half-minute, without waiting for it.
    shop.change("UPDATE totp_factors SET last_step = last_step - 10 WHERE ended_at IS NULL")
    refund = shop.proposed()
    with shop.asking(factor_from_minor=1):
        confirm = ConfirmPage(page, shop).open(refund)
        page.get_by_label("Code from your app").fill(pyotp.TOTP(secret).at(time.time()))
        confirm.approve().is_headed("Refund approved")
        shop.settled(refund)
    assert shop.counts(refund.order) == ONE_OF_EACH
