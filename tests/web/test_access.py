"""S16-S20: who reaches which view, in which merchant, by which method; and what the writing transaction reads again."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from flask import Flask
from werkzeug.routing import AnyConverter, Rule

from app import create_app
from console import access
from console.access import current, permission, public, reading, refuse_unstated, writing
from ledger.database import run, scalar, transaction
from tests.stack import Stack
from tests.web.conftest import web_settings
from tests.web.pages import Browser
from tests.world import Person, World, build_world

Opened = Callable[..., Browser]
# They look behind the views of their web process, or add some.
pytestmark = pytest.mark.usefixtures("own_web")
MATRIX: Final = Path(__file__).with_name("matrix.txt")
FOUND: Final = Path(__file__).parents[2] / "build" / "matrix.txt"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
ROLES: Final = ("reader", "desk", "manager", "finance", "admin")


def example(rule: Rule) -> dict[str, Any]:
    """Arguments that fit a rule and name nothing that exists."""
    kinds = {
        "UUIDConverter": UUID(int=7),
        "IntegerConverter": 7,
        "UnicodeConverter": "nothing",
        "PathConverter": "no/thing",
    }
    return {
        name: min(converter.items) if isinstance(converter, AnyConverter) else kinds[type(converter).__name__]
        for name, converter in rule._converters.items()
    }


def reached(app: Flask) -> None:
    """Puts a view that only says so in the place of each, so that the gate alone answers."""
    for endpoint, view in app.view_functions.items():
        said = access.stated(view)

        def inside(**_path: Any) -> tuple[str, int]:
            return "", 299

        setattr(inside, access._STATED, said)
        inside.without_form = getattr(view, "without_form", False)  # type: ignore[attr-defined]
        app.view_functions[endpoint] = inside


def asked(browser: Browser, method: str, path: str, token: str) -> str:
    answer = browser.ask(method, path, data={"csrf_token": token} if method not in ("GET", "HEAD") else None)
    if answer.status_code == 299:
        return "in"
    if answer.status_code == 303 and answer.headers["Location"].startswith("/sign-in"):
        return "door"
    return str(answer.status_code)


def lines(app: Flask, who: dict[str, tuple[Browser, str]], world: World) -> Iterator[str]:
    adapter = app.create_url_adapter(None) or app.url_map.bind("console.example", url_scheme="https")
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: (rule.rule, sorted(rule.methods or ()))):
        said = access.stated(app.view_functions[rule.endpoint])
        assert said
        everything = len(rule.methods or ()) == len(METHODS) + 1
        for method in ["ANY"] if everything else sorted(rule.methods or ()):
            line = f"{method:<7} {rule.rule}  {said.kind}: {said.text}"
            if said.kind == "permission":
                path = adapter.build(rule.endpoint, example(rule) | _merchant(rule, world), method=method)
                seen = [f"{name}={asked(browser, method, path, token)}" for name, (browser, token) in who.items()]
                line += "  " + " ".join(seen)
            yield line


def _merchant(rule: Rule, world: World) -> dict[str, str]:
    return {"merchant_slug": world.slug} if "merchant_slug" in rule.arguments else {}


def visitor(open_browser: Opened, person: Person | None, slug: str) -> tuple[Browser, str]:
    browser: Browser = open_browser()
    if person is None:
        return browser, browser.get("/sign-in").form("/sign-in").values["csrf_token"]
    browser.sign_in(person)
    return browser, browser.get(f"/{slug}/sessions").form("end-all").values["csrf_token"]


def test_every_view_takes_whom_the_matrix_says_and_nobody_else(
    app: Flask, open_browser: Opened, world: World, stack: Stack
) -> None:
    """`in`: the view is reached; `door`: sent to sign in; else the status. `other` is a manager of another merchant."""
    lantern = build_world(stack, "lantern")
    people = {
        "reader": world.rita,
        "desk": world.priya,
        "manager": world.mara,
        "finance": world.farah,
        "admin": world.ada,
    }
    who = {role: visitor(open_browser, people[role], world.slug) for role in ROLES}
    who["other"] = visitor(open_browser, lantern.mara, lantern.slug)
    who["nobody"] = visitor(open_browser, None, world.slug)
    reached(app)
    found = "\n".join(lines(app, who, world)) + "\n"
    if os.environ.get("MATRIX") == "write":
        MATRIX.write_text(found, encoding="utf-8")
    FOUND.parent.mkdir(exist_ok=True)
    FOUND.write_text(found, encoding="utf-8")
    assert found == MATRIX.read_text(encoding="utf-8"), (
        "who may do what has changed: read build/matrix.txt line by line; if it is meant, run this test with MATRIX=write"
    )


def test_no_other_method_reaches_a_view(app: Flask, open_browser: Opened, world: World) -> None:
    browser, token = visitor(open_browser, world.mara, world.slug)
    reached(app)
    adapter = app.url_map.bind("console.example", url_scheme="https")
    taken: dict[str, set[str]] = {}
    for rule in app.url_map.iter_rules():
        path = adapter.build(
            rule.endpoint, example(rule) | _merchant(rule, world), method=next(iter(rule.methods or ()))
        )
        taken.setdefault(path, set()).update(rule.methods or ())
    # The API answers every method of every address itself, in problem documents.
    for path, methods in ((path, methods) for path, methods in taken.items() if not path.startswith("/api/")):
        assert "OPTIONS" not in methods
        for method in METHODS:
            if method not in methods:
                assert asked(browser, method, path, token) in ("405", "404"), (method, path)


def test_every_merchant_view_of_the_matrix_is_closed_to_another_merchants_manager() -> None:
    checked = [line for line in MATRIX.read_text(encoding="utf-8").splitlines() if "<merchant_slug>" in line]
    assert checked
    for line in checked:
        assert " other=404 " in line, line
        assert line.endswith("nobody=door"), line


def test_an_app_with_a_view_that_states_nothing_does_not_start(app: Flask) -> None:
    app.add_url_rule("/<merchant_slug>/bare", "bare", lambda: "x")
    with pytest.raises(RuntimeError, match=r"bare .* states neither a permission nor why it is public"):
        refuse_unstated(app)


def test_an_app_with_a_permission_outside_of_a_merchant_does_not_start(app: Flask) -> None:
    app.add_url_rule("/money", "money", permission("approve")(lambda: "x"))
    with pytest.raises(RuntimeError, match=r"money .* needs a merchant in its path"):
        refuse_unstated(app)


def test_a_desk_without_a_permission_keeps_the_app_from_starting(
    stack: Stack, world: World, quick_hashing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from console import people

    monkeypatch.delattr(people.index, "stated_access")
    with pytest.raises(RuntimeError, match="people"):
        create_app(web_settings(stack))


def test_a_permission_that_does_not_exist_cannot_be_stated() -> None:
    with pytest.raises(ValueError, match="there is no permission 'aprove'"):
        permission("aprove")
    with pytest.raises(ValueError, match="say why"):
        public(" ")


def test_two_tabs_of_two_merchants_never_cross(app: Flask, open_browser: Opened, world: World, stack: Stack) -> None:
    """Mara works for both. What tab A sends goes to A's merchant, whatever tab B shows; without membership it is 404."""
    lantern = build_world(stack, "lantern")
    with transaction(stack.owner, lantern.merchant_id) as db:
        run(
            db, "INSERT INTO memberships (merchant_id, staff_id, role) VALUES (:m, :s, 'reader')",
            m=lantern.merchant_id, s=world.mara.staff_id,
        )  # fmt: skip
    seen: list[tuple[str, Any]] = []

    def act() -> str:
        with writing() as db:
            seen.append((current.slug, scalar(db, "SELECT current_setting('onceback.merchant')")))
        return ""

    app.add_url_rule("/<merchant_slug>/act", "act", permission("approve")(act), methods=["POST"])
    mara = open_browser()
    mara.get("/sign-in")
    page = mara.sign_in(world.mara)
    assert "Choose a shop" in page.title
    token = mara.get("/harbour/sessions").form("end-all").values["csrf_token"]
    mara.get("/lantern/sessions")
    assert mara.ask("POST", "/harbour/act", data={"csrf_token": token}).status_code == 200
    assert mara.ask("POST", "/lantern/act", data={"csrf_token": token}).status_code == 403
    assert seen == [("harbour", str(world.merchant_id))]
    with transaction(stack.owner, lantern.merchant_id) as db:
        run(db, "UPDATE memberships SET ended_at = now() WHERE staff_id = :s", s=world.mara.staff_id)
    assert mara.ask("POST", "/lantern/act", data={"csrf_token": token}).status_code == 404
    assert mara.ask("GET", "/lantern/sessions").status_code == 404
    assert mara.ask("GET", "/nowhere-such/sessions").status_code == 404


