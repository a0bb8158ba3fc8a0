"""The books beside the provider: runs with both sides' sums, and the discrepancies they named. Finance acts, managers read.

Nothing here moves money. A run that is asked for is a row that a worker takes; a discrepancy is resolved by a row beside it.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from sqlalchemy import Connection
from wtforms import DateField, SelectField, TextAreaField
from wtforms.validators import DataRequired, InputRequired, Length, Optional

from console import words
from console.access import current, permission, reading, writing
from console.filters import now
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.log import log
from console.operations import first_result, keep_result
from console.reconciliation_parts import CODES, KINDS, discrepancy_row, discrepancy_view, run_view
from ledger import discrepancies
from ledger.errors import BadInput, NotFound, WrongState
from ledger.queries import discrepancies as read
from ledger.reconciliation_run import NIGHTLY_DAYS, ask_run

blueprint = Blueprint("reconciliation", __name__, url_prefix="/<merchant_slug>/reconciliation")


class RunForm(ConsoleForm):
    """Which days to compare, both included, in the merchant's zone."""

    since = DateField("First day", validators=[InputRequired("Choose the first day")])
    until = DateField("Last day", validators=[InputRequired("Choose the last day")])


class NoteForm(ConsoleForm):
    """A person's words beside a discrepancy."""

    note = TextAreaField("What you found", validators=[DataRequired("Write what you found"), Length(max=2000)])


class ResolveForm(ConsoleForm):
    """What the difference came to."""

    code = SelectField(
        "It is", choices=words.choices({"": "Choose", **CODES}), validators=[InputRequired("Choose what it is")]
    )
    reason = TextAreaField("Why", validators=[Optional(), Length(max=2000)])


@blueprint.get("/")
@permission("see_books")
def index() -> Response:
    with reading() as db:
        return page("reconciliation.html", "runs", **_list(db, _run_form()))


@blueprint.post("/runs")
@permission("keep_books")
def ask() -> Response:
    """Queues a run over days; the same form again lands on the same run."""
    form = RunForm()
    if form.validate():
        try:
            run_id = _ask_once(form)
        except BadInput as refused:
            form.since.errors = [words.sentence(refused.sentence.partition(": ")[2])]
        else:
            say("ok", "The run is asked for.", "A worker begins within seconds; this page follows it.")
            return see_other("reconciliation.show_run", run_id=run_id)
    with reading() as db:
        return page("reconciliation.html", status=422, **_list(db, form))


def _ask_once(form: RunForm) -> str:
    operation = str(form.operation.data)
    begins, ends = _midnight(form.since), _midnight(form.until, days_later=1)
    with writing() as db:
        earlier = first_result(db, operation)
        if earlier is not None:
            return str(earlier.answer["run"])
        runs = ask_run(db, current.merchant_id, begins, ends, current.actor)
        keep_result(db, operation, {"run": str(runs[0])})
        return str(runs[0])


def _midnight(field: DateField, days_later: int = 0) -> datetime:
    """The beginning of a chosen day in the merchant's zone, or of a later one."""
    day = date.fromisoformat(str(field.data)) + timedelta(days=days_later)
    return datetime(day.year, day.month, day.day, tzinfo=current.time_zone)


@blueprint.get("/runs/<uuid:run_id>")
@permission("see_books")
def show_run(run_id: UUID) -> Response:
    """One run: how far it is, both sides' sums, and what it found."""
    with reading() as db:
        found = read.read_runs(db, current.merchant_id, run_id)
        if not found:
            raise NotFound
        rows = [discrepancy_row(one) for one in read.read_of_run(db, current.merchant_id, run_id)]
        return page(
            "reconciliation_run.html", "run", run=run_view(found[0]), rows=rows,
            poll_url=url_for("reconciliation.show_run", run_id=run_id), back_url=url_for("reconciliation.index"),
            export_url=url_for("exports.show", what="discrepancies", run=run_id) if current.may("export") else None,
        )  # fmt: skip


@blueprint.get("/discrepancies/<uuid:discrepancy_id>")
@permission("see_books")
def show(discrepancy_id: UUID) -> Response:
    with reading() as db:
        return _one(db, discrepancy_id, NoteForm(formdata=None), ResolveForm(formdata=None))


@blueprint.post("/discrepancies/<uuid:discrepancy_id>/taking")
@permission("keep_books")
def take(discrepancy_id: UUID) -> Response:
    """A person takes it: their name stands beside it from now on. Repeated, it changes nothing."""
    ConsoleForm().require()
    with writing() as db:
        discrepancies.take(db, current.merchant_id, discrepancy_id, current.staff_id)
    say("ok", "You have this discrepancy.")
    return see_other("reconciliation.show", discrepancy_id=discrepancy_id)


