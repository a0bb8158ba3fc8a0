"""The people desk: who works here, and the leaver switch."""

from collections.abc import Callable
from uuid import uuid4

from ledger.database import first, run, transaction
from tests.stack import Stack
from tests.web.pages import Browser
from tests.world import PASSWORD, Person, World, build_world

Opened = Callable[..., Browser]


def at_desk(open_browser: Opened, person: Person) -> Browser:
    made: Browser = open_browser()
    made.sign_in(person)
    return made


def active(stack: Stack, world: World, person: Person) -> tuple[bool, bool]:
    """Whether the membership lives, and whether the person may sign in at all."""
    with transaction(stack.owner, world.merchant_id) as db:
        row = first(
            db, "SELECT m.ended_at IS NULL AS member, s.disabled_at IS NULL AS enabled FROM memberships m"
            " JOIN staff s ON s.staff_id = m.staff_id WHERE s.staff_id = :s AND m.merchant_id = :m",
            s=person.staff_id, m=world.merchant_id,
        )  # fmt: skip
    assert row
    return row["member"], row["enabled"]


def test_an_admin_sees_who_works_here_and_nobody_of_another_merchant(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    build_world(stack, "lantern")
    at_desk(open_browser, world.priya)
    page = at_desk(open_browser, world.ada).get(f"/{world.slug}/people")
    assert "7 people" in page.text
    assert "Priya Raman" in page.text
    assert "lantern.example" not in page.text
    assert "Returns desk" in page.text
    assert page.text.count("never") == 5


def test_switching_a_leaver_off_ends_their_sessions_at_the_next_click(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    priya, ada = at_desk(open_browser, world.priya), at_desk(open_browser, world.ada)
    page = ada.get(f"/{world.slug}/people")
    page = ada.submit(page.form(f"{world.priya.staff_id}/leave"))
    assert "Priya Raman is switched off." in page.text
    assert not [form for form in page.forms if str(world.priya.staff_id) in form.action]
    assert active(stack, world, world.priya) == (False, False)
    assert priya.ask("GET", f"/{world.slug}/sessions").status_code == 303
    form = priya.get("/sign-in").form("/sign-in")
    assert priya.send(form, email=world.priya.email, password=PASSWORD).status_code == 422


def test_pressing_twice_changes_nothing_more(open_browser: Opened, world: World, stack: Stack) -> None:
    ada = at_desk(open_browser, world.ada)
    form = ada.get(f"/{world.slug}/people").form(f"{world.tobias.staff_id}/leave")
    for _ in range(2):
        assert "Tobias Renk is switched off." in ada.submit(form).text
    assert active(stack, world, world.tobias) == (False, False)
    assert active(stack, world, world.priya) == (True, True)


def test_an_admin_cannot_switch_themselves_off(open_browser: Opened, world: World, stack: Stack) -> None:
    ada = at_desk(open_browser, world.ada)
    page = ada.get(f"/{world.slug}/people")
    assert not [form for form in page.forms if str(world.ada.staff_id) in form.action]
    form = page.form("/leave")
    answer = ada.ask("POST", f"/{world.slug}/people/{world.ada.staff_id}/leave", data=form.values)
    assert answer.status_code == 403
    assert active(stack, world, world.ada) == (True, True)


def test_nobody_else_switches_people_off(open_browser: Opened, world: World, stack: Stack) -> None:
    for person in (world.rita, world.priya, world.farah):
        browser = at_desk(open_browser, person)
        values = browser.get(f"/{world.slug}/sessions").form("end-all").values
        answer = browser.ask("POST", f"/{world.slug}/people/{world.tobias.staff_id}/leave", data=values)
        assert answer.status_code == 403
    assert active(stack, world, world.tobias) == (True, True)


def test_a_stranger_and_another_merchants_person_are_not_found(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    lantern = build_world(stack, "lantern")
    ada = at_desk(open_browser, world.ada)
    values = ada.get(f"/{world.slug}/people").form("/leave").values
    for staff_id in (uuid4(), lantern.priya.staff_id):
        answer = ada.ask("POST", f"/{world.slug}/people/{staff_id}/leave", data=values)
        assert answer.status_code == 404
    assert active(stack, lantern, lantern.priya) == (True, True)


def test_a_person_of_two_merchants_leaves_only_the_one(open_browser: Opened, world: World, stack: Stack) -> None:
    lantern = build_world(stack, "lantern")
    with transaction(stack.owner, lantern.merchant_id) as db:
        run(
            db, "INSERT INTO memberships (merchant_id, staff_id, role) VALUES (:m, :s, 'desk')",
            m=lantern.merchant_id, s=world.priya.staff_id,
        )  # fmt: skip
    priya, ada = at_desk(open_browser, world.priya), at_desk(open_browser, world.ada)
    ada.submit(ada.get(f"/{world.slug}/people").form(f"{world.priya.staff_id}/leave"))
    assert active(stack, world, world.priya) == (False, True)
    assert active(stack, lantern, world.priya) == (True, True)
    priya.sign_in(world.priya)
    assert priya.ask("GET", f"/{world.slug}/sessions").status_code == 404
    priya.get(f"/{lantern.slug}/sessions")


def test_a_name_with_hidden_characters_shows_them(open_browser: Opened, world: World, stack: Stack) -> None:
    with transaction(stack.owner) as db:
        run(
            db, "UPDATE staff SET name = :n WHERE staff_id = :s",
            n="Tobias \u202eknaR<script>alert(1)</script>", s=world.tobias.staff_id,
        )  # fmt: skip
    ada = at_desk(open_browser, world.ada)
    page = ada.get(f"/{world.slug}/people")
    assert '<span class="ctl">U+202E</span>' in page.html
    assert "\u202e" not in page.html
    page = ada.submit(page.form(f"{world.tobias.staff_id}/leave"))
    assert "Tobias U+202EknaR<script>alert(1)</script> is switched off." in page.text
    assert "\u202e" not in page.html
