"""S11-S14: what a session is, how long it lives, what ends it. The clock is the database's, so tests move the rows."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import request
from werkzeug.test import TestResponse

from console.access import permission, polling
from console.forms import kept_note
from ledger.database import rows, run, transaction
from tests.stack import Stack
from tests.web.pages import Browser
from tests.world import PASSWORD, Person, World

Opened = Callable[..., Browser]
COOKIE = "__Host-onceback"
CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/141.0.0.0 Safari/537.36"


def signed_in(open_browser: Opened, person: Person, **other: Any) -> Browser:
    made = open_browser(**other)
    made.sign_in(person)
    return made


def shift(stack: Stack, person: Person, *, seen_minutes: int = 0, begun_minutes: int = 0) -> None:
    """Lets time pass for the person's sessions."""
    with transaction(stack.owner) as db:
        run(
            db, "UPDATE sessions SET seen_at = seen_at - make_interval(mins => :seen),"
            " created_at = created_at - make_interval(mins => :begun) WHERE staff_id = :s AND ended_at IS NULL",
            seen=seen_minutes, begun=begun_minutes, s=person.staff_id,
        )  # fmt: skip


def kept_rows(stack: Stack, person: Person) -> list[dict[str, Any]]:
    with transaction(stack.owner) as db:
        return [dict(row) for row in rows(db, "SELECT * FROM sessions WHERE staff_id = :s ORDER BY created_at",
                                          s=person.staff_id)]  # fmt: skip


def set_cookies(answer: TestResponse) -> dict[str, str]:
    return {text.partition("=")[0]: text for text in answer.headers.getlist("Set-Cookie")}


def test_the_cookie_is_bound_to_the_host_and_to_the_browser_session(open_browser: Opened, world: World) -> None:
    priya = open_browser()
    form = priya.get("/sign-in").form("/sign-in")
    cookie = set_cookies(priya.send(form, email=world.priya.email, password="wrong " * 4))
    assert COOKIE not in cookie
    cookie = set_cookies(priya.send(form, email=world.priya.email, password=PASSWORD))
    assert re.fullmatch(rf"{COOKIE}=[A-Za-z0-9_-]{{43}}; Secure; HttpOnly; Path=/; SameSite=Lax", cookie[COOKIE])


