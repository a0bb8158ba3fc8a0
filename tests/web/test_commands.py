"""The commands of whoever sets the console up."""

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner, Result
from flask.cli import FlaskGroup
from sqlalchemy.exc import DBAPIError

from app import command_line
from console.installation import NAME
from ledger.database import first, rows, run, scalar, transaction
from ledger.log_fields import ALLOWED
from ledger.seals import Sealer
from tests import in_question
from tests.stack import Stack
from tests.web.pages import Browser
from tests.world import PASSWORD, World, build_world

Opened = Callable[..., Browser]
ROOT = Path(__file__).parents[2]
NEW_PASSWORD = "the kettle sang twice before noon"


def flask(url: str, *words: str, given: str = "") -> tuple[int, str]:
    """Runs a command in this process; returns its status and what it said, without the lines of the log."""
    done = _in_this_process(url, words, given)
    return done.exit_code, _said(done.stdout, done.stderr)


def _in_this_process(url: str, words: Sequence[str], given: str = "") -> Result:
    logging_as_it_was, handlers = structlog.get_config(), logging.getLogger(NAME).handlers[:]
    nothing_else = {name: None for name in os.environ if name.isupper() and name not in ("PATH", "HOME")}
    try:
        done = CliRunner().invoke(
            FlaskGroup(create_app=command_line), words, input=given,
            env={**nothing_else, "DATABASE_URL": url, "ENVIRONMENT": "test"},
        )  # fmt: skip
    finally:
        structlog.configure(**logging_as_it_was)
        logging.getLogger(NAME).handlers[:] = handlers
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def flask_process(url: str, *words: str, given: str = "") -> tuple[int, str]:
    """The same as a person runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "flask", *words], cwd=ROOT, input=given, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "DATABASE_URL": url, "ENVIRONMENT": "test"}, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, _said(done.stdout, done.stderr)


def _said(output: str, errors: str) -> str:
    return output + "".join(line for line in errors.splitlines(keepends=True) if not line.startswith("{"))


@pytest.fixture
def empty(stack: Stack) -> Stack:
    """A migrated database with nothing in it."""
    return stack


def test_a_merchant_a_person_and_a_token_are_made_from_nothing(empty: Stack) -> None:
    owner = empty.owner_url
    assert flask_process(owner, "db", "migrate") == (0, "The schema is the newest.\n")
    made = [
        "merchants",
        "add",
        "harbour",
        "--name",
        "Harbour & Co",
        "--zone",
        "Europe/London",
        "--credential",
        "harbour",
    ]
    status, said = flask_process(owner, *made, "--cap", "EUR=5000.00", "--cap", "JPY=700000")
    assert status == 0, said
    person = ["staff", "add", "harbour", "Priya@Harbour.example", "--name", "Priya Raman", "--role", "desk"]
    status, said = flask_process(owner, *person, given=f"{NEW_PASSWORD}\n")
    assert (status, said) == (0, "Priya Raman signs in as priya@harbour.example: desk of harbour.\n")
    token = ["tokens", "new", "harbour", "--name", "Chat", "--channel", "chat", "--scope", "cases:open"]
    status, said = flask_process(owner, *token, "--scope", "cases:read")
    assert status == 0, said
    assert re.search(r"^ob_test_[a-z0-9]{12}_[0-9a-f]{64}$", said, re.MULTILINE)
    status, said = flask_process(owner, "staff", "list", "harbour")
    assert "priya@harbour.example" in said
    assert "last sign-in never" in said
    with transaction(empty.owner) as db:
        merchant_id = scalar(db, "SELECT id FROM merchants WHERE slug = 'harbour'")
    with transaction(empty.owner, merchant_id) as db:
        assert scalar(db, "SELECT limit_minor FROM caps WHERE currency = 'EUR'") == 500000
        assert scalar(db, "SELECT limit_minor FROM caps WHERE currency = 'JPY'") == 700000
        row = first(db, "SELECT password_hash FROM staff")
        assert row
        assert row["password_hash"].startswith("$argon2id$v=19$m=65536,t=3,p=1$")


@pytest.mark.parametrize(
    ("words", "given", "says"),
    [
        (["staff", "add", "harbour", "new@harbour.example", "--name", "New", "--role", "desk"], "short\n", "at least 15"),
        (
            ["staff", "add", "harbour", "new@harbour.example", "--name", "Nia New", "--role", "desk"],
            "nia-new-harbour-1\n", "made of names that others know",
        ),
        (["staff", "add", "nowhere", "new@x.example", "--name", "N", "--role", "desk"], f"{NEW_PASSWORD}\n", "no merchant"),
        (["staff", "add", "harbour", "no-address", "--name", "N", "--role", "desk"], f"{NEW_PASSWORD}\n", "email: is not"),
        (["staff", "disable", "nobody@x.example"], "", "Nobody signs in with"),
        (["staff", "disable", "nobody@x.example", "--lost-since", "yesterday"], "", "give a date and time with offset"),
        (["staff", "disable", "nobody@x.example", "--lost-since", "2026-11-30T09:00"], "", "say the offset too"),
        (["staff", "disable", "nobody@x.example", "--lost-since", "2199-01-01T00:00+00:00"], "", "is in the future"),
        (["merchants", "add", "api", "--name", "A", "--zone", "UTC", "--credential", "a"], "", "slug: is taken by an address"),
        (["merchants", "add", "harbour", "--name", "A", "--zone", "UTC", "--credential", "a"], "", "slug: is another merchant's"),
        (["merchants", "add", "new", "--name", "A", "--zone", "Mars", "--credential", "a"], "", "zone: is a name such as"),
        (["merchants", "add", "NEW!", "--name", "A", "--zone", "UTC", "--credential", "a"], "", "refused a value"),
        (
            ["merchants", "add", "new", "--name", "A", "--zone", "UTC", "--credential", "a", "--cap", "EUR=1,00"], "",
            "EUR=1,00",
        ),
        (["merchants", "add", "new", "--name", "A", "--zone", "UTC", "--credential", "a", "--live"], "", "every merchant of a"),
        (
            ["tokens", "new", "harbour", "--name", "S", "--channel", "shop", "--scope", "orders:import", "--scope", "cases:open"],
            "", "never on a token with another scope",
        ),
        (["tokens", "new", "harbour", "--name", "S", "--channel", "shop", "--scope", "x", "--days", "181"], "", "1 to 180"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(stack: Stack, world: World, words: list[str], given: str, says: str) -> None:
    status, said = flask(stack.owner_url, *words, given=given)
    assert status != 0
    assert says in said
    assert len(said.strip().splitlines()) <= 4


def test_the_console_role_cannot_make_a_merchant_and_is_told_which_can(stack: Stack, world: World) -> None:
    words = ["merchants", "add", "new", "--name", "A", "--zone", "UTC", "--credential", "a"]
    assert "give DATABASE_URL of onceback_owner" in flask(stack.console_url, *words)[1]


def test_a_database_that_is_away_and_a_missing_address_are_said(stack: Stack) -> None:
    assert "does not answer" in flask("postgresql://onceback_owner:x@127.0.0.1:9/none", "staff", "list", "harbour")[1]
    assert "DATABASE_URL is not an address" in flask("", "staff", "list", "harbour")[1]


def test_an_address_that_production_lacks_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "flask", "db", "migrate"], cwd=ROOT, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "Error: The configuration is not complete: PUBLIC_ORIGIN must be https in production.\n"


def test_a_new_password_ends_the_sessions_of_the_old(open_browser: Opened, stack: Stack, world: World) -> None:
    priya = open_browser()
    priya.sign_in(world.priya)
    status, said = flask(stack.console_url, "staff", "password", world.priya.email, given=f"{NEW_PASSWORD}\n")
    assert status == 0, said
    assert NEW_PASSWORD not in said
    assert priya.ask("GET", f"/{world.slug}/sessions").status_code == 303
    form = priya.get("/sign-in").form("/sign-in")
    assert priya.send(form, email=world.priya.email, password=PASSWORD).status_code == 422
    priya.sign_in(world.priya, NEW_PASSWORD)


def test_a_person_is_switched_off_and_on_again(open_browser: Opened, stack: Stack, world: World) -> None:
    priya = open_browser()
    priya.sign_in(world.priya)
    assert flask(stack.console_url, "staff", "disable", world.priya.email)[0] == 0
    assert priya.ask("GET", f"/{world.slug}/sessions").status_code == 303
    words = ("staff", "enable", world.priya.email, "--by", "Edda", "--reason", "Mara says she is back")
    assert "give DATABASE_URL of onceback_owner" in flask(stack.console_url, *words)[1]
    assert flask(stack.owner_url, "staff", "enable", world.priya.email)[0] == 2
    assert flask(stack.owner_url, *words) == (0, f"{world.priya.email} may sign in.\n")
    priya.sign_in(world.priya)
    with transaction(stack.owner) as db:
        kept = rows(db, "SELECT engineer, reason FROM people_let_in WHERE staff_id = :s", s=world.priya.staff_id)
    assert [(row["engineer"], row["reason"]) for row in kept] == [("Edda", "Mara says she is back")]


def test_nobody_is_let_in_again_past_the_record(stack: Stack, world: World) -> None:
    """Neither by a plain change of the row nor by being added once more."""
    assert flask(stack.owner_url, "staff", "disable", world.priya.email)[0] == 0
    with pytest.raises(DBAPIError, match="let in on the record"), transaction(stack.console) as db:
        run(db, "UPDATE staff SET disabled_at = NULL WHERE staff_id = :s", s=world.priya.staff_id)
    again = ["staff", "add", world.slug, world.priya.email, "--name", "Priya Raman", "--role", "desk"]
    assert "They are switched off: `flask staff enable` lets them sign in." in flask(stack.owner_url, *again)[1]
    with transaction(stack.owner) as db:
        assert scalar(db, "SELECT disabled_at IS NOT NULL FROM staff WHERE staff_id = :s", s=world.priya.staff_id)


def test_what_commands_change_is_in_the_log_without_a_secret_or_a_name(stack: Stack, world: World) -> None:
    said: list[dict[str, object]] = []
    text = ""
    acts = (
        (["staff", "add", world.slug, "nia@harbour.example", "--name", "Nia New", "--role", "desk"], f"{NEW_PASSWORD}\n"),
        (["staff", "role", world.slug, "nia@harbour.example", "manager"], ""),
        (["staff", "password", "nia@harbour.example"], f"{NEW_PASSWORD} and more\n"),
        (["staff", "disable", "nia@harbour.example"], ""),
        (["staff", "enable", "nia@harbour.example", "--by", "Edda", "--reason", "still here"], ""),
        (["tokens", "new", world.slug, "--name", "Chat", "--channel", "chat", "--scope", "cases:open"], ""),
        (["tokens", "revoke", world.slug, world.chat.token_id], ""),
        (["brakes", "pause", world.slug, "--reason", "a rehearsal", "--by", "Edda"], ""),
    )  # fmt: skip
    secret = ""
    for words, given in acts:
        done = _in_this_process(stack.owner_url, words, given)
        assert done.exit_code == 0, done.output
        lines = [line for line in done.stderr.splitlines() if line.startswith("{")]
        said += [json.loads(line) for line in lines]
        text += "".join(lines)
        secret = done.stdout.strip() if words[:2] == ["tokens", "new"] else secret
    assert [line["event"] for line in said] == [
        "person_added", "role_changed", "password_set", "person_switched_off", "person_let_in", "token_made", "token_revoked",
        "brake_pulled",
    ]  # fmt: skip
    assert all(set(line) <= ALLOWED and line["engineer"] for line in said)
    with transaction(stack.owner) as db:
        nia = scalar(db, "SELECT staff_id::text FROM staff WHERE email = 'nia@harbour.example'")
    assert {line.get("staff_id") for line in said[:5]} == {nia}
    assert said[4]["engineer"] == said[7]["engineer"] == "Edda"
    assert secret.startswith("ob_test_")
    for never in (NEW_PASSWORD, "Nia", "nia@", secret.rpartition("_")[2], "still here", "a rehearsal"):
        assert never not in text


def test_new_keys_fit_their_processes_and_are_never_the_same(stack: Stack) -> None:
    texts = [flask("", "keys", "new")[1] for _ in range(2)]
    assert texts[0] != texts[1]
    found = dict(line.split("=", 1) for line in texts[0].splitlines())
    assert len(found["COOKIE_KEY"]) == 64
    assert f'["{Sealer.from_text(found["SEAL_KEY"]).public_text()}"]' == found["SEAL_PUBLIC_KEYS"]
    assert found["SEAL_KEY"].partition(":")[2] not in found["SEAL_PUBLIC_KEYS"]
    assert f'["{Sealer.from_text(found["AUTOMATIC_SEAL_KEY"]).public_text()}"]' == found["AUTOMATIC_SEAL_PUBLIC"]
    assert found["AUTOMATIC_SEAL_PUBLIC"] != found["SEAL_PUBLIC_KEYS"]


def test_a_password_is_never_an_argument() -> None:
    for command in ("add", "password"):
        assert "--password" not in flask("", "staff", command, "--help")[1]


def test_a_token_is_listed_without_its_secret_and_revoked_by_its_id(stack: Stack, world: World) -> None:
    owner, chat = stack.owner_url, world.chat.token_id
    with transaction(stack.owner, world.merchant_id) as db:
        run(db, "UPDATE api_tokens SET last_used_at = '2026-11-29 08:30+00' WHERE token_id = :i", i=chat)
        secrets = [bytes(row["secret_hash"]) for row in rows(db, "SELECT secret_hash FROM api_tokens")]
    status, said = flask(owner, "tokens", "list", world.slug)
    assert status == 0, said
    [line] = [line for line in said.splitlines() if line.startswith(chat)]
    assert re.search(r"  live  .*, chat: cases:open cases:read; created 20\d\d-", line)
    assert line.endswith("last used 2026-11-29 08:30 UTC, revoked never")
    assert world.chat.secret not in said
    assert not any(secret.hex() in said for secret in secrets)
    assert flask(owner, "tokens", "revoke", world.slug, chat) == (0, f"Token {chat} is revoked.\n")
    with transaction(stack.owner, world.merchant_id) as db:
        dead = rows(db, "SELECT token_id FROM api_tokens WHERE revoked_at IS NOT NULL")
    assert [row["token_id"] for row in dead] == [chat]
    assert flask(stack.console_url, "tokens", "revoke", world.slug, chat) == (0, f"Token {chat} was revoked before.\n")
    other = build_world(stack, "northwind")
    status, said = flask(owner, "tokens", "revoke", other.slug, world.warehouse.token_id)
    assert (status, "no token of that id" in said) == (1, True), said
    assert re.search(
        rf"^{chat}  revoked  .*revoked 20\d\d-", flask(owner, "tokens", "list", world.slug)[1], re.MULTILINE
    )


def test_a_policy_is_published_by_two_people_and_never_beside_another(empty: Stack, tmp_path: Path) -> None:
    owner = empty.owner_url
    flask(
        owner, "merchants", "add", "harbour", "--name", "Harbour", "--zone", "Europe/London", "--credential", "harbour"
    )
    document = tmp_path / "policy.json"
    document.write_text('{"policy_id": "usual", "version": 1, "refund_trigger": "received"}')
    words = ["policies", "publish", "harbour", str(document), "--author", "Mara Velthuis", "--since", "2026-01-01"]
    status, said = flask(owner, *words, "--approver", "mara velthuis ")
    assert (status, "two people" in said) == (1, True), said
    assert flask(owner, *words, "--approver", "Jonas Okonjo") == (0, "usual@1 is in force for harbour.\n")
    status, said = flask(owner, *words, "--approver", "Jonas Okonjo")
    assert (status, "usual@1 is in force in that time" in said) == (1, True), said
    document.write_text('{"policy_id": "usual", "version": 2, "refund_trigger": "whenever"}')
    status, said = flask(owner, *words, "--approver", "Jonas Okonjo")
    assert (status, "refund_trigger" in said) == (1, True), said
    with transaction(empty.owner) as db:
        pin = first(db, "SELECT id FROM merchants")
    assert pin is not None
    with transaction(empty.owner, pin["id"]) as db:
        assert scalar(db, "SELECT count(*) FROM policies") == 1


def test_an_engineer_pauses_by_command_and_no_command_starts_again(empty: Stack) -> None:
    owner = empty.owner_url
    for slug in ("harbour", "quay"):
        flask(owner, "merchants", "add", slug, "--name", slug, "--zone", "Europe/London", "--credential", slug)
    assert flask(owner, "brakes", "show")[1].count("no brake is on") == 2
    words = ("--reason", "The key leaked", "--by", "Edda")
    assert flask(owner, "brakes", "pause", "harbour", *words) == (0, "Refunds of harbour are paused.\n")
    said = flask(owner, "brakes", "show")[1].splitlines()
    assert "pause since" in said[0]
    assert "no brake is on" in said[1]
    assert flask(owner, "brakes", "pause", "--all", *words) == (0, "Refunds of every merchant are paused.\n")
    said = flask(owner, "brakes", "show")[1].splitlines()
    assert "all since" in said[0]
    assert "all since" in said[1]
    assert flask(owner, "brakes", "pause", *words)[0] == 2
    assert flask(owner, "brakes", "pause", "nowhere", *words)[0] == 1
    for name in ("resume", "start", "release"):
        assert flask(owner, "brakes", name, "harbour")[0] == 2


def test_orders_in_question_are_listed_with_what_is_wrong_and_who_proposed_what(stack: Stack, world: World) -> None:
    order_id = in_question.amiss(stack, world)
    in_question.twice(stack, world, "Q-2")
    in_question.propose(stack, world, order_id, "first/total", world.mara)
    status, said = flask(stack.console_url, "orders", "in-question", "--merchant", world.slug)
    assert status == 0
    assert "line_gap_large  total 6600, captured 6600 minor units of GBP  proposed by Mara Velthuis" in said
    assert "import_changed" in said
    assert "2 orders in question." in said
