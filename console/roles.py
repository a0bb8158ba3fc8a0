"""Another role for a person: an admin asks, a second one decides, and both are on the record."""

from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import RadioField, TextAreaField
from wtforms.validators import InputRequired, Length

from console import notices, sessions, words
from console.access import ROLE_TEXTS, current, permission, reading, writing
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.log import log
from console.operations import operation_id
from ledger.database import first
from ledger.errors import BadInput, NotFound, SamePerson, WrongState
from ledger.role_changes import LONGEST_REASON, answer_role, ask_role

blueprint = Blueprint("roles", __name__, url_prefix="/<merchant_slug>/people")


class RoleForm(ConsoleForm):
    """Which role, and why."""

    role = RadioField(
        "New role", choices=words.choices(ROLE_TEXTS), validators=[InputRequired("Choose the new role.")]
    )  # fmt: skip
    reason = TextAreaField("Why", validators=[InputRequired("Say why."), Length(max=LONGEST_REASON)])


@blueprint.get("/<uuid:staff_id>/role")
@permission("keep_people")
def ask(staff_id: UUID) -> Response:
    with reading() as db:
        return _ask_page(db, staff_id, RoleForm(formdata=None))


@blueprint.post("/<uuid:staff_id>/role")
@permission("keep_people")
def asked(staff_id: UUID) -> Response:
    """Asks for the change; a second press changes nothing."""
    form = RoleForm()
    if form.validate():
        try:
            with writing() as db:
                ask_role(
                    db, current.merchant_id, operation_id(str(form.operation.data)), staff_id, current.staff_id,
                    str(form.role.data), str(form.reason.data),
                )  # fmt: skip
        except BadInput as refused:
            form[refused.facts["field"]].errors = [words.sentence(refused.sentence.partition(": ")[2]) + "."]
        except (WrongState, SamePerson) as refused:
            say("no", "Nothing was asked for.", refused.sentence)
            return see_other("people.index")
        else:
            log.warning("role_change_asked", staff_id=current.staff_id, role=form.role.data, merchant=current.slug)
            say("ok", "The change is asked for.", "A second admin decides it. Until then their role stays as it is.")
            return see_other("people.index")
    with reading() as db:
        return _ask_page(db, staff_id, form, status=422)


@blueprint.post("/roles/<uuid:change_id>/grant")
@permission("keep_people")
def grant(change_id: UUID) -> Response:
    """Gives the role: their sessions end, and what they may approve no longer and was not sent is held."""
    return _answered(change_id, granted=True)


@blueprint.post("/roles/<uuid:change_id>/refusal")
@permission("keep_people")
def refuse(change_id: UUID) -> Response:
    """Leaves everything as it is."""
    return _answered(change_id, granted=False)


def _answered(change_id: UUID, *, granted: bool) -> Response:
    ConsoleForm().require()
    try:
        with writing() as db:
            done = answer_role(db, current.merchant_id, change_id, current.staff_id, granted=granted)
            if done is not None and granted:
                sessions.end_of_person(db, done[0])
                notices.role_changed(db, done[0], done[2])
    except (SamePerson, WrongState) as refused:
        say("no", "Nothing was changed.", refused.sentence)
        return see_other("people.index")
    if done is None:
        say("info", "That was decided before.", "Your click changed nothing.")
        return see_other("people.index")
    log.warning(
        "role_change_decided", staff_id=current.staff_id, merchant=current.slug, outcome=str(granted), count=done[1]
    )
    held = f" {words.counted(done[1], 'refund', 'refunds')} held." if done[1] else ""
    text = (
        f"Their sessions have ended; they sign in with the new role.{held}" if granted else "Their role stays as it is."
    )
    say("ok", "The role is changed." if granted else "Not changed.", text)
    return see_other("people.index")


def _ask_page(db: Connection, staff_id: UUID, form: RoleForm, *, status: int = 200) -> Response:
    row = first(
        db, "SELECT s.name, m.role FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m"
        " AND m.staff_id = :s AND m.ended_at IS NULL", m=current.merchant_id, s=staff_id,
    )  # fmt: skip
    if row is None or staff_id == current.staff_id:
        raise NotFound
    form.role.choices = words.choices({role: text for role, text in ROLE_TEXTS.items() if role != row["role"]})
    return page(
        "role.html", status=status, person={"name": row["name"], "role_text": ROLE_TEXTS[row["role"]]}, form=form,
        action_url=url_for("roles.asked", staff_id=staff_id), back_url=url_for("people.index"),
    )  # fmt: skip
