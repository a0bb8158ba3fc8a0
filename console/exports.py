"""Exports: finance takes a copy out as a file, with a second factor and a reason, one at a time, on the record (S60).

The file is written while it is read, a batch at a time through a cursor of the server, so none is held whole. Who takes what is
committed before the first byte; the last bytes leave after the count and the digest of the file are. A file without those was
broken off: the browser says so, and so does the list.
"""

import hashlib
from collections.abc import Generator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Flask, Response, current_app, g, request, url_for
from sqlalchemy import Connection, Engine, RowMapping
from wtforms import DateField, SelectField, StringField
from wtforms.validators import DataRequired, InputRequired, Length, Optional

from console import export_files as files
from console import showing, trail, words
from console.access import Member, current, permission, reading, writing
from console.csv_text import BEGINS, MEDIA_TYPE, lines
from console.export_files import Source
from console.export_list import NAMES, past_exports
from console.filters import instant, now, shown_zone
from console.forms import ConsoleForm
from console.fragments import page
from console.installation import installed
from console.log import log
from console.showing import here, me
from ledger import factors
from ledger.database import in_batches, scalar, transaction
from ledger.errors import BadInput
from ledger.exports import LONGEST_REASON, MOST_ROWS, begin_export, end_export, only_export
from ledger.factors import NotShown
from ledger.queries.discrepancies import read_runs
from ledger.queries.measures import Period

blueprint = Blueprint("exports", __name__, url_prefix="/<merchant_slug>/exports")

BATCH_ROWS: Final = 500
MOST_DAYS: Final = 400
MOST_SHOWN: Final = 20
# What stands in each, and an icon.
WHAT: Final[dict[str, tuple[str, str]]] = {
    "refunds": ("Each refund approved or paid in it: amounts, people, states, references.", "paid"),
    "credits": (
        "What each refund paid in it takes back of its sale, line by line, tax by code, and what came back.",
        "uturn",
    ),
    "discrepancies": ("What one comparison with the provider found, both sides and what became of it.", "unequal"),
    "trail": ("Events with who, when and the hash of each.", "trail"),
    "metrics": ("The figures of the metrics, day by day, as rows.", "bars"),
}
# A file takes a second factor that was shown a moment ago; the password is none.
_STRONG: Final = ("totp", "passkey")
_SHOW_FIRST: Final = "Show a code of your app or your passkey first: each file takes one, not older than five minutes"
_ANY: Final = f"any({', '.join(WHAT)})"


class ExportForm(ConsoleForm):
    """What every file asks for."""

    reason = StringField(
        "Why it is taken out", description="Stands in the list of exports, with your name.",
        validators=[DataRequired("Write why it is taken out"), Length(min=3, max=LONGEST_REASON)],
    )  # fmt: skip
    code = StringField("Code from your app", validators=[Optional(), Length(max=12)])


class PeriodForm(ExportForm):
    """Days of the merchant's zone, both included."""

    since = DateField("First day", validators=[InputRequired("Choose the first day")])
    until = DateField("Last day", validators=[InputRequired("Choose the last day")])


class RefundsForm(PeriodForm):
    """By which of its moments a refund falls into the period."""

    dated = SelectField(
        "Dated by", choices=words.choices({"paid": "When it was paid, or came back", "approved": "When it was approved"}),
    )  # fmt: skip


class TrailForm(PeriodForm):
    """The filters of the trail."""

    person = SelectField("Who", choices=[])
    kind = SelectField("What", choices=[])


class RunForm(ExportForm):
    """Which run."""

    run = SelectField("Run", choices=[], validators=[InputRequired("Choose a run")])


_FORMS: Final[dict[str, type[ExportForm]]] = {
    "refunds": RefundsForm,
    "credits": PeriodForm,
    "discrepancies": RunForm,
    "trail": TrailForm,
    "metrics": PeriodForm,
}


@blueprint.get("/")
@permission("export")
def index() -> Response:
    with reading() as db:
        return page(
            "exports.html", kinds=[_kind(what) for what in WHAT],
            exports=past_exports(db, MOST_SHOWN), most_rows=MOST_ROWS,
        )  # fmt: skip


