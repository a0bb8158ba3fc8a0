"""Adding the first second factor at the door, where the merchant asks for one, or a new one after a recovery code (S6, S8).

Only a half session that waits for this gets here: the password, or a recovery code beside it, was shown minutes ago. What is
added ends the half session and every other of the person, and begins a whole one; it signs no money for a day (S7).
"""

from flask import Blueprint, Response, make_response, redirect, render_template, url_for
from sqlalchemy import Connection

from console import entering, notices, passkeys, sessions, showing
from console.access import half, permission
from console.factors import CodeForm, app_shown, first_error
from console.forms import ConsoleForm, new_operation
from console.installation import installed
from console.log import log
from console.passkeys import NO_SCRIPT, NewKeyForm
from console.sessions import own
from console.showing import here, key_of_seeds, me, nonce_of, party
from ledger import factors
from ledger.database import transaction
from ledger.errors import BadInput, WrongState
from ledger.passkey_proof import ProofRefused
from ledger.passkeys import enrol, spend_ceremony

blueprint = Blueprint("enrolment", __name__, url_prefix="/sign-in/enrolment")


@blueprint.get("")
@half("enrolment")
@permission("own_session")
def index() -> Response:
    return _page("")


@blueprint.post("/app")
@half("enrolment")
@permission("own_session")
def begin_app() -> Response:
    """Makes a seed for the app; the next page shows it."""
    ConsoleForm().require()
    with transaction(installed().engine) as db:
        factors.begin_app(db, me(), here(), key_of_seeds(), replacing=_recovered())
    return make_response(redirect(url_for("enrolment.new_app"), 303))


@blueprint.get("/app")
@half("enrolment")
@permission("own_session")
def new_app() -> Response:
    """The seed that waits for its first code."""
    return _app_page("")


@blueprint.post("/app/first-code")
@half("enrolment")
@permission("own_session")
def confirm_app() -> Response:
    """Takes the app into use with its first code, and lets the person in."""
    form = CodeForm()
    if error := first_error(form):
        return _app_page(error)
    error, let_in = showing.confirm_app(
        str(form.code.data), lambda db: _let_in(db, "An authenticator app"), door=True, replacing=_recovered()
    )
    return _added("totp", *let_in) if let_in else _app_page(error)


@blueprint.post("/key/challenge")
@half("enrolment")
@permission("own_session")
def begin_key() -> Response:
    """What a new key is made with."""
    ConsoleForm().require()
    return passkeys.asked_for_new()


@blueprint.post("/key")
@half("enrolment")
@permission("own_session")
def add_key() -> Response:
    """Keeps a new key, and lets the person in."""
    form = NewKeyForm()
    form.require()
    if not form.answer.data:
        return _page(NO_SCRIPT)
    try:
        with transaction(installed().engine) as db:
            spend_ceremony(db, me(), here(), "enrol", nonce_of(str(form.nonce.data)))
        with transaction(installed().engine) as db:
            enrol(
                db, me(), str(form.name.data or ""), str(form.answer.data), nonce_of(str(form.nonce.data)), party(),
                installed().sealer,
            )  # fmt: skip
            session_id, codes = _let_in(db, "A passkey")
    except (ProofRefused, BadInput, WrongState) as refused:
        log.warning("factor_refused", staff_id=me(), kind="passkey", reason=refused.code)
        return _page(refused.sentence.removeprefix("name: "))
    return _added("passkey", session_id, codes)


def _recovered() -> bool:
    return bool(own().get(entering.RECOVERED))


def _let_in(db: Connection, what: str) -> tuple[str, list[str]]:
    """The whole session, the only one the person has now, and ten recovery codes where none is left."""
    session_id = entering.begin_whole(db, me())
    notices.factor_changed(db, me(), f"{what} was added{', with a recovery code' if _recovered() else ''}.")
    sessions.end_others(db, me(), sessions.digest_of(session_id))
    return session_id, [] if factors.codes_left(db, me()) else factors.new_codes(db, me())


def _added(kind: str, session_id: str, codes: list[str]) -> Response:
    log.warning("factor_added", staff_id=me(), kind=kind)
    path = entering.next_path()
    if not codes:
        return entering.entered(me(), session_id, path)
    response = make_response(render_template("enrolment_codes.html", codes=codes, next_url=path))
    entering.hand_over(response, me(), session_id)
    return response


def _app_page(error: str) -> Response:
    with transaction(installed().engine, read_only=True) as db:
        secret = factors.waiting_secret(db, me(), here(), key_of_seeds())
    if secret is None:
        return _page("" if not error else "That took too long. Begin again.")
    shown = app_shown(secret) | {
        "action_url": url_for("enrolment.confirm_app"), "operation": new_operation(),
        "back_url": url_for("enrolment.index"), "error": error,
    }  # fmt: skip
    return make_response(render_template("enrolment_app.html", app=shown), 422 if error else 200)


def _page(error: str) -> Response:
    view = {
        "error": error,
        "recovered": _recovered(),
        "app": {"url": url_for("enrolment.begin_app"), "operation": new_operation()},
        "key": {
            "url": url_for("enrolment.add_key"), "challenge_url": url_for("enrolment.begin_key"),
            "operation": new_operation(),
        },
        "leave_url": url_for("sign_in.sign_out"),
    }  # fmt: skip
    return make_response(render_template("enrolment.html", **view), 422 if error else 200)
