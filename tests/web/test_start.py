"""S39, S79, S80 as far as they are owed: when a web process refuses to start, in words, without showing a secret."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app import create_app
from console import start
from console.static_files import FOLDER, StaticFiles
from ledger.seals import new_key
from settings import Settings
from tests.stack import Stack
from tests.web.conftest import COOKIE_KEY, web_settings
from tests.world import World

SEAL = new_key("seal-start")
LIVE = "rk_" + "live_0123456789abcdef"


def given(**other: Any) -> Settings:
    usual: dict[str, Any] = {
        "environment": "production", "database_url": "postgresql://nobody@127.0.0.1:9/none",
        "public_origin": "https://console.example", "cookie_key": COOKIE_KEY, "seal_key": SEAL,
    }  # fmt: skip
    return Settings(**(usual | other))


def test_a_process_with_what_it_needs_has_no_fault() -> None:
    assert start.start_faults(given(), {}) == []


@pytest.mark.parametrize(
    ("other", "environ", "says"),
    [
        ({"cookie_key": None}, {}, "COOKIE_KEY is missing or shorter than 32"),
        ({"cookie_key": "short"}, {}, "COOKIE_KEY is missing or shorter than 32"),
        ({"cookie_key": "a" * 40}, {}, "COOKIE_KEY looks like an example"),
        ({"cookie_key": "change-me-1234567890-abcdefghijklmno"}, {}, "COOKIE_KEY looks like an example"),
        ({"cookie_key": SEAL.partition(":")[2]}, {}, "COOKIE_KEY and SEAL_KEY are the same"),
        ({"seal_key": None}, {}, "SEAL_KEY: a seal key is written"),
        ({"seal_key": "seal:tooshort"}, {}, "SEAL_KEY: a seal key is written"),
        ({"automatic_seal_key": f"other:{SEAL.partition(':')[2]}"}, {}, "AUTOMATIC_SEAL_KEY is a key of another use"),
        ({"automatic_seal_key": "policy:tooshort"}, {}, "AUTOMATIC_SEAL_KEY: a seal key is written"),
        ({"provider_keys": {"harbour": LIVE}}, {}, "PROVIDER_KEYS is given to the web process"),
        ({"webhook_secrets": {"harbour": ("whsec_1", "")}}, {}, "WEBHOOK_SECRETS has an empty secret for harbour"),
        ({"webhook_secrets": {"harbour": (" ",)}}, {}, "WEBHOOK_SECRETS has an empty secret for harbour"),
        ({"public_origin": "https://console.example/"}, {}, "PUBLIC_ORIGIN has to be scheme and host"),
        ({"public_origin": "https://Console.example"}, {}, "PUBLIC_ORIGIN has to be scheme and host"),
        ({"public_origin": "https://a@console.example"}, {}, "PUBLIC_ORIGIN has to be scheme and host"),
        ({}, {"FLASK_DEBUG": "1"}, "FLASK_DEBUG is set in production"),
        ({}, {"FLASK_TESTING": "true"}, "FLASK_TESTING is set in production"),
    ],
)
def test_each_fault_is_named_and_no_secret_shown(other: dict[str, Any], environ: dict[str, str], says: str) -> None:
    configured = given(**other)
    with pytest.raises(start.Refused, match="The console does not start") as refused:
        start.refuse_unsafe(configured, environ)
    assert says in str(refused.value)
    for secret in (COOKIE_KEY, SEAL, SEAL.partition(":")[2], LIVE, "1234567890-abcdefghijklmno"):
        assert secret not in str(refused.value)


@pytest.mark.parametrize("other", [{"public_origin": "http://console.example"}, {"environment": "prod"}])
def test_production_on_plain_http_and_an_unknown_environment_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        given(**other)


def test_settings_show_no_secret() -> None:
    configured = given(provider_keys={"harbour": LIVE}, webhook_secrets={"harbour": ("whsec_secretsecret",)})
    for text in (repr(configured), str(configured), str(configured.model_dump())):
        for secret in (COOKIE_KEY, SEAL, LIVE, "whsec_secretsecret", "nobody@127.0.0.1"):
            assert secret not in text


def test_the_installation_of_an_app_shows_no_secret(app: Any, stack: Stack) -> None:
    text = repr(app.extensions["onceback"])
    password = stack.console_url.split(":")[2].split("@")[0]
    for secret in (COOKIE_KEY, password):
        assert secret not in text


@pytest.mark.parametrize("role", ["owner_url", "worker_url", "admin_url"])
def test_another_database_role_is_refused(stack: Stack, world: World, role: str) -> None:
    url = getattr(stack, role)
    with pytest.raises(start.Refused, match="has to be onceback_console"):
        create_app(web_settings(stack, database_url=url))


def test_a_database_that_does_not_answer_is_said_in_one_sentence(stack: Stack) -> None:
    with pytest.raises(start.Refused, match="The database does not answer: check DATABASE_URL"):
        create_app(web_settings(stack, database_url="postgresql://onceback_console:x@127.0.0.1:9/none"))


def test_one_altered_byte_in_a_foreign_file_keeps_the_console_from_starting(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    shutil.copytree(FOLDER, folder)
    StaticFiles(folder)
    script = folder / "vendor" / "htmx.min.js"
    script.write_bytes(script.read_bytes().replace(b"htmx", b"htmy", 1))
    with pytest.raises(RuntimeError, match=r"vendor/htmx\.min\.js is not the file that was reviewed"):
        StaticFiles(folder)
    (folder / "vendor" / "integrity.json").write_text(json.dumps({}))
    (folder / "console.css").unlink()
    with pytest.raises(RuntimeError, match=r"console\.css is missing"):
        StaticFiles(folder)
