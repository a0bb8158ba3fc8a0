"""`POST /api/v1/receipts`: the warehouse says what arrived. Facts are recorded even when they are more than was announced."""

from flask import Blueprint, Response
from sqlalchemy import Connection

from console.api.answers import STAGE_WORDS
from console.api.bodies import ReceiptBody, read_body
from console.api.idempotency import answer_once
from console.api.reports import carry_on
from console.api.tokens import scoped
from ledger.api_tokens import Channel
from ledger.errors import BadInput, NotFound, WrongState
from ledger.evidence import Arrival, Graded, ReceivedLine, find_case, report_arrival
from ledger.idempotency import Kept
from ledger.unmatched_receipts import Unmatched, keep_unmatched

_OPERATION = "report_receipt"


@scoped("receipts:write")
def report_receipt(channel: Channel) -> Response:
    """201 recorded: how the case stood then, and no amount. 202 put aside: no one return is named, so a person looks."""
    body = read_body(ReceiptBody, channel)
    if body.case is not None and body.order is not None:
        raise BadInput("case", "name either the case or the order")
    answer = answer_once(channel, _OPERATION, body, lambda db: _record(db, channel, body))
    carry_on(channel, answer)
    return answer


def _record(db: Connection, channel: Channel, body: ReceiptBody) -> Kept:
    arrival = _arrival(channel, body)
    if body.case is None and body.order is None:
        return _put_aside(db, channel, body, arrival, "nothing_named")
    number = int(body.case.removeprefix("C-")) if body.case else None
    try:
        case_id = find_case(db, channel.merchant_id, number=number, order_ref=body.order)
        with db.begin_nested():
            case = report_arrival(db, channel.merchant_id, case_id, arrival)
    except NotFound:
        return _put_aside(db, channel, body, arrival, "no_case")
    except WrongState:
        return _put_aside(db, channel, body, arrival, "rejected")
    except BadInput as refused:
        if refused.facts["field"] != "case":
            raise
        return _put_aside(db, channel, body, arrival, "several_cases")
    return Kept(201, {"case": f"C-{case.number}", "stage": case.stage, "stage_words": STAGE_WORDS[case.stage]})


def _put_aside(db: Connection, channel: Channel, body: ReceiptBody, arrival: Arrival, why: str) -> Kept:
    number = keep_unmatched(db, channel.merchant_id, Unmatched(arrival, why, body.case or "", body.order or ""))
    return Kept(
        202, {"receipt": f"P-{number}", "matched": False, "to_do": "Put the goods aside. The returns desk decides."}
    )


def _arrival(channel: Channel, body: ReceiptBody) -> Arrival:
    lines = tuple(
        ReceivedLine(
            line.line,
            line.received,
            tuple(
                Graded(found.units, found.grade, found.note, found.reason_found, found.serial, found.assessed_bps)
                for found in line.grades
            ),
        )
        for line in body.lines
    )
    return Arrival(lines, channel.channel, channel.actor, body.parcel)


def add_to(blueprint: Blueprint) -> None:
    """Adds the route of receipts."""
    blueprint.add_url_rule(
        "/receipts", "report_receipt", report_receipt, methods=["POST"], provide_automatic_options=False
    )
