"""`POST /api/v1/receipts`: the warehouse says what arrived. Facts are recorded even when they are more than was announced."""

from uuid import UUID

from flask import Blueprint, Response
from sqlalchemy import Connection

from console.api.bodies import ReceiptBody, read_body
from console.api.reports import reported
from console.api.tokens import scoped
from ledger.api_tokens import Channel
from ledger.events import LockedCase
from ledger.evidence import Arrival, Graded, ReceivedLine, report_arrival


@scoped("receipts:write")
def report_receipt(channel: Channel) -> Response:
    """201 recorded. The answer says how the case stood then, and no amount."""
    body = read_body(ReceiptBody, channel)

    def record(db: Connection, case_id: UUID) -> LockedCase:
        return report_arrival(db, channel.merchant_id, case_id, _arrival(channel, body))

    return reported(channel, "report_receipt", body, record, own=False)


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
