"""S1-S3: passwords, throttles and the one answer for every refusal."""

import re
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from argon2 import PasswordHasher

from console import passwords
from ledger.database import run, scalar, transaction
from tests.stack import Stack
from tests.web.pages import Browser
from tests.world import PASSWORD, World

Opened = Callable[..., Browser]
WRONG = "never the right sentence at all"
REFUSED = "E-mail, password or code is not right, or this account cannot sign in now."


def try_in(browser: Browser, email: str, password: str) -> int:
    """One try through the form; its first answer's status."""
    form = browser.get("/sign-in").form("/sign-in")
    return browser.send(form, email=email, password=password).status_code


def test_priya_signs_in_and_sees_where_she_is_signed_in(open_browser: Opened, world: World) -> None:
    priya = open_browser()
    priya.sign_in(world.priya)
    page = priya.get(f"/{world.slug}/sessions")
    assert "Firefox on Linux this one" in page.text
    assert "203.0.113.0/24" in page.text


def test_an_address_in_capitals_is_the_same_person(open_browser: Opened, world: World) -> None:
    assert try_in(open_browser(), f" {world.priya.email.upper()} ", PASSWORD) == 303


def test_empty_fields_are_named_and_not_counted(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = open_browser()
    page = priya.submit(priya.get("/sign-in").form("/sign-in"), 422, email="", password="")
    assert "Enter your e-mail address." in page.text
    assert "Enter your password." in page.text
    with transaction(stack.owner) as db:
        assert scalar(db, "SELECT count(*) FROM sign_in_misses") == 0


@pytest.mark.parametrize(
    ("password", "taken"),
    [
        ("the kettle sang twice before noon", True),
        ("das Pferd frisst keinen Gurkensalat", True),
        ("  spaces at both ends are kept  ", True),
        ("пароль из семи разных слов тут", True),
        ("🦀 crab at the ninth wave of sea", True),
        ("x7Kq9vB2mNpL4sTw", True),
        ("short but good", False),
        ("x" * 129, False),
        ("aaaaaaaaaaaaaaaaaaaa", False),
        ("abcabcabcabcabcabcabc", False),
        ("abcdefghijklmnopqrst", False),
        ("1234567890123456", False),
        ("qwertyuiopasdfghjkl", False),
        ("Correct Horse Battery Staple", False),
        ("Password-Password-1", False),
        ("priya.raman.2026!!", False),
        ("Harbour & Co refund", False),
        ("onceback-onceback-7", False),
        ("priya@harbour.example", False),
    ],
)
def test_a_password_is_long_and_ones_own_and_nothing_else_is_asked(password: str, taken: bool) -> None:
    words = ("Priya Raman", "priya@harbour.example", "harbour", "Harbour & Co")
    assert (passwords.password_fault(password, words) == "") is taken


def test_a_password_counts_as_it_was_typed(open_browser: Opened, world: World, stack: Stack) -> None:
    typed = "  spaces at both ends are kept  "
    with transaction(stack.owner) as db:
        run(
            db, "UPDATE staff SET password_hash = :h WHERE staff_id = :s",
            h=PasswordHasher(1, 8, 1).hash(typed), s=world.priya.staff_id,
        )  # fmt: skip
    assert try_in(open_browser(), world.priya.email, typed.strip()) == 422
    assert try_in(open_browser(), world.priya.email, typed) == 303


def test_a_hash_of_other_parameters_is_made_again_at_sign_in(
    open_browser: Opened, world: World, stack: Stack, real_hashing: None
) -> None:
    def parameters() -> str:
        with transaction(stack.owner) as db:
            text = scalar(db, "SELECT password_hash FROM staff WHERE staff_id = :s", s=world.priya.staff_id)
        return str(text).rsplit("$", 2)[0]

    assert parameters() == "$argon2id$v=19$m=8,t=1,p=1"
    open_browser().sign_in(world.priya)
    assert parameters() == "$argon2id$v=19$m=65536,t=3,p=1"
    open_browser().sign_in(world.priya)


def test_ten_misses_close_an_account_but_not_for_a_browser_it_knows(open_browser: Opened, world: World) -> None:
    known = open_browser()
    known.sign_in(world.priya)
    known.submit(known.get(f"/{world.slug}/sessions").form("/sign-out"))
    stranger = open_browser(address="198.51.100.4")
    assert [try_in(stranger, world.priya.email, WRONG) for _ in range(10)] == [422] * 10
    assert try_in(stranger, world.priya.email, PASSWORD) == 422
    assert try_in(open_browser(), world.priya.email, PASSWORD) == 422
    known.sign_in(world.priya)


def test_a_known_browser_has_ten_misses_of_its_own(open_browser: Opened, world: World) -> None:
    known = open_browser()
    known.sign_in(world.priya)
    assert [try_in(known, world.priya.email, WRONG) for _ in range(10)] == [422] * 10
    assert try_in(known, world.priya.email, PASSWORD) == 422
    assert try_in(open_browser(), world.priya.email, PASSWORD) == 303


def test_a_device_cookie_of_another_person_or_a_forged_one_is_no_help(open_browser: Opened, world: World) -> None:
    tobias = open_browser(address="198.51.100.4")
    tobias.sign_in(world.tobias)
    for _ in range(10):
        try_in(open_browser(), world.priya.email, WRONG)
    assert try_in(tobias, world.priya.email, PASSWORD) == 422
    device = tobias.cookie("__Host-device") or ""
    tobias.client.set_cookie("__Host-device", device[:-2] + "xx", domain="console.example", secure=True)
    assert try_in(tobias, world.priya.email, PASSWORD) == 422


def test_an_account_opens_again_after_thirty_minutes(open_browser: Opened, world: World, stack: Stack) -> None:
    for _ in range(10):
        try_in(open_browser(), world.priya.email, WRONG)
    with transaction(stack.owner) as db:
        run(db, "UPDATE sign_in_misses SET at = at - interval '31 minutes'")
    open_browser().sign_in(world.priya)


def test_signing_in_forgets_the_misses_before_it(open_browser: Opened, world: World) -> None:
    for _ in range(9):
        try_in(open_browser(), world.priya.email, WRONG)
    open_browser().sign_in(world.priya)
    assert [try_in(open_browser(), world.priya.email, WRONG) for _ in range(9)] == [422] * 9
    open_browser().sign_in(world.priya)


def test_an_address_that_missed_a_hundred_times_is_turned_away_before_any_hashing(
    open_browser: Opened, world: World, monkeypatch: pytest.MonkeyPatch, stack: Stack
) -> None:
    try_in(open_browser(), world.priya.email, WRONG)
    with transaction(stack.owner) as db:
        run(
            db, "INSERT INTO sign_in_misses (miss_id, bucket) SELECT gen_random_uuid(), bucket FROM sign_in_misses,"
            " generate_series(1, 99)",
        )  # fmt: skip
    hashed: list[str] = []

    def matches(_stored: str | None, password: str) -> bool:
        hashed.append(password)
        return False

    monkeypatch.setattr(passwords, "matches", matches)
    someone = open_browser()
    page = someone.submit(someone.get("/sign-in").form("/sign-in"), 429, email=world.jonas.email, password=WRONG)
    assert "Too many tries" in page.title
    assert hashed == []
    elsewhere = open_browser(address="198.51.100.4")
    assert try_in(elsewhere, world.jonas.email, WRONG) == 422
    assert hashed == [WRONG]


def test_tries_at_once_are_counted_one_by_one(open_browser: Opened, world: World) -> None:
    """All read the same nine misses unless they wait for one another: then more than ten passwords would be compared."""
    compared: list[str] = []
    lock = threading.Lock()

    def matches(_stored: str | None, password: str) -> bool:
        with lock:
            compared.append(password)
        return False

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            passwords, "matches", lambda stored, password: matches(stored, password if stored else "nobody")
        )
        browsers = [open_browser(address=f"198.51.{n % 250}.7") for n in range(40)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: try_in(one, world.priya.email, WRONG), browsers))
    assert compared.count(WRONG) == 10
    assert compared.count("nobody") == 30


