"""People come by an invitation of two admins and change their role by two admins; the database gives neither in another way."""

import re
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.approvals import Seen
from ledger.database import run, transaction
from ledger.errors import NotFound, SamePerson
from ledger.ids import uuid7
from ledger.invitations import answer_invitation, ask_invitation, come_in, new_link
from ledger.role_changes import answer_role, ask_role
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.web.desk import Desk
from tests.web.pages import Browser, Page
from tests.world import PASSWORD, World, build_world

NEW = "nine lamps hang over the quiet pier"


@pytest.fixture
def world(stack: Stack) -> World:
    """Jonas keeps people too."""
    made = build_world(stack)
    as_administrator(stack, "UPDATE memberships SET role = 'admin' WHERE staff_id = %s", made.jonas.staff_id)
    return made


def invites(desk: Desk, *, email: str = "Noor@Harbour.example", name: str = "Noor Haas", role: str = "desk") -> Page:
    """Ada asks for an invitation."""
    ada = desk.at(desk.world.ada)
    form = ada.get(desk.url("/people/invitation")).form("/people/invitation")
    return ada.submit(form, name=name, email=email, role=role)


def link_of(desk: Desk) -> str:
    """Jonas grants the one invitation that waits; the path of its link."""
    jonas = desk.at(desk.world.jonas)
    page = jonas.submit(jonas.get(desk.url("/people")).form("/grant"))
    found = re.findall(r"https://console\.example(/invitations/[^\"<]+)", page.html)
    return str(found[0])


def comes(desk: Desk, path: str, password: str = NEW, status: int = 200) -> tuple[Browser, Page]:
    browser = desk.open_browser()
    return browser, browser.submit(browser.get(path).form("/invitations/"), status=status, password=password)


def test_two_admins_invite_and_the_person_comes_by_the_link_once(desk: Desk) -> None:
    page = invites(desk)
    assert "A second admin decides it, and gets the link." in page.text
    assert not [form for form in page.forms if form.action.endswith("/grant")]
    path = link_of(desk)
    browser, page = comes(desk, path)
    assert "You are in." in page.text
    page = browser.submit(page.form("/sign-in"), email="noor@harbour.example", password=NEW)
    assert "All open" in page.title
    for method in ("GET", "POST"):
        assert desk.open_browser().ask(method, path, data={}).status_code in (400, 404)
    assert desk.open_browser().get(path, 404).text.count("This link opens nothing") == 1
    assert "Noor Haas" in desk.at(desk.world.ada).get(desk.url("/people")).text


def test_the_link_is_shown_once_and_the_database_knows_its_digest_only(desk: Desk) -> None:
    invites(desk)
    ada, jonas = desk.at(desk.world.ada), desk.at(desk.world.jonas)
    form = jonas.get(desk.url("/people")).form("/grant")
    page = jonas.submit(form)
    link = re.findall(r"/invitations/harbour/([A-Za-z0-9_-]{43})", page.html)[0]
    assert "was decided before" in jonas.submit(form).text
    for browser in (ada, jonas):
        assert link not in browser.get(desk.url("/people")).html
    kept = as_administrator(desk.stack, "SELECT row_to_json(l)::text AS r FROM invitation_links l")
    assert len(kept) == 1
    assert link not in kept[0]["r"]


def test_an_invited_person_takes_no_weak_password_and_signs_in_by_themselves(desk: Desk) -> None:
    invites(desk)
    path = link_of(desk)
    browser, page = comes(desk, path, "harbour harbour 1", 422)
    assert page.title.startswith("Error:")
    assert browser.cookie("__Host-onceback") is None
    assert desk.rows("SELECT 1 FROM invitation_ends WHERE merchant_id = :m") == []
    browser, _ = comes(desk, path)
    assert browser.cookie("__Host-onceback") is None


def test_somebody_of_another_shop_keeps_their_password_and_shows_it(desk: Desk) -> None:
    lantern = build_world(desk.stack, "lantern")
    invites(desk, email=lantern.priya.email, name="Priya R", role="reader")
    path = link_of(desk)
    _, page = comes(desk, path, NEW, 422)
    assert "That is not the password you sign in with." in page.text
    browser, _ = comes(desk, path, PASSWORD)
    page = browser.sign_in(lantern.priya)
    assert "Choose a shop" in page.title


