"""Money back with the goods kept: from an order, a plain form for each kind, what is left shown first, and a sheet to confirm.

The form is sent twice: `check` works it out and shows the sheet, `give` stores what the sheet showed. What was typed travels in
the form itself, so it works without a script and is kept whatever is refused.
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from sqlalchemy import Connection
from wtforms import Field, HiddenField, RadioField, StringField
from wtforms.validators import AnyOf, InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.counter_forms import ToldForm, reason_field
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.kind_words import ENTRIES, KINDS, REASONS, ROUTES, amount
from console.operations import Result, first_result, keep_result
from ledger.allowances import BY_UNIT, AllowanceRequest, Given, Preview, open_allowance, work_out
from ledger.errors import BadInput, LedgerError, Stale, WrongState
from ledger.exchanges import read_offers
from ledger.money import MoneyError, parse_major
from ledger.policies import NoPolicy
from ledger.queries.destinations import Destination, destinations
from ledger.room import LineRoom, OrderRoom, read_room

blueprint = Blueprint("kinds", __name__, url_prefix="/<merchant_slug>/orders/<uuid:order_id>")

KIND: Final = "<any(keep_item, price_reduction, price_adjustment, goodwill, shipping_only):kind>"
# Where the ledger's fields stand in the form.
_FIELDS: Final = {"amount": "amount", "new_price": "amount", "units": "units", "line": "line", "entry": "entry",
                  "reason": "reason", "currency": "currency", "conversation": "conversation", "worth": "amount",
                  "conform": "conform"}  # fmt: skip


class AllowanceForm(ToldForm):
    """What is typed; `line` gets the order's lines as its choices. `shown` is what the sheet said it comes to."""

    line = RadioField("Line", validators=[InputRequired("Choose a line")], validate_choice=False)
    units = StringField("How many units", default="1", validators=[Length(max=8)])
    amount = StringField("Amount", validators=[InputRequired("Amount: write how much"), Length(max=40)])
    conform = StringField(
        "Worth of one unit without the defect", description="What such goods cost when nothing is wrong with them",
        validators=[InputRequired("Worth without the defect: write how much"), Length(max=40)],
    )  # fmt: skip
    entry = RadioField(
        "The amount is", choices=words.choices(ENTRIES), validators=[InputRequired("Say whether tax is in the amount")]
    )
    currency = HiddenField()
    reason = reason_field("Reason", REASONS, "Choose the reason")
    step = HiddenField(default="check", validators=[AnyOf(["check", "give", "again"], message="Open this page again.")])
    shown = HiddenField(default="")


@blueprint.get("/allowances")
@permission("propose")
def index(order_id: UUID) -> Response:
    """What is left of each line, and what can be given."""
    with reading() as db:
        room = read_room(db, current.merchant_id, order_id)
        offers = [
            {"url": url_for("kinds.form", order_id=order_id, kind=kind), **texts} for kind, texts in KINDS.items()
        ]
        exchange = (
            url_for("exchange.form", order_id=order_id) if read_offers(db, current.merchant_id, order_id)[1] else ""
        )
        return page(
            "allowances.html",
            order=_order(room),
            lines=lines_left(room),
            offers=offers,
            exchange_url=exchange,
            warranty_url=_warranty(db, room),
        )


@blueprint.get(f"/allowances/{KIND}")
@permission("propose")
def form(order_id: UUID, kind: str) -> Response:
    """The form of one kind."""
    with reading() as db:
        room = read_room(db, current.merchant_id, order_id)
        return _form_page(room, kind, _form(room, kind))


@blueprint.post(f"/allowances/{KIND}")
@permission("propose")
def give(order_id: UUID, kind: str) -> Response:
    """Works it out and shows the sheet; from the sheet, opens the case. The same sheet again lands on the same case."""
    with reading() as db:
        room = read_room(db, current.merchant_id, order_id)
        typed = _form(room, kind)
        wish = _wish(room, kind, typed) if typed.validate() else None
        if wish is None:
            return _form_page(room, kind, typed, status=422)
        if typed.step.data == "again":
            typed.step.data = "check"
            return _form_page(room, kind, typed)
        if typed.step.data == "check":
            return _check(db, room, typed, wish)
    try:
        with writing() as db:
            earlier = first_result(db, str(typed.operation.data))
            given = None if earlier else _give(db, typed, wish)
    except (BadInput, Stale, WrongState) as refused:
        return _refused(order_id, kind, typed, refused)
    return _to_case(given, earlier)


