"""A person's own second factors: the authenticator app and recovery codes (S4, S7, S8). Their passkeys are in `passkeys`.

Adding or removing anything takes what was just shown, spends it, and ends the person's other sessions. Recovery codes are in
the answer to the one POST that made them, and nowhere else.
"""

from typing import Any, Final

import pyotp
import segno
from flask import Blueprint, Response, g, url_for
from sqlalchemy import Connection
from wtforms import PasswordField, StringField
from wtforms.validators import InputRequired, Length

from console import notices, passwords, sessions, showing, words
from console.access import current, permission, reading, writing
from console.errors import error_page
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.installation import installed
from console.log import log
from console.showing import here, key_of_seeds, me
from ledger import factors
from ledger.database import transaction
from ledger.passkeys import passkeys_of
from ledger.revocation import revoke_proofs

blueprint = Blueprint("factors", __name__, url_prefix="/<merchant_slug>/factors")

ISSUER: Final = "Onceback"
RETRY_SECONDS: Final = 60
KIND_TEXTS: Final = {
    "password": "your password", "recovery": "a recovery code", "totp": "a code of your app", "passkey": "your passkey",
}  # fmt: skip
# Light space around a QR code, in modules (ISO/IEC 18004).
QUIET_ZONE: Final = 4


class CodeForm(ConsoleForm):
    """Six digits of an app."""

    code = StringField("Code from your app", validators=[InputRequired("Enter the six digits."), Length(max=12)])


class PasswordForm(ConsoleForm):
    """The password, of whoever has nothing else yet."""

    password = PasswordField("Your password", validators=[InputRequired("Enter your password."), Length(max=1024)])


class RecoveryForm(PasswordForm):
    """A recovery code, and the password beside it."""

    recovery = StringField("Recovery code", validators=[InputRequired("Enter a recovery code."), Length(max=80)])


@blueprint.get("")
@permission("own_session")
def index() -> Response:
    return _page()


@blueprint.post("/code")
@permission("own_session")
def show_code() -> Response:
    """Shows a code of the app."""
    form = CodeForm()
    error = first_error(form) or showing.show_code(str(form.code.data))
    return _page(errors={"code": error}) if error else _shown()


@blueprint.post("/password")
@permission("own_session")
def show_password() -> Response:
    """Shows the password, for a first factor."""
    form = PasswordForm()
    try:
        error = first_error(form) or showing.show_password(str(form.password.data))
    except passwords.Busy:
        return error_page(429, retry_after_seconds=RETRY_SECONDS)
    return _page(errors={"password": error}) if error else _shown()


@blueprint.post("/recovery")
@permission("own_session")
def show_recovery() -> Response:
    """Shows a recovery code: it pays for a new factor, and never for a refund."""
    form = RecoveryForm()
    try:
        error = first_error(form) or showing.show_password(str(form.password.data), str(form.recovery.data))
    except passwords.Busy:
        return error_page(429, retry_after_seconds=RETRY_SECONDS)
    return _page(errors={"recovery": error}) if error else _shown()


@blueprint.post("/app")
@permission("own_session")
def begin_app() -> Response:
    """Makes a seed for a new app; the next page shows it."""
    ConsoleForm().require()
    with transaction(installed().engine) as db:
        factors.spend(db, me(), here())
        factors.begin_app(db, me(), here(), key_of_seeds())
    return see_other("factors.new_app")


@blueprint.get("/app")
@permission("own_session")
def new_app() -> Response:
    """The seed that waits for its first code, as a QR code and as text."""
    return _new_app_page("")


@blueprint.post("/app/first-code")
@permission("own_session")
def confirm_app() -> Response:
    """Takes the app into use with its first code; the first factor comes with recovery codes, shown here once."""
    form = CodeForm()
    codes: list[str] | None = None
    error = first_error(form)
    if not error:
        error, codes = showing.confirm_app(str(form.code.data), _app_added)
    if error:
        return _new_app_page(error)
    log.warning("factor_added", staff_id=me(), kind="totp")
    if codes:
        return _codes_page(codes)
    say("ok", "Your authenticator app is in use.", "For a day it approves no refund; after that it does.")
    return see_other("factors.index")


@blueprint.post("/app/removal")
@permission("own_session")
def remove_app() -> Response:
    """Removes the app; what its codes had approved and was not sent is held."""
    ConsoleForm().require()
    with writing() as db:
        factors.spend(db, me(), here())
        factors.end_app(db, me())
        sessions.end_others(db, me(), here())
        held = revoke_proofs(db, me(), current.actor)
        notices.factor_changed(db, me(), "Your authenticator app was removed.")
    log.warning("factor_removed", staff_id=me(), kind="totp", count=held)
    say("ok", "Your authenticator app is removed.", f"Its codes open nothing any more.{words.held_too(held)}")
    return see_other("factors.index")


