"""Opening a return at the counter: find the order, choose lines and quantities, say why. The same request joins (DESIGN §2)."""

from datetime import date, datetime, time
from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from sqlalchemy import Connection
from wtforms import HiddenField, StringField
from wtforms.validators import UUID as UUID_TEXT
from wtforms.validators import AnyOf, Length, Optional, ValidationError

from console import words
from console.access import current, permission, reading, writing
from console.automatic import after_evidence
from console.counter_forms import ToldForm, reason_given
from console.counter_pages import ask_page, order_page, refused_page, too_many
from console.fragments import page, say, see_other
from console.log import log
from console.operations import Result, count_refusal, first_result, keep_result
from ledger.card_numbers import mask_card_numbers
from ledger.cases import Opened, ReturnRequest, open_return
from ledger.errors import AlreadyRefunded, AskCustomer, BadInput, LedgerError, MoreThanLeft, NotFound, WrongState
from ledger.queries.orders import OrderAtCounter, find_orders, read_order
from ledger.queries.receipts import read_receipt
from ledger.statement_time import FIELD
from ledger.unmatched_receipts import lock_receipt, match_receipt, read_answer, refused_words

blueprint = Blueprint("counter", __name__, url_prefix="/<merchant_slug>/counter")

LONGEST_SEARCH: Final = 120
# A form has at most 200 parts; an order with more lines than this goes through the API.
MOST_LINES: Final = 150


class ReturnForm(ToldForm):
    """What the clerk types; one quantity field for each line of the order is added by `_form`."""

    reason = reason_given(**words.NEVER_ARRIVED)
    said_on = StringField("Said on", description="If not today, such as 2026-11-28", validators=[Length(max=10)])
    answer = HiddenField(
        validators=[Optional(), AnyOf(["existing", "separate"], message="Choose what the customer said")]
    )
    # Of goods that are here already and belong to no return: they are booked in on what is opened.
    receipt = HiddenField(validators=[Optional(), UUID_TEXT(message="Open it from its receipt again")])

    def validate_said_on(self, field: StringField) -> None:
        """A day, and none to come."""
        try:
            late = date.fromisoformat(field.data) > _today() if field.data else False
        except ValueError:
            raise ValidationError("Write the day as year, month and day, such as 2026-11-28") from None
        if late:
            raise ValidationError("The customer said it today or before")

    def said_at(self) -> datetime | None:
        """Noon of that day in the shop's zone; None for today."""
        day = date.fromisoformat(self.said_on.data) if self.said_on.data else _today()
        return datetime.combine(day, time(12), current.time_zone) if day < _today() else None


def _today() -> date:
    return datetime.now(current.time_zone).date()


@blueprint.get("/")
@permission("open_return")
def index() -> Response:
    """Finds orders by their number or the customer's e-mail."""
    text = request.args.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    with reading() as db:
        found = find_orders(db, current.merchant_id, text) if text else []
        if "@" in text:
            log.info(
                "customer_searched", staff_id=current.staff_id, merchant=current.slug, kind="counter", count=len(found)
            )
        return page("counter.html", **_search(text, found))


@blueprint.get("/orders/<uuid:order_id>")
@permission("open_return")
def order(order_id: UUID) -> Response:
    """The lines of one order, to choose from."""
    with reading() as db:
        found = read_order(db, current.merchant_id, order_id)
        return page("counter.html", **order_page(found, _form(found, _offered(db)), {}, []))


@blueprint.post("/orders/<uuid:order_id>")
@permission("open_return")
def open_at_counter(order_id: UUID) -> Response:
    """Opens the return or joins it to the open case; the same form again lands on the same case."""
    with reading() as db:
        found = read_order(db, current.merchant_id, order_id)
    form = _form(found)
    lines, errors = _quantities(found, form)
    if not form.validate() or errors or not lines:
        whole = [] if errors or lines else ["Say how many units of at least one line come back."]
        return _again(order_id, form, errors, whole, 422)
    try:
        with writing() as db:
            earlier = first_result(db, str(form.operation.data), changed_too=True)
            opened = None if earlier else _open(db, found, form, lines)
    except LedgerError as refused:
        return _refused(order_id, form, refused)
    if opened is not None and form.receipt.data:
        after_evidence(current.merchant_id, opened.case_id)
    return _to_case(opened, earlier)


def _open(db: Connection, found: OrderAtCounter, form: ReturnForm, lines: tuple[tuple[str, int], ...]) -> Opened:
    operation = str(form.operation.data)
    # Two who answer for the same goods meet at the receipt, before either has locked an order.
    receipt_id = UUID(form.receipt.data) if form.receipt.data else None
    if receipt_id is not None:
        lock_receipt(db, current.merchant_id, receipt_id)
    opened = open_return(
        db,
        current.merchant_id,
        ReturnRequest(
            order_ref=found.external_ref,
            lines=lines,
            reason=str(form.reason.data),
            channel="counter",
            reference=form.talk(),
            actor=current.actor,
            relation={"existing": "existing", "separate": "separate"}.get(form.answer.data or ""),  # type: ignore[arg-type]
            customer_verified="in person",
            customer_text=mask_card_numbers(form.told()),
            stated_at=form.said_at(),
        ),
    )
    if receipt_id is not None:
        match_receipt(
            db,
            current.merchant_id,
            receipt_id,
            opened.case_id,
            current.staff_id,
            lines,
            opened=opened.status == "opened",
        )
    keep_result(db, operation, {"case_id": str(opened.case_id), "number": opened.number, "status": opened.status})
    return opened