@pytest.mark.parametrize("how", ["called back", "too old", "another shop's", "forged"])
def test_a_link_that_is_over_opens_nothing(desk: Desk, how: str) -> None:
    invites(desk)
    path = link_of(desk)
    if how == "called back":
        ada = desk.at(desk.world.ada)
        assert "called back" in ada.submit(ada.get(desk.url("/people")).form("/end")).text
    elif how == "too old":
        with desk.stack.past_guards() as db:
            db.execute("UPDATE invitation_links SET made_at = made_at - interval '73 hours'")
    elif how == "another shop's":
        path = path.replace("harbour", build_world(desk.stack, "lantern").slug)
    else:
        path = path[:-3] + ("aaa" if not path.endswith("aaa") else "bbb")
    assert desk.open_browser().ask("GET", path).status_code == 404


def test_the_admin_who_asked_does_not_decide(stack: Stack, world: World) -> None:
    one = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        ask_invitation(
            db, world.merchant_id, one, world.ada.staff_id, email="noor@harbour.example", name="Noor", role="admin"
        )
    with pytest.raises(SamePerson), transaction(stack.console, world.merchant_id) as db:
        answer_invitation(db, world.merchant_id, one, world.ada.staff_id, granted=True)
    alone = "UPDATE invitations SET decided_by = asked_by, decided_at = now(), granted = true"
    with pytest.raises(IntegrityError, match="two_admins_invite"), transaction(stack.owner, world.merchant_id) as db:
        run(db, alone)
    without(stack, "ALTER TABLE invitations DROP CONSTRAINT two_admins_invite")
    with transaction(stack.owner, world.merchant_id) as db:
        assert run(db, alone) == 1


def granted(stack: Stack, world: World) -> str:
    one = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        ask_invitation(
            db, world.merchant_id, one, world.ada.staff_id, email="noor@harbour.example", name="Noor", role="desk"
        )
        answer_invitation(db, world.merchant_id, one, world.jonas.staff_id, granted=True)
        return new_link(db, world.merchant_id, one)


