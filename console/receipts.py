"""Unmatched receipts: goods that stand at the bench and belong to no return we know of. A person says once what becomes of each."""

from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, request, url_for
from wtforms import SelectField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.automatic import after_evidence
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.log import log
from console.operations import first_result, keep_result
from console.receipts_pages import CLOSED, case_page, counts_offered, list_page, receipt_page
from ledger.errors import BadInput, WrongState
from ledger.evidence import Arrival
from ledger.queries.case import read_head
from ledger.queries.orders import LineAtBench, find_orders, lines_at_bench
from ledger.queries.receipts import Receipt, answered_receipts, candidates, open_receipts, read_receipt
from ledger.unmatched_receipts import (
    LONGEST_NOTE,
    Unmatched,
    close_receipt,
    keep_unmatched,
    lock_receipt,
    match_receipt,
    read_answer,
)

blueprint = Blueprint("receipts", __name__, url_prefix="/<merchant_slug>/receipts")

LONGEST_SEARCH: Final = 120


class AsideForm(ConsoleForm):
    """A parcel that nobody announced, as it lies on the bench."""

    parcel = StringField("Tracking number or bench", validators=[Length(max=120)])
    order_ref = StringField("Order number on it", description="If there is one", validators=[Length(max=100)])
    note = TextAreaField(
        "What is in it",
        validators=[InputRequired("What is in it: write it down"), Length(max=LONGEST_NOTE)],
    )


class CloseForm(ConsoleForm):
    """Why nothing comes of the goods."""

    kind = SelectField(
        "What became of them", choices=words.choices({"": "Choose one", **CLOSED}),
        validators=[InputRequired("What became of them: choose one")],
    )  # fmt: skip


class MatchForm(ConsoleForm):
    """How many units of each line of the case the goods are; `_form` adds a count for each."""


@blueprint.get("/")
@permission("report_goods")
def index() -> Response:
    """What waits for a person, and what was answered lately."""
    with reading() as db:
        waiting = open_receipts(db, current.merchant_id)
        return page("receipts.html", **list_page(waiting, answered_receipts(db, current.merchant_id)))


@blueprint.get("/new")
@permission("report_goods")
def ask() -> Response:
    """The form for a parcel that names no return."""
    with reading():
        return page("receipt_aside.html", form=AsideForm(), action_url=url_for("receipts.put_aside"))


@blueprint.post("/new")
@permission("report_goods")
def put_aside() -> Response:
    """Puts a parcel aside; the same form again lands on the first."""
    form = AsideForm()
    if not form.validate():
        with reading():
            return page("receipt_aside.html", status=422, form=form, action_url=url_for("receipts.put_aside"))
    operation = str(form.operation.data)
    with writing() as db:
        earlier = first_result(db, operation)
        if earlier is None:
            number = keep_unmatched(db, current.merchant_id, Unmatched(
                Arrival((), "warehouse", current.actor, (form.parcel.data or "").strip()), "at_bench",
                order_ref=form.order_ref.data or "", note=str(form.note.data),
            ))  # fmt: skip
            keep_result(db, operation, {"number": number})
        else:
            number = earlier.answer["number"]
    say("ok", f"Put aside as P-{number}.", "Write that on the parcel. The returns desk says what becomes of it.")
    return see_other("receipts.index")


@blueprint.get("/<uuid:receipt_id>")
@permission("report_goods")
def show(receipt_id: UUID) -> Response:
    """One of them, with the cases and orders it may be of."""
    return _show(receipt_id, CloseForm())


def _show(receipt_id: UUID, form: CloseForm, status: int = 200) -> Response:
    text = request.args.get("q", "").replace("\0", "").strip()[:LONGEST_SEARCH]
    with reading() as db:
        receipt = read_receipt(db, current.merchant_id, receipt_id)
        sought = text or receipt.case_ref or receipt.order_ref or receipt.parcel
        found = candidates(db, current.merchant_id, sought) if sought else []
        order = text or receipt.order_ref
        orders = find_orders(db, current.merchant_id, order) if order else []
        return page("receipt.html", status=status, **receipt_page(receipt, text, found, orders), form=form)


