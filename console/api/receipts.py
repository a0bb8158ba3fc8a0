"""`POST /api/v1/receipts`: the warehouse says what arrived. Facts are recorded even when they are more than was announced."""

from uuid import UUID

from flask import Blueprint, Response
from sqlalchemy import Connection

from console.api.answers import STAGE_WORDS
from console.api.bodies import ReceiptBody, read_body
from console.api.idempotency import answer_once
from console.api.tokens import scoped
from ledger.api_tokens import Channel
from ledger.errors import BadInput
from ledger.evidence import Arrival, ReceivedLine, find_case, report_arrival
from ledger.idempotency import Kept


@scoped("receipts:write")
def report_receipt(channel: Channel) -> Response:
    """201 recorded. The answer says how the case stands now, and no amount."""
    body = read_body(ReceiptBody, channel)
    if (body.case is None) == (body.order is None):
        raise BadInput("case", "name either the case or the order")

    def recorded(db: Connection) -> Kept:
        case = report_arrival(db, channel.merchant_id, _case(db, channel, body), _arrival(channel, body))
        return Kept(201, {"case": f"C-{case.number}", "stage": case.stage, "stage_words": STAGE_WORDS[case.stage]})

    return answer_once(channel, "report_receipt", body, recorded)


def _case(db: Connection, channel: Channel, body: ReceiptBody) -> UUID:
    number = int(body.case.removeprefix("C-")) if body.case else None
    return find_case(db, channel.merchant_id, number=number, order_ref=body.order)


def _arrival(channel: Channel, body: ReceiptBody) -> Arrival:
    lines = tuple(
        ReceivedLine(line.line, line.received, tuple((found.units, found.grade, found.note) for found in line.grades))
        for line in body.lines
    )
    return Arrival(lines, channel.channel, channel.actor, body.parcel)


def add_to(blueprint: Blueprint) -> None:
    """Adds the route of receipts."""
    blueprint.add_url_rule(
        "/receipts", "report_receipt", report_receipt, methods=["POST"], provide_automatic_options=False
    )