def test_two_who_open_one_link_at_once_make_one_member(stack: Stack, world: World) -> None:
    link, barrier, came = granted(stack, world), threading.Barrier(2), []

    def opens() -> None:
        barrier.wait()
        try:
            with transaction(stack.console, world.merchant_id) as db:
                came.append(come_in(db, world.merchant_id, link, "a hash"))
        except NotFound:
            pass

    both = [threading.Thread(target=opens) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(came) == 1
    ends = as_administrator(stack, "SELECT staff_id FROM invitation_ends")
    assert [row["staff_id"] for row in ends] == came


@pytest.mark.parametrize("statement", [
    "UPDATE memberships SET role = 'admin' WHERE merchant_id = :m AND staff_id = :s",
    "INSERT INTO memberships VALUES (:m, :s, 'admin') ON CONFLICT (merchant_id, staff_id) DO UPDATE SET role = 'admin'",
])  # fmt: skip
def test_the_console_gives_no_role_that_two_admins_did_not_decide(stack: Stack, world: World, statement: str) -> None:
    with (
        pytest.raises(IntegrityError, match="a role takes a second admin"),
        transaction(stack.console, world.merchant_id) as db,
    ):
        run(db, statement, m=world.merchant_id, s=world.priya.staff_id)
    without(stack, "DROP TRIGGER people_take_two ON memberships")
    with transaction(stack.console, world.merchant_id) as db:
        assert run(db, statement, m=world.merchant_id, s=world.priya.staff_id) == 1


def approved(stack: Stack, world: World) -> UUID:
    intent_id: UUID = lives.propose(stack, world)["intent_id"]
    seen: Seen = lives.see(stack, world, intent_id)
    lives.approve_as(stack, world, world.priya, intent_id, seen)
    return intent_id


def test_another_role_takes_two_admins_ends_the_sessions_and_holds_what_was_not_sent(desk: Desk) -> None:
    intent_id, priya = approved(desk.stack, desk.world), desk.at(desk.world.priya)
    ada, jonas = desk.at(desk.world.ada), desk.at(desk.world.jonas)
    form = ada.get(desk.url(f"/people/{desk.world.priya.staff_id}/role")).form("/role")
    page = ada.submit(form, role="reader", reason="moves to the shop floor")
    assert "from Returns desk to Reader: moves to the shop floor" in page.text
    assert not [one for one in page.forms if one.action.endswith("/grant")]
    assert desk.state(intent_id) == "approved"
    page = jonas.submit(jonas.get(desk.url("/people")).form("/grant"))
    assert "1 refund held" in page.text
    assert "Changed by Jonas Okonjo" in page.text
    assert desk.state(intent_id) == "held"
    assert priya.ask("GET", desk.url("/queue/")).status_code == 303
    assert jonas.ask("POST", form.action, data=form.values | {"role": "reader", "reason": "x"}).status_code == 400


def test_neither_who_asked_nor_the_person_decides_a_role(stack: Stack, world: World) -> None:
    change = uuid7()
    m, jonas = world.merchant_id, world.jonas.staff_id
    with pytest.raises(SamePerson), transaction(stack.console, m) as db:
        ask_role(db, m, uuid7(), jonas, jonas, "manager", "for myself")
    with transaction(stack.console, m) as db:
        ask_role(db, m, change, jonas, world.ada.staff_id, "manager", "back to the desk")
    for who in (world.ada.staff_id, jonas):
        with pytest.raises(SamePerson), transaction(stack.console, m) as db:
            answer_role(db, m, change, who, granted=True)
        with pytest.raises(IntegrityError, match="two_others_change"), transaction(stack.owner, m) as db:
            run(db, "UPDATE role_changes SET decided_by = :s, decided_at = now(), granted = true", s=who)


def test_an_admin_signs_somebody_out_everywhere(desk: Desk) -> None:
    priya, ada = desk.at(desk.world.priya), desk.at(desk.world.ada)
    page = ada.get(desk.url("/people"))
    page = ada.submit(page.form(f"{desk.world.priya.staff_id}/sign-out"))
    assert "Priya Raman is signed out everywhere. 1 session ended." in page.text
    assert priya.ask("GET", desk.url("/queue/")).status_code == 303
    desk.open_browser().sign_in(desk.world.priya)


def test_a_manager_acts_on_the_desk_and_on_nobody_else(desk: Desk) -> None:
    mara = desk.at(desk.world.mara)
    desk.at(desk.world.priya)
    page = mara.get(desk.url("/people"))
    acts = {form.action for form in page.forms if "/people/" in form.action}
    assert acts == {desk.url(f"/people/{one.staff_id}/leave") for one in (desk.world.priya, desk.world.tobias)} | {
        desk.url(f"/people/{desk.world.priya.staff_id}/sign-out")
    }
    values: dict[str, Any] = page.form("/leave").values
    for act in ("leave", "sign-out"):
        answer = mara.ask("POST", desk.url(f"/people/{desk.world.farah.staff_id}/{act}"), data=values)
        assert answer.status_code == 403
    assert "Priya Raman is signed out" in mara.submit(page.form(f"{desk.world.priya.staff_id}/sign-out")).text


def test_the_list_says_what_people_sign_in_with_and_who_lacks_it(
    desk: Desk, open_browser: Callable[..., Browser]
) -> None:
    ada = desk.at(desk.world.ada)
    assert "none, asked for" not in ada.get(desk.url("/people")).text
    as_administrator(desk.stack, "UPDATE merchants SET second_factor = 'money'")
    as_administrator(
        desk.stack, "INSERT INTO totp_factors (factor_id, staff_id, session_hash, sealed_seed, confirmed_at, last_step)"
        " SELECT gen_random_uuid(), %s, sha256('her session'), decode(repeat('00', 50), 'hex'), now(), 1", desk.world.ada.staff_id,
    )  # fmt: skip
    page = ada.get(desk.url("/people"))
    assert page.text.count("none, asked for") == 5
    assert "This shop asks everybody but readers for a second factor." in page.text