def _check(db: Connection, room: OrderRoom, typed: AllowanceForm, wish: AllowanceRequest) -> Response:
    try:
        found = work_out(db, current.merchant_id, wish)
    except BadInput as refused:
        _put_right(typed, refused)
        return _form_page(room, wish.kind, typed, status=422)
    return page("allowance_sheet.html", **_sheet(db, room, typed, wish, found))


def _give(db: Connection, typed: AllowanceForm, wish: AllowanceRequest) -> Given:
    given = open_allowance(db, current.merchant_id, wish)
    if typed.shown.data != str(given.minor):
        raise Stale("It comes to another amount now than the sheet showed. Nothing was stored.")
    keep_result(db, str(typed.operation.data), {"case_id": str(given.case_id), "number": given.number})
    return given


def _to_case(given: Given | None, earlier: Result | None) -> Response:
    if given is None:
        first = earlier.answer if earlier else {}
        reference = words.case_reference(first["number"])
        say("ok", f"This sheet had opened case {reference} already.", "Your second click changed nothing.")
        return see_other("case.show", case_id=first["case_id"])
    say(
        "ok",
        f"Case {words.case_reference(given.number)} asks for {amount(given.minor, given.currency)}.",
        "Another person approves it; nothing is paid before.",
    )
    return see_other("case.show", case_id=given.case_id)


def _refused(order_id: UUID, kind: str, typed: AllowanceForm, refused: LedgerError) -> Response:
    """The form again, with what is left now; what was typed is kept, and nothing was stored."""
    typed.step.data, typed.operation.data = "check", new_operation()
    with reading() as db:
        room = read_room(db, current.merchant_id, order_id)
        if isinstance(refused, BadInput):
            _put_right(typed, refused)
            return _form_page(room, kind, typed, status=422)
        return _form_page(room, kind, typed, [refused.sentence], status=409)


def _put_right(typed: AllowanceForm, refused: BadInput) -> None:
    """The ledger's refusal beside the field it names; one the form does not have is said about the whole."""
    name = _FIELDS.get(str(refused.facts["field"]), "")
    text = refused.sentence.partition(": ")[2]
    if name in typed and name != "currency":
        typed[name].errors = [f"{typed[name].label.text}: {text}"]
    else:
        typed.form_errors.append(words.sentence(refused.sentence))


def _form(room: OrderRoom, kind: str) -> AllowanceForm:
    made = AllowanceForm()
    made.line.choices = words.choices({line.line_ref: _name(line) for line in offered(room, kind)})
    made.amount.label.text = KINDS[kind]["amount"]
    # A ratio is the same with tax and without.
    del made["entry" if kind == "price_reduction" else "conform"]
    if request.method == "GET":
        made.currency.data = room.currency
        if kind != "price_reduction":
            made.entry.data = room.terms.goodwill.entry if kind == "goodwill" else "gross"
    return made


def offered(room: OrderRoom, kind: str) -> list[LineRoom]:
    """The lines that this kind can be given on."""
    goods = kind != "shipping_only"
    return [
        line for line in room.lines
        if (line.kind == "goods") == goods and room.working.line(line.line_ref).parent is not True
    ]  # fmt: skip


def _wish(room: OrderRoom, kind: str, typed: AllowanceForm) -> AllowanceRequest | None:
    """What was typed as the ledger takes it; None, with the field's error, for what cannot be read."""
    units = (typed.units.data or "1").strip()
    if not (units.isascii() and units.isdigit()):
        typed.units.errors = [f"{typed.units.label.text}: write a whole number"]
    reduces = kind == "price_reduction"
    minor, conform = (_minor(room, typed[name]) for name in ("amount", "conform" if reduces else "amount"))
    if typed.errors:
        return None
    return AllowanceRequest(
        room.order_id, kind, str(typed.line.data), minor, str(typed.currency.data),  # type: ignore[arg-type]
        "gross" if reduces else str(typed.entry.data), str(typed.reason.data), current.actor,  # type: ignore[arg-type]
        typed.talk(), int(units), typed.told(), conform if reduces else None,
    )  # fmt: skip


def _minor(room: OrderRoom, field: Field) -> int:
    minor = 0
    try:
        minor = parse_major(field.data or "", room.currency)
    except MoneyError as error:
        field.errors = [f"{field.label.text}: {error}"]
    return minor


