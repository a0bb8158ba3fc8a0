"""S54, S19: a form of ours, from our own page, with our own fields; anything else changes nothing."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledger.database import scalar, transaction
from tests.stack import Stack
from tests.web.pages import Browser
from tests.world import PASSWORD, World

Opened = Callable[..., Browser]


def open_sessions(stack: Stack, world: World) -> int:
    with transaction(stack.owner) as db:
        found: int = scalar(
            db, "SELECT count(*) FROM sessions WHERE staff_id = :s AND ended_at IS NULL", s=world.priya.staff_id
        )
    return found


@pytest.fixture
def priya(open_browser: Opened, world: World) -> Browser:
    made: Browser = open_browser()
    made.sign_in(world.priya)
    made.get(f"/{world.slug}/sessions")
    return made


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Sec-Fetch-Site": "cross-site"}, 400),
        ({"Sec-Fetch-Site": "same-site"}, 400),
        ({"Sec-Fetch-Site": "none"}, 400),
        ({"Origin": "https://console.example"}, 303),
        ({"Origin": "https://evil.example"}, 400),
        ({"Origin": "null"}, 400),
        ({"Origin": "http://console.example"}, 400),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://console.example"}, 400),
        ({}, 400),
    ],
)
def test_a_form_counts_only_from_our_own_page(
    priya: Browser, stack: Stack, world: World, headers: dict[str, str], status: int
) -> None:
    form = priya.shown.form("end-all")
    answer = priya.ask("POST", form.action, data=form.values, headers=headers, site=None)
    assert answer.status_code == status
    assert open_sessions(stack, world) == (0 if status == 303 else 1)


@pytest.mark.parametrize("token", [None, "", "x", "forged.token.here"])
def test_a_form_without_our_token_changes_nothing(
    priya: Browser, stack: Stack, world: World, token: str | None
) -> None:
    form = priya.shown.form("end-all")
    values = {"operation": form.values["operation"]} | ({} if token is None else {"csrf_token": token})
    assert priya.ask("POST", form.action, data=values).status_code == 400
    assert open_sessions(stack, world) == 1


def test_the_token_of_another_person_is_not_ours(priya: Browser, open_browser: Opened, world: World) -> None:
    tobias = open_browser()
    tobias.sign_in(world.tobias)
    his = tobias.get(f"/{world.slug}/sessions").form("end-all")
    assert priya.ask("POST", his.action, data=his.values).status_code == 400


def test_a_token_lives_as_long_as_the_session(priya: Browser, stack: Stack, world: World, time_machine: Any) -> None:
    """Nine hours later the page that stayed open still works: only the database's clock ends a session."""
    form = priya.shown.form("end-all")
    time_machine.move_to(datetime.now(UTC) + timedelta(hours=9))
    assert priya.ask("POST", form.action, data=form.values).status_code == 303
    assert open_sessions(stack, world) == 0


def test_nobody_is_signed_in_by_another_sites_form(open_browser: Opened, world: World) -> None:
    victim = open_browser()
    victim.get("/sign-in")
    data = {"email": world.tobias.email, "password": PASSWORD, "next": ""}
    assert victim.ask("POST", "/sign-in", data=data).status_code == 400
    attacker = open_browser()
    data["csrf_token"] = attacker.get("/sign-in").form("/sign-in").values["csrf_token"]
    assert victim.ask("POST", "/sign-in", data=data).status_code == 400
    assert victim.ask("POST", "/sign-in", data=data, site="cross-site").status_code == 400
    assert victim.cookie("__Host-onceback") is None


@pytest.mark.parametrize(
    "extra", ["amount_minor", "destination", "merchant_id", "role", "strength", "actor", "Операция"]
)
def test_a_field_that_the_form_does_not_have_is_refused(priya: Browser, stack: Stack, world: World, extra: str) -> None:
    form = priya.shown.form("end-all")
    answer = priya.send(form, **{extra: "1"})
    assert answer.status_code == 422
    assert "this form has no such field" in answer.text
    assert open_sessions(stack, world) == 1


def test_a_text_that_the_database_cannot_keep_is_refused_by_its_field(
    priya: Browser, stack: Stack, world: World
) -> None:
    answer = priya.send(priya.shown.form("end-all"), operation="0" * 31 + "\0")
    assert answer.status_code == 422
    assert "operation: holds a character that cannot be kept" in answer.text
    assert open_sessions(stack, world) == 1


@pytest.mark.parametrize("address", ["/policies/%00/1", "/policies/drafting?of=%00", "/queue/?q=a%00b"])
def test_an_address_with_a_character_that_no_row_has_is_no_address(
    open_browser: Opened, world: World, address: str
) -> None:
    mara = open_browser()
    mara.sign_in(world.mara)
    assert mara.ask("GET", f"/{world.slug}{address}").status_code == 400


def test_a_field_given_twice_is_refused(priya: Browser, stack: Stack, world: World) -> None:
    form = priya.shown.form("end-all")
    twice = {**form.values, "operation": [form.values["operation"], "0" * 32]}
    assert priya.ask("POST", form.action, data=twice).status_code == 422
    assert open_sessions(stack, world) == 1


@pytest.mark.parametrize("operation", ["", "short", "a b" * 10, "x" * 65, "'; DROP TABLE sessions; --"])
def test_an_operation_key_that_is_none_is_refused(priya: Browser, stack: Stack, world: World, operation: str) -> None:
    assert priya.send(priya.shown.form("end-all"), operation=operation).status_code == 422
    assert open_sessions(stack, world) == 1


def test_a_body_above_the_limit_is_refused(priya: Browser, stack: Stack, world: World) -> None:
    assert priya.send(priya.shown.form("end-all"), operation="x" * 70_000).status_code == 413
    many = {f"f{n}": "1" for n in range(300)}
    form = priya.shown.form("end-all")
    answer = priya.ask("POST", form.action, data=form.values | many, content_type="multipart/form-data")
    assert answer.status_code == 413
    assert open_sessions(stack, world) == 1