def test_a_dump_of_the_database_signs_nobody_in(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = signed_in(open_browser, world.priya)
    [row] = kept_rows(stack, world.priya)
    shown = priya.cookie(COOKIE)
    assert shown
    assert row["session_hash"] == hashlib.sha256(shown.encode()).digest()
    assert shown not in str(row)
    thief = open_browser()
    for stolen in (row["session_hash"].hex(), row["session_hash"].hex()[:43]):
        thief.client.set_cookie(COOKIE, stolen, domain="console.example", secure=True)
        assert thief.ask("GET", f"/{world.slug}/sessions").status_code == 303


def test_an_id_that_an_attacker_planted_is_never_taken_over(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = open_browser()
    planted = "A" * 43
    priya.client.set_cookie(COOKIE, planted, domain="console.example", secure=True)
    priya.sign_in(world.priya)
    assert priya.cookie(COOKIE) != planted
    assert hashlib.sha256(planted.encode()).digest() not in [
        row["session_hash"] for row in kept_rows(stack, world.priya)
    ]


def test_signing_in_again_gives_a_new_id_and_ends_the_old_one(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = signed_in(open_browser, world.priya)
    before = priya.cookie(COOKIE)
    priya.sign_in(world.priya)
    assert priya.cookie(COOKIE) != before
    assert [row["ended_at"] is None for row in kept_rows(stack, world.priya)] == [False, True]


@pytest.mark.parametrize(
    "text", ["", "x", "A" * 42, "A" * 44, "A" * 42 + "!", "A" * 5000, '"' + "A" * 41 + '"', "é" * 43]
)
def test_a_cookie_that_is_no_id_opens_nothing(open_browser: Opened, world: World, text: str) -> None:
    stranger = open_browser()
    header = {"Cookie": f"{COOKIE}={text}"}
    assert stranger.ask("GET", f"/{world.slug}/sessions", headers=header).status_code == 303


def test_two_cookies_of_that_name_open_nothing(open_browser: Opened, world: World) -> None:
    priya = signed_in(open_browser, world.priya)
    header = {"Cookie": f"{COOKIE}={priya.cookie(COOKIE)}; {COOKIE}={'A' * 43}"}
    assert open_browser().ask("GET", f"/{world.slug}/sessions", headers=header).status_code == 303
    header = {"Cookie": f"{COOKIE}={priya.cookie(COOKIE)}"}
    assert open_browser().ask("GET", f"/{world.slug}/sessions", headers=header).status_code == 200


def test_a_fourth_session_ends_the_oldest(open_browser: Opened, world: World) -> None:
    four = [signed_in(open_browser, world.priya) for _ in range(4)]
    assert [one.ask("GET", f"/{world.slug}/sessions").status_code for one in four] == [303, 200, 200, 200]


def test_after_fifteen_idle_minutes_the_person_signs_in_again_and_comes_back(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    priya = signed_in(open_browser, world.priya)
    shift(stack, world.priya, seen_minutes=14)
    priya.get(f"/{world.slug}/sessions")
    shift(stack, world.priya, seen_minutes=16)
    page = priya.get(f"/{world.slug}/sessions")
    assert "You were signed out after 15 minutes without activity." in page.text
    page = priya.submit(page.form("/sign-in"), email=world.priya.email, password=PASSWORD)
    assert priya.path == f"/{world.slug}/sessions"
    assert "Where you are signed in" in page.title


def test_activity_within_the_fifteen_minutes_keeps_a_session(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = signed_in(open_browser, world.priya)
    for _ in range(3):
        shift(stack, world.priya, seen_minutes=10)
        priya.get(f"/{world.slug}/sessions")
    assert priya.ask("GET", f"/{world.slug}/sessions/stay").status_code == 204


def test_ten_hours_after_sign_in_no_activity_helps(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = signed_in(open_browser, world.priya)
    shift(stack, world.priya, begun_minutes=599)
    priya.get(f"/{world.slug}/sessions")
    shift(stack, world.priya, begun_minutes=2)
    page = priya.get(f"/{world.slug}/sessions")
    assert "A session lasts ten hours" in page.text


def test_twenty_minutes_of_polling_do_not_keep_a_session(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = signed_in(open_browser, world.priya)
    priya.get(f"/{world.slug}/sessions")
    answers = []
    for _ in range(4):
        answers.append(priya.part(f"/{world.slug}/sessions", **{"Onceback-Poll": "1"}))
        shift(stack, world.priya, seen_minutes=5)
    last = priya.part(f"/{world.slug}/sessions", **{"Onceback-Poll": "1"})
    assert [answer.status_code for answer in answers] == [200, 200, 200, 401]
    assert last.status_code == 401
    assert last.headers["HX-Redirect"] == f"/sign-in?next=/{world.slug}/sessions"
    assert last.text == ""


@pytest.mark.usefixtures("own_web")
def test_a_view_marked_polling_never_counts_as_activity(
    open_browser: Opened, world: World, stack: Stack, app: Any
) -> None:
    def fresh() -> str:
        return "fresh"

    app.add_url_rule("/<merchant_slug>/fresh", "fresh", polling(permission("own_session")(fresh)))
    priya = signed_in(open_browser, world.priya)
    shift(stack, world.priya, seen_minutes=10)
    assert priya.part(f"/{world.slug}/fresh").text == "fresh"
    shift(stack, world.priya, seen_minutes=6)
    assert priya.part(f"/{world.slug}/fresh").status_code == 401


@pytest.mark.usefixtures("own_web")
def test_a_note_typed_into_a_session_that_ran_out_comes_back(
    open_browser: Opened, world: World, stack: Stack, app: Any
) -> None:
    seen = []

    def desk() -> str:
        seen.append(request.form["note"] if request.method == "POST" else kept_note())
        return ""

    app.add_url_rule("/<merchant_slug>/desk", "desk", permission("own_session")(desk), methods=["GET", "POST"])
    priya = signed_in(open_browser, world.priya)
    token = priya.get(f"/{world.slug}/sessions").form("end-all").values["csrf_token"]
    priya.path = f"/{world.slug}/desk"
    shift(stack, world.priya, seen_minutes=16)
    answer = priya.ask("POST", f"/{world.slug}/desk", data={"csrf_token": token, "note": "Box was wet."})
    assert answer.status_code == 303
    assert seen == []
    page = priya.get(answer.headers["Location"])
    assert "Your note is kept." in page.text
    form = page.form("/sign-in")
    assert form.values["next"] == f"/{world.slug}/desk"
    assert priya.send(form, email=world.priya.email, password=PASSWORD).status_code == 303
    priya.ask("GET", f"/{world.slug}/desk")
    priya.ask("GET", f"/{world.slug}/desk")
    assert seen == ["Box was wet.", ""]


def test_a_note_under_a_poll_that_found_the_session_over_is_kept_beside_the_open_door(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    """What the script sends when a poll is answered 401; the sign-in page that opens meanwhile still works."""
    priya = signed_in(open_browser, world.priya)
    typed = {
        "csrf_token": priya.get(f"/{world.slug}/sessions").form("end-all").values["csrf_token"],
        "note": "Box was wet.",
    }
    assert priya.ask("POST", "/kept-note", data=typed).status_code == 204
    assert "Box was wet." not in str(kept_rows(stack, world.priya))
    shift(stack, world.priya, seen_minutes=16)
    assert priya.part(f"/{world.slug}/sessions").status_code == 401
    desk = priya.path
    door = priya.get("/sign-in").form("/sign-in")
    priya.path = desk
    answer = priya.ask("POST", "/kept-note", data=typed)
    assert answer.status_code == 204
    assert set_cookies(answer) == {}
    assert priya.send(door, email=world.priya.email, password=PASSWORD).status_code == 303
    assert kept_rows(stack, world.priya)[-1]["content"]["kept"] == {"path": desk, "note": "Box was wet."}


def test_a_note_without_the_sessions_token_is_not_kept(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = signed_in(open_browser, world.priya)
    priya.get(f"/{world.slug}/sessions")
    shift(stack, world.priya, seen_minutes=16)
    priya.ask("POST", f"/{world.slug}/sessions/end-all", data={"csrf_token": "forged", "note": "planted"})
    assert "planted" not in str(kept_rows(stack, world.priya))


def test_another_browser_with_the_same_cookie_ends_the_session(open_browser: Opened, world: World) -> None:
    priya = signed_in(open_browser, world.priya)
    thief = open_browser(agent=CHROME)
    thief.client.set_cookie(COOKIE, priya.cookie(COOKIE) or "", domain="console.example", secure=True)
    assert thief.ask("GET", f"/{world.slug}/sessions").status_code == 303
    assert priya.ask("GET", f"/{world.slug}/sessions").status_code == 303


def test_a_header_that_anyone_can_send_changes_nothing(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = signed_in(open_browser, world.priya)
    headers = {"X-Forwarded-For": "198.51.100.9", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"}
    answer = priya.ask("GET", f"/{world.slug}/sessions", headers=headers)
    assert answer.status_code == 200
    assert "evil.example" not in answer.text
    assert [row["address"] for row in kept_rows(stack, world.priya)] == ["203.0.113.7"]


def test_signing_out_ends_the_row_and_what_the_browser_kept(open_browser: Opened, world: World, stack: Stack) -> None:
    priya = signed_in(open_browser, world.priya)
    before = priya.cookie(COOKIE)
    page = priya.get(f"/{world.slug}/sessions")
    answer = priya.send(page.form("/sign-out"))
    assert answer.status_code == 303
    assert answer.headers["Clear-Site-Data"] == '"cache", "storage"'
    assert "Max-Age=0" in set_cookies(answer)[COOKIE]
    assert priya.cookie("__Host-device")
    [row] = kept_rows(stack, world.priya)
    assert row["ended_at"] is not None
    assert row["content"] == {}
    assert "You are signed out." in priya.get("/sign-in").text
    priya.client.set_cookie(COOKIE, before or "", domain="console.example", secure=True)
    assert priya.ask("GET", f"/{world.slug}/sessions").status_code == 303


def test_back_after_sign_out_shows_nothing(open_browser: Opened, world: World) -> None:
    priya = signed_in(open_browser, world.priya)
    answer = priya.ask("GET", f"/{world.slug}/sessions")
    assert answer.headers["Cache-Control"] == "no-store"
    priya.submit(priya.get(f"/{world.slug}/sessions").form("/sign-out"))
    again = priya.ask("GET", f"/{world.slug}/sessions")
    assert again.status_code == 303
    assert world.priya.name not in again.text


def test_sign_out_refuses_get(open_browser: Opened, world: World) -> None:
    priya = signed_in(open_browser, world.priya)
    assert priya.ask("GET", "/sign-out").status_code == 405
    priya.get(f"/{world.slug}/sessions")


def test_a_disabled_person_is_out_with_the_next_request_and_the_next_part(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    priya = signed_in(open_browser, world.priya)
    with transaction(stack.owner) as db:
        run(db, "UPDATE staff SET disabled_at = now() WHERE staff_id = :s", s=world.priya.staff_id)
    assert priya.part(f"/{world.slug}/sessions").status_code == 401
    assert priya.ask("GET", f"/{world.slug}/sessions").status_code == 303


def test_a_person_ends_one_of_their_sessions_and_then_all(open_browser: Opened, world: World) -> None:
    laptop, desk = signed_in(open_browser, world.priya), signed_in(open_browser, world.priya, agent=CHROME)
    page = desk.get(f"/{world.slug}/sessions")
    assert "Chrome on Windows this one" in page.text
    other = [form for form in page.forms if form.action.endswith("/end")][1]
    assert "That session has ended." in desk.submit(other).text
    assert laptop.ask("GET", f"/{world.slug}/sessions").status_code == 303
    page = desk.submit(desk.get(f"/{world.slug}/sessions").form("end-all"))
    assert "You are signed out." in page.text
    assert desk.ask("GET", f"/{world.slug}/sessions").status_code == 303


def test_nobody_ends_another_persons_session(open_browser: Opened, world: World, stack: Stack) -> None:
    tobias, priya = signed_in(open_browser, world.tobias), signed_in(open_browser, world.priya)
    his = next(form for form in tobias.get(f"/{world.slug}/sessions").forms if form.action.endswith("/end"))
    hers = next(form for form in priya.get(f"/{world.slug}/sessions").forms if form.action.endswith("/end"))
    priya.ask("POST", his.action, data=hers.values)
    tobias.get(f"/{world.slug}/sessions")
