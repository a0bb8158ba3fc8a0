"""Several cases of a page at once: assign, snooze, tag. What is about money is decided one by one, on a sheet of its own."""

from datetime import date
from typing import Final
from uuid import UUID

from flask import Blueprint, Response, request
from sqlalchemy import Connection
from wtforms import DateField, SelectField, SelectMultipleField, StringField
from wtforms.validators import AnyOf, Length, Optional

from console import notices, team, words
from console.access import current, permission, writing
from console.filters import instant
from console.forms import ConsoleForm
from console.fragments import say, see_other
from console.queue import show_queue
from console.queue_page import Picked
from ledger import teamwork
from ledger.errors import BadInput

blueprint = Blueprint("bulk", __name__, url_prefix="/<merchant_slug>/queue/picked")

NOBODY: Final = "nobody"


class BulkForm(ConsoleForm):
    """The picked cases, the act whose button was pressed (`typed`: Enter in a field), and the fields of every act."""

    pick = SelectMultipleField(validate_choice=False)
    act = StringField(validators=[AnyOf(["assign", "snooze", "tag", "typed"], message="choose what to do")])
    to = SelectField("Whose they are", validate_choice=False)
    until = DateField("Rest until", validators=[Optional()])
    reason = SelectField("What they wait for", validate_choice=False)
    tag = StringField("Tag", validators=[Length(max=60)])


@blueprint.post("")
@permission("claim")
def act() -> Response:
    """Does one thing to each picked case, and says which stay as they are and why; the same form again changes nothing."""
    form = BulkForm()
    try:
        form.require()
        cases = _cases(form)
        with writing() as db:
            done, what = _act(db, form, cases)
    except BadInput as refused:
        field, _, sentence = refused.sentence.partition(": ")
        return show_queue(_picked(form, field, words.sentence(sentence)), status=422)
    left = "; ".join(f"{words.case_reference(number)}: {why}" for number, why in done.left[:5])
    more = f" And {len(done.left) - 5} more stay as they are." if len(done.left) > 5 else ""
    count = words.counted(len(done.changed), "case", "cases")
    say("warn" if left else "ok", f"{count} {what}." if done.changed else "Nothing changed.", left + more)
    return see_other("queue.index", **request.args.to_dict())


def _act(db: Connection, form: BulkForm, cases: list[UUID]) -> tuple[teamwork.Done, str]:
    m, me, tag = current.merchant_id, current.staff_id, str(form.tag.data or "")
    match _meant(form):
        case "assign":
            to = str(form.to.data or "")
            person = _person(to)
            done = teamwork.assign(db, m, cases, me, person)
            if person is not None:
                notices.about_cases(db, person, "assigned", numbers=done.changed)
            return done, "assigned" if to != NOBODY else "nobody's now"
        case "snooze":
            if not isinstance(form.until.data, date):
                raise BadInput("until", "choose a day")
            until = team.morning(form.until.data)
            done = teamwork.snooze(db, m, cases, me, until, str(form.reason.data or ""))
            return done, f"{'rests' if len(done.changed) == 1 else 'rest'} until {instant(until, 'day')}"
        case "":
            raise BadInput("act", "choose what to do with the picked cases")
        case _:
            return teamwork.tag(db, m, cases, me, tag), f"tagged {teamwork.tag_word(tag)}"


def _meant(form: BulkForm) -> str:
    """The act of the button, or of the only one whose field says something."""
    if form.act.data != "typed":
        return str(form.act.data)
    said = [act for act, field in (("assign", form.to), ("snooze", form.until), ("tag", form.tag)) if field.data]
    return said[0] if len(said) == 1 else ""


def _cases(form: BulkForm) -> list[UUID]:
    try:
        return [UUID(text) for text in form.pick.data or ()]
    except ValueError as error:
        raise BadInput("pick", "pick cases of this page") from error


def _person(text: str) -> UUID | None:
    if text == NOBODY:
        return None
    try:
        return UUID(text)
    except ValueError as error:
        raise BadInput("to", "choose somebody, or nobody") from error


def _picked(form: BulkForm, field: str, sentence: str) -> Picked:
    typed = {name: request.form.get(name, "") for name in ("act", "to", "until", "reason", "tag")}
    return Picked(frozenset(form.pick.data or ()), typed, field, sentence)
