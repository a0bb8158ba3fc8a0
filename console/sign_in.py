"""Signing in and out. Unknown, locked, disabled and wrong are one answer: same words, status, headers and work (S3)."""

import secrets
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from flask import (
    Blueprint,
    Response,
    current_app,
    g,
    make_response,
    redirect,
    render_template,
    request,
    url_for,
)
from itsdangerous import BadSignature, URLSafeTimedSerializer
from wtforms import EmailField, HiddenField, PasswordField
from wtforms.validators import InputRequired, Length

from console import passwords, sessions, throttle
from console.access import permission, public
from console.errors import error_page
from console.forms import TypedForm, refuse_unknown
from console.installation import installed
from console.log import log
from console.routes import known_path
from console.sessions import own
from ledger.database import first, run, transaction

blueprint = Blueprint("sign_in", __name__)

DEVICE_COOKIE: Final = "__Host-device"
DEVICE_DAYS: Final = 90
RETRY_SECONDS: Final = 60


class SignInForm(TypedForm):
    """`next` is a local path that the router knows, or nothing."""

    email = EmailField("E-mail", validators=[InputRequired("Enter your e-mail address."), Length(max=254)])
    password = PasswordField("Password", validators=[InputRequired("Enter your password."), Length(max=1024)])
    next = HiddenField()


@dataclass(frozen=True)
class Account:
    """The row behind an e-mail address."""

    staff_id: UUID
    password_hash: str
    disabled: bool


@blueprint.get("/sign-in")
@public("the door: it reads nothing but the signed door cookie")
def sign_in() -> Response:
    form = SignInForm(formdata=None)
    form.next.data = known_path(request.args.get("next")) or ""
    return _door(form)


@blueprint.post("/sign-in")
@public("the door: who passes is decided here, by password and throttle")
def enter() -> Response:
    form = SignInForm()
    refuse_unknown({"email", "password", "next", "csrf_token"})
    form.next.data = known_path(form.next.data) or ""
    if not form.validate():
        return _door(form, status=422)
    email = (form.email.data or "").strip().lower()
    with transaction(installed().engine) as db:
        account = _account(first(db, _ACCOUNT, email=email))
        tried = throttle.take(
            db,
            current_app.config["THROTTLE_KEY"],
            email=email,
            address=request.remote_addr or "",
            device=_device(account),
        )
    if tried.verdict == "flood":
        return _too_many(tried.verdict)
    try:
        signed_in = _check(account, tried, form.password.data or "")
    except passwords.Busy:
        return _too_many("busy")
    if account is None or not signed_in:
        known = account.staff_id if account else ""
        log.warning("sign_in_refused", staff_id=known, reason=_reason(account, tried), address=request.remote_addr)
        return _door(form, status=422, refused=True)
    log.info("signed_in", staff_id=account.staff_id, address=request.remote_addr)
    response = make_response(redirect(form.next.data or url_for("home.index"), 303))
    _remember_device(response, account.staff_id)
    return response


@blueprint.post("/sign-out")
@permission("own_session")
def sign_out() -> Response:
    leave_session()
    with transaction(installed().engine) as db:
        sessions.end(db, own().digest or b"")
    log.info("signed_out", staff_id=g.person.staff_id)
    return signed_out_response()


@blueprint.post("/kept-note")
@permission("own_session")
def keep_note() -> Response:
    """For a page whose session ran out under a typed note: the gate keeps it. A session that lives has nothing to keep."""
    return Response(status=204)


def leave_session() -> None:
    """The browser forgets its session; the sign-in page says so."""
    held = own()
    held.clear()
    held.live, held.drop_cookie = False, True
    held["signed_out"] = True


def signed_out_response() -> Response:
    """To the door, with what the browser kept of our pages thrown away. Not "cookies": that would take the device's."""
    response = make_response(redirect(url_for("sign_in.sign_in"), 303))
    response.headers["Clear-Site-Data"] = '"cache", "storage"'
    return response


def _check(account: Account | None, tried: throttle.Try, password: str) -> bool:
    """Compares, and on success begins the session. Always one comparison, outside of any transaction. Raises Busy."""
    may = account is not None and not account.disabled and tried.verdict == "go"
    right = passwords.matches(account.password_hash if account and may else None, password)
    if account is None or not right:
        return False
    fresh = passwords.hash_password(password) if passwords.outdated(account.password_hash) else account.password_hash
    with transaction(installed().engine) as db:
        # Whoever is disabled or gets another password while argon2 works stays outside.
        if not run(db, _SIGNED_IN, fresh=fresh, s=account.staff_id, known=account.password_hash):
            return False
        throttle.forgive(db, tried)
        session_id = sessions.begin(db, account.staff_id, request.user_agent.string, request.remote_addr or "")
        sessions.end(db, own().digest or b"")
    own().become(session_id)
    return True


_ACCOUNT: Final = "SELECT staff_id, password_hash, disabled_at IS NOT NULL AS disabled FROM staff WHERE email = :email"
_SIGNED_IN: Final = """
    UPDATE staff SET last_sign_in_at = now(), password_hash = :fresh
    WHERE staff_id = :s AND disabled_at IS NULL AND password_hash = :known
"""


def _account(row: Any) -> Account | None:
    return Account(**row) if row else None


def _reason(account: Account | None, tried: throttle.Try) -> str:
    if tried.verdict != "go":
        return tried.verdict
    return "unknown" if account is None else "disabled" if account.disabled else "wrong"


def _too_many(reason: str) -> Response:
    log.warning("sign_in_refused", reason=reason, address=request.remote_addr)
    return error_page(429, retry_after_seconds=RETRY_SECONDS)


def _door(form: SignInForm, *, status: int = 200, refused: bool = False) -> Response:
    ended, signed_out = own().pop("ended", None), own().pop("signed_out", None)
    note = None
    if signed_out:
        note = {"tone": "ok", "strong": "You are signed out.", "text": ""}
    elif ended and ended.get("network"):
        kept = f" {ended['kept']} is kept." if ended["kept"] else ""
        note = {"tone": "info", "strong": "Sign in again before you act on money.",
                "text": f"Your network is another one than when you signed in. Nothing was done.{kept}"}  # fmt: skip
    elif ended and not ended["idle"]:
        note = {"tone": "info", "strong": "You were signed out.", "text": "A session lasts ten hours. Sign in again."}
    view = {
        "form": form,
        "action_url": url_for("sign_in.enter"),
        "refused": refused,
        "note": note,
        "ended": {"minutes": sessions.IDLE_MINUTES, "kept": ended["kept"]} if ended and ended["idle"] else None,
    }
    return make_response(render_template("signin.html", **view), status)


def _device_signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(current_app.config["DEVICE_KEY"], salt="device")


def _device(account: Account | None) -> str | None:
    """The id of this browser when this very person has signed in from it in the last 90 days."""
    shown = request.cookies.getlist(DEVICE_COOKIE)
    if account is None or len(shown) != 1:
        return None
    try:
        staff, device = _device_signer().loads(shown[0], max_age=DEVICE_DAYS * 86400)
    except (BadSignature, ValueError, TypeError):
        return None
    return f"{staff}:{device}" if staff == str(account.staff_id) else None


def _remember_device(response: Response, staff_id: UUID) -> None:
    text = _device_signer().dumps([str(staff_id), secrets.token_urlsafe(16)])
    response.set_cookie(
        DEVICE_COOKIE, str(text), max_age=DEVICE_DAYS * 86400, secure=True, httponly=True, samesite="Lax", path="/"
    )
