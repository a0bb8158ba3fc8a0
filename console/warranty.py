"""A warranty claim from an order: which line, how many units, and since when it is broken. Another person approves what it pays."""

from datetime import date, datetime, time
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import RadioField, StringField
from wtforms.validators import InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.counter_forms import ToldForm
from console.fragments import page, say, see_other
from console.operations import count_refusal, first_result, keep_result
from ledger.cases import ReturnRequest
from ledger.errors import AlreadyRefunded, AskCustomer, BadInput, LedgerError, MoreThanLeft, WrongState
from ledger.room import OrderRoom, read_room
from ledger.warranties import open_warranty

blueprint = Blueprint("warranty", __name__, url_prefix="/<merchant_slug>/orders/<uuid:order_id>/warranty")

_FIELDS = {"line": "line", "lines": "line", "happened_at": "failed_on", "conversation.reference": "conversation"}


class WarrantyForm(ToldForm):
    """What is broken, and since when."""

    line = RadioField("Line", validators=[InputRequired("Choose a line")], validate_choice=False)
    units = StringField("How many units", default="1", validators=[Length(max=8)])
    failed_on = StringField(
        "The fault showed on", description="Such as 2026-11-28",
        validators=[InputRequired("Say on which day the fault showed"), Length(max=10)],
    )  # fmt: skip


@blueprint.get("/")
@permission("propose")
def form(order_id: UUID) -> Response:
    """The form, with the lines that the policy gives a warranty on."""
    with reading() as db:
        room = _room(db, order_id)
        return _page(room, _form(room))


@blueprint.post("/")
@permission("propose")
def claim(order_id: UUID) -> Response:
    """Opens the case; the same form again lands on the same case."""
    with reading() as db:
        room = _room(db, order_id)
        typed = _form(room)
        wish = _wish(room, typed) if typed.validate() else None
        if wish is None:
            return _page(room, typed, status=422)
    try:
        with writing() as db:
            earlier = first_result(db, str(typed.operation.data))
            case_id = earlier.answer["case_id"] if earlier else _store(db, typed, *wish, order_id)
    except (BadInput, MoreThanLeft, AlreadyRefunded, AskCustomer, WrongState) as refused:
        return _refused(order_id, typed, refused)
    say("ok", "The warranty claim is open.", "Another person approves what it pays.")
    return see_other("case.show", case_id=case_id)


def _refused(order_id: UUID, typed: WarrantyForm, refused: LedgerError) -> Response:
    count_refusal(refused)
    whole = []
    named = _FIELDS.get(str(refused.facts.get("field", "")), "")
    if named:
        typed[named].errors = [f"{typed[named].label.text}: {refused.sentence.partition(': ')[2]}"]
    else:
        whole = [words.sentence(refused.sentence)]
    with reading() as db:
        return _page(_room(db, order_id), typed, whole, status=422 if isinstance(refused, BadInput) else 409)


def _store(db: Connection, typed: WarrantyForm, request: ReturnRequest, failed_at: datetime, order_id: UUID) -> str:
    opened = open_warranty(db, current.merchant_id, request, failed_at, order_id)
    keep_result(db, str(typed.operation.data), {"case_id": str(opened.case_id)})
    return str(opened.case_id)


def _room(db: Connection, order_id: UUID) -> OrderRoom:
    return read_room(db, current.merchant_id, order_id, reason="faulty")


def _form(room: OrderRoom) -> WarrantyForm:
    made = WarrantyForm()
    lines = {line.line_ref: line.title or line.sku for line in room.lines if offers(room, line.line_ref)}
    made.line.choices = words.choices(lines)
    return made


def offers(room: OrderRoom, line_ref: str) -> bool:
    """Whether the policy gives a warranty on a line, of goods that somebody still has."""
    line = room.line(line_ref)
    return (
        line is not None
        and line.kind == "goods"
        and bool(line.free)
        and room.terms.of_line(line_ref).warranty.method != "none"
    )


def _wish(room: OrderRoom, typed: WarrantyForm) -> tuple[ReturnRequest, datetime] | None:
    units = (typed.units.data or "").strip()
    if not (units.isascii() and units.isdigit() and int(units)):
        typed.units.errors = [f"{typed.units.label.text}: write a whole number of at least 1"]
    if room.line(str(typed.line.data)) is None:
        typed.line.errors = ["Line: this order has no such line"]
    failed_at = None
    try:
        failed_at = datetime.combine(
            date.fromisoformat((typed.failed_on.data or "").strip()), time(12), current.time_zone
        )
    except ValueError:
        typed.failed_on.errors = ["The fault showed on: write the day as year, month and day, such as 2026-11-28"]
    if typed.errors or failed_at is None:
        return None
    lines = ((str(typed.line.data), int(units)),)
    return ReturnRequest(
        room.order_ref, lines, "faulty", "counter", typed.talk(), current.actor, customer_verified="in person",
        customer_text=typed.told(),
    ), failed_at  # fmt: skip


def _page(room: OrderRoom, typed: WarrantyForm, whole: list[str] | None = None, status: int = 200) -> Response:
    return page(
        "warranty.html", status=status, form=typed, form_errors=whole or [], offered=bool(typed.line.choices),
        reference=room.order_ref, action_url=url_for("warranty.claim", order_id=room.order_id),
        back_url=url_for("kinds.index", order_id=room.order_id),
    )  # fmt: skip