def test_a_merchant_that_exists_and_one_that_does_not_look_the_same(
    open_browser: Opened, world: World, stack: Stack
) -> None:
    build_world(stack, "lantern")
    priya = open_browser()
    priya.sign_in(world.priya)
    texts = []
    for slug in ("lantern", "noshops"):
        answer = priya.ask("GET", f"/{slug}/sessions")
        assert answer.status_code == 404
        texts.append(len(answer.text.replace(slug, "")))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("UPDATE memberships SET role = 'reader' WHERE staff_id = :s", 403),
        ("UPDATE memberships SET role = 'admin' WHERE staff_id = :s", 403),
        ("UPDATE memberships SET role = 'manager' WHERE staff_id = :s", 200),
        ("UPDATE memberships SET ended_at = now() WHERE staff_id = :s", 404),
        ("UPDATE staff SET disabled_at = now() WHERE staff_id = :s", 404),
    ],
)
def test_what_was_taken_away_between_the_gate_and_the_act_is_seen_in_the_writing_transaction(
    app: Flask, open_browser: Opened, world: World, stack: Stack, change: str, status: int
) -> None:
    done: list[str] = []

    def act() -> str:
        with transaction(stack.owner, world.merchant_id) as db:
            run(db, change, s=world.priya.staff_id)
        with writing():
            done.append("done")
        return ""

    app.add_url_rule("/<merchant_slug>/act", "act", permission("approve")(act), methods=["POST"])
    priya, token = visitor(open_browser, world.priya, world.slug)
    assert priya.ask("POST", f"/{world.slug}/act", data={"csrf_token": token}).status_code == status
    assert done == (["done"] if status == 200 else [])


