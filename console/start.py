"""When a web process must not start: unsafe or missing configuration, or a database role that could do too much."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import Engine
from sqlalchemy.exc import ArgumentError, DBAPIError

from ledger.database import connect
from ledger.database_role import WrongRole, check_role
from ledger.seals import Sealer
from settings import Settings

ROOT: Final = Path(__file__).parents[1]
ROLE: Final = "onceback_console"
SHORTEST_SECRET: Final = 32
_DEFAULTS: Final = ("changeme", "change-me", "secret", "default", "example", "placeholder", "insecure")


class Refused(RuntimeError):
    """This process must not start; the message says what to do."""


def refuse_unsafe(given: Settings, environ: Mapping[str, str] = os.environ) -> None:
    """Raises Refused with one sentence for each fault."""
    faults = start_faults(given, environ)
    if faults:
        raise Refused("The console does not start.\n" + "\n".join(f"- {fault}" for fault in faults))


def start_faults(given: Settings, environ: Mapping[str, str]) -> list[str]:
    """Why a web process must not start with this configuration; empty when it may. No sentence repeats a value."""
    return [*_key_faults(given), *_origin_faults(given), *_debug_faults(given, environ)]


def _key_faults(given: Settings) -> list[str]:
    faults = []
    cookie = given.cookie_key.get_secret_value() if given.cookie_key else ""
    seal = given.seal_key.get_secret_value() if given.seal_key else ""
    automatic = given.automatic_seal_key.get_secret_value() if given.automatic_seal_key else ""
    if len(cookie) < SHORTEST_SECRET:
        faults.append(
            f"COOKIE_KEY is missing or shorter than {SHORTEST_SECRET} characters: take one of `flask keys new`."
        )
    elif len(set(cookie)) < 10 or any(word in cookie.lower() for word in _DEFAULTS):
        faults.append("COOKIE_KEY looks like an example: take one of `flask keys new`.")
    if cookie and cookie in seal:
        faults.append("COOKIE_KEY and SEAL_KEY are the same: each use has a key of its own.")
    try:
        Sealer.from_text(seal)
    except ValueError as error:
        faults.append(f"SEAL_KEY: {error}.")
    faults += _automatic_faults(seal, automatic, cookie)
    if given.provider_keys:
        faults.append(
            "PROVIDER_KEYS is given to the web process. Only workers may call the provider: take it away here."
        )
    if given.smtp_password is not None:
        faults.append("SMTP_PASSWORD is given to the web process. Only workers send mail: take it away here.")
    blank = [
        shop
        for shop, secrets in given.webhook_secrets.items()
        if not all(one.get_secret_value().strip() for one in secrets)
    ]
    if blank:
        faults.append(
            f"WEBHOOK_SECRETS has an empty secret for {', '.join(sorted(blank))}: anybody could sign with that. Take it out."
        )
    return faults


def _automatic_faults(seal: str, automatic: str, cookie: str) -> list[str]:
    """Of the key that seals what policies approve; a process without one approves nothing by itself."""
    if not automatic:
        return []
    if automatic.partition(":")[2] == seal.partition(":")[2] or (cookie and cookie in automatic):
        return ["AUTOMATIC_SEAL_KEY is a key of another use: take one of its own from `flask keys new`."]
    try:
        Sealer.from_text(automatic)
    except ValueError as error:
        return [f"AUTOMATIC_SEAL_KEY: {error}."]
    return []


def _origin_faults(given: Settings) -> list[str]:
    parts = urlsplit(given.public_origin)
    exact = f"{parts.scheme}://{parts.netloc}" == given.public_origin == given.public_origin.lower()
    if not exact or parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
        return ["PUBLIC_ORIGIN has to be scheme and host as a browser sends them, such as https://console.example."]
    return []


def _debug_faults(given: Settings, environ: Mapping[str, str]) -> list[str]:
    if given.environment != "production":
        return []
    return [
        f"{name} is set in production: take it away."
        for name in ("FLASK_DEBUG", "FLASK_TESTING", "PYTHONINSPECT", "WERKZEUG_DEBUG_PIN")
        if environ.get(name, "").lower() not in ("", "0", "false", "no")
    ]


def console_engine(given: Settings) -> Engine:
    """Connections as the console's role. Raises Refused when the database does not answer, or the role is another or may
    do too much."""
    try:
        engine = connect(given.database_url.get_secret_value(), pool_size=given.web_pool_size, name="web")
        check_role(engine, ROLE)
    except ArgumentError:
        raise Refused("DATABASE_URL is not an address such as postgresql://onceback_console:…@host/onceback.") from None
    except WrongRole as error:
        raise Refused(error.sentence) from None
    except DBAPIError:
        raise Refused("The database does not answer: check DATABASE_URL and that it runs.") from None
    return engine
