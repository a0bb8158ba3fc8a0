"""An exchange: the customer's choice of other goods, from an order or an open return. It takes the claim and moves no money."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import BooleanField, HiddenField, RadioField, StringField
from wtforms.validators import AnyOf, InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.counter_forms import TalkForm, reason_given
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.kinds import carried, lines_left
from console.operations import count_refusal, first_result, keep_result
from ledger.cases import ReturnRequest
from ledger.errors import AlreadyRefunded, AskCustomer, BadInput, LedgerError, MoreThanLeft, WrongState
from ledger.exchanges import LONGEST_WISH, Choice, open_exchange, read_offers, record_exchange, why_not
from ledger.queries.case import CaseHead, read_head, read_intents, read_lines
from ledger.room import LineRoom, OrderRoom, read_room_of_case
from ledger.states import LIVE

blueprint = Blueprint("exchange", __name__, url_prefix="/<merchant_slug>")


class ChoiceForm(ConsoleForm):
    """What the customer takes instead, and a person's word that it is there."""

    wish = StringField(
        "What the customer takes instead", description="The same in another size, for example",
        validators=[InputRequired("What the customer takes instead: write it down"), Length(max=LONGEST_WISH)],
    )  # fmt: skip
    in_stock = BooleanField(
        "I looked: the replacement is in stock",
        validators=[InputRequired("In stock: look whether the replacement is there, and say so")],
    )
    step = HiddenField(default="check", validators=[AnyOf(["check", "give", "again"], message="Open this page again.")])


class ExchangeForm(ChoiceForm, TalkForm):
    """The same from an order, with the line and why it goes back."""

    line = RadioField("Line", validators=[InputRequired("Choose a line")], validate_choice=False)
    units = StringField("How many units", default="1", validators=[Length(max=8)])
    reason = reason_given()


@blueprint.get("/orders/<uuid:order_id>/exchange")
@permission("propose")
def form(order_id: UUID) -> Response:
    """The form, with the lines that may be exchanged."""
    with reading() as db:
        offers = _offers(db, order_id)
        return _order_page(offers, _form(offers))


@blueprint.post("/orders/<uuid:order_id>/exchange")
@permission("propose")
def give(order_id: UUID) -> Response:
    """Shows the sheet; from the sheet, records the exchange. The same sheet again lands on the same case."""
    with reading() as db:
        offers = _offers(db, order_id)
        typed = _form(offers)
        wish = _wish(offers, typed) if typed.validate() else None
        if wish is None:
            return _order_page(offers, typed, status=422)
        if typed.step.data != "give":
            return _sheet_or_form(offers, typed)
    try:
        with writing() as db:
            earlier = first_result(db, str(typed.operation.data))
            case_id = earlier.answer["case_id"] if earlier else _store(db, typed, wish, order_id)
    except (BadInput, MoreThanLeft, AlreadyRefunded, AskCustomer, WrongState) as refused:
        count_refusal(refused)
        typed.step.data, typed.operation.data = "check", new_operation()
        with reading() as db:
            return _order_page(
                _offers(db, order_id), typed, [_said(refused)], status=422 if isinstance(refused, BadInput) else 409
            )
    return _recorded(case_id)


def _store(db: Connection, typed: ExchangeForm, wish: ReturnRequest, order_id: UUID) -> str:
    opened = open_exchange(db, current.merchant_id, wish, _choice(typed), order_id)
    keep_result(db, str(typed.operation.data), {"case_id": str(opened.case_id)})
    return str(opened.case_id)


@blueprint.get("/cases/<uuid:case_id>/exchange")
@permission("propose")
def of_case(case_id: UUID) -> Response:
    """The sheet of an open return: what the customer takes instead is typed on it."""
    with reading() as db:
        return _case_page(db, case_id, ChoiceForm())


@blueprint.post("/cases/<uuid:case_id>/exchange")
@permission("propose")
def record(case_id: UUID) -> Response:
    """Shows the sheet of an open return; from the sheet, records the exchange. Once more changes nothing."""
    typed = ChoiceForm()
    with reading() as db:
        if not typed.validate():
            return _case_page(db, case_id, typed, status=422)
        if typed.step.data == "again":
            typed.step.data = "check"
            return _case_page(db, case_id, typed)
        if typed.step.data == "check":
            return _case_sheet(db, case_id, typed)
    try:
        with writing() as db:
            record_exchange(db, current.merchant_id, case_id, _choice(typed))
    except (BadInput, WrongState) as refused:
        typed.step.data = "check"
        with reading() as db:
            return _case_page(
                db, case_id, typed, [_said(refused)], status=422 if isinstance(refused, BadInput) else 409
            )
    return _recorded(case_id)


def _recorded(case_id: Any) -> Response:
    say("ok", "The exchange is recorded.", "No money moves; nothing more can be claimed for these units.")
    return see_other("case.show", case_id=case_id)


def _said(refused: LedgerError) -> str:
    return words.sentence(refused.sentence.replace("in_stock: ", "In stock: "))


def _choice(typed: ChoiceForm) -> Choice:
    return Choice(str(typed.wish.data), bool(typed.in_stock.data), current.actor)


@dataclass(frozen=True)
class Offers:
    """An order, and by line for which reasons it may be exchanged."""

    room: OrderRoom
    reasons: dict[str, list[str]]

    @property
    def lines(self) -> list[LineRoom]:
        return [line for line in self.room.lines if line.line_ref in self.reasons]

    def said(self, line: LineRoom) -> str:
        """The line as it is chosen: with its reasons where it is not every one."""
        title, reasons = line.title or line.sku, self.reasons[line.line_ref]
        return title if len(reasons) == len(words.REASONS) else f"{title} (only for: {_in_words(reasons)})"


