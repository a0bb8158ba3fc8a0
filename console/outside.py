"""External refunds: what others refunded at the provider, and finance's answer to what each was for.

The refund itself is never changed; an answer is a row beside it. Until there is one, the refunds of its order wait.
"""

from typing import Any, Final

from flask import Blueprint, Response, url_for
from sqlalchemy import Connection
from wtforms import SelectField, TextAreaField
from wtforms.validators import DataRequired, Length

from console import words
from console.access import current, permission, reading, writing
from console.filters import age
from console.forms import ConsoleForm, with_ids
from console.fragments import page, say, see_other
from console.log import log
from console.operations import first_result, keep_result
from ledger.card_numbers import mask_card_numbers
from ledger.errors import NotFound, WrongState
from ledger.external_matching import LONGEST_REASON, mark_unrelated, match_to_case
from ledger.queries import outside as read

blueprint = Blueprint("outside", __name__, url_prefix="/<merchant_slug>/external-refunds")

STATUSES: Final = {
    "succeeded": ("succeeded", "Paid there"), "pending": ("pending", "Not settled there"),
    "requires_action": ("pending", "Waits for the customer"), "failed": ("failed", "Came to nothing"),
    "canceled": ("withdrawn", "Canceled there"),
}  # fmt: skip
KINDS: Final = {
    "outside": "made at the provider", "unsealed": "carries our marks and was not sent by us",
    "recovered": "ours, of before a backup was restored",
    "unexpected": "of a refund that failed here",
}  # fmt: skip


class MatchForm(ConsoleForm):
    """On which case the refund is put, and why finance thinks so."""

    case = SelectField("Case", validate_choice=True)
    reason = TextAreaField("How you know", validators=[DataRequired("Say how you know"), Length(max=LONGEST_REASON)])


class UnrelatedForm(ConsoleForm):
    """Why the refund was for none of the goods."""

    reason = TextAreaField(
        "What it was for", validators=[DataRequired("Say what it was for"), Length(max=LONGEST_REASON)]
    )


@blueprint.get("/")
@permission("see_outside")
def index() -> Response:
    with reading() as db:
        return page("outside.html", **_list(db))


@blueprint.get("/<string:refund_ref>")
@permission("see_outside")
def show(refund_ref: str) -> Response:
    """One refund with what it was for, and the two answers finance can give."""
    with reading() as db:
        return page("outside_refund.html", **_one(db, refund_ref))


@blueprint.post("/<string:refund_ref>/match")
@permission("answer_outside")
def match(refund_ref: str) -> Response:
    """Puts what is left of the refund on the units of a case. A second submit changes nothing."""
    with reading() as db:
        form = _match_form(db, read.outside_refund(db, current.merchant_id, refund_ref))
        if not form.validate():
            return page("outside_refund.html", status=422, **_one(db, refund_ref, match_form=form))
    operation, reason = str(form.operation.data), mask_card_numbers(str(form.reason.data))
    try:
        with writing() as db:
            if first_result(db, operation) is None:
                done = match_to_case(
                    db, current.merchant_id, refund_ref, int(str(form.case.data)), current.actor, reason
                )
                keep_result(db, operation, {"placed_minor": done.placed_minor, "left_minor": done.left_minor})
    except (NotFound, WrongState) as refused:
        form.case.errors = [refused.sentence]
        with reading() as db:
            return page("outside_refund.html", status=409, **_one(db, refund_ref, match_form=form))
    log.info("outside_matched", staff_id=current.staff_id, merchant=current.slug)
    say("ok", "Matched.", "The case counts it as paid, and its units stay taken.")
    return see_other("outside.show", refund_ref=refund_ref)


@blueprint.post("/<string:refund_ref>/unrelated")
@permission("answer_outside")
def unrelated(refund_ref: str) -> Response:
    """Says that the refund was for none of the goods. A second submit changes nothing."""
    form = UnrelatedForm()
    if not form.validate():
        with reading() as db:
            return page("outside_refund.html", status=422, **_one(db, refund_ref, unrelated_form=form))
    operation, reason = str(form.operation.data), mask_card_numbers(str(form.reason.data))
    try:
        with writing() as db:
            if first_result(db, operation) is None:
                mark_unrelated(db, current.merchant_id, refund_ref, current.actor, reason)
                keep_result(db, operation, {})
    except WrongState as refused:
        form.reason.errors = [refused.sentence]
        with reading() as db:
            return page("outside_refund.html", status=409, **_one(db, refund_ref, unrelated_form=form))
    log.info("outside_unrelated", staff_id=current.staff_id, merchant=current.slug)
    say("ok", "It stands as unrelated.", "Its money is off the payment; the refunds of the order go on.")
    return see_other("outside.show", refund_ref=refund_ref)


