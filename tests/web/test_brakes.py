"""The brakes' page: one person stops, two start again, and every page says so (S88, SECURITY §2)."""

import pytest

from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import Desk, Opened, token_of
from tests.world import World


@pytest.fixture
def desk(stack: Stack, world: World, open_browser: Opened) -> Desk:
    return Desk(stack, world, open_browser)


@pytest.mark.parametrize("who", ["priya", "jonas", "farah", "ada"])
def test_each_of_the_listed_roles_pauses_and_every_page_says_so(desk: Desk, who: str) -> None:
    person = getattr(desk.world, who)
    browser = desk.at(person)
    form = browser.get(desk.url("/brakes/")).form("/brakes/pause")
    browser.submit(form, reason="The till of Leith looks wrong")
    browser.submit(form, reason="The till of Leith looks wrong")
    assert desk.count("brake_pulls") == 1
    for path in ("/cap/", "/brakes/") if who != "ada" else ("/people", "/brakes/"):
        page = browser.get(desk.url(path))
        assert "Refunds are paused since" in page.text, path
        assert f"by {person.name}" in page.text, path
    assert "The till of Leith looks wrong" in browser.get(desk.url("/brakes/")).text


def test_a_reader_sees_the_brakes_and_moves_none(desk: Desk) -> None:
    page = desk.at(desk.world.rita).get(desk.url("/brakes/"))
    assert "No brake is on." in page.text
    assert not [form for form in page.forms if "/brakes/" in form.action]


def test_a_pause_needs_a_reason(desk: Desk) -> None:
    browser = desk.at(desk.world.priya)
    form = browser.get(desk.url("/brakes/")).form("/brakes/pause")
    assert "Say why" in browser.submit(form, status=422, reason="  ").text
    assert desk.count("brake_pulls") == 0


def paused(desk: Desk) -> None:
    browser = desk.at(desk.world.priya)
    browser.submit(browser.get(desk.url("/brakes/")).form("/brakes/pause"), reason="A look at the till")