@blueprint.post("/discrepancies/<uuid:discrepancy_id>/notes")
@permission("keep_books")
def note(discrepancy_id: UUID) -> Response:
    """Adds a note; the same form again adds none."""
    form = NoteForm()

    def write(db: Connection) -> None:
        discrepancies.note(db, current.merchant_id, discrepancy_id, current.staff_id, str(form.note.data))

    if form.validate():
        _once(str(form.operation.data), write)
        say("ok", "The note is added.")
        return see_other("reconciliation.show", discrepancy_id=discrepancy_id)
    with reading() as db:
        return _one(db, discrepancy_id, form, ResolveForm(formdata=None), status=422)


@blueprint.post("/discrepancies/<uuid:discrepancy_id>/resolution")
@permission("keep_books")
def resolve(discrepancy_id: UUID) -> Response:
    """Resolves it with a code; the same form again lands on the same resolution."""
    form = ResolveForm()
    code, text = str(form.code.data), str(form.reason.data or "")

    def write(db: Connection) -> None:
        discrepancies.resolve(db, current.merchant_id, discrepancy_id, current.staff_id, code, text)

    if form.validate():
        try:
            _once(str(form.operation.data), write)
        except BadInput as refused:
            form.reason.errors = [words.sentence(refused.sentence.partition(": ")[2])]
        else:
            log.info("discrepancy_resolved", staff_id=current.staff_id, merchant=current.slug, outcome=code)
            say("ok", "The discrepancy is resolved.", "No money moved. If it is found again, it opens again.")
            return see_other("reconciliation.show", discrepancy_id=discrepancy_id)
    with reading() as db:
        return _one(db, discrepancy_id, NoteForm(formdata=None), form, status=422)


def _once(operation: str, write: Callable[[Connection], None]) -> None:
    with writing() as db:
        if first_result(db, operation) is None:
            write(db)
            keep_result(db, operation, {})


def _run_form() -> RunForm:
    """The days a night compares, to begin with."""
    form = RunForm(formdata=None)
    today = now().astimezone(current.time_zone).date()
    form.since.data, form.until.data = today - timedelta(days=NIGHTLY_DAYS), today
    return form


_ALL: Final = ""


def _list(db: Connection, form: RunForm) -> dict[str, Any]:
    kind = request.args.get("kind", _ALL)
    chosen = kind if kind in KINDS else None
    buckets = read.read_buckets(db, current.merchant_id)
    found = read.read_open(db, current.merchant_id, chosen)
    checked = read.last_self_check(db, current.merchant_id)
    runs = [run_view(one) for one in read.read_runs(db, current.merchant_id)]
    return {
        "runs": runs,
        "poll_url": url_for("reconciliation.index", kind=chosen),
        "rows": [discrepancy_row(one) for one in found],
        "more": len(found) == read.OPEN_SHOWN,
        "total": sum(buckets.values()),
        "buckets": [
            {"kind": one, "text": text, "count": buckets.get(one, 0), "here": one == chosen,
             "url": url_for("reconciliation.index", kind=one)}
            for one, text in KINDS.items()
        ],
        "all_url": url_for("reconciliation.index"),
        "chosen": KINDS[chosen] if chosen else "",
        "checked": {"at": checked[0], "faults": checked[1]} if checked else None,
        "form": form if current.may("keep_books") else None,
        "run_url": url_for("reconciliation.ask"),
    }  # fmt: skip


def _one(db: Connection, discrepancy_id: UUID, noting: NoteForm, resolving: ResolveForm, status: int = 200) -> Response:
    found, acts = read.read_one(db, current.merchant_id, discrepancy_id)
    followed_by = read.following(db, current.merchant_id, discrepancy_id)
    if status == 422 and found.code:
        raise WrongState("Somebody has resolved this meanwhile. What they wrote stands.", state="resolved")
    acting = current.may("keep_books") and not found.code
    return page(
        "discrepancy.html", status=status, one=discrepancy_view(found, acts, followed_by), back_url=url_for("reconciliation.index"),
        note_form=noting if acting else None, resolve_form=resolving if acting else None,
        take_form=ConsoleForm(formdata=None) if acting and found.taken_by_id != current.staff_id else None,
        take_url=url_for("reconciliation.take", discrepancy_id=discrepancy_id),
        note_url=url_for("reconciliation.note", discrepancy_id=discrepancy_id),
        resolve_url=url_for("reconciliation.resolve", discrepancy_id=discrepancy_id),
    )  # fmt: skip