def test_a_page_cannot_write_whatever_its_code_does(
    app: Flask, open_browser: Opened, world: World, stack: Stack
) -> None:
    def reads() -> str:
        with reading() as db:
            run(db, "UPDATE memberships SET role = 'admin' WHERE staff_id = :s", s=current.staff_id)
        return ""

    def writes() -> str:
        with writing():
            return ""

    app.add_url_rule("/<merchant_slug>/reads", "reads", permission("own_session")(reads))
    app.add_url_rule("/<merchant_slug>/writes", "writes", permission("own_session")(writes))
    priya, _ = visitor(open_browser, world.priya, world.slug)
    for method in ("GET", "HEAD"):
        assert priya.ask(method, f"/{world.slug}/reads").status_code == 500
        assert priya.ask(method, f"/{world.slug}/writes").status_code == 500
    with transaction(stack.owner, world.merchant_id) as db:
        assert scalar(db, "SELECT role FROM memberships WHERE staff_id = :s", s=world.priya.staff_id) == "desk"


def test_the_person_of_a_request_never_leaks_into_the_next_on_the_same_connection(
    stack: Stack, world: World, quick_hashing: None
) -> None:
    """One connection serves all: after A's request and after an error, it belongs to nobody."""
    app = create_app(web_settings(stack, web_pool_size=1))

    def broken() -> str:
        with writing():
            raise RuntimeError

    app.add_url_rule("/<merchant_slug>/broken", "broken", permission("own_session")(broken), methods=["POST"])
    priya = Browser(app, "https://console.example")
    priya.sign_in(world.priya)
    token = priya.get(f"/{world.slug}/sessions").form("end-all").values["csrf_token"]
    assert priya.ask("POST", f"/{world.slug}/broken", data={"csrf_token": token}).status_code == 500
    with app.extensions["onceback"].engine.connect() as db:
        names = ("onceback.merchant", "onceback.staff", "onceback.token")
        left = [db.exec_driver_sql("SELECT current_setting(%s, true)", (name,)).scalar() for name in names]
        assert [text or "" for text in left] == ["", "", ""]
        assert db.exec_driver_sql("SELECT count(*) FROM cases").scalar() == 0
    app.extensions["onceback"].engine.dispose()