@blueprint.get(f"/<{_ANY}:what>")
@permission("export")
def show(what: str) -> Response:
    """The form of one file, filled in from the address where a page led here."""
    with reading() as db:
        return page("export.html", **_form_page(db, what, _form(db, what, fresh=True)))


@blueprint.post(f"/<{_ANY}:what>")
@permission("export")
def take(what: str) -> Response:
    """The file itself. Sent twice it is taken out twice, and listed twice; while one is leaving another is refused."""
    with reading() as db:
        form = _form(db, what)
        if not form.validate():
            return page("export.html", status=422, **_form_page(db, what, form))
    try:
        source = _source(what, form)
        _show(form)
        export_id = _on_the_record(what, form, source)
    except (BadInput, NotShown) as refused:
        field, _, sentence = (
            refused.sentence.partition(": ") if isinstance(refused, BadInput) else ("code", "", _SHOW_FIRST)
        )
        form[field].errors = [words.sentence(sentence)]
        with reading() as db:
            return page("export.html", status=422, **_form_page(db, what, form))
    log.info("export_begun", staff_id=current.staff_id, merchant=current.slug, kind=what, reference=export_id)
    name = f"{current.slug}-{what}-{now():%Y%m%d-%H%M}"
    app = current_app._get_current_object()  # type: ignore[attr-defined]  # noqa: SLF001 - the file outlives the request
    return _file(Leaving(app, g.member, now(), export_id, source, g.person.zone), name)


def _show(form: Any) -> None:
    """Takes the code that the form carries, if it does. Raises BadInput for one that is not right."""
    wrong = showing.show_code(str(form.code.data)) if form.code.data else ""
    if wrong:
        raise BadInput("code", wrong)


def _on_the_record(what: str, form: Any, source: Source) -> UUID:
    """Commits that the file leaves, paid for by what the person showed just now.

    Raises WrongState while another leaves, BadInput for more rows than may, NotShown.
    """
    with writing() as db:
        only_export(db, current.merchant_id)
        count = scalar(db, f"SELECT count(*) FROM ({source.sql}) q", most=MOST_ROWS + 1, **source.values)  # noqa: S608 - constants
        if count > MOST_ROWS:
            field = "run" if what == "discrepancies" else "until"
            raise BadInput(field, f"these are more than {MOST_ROWS:,} rows: choose fewer days, and take the rest after")
        factors.spend(db, me(), here(), only=_STRONG)
        return begin_export(db, current.merchant_id, current.staff_id, what, _asked(form), str(form.reason.data))


@dataclass(frozen=True)
class Leaving:
    """One file on its way out: all that is needed of the request, which is over by then. `zone` is the person's own, or ""."""

    app: Flask
    member: Member
    at: datetime
    export_id: UUID
    source: Source
    zone: str = ""

    def lines(self, batch: list[RowMapping]) -> bytes:
        """Rows as lines of the file, in the words and the zone of whoever takes it out."""
        with self.app.app_context():
            g.member, g.person = self.member, self
            return lines((self.source.row(row) for row in batch), shown_zone())

    @property
    def now(self) -> datetime:
        """The moment that days are counted from, as of a person's page."""
        return self.at


def _file(leaving: Leaving, name: str) -> Response:
    parts = parts_of(installed().engine, leaving)
    # What cannot begin is a page that says why, not half a file.
    first = next(parts)
    response = Response(chain([first], parts), content_type=MEDIA_TYPE)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    response.call_on_close(parts.close)
    return response


