"""What people are told by mail: queued with the act it is about, only while mail is on, without a customer or an amount."""

from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask

from app import create_app
from tests import lives
from tests.compiled import keep_compiled
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.conftest import ORIGIN, web_settings
from tests.web.desk import Desk
from tests.web.pages import Browser
from tests.web.test_factors import adds_app, adds_key, shows_password
from tests.world import World


@pytest.fixture
def app(stack: Stack, world: World, quick_hashing: None) -> Iterator[Flask]:
    """A web process that knows that mail is on."""
    made = keep_compiled(create_app(web_settings(stack, mail_from="desk@shop.example")))
    yield made
    made.extensions["onceback"].engine.dispose()


def queued(desk: Desk) -> list[tuple[str, str]]:
    found = as_administrator(desk.stack, "SELECT kind, to_address FROM mails ORDER BY made_at, kind")
    return [(row["kind"], row["to_address"]) for row in found]


def facts(desk: Desk) -> list[dict[str, Any]]:
    return [row["facts"] for row in as_administrator(desk.stack, "SELECT facts FROM mails ORDER BY made_at, kind")]


def test_a_sign_in_from_a_new_browser_is_told_and_one_from_a_known_browser_is_not(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    assert queued(desk) == [("new_browser", desk.world.priya.email)]
    assert facts(desk)[0]["device"] == "Firefox on Linux"
    priya.submit(priya.get(desk.url("/sessions")).form("/sign-out"))
    priya.sign_in(desk.world.priya)
    assert len(queued(desk)) == 1


def test_a_wrong_password_tells_nobody(desk: Desk) -> None:
    browser = desk.open_browser()
    browser.send(browser.get("/sign-in").form("/sign-in"), email=desk.world.priya.email, password="wrong, and long too")
    assert queued(desk) == []


def test_each_change_of_what_somebody_signs_in_with_is_told(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    adds_app(desk, priya)
    shown = [one["what"] for one in facts(desk) if "what" in one]
    assert shown == ["An authenticator app was added."]


def test_a_passkey_that_was_added_is_told(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    shows_password(desk, priya)
    adds_key(desk, priya)
    assert [one["what"] for one in facts(desk) if "what" in one] == ["A passkey was added."]


def test_another_role_is_told_to_the_person(desk: Desk) -> None:
    as_administrator(desk.stack, "UPDATE memberships SET role = 'admin' WHERE staff_id = %s", desk.world.jonas.staff_id)
    ada, jonas = desk.at(desk.world.ada), desk.at(desk.world.jonas)
    form = ada.get(desk.url(f"/people/{desk.world.priya.staff_id}/role")).form("/role")
    ada.submit(form, role="reader", reason="moves away")
    assert "role_changed" not in dict(queued(desk))
    jonas.submit(jonas.get(desk.url("/people")).form("/grant"))
    assert ("role_changed", desk.world.priya.email) in queued(desk)


def mention(desk: Desk) -> Browser:
    """Tobias writes to Priya in a note of a case."""
    case_id = lives.open_case(desk.stack, desk.world).case_id
    tobias = desk.at(desk.world.tobias)
    form = tobias.get(desk.case(case_id)).form("/notes")
    for _ in range(2):
        tobias.submit(form, note="@Priya can you look at Ilse Brandt's parcel, 74.70 GBP?")
    return tobias


def test_a_mention_is_told_once_to_whoever_asked_for_it_and_quotes_nothing(desk: Desk) -> None:
    mention(desk)
    assert "mentioned" not in dict(queued(desk))
    as_administrator(desk.stack, "UPDATE staff SET mail_work = true WHERE staff_id = %s", desk.world.priya.staff_id)
    tobias = desk.at(desk.world.tobias)
    form = tobias.get(tobias.path).form("/notes")
    for _ in range(2):
        tobias.submit(form, note="@Priya and again: Ilse Brandt, 74.70 GBP")
    told = [row for row in queued(desk) if row[0] == "mentioned"]
    assert told == [("mentioned", desk.world.priya.email)]
    whole = str(facts(desk))
    for secret in ("Ilse", "74.70", "parcel"):
        assert secret not in whole


def test_a_case_that_becomes_somebodys_is_told_to_whoever_asked_for_it(desk: Desk) -> None:
    as_administrator(desk.stack, "UPDATE staff SET mail_work = true")
    case_id = lives.open_case(desk.stack, desk.world).case_id
    mara = desk.at(desk.world.mara)
    form = mara.get(f"{desk.case(case_id)}/work").form("/assignment")
    mara.submit(form, to=str(desk.world.priya.staff_id))
    assert ("assigned", desk.world.priya.email) in queued(desk)
    form = mara.get(f"{desk.case(case_id)}/work").form("/assignment")
    mara.submit(form, to=str(desk.world.mara.staff_id))
    assert ("assigned", desk.world.mara.email) not in queued(desk)


def test_while_mail_is_off_nothing_is_queued_and_the_page_says_so(
    stack: Stack, world: World, quick_hashing: None
) -> None:
    made = create_app(web_settings(stack))
    desk = Desk(stack, world, lambda **other: Browser(made, ORIGIN, **other))
    page = desk.at(world.priya).get(desk.url("/settings"))
    assert "This installation sends no mail." in page.text
    assert queued(desk) == []
    made.extensions["onceback"].engine.dispose()


def test_the_page_says_what_is_mailed_and_where_to(desk: Desk) -> None:
    page = desk.at(desk.world.priya).get(desk.url("/settings"))
    assert f"To {desk.world.priya.email}." in page.text
    form = page.form("/settings")
    assert "mail_work" not in form.values
    form.values["mail_work"] = "y"
    page = desk.at(desk.world.priya).submit(form)
    assert page.form("/settings").values["mail_work"] == "y"
