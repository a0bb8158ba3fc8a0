"""Another amount than the computed one, from the case: an exception with a reason, which a second person approves."""

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import HiddenField, SelectField, StringField, TextAreaField
from wtforms.validators import AnyOf, InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.kind_words import OVERRIDE_REASONS, amount
from console.kinds import carried
from console.operations import first_result, keep_result
from ledger.errors import BadInput, Stale, WrongState
from ledger.money import MoneyError, parse_major
from ledger.overrides import LONGEST_NOTE, Ask, Bounds, ask_override, bounds_of, check_ask, take_back
from ledger.queries.case import read_head

blueprint = Blueprint("override", __name__, url_prefix="/<merchant_slug>/cases/<uuid:case_id>/override")


class OverrideForm(ConsoleForm):
    """The amount in all and why. `computed` is the figure that the page showed beside it, in minor units."""

    amount = StringField("Amount in all", validators=[InputRequired("Amount in all: write how much"), Length(max=40)])
    reason = SelectField(
        "Why another amount", choices=words.choices({"": "Choose one", **OVERRIDE_REASONS}),
        validators=[InputRequired("Choose why it is another amount")],
    )  # fmt: skip
    note = TextAreaField(
        "In your own words", description="Kept with it for ever. The customer does not see it.",
        validators=[InputRequired("In your own words: write why"), Length(max=LONGEST_NOTE)],
    )  # fmt: skip
    computed = HiddenField(default="")
    step = HiddenField(default="check", validators=[AnyOf(["check", "give", "again"], message="Open this page again.")])


@blueprint.get("")
@permission("propose")
def form(case_id: UUID) -> Response:
    """The computed amount, what it may become, and the form."""
    with reading() as db:
        bounds = bounds_of(db, current.merchant_id, case_id)
        return _page(db, case_id, bounds, OverrideForm(computed=str(bounds.computed_minor)))


@blueprint.post("")
@permission("propose")
def give(case_id: UUID) -> Response:
    """Shows the sheet with both figures; from the sheet, asks for the amount. The same sheet again changes nothing."""
    typed = OverrideForm()
    with reading() as db:
        bounds = bounds_of(db, current.merchant_id, case_id)
        ask = _ask(bounds, typed) if typed.validate() else None
        if ask is None:
            return _page(db, case_id, bounds, typed, status=422)
        if typed.step.data != "give":
            return _checked(db, case_id, bounds, typed, ask)
    try:
        with writing() as db:
            if first_result(db, str(typed.operation.data)) is None:
                ask_override(db, current.merchant_id, case_id, ask)
                keep_result(db, str(typed.operation.data), {})
    except (BadInput, Stale, WrongState) as refused:
        return _refused(case_id, typed, refused)
    say("ok", f"{amount(ask.minor, bounds.currency)} is asked for instead of the computed amount.",
        "You asked for it, so a manager who is somebody else approves it.")  # fmt: skip
    return see_other("case.show", case_id=case_id)


@blueprint.post("/removal")
@permission("propose")
def remove(case_id: UUID) -> Response:
    """The computed amount counts again."""
    ConsoleForm().require()
    with writing() as db:
        take_back(db, current.merchant_id, case_id, current.actor)
    say("ok", "The computed amount counts again.", "You asked for it, so another person approves what is proposed.")
    return see_other("case.show", case_id=case_id)


def _ask(bounds: Bounds, typed: OverrideForm) -> Ask | None:
    try:
        minor = parse_major(typed.amount.data or "", bounds.currency)
    except MoneyError as error:
        typed.amount.errors = [f"{typed.amount.label.text}: {error}"]
        return None
    shown = str(typed.computed.data)
    computed = int(shown) if shown.isascii() and shown.isdigit() and len(shown) <= 15 else -1
    return Ask(minor, computed, str(typed.reason.data), str(typed.note.data), current.actor)


def _checked(db: Connection, case_id: UUID, bounds: Bounds, typed: OverrideForm, ask: Ask) -> Response:
    if typed.step.data == "again":
        typed.step.data = "check"
        return _page(db, case_id, bounds, typed)
    try:
        check_ask(bounds, ask)
    except BadInput as refused:
        _put_right(typed, refused)
        return _page(db, case_id, bounds, typed, status=422)
    except (Stale, WrongState) as refused:
        typed.computed.data = str(bounds.computed_minor)
        return _page(db, case_id, bounds, typed, [refused.sentence], status=409)
    return page("allowance_sheet.html", **_sheet(db, case_id, bounds, typed, ask))


def _refused(case_id: UUID, typed: OverrideForm, refused: BadInput | Stale | WrongState) -> Response:
    typed.step.data, typed.operation.data = "check", new_operation()
    with reading() as db:
        bounds = bounds_of(db, current.merchant_id, case_id)
        if isinstance(refused, BadInput):
            _put_right(typed, refused)
            return _page(db, case_id, bounds, typed, status=422)
        typed.computed.data = str(bounds.computed_minor)
        return _page(db, case_id, bounds, typed, [refused.sentence], status=409)


def _put_right(typed: OverrideForm, refused: BadInput) -> None:
    field = typed[str(refused.facts["field"])]
    field.errors = [f"{field.label.text}: {refused.sentence.partition(': ')[2]}"]


def _page(
    db: Connection,
    case_id: UUID,
    bounds: Bounds,
    typed: OverrideForm,
    whole: list[str] | None = None,
    status: int = 200,
) -> Response:
    head = read_head(db, current.merchant_id, case_id)
    return page(
        "override.html", status=status, form=typed, form_errors=whole or [], bounds=bounds,
        case={"reference": words.case_reference(head.number), "url": url_for("case.show", case_id=case_id)},
        action_url=url_for("override.give", case_id=case_id), remove_url=url_for("override.remove", case_id=case_id),
        remove_key=new_operation(),
    )  # fmt: skip


def _sheet(db: Connection, case_id: UUID, bounds: Bounds, typed: OverrideForm, ask: Ask) -> dict[str, Any]:
    head = read_head(db, current.merchant_id, case_id)
    apart = ask.minor - bounds.computed_minor
    facts = [
        ("Case", words.case_reference(head.number)), ("Customer", words.customer(head.customer)),
        ("Computed", amount(bounds.computed_minor, bounds.currency)),
        ("Difference", f"{amount(abs(apart), bounds.currency)} {'more' if apart > 0 else 'less'}"),
        ("Why", OVERRIDE_REASONS[ask.reason]), ("In your own words", ask.note),
        ("Decides", "a manager who is somebody else"),
    ]  # fmt: skip
    return {
        "title": "Another amount than computed", "amount": {"minor": ask.minor, "currency": bounds.currency},
        "says": "The computed amount stays beside it for ever, here and on the sheet that is approved.", "facts": facts,
        "button": f"Ask for {amount(ask.minor, bounds.currency)}", "hidden": carried(typed, step="give"),
        "again": carried(typed, step="again"), "operation": typed.operation.data,
        "action_url": url_for("override.give", case_id=case_id), "back_url": url_for("override.form", case_id=case_id),
    }  # fmt: skip