@blueprint.get("/<uuid:receipt_id>/cases/<uuid:case_id>")
@permission("report_goods")
def ask_match(receipt_id: UUID, case_id: UUID) -> Response:
    """What was reported beside what the case holds, and everything that does not fit."""
    with reading() as db:
        receipt = read_receipt(db, current.merchant_id, receipt_id)
        lines = lines_at_bench(db, current.merchant_id, case_id)
        head = read_head(db, current.merchant_id, case_id)
        form = _form(lines, counts_offered(receipt, lines))
        return page("receipt_case.html", **case_page(receipt, head, lines, form, {}, []))


@blueprint.post("/<uuid:receipt_id>/cases/<uuid:case_id>")
@permission("report_goods")
def match(receipt_id: UUID, case_id: UUID) -> Response:
    """Books the goods in on the case; the same again, by whomever, changes nothing."""
    with reading() as db:
        lines = lines_at_bench(db, current.merchant_id, case_id)
    if not lines:
        raise WrongState("This case holds no units any more. Choose another case for these goods.")
    form = _form(lines)
    counts, wrong = _counts(lines, form)
    if not form.validate() or wrong:
        return _again(receipt_id, case_id, form, wrong, [], 422)
    try:
        with writing() as db:
            lock_receipt(db, current.merchant_id, receipt_id)
            earlier = read_answer(db, current.merchant_id, receipt_id)
            answer = match_receipt(db, current.merchant_id, receipt_id, case_id, current.staff_id, counts)
    except BadInput as refused:
        return _again(receipt_id, case_id, form, {}, [words.sentence(refused.sentence.partition(": ")[2])], 422)
    except WrongState as refused:
        return _again(receipt_id, case_id, form, {}, [refused.sentence], 409)
    if earlier is None:
        log.info("receipt_matched", staff_id=current.staff_id, merchant=current.slug)
        say("ok", "The goods are booked in on this case.", "The amount is worked out again from them.")
    else:
        say("ok", f"{answer.by} put these goods on this case before.", "They are counted once.")
    after_evidence(current.merchant_id, case_id)
    return see_other("case.show", case_id=case_id)


@blueprint.post("/<uuid:receipt_id>/closing")
@permission("report_goods")
def close(receipt_id: UUID) -> Response:
    """Says that nothing comes of the goods."""
    form = CloseForm()
    if not form.validate():
        return _show(receipt_id, form, 422)
    try:
        with writing() as db:
            close_receipt(db, current.merchant_id, receipt_id, current.staff_id, str(form.kind.data))
    except WrongState as refused:
        form.kind.errors = [refused.sentence]
        return _show(receipt_id, form, 409)
    log.info("receipt_closed", staff_id=current.staff_id, merchant=current.slug)
    say("ok", "Closed.", "It stays readable for thirty days here, and in the records for good.")
    return see_other("receipts.index")


def _form(lines: list[LineAtBench], offered: dict[int, int] | None = None) -> MatchForm:
    fields: dict[str, Any] = {
        f"count_{line.position}": StringField(default=str((offered or {}).get(line.position) or "")) for line in lines
    }
    made: MatchForm = type("MatchFormOfCase", (MatchForm,), fields)()
    return made


def _counts(lines: list[LineAtBench], form: MatchForm) -> tuple[list[tuple[str, int]], dict[str, str]]:
    counts: list[tuple[str, int]] = []
    wrong: dict[str, str] = {}
    for line in lines:
        name = f"count_{line.position}"
        text = (form[name].data or "").strip() if name in form else ""
        if text and not (text.isascii() and text.isdigit() and len(text) <= 6):
            wrong[name] = "write a whole number"
        elif text:
            counts.append((line.line_ref, int(text)))
    return counts, wrong


def _again(
    receipt_id: UUID, case_id: UUID, form: MatchForm, wrong: dict[str, str], whole: list[str], status: int
) -> Response:
    with reading() as db:
        receipt: Receipt = read_receipt(db, current.merchant_id, receipt_id)
        lines = lines_at_bench(db, current.merchant_id, case_id)
        head = read_head(db, current.merchant_id, case_id)
        return page("receipt_case.html", status=status, **case_page(receipt, head, lines, form, wrong, whole))
