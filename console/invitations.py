"""Inviting people: an admin asks, a second one decides and gets the link, once (S8). What it opens is `come_in`."""

from uuid import UUID

from flask import Blueprint, Response, url_for
from wtforms import EmailField, RadioField, StringField
from wtforms.validators import InputRequired, Length

from console import notices, words
from console.access import ROLE_TEXTS, current, permission, reading, writing
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.installation import installed
from console.log import log
from console.operations import operation_id
from ledger.errors import BadInput, SamePerson, WrongState
from ledger.invitations import LINK_HOURS, answer_invitation, ask_invitation, new_link
from ledger.invitations import call_back as end_invitation

blueprint = Blueprint("invitations", __name__, url_prefix="/<merchant_slug>/people")


class InviteForm(ConsoleForm):
    """Who is to work here, as what."""

    name = StringField("Name", validators=[InputRequired("Enter their name."), Length(max=80)])
    email = EmailField("E-mail", validators=[InputRequired("Enter their e-mail address."), Length(max=254)])
    role = RadioField("Role", choices=words.choices(ROLE_TEXTS), validators=[InputRequired("Choose a role.")])


@blueprint.get("/invitation")
@permission("keep_people")
def invite() -> Response:
    with reading():
        return _invite_page(InviteForm(formdata=None))


@blueprint.post("/invitation")
@permission("keep_people")
def invited() -> Response:
    """Asks for the invitation; a second press changes nothing."""
    form = InviteForm()
    if form.validate():
        try:
            with writing() as db:
                ask_invitation(
                    db, current.merchant_id, operation_id(str(form.operation.data)), current.staff_id, email=str(form.email.data),
                    name=str(form.name.data), role=str(form.role.data),
                )  # fmt: skip
        except BadInput as refused:
            form[refused.facts["field"]].errors = [words.sentence(refused.sentence.partition(": ")[2]) + "."]
        except WrongState as refused:
            form.email.errors = [refused.sentence]
        else:
            log.warning("invitation_asked", staff_id=current.staff_id, role=form.role.data, merchant=current.slug)
            say("ok", "The invitation is asked for.", "A second admin decides it, and gets the link.")
            return see_other("people.index")
    with reading():
        return _invite_page(form, status=422)


@blueprint.post("/invitations/<uuid:invitation_id>/grant")
@permission("keep_people")
def grant(invitation_id: UUID) -> Response:
    """Invites. The link is in this answer, and nowhere else."""
    ConsoleForm().require()
    try:
        with writing() as db:
            found = answer_invitation(db, current.merchant_id, invitation_id, current.staff_id, granted=True)
            link = new_link(db, current.merchant_id, invitation_id) if found else ""
            if found is not None:
                notices.invited(db, found)
                log.warning("invitation_granted", staff_id=current.staff_id, role=found.role, merchant=current.slug)
                address = url_for("come_in.door", shop=current.slug, link=link)
                return page(
                    "invitation_link.html", person={"name": found.name, "email": found.email},
                    role_text=ROLE_TEXTS[found.role], link=installed().settings.public_origin + address, hours=LINK_HOURS,
                    mailed=notices.on(),
                    back_url=url_for("people.index"),
                )  # fmt: skip
    except SamePerson as refused:
        say("no", "Nobody was invited.", refused.sentence)
    else:
        say("info", "That was decided before.", "The link was shown once. Call it back and invite anew if it is lost.")
    return see_other("people.index")


@blueprint.post("/invitations/<uuid:invitation_id>/refusal")
@permission("keep_people")
def refuse(invitation_id: UUID) -> Response:
    """Nobody is invited."""
    ConsoleForm().require()
    with writing() as db:
        done = answer_invitation(db, current.merchant_id, invitation_id, current.staff_id, granted=False)
    if done is None:
        say("info", "That was decided before.", "Your click changed nothing.")
    else:
        log.warning("invitation_refused", staff_id=current.staff_id, merchant=current.slug)
        say("ok", "Nobody was invited.")
    return see_other("people.index")


@blueprint.post("/invitations/<uuid:invitation_id>/end")
@permission("keep_people")
def call_back(invitation_id: UUID) -> Response:
    """Its link opens nothing from now on."""
    ConsoleForm().require()
    with writing() as db:
        ended = end_invitation(db, current.merchant_id, invitation_id, current.staff_id)
    if ended:
        log.warning("invitation_called_back", staff_id=current.staff_id, merchant=current.slug)
        say("ok", "The invitation is called back.", "Its link opens nothing any more.")
    else:
        say("info", "That invitation had ended.", "Your click changed nothing.")
    return see_other("people.index")


def _invite_page(form: InviteForm, *, status: int = 200) -> Response:
    return page(
        "invite.html",
        status=status,
        form=form,
        action_url=url_for("invitations.invited"),
        back_url=url_for("people.index"),
    )