@blueprint.post("/codes")
@permission("own_session")
def new_codes() -> Response:
    """Ten fresh recovery codes, in this answer only."""
    ConsoleForm().require()
    with transaction(installed().engine) as db:
        factors.spend(db, me(), here())
        codes = factors.new_codes(db, me())
        notices.factor_changed(db, me(), "Ten new recovery codes were made; those before are over.")
    log.warning("recovery_codes_made", staff_id=me())
    return _codes_page(codes)


def first_error(form: ConsoleForm) -> str:
    """The first fault of a form of one field or two, or ""."""
    return "" if form.validate() else str(next(error for field in form for error in field.errors))


def _app_added(db: Connection) -> list[str]:
    """Ends the person's other sessions and tells them; the recovery codes that come with a first factor."""
    sessions.end_others(db, me(), here())
    notices.factor_changed(db, me(), "An authenticator app was added.")
    return factors.new_codes(db, me()) if not factors.codes_left(db, me()) else []


def _shown() -> Response:
    say("ok", "That was you.", "It counts for five minutes here, for one change.")
    return see_other("factors.index")


def _new_app_page(error: str) -> Response:
    with reading() as db:
        secret = factors.waiting_secret(db, me(), here(), key_of_seeds())
        if secret is None:
            return see_other("factors.index")
        shown = app_shown(secret) | {
            "action_url": url_for("factors.confirm_app"), "operation": new_operation(), "back_url": url_for("factors.index"),
            "error": error,
        }  # fmt: skip
        return page("factor_app.html", status=422 if error else 200, app=shown)


def app_shown(secret: str) -> dict[str, Any]:
    """A secret as an app takes it: {qr, secret}, the secret in groups of four."""
    address = pyotp.TOTP(secret).provisioning_uri(name=g.person.email, issuer_name=ISSUER)
    return {"qr": qr(address), "secret": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4))}


def _codes_page(codes: list[str]) -> Response:
    with reading():
        return page("factor_codes.html", codes=codes, back_url=url_for("factors.index"))


def qr(text: str) -> dict[str, Any]:
    """A QR code as the path of one SVG shape: {size, path}, in modules. Without an image, style or script of its own."""
    rows = [list(row) for row in segno.make(text, micro=False).matrix_iter(border=QUIET_ZONE)]
    path = "".join(f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, dark in enumerate(row) if dark)
    return {"size": len(rows), "path": path}


def _page(errors: dict[str, str] | None = None) -> Response:
    with reading() as db:
        app, keys, fresh = factors.find_app(db, me()), passkeys_of(db, me()), showing.fresh(db)
        view: dict[str, Any] = {
            "errors": {"code": "", "password": "", "recovery": "", "key": ""} | (errors or {}),
            "shown": fresh and fresh | {"kind_text": KIND_TEXTS[fresh["kind"]]},
            "show": _ways(has_app=app is not None, has_keys=bool(keys)),
            "app": app and {
                "confirmed_at": app.confirmed_at, "last_used_at": app.last_used_at, "signs_from": _later(app.signs_from),
                "remove_url": url_for("factors.remove_app"), "operation": new_operation(),
            },
            "add_app": None if app else {"url": url_for("factors.begin_app"), "operation": new_operation()},
            "keys": [
                {
                    "name": key.name, "kind_text": "this device only" if key.device_bound else "may be synced",
                    "enrolled_at": key.enrolled_at, "last_used_at": key.last_used_at, "signs_from": _later(key.signs_from),
                    "remove_url": url_for("passkeys.remove", mark=sessions.mark_of(key.credential_id)),
                    "operation": new_operation(),
                }
                for key in keys
            ],
            "add_key": {
                "url": url_for("passkeys.add"), "challenge_url": url_for("passkeys.begin"), "operation": new_operation(),
            },
            "codes": {"left": factors.codes_left(db, me()), "url": url_for("factors.new_codes"), "operation": new_operation()},
        }  # fmt: skip
        return page("factors.html", status=422 if any(view["errors"].values()) else 200, **view)


def _later(at: Any) -> Any:
    """A time that has not come yet, or None."""
    return at if at > g.person.now else None


def _ways(*, has_app: bool, has_keys: bool) -> dict[str, Any]:
    """How this person may show that it is them."""
    bare = not has_app and not has_keys
    return {
        "code": {"url": url_for("factors.show_code"), "operation": new_operation()} if has_app else None,
        "key": {
            "url": url_for("passkeys.show"), "challenge_url": url_for("passkeys.begin_showing"), "operation": new_operation(),
        } if has_keys else None,
        "password": {"url": url_for("factors.show_password"), "operation": new_operation()} if bare else None,
        "recovery": None if bare else {"url": url_for("factors.show_recovery"), "operation": new_operation()},
    }  # fmt: skip
