"""`POST /api/v1/facts`: what a system knows of a case beside goods and parcels. The same as was said last changes nothing."""

from datetime import datetime
from uuid import UUID

from flask import Blueprint, Response
from sqlalchemy import Connection

from console.api.bodies import FactBody, read_body
from console.api.reports import opens_returns, reported
from console.api.tokens import scoped
from ledger.api_tokens import Channel
from ledger.case_facts import Stated, state_fact
from ledger.errors import BadInput
from ledger.events import LockedCase


@scoped("evidence:write")
def state_a_fact(channel: Channel) -> Response:
    """201 recorded. A system that opens returns repeats what customers say: of these facts it states only who asks."""
    body = read_body(FactBody, channel)
    if body.kind != "claimant" and opens_returns(channel):
        raise BadInput("kind", "a token that opens returns has the customer's word alone: another system states this")

    def record(db: Connection, case_id: UUID) -> LockedCase:
        at = datetime.fromisoformat(body.happened_at) if body.happened_at else None
        stated = Stated(
            body.kind, channel.channel, channel.actor, body.said or "", body.line, body.cure, at, body.customer, body.note
        )  # fmt: skip
        return state_fact(db, channel.merchant_id, case_id, stated)

    return reported(channel, "state_a_fact", body, record, own=True)


def add_to(blueprint: Blueprint) -> None:
    """Adds the route of facts."""
    blueprint.add_url_rule("/facts", "state_a_fact", state_a_fact, methods=["POST"], provide_automatic_options=False)