def parts_of(engine: Engine, leaving: Leaving) -> Generator[bytes]:
    """The bytes of the file, a batch of rows at a time; the last of them once its end is on the record.

    Raises WrongState before the first when another file of the merchant is leaving, and RuntimeError in the middle when rows were
    added to what was counted: then the file stays without an end.
    """
    source, merchant_id, digest, count = leaving.source, leaving.member.merchant_id, hashlib.sha256(), 0
    with transaction(engine, merchant_id, read_only=True) as db:
        only_export(db, merchant_id)
        part = BEGINS + lines([source.head], leaving.member.time_zone)
        for batch in in_batches(db, source.sql, BATCH_ROWS, most=MOST_ROWS + 1, **source.values):
            count += len(batch)
            if count > MOST_ROWS:
                raise RuntimeError("the file grew past what may leave at once while it was read")
            digest.update(part)
            yield part
            part = leaving.lines(batch)
    digest.update(part)
    with transaction(engine, merchant_id) as db:
        end_export(db, merchant_id, leaving.export_id, count, digest.digest())
    log.info("export_ended", merchant_id=merchant_id, reference=leaving.export_id, count=count)
    yield part


def _form(db: Connection, what: str, *, fresh: bool = False) -> Any:
    """The form with its choices. `fresh`: not sent yet, with what the address names, or the last whole month."""
    form: Any = _FORMS[what](formdata=None) if fresh else _FORMS[what]()
    if what == "trail":
        form.person.choices, form.kind.choices = words.choices(trail.people(db)), words.choices(trail.sorts())
    if what == "discrepancies":
        runs = {
            str(one.run_id): f"{instant(one.from_at, 'day')} to {instant(one.to_at)}"
            for one in read_runs(db, current.merchant_id)
        }
        form.run.choices = words.choices(runs)
    if fresh:
        for name in ("person", "kind", "run"):
            if name in form and any(request.args.get(name) == value for value, *_ in form[name].choices):
                form[name].data = request.args[name]
        if "since" in form:
            begins, ends = _last_month()
            form.since.data, form.until.data = _day("since", begins), _day("until", ends)
    return form


def _day(name: str, otherwise: date) -> date:
    try:
        return date.fromisoformat(request.args.get(name, ""))
    except ValueError:
        return otherwise


def _last_month() -> tuple[date, date]:
    ends = now().astimezone(current.time_zone).date().replace(day=1) - timedelta(days=1)
    return ends.replace(day=1), ends


def _source(what: str, form: Any) -> Source:
    """Raises BadInput for days that are no period."""
    if what == "discrepancies":
        return files.discrepancies(current.merchant_id, UUID(form.run.data))
    since, until = _midnight(form.since.data), _midnight(form.until.data + timedelta(days=1))
    if not timedelta() < until - since <= timedelta(days=MOST_DAYS):
        raise BadInput("until", f"a period ends after it begins and covers at most {MOST_DAYS} days")
    if what == "credits":
        return files.credits_of(current.merchant_id, form.since.data, form.until.data)
    if what == "trail":
        return files.trail(
            current.merchant_id, since, until, trail.actor_named(form.person.data),
            trail.SORTS[form.kind.data][1] if form.kind.data else (),
        )  # fmt: skip
    if what == "metrics":
        return files.metrics(current.merchant_id, Period(form.since.data, form.until.data, since, until, current.zone))
    return files.refunds(current.merchant_id, since, until, form.dated.data)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=current.time_zone)


def _asked(form: Any) -> dict[str, str]:
    """The filter as it stands on the record."""
    return {
        field.name: str(field.data)
        for field in form
        if field.name not in ("reason", "code", "operation", "csrf_token") and field.data
    }


def _form_page(db: Connection, what: str, form: Any) -> dict[str, Any]:
    found = showing.fresh(db)
    form.code.data = ""  # once it was sent it is spent, or wrong
    return _kind(what) | {
        "form": form, "take_url": url_for("exports.take", what=what), "back_url": url_for("exports.index"), "most_rows": MOST_ROWS,
        "shown": found if found and found["kind"] in _STRONG else None, "app": factors.find_app(db, me()) is not None,
        "factors_url": url_for("factors.index"),
    }  # fmt: skip


def _kind(what: str) -> dict[str, Any]:
    says, icon = WHAT[what]
    return {"what": what, "name": NAMES[what], "says": says, "icon": icon, "url": url_for("exports.show", what=what)}
