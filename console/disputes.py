"""Disputes: what customers' banks took back or ask about, until when an answer is due, and which refunds wait for them."""

from typing import Any, Final

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import TextAreaField
from wtforms.validators import DataRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.forms import ConsoleForm, with_ids
from console.fragments import page, say, see_other
from console.log import log
from ledger.card_numbers import mask_card_numbers
from ledger.disputes import CLOSED, refund_anyway
from ledger.errors import WrongState
from ledger.queries import outside as read

blueprint = Blueprint("disputes", __name__, url_prefix="/<merchant_slug>/disputes")

LONGEST_REASON: Final = 500
# What a state of the provider's means here: how its badge looks, and its words.
STATUSES: Final = {
    "warning_needs_response": ("held", "The bank asks"), "warning_under_review": ("held", "The bank asks, answered"),
    "warning_closed": ("withdrawn", "Question closed"), "needs_response": ("needs_review", "Disputed, answer due"),
    "under_review": ("pending", "Disputed, answered"), "appeal_needs_response": ("needs_review", "Appeal, answer due"),
    "appeal_under_review": ("pending", "Appeal, answered"), "won": ("succeeded", "Won"), "lost": ("failed", "Lost"),
    "prevented": ("withdrawn", "Prevented"),
}  # fmt: skip


class RulingForm(ConsoleForm):
    """Why the refund goes although the bank asks."""

    reason = TextAreaField("Why the refund goes now", validators=[DataRequired("Say why"), Length(max=LONGEST_REASON)])


@blueprint.get("/")
@permission("see_outside")
def index() -> Response:
    with reading() as db:
        return page("disputes.html", **_page(db))


@blueprint.post("/<string:dispute_ref>/ruling")
@permission("answer_outside")
def rule(dispute_ref: str) -> Response:
    """Lets the refund of a charge go that the bank only asks about. Repeated, it changes nothing."""
    form = RulingForm()
    if not form.validate():
        with reading() as db:
            return page("disputes.html", status=422, **_page(db, dispute_ref, form))
    try:
        with writing() as db:
            refund_anyway(
                db, current.merchant_id, dispute_ref, current.staff_id, mask_card_numbers(str(form.reason.data))
            )
    except WrongState as refused:
        with reading() as db:
            return page("disputes.html", status=409, **_page(db) | {"refused_text": refused.sentence})
    log.info("dispute_ruled", staff_id=current.staff_id, merchant=current.slug)
    say("ok", "The refund goes.", "What waited for this question is sent now.")
    return see_other("disputes.index")


def _page(db: Connection, dispute_ref: str = "", form: RulingForm | None = None) -> dict[str, Any]:
    found = read.read_disputes(db, current.merchant_id)
    return {
        "refused_text": "",
        "open": [
            _row(row, form if row.dispute_ref == dispute_ref else None) for row in found if row.status not in CLOSED
        ],
        "ended": [_row(row, None) for row in found if row.status in CLOSED],
    }


def _row(row: read.DisputeRow, form: RulingForm | None) -> dict[str, Any]:
    look, text = STATUSES.get(row.status, ("unknown", row.status.replace("_", " ")))
    asks = row.status.startswith("warning_") and row.status not in CLOSED
    offers = asks and not row.ruled_by and row.held and current.may("answer_outside")
    return {
        "reference": row.dispute_ref,
        "badge": look,
        "status_text": text,
        "opened_at": row.created_at,
        "status_at": row.status_at,
        "due_at": row.due_at,
        "order_reference": row.order_ref,
        "charge": row.charge_ref,
        "destination": words.destination(row.destination_kind, row.destination_brand, row.destination_last4),
        "reason": row.reason.replace("_", " "),
        "amount_minor": row.amount_minor,
        "unplaced_minor": row.unplaced_minor,
        "currency": row.currency,
        "held_text": words.counted(row.held, "refund", "refunds") if row.held else "",
        "held_minor": row.held_minor,
        "case_reference": words.case_reference(row.case_number) if row.case_number else "",
        "case_url": url_for("case.show", case_id=row.case_id) if row.case_id else "",
        "next_text": _next(row, asks=asks),
        "form": with_ids(form or RulingForm(None), row.dispute_ref) if offers else None,
        "ruling_url": url_for("disputes.rule", dispute_ref=row.dispute_ref),
    }


def _next(row: read.DisputeRow, *, asks: bool) -> str:
    """What happens next with what waits."""
    if row.ruled_by:
        return f"{row.ruled_by} let the refund go."
    if row.status == "lost":
        return (
            "The bank kept the money. Withdraw what is held: it can never be sent."
            if row.held
            else "The bank kept the money."
        )
    if asks:
        return "Nothing is taken yet. Answer the bank; held refunds go when it closes its question."
    if row.status in CLOSED:
        return "Held refunds went on their way." if row.status == "won" else ""
    return "Answer the bank at the provider. Held refunds go by themselves if it is won."