def test_a_refund_approved_under_a_pause_does_not_say_when_it_is_sent(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"], window=300)
    tobias = desk.at(desk.world.tobias)
    assert "Sends at" in tobias.get(desk.refund(intent["intent_id"])).text
    paused(desk)
    page = tobias.get(desk.refund(intent["intent_id"]))
    assert "nothing is sent until the pause ends" in page.text
    assert "While refunds are paused you can call it back." in page.text
    assert "Sends at" not in page.text
    assert "will be sent shortly" not in page.text
    assert "before it was sent" in tobias.submit(page.form("/withdrawal")).text


@pytest.mark.parametrize(("first", "second"), [("jonas", "farah"), ("farah", "jonas")])
def test_a_manager_and_finance_start_again_together(desk: Desk, first: str, second: str) -> None:
    paused(desk)
    asking, granting = desk.at(getattr(desk.world, first)), desk.at(getattr(desk.world, second))
    page = asking.submit(asking.get(desk.url("/brakes/")).form("/pause/request"), reason="The till is right again")
    assert "You asked for this, so another person has to start again." in page.text
    assert not [form for form in page.forms if form.action.endswith("/grant")]
    grant = granting.get(desk.url("/brakes/")).form("/grant")
    token = {"csrf_token": token_of(page)}
    assert asking.ask("POST", grant.action, data={**grant.values, **token}).status_code == 403
    page = granting.submit(grant)
    assert "Started again." in page.text
    assert "Refunds are paused" not in page.text
    granting.submit(grant)
    assert desk.count("brake_answers") == 1


def test_two_managers_do_not_start_again_without_finance(desk: Desk) -> None:
    paused(desk)
    jonas, mara = desk.at(desk.world.jonas), desk.at(desk.world.mara)
    jonas.submit(jonas.get(desk.url("/brakes/")).form("/pause/request"), reason="It is right again")
    page = mara.get(desk.url("/brakes/"))
    assert "somebody of finance has to start again" in page.text
    ask_id = desk.rows("SELECT ask_id FROM brake_asks WHERE merchant_id = :m")[0]["ask_id"]
    data = {"csrf_token": page.form("/refusal").values["csrf_token"], "operation": "o" * 32}
    assert mara.ask("POST", desk.url(f"/brakes/requests/{ask_id}/grant"), data=data).status_code == 403
    mara.submit(page.form("/refusal"))
    assert "Refunds are paused" in mara.get(desk.url("/brakes/")).text


def test_a_request_from_before_a_new_pause_does_not_end_it(desk: Desk) -> None:
    paused(desk)
    jonas, farah = desk.at(desk.world.jonas), desk.at(desk.world.farah)
    jonas.submit(jonas.get(desk.url("/brakes/")).form("/pause/request"), reason="It is right again")
    grant = farah.get(desk.url("/brakes/")).form("/grant")
    as_administrator(desk.stack, "UPDATE merchant_brakes SET paused_at = now()")
    assert farah.send(grant).status_code == 409
    assert "Refunds are paused" in farah.get(desk.url("/brakes/")).text


def test_a_pause_of_every_shop_shows_in_each_and_two_people_end_it(desk: Desk) -> None:
    priya, jonas, farah = (desk.at(getattr(desk.world, name)) for name in ("priya", "jonas", "farah"))
    priya.submit(priya.get(desk.url("/brakes/")).form("/brakes/all"), reason="The provider answers oddly")
    assert "Refunds of every shop are paused since" in farah.get(desk.url("/brakes/")).text
    jonas.submit(jonas.get(desk.url("/brakes/")).form("/all/request"), reason="It answers again")
    farah.submit(farah.get(desk.url("/brakes/")).form("/grant"))
    assert as_administrator(desk.stack, "SELECT 1 FROM deployment_brakes") == []


def test_what_an_alarm_stopped_is_started_again_by_two(desk: Desk) -> None:
    as_administrator(desk.stack, "UPDATE merchant_brakes SET stopped_at = now(), stopped_reason = 'api_key_expired'")
    jonas, farah = desk.at(desk.world.jonas), desk.at(desk.world.farah)
    page = jonas.get(desk.url("/brakes/"))
    assert "Sending stopped by an alarm since" in page.text
    assert "api_key_expired" in page.text
    jonas.submit(page.form("/stop/request"), reason="The new key is in place")
    farah.submit(farah.get(desk.url("/brakes/")).form("/grant"))
    assert desk.rows("SELECT stopped_at FROM merchant_brakes WHERE merchant_id = :m") == [{"stopped_at": None}]


def test_shadow_mode_shows_what_would_have_been_sent(desk: Desk) -> None:
    priya, jonas = desk.at(desk.world.priya), desk.at(desk.world.jonas)
    intent = lives.propose(desk.stack, desk.world)["intent_id"]
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent)
    jonas.submit(jonas.get(desk.url("/brakes/")).form("/brakes/shadow"), reason="The first week")
    assert lives.claim(desk.stack, desk.world) == []
    page = priya.get(desk.url("/brakes/"))
    assert "1 refund, 24.90 GBP" in page.text
    assert "None of these goes by itself" in page.text
    assert "Shadow mode: nothing is sent since" in priya.get(desk.url("/cap/")).text
    assert "shadow mode, it was not sent" in priya.get(desk.refund(intent)).text.lower()


def test_an_alarm_is_closed_with_a_word_on_what_was_done(desk: Desk) -> None:
    as_administrator(
        desk.stack, "INSERT INTO alarms (merchant_id, alarm_id, kind, text) VALUES (%s, gen_random_uuid(), 'look_refused',"
        " 'The provider cannot be asked <b>now</b>')", desk.world.merchant_id,
    )  # fmt: skip
    priya, farah = desk.at(desk.world.priya), desk.at(desk.world.farah)
    page = priya.get(desk.url("/brakes/"))
    assert "The provider cannot be asked <b>now</b>" in page.text
    assert not [form for form in page.forms if "/alarms/" in form.action]
    form = farah.get(desk.url("/brakes/")).form("/closing")
    assert "Say why" in farah.submit(form, status=422, reason="").text
    page = farah.submit(form, reason="Asked the bank; the line was down")
    assert "Asked the bank; the line was down" in page.text
    assert "No alarm is open." in page.text
    farah.submit(form, reason="Again")
    assert desk.rows("SELECT did FROM alarm_closings WHERE merchant_id = :m") == [
        {"did": "Asked the bank; the line was down"}
    ]
