"""What a person knows of a case beside goods and parcels: where the goods are, a repair, an unused insurance, who asks."""

from datetime import date, datetime, time
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import RadioField, SelectField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.automatic import after_evidence
from console.case_named import case_named
from console.fact_words import CURES, FACTS
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from ledger.case_facts import KINDS, LONGEST_NOTE, Stated, state_fact
from ledger.errors import BadInput, NotFound
from ledger.queries.case import CaseHead, read_head
from ledger.queries.facts import lines_to_name

blueprint = Blueprint("facts", __name__, url_prefix="/<merchant_slug>/cases/<uuid:case_id>/facts")

KIND: Final = "<any(not_delivered, cure, fee_use, collection, claimant):kind>"


class FactForm(ConsoleForm):
    """One fact; a kind without a line, a cure, a day or a customer has no such field."""

    line = SelectField("Line", validators=[InputRequired("Line: choose one")], validate_choice=False)
    said = RadioField("What is known", validators=[InputRequired("What is known: choose one")])
    cure = SelectField("What was done", choices=words.choices({"": "Nothing", **CURES}))
    happened_on = StringField("On which day", description="Such as 2026-11-28", validators=[Length(max=10)])
    customer = StringField(
        "Who asks", description="The shop’s number of the customer, or the e-mail",
        validators=[InputRequired("Who asks: write the number or the e-mail"), Length(max=254)],
    )  # fmt: skip
    note = TextAreaField("Note", validators=[Length(max=LONGEST_NOTE)])


# The fields that not every kind has.
_FIELDS: Final = {
    "not_delivered": ("line", "said", "happened_on"), "cure": ("line", "said", "cure", "happened_on"), "fee_use": ("line", "said"),
    "collection": ("said",), "claimant": ("customer",),
}  # fmt: skip


@blueprint.get("/")
@permission("report_goods")
def index(case_id: UUID) -> Response:
    """The kinds of facts that this case may turn on."""
    with reading() as db:
        head = read_head(db, current.merchant_id, case_id)
        kinds = [
            {
                "do": FACTS[kind]["do"],
                "says": FACTS[kind]["says"],
                "url": url_for("facts.ask", case_id=case_id, kind=kind),
            }
            for kind in offered(db, head)
        ]
        shown: dict[str, Any] = {"kinds": kinds, **case_named(head)}
        return page("facts.html", **shown)


def offered(db: Connection, head: CaseHead) -> list[str]:
    """What may be stated of a case of this kind, with a line where it takes one."""
    found = [kind for kind, one in KINDS.items() if head.kind in one.cases]
    return [
        kind
        for kind in found
        if not KINDS[kind].line or lines_to_name(db, current.merchant_id, head.case_id, KINDS[kind].line)
    ]


@blueprint.get(f"/{KIND}")
@permission("report_goods")
def ask(case_id: UUID, kind: str) -> Response:
    """The form of one kind of fact."""
    with reading() as db:
        return _page(db, case_id, kind, _form(db, case_id, kind))


@blueprint.post(f"/{KIND}")
@permission("report_goods")
def record(case_id: UUID, kind: str) -> Response:
    """Records the fact; the same again changes nothing."""
    with reading() as db:
        form = _form(db, case_id, kind)
    if form.validate():
        try:
            with writing() as db:
                state_fact(db, current.merchant_id, case_id, _stated(kind, form))
        except ValueError:
            form.happened_on.errors = ["On which day: write the day as year, month and day, such as 2026-11-28"]
        except BadInput as refused:
            named = "happened_on" if refused.facts["field"] == "happened_at" else str(refused.facts["field"])
            form[named].errors = [f"{form[named].label.text}: {refused.sentence.partition(': ')[2]}"]
        else:
            after_evidence(current.merchant_id, case_id)
            say("ok", "Recorded.", "The amount is worked out again. Another person approves it.")
            return see_other("case.show", case_id=case_id)
    with reading() as db:
        return _page(db, case_id, kind, form, status=422)


def _stated(kind: str, form: FactForm) -> Stated:
    """Raises ValueError for a day that is none."""

    def typed(name: str) -> str | None:
        return (str(form[name].data or "").strip() or None) if name in form else None

    on = typed("happened_on")
    at = datetime.combine(date.fromisoformat(on), time(12), current.time_zone) if on else None
    return Stated(
        kind, "counter", current.actor, typed("said") or "", typed("line"), typed("cure"), at, typed("customer"),
        typed("note") or "",
    )  # fmt: skip


def _form(db: Connection, case_id: UUID, kind: str) -> FactForm:
    """Raises NotFound for a case that does not turn on it."""
    head = read_head(db, current.merchant_id, case_id)
    if kind not in offered(db, head):
        raise NotFound
    form = FactForm()
    for name in ("line", "said", "cure", "happened_on", "customer"):
        if name not in _FIELDS[kind]:
            del form[name]
    if "said" in form:
        form.said.choices = words.choices(FACTS[kind]["said"])
    if "line" in form:
        lines = lines_to_name(db, current.merchant_id, case_id, KINDS[kind].line)
        form.line.choices = words.choices(
            {line.line_ref: f"{line.position}: {line.title or line.sku}" for line in lines}
        )
    return form


def _page(db: Connection, case_id: UUID, kind: str, form: FactForm, status: int = 200) -> Response:
    head = read_head(db, current.merchant_id, case_id)
    return page(
        "fact.html", status=status, form=form, kind={"do": FACTS[kind]["do"], "says": FACTS[kind]["says"]},
        action_url=url_for("facts.record", case_id=case_id, kind=kind), back_url=url_for("facts.index", case_id=case_id),
        **case_named(head),
    )  # fmt: skip