def _form_page(
    room: OrderRoom, kind: str, typed: AllowanceForm, whole: list[str] | None = None, status: int = 200
) -> Response:
    return page(
        "allowance.html", status=status, order=_order(room), lines=lines_left(room, kind), kind={"code": kind, **KINDS[kind]},
        form=typed, form_errors=whole or [], by_unit=kind in BY_UNIT,
        action_url=url_for("kinds.give", order_id=room.order_id, kind=kind),
        back_url=url_for("kinds.index", order_id=room.order_id),
    )  # fmt: skip


def _warranty(db: Connection, room: OrderRoom) -> str:
    """Where a warranty is claimed, "" where the policy for faults gives none."""
    try:
        faults = read_room(db, current.merchant_id, room.order_id, reason="faulty")
    except NoPolicy:
        return ""
    given = any(terms.warranty.method != "none" for terms in faults.terms.each)
    return url_for("warranty.form", order_id=room.order_id) if given else ""


def _order(room: OrderRoom) -> dict[str, Any]:
    return {"reference": room.order_ref, "currency": room.currency, "blocked": room.blocked,
            "url": url_for("counter.order", order_id=room.order_id)}  # fmt: skip


def _name(line: LineRoom) -> str:
    return line.title or line.sku or line.line_ref


def lines_left(room: OrderRoom, kind: str = "") -> list[dict[str, Any]]:
    """Each line with what was paid and what is left of it, and its units that nobody has asked for."""
    return [
        {"number": line.position, "ref": line.line_ref, "title": _name(line), "sku": line.sku, "bought": line.quantity,
         "goods": line.kind == "goods", "free": line.free_count, "paid_minor": line.gross_minor, "left_minor": line.left_minor}
        for line in (offered(room, kind) if kind else room.lines)
    ]  # fmt: skip


@dataclass(frozen=True)
class Typed:
    """A field of the form, carried through the sheet."""

    name: str
    value: str


def carried(typed: ConsoleForm, **changes: str) -> list[Typed]:
    values = {field.name: str(field.data or "") for field in typed if field.name not in ("csrf_token", "operation")}
    return [Typed(name, value) for name, value in {**values, **changes}.items()]


def _typed(wish: AllowanceRequest, currency: str) -> list[tuple[str, str]]:
    """What was typed, as the sheet repeats it."""
    label, typed = KINDS[wish.kind]["amount"], amount(wish.minor, currency)
    if wish.conform_minor is None:
        return [(label, f"{typed} {ENTRIES[wish.entry]}")]
    return [(label, typed), ("Without it", amount(wish.conform_minor, currency))]


def _sheet(
    db: Connection, room: OrderRoom, typed: AllowanceForm, wish: AllowanceRequest, found: Preview
) -> dict[str, Any]:
    line = room.line(wish.line_ref)
    of = f"{words.sentence(words.units([found.span]))} of {line.quantity}" if line and found.span else "The whole line"
    facts = [
        ("Order", room.order_ref), ("Line", _name(line) if line else wish.line_ref), ("Units", of),
        *_typed(wish, found.currency),
        ("Of which tax", amount(found.tax_minor, found.currency)),
        ("Left of it afterwards", amount(found.left_minor, found.currency)),
        ("Reason", words.sentence(REASONS[wish.reason])), ("Decides", ROUTES[found.route]),
        ("Goes to", ", ".join(map(goes_to, destinations(db, current.merchant_id, found.captures))) or "no payment holds it"),
    ]  # fmt: skip
    return {
        "title": KINDS[wish.kind]["do"], "amount": {"minor": found.minor, "currency": found.currency},
        "says": "Another person approves it before any money moves.", "facts": facts,
        "button": f"Ask for {amount(found.minor, found.currency)}",
        "hidden": carried(typed, step="give", shown=str(found.minor)),
        "again": carried(typed, step="again"), "operation": typed.operation.data,
        "action_url": url_for("kinds.give", order_id=room.order_id, kind=wish.kind),
        "back_url": url_for("kinds.form", order_id=room.order_id, kind=wish.kind),
    }  # fmt: skip


def goes_to(one: Destination) -> str:
    to = words.destination(one.kind, one.brand, one.last4)
    return f"{to['label']} ending {to['last4']}" if to["last4"] else str(to["label"])
