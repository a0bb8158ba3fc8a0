"""Forgetting a customer who asks for it (S78): an admin writes it down by the shop's number, a second one decides, a job does it.

An admin sees no customer: neither the form nor the list shows a name.
"""

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, url_for
from wtforms import StringField, TextAreaField
from wtforms.validators import InputRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.forms import ConsoleForm, new_operation
from console.fragments import page, say, see_other
from console.log import log
from console.operations import operation_id
from ledger.erasure import LONGEST_REASON, Erasure, answer_erasure, ask_erasure, erasures
from ledger.errors import BadInput, SamePerson, WrongState

blueprint = Blueprint("erasures", __name__, url_prefix="/<merchant_slug>/erasures")


class AskForm(ConsoleForm):
    """Who is to be forgotten, and how it is known that they asked."""

    customer = StringField(
        "Customer", description="The shop’s number of the customer, or their e-mail",
        validators=[InputRequired("Customer: give the number or the e-mail"), Length(max=254)],
    )  # fmt: skip
    reason = TextAreaField(
        "Who asked, and how you know that it was them", description="Kept for good: write no name here",
        validators=[InputRequired("Who asked: write it down"), Length(max=LONGEST_REASON)],
    )  # fmt: skip


@blueprint.get("/")
@permission("erase_customer")
def index() -> Response:
    return _page(AskForm())


@blueprint.post("/")
@permission("erase_customer")
def ask() -> Response:
    """Asks for an erasure; a second press changes nothing."""
    form = AskForm()
    if not form.validate():
        return _page(form, 422)
    erasure_id = operation_id(str(form.operation.data))
    try:
        with writing() as db:
            ask_erasure(
                db, current.merchant_id, erasure_id, str(form.customer.data), str(form.reason.data), current.staff_id
            )
    except BadInput as refused:
        field = form[refused.facts["field"]]
        field.errors = [f"{field.label.text}: {refused.sentence.partition(': ')[2]}"]
        return _page(form, 422)
    except WrongState as refused:
        say("no", "Nothing was asked for.", refused.sentence)
        return see_other("erasures.index")
    log.warning("erasure_asked", staff_id=current.staff_id, merchant=current.slug)
    say("ok", "The erasure is asked for.", "A second admin decides it.")
    return see_other("erasures.index")


@blueprint.post("/<uuid:erasure_id>/grant")
@permission("erase_customer")
def grant(erasure_id: UUID) -> Response:
    """A second admin agrees; it is done as soon as no case of the customer is open."""
    return _answered(erasure_id, granted=True)


@blueprint.post("/<uuid:erasure_id>/refusal")
@permission("erase_customer")
def refuse(erasure_id: UUID) -> Response:
    """Leaves everything as it is."""
    return _answered(erasure_id, granted=False)


def _answered(erasure_id: UUID, *, granted: bool) -> Response:
    ConsoleForm().require()
    try:
        with writing() as db:
            done = answer_erasure(db, current.merchant_id, erasure_id, current.staff_id, granted=granted)
    except SamePerson as refused:
        say("no", "Nothing was decided.", refused.sentence)
        return see_other("erasures.index")
    if not done:
        say("info", "That was decided before.", "Your click changed nothing.")
    else:
        log.warning("erasure_decided", staff_id=current.staff_id, merchant=current.slug, outcome=str(granted))
        text = "It is done within the quarter hour, or when the customer’s last case is closed."
        say("ok", "Agreed." if granted else "Not erased.", text if granted else "Everything stays as it was.")
    return see_other("erasures.index")


def _page(form: AskForm, status: int = 200) -> Response:
    with reading() as db:
        found = [_row(one) for one in erasures(db, current.merchant_id)]
        return page("erasures.html", status=status, form=form, action_url=url_for("erasures.ask"), erasures=found)


def _row(one: Erasure) -> dict[str, Any]:
    mine, key = one.asked_by == current.staff_id, {"operation": new_operation()}
    return {
        "customer": one.customer_ref, "reason": one.reason, "asked_by": one.asked_by_name, "asked_at": one.asked_at,
        "decided_by": one.decided_by_name, "decided_at": one.decided_at, "granted": one.granted, "done_at": one.done_at,
        "state": _state(one), "waits": one.decided_at is None,
        "grant": None if mine else {"url": url_for("erasures.grant", erasure_id=one.erasure_id), **key},
        "refuse": {"url": url_for("erasures.refuse", erasure_id=one.erasure_id), **key},
    }  # fmt: skip


def _state(one: Erasure) -> str:
    if one.granted is None:
        return "waits for a second admin"
    if not one.granted:
        return "refused"
    if one.done_at is not None:
        cases, photos = (
            words.counted(one.cases or 0, "case", "cases"),
            words.counted(one.photos or 0, "photo", "photos"),
        )
        return f"erased: {cases}, {photos}"
    if one.open_cases:
        return f"agreed; waits until {words.counted(one.open_cases, 'case is', 'cases are')} closed and settled"
    return "agreed; done within the quarter hour"
