"""A person's own time zone, theme and keys, and that pages keep to them."""

from tests.refunds import as_administrator
from tests.web.desk import Desk
from tests.web.pages import Form, Page
from tests.world import Person


def keeps(desk: Desk, person: Person, **values: str) -> Page:
    browser = desk.at(person)
    form = browser.get(desk.url("/settings")).form("/settings")
    form.values |= values
    if not form.values.get("shortcuts"):
        form.values.pop("shortcuts", None)
    return browser.submit(form)


def test_times_are_shown_in_the_zone_a_person_chose_and_in_the_shops_for_the_others(desk: Desk) -> None:
    page = keeps(desk, desk.world.priya, zone="Asia/Kolkata")
    assert "Your settings are kept." in page.text
    as_administrator(desk.stack, "UPDATE sessions SET created_at = date_trunc('hour', now()) - interval '2 hours'")
    began = as_administrator(
        desk.stack, "SELECT to_char(created_at AT TIME ZONE 'Asia/Kolkata', 'HH24:MI') AS there,"
        " to_char(created_at AT TIME ZONE 'Europe/London', 'HH24:MI') AS shop FROM sessions"
    )[0]  # fmt: skip
    page = desk.at(desk.world.priya).get(desk.url("/sessions"))
    assert began["there"] in page.text
    assert "Kolkata" in page.text
    page = keeps(desk, desk.world.priya, zone="")
    page = desk.at(desk.world.priya).get(desk.url("/sessions"))
    assert began["there"] not in page.text
    assert began["shop"] in page.text
    assert "London" in page.text


def test_a_theme_is_on_every_page_from_the_next_one_on(desk: Desk) -> None:
    assert 'data-bs-theme="dark"' in keeps(desk, desk.world.priya, theme="dark").html
    assert 'data-bs-theme="dark"' in desk.at(desk.world.priya).get(desk.url("/queue/")).html
    assert "data-bs-theme" not in keeps(desk, desk.world.priya, theme="system").html


def test_keys_that_are_off_stay_off(desk: Desk) -> None:
    assert 'data-keys="on"' in desk.at(desk.world.priya).get(desk.url("/queue/")).html
    page = keeps(desk, desk.world.priya, shortcuts="")
    assert 'data-keys="off"' in page.html
    assert "You have switched keys off." in page.text
    assert "shortcuts" not in page.form("/settings").values


def test_a_zone_or_theme_that_does_not_exist_is_refused(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    form = priya.get(desk.url("/settings")).form("/settings")
    for wrong in ({"zone": "Mars/Olympus"}, {"theme": "neon"}, {"zone": "../../etc/passwd"}):
        page = priya.submit(Form(form.action, form.method, form.values | wrong), status=422)
        assert page.title.startswith("Error:")
    assert as_administrator(desk.stack, "SELECT DISTINCT zone, theme FROM staff") == [{"zone": "", "theme": "system"}]


def test_settings_of_one_person_are_nobody_elses(desk: Desk) -> None:
    keeps(desk, desk.world.priya, zone="Asia/Tokyo", theme="dark")
    found = as_administrator(desk.stack, "SELECT name FROM staff WHERE zone <> '' OR theme <> 'system'")
    assert [row["name"] for row in found] == ["Priya Raman"]
