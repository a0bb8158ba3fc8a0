"""Working on a case together: claim it, give it to somebody, let it rest, set when it is due, tag it, read what notes say."""

from datetime import date
from typing import Any
from uuid import UUID, uuid5

from flask import Blueprint, Response, request, url_for
from sqlalchemy import Connection
from wtforms import DateField, SelectField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length

from console import notices, team, words
from console.access import current, permission, polling, reading, writing
from console.filters import instant
from console.forms import ConsoleForm, with_ids
from console.fragments import asked_for_part, nothing_new, page, say, see_other
from console.operations import operation_id
from ledger import leases, teamwork
from ledger.calendar_days import end_of_day, parse
from ledger.errors import BadInput, InHand, LedgerError, NotAllowed, WrongState
from ledger.mentions import colleagues, read_mentions
from ledger.notes import MOST_CHARACTERS, add_note
from ledger.queries.teamwork import CaseTeam, case_team

blueprint = Blueprint("teamwork", __name__, url_prefix="/<merchant_slug>/cases/<uuid:case_id>")


class AssignForm(ConsoleForm):
    """Whose the case is; "" for nobody's."""

    to = SelectField("Give it to", validate_choice=False)


class SnoozeForm(ConsoleForm):
    """Until which day it rests, and what it waits for."""

    until = DateField(
        "Rests until", description="It is back that morning.", validators=[InputRequired("Rests until: choose a day")]
    )
    reason = SelectField(
        "What it waits for", choices=words.choices({"": "Choose one", **words.SNOOZE_REASONS}),
        validators=[InputRequired("What it waits for: choose one")],
    )  # fmt: skip


class DueForm(ConsoleForm):
    """Another due date, with the reason as a note of the case."""

    due = DateField("Due on", description="By the end of that day.", validators=[InputRequired("Due on: choose a day")])
    why = TextAreaField(
        "Why", description="Kept as a note of the case.",
        validators=[InputRequired("Why: write it down"), Length(max=MOST_CHARACTERS)],
    )  # fmt: skip


class TagForm(ConsoleForm):
    """One tag more."""

    tag = StringField(
        "Tag",
        description="Letters a to z, digits and hyphens.",
        validators=[InputRequired("Tag: write one"), Length(max=60)],
    )


class UntagForm(ConsoleForm):
    """One tag fewer; the field is the button."""

    tag = StringField(validators=[InputRequired()])


@blueprint.get("/work")
@permission("claim")
def show(case_id: UUID) -> Response:
    """Every change of whose and when, each in a form of its own."""
    with reading() as db:
        return _page(db, case_id)


@blueprint.get("/presence")
@polling
@permission("see_cases")
def presence(case_id: UUID) -> Response:
    """204 while the line at the head of the case says what is true; else that line anew. It also says that this person is here."""
    if not asked_for_part():
        return see_other("case.show", case_id=case_id)
    with reading() as db:
        found = case_team(db, current.merchant_id, case_id, current.staff_id)
        line = team.hand(case_id, found.lease, found.present, found.closed_at)
        answer = nothing_new() if line["seen"] == request.args.get("seen") else page("case.html", "hand", hand=line)
    team.come_here(case_id, found.present)
    return answer


@blueprint.post("/claim")
@permission("claim")
def claim(case_id: UUID) -> Response:
    """Takes the case in hand for a while; again is longer. Who has it already is said."""
    ConsoleForm().require()
    try:
        with writing() as db:
            leases.claim_case(db, current.merchant_id, case_id, current.staff_id)
    except InHand as refused:
        lease = refused.facts["lease"]
        if lease is None:
            raise
        say(
            "warn", f"{lease.name} has this case in hand since {instant(lease.taken_at)}.",
            f"It is free at {instant(lease.until)} at the latest. You can read and decide it all the same.",
        )  # fmt: skip
    except WrongState as refused:
        return _refused(case_id, refused)
    return see_other("case.show", case_id=case_id)


@blueprint.post("/claim/takeover")
@permission("reassign")
def take_over(case_id: UUID) -> Response:
    """A manager takes the case out of a colleague's hand."""
    ConsoleForm().require()
    with writing() as db:
        leases.claim_case(db, current.merchant_id, case_id, current.staff_id, over=True)
    return see_other("case.show", case_id=case_id)


@blueprint.post("/claim/release")
@permission("claim")
def release(case_id: UUID) -> Response:
    """Lets the case go; one that is not in hand any more is no error."""
    ConsoleForm().require()
    with writing() as db:
        leases.release_case(db, current.merchant_id, case_id, current.staff_id)
    return see_other("case.show", case_id=case_id)


@blueprint.post("/assignment")
@permission("claim")
def assign(case_id: UUID) -> Response:
    """Gives the case to somebody, or to nobody."""
    form = AssignForm()
    form.require()
    to = str(form.to.data or "")

    def act(db: Connection) -> bool:
        person = _person(to)
        changed = teamwork.assign(db, current.merchant_id, [case_id], current.staff_id, person).changed
        if person is not None:
            notices.about_cases(db, person, "assigned", numbers=changed)
        return bool(changed)

    return _changed(case_id, form, act, "It is nobody's now." if not to else "Assigned.")