def _to_case(opened: Opened | None, earlier: Result | None) -> Response:
    """303 to the case a request ended in, and what became of it."""
    if opened is None:
        first = earlier.answer if earlier else {}
        reference = words.case_reference(first["number"])
        if earlier and earlier.same:
            say("ok", f"Case {reference} was opened by this form already.", "Your second click changed nothing.")
        else:
            say(
                "warn",
                f"This form had opened case {reference} already.",
                "What you changed on it afterwards was not taken.",
            )
        return see_other("case.show", case_id=first["case_id"])
    reference = words.case_reference(opened.number)
    if opened.status == "opened":
        say("ok", f"Case {reference} is open.", "The warehouse reports what arrives, then someone approves.")
    else:
        say(
            "info", f"This joined case {reference}.", "The same units were asked for already; nothing was opened twice."
        )
    return see_other("case.show", case_id=opened.case_id)


def _refused(order_id: UUID, form: ReturnForm, refused: LedgerError) -> Response:
    """The page for each refusal; everything that was typed is kept. Others go to the usual error page."""
    count_refusal(refused)
    with reading() as db:
        found = read_order(db, current.merchant_id, order_id)
        match refused:
            case AlreadyRefunded():
                return page("already_refunded.html", status=409, refused=refused_page(found, refused.facts))
            case AskCustomer():
                unanswered = "answer" not in request.form
                error = "Choose what the customer said" if unanswered else ""
                return page("counter_ask.html", status=409, ask=ask_page(found, form, refused.facts), ask_error=error)
            case MoreThanLeft():
                errors, whole = too_many(found, refused)
                return page("counter.html", status=409, **order_page(found, form, errors, whole))
            case BadInput() if refused.facts.get("field") == FIELD:
                form.said_on.errors = [words.sentence(refused.sentence.partition(": ")[2])]
                return page("counter.html", status=422, **order_page(found, form, {}, []))
            case WrongState() if form.receipt.data:
                return page("counter.html", status=409, **order_page(found, form, {}, [refused.sentence]))
            case BadInput() | NotFound():
                status = 422 if isinstance(refused, BadInput) else 409
                return page("counter.html", status=status, **order_page(found, form, {}, [refused.sentence]))
    raise refused


def _again(order_id: UUID, form: ReturnForm, errors: dict[int, str], whole: list[str], status: int) -> Response:
    with reading() as db:
        found = read_order(db, current.merchant_id, order_id)
        return page("counter.html", status=status, **order_page(found, form, errors, whole))


def _form(found: OrderAtCounter, offered: tuple[str, dict[str, int]] = ("", {})) -> ReturnForm:
    """The form with a quantity field for each line, also one without units left: asking for those is answered with why.
    `offered`: a receipt, and what was reported of it by line."""
    receipt, counts = offered
    fields = {
        f"quantity_{line.position}": StringField(default=str(counts.get(line.line_ref) or counts.get(line.sku) or ""))
        for line in found.lines[:MOST_LINES]
    }
    made: ReturnForm = type("ReturnFormOfOrder", (ReturnForm,), fields)()
    if receipt:
        made.receipt.data = receipt
    return made


def _offered(db: Connection) -> tuple[str, dict[str, int]]:
    """The receipt a return is opened for, of the page's address. Raises NotFound, and WrongState for one with its answer."""
    try:
        receipt_id = UUID(request.args["receipt"]) if "receipt" in request.args else None
    except ValueError:
        raise NotFound from None
    if receipt_id is None:
        return "", {}
    receipt = read_receipt(db, current.merchant_id, receipt_id)
    answer = read_answer(db, current.merchant_id, receipt_id)
    if answer is not None:
        raise WrongState(refused_words(answer))
    return str(receipt_id), {line["line"]: line["count"] for line in receipt.lines}


def _quantities(found: OrderAtCounter, form: ReturnForm) -> tuple[tuple[tuple[str, int], ...], dict[int, str]]:
    """What was typed per line: (line reference, quantity), and by position what is no whole number."""
    lines, errors = [], {}
    for line in found.lines[:MOST_LINES]:
        text = (form[f"quantity_{line.position}"].data or "").strip()
        if not text or text == "0":
            continue
        if not (text.isascii() and text.isdigit()):
            errors[line.position] = "write a whole number"
        else:
            lines.append((line.line_ref, int(text)))
    return tuple(lines), errors


def _search(text: str, found: list[Any]) -> dict[str, Any]:
    orders = [
        {
            "reference": order.external_ref, "url": url_for("counter.order", order_id=order.order_id),
            "customer": words.customer(order.customer), "placed_at": order.placed_at, "paid_minor": order.paid_minor,
            "currency": order.currency, "lines_text": words.counted(order.lines, "line", "lines"),
        }
        for order in found
    ]  # fmt: skip
    find = {"url": url_for("counter.index"), "q": text, "searched": bool(text), "orders": orders}
    return {
        "find": find,
        "order": None,
        "form": None,
        "form_errors": [],
        "wrong": False,
        "action_url": "",
        "receipt_url": "",
    }
