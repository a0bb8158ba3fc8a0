"""What the link of an invitation opens: a person chooses a password, or shows the one they have, and is a member from then on.

It signs nobody in and skips no second factor (S8): the sign-in page is next. An unknown link, a used one, one that was called back
and one that is too old are one answer.
"""

from uuid import UUID

from flask import Blueprint, Response, current_app, make_response, redirect, render_template, request, url_for
from wtforms import PasswordField
from wtforms.validators import InputRequired, Length

from console import passwords, throttle
from console.access import ROLE_TEXTS, public
from console.errors import error_page
from console.forms import ConsoleForm
from console.installation import installed
from console.log import log
from console.sessions import own
from ledger.database import first, transaction
from ledger.errors import NotFound
from ledger.invitations import Opened, come_in, open_link

blueprint = Blueprint("come_in", __name__, url_prefix="/invitations")

GONE = "This link opens nothing: it was used, called back, or is older than three days. Ask an admin of your shop for another one."
RETRY_SECONDS = 60


class PasswordForm(ConsoleForm):
    """A new password, or the one that the person has."""

    password = PasswordField("Password", validators=[InputRequired("Enter a password."), Length(max=1024)])


@blueprint.get("/<shop>/<link>")
@public("whoever holds the link: it is 256 bit, and opens what two admins granted")
def door(shop: str, link: str) -> Response:
    found = _open(shop, link)
    return _page(shop, link, found, PasswordForm(formdata=None)) if found else error_page(404, GONE)


@blueprint.post("/<shop>/<link>")
@public("whoever holds the link, once: a password of their own is asked for")
def enter(shop: str, link: str) -> Response:
    form = PasswordForm()
    found = _open(shop, link)
    if found is None:
        return error_page(404, GONE)
    if not form.validate():
        return _page(shop, link, found, form, status=422)
    password = str(form.password.data)
    try:
        fault = _fault(found, shop, password)
        hashed = "" if fault or found.password_hash else passwords.hash_password(password)
    except passwords.Busy:
        return error_page(429, retry_after_seconds=RETRY_SECONDS)
    if fault:
        form.password.errors = [fault]
        return _page(shop, link, found, form, status=422)
    merchant_id = _merchant_id(shop)
    try:
        with transaction(installed().engine, merchant_id) as db:
            staff_id = come_in(db, merchant_id, link, hashed)
    except NotFound:
        return error_page(404, GONE)
    log.warning("invited_person_came", staff_id=staff_id, role=found.role, merchant=shop, address=request.remote_addr)
    own()["came"] = True
    return make_response(redirect(url_for("sign_in.sign_in"), 303))


def _fault(found: Opened, shop: str, password: str) -> str:
    """What is wrong with the password, or ""; one that exists is compared, and counts as a try to sign in. Raises Busy."""
    if found.password_hash is None:
        return passwords.password_fault(password, (found.email, found.name, shop))
    with transaction(installed().engine) as db:
        tried = throttle.take(
            db, current_app.config["THROTTLE_KEY"], email=found.email, address=request.remote_addr or "", device=None
        )
    right = passwords.matches(found.password_hash if tried.verdict == "go" else None, password)
    if not right:
        return "That is not the password you sign in with."
    with transaction(installed().engine) as db:
        throttle.forgive(db, tried)
    return ""


def _merchant_id(shop: str) -> UUID:
    with transaction(installed().engine, read_only=True) as db:
        found = first(db, "SELECT id FROM merchants WHERE slug = :s", s=shop)
    if found is None:
        raise NotFound
    merchant_id: UUID = found["id"]
    return merchant_id


def _open(shop: str, link: str) -> Opened | None:
    try:
        merchant_id = _merchant_id(shop)
    except NotFound:
        return None
    with transaction(installed().engine, merchant_id, read_only=True) as db:
        return open_link(db, merchant_id, link)


def _page(shop: str, link: str, found: Opened, form: PasswordForm, *, status: int = 200) -> Response:
    with transaction(installed().engine, read_only=True) as db:
        named = first(db, "SELECT name FROM merchants WHERE slug = :s", s=shop)
    if found.password_hash is None:
        form.password.label.text = "Choose a password"
        form.password.description = "At least 15 characters: a sentence is good. It stays yours; no admin knows it."
    else:
        form.password.label.text = "Your password"
        form.password.description = "The one you sign in with at another shop here."
    view = {
        "shop_name": named["name"] if named else shop, "person": {"name": found.name, "email": found.email},
        "role_text": ROLE_TEXTS[found.role], "form": form, "known": found.password_hash is not None,
        "action_url": url_for("come_in.enter", shop=shop, link=link),
    }  # fmt: skip
    return make_response(render_template("come_in.html", **view), status)
