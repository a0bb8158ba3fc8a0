"""The web application, and the `flask` commands. This module alone knows ledger, console and jobs.

    gunicorn --config console/gunicorn_conf.py 'app:create_app()'
    flask db migrate · merchants add · staff add|list|disable|enable|password · tokens new|list|revoke · keys new
    flask jobs run · orders import · reconcile run · ledger verify · entitlement explain|audit · recover · recovered close

Commands find a bare application here (`application`), so that each runs with only the configuration it needs.
"""

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from flask import Flask, request
from jinja2 import StrictUndefined
from werkzeug.middleware.proxy_fix import ProxyFix

import console
from console import access, errors, filters, fragments, gate, log, metrics, passwords, sessions, start
from console.headers import NONCE, SecurityHeaders
from console.installation import NAME, Installation
from console.static_files import StaticFiles
from console.tracing import Traced
from ledger.seals import Sealer
from settings import Settings

KIB = 1024
COMMANDS = (
    "administration:groups",
    "books_commands:groups",
    "entitlement_commands:entitlement",
    "jobs.commands:jobs",
    "order_commands:orders",
    "jobs.recover:recover",
    "jobs.recovered:recovered",
)
# Beside the code, and in no package that is installed elsewhere.
HERE_ONLY = ("demo.commands:demo",)


def create_app(settings: Settings | None = None) -> Flask:
    """The web application of one process. Raises start.Refused with what to do when it must not start (S39, S57, S79)."""
    given = settings or Settings()
    start.refuse_unsafe(given, os.environ)
    if given.cookie_key is None or given.seal_key is None:
        raise start.Refused("COOKIE_KEY or SEAL_KEY is missing.")
    log.configure()
    app = Flask("onceback", root_path=str(start.ROOT), static_folder=None, template_folder="templates")
    engine = start.console_engine(given)
    sealer = Sealer.from_text(given.seal_key.get_secret_value())
    policies = Sealer.from_text(given.automatic_seal_key.get_secret_value()) if given.automatic_seal_key else None
    app.extensions[NAME] = Installation(given, engine, sealer, policies)
    _configure(app, given.cookie_key.get_secret_value())
    app.session_interface = sessions.RowSessions()
    metrics.measure(app)
    gate.guard(app)
    errors.answer_errors(app)
    _add_templates(app)
    _add_blueprints(app)
    access.refuse_unstated(app)
    passwords.prepare()
    _wrap(app, given)
    return app


def _configure(app: Flask, cookie_key: str) -> None:
    # Before anything makes the environment of the templates: Flask would escape by the ending of a name.
    app.jinja_options = {**app.jinja_options, "undefined": StrictUndefined, "autoescape": True}
    app.config.update(
        SECRET_KEY=sessions.derived_key(cookie_key, "forms"),
        DOOR_KEY=sessions.derived_key(cookie_key, "door"),
        DEVICE_KEY=sessions.derived_key(cookie_key, "device"),
        FACTOR_KEY=sessions.derived_key(cookie_key, "second factors"),
        THROTTLE_KEY=sessions.derived_key(cookie_key, "throttle"),
        # Tokens live as long as the session; the gate checks them, after it knows whose session it is.
        WTF_CSRF_TIME_LIMIT=None,
        WTF_CSRF_CHECK_DEFAULT=False,
        WTF_CSRF_SSL_STRICT=False,
        PROVIDE_AUTOMATIC_OPTIONS=False,
        MAX_CONTENT_LENGTH=64 * KIB,
        MAX_FORM_MEMORY_SIZE=64 * KIB,
        MAX_FORM_PARTS=200,
    )


def _add_templates(app: Flask) -> None:
    files = StaticFiles()
    app.extensions["onceback.static"] = files
    app.jinja_env.globals.update(asset=files.asset, integrity=files.integrity)
    app.context_processor(lambda: {"csp_nonce": request.environ.get(NONCE, "")})
    app.url_defaults(fragments.merchant_into_addresses)
    filters.add_filters(app)


def _add_blueprints(app: Flask) -> None:
    for desk in console.DESKS:
        app.register_blueprint(import_module(f"console.{desk}").blueprint)
    for machine in ("console.api", "console.webhooks"):
        app.register_blueprint(import_module(machine).blueprint)


def _wrap(app: Flask, given: Settings) -> None:
    """From the inside out: the proxy's word for address and scheme, static files, then host and headers of every answer."""
    inside: Any = app.wsgi_app
    if given.trusted_hops:
        inside = ProxyFix(inside, x_for=given.trusted_hops, x_proto=given.trusted_hops, x_host=0, x_prefix=0)
    with_files = app.extensions["onceback.static"].in_front_of(inside)
    app.wsgi_app = Traced(SecurityHeaders(with_files, given.public_origin))  # type: ignore[method-assign]


def command_line() -> Flask:
    """An application that serves nothing and holds the commands."""
    commands = Flask("onceback")
    for place in (*COMMANDS, *(place for place in HERE_ONLY if find_spec(place.partition(".")[0]) is not None)):
        module, name = place.split(":")
        found = getattr(import_module(module), name)
        for group in found if isinstance(found, tuple) else (found,):
            commands.cli.add_command(group)
    return commands


def __getattr__(name: str) -> Flask:
    """`flask` looks for `application`; it is made only then, so that the web process loads no worker."""
    if name == "application":
        return command_line()
    raise AttributeError(name)
