"""The second step at the door: a code of the app, a passkey, or a recovery code that opens the adding of a new one (S6, S8).

Only a half session gets here, within a quarter of an hour of the password. Code and recovery code work without JavaScript.
"""

from typing import Any

from flask import Blueprint, Response, make_response, render_template, url_for
from wtforms import StringField
from wtforms.validators import InputRequired, Length

from console import entering, sessions, showing
from console.access import half, permission
from console.factors import CodeForm, first_error
from console.forms import ConsoleForm, new_operation
from console.installation import installed
from console.log import log
from console.passkeys import NO_SCRIPT, KeyForm
from console.proving import suspend
from console.showing import here, me
from ledger import factors
from ledger.database import transaction
from ledger.passkey_proof import CounterWentBack
from ledger.passkeys import passkeys_of

blueprint = Blueprint("second_factor", __name__, url_prefix="/sign-in/second-factor")


class RecoveryCodeForm(ConsoleForm):
    """One of the ten codes; the password was given a moment ago."""

    recovery = StringField("Recovery code", validators=[InputRequired("Enter a recovery code."), Length(max=80)])


@blueprint.get("")
@half("factor")
@permission("own_session")
def index() -> Response:
    return _page({})


@blueprint.post("/code")
@half("factor")
@permission("own_session")
def code() -> Response:
    """Takes a code of the app."""
    form = CodeForm()
    error = first_error(form) or showing.show_code(str(form.code.data), door=True)
    return _page({"code": error}) if error else _enter()


@blueprint.post("/key/challenge")
@half("factor")
@permission("own_session")
def begin_key() -> Response:
    """What a key is to sign."""
    ConsoleForm().require()
    return showing.begin_step_up()


@blueprint.post("/key")
@half("factor")
@permission("own_session")
def key() -> Response:
    """Takes what a key signed. Guesses of codes do not keep a key out."""
    form = KeyForm()
    form.require()
    try:
        error = showing.show_passkey(str(form.answer.data), str(form.nonce.data)) if form.answer.data else NO_SCRIPT
    except CounterWentBack as refused:
        suspend(refused)
        error = refused.sentence
    return _page({"key": error}) if error else _enter()


@blueprint.post("/recovery")
@half("factor")
@permission("own_session")
def recovery() -> Response:
    """Takes a recovery code: it opens the page where a new factor is added, and nothing else."""
    form = RecoveryCodeForm()
    error = first_error(form) or showing.show_recovery(str(form.recovery.data))
    if error:
        return _page({"recovery": error})
    with transaction(installed().engine) as db:
        session_id = entering.wait_for(db, me(), "enrolment", recovered=True)
        sessions.end(db, here())
    log.warning("recovery_code_used", staff_id=me())
    return entering.to_step("enrolment", session_id)


def _enter() -> Response:
    path = entering.next_path()
    with transaction(installed().engine) as db:
        session_id = entering.begin_whole(db, me())
    return entering.entered(me(), session_id, path)


def _page(errors: dict[str, str]) -> Response:
    with transaction(installed().engine, read_only=True) as db:
        app, keys, left = factors.find_app(db, me()), passkeys_of(db, me()), factors.codes_left(db, me())
    view: dict[str, Any] = {
        "errors": {"code": "", "key": "", "recovery": ""} | errors,
        "code": {"url": url_for("second_factor.code"), "operation": new_operation()} if app else None,
        "key": {
            "url": url_for("second_factor.key"), "challenge_url": url_for("second_factor.begin_key"),
            "operation": new_operation(),
        } if keys else None,
        "recovery": {"url": url_for("second_factor.recovery"), "operation": new_operation()} if left else None,
        "leave_url": url_for("sign_in.sign_out"),
    }  # fmt: skip
    return make_response(render_template("second_factor.html", **view), 422 if errors else 200)