@blueprint.post("/snooze")
@permission("claim")
def snooze(case_id: UUID) -> Response:
    """Lets the case rest until a day."""
    form = SnoozeForm()
    if not form.validate() or not isinstance(form.until.data, date):
        return _wrong(case_id, form)
    until = team.morning(form.until.data)
    return _changed(case_id, form, lambda db: bool(
        teamwork.snooze(db, current.merchant_id, [case_id], current.staff_id, until, str(form.reason.data)).changed
    ), f"It rests until {instant(until, 'day')}.", "If it is late before, it shows in “Late”.")  # fmt: skip


@blueprint.post("/snooze/end")
@permission("claim")
def wake(case_id: UUID) -> Response:
    """Ends the rest now."""
    form = ConsoleForm()
    form.require()
    return _changed(case_id, form, lambda db: bool(
        teamwork.wake(db, current.merchant_id, [case_id], current.staff_id).changed
    ), "It rests no more.")  # fmt: skip


@blueprint.post("/due")
@permission("set_due")
def set_due(case_id: UUID) -> Response:
    """Gives the case another due date; why is a note of it."""
    form = DueForm()
    if not form.validate() or not isinstance(form.due.data, date):
        return _wrong(case_id, form)
    due_at = parse(end_of_day(form.due.data, current.zone))

    def act(db: Connection) -> bool:
        changed = teamwork.set_due(db, current.merchant_id, case_id, current.staff_id, due_at)
        note_id = uuid5(operation_id(str(form.operation.data)), str(form.why.data))
        add_note(db, current.merchant_id, case_id, current.staff_id, note_id, str(form.why.data))
        return changed

    return _changed(case_id, form, act, f"It is due on {instant(due_at, 'day')}.")


@blueprint.post("/tags")
@permission("claim")
def add_tag(case_id: UUID) -> Response:
    """Puts a tag on the case."""
    form = TagForm()
    if not form.validate():
        return _wrong(case_id, form)
    return _changed(case_id, form, lambda db: bool(
        teamwork.tag(db, current.merchant_id, [case_id], current.staff_id, str(form.tag.data)).changed
    ), "Tagged.")  # fmt: skip


@blueprint.post("/tags/removal")
@permission("claim")
def remove_tag(case_id: UUID) -> Response:
    """Takes a tag off the case."""
    form = UntagForm()
    form.require()
    return _changed(case_id, form, lambda db: teamwork.untag(
        db, current.merchant_id, case_id, current.staff_id, str(form.tag.data)
    ), "The tag is off.")  # fmt: skip


@blueprint.post("/mentions/read")
@permission("see_cases")
def read(case_id: UUID) -> Response:
    """This person has read what the notes say to them; the case leaves their mentions."""
    ConsoleForm().require()
    with writing() as db:
        read_mentions(db, current.merchant_id, case_id, current.staff_id)
    return see_other("case.show", case_id=case_id)


def _person(text: str) -> UUID | None:
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError as error:
        raise BadInput("to", "choose somebody who works on cases here") from error


def _changed(case_id: UUID, form: ConsoleForm, act: Any, strong: str, text: str = "") -> Response:
    """Runs one change; what refuses it stands in its form, and what was typed stays."""
    try:
        with writing() as db:
            changed = act(db)
    except BadInput as refused:
        name, _, sentence = refused.sentence.partition(": ")
        found = {"note": "why"}.get(name, name)
        if found not in form:
            raise
        form[found].errors = [f"{form[found].label.text}: {sentence}"]
        return _wrong(case_id, form)
    except (NotAllowed, WrongState) as refused:
        return _refused(case_id, refused)
    say("ok", strong if changed else "Nothing changed.", text if changed else "It was so already.")
    return see_other("case.show", case_id=case_id)


def _wrong(case_id: UUID, form: ConsoleForm) -> Response:
    with reading() as db:
        return _page(db, case_id, form, status=422)


def _refused(case_id: UUID, refused: LedgerError) -> Response:
    say("no", refused.sentence, "Nothing changed.")
    return see_other("case.show", case_id=case_id)


def _page(db: Connection, case_id: UUID, sent: ConsoleForm | None = None, *, status: int = 200) -> Response:
    found = case_team(db, current.merchant_id, case_id, current.staff_id)
    forms = {
        "assign": AssignForm(None, to=str(found.assigned_to or "")),
        "snooze": SnoozeForm(None),
        "due": DueForm(None, due=found.due_at.astimezone(current.time_zone).date()),
        "tag": TagForm(None),
    }
    for name, form in forms.items():
        forms[name] = with_ids(sent if type(sent) is type(form) and sent is not None else form, name)
    forms["assign"].to.choices = [  # type: ignore[attr-defined]
        ("", "Nobody"), *((one["value"], one["label"]) for one in team.people(colleagues(db, current.merchant_id))),
    ]  # fmt: skip
    urls = {
        name: url_for(f"teamwork.{name}", case_id=case_id)
        for name in ("assign", "snooze", "set_due", "add_tag", "remove_tag")
    }
    return page(
        "work.html", status=status, case=_case(case_id, found), team=team.card(case_id, found), forms=forms, urls=urls,
        first_day=team.tomorrow().isoformat(), may_set_due=current.may("set_due"), sent=sent,
    )  # fmt: skip


def _case(case_id: UUID, found: CaseTeam) -> dict[str, Any]:
    return {
        "reference": words.case_reference(found.number), "url": url_for("case.show", case_id=case_id),
        "customer": words.customer(found.customer), "summary": f"order {found.order_ref}, {found.summary}",
        "due": words.due(found.due_at, found.closed_at, found.snoozed_until), "closed": found.closed_at is not None,
    }  # fmt: skip
