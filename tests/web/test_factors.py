"""A person's second factors and what they approve with them: the app, recovery codes, passkeys, and each way it is refused."""

import base64
import json
import re
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pyotp
import pytest
from flask import Flask
from webauthn.helpers import base64url_to_bytes

from console.installation import installed
from ledger.seals import Sealer
from tests import lives
from tests.authenticator import Authenticator, grow_old
from tests.orders import Line
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import Desk
from tests.web.pages import Browser, Page
from tests.world import PASSWORD, World, add_order, build_world, usual_policy

ROUTES = {"manager_from_minor": {"GBP": 25000}, "factor_from_minor": {"GBP": 4000}, "passkey_from_minor": {"GBP": 7000}}


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=usual_policy("harbour-usual") | {"routes": ROUTES})


@pytest.fixture
def sealer(app: Flask) -> Sealer:
    with app.app_context():
        return installed().sealer


@pytest.fixture
def priya(desk: Desk) -> Browser:
    return desk.at(desk.world.priya)


def factors(desk: Desk, priya: Browser) -> Page:
    return priya.get(desk.url("/factors"))


def shows_password(desk: Desk, priya: Browser) -> Page:
    return priya.submit(factors(desk, priya).form("/factors/password"), password=PASSWORD)


def code_of(secret: str, steps: int = 0) -> str:
    return pyotp.TOTP(secret).generate_otp(int(time.time()) // 30 + steps)


def forget_steps(desk: Desk) -> None:
    """The codes of the last minutes count as not taken yet: the next one comes without waiting half a minute."""
    as_administrator(desk.stack, "UPDATE totp_factors SET last_step = last_step - 10")


def adds_app(desk: Desk, priya: Browser) -> tuple[str, Page]:
    """Priya adds an app; its secret, and the page with her recovery codes."""
    page = priya.submit(shows_password(desk, priya).form("/factors/app"))
    secret = re.sub(r"\s", "", re.findall(r"<dd><code>([A-Z2-7 ]+)</code>", page.html)[0])
    codes = priya.submit(page.form("/app/first-code"), status=200, code=code_of(secret))
    forget_steps(desk)
    return secret, codes


@pytest.fixture
def secret(desk: Desk, priya: Browser, sealer: Sealer) -> str:
    """The secret of Priya's app, which she has had for two days."""
    made, _ = adds_app(desk, priya)
    grow_old(desk.stack, desk.world.priya.staff_id, sealer)
    return made


def fetched(browser: Browser, page: Page, action: str, address: str, **fields: str) -> dict[str, Any]:
    """What static/passkeys.js fetches before it asks the browser for a key."""
    form = page.form(action)
    carried = {name: form.values[name] for name in ("csrf_token", "operation", "fingerprint") if name in form.values}
    answer = browser.ask("POST", address, data=carried | fields)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = json.loads(answer.text)
    return found


def challenge_in(given: dict[str, Any]) -> bytes:
    return base64url_to_bytes(given["publicKey"]["challenge"])


def adds_key(desk: Desk, priya: Browser, name: str = "ring") -> Authenticator:
    """Priya, who has just shown who she is, adds a passkey."""
    key, page = Authenticator(), factors(desk, priya)
    given = fetched(priya, page, "/factors/keys", desk.url("/factors/keys/challenge"))
    assert given["publicKey"]["authenticatorSelection"]["userVerification"] == "required"
    page = priya.submit(
        page.form("/factors/keys"), name=name, nonce=given["nonce"], answer=key.makes(challenge_in(given))
    )
    assert "Your passkey is added" in page.text
    return key


@pytest.fixture
def key(desk: Desk, priya: Browser, sealer: Sealer) -> Authenticator:
    """A passkey that Priya has had for two days."""
    shows_password(desk, priya)
    made = adds_key(desk, priya)
    grow_old(desk.stack, desk.world.priya.staff_id, sealer)
    return made


def proposed(desk: Desk, count: int) -> UUID:
    intent_id: UUID = lives.propose(desk.stack, desk.world, (("TEE", count),))["intent_id"]
    return intent_id


def approvals(desk: Desk) -> list[tuple[str, str]]:
    found = as_administrator(
        desk.stack, "SELECT a.strength, i.state FROM approvals a JOIN intents i USING (merchant_id, intent_id)"
    )  # fmt: skip
    return [(row["strength"], row["state"]) for row in found]


def test_a_first_app_takes_the_password_and_comes_with_ten_codes_shown_once(desk: Desk, priya: Browser) -> None:
    page = factors(desk, priya)
    assert "You have no authenticator app" in page.text
    assert not [form for form in page.forms if form.action.endswith("/factors/app")]
    secret, codes = adds_app(desk, priya)
    shown = re.findall(r"<li><code>([A-Z2-7-]+)</code>", codes.html)
    assert len(set(shown)) == 10
    assert all(len(base64.b32decode(code.replace("-", "") + "======")) == 16 for code in shown)
    page = factors(desk, priya)
    assert "10 of 10 left" in page.text
    assert not any(code in page.html for code in shown)
    kept = as_administrator(desk.stack, "SELECT row_to_json(r)::text AS r FROM recovery_codes r")
    assert len(kept) == 10
    stored = " ".join(row["r"] for row in kept)
    assert not any(code.replace("-", "") in stored for code in shown)
    seeds = as_administrator(desk.stack, "SELECT sealed_seed FROM totp_factors")
    assert base64.b32decode(secret) not in bytes(seeds[0]["sealed_seed"])


def test_the_qr_code_is_drawn_without_style_script_or_foreign_image(desk: Desk, priya: Browser) -> None:
    page = priya.submit(shows_password(desk, priya).form("/factors/app"))
    drawn = re.findall(r'<svg class="qr".*?</svg>', page.html)[0]
    assert 'role="img"' in drawn
    assert "style" not in drawn
    assert "<image" not in drawn
    assert len(re.findall(r"M\d+ \d+h1v1h-1z", drawn)) > 200


def test_a_wrong_first_code_says_so_and_the_app_waits(desk: Desk, priya: Browser) -> None:
    page = priya.submit(shows_password(desk, priya).form("/factors/app"))
    page = priya.submit(page.form("/app/first-code"), status=422, code="000000")
    assert page.title.startswith("Error:")
    assert "not the code this app shows now" in page.text
    assert as_administrator(desk.stack, "SELECT confirmed_at FROM totp_factors")[0]["confirmed_at"] is None


def test_a_seed_waits_in_the_session_that_made_it_and_in_no_other(
    desk: Desk, priya: Browser, open_browser: Callable[..., Browser]
) -> None:
    """A second session of hers, or of whoever has her password, neither sees the seed nor takes the app into use."""
    mine = priya.submit(shows_password(desk, priya).form("/factors/app"))
    secret = re.sub(r"\s", "", re.findall(r"<dd><code>([A-Z2-7 ]+)</code>", mine.html)[0])
    other = open_browser()
    other.sign_in(desk.world.priya)
    assert other.ask("GET", desk.url("/factors/app")).status_code == 303
    token = other.get(desk.url("/factors")).form("/factors/password").values
    fields = {name: token[name] for name in ("csrf_token", "operation")}
    answer = other.ask("POST", desk.url("/factors/app/first-code"), data=fields | {"code": code_of(secret)})
    assert answer.status_code == 303
    assert as_administrator(desk.stack, "SELECT confirmed_at FROM totp_factors") == [{"confirmed_at": None}]
    assert "Your recovery codes" in priya.submit(mine.form("/app/first-code"), status=200, code=code_of(secret)).text


def test_the_first_code_is_guessed_five_times_and_no_more(desk: Desk, priya: Browser) -> None:
    page = priya.submit(shows_password(desk, priya).form("/factors/app"))
    secret = re.sub(r"\s", "", re.findall(r"<dd><code>([A-Z2-7 ]+)</code>", page.html)[0])
    for _ in range(5):
        page = priya.submit(page.form("/app/first-code"), status=422, code="000000")
    page = priya.submit(page.form("/app/first-code"), status=422, code=code_of(secret))
    assert "Five wrong tries" in page.text
    assert as_administrator(desk.stack, "SELECT confirmed_at FROM totp_factors") == [{"confirmed_at": None}]


def test_a_wrong_password_shows_nothing_and_the_sixth_try_waits(desk: Desk, priya: Browser) -> None:
    for _ in range(5):
        page = priya.submit(factors(desk, priya).form("/factors/password"), status=422, password="not mine at all")
        assert "That is not right" in page.text
    page = priya.submit(factors(desk, priya).form("/factors/password"), status=422, password=PASSWORD)
    assert "Five wrong tries" in page.text
    assert desk.count_of("factor_acts") == 0


def test_the_password_alone_adds_nothing_beside_a_factor(desk: Desk, priya: Browser, secret: str) -> None:
    """S7: a stolen session with the password cannot add a key of its own."""
    page = factors(desk, priya)
    assert not [form for form in page.forms if form.action.endswith("/factors/password")]
    token = page.form("/factors/code").values
    priya.ask("POST", desk.url("/factors/password"), data={**token, "password": PASSWORD} | {"code": ""})
    answer = priya.ask(
        "POST", desk.url("/factors/keys/challenge"), data={n: token[n] for n in ("csrf_token", "operation")}
    )
    assert answer.status_code == 409
    assert desk.count_of("passkeys") == 0


def test_each_change_spends_what_was_shown(desk: Desk, priya: Browser, secret: str) -> None:
    page = priya.submit(factors(desk, priya).form("/factors/code"), code=code_of(secret))
    assert "a code of your app, counts until" in page.text
    adds_key(desk, priya)
    page = factors(desk, priya)
    assert "show first that it is you" in page.text
    assert not [form for form in page.forms if "/removal" in form.action]


def test_a_new_factor_signs_the_person_out_elsewhere(
    desk: Desk, priya: Browser, open_browser: Callable[..., Browser]
) -> None:
    other = open_browser()
    other.sign_in(desk.world.priya)
    shows_password(desk, priya)
    adds_key(desk, priya)
    assert other.ask("GET", desk.url("/factors")).status_code == 303
    assert priya.ask("GET", desk.url("/factors")).status_code == 200


def test_a_code_approves_what_takes_one_and_is_taken_once(desk: Desk, priya: Browser, secret: str) -> None:
    one = desk.confirm(desk.world.priya, proposed(desk, 2))
    assert "and a code of your app" in priya.shown.text
    code = code_of(secret)
    receipt = priya.submit(one, code=code)
    assert "Refund approved" in receipt.text
    again = priya.submit(one, code=code)
    assert "This refund was already approved, by you" in again.text
    order = add_order(desk.stack, desk.world, "A-2", lines=(Line("TEE", 3, 7470),))
    other = lives.propose(desk.stack, desk.world, (("TEE", 2),), order=order, reference="chat-9")
    page = priya.submit(desk.confirm(desk.world.priya, other["intent_id"]), status=422, code=code)
    assert "was used before" in page.text
    assert approvals(desk) == [("factor", "approved")]


@pytest.mark.parametrize("code", ["", "000000", "12 34"])
def test_without_the_right_code_nothing_is_approved_and_the_note_is_kept(
    desk: Desk, priya: Browser, secret: str, code: str
) -> None:
    form = desk.confirm(desk.world.priya, proposed(desk, 2))
    page = priya.submit(form, status=422, code=code, note="rang her")
    assert page.title.startswith("Error:")
    assert "Nothing was approved" in page.text
    assert "rang her" in page.html
    assert approvals(desk) == []


def test_codes_are_guessed_five_times_and_no_more(desk: Desk, priya: Browser, secret: str) -> None:
    intent_id = proposed(desk, 2)
    for _ in range(5):
        priya.submit(desk.confirm(desk.world.priya, intent_id), status=422, code="000000")
    page = priya.submit(desk.confirm(desk.world.priya, intent_id), status=422, code=code_of(secret))
    assert "Wait a quarter of an hour" in page.text
    assert approvals(desk) == []


def test_whoever_has_nothing_is_told_where_to_add_it(desk: Desk, priya: Browser) -> None:
    for count, what in ((2, "a code of your authenticator app, or a passkey"), (3, "a passkey")):
        order = add_order(desk.stack, desk.world, f"A-{count}", lines=(Line("TEE", 3, 7470),))
        intent = lives.propose(desk.stack, desk.world, (("TEE", count),), order=order, reference=f"chat-{count}")
        page = priya.get(f"{desk.refund(intent['intent_id'])}/approval", status=403)
        assert f"This amount takes {what}, and you have none" in page.text
        assert page.forms == []


def signed(
    desk: Desk, priya: Browser, key: Authenticator, intent_id: UUID, **forged: Any
) -> tuple[Any, dict[str, Any]]:
    """The confirm sheet's form and what the key answers for it."""
    form = desk.confirm(desk.world.priya, intent_id)
    given = fetched(priya, priya.shown, "/approval", f"{desk.refund(intent_id)}/challenge")
    return form, {"nonce": given["nonce"], "answer": key.answers(challenge_in(given), **forged)}


def test_a_passkey_approves_and_a_second_press_lands_on_the_first(
    desk: Desk, priya: Browser, key: Authenticator
) -> None:
    form, answer = signed(desk, priya, key, proposed(desk, 3))
    assert "Approve refund of 74.70 GBP to Visa ending 4242 with your passkey" in priya.shown.text
    assert "A passkey needs JavaScript" in priya.shown.text
    assert "Refund approved" in priya.submit(form, **answer).text
    assert "already approved, by you" in priya.submit(form, **answer).text
    assert approvals(desk) == [("passkey", "approved")]


def test_a_passkey_serves_where_a_code_would_do(desk: Desk, priya: Browser, key: Authenticator) -> None:
    form, answer = signed(desk, priya, key, proposed(desk, 2))
    priya.submit(form, **answer)
    assert approvals(desk) == [("passkey", "approved")]


def test_without_javascript_a_passkey_sheet_says_so_and_offers_nothing_weaker(
    desk: Desk, priya: Browser, key: Authenticator
) -> None:
    page = priya.submit(desk.confirm(desk.world.priya, proposed(desk, 3)), status=422)
    assert "a passkey needs JavaScript" in page.text
    assert "code" not in page.form("/approval").values
    assert approvals(desk) == []


@pytest.mark.parametrize(
    "forged", [{"origin": "https://attacker.example"}, {"rp_id": "attacker.example"}, {"flags": 1}]
)
def test_what_was_signed_elsewhere_approves_nothing_and_the_nonce_is_spent(
    desk: Desk, priya: Browser, key: Authenticator, forged: dict[str, Any]
) -> None:
    """Attack story 2: a proxied page gets a signature for its own address."""
    form, answer = signed(desk, priya, key, proposed(desk, 3), **forged)
    page = priya.submit(form, status=422, **answer)
    assert "What the passkey signed is not this" in page.text
    spent = as_administrator(desk.stack, "SELECT spent_at IS NOT NULL AS spent FROM approval_challenges")
    assert spent == [{"spent": True}]
    assert approvals(desk) == []


def test_a_counter_that_went_back_ends_the_key_holds_what_waits_and_alarms(
    desk: Desk, priya: Browser, key: Authenticator
) -> None:
    first = proposed(desk, 3)
    form, answer = signed(desk, priya, key, first)
    priya.submit(form, **answer)
    order = add_order(desk.stack, desk.world, "A-3", lines=(Line("TEE", 3, 7470),))
    second = lives.propose(desk.stack, desk.world, (("TEE", 3),), order=order, reference="chat-9")["intent_id"]
    key.counter = 0
    form, answer = signed(desk, priya, key, second)
    page = priya.submit(form, status=422, **answer)
    assert "counter went back: there may be a copy of it" in page.text
    ended = as_administrator(desk.stack, "SELECT ended_because FROM passkeys")
    assert ended == [{"ended_because": "counter"}]
    held = as_administrator(desk.stack, "SELECT state, state_reason FROM intents WHERE intent_id = %s", first)
    assert held == [{"state": "held", "state_reason": "proof"}]
    assert [row["kind"] for row in as_administrator(desk.stack, "SELECT kind FROM alarms")] == ["passkey_counter"]


def test_a_counter_that_went_back_while_somebody_shows_that_they_are_there_ends_the_key_too(
    desk: Desk, priya: Browser, key: Authenticator
) -> None:
    first = proposed(desk, 3)
    form, answer = signed(desk, priya, key, first)
    priya.submit(form, **answer)
    key.counter = 0
    page = factors(desk, priya)
    given = fetched(priya, page, "/keys/showing", desk.url("/factors/keys/showing/challenge"))
    page = priya.submit(page.form("/keys/showing"), nonce=given["nonce"], answer=key.answers(challenge_in(given)))
    assert "counter went back: there may be a copy of it" in page.text
    assert as_administrator(desk.stack, "SELECT ended_because FROM passkeys") == [{"ended_because": "counter"}]
    assert approvals(desk) == [("passkey", "held")]
    assert [row["kind"] for row in as_administrator(desk.stack, "SELECT kind FROM alarms")] == ["passkey_counter"]


def test_removing_a_key_holds_what_it_approved_and_was_not_sent(desk: Desk, priya: Browser, key: Authenticator) -> None:
    form, answer = signed(desk, priya, key, proposed(desk, 3))
    priya.submit(form, **answer)
    page = factors(desk, priya)
    given = fetched(priya, page, "/keys/showing", desk.url("/factors/keys/showing/challenge"))
    page = priya.submit(page.form("/keys/showing"), nonce=given["nonce"], answer=key.answers(challenge_in(given)))
    assert "your passkey, counts until" in page.text
    page = priya.submit(page.form("/removal"))
    assert "ring is removed" in page.text
    assert "1 refund it had approved" in page.text
    assert approvals(desk) == [("passkey", "held")]


def test_a_recovery_code_with_the_password_adds_a_key_once_and_approves_nothing(desk: Desk, priya: Browser) -> None:
    _, codes = adds_app(desk, priya)
    code = re.findall(r"<li><code>([A-Z2-7-]+)</code>", codes.html)[0]
    page = priya.submit(
        factors(desk, priya).form("/factors/recovery"), status=422, recovery=code, password="another one"
    )
    assert "That is not right" in page.text
    page = priya.submit(factors(desk, priya).form("/factors/recovery"), recovery=code.lower(), password=PASSWORD)
    assert "a recovery code, counts until" in page.text
    sheet = priya.get(f"{desk.refund(proposed(desk, 2))}/approval", status=403)
    assert "a recovery code less than a day ago" in sheet.text
    adds_key(desk, priya)
    page = priya.submit(factors(desk, priya).form("/factors/recovery"), status=422, recovery=code, password=PASSWORD)
    assert "That is not right" in page.text
    assert "9 of 10 left" in page.text


def test_a_challenge_for_a_key_is_only_of_whoever_may_approve(desk: Desk) -> None:
    intent_id = proposed(desk, 3)
    rita = desk.at(desk.world.rita)
    token = rita.get(desk.url("/sessions")).form("end-all").values
    answer = rita.ask("POST", f"{desk.refund(intent_id)}/challenge", data={**token, "fingerprint": "0" * 64})
    assert answer.status_code == 403
    assert desk.count_of("approval_challenges") == 0


def test_a_seed_copied_to_another_person_does_not_open(desk: Desk, priya: Browser, secret: str) -> None:
    tobias = desk.at(desk.world.tobias)
    as_administrator(desk.stack, "UPDATE totp_factors SET staff_id = %s", desk.world.tobias.staff_id)
    page = tobias.get(desk.url("/factors"))
    answer = tobias.ask(
        "POST", desk.url("/factors/code"), data=page.form("/factors/code").values | {"code": code_of(secret)}
    )
    assert answer.status_code == 409
    assert "cannot be read any more" in answer.text
