"""S61: an error shows a reference and nothing from inside, and nothing of the request is kept."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import BadRequest, Conflict, RequestEntityTooLarge, TooManyRequests

from console.access import current, permission, writing
from ledger import errors
from ledger.database import run, scalar, transaction
from tests.stack import Stack
from tests.web.pages import Browser
from tests.world import World

Opened = Callable[..., Browser]
pytestmark = pytest.mark.usefixtures("own_web")
SECRET = "4242 secret detail of Ilse Brandt"


def act(app: Flask, body: Callable[[Any], None]) -> None:
    """A desk's act that writes something and then does `body` with its transaction."""

    def view() -> str:
        with writing() as db:
            run(
                db, "INSERT INTO alarms (merchant_id, alarm_id, kind, text) VALUES (:m, gen_random_uuid(), 'test', 'kept')",
                m=current.merchant_id,
            )  # fmt: skip
            body(db)
        return "done"

    app.add_url_rule("/<merchant_slug>/act", "act", permission("own_session")(view), methods=["POST"])


def press(open_browser: Opened, world: World) -> Any:
    priya = open_browser()
    priya.sign_in(world.priya)
    token = priya.get(f"/{world.slug}/sessions").form("end-all").values["csrf_token"]
    return priya.ask("POST", f"/{world.slug}/act", data={"csrf_token": token})


def kept(stack: Stack, world: World) -> int:
    with transaction(stack.owner, world.merchant_id) as db:
        found: int = scalar(db, "SELECT count(*) FROM alarms WHERE kind = 'test'")
    return found


def test_an_act_without_an_error_is_kept(app: Flask, open_browser: Opened, world: World, stack: Stack) -> None:
    act(app, lambda _db: None)
    assert press(open_browser, world).status_code == 200
    assert kept(stack, world) == 1


def raises(error: Exception) -> Callable[[Any], None]:
    def body(_db: Any) -> None:
        raise error

    return body


def runs(sql: str) -> Callable[[Any], None]:
    def body(db: Any) -> None:
        run(db, sql)

    return body


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (raises(RuntimeError(SECRET)), 500, "The console stopped on an error"),
        (raises(KeyError(SECRET)), 500, "The console stopped on an error"),
        (raises(AssertionError(SECRET)), 500, "The console stopped on an error"),
        (raises(errors.NotFound(SECRET)), 404, "There is no such page"),
        (raises(errors.NotAllowed()), 403, "Your role does not allow this."),
        (raises(errors.SamePerson()), 403, "another person has to approve it"),
        (raises(errors.Stale()), 409, "This changed while you were reading. Nothing was sent."),
        (raises(errors.WrongState()), 409, "no longer in a state that allows this"),
        (raises(errors.AlreadyDecided()), 409, "already approved"),
        (raises(errors.BadInput("amount", "is not one")), 422, "amount: is not one"),
        (raises(errors.KeyInUse()), 409, "Try again in 5 seconds."),
        (raises(BadRequest(SECRET)), 400, "This request could not be read"),
        (raises(Conflict(SECRET)), 409, "This changed while you were reading"),
        (raises(TooManyRequests(SECRET)), 429, "Too many tries"),
        (raises(RequestEntityTooLarge(SECRET)), 413, "What you sent is too large"),
        (raises(PoolTimeout(SECRET)), 503, "cannot reach its records"),
        (runs("SELECT 1 / 0"), 500, "The console stopped on an error"),
        (runs("SELECT secret FROM nowhere"), 500, "The console stopped on an error"),
        (runs("DELETE FROM approvals"), 500, "The console stopped on an error"),
        (runs("INSERT INTO merchant_brakes SELECT * FROM merchant_brakes"), 500, "The console stopped on an error"),
        (runs("INSERT INTO idempotency_keys VALUES (gen_random_uuid(), 's', 'k', '', 1, '{}')"), 500, ""),
        (runs("UPDATE cap_days SET limit_minor = -1"), 200, ""),
        (runs("SET LOCAL statement_timeout = '50ms'; SELECT pg_sleep(2)"), 503, "cannot reach its records"),
        (runs("SELECT pg_terminate_backend(pg_backend_pid())"), 503, "cannot reach its records"),
    ],
)
def test_whatever_is_raised_the_page_names_a_reference_and_nothing_from_inside(
    capsys: pytest.CaptureFixture[str], app: Flask, open_browser: Opened, world: World, stack: Stack,
    body: Callable[[Any], None], status: int, says: str,
) -> None:  # fmt: skip
    act(app, body)
    answer = press(open_browser, world)
    assert answer.status_code == status
    if status == 200:
        return
    assert says in answer.text
    assert re.search(r"reference <code>[0-9A-F]{10}</code>", answer.text)
    for inside in (
        SECRET,
        "Traceback",
        "psycopg",
        "SELECT",
        "INSERT",
        "nowhere",
        "permission denied",
        "sqlalchemy",
        ".py",
    ):
        assert inside not in answer.text, inside
    said = capsys.readouterr().out
    assert "signed_in" in said
    assert SECRET not in said
    assert kept(stack, world) == 0


def test_a_guard_of_the_database_that_held_is_a_conflict_without_its_name(
    capsys: pytest.CaptureFixture[str], app: Flask, open_browser: Opened, world: World
) -> None:
    slug = "INSERT INTO sessions (session_hash, user_agent_hash, address) SELECT session_hash, '', '' FROM sessions LIMIT 1"
    act(app, runs(slug))
    answer = press(open_browser, world)
    assert answer.status_code == 409
    for inside in ("sessions_pkey", "duplicate", "23505", "Key ("):
        assert inside not in answer.text
    said = capsys.readouterr().out
    assert '"sqlstate": "23505"' in said
    assert "sessions_pkey" not in said


def test_the_reference_on_the_page_finds_the_record_in_the_log(
    capsys: pytest.CaptureFixture[str], app: Flask, open_browser: Opened, world: World
) -> None:
    act(app, raises(RuntimeError(SECRET)))
    answer = press(open_browser, world)
    found = re.search(r"reference <code>([0-9A-F]{10})</code>", answer.text)
    assert found
    [line] = [line for line in capsys.readouterr().out.splitlines() if found[1] in line]
    assert '"error": "RuntimeError"' in line
    assert "test_errors.py:" in line
    assert str(world.priya.staff_id) in line


def test_an_error_page_is_whole_even_when_the_database_is_gone(
    app: Flask, open_browser: Opened, world: World, stack: Stack
) -> None:
    priya = open_browser()
    priya.sign_in(world.priya)
    engine = app.extensions["onceback"].engine
    engine.dispose()
    stack.server.run(f'ALTER DATABASE "{stack.name}" ALLOW_CONNECTIONS false'.encode())
    page = priya.get(f"/{world.slug}/sessions", 503)
    assert "The console cannot reach its records" in page.title
