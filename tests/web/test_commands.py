"""The commands of whoever sets the console up."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.database import first, rows, run, scalar, transaction
from ledger.seals import Sealer
from tests.stack import Stack
from tests.web.pages import Browser
from tests.world import PASSWORD, World, build_world

Opened = Callable[..., Browser]
ROOT = Path(__file__).parents[2]
NEW_PASSWORD = "the kettle sang twice before noon"


def flask(url: str, *words: str, given: str = "") -> tuple[int, str]:
    """Runs a command as a person would; returns its status and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "flask", *words], cwd=ROOT, input=given, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "DATABASE_URL": url, "ENVIRONMENT": "test"}, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def empty(stack: Stack) -> Stack:
    """A migrated database with nothing in it."""
    return stack


def test_a_merchant_a_person_and_a_token_are_made_from_nothing(empty: Stack) -> None:
    owner = empty.owner_url
    assert flask(owner, "db", "migrate") == (0, "The schema is the newest.\n")
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
    status, said = flask(owner, *made, "--cap", "EUR=5000.00", "--cap", "JPY=700000")
    assert status == 0, said
    person = ["staff", "add", "harbour", "Priya@Harbour.example", "--name", "Priya Raman", "--role", "desk"]
    status, said = flask(owner, *person, given=f"{NEW_PASSWORD}\n")
    assert (status, said) == (0, "Priya Raman signs in as priya@harbour.example: desk of harbour.\n")
    token = ["tokens", "new", "harbour", "--name", "Chat", "--channel", "chat", "--scope", "cases:open"]
    status, said = flask(owner, *token, "--scope", "cases:read")
    assert status == 0, said
    assert re.search(r"^ob_test_[a-z0-9]{12}_[0-9a-f]{64}$", said, re.MULTILINE)
    status, said = flask(owner, "staff", "list", "harbour")
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
    assert flask(stack.console_url, "staff", "enable", world.priya.email)[0] == 0
    priya.sign_in(world.priya)


def test_new_keys_fit_their_processes_and_are_never_the_same(stack: Stack) -> None:
    texts = [flask("", "keys", "new")[1] for _ in range(2)]
    assert texts[0] != texts[1]
    found = dict(line.split("=", 1) for line in texts[0].splitlines())
    assert len(found["COOKIE_KEY"]) == 64
    assert f'["{Sealer.from_text(found["SEAL_KEY"]).public_text()}"]' == found["SEAL_PUBLIC_KEYS"]
    assert found["SEAL_KEY"].partition(":")[2] not in found["SEAL_PUBLIC_KEYS"]


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
