"""To pay by hand: what no provider holds. A person does it in the other system and records its reference, or why not.

Nothing is settled here: a worker verifies the approval once more and carries out what was recorded.
"""

from typing import Any, Final
from uuid import UUID

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import StringField
from wtforms.validators import DataRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.forms import ConsoleForm
from console.fragments import page, say, see_other
from console.log import log
from ledger.by_hand import LONGEST_REASON, LONGEST_REFERENCE, Recorded, record
from ledger.card_numbers import mask_card_numbers
from ledger.errors import AlreadyDecided, BadInput, NotFound, WrongState
from ledger.hops import hop
from ledger.queries.by_hand import ToPay, read_to_pay
from ledger.queries.decision import read_decision

blueprint = Blueprint("by_hand", __name__, url_prefix="/<merchant_slug>/by-hand")


class DoneForm(ConsoleForm):
    """The reference that the other system gave the payment."""

    reference = StringField(
        "Reference in the other system",
        description="Never the number of the gift card itself.",
        validators=[DataRequired("Write the reference"), Length(max=LONGEST_REFERENCE)],
    )


class NotDoneForm(ConsoleForm):
    """Why it could not be paid."""

    reason = StringField("Why it could not be paid", validators=[DataRequired("Say why"), Length(max=LONGEST_REASON)])


_NO_FIELDS: Final[dict[str, Any]] = {"done_form": None, "not_done_form": None}


@blueprint.get("/")
@permission("settle_by_hand")
def index() -> Response:
    """The list."""
    with reading() as db:
        return page("by_hand.html", one=None, **_NO_FIELDS, **_page(read_to_pay(db, current.merchant_id), None))


@blueprint.get("/<uuid:intent_id>")
@permission("settle_by_hand")
def show(intent_id: UUID) -> Response:
    """The list with one open; the decision of one that waits for nobody any more."""
    with reading() as db:
        return _open(db, intent_id, DoneForm(formdata=None), NotDoneForm(formdata=None))


@blueprint.post("/<uuid:intent_id>/settlement")
@permission("settle_by_hand")
def done(intent_id: UUID) -> Response:
    """Records that it was paid back, under the reference of the other system. The same form again changes nothing."""
    form = DoneForm()
    if form.validate():
        refused = _record(intent_id, Recorded(reference=str(form.reference.data).strip()))
        if not isinstance(refused, BadInput):
            return refused
        form.reference.errors = [words.sentence(refused.sentence.partition(": ")[2])]
    with reading() as db:
        return _open(db, intent_id, form, NotDoneForm(formdata=None), status=422)


@blueprint.post("/<uuid:intent_id>/failure")
@permission("settle_by_hand")
def not_done(intent_id: UUID) -> Response:
    """Records that it could not be paid; what was set aside for it goes back."""
    form = NotDoneForm()
    if form.validate():
        refused = _record(intent_id, Recorded(reason=mask_card_numbers(str(form.reason.data).strip())))
        if not isinstance(refused, BadInput):
            return refused
        form.reason.errors = [words.sentence(refused.sentence.partition(": ")[2])]
    with reading() as db:
        return _open(db, intent_id, DoneForm(formdata=None), form, status=422)


def _record(intent_id: UUID, recorded: Recorded) -> Response | BadInput:
    try:
        with writing() as db:
            record(db, current.merchant_id, intent_id, current.staff_id, recorded)
            about = hop(db, current.merchant_id, intent_id)
    except BadInput as refused:
        return refused
    except (AlreadyDecided, WrongState) as refused:
        say("warn", refused.sentence, "Nothing was recorded now.")
        return see_other("decision.show", intent_id=intent_id)
    log.info("recorded_by_hand", staff_id=current.staff_id, merchant=current.slug, **about)
    say("ok", "Recorded." if recorded.done else "Recorded as not paid.", "It shows on its decision in a moment.")
    return see_other("decision.show", intent_id=intent_id)


def _open(
    db: Connection, intent_id: UUID, done_form: DoneForm, not_done_form: NotDoneForm, status: int = 200
) -> Response:
    found = read_to_pay(db, current.merchant_id)
    one = next((row for row in found if row.intent_id == intent_id and not row.recorded), None)
    if one is None:
        if read_decision(db, current.merchant_id, intent_id).act != "manual":
            raise NotFound
        return see_other("decision.show", intent_id=intent_id)
    return page(
        "by_hand.html", status=status, one=_one(one), done_form=done_form, not_done_form=not_done_form, **_page(found, one)
    )  # fmt: skip


def _page(found: list[ToPay], here: ToPay | None) -> dict[str, Any]:
    waiting = [row for row in found if not row.recorded]
    return {
        "total": words.sums((row.currency, row.amount_minor) for row in waiting),
        "waiting": [{**_row(row), "here": row == here} for row in waiting],
    }


def _row(row: ToPay) -> dict[str, Any]:
    return {
        "reference": words.refund_reference(row.number),
        "url": url_for("by_hand.show", intent_id=row.intent_id),
        "customer": words.customer(row.customer),
        "order_reference": row.order_ref,
        "destination": words.destination(row.destination_kind, row.destination_brand, row.destination_last4),
        "amount_minor": row.amount_minor,
        "currency": row.currency,
        "approved_by": row.approved_by,
        "approved_at": row.approved_at,
        "until": row.until,
        "ran_out": row.ran_out,
    }


def _one(row: ToPay) -> dict[str, Any]:
    return {
        **_row(row),
        "case_reference": words.case_reference(row.case_number),
        "case_url": url_for("case.show", case_id=row.case_id),
        "decision_url": url_for("decision.show", intent_id=row.intent_id),
        "done_url": url_for("by_hand.done", intent_id=row.intent_id),
        "not_done_url": url_for("by_hand.not_done", intent_id=row.intent_id),
    }
