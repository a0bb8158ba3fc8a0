"""“I was charged twice”: opened at the counter, and read again when a person asks. This process has no key of the provider: the
worker reads, and the case page says when it is done."""

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection

from console import words
from console.access import current, permission, reading, writing
from console.charge_cards import charge_rows
from console.counter_forms import ToldForm
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.operations import count_refusal, first_result, keep_result
from ledger.charge_cases import ChargeRequest, ask_again, open_duplicate_case
from ledger.errors import AlreadyRefunded, BadInput
from ledger.queries.charges import order_charges
from ledger.queries.orders import OrderAtCounter, read_order

blueprint = Blueprint("charges", __name__, url_prefix="/<merchant_slug>")


@blueprint.get("/counter/orders/<uuid:order_id>/charges")
@permission("open_return")
def ask(order_id: UUID) -> Response:
    """The charges of an order as the books have them, and the form."""
    with reading() as db:
        return page("charged_twice.html", **_page(db, read_order(db, current.merchant_id, order_id), ToldForm(), []))


@blueprint.post("/counter/orders/<uuid:order_id>/charges")
@permission("open_return")
def open_at_counter(order_id: UUID) -> Response:
    """Opens the case, or joins the open one about the same charges; the same form again lands on the same case."""
    with reading() as db:
        order = read_order(db, current.merchant_id, order_id)
    form = ToldForm()
    if not form.validate():
        return _again(order, form, [], 422)
    try:
        with writing() as db:
            earlier = first_result(db, str(form.operation.data))
            opened = earlier.answer if earlier else _open(db, order, form)
    except (BadInput, AlreadyRefunded) as refused:
        count_refusal(refused)
        return _again(order, form, _why(refused), 422 if isinstance(refused, BadInput) else 409)
    reference = words.case_reference(opened["number"])
    if opened["status"] == "opened" and earlier is None:
        say("ok", f"Case {reference} is open.", "The charges are read at the provider; this page says when it is done.")
    elif earlier is None:
        say("info", f"This joined case {reference}.", "The charges of this order are looked at there already.")
    else:
        say("ok", f"Case {reference} was opened by this form already.", "Your second click changed nothing.")
    return see_other("case.show", case_id=opened["case_id"])


@blueprint.post("/cases/<uuid:case_id>/charges")
@permission("ask_provider")
def read_again(case_id: UUID) -> Response:
    """Asks for another reading; what waited for its approval on the last finding is withdrawn."""
    form = ConsoleForm()
    form.require()
    operation = str(form.operation.data)
    with writing() as db:
        if first_result(db, operation) is None:
            ask_again(db, current.merchant_id, case_id, current.actor)
            keep_result(db, operation, {})
    say("ok", "The charges are read again.", "This page says when it is done.")
    return see_other("case.show", case_id=case_id)


def _open(db: Connection, order: OrderAtCounter, form: ToldForm) -> dict[str, Any]:
    operation = str(form.operation.data)
    case_id, number, status = open_duplicate_case(
        db,
        current.merchant_id,
        ChargeRequest(
            order_ref=order.external_ref,
            channel="counter",
            reference=form.talk(),
            actor=current.actor,
            customer_verified="in person",
            customer_text=form.told(),
        ),
    )
    opened = {"case_id": str(case_id), "number": number, "status": status}
    keep_result(db, operation, opened)
    return opened


def _why(refused: BadInput | AlreadyRefunded) -> list[str]:
    paid = [
        f"{words.sums([(refund['currency'], refund['amount_minor'])])} in case {words.case_reference(refund['case_number'])},"
        f" reference {words.refund_reference(refund['number'])}, approved by {refund['approver_name'] or 'nobody named'}."
        for refund in refused.facts.get("refunds", [])
    ]  # fmt: skip
    return [words.sentence(refused.sentence.removeprefix("order: ")), *paid]


def _again(order: OrderAtCounter, form: ToldForm, whole: list[str], status: int) -> Response:
    with reading() as db:
        return page("charged_twice.html", status=status, **_page(db, order, form, whole))


def _page(db: Connection, order: OrderAtCounter, form: ToldForm, whole: list[str]) -> dict[str, Any]:
    return {
        "order": {
            "reference": order.external_ref, "customer": words.customer(order.customer), "placed_at": order.placed_at,
            "paid_minor": order.paid_minor, "currency": order.currency,
            "url": url_for("counter.order", order_id=order.order_id),
        },
        "charges": charge_rows(order_charges(db, current.merchant_id, order.order_id)),
        "form": form,
        "form_errors": whole,
        "action_url": url_for("charges.open_at_counter", order_id=order.order_id),
    }  # fmt: skip
