"""`POST /api/v1/parcels`: a parcel is on its way back. The same parcel again changes nothing."""

from datetime import datetime
from uuid import UUID

from flask import Blueprint, Response
from sqlalchemy import Connection

from console.api.bodies import ParcelBody, read_body
from console.api.reports import opens_returns, reported
from console.api.tokens import scoped
from ledger.api_tokens import Channel
from ledger.errors import BadInput
from ledger.events import LockedCase
from ledger.evidence import Parcel, report_parcel


@scoped("evidence:write")
def report_a_parcel(channel: Channel) -> Response:
    """201 recorded. A system that opens returns repeats what the customer shows; a scan is the word of one that does not."""
    body = read_body(ParcelBody, channel)
    if body.proof == "carrier" and opens_returns(channel):
        raise BadInput("proof", "a token that opens returns has the customer's proof alone: send customer")

    def record(db: Connection, case_id: UUID) -> LockedCase:
        parcel = Parcel(
            body.tracking, datetime.fromisoformat(body.sent_at), body.proof, body.our_label, channel.channel, channel.actor
        )  # fmt: skip
        return report_parcel(db, channel.merchant_id, case_id, parcel)

    return reported(channel, "report_a_parcel", body, record, own=True)


def add_to(blueprint: Blueprint) -> None:
    """Adds the route of parcels."""
    blueprint.add_url_rule(
        "/parcels", "report_a_parcel", report_a_parcel, methods=["POST"], provide_automatic_options=False
    )