def test_at_most_eight_passwords_are_hashed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, most = 0, 0
    lock = threading.Lock()

    class Counting:
        def verify(self, _stored: str, _password: str) -> bool:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            time.sleep(0.01)
            with lock:
                at_once -= 1
            return True

    monkeypatch.setattr(passwords, "_hasher", Counting())
    with ThreadPoolExecutor(60) as pool:
        list(pool.map(lambda _n: passwords.matches("stored", WRONG), range(200)))
    assert most == passwords.AT_ONCE


def test_a_full_house_is_told_to_wait(open_browser: Opened, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_slots", threading.BoundedSemaphore(1))
    monkeypatch.setattr(passwords, "WAIT_SECONDS", 0.05)
    with passwords._slot():
        priya = open_browser()
        page = priya.submit(priya.get("/sign-in").form("/sign-in"), 429, email=world.priya.email, password=PASSWORD)
    assert "Try again in 60 seconds." in page.text


def shape(browser: Browser, email: str, password: str) -> tuple[int, str, list[tuple[str, str]]]:
    """Status, text and headers of a refusal, without what is random in every answer and without the typed address."""
    form = browser.get("/sign-in").form("/sign-in")
    answer = browser.send(form, email=email, password=password)
    nonce = re.search(r"'nonce-([^']+)'", answer.headers["Content-Security-Policy"])
    assert nonce
    random = {nonce[1]: "NONCE", email: "EMAIL"}
    text = answer.text
    for found in re.findall(r'name="csrf_token"[^>]*value="([^"]+)"', text):
        random[found] = "TOKEN"
    headers = [(name, value) for name, value in answer.headers.items() if name != "Content-Length"]
    for one, word in random.items():
        text = text.replace(one, word)
        headers = [(name, value.replace(one, word)) for name, value in headers]
    return answer.status_code, text, headers


def test_unknown_locked_disabled_and_wrong_are_one_answer(open_browser: Opened, world: World, stack: Stack) -> None:
    for _ in range(10):
        try_in(open_browser(address="198.51.100.4"), world.jonas.email, WRONG)
    with transaction(stack.owner) as db:
        run(db, "UPDATE staff SET disabled_at = now() WHERE staff_id = :s", s=world.mara.staff_id)
    causes = {
        "wrong": (world.priya.email, WRONG),
        "unknown": ("nobody@harbour.example", PASSWORD),
        "locked": (world.jonas.email, PASSWORD),
        "disabled": (world.mara.email, PASSWORD),
    }
    answers = {cause: shape(open_browser(), *given) for cause, given in causes.items()}
    assert REFUSED in answers["wrong"][1]
    assert answers["wrong"][0] == 422
    for cause in causes:
        assert answers[cause] == answers["wrong"], cause


def test_every_refusal_takes_the_same_work(
    open_browser: Opened, world: World, stack: Stack, real_hashing: None
) -> None:
    real = passwords.hash_password(PASSWORD)
    with transaction(stack.owner) as db:
        run(db, "UPDATE staff SET password_hash = :h", h=real)
        run(db, "UPDATE staff SET disabled_at = now() WHERE staff_id = :s", s=world.mara.staff_id)
    for _ in range(10):
        try_in(open_browser(address="198.51.100.4"), world.jonas.email, WRONG)

    causes = {"wrong": world.priya.email, "unknown": "nobody@x.example", "locked": world.jonas.email,
              "disabled": world.mara.email}  # fmt: skip
    # Processor time: on a busy machine the clock on the wall says more about its neighbours.
    took: dict[str, list[float]] = {cause: [] for cause in causes}
    for number in range(7):
        for cause, email in causes.items():
            one = open_browser(address=f"198.51.{number}.9")
            form = one.get("/sign-in").form("/sign-in")
            begun = time.thread_time()
            one.send(form, email=email, password=WRONG)
            took[cause].append(time.thread_time() - begun)
    medians = {cause: statistics.median(times) for cause, times in took.items()}
    assert max(medians.values()) < 1.2 * min(medians.values()), medians


def test_whoever_is_switched_off_while_the_password_is_checked_stays_outside(
    open_browser: Opened, world: World, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(_stored: str | None, _password: str) -> bool:
        with transaction(stack.owner) as db:
            run(db, "UPDATE staff SET disabled_at = now() WHERE staff_id = :s", s=world.priya.staff_id)
        return True

    monkeypatch.setattr(passwords, "matches", slow)
    assert try_in(open_browser(), world.priya.email, PASSWORD) == 422


def test_fields_that_the_form_does_not_have_are_refused(open_browser: Opened, world: World) -> None:
    one = open_browser()
    form = one.get("/sign-in").form("/sign-in")
    for extra in ("staff_id", "role", "merchant", "remember"):
        assert one.send(form, email=world.priya.email, password=PASSWORD, **{extra: "admin"}).status_code == 422
    assert one.cookie("__Host-onceback") is None


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/", "//evil.example/", "/\\evil.example", "\\\\evil.example", "/%5cevil.example",
        "javascript:alert(1)",
        "/harbour/sessions\r\nX: y", "/harbour/sessions\u2028", "/nowhere/at/all", "harbour/sessions", "/sign-out",
        "https:/evil.example", "/harbour//sessions", "///evil.example", "/harbour/sessions\t", " /harbour/sessions",
        "/" + "a" * 3000, "@evil.example", "/.evil.example", "http://console.example@evil.example/harbour/sessions",
    ],
)  # fmt: skip
def test_after_sign_in_nobody_is_sent_where_the_router_does_not_know(
    open_browser: Opened, world: World, target: str
) -> None:
    one = open_browser()
    form = one.get("/sign-in").form("/sign-in")
    answer = one.send(form, email=world.priya.email, password=PASSWORD, next=target)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    asked = open_browser().ask("GET", "/sign-in", query_string={"next": target})
    assert 'name="next" type="hidden" value=""' in asked.text


def test_after_sign_in_one_comes_back_with_the_query(open_browser: Opened, world: World) -> None:
    one = open_browser()
    one.get(f"/{world.slug}/sessions?from=queue")
    form = one.shown.form("/sign-in")
    assert form.values["next"] == f"/{world.slug}/sessions?from=queue"
    answer = one.send(form, email=world.priya.email, password=PASSWORD)
    assert answer.headers["Location"] == f"/{world.slug}/sessions?from=queue"