def _list(db: Connection) -> dict[str, Any]:
    waiting = read.open_refunds(db, current.merchant_id)
    unknown = read.unknown_payments(db, current.merchant_id)
    return {
        "waiting": [_row(refund) for refund in waiting],
        "total_text": f"{words.counted(len(waiting), 'refund', 'refunds')}, "
        + words.sums((refund.currency, refund.open_minor) for refund in waiting),
        "answered": [_row(refund) for refund in read.answered_refunds(db, current.merchant_id)],
        "unknown": [_row(refund) for refund in unknown],
        "unknown_text": words.counted(len(unknown), "refund", "refunds"),
        "may": current.may("answer_outside"),
    }


def _row(refund: read.OutsideRefund) -> dict[str, Any]:
    badge, text = STATUSES.get(refund.status, ("unknown", refund.status or "no state"))
    return {
        "reference": refund.refund_ref,
        "url": url_for("outside.show", refund_ref=refund.refund_ref),
        "made_at": refund.created_at,
        "found_at": refund.found_at,
        "found_text": "by a hook" if refund.found_by == "hook" else "in the provider's list",
        "age": age(refund.created_at),
        "order_reference": refund.order_ref,
        "charge": refund.charge_ref,
        "destination": words.destination(refund.destination_kind, refund.destination_brand, refund.destination_last4),
        "amount_minor": refund.amount_minor,
        "open_minor": refund.open_minor,
        "unplaced_minor": refund.unplaced_minor,
        "currency": refund.currency,
        "kind_text": KINDS[refund.kind],
        "incident": refund.kind == "unsealed",
        "badge": badge,
        "status_text": text,
    }


def _one(
    db: Connection,
    refund_ref: str,
    *,
    match_form: MatchForm | None = None,
    unrelated_form: UnrelatedForm | None = None,
) -> dict[str, Any]:
    refund = read.outside_refund(db, current.merchant_id, refund_ref)
    offers = bool(refund.open_minor and refund.order_id and current.may("answer_outside"))
    cases = _cases(db, refund)
    return {
        "refund": _row(refund),
        "answers": [_answer(answer, refund.currency) for answer in read.answers_of(db, current.merchant_id, refund_ref)],
        "cases": [
            {"reference": words.case_reference(case.number), "url": url_for("case.show", case_id=case.case_id),
             "summary": case.summary, "badge": words.case_badge(case.stage)}
            for case in cases
        ],
        "match_form": (match_form or _match_form(db, refund)) if offers and cases else None,
        "unrelated_form": with_ids(unrelated_form or UnrelatedForm(None), "unrelated") if offers else None,
        "match_url": url_for("outside.match", refund_ref=refund_ref),
        "unrelated_url": url_for("outside.unrelated", refund_ref=refund_ref),
    }  # fmt: skip


def _cases(db: Connection, refund: read.OutsideRefund) -> list[read.CaseChoice]:
    return read.cases_of_order(db, current.merchant_id, refund.order_id) if refund.order_id else []


def _match_form(db: Connection, refund: read.OutsideRefund) -> MatchForm:
    form = MatchForm()
    form.case.choices = words.choices({
        str(case.number): f"{words.case_reference(case.number)}: {case.summary}{'' if case.open else ' (closed)'}"
        for case in _cases(db, refund)
    })  # fmt: skip
    return form


def _answer(answer: read.Answer, currency: str) -> dict[str, Any]:
    case = words.case_reference(answer.case_number) if answer.case_number else ""
    return {
        "case_reference": case,
        "case_url": url_for("case.show", case_id=answer.case_id) if answer.case_id else "",
        "line": answer.line_ref,
        "amount_minor": answer.amount_minor,
        "currency": currency,
        "reason": answer.reason,
        "by": answer.by,
        "at": answer.at,
    }
