"""Signing in and out. Unknown, locked, disabled and wrong are one answer: same words, status, headers and work (S3)."""

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
from wtforms import EmailField, HiddenField, PasswordField
from wtforms.validators import InputRequired, Length

from console import entering, passwords, sessions, throttle
from console.access import half, permission, public
from console.devices import known_device
from console.errors import error_page
from console.forms import TypedForm, refuse_unknown
from console.installation import installed
from console.log import log
from console.routes import known_path
from console.sessions import own
from ledger.database import first, run, transaction

blueprint = Blueprint("sign_in", __name__)

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
            device=known_device(account.staff_id) if account else None,
        )
    if tried.verdict == "flood":
        return _too_many(tried.verdict)
    try:
        found = _check(account, tried, form.password.data or "", form.next.data)
    except passwords.Busy:
        return _too_many("busy")
    if account is None or found is None:
        known = account.staff_id if account else ""
        log.warning("sign_in_refused", staff_id=known, reason=_reason(account, tried), address=request.remote_addr)
        return _door(form, status=422, refused=True)
    stage, session_id = found
    if stage:
        log.info("password_right", staff_id=account.staff_id, address=request.remote_addr, state=stage)
        return entering.to_step(stage, session_id)
    return entering.entered(account.staff_id, session_id, form.next.data or url_for("home.index"))


@blueprint.post("/sign-out")
@half("", "factor", "enrolment")
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


def _check(account: Account | None, tried: throttle.Try, password: str, next_path: str) -> tuple[str, str] | None:
    """Compares, and on success begins the session, or a half one (S6); returns what it waits for and its id.

    Always one comparison, outside of any transaction. Raises Busy.
    """
    may = account is not None and not account.disabled and tried.verdict == "go"
    right = passwords.matches(account.password_hash if account and may else None, password)
    if account is None or not right:
        return None
    fresh = passwords.hash_password(password) if passwords.outdated(account.password_hash) else account.password_hash
    with transaction(installed().engine) as db:
        # Whoever is disabled or gets another password while argon2 works stays outside.
        if not run(db, _RIGHT, fresh=fresh, s=account.staff_id, known=account.password_hash):
            return None
        throttle.forgive(db, tried)
        stage = entering.stage_of(db, account.staff_id)
        if stage:
            return stage, entering.wait_for(db, account.staff_id, stage, next_path)
        return stage, entering.begin_whole(db, account.staff_id)


_ACCOUNT: Final = "SELECT staff_id, password_hash, disabled_at IS NOT NULL AS disabled FROM staff WHERE email = :email"
_RIGHT: Final = """
    UPDATE staff SET password_hash = :fresh
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


_NEWS: Final = {
    "network": (
        "Sign in again before you act on money.",
        "Your network is another one than when you signed in. Nothing was done.",
    ),
    "factor": ("Your shop asks for a second factor.", "Sign in again: you add one then, which takes a minute."),
    "over": ("You were signed out.", "A session lasts ten hours. Sign in again."),
    "slow": ("That took too long.", "Begin again with your password."),
}


def _door(form: SignInForm, *, status: int = 200, refused: bool = False) -> Response:
    ended, signed_out, came = own().pop("ended", None), own().pop("signed_out", None), own().pop("came", None)
    fault = ended.get("fault", "") if ended else ""
    note = None
    if signed_out:
        note = {"tone": "ok", "strong": "You are signed out.", "text": ""}
    elif came:
        note = {"tone": "ok", "strong": "You are in.", "text": "Sign in with the password you chose."}
    elif fault in _NEWS:
        kept = f" {ended['kept']} is kept." if ended["kept"] else ""
        note = {"tone": "info", "strong": _NEWS[fault][0], "text": _NEWS[fault][1] + kept}
    view = {
        "form": form,
        "action_url": url_for("sign_in.enter"),
        "refused": refused,
        "note": note,
        "ended": {"minutes": sessions.IDLE_MINUTES, "kept": ended["kept"]} if fault == "idle" else None,
    }
    return make_response(render_template("signin.html", **view), status)