def _in_words(reasons: list[str]) -> str:
    return ", ".join(words.REASONS[reason] for reason in reasons)


def _offers(db: Connection, order_id: UUID) -> Offers:
    return Offers(*read_offers(db, current.merchant_id, order_id))


def _form(offers: Offers) -> ExchangeForm:
    made = ExchangeForm()
    made.line.choices = words.choices({line.line_ref: offers.said(line) for line in offers.lines})
    return made


def _wish(offers: Offers, typed: ExchangeForm) -> ReturnRequest | None:
    units = (typed.units.data or "").strip()
    if not (units.isascii() and units.isdigit() and int(units)):
        typed.units.errors = [f"{typed.units.label.text}: write a whole number of at least 1"]
    reasons = offers.reasons.get(str(typed.line.data))
    if offers.room.line(str(typed.line.data)) is None:
        typed.line.errors = ["Line: this order has no such line"]
    elif reasons is not None and typed.reason.data not in reasons:
        typed.reason.errors = [f"Reason given: the policy exchanges this line only for {_in_words(reasons)}"]
    if typed.errors:
        return None
    return ReturnRequest(
        offers.room.order_ref, ((str(typed.line.data), int(units)),), str(typed.reason.data), "counter", typed.talk(),
        current.actor, customer_verified="in person", kind="exchange",
    )  # fmt: skip


def _order_page(offers: Offers, typed: ExchangeForm, whole: list[str] | None = None, status: int = 200) -> Response:
    room = offers.room
    lines = [line for line in lines_left(room, "goodwill") if line["ref"] in offers.reasons]
    blocked = (
        ""
        if lines
        else "No line of this order can be exchanged: the policy offers none, or no replacement is in stock."
    )
    return page(
        "exchange.html", status=status, form=typed, form_errors=whole or [], lines=lines, blocked=blocked, units_text="",
        reference=f"order {room.order_ref}", action_url=url_for("exchange.give", order_id=room.order_id),
        back_url=url_for("kinds.index", order_id=room.order_id),
    )  # fmt: skip


def _sheet_or_form(offers: Offers, typed: ExchangeForm) -> Response:
    room = offers.room
    if typed.step.data == "again":
        typed.step.data = "check"
        return _order_page(offers, typed)
    line = room.line(str(typed.line.data))
    title = (line.title or line.sku) if line else ""
    facts = [("Order", room.order_ref), ("Goods", f"{typed.units.data} of {title}"), ("Takes instead", str(typed.wish.data)),
             ("Reason given", words.sentence(words.REASONS[str(typed.reason.data)]))]  # fmt: skip
    url = url_for("exchange.give", order_id=room.order_id)
    return _sheet_page(typed, facts, url, url_for("exchange.form", order_id=room.order_id))


def _sheet_page(typed: ChoiceForm, facts: list[tuple[str, str]], url: str, back: str) -> Response:
    stock = "y" if typed.in_stock.data else ""
    return page(
        "allowance_sheet.html", title="Exchange", amount=None, facts=facts, button="Record the exchange",
        says="No money moves. The claim on these units is used up for ever: no return, refund or allowance for them afterwards.",
        hidden=carried(typed, step="give", in_stock=stock), again=carried(typed, step="again", in_stock=stock),
        operation=typed.operation.data, action_url=url, back_url=back,
    )  # fmt: skip


def _case_page(
    db: Connection, case_id: UUID, typed: ChoiceForm, whole: list[str] | None = None, status: int = 200
) -> Response:
    head = read_head(db, current.merchant_id, case_id)
    held = read_lines(db, current.merchant_id, case_id)
    room = read_room_of_case(db, current.merchant_id, case_id, [line.line_ref for line in held])
    refs = [room.line(line.line_ref) for line in held]
    reasons = [
        f"{line.title or line.sku}: {why}" for line in refs if line is not None and (why := why_not(room.terms, line))
    ]
    return page(
        "exchange.html", status=status, form=typed, form_errors=whole or [], lines=[], units_text=_units(db, head),
        blocked=f"Not offered: {'; '.join(reasons)}." if reasons else "", reference=f"case {words.case_reference(head.number)}",
        action_url=url_for("exchange.record", case_id=case_id), back_url=url_for("case.show", case_id=case_id),
    )  # fmt: skip


def _case_sheet(db: Connection, case_id: UUID, typed: ChoiceForm) -> Response:
    head = read_head(db, current.merchant_id, case_id)
    live = [one for one in read_intents(db, current.merchant_id, case_id) if one.state in LIVE]
    back = ", ".join(words.refund_reference(one.number) for one in live)
    facts = [("Case", words.case_reference(head.number)), ("Goods", _units(db, head)), ("Takes instead", str(typed.wish.data)),
             ("Called back", back or "no refund was asked for")]  # fmt: skip
    return _sheet_page(
        typed, facts, url_for("exchange.record", case_id=case_id), url_for("exchange.of_case", case_id=case_id)
    )


def _units(db: Connection, head: CaseHead) -> str:
    lines = read_lines(db, current.merchant_id, head.case_id)
    return "; ".join(f"{sum(b - a for a, b in line.units)} of {line.title or line.sku}" for line in lines)
