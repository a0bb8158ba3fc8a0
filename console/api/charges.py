"""`POST /api/v1/duplicate-charges`: a customer says that they were charged twice for an order. What they say opens the case; the
finding comes from the provider and the books. `GET /api/v1/returns/{number}` says how it stands."""

from flask import Blueprint, Response
from sqlalchemy import Connection

from console.api.bodies import ChargesBody, read_body
from console.api.idempotency import answer_once
from console.api.tokens import scoped
from ledger.api_tokens import Channel
from ledger.charge_cases import ChargeRequest, open_duplicate_case
from ledger.idempotency import Kept


@scoped("cases:open")
def open_about_charges(channel: Channel) -> Response:
    """201 opened, 200 joined the open case; 409 a charge was paid back already. 404 also for another's order."""
    body = read_body(ChargesBody, channel)

    def opened(db: Connection) -> Kept:
        _, number, status = open_duplicate_case(db, channel.merchant_id, _request(channel, body))
        answer = {"case": f"C-{number}", "result": status, "order": body.order}
        return Kept(201 if status == "opened" else 200, answer)

    return answer_once(channel, "open_about_charges", body, opened, proven=body.proven)


def _request(channel: Channel, body: ChargesBody) -> ChargeRequest:
    talk = body.conversation
    return ChargeRequest(
        order_ref=body.order, channel=channel.channel, reference=talk.reference, actor=channel.actor, customer=body.customer,
        customer_verified=talk.customer_verified or ("order_and_customer" if body.customer else ""), customer_text=talk.text,
    )  # fmt: skip


def add_to(blueprint: Blueprint) -> None:
    """Adds the route."""
    blueprint.add_url_rule(
        "/duplicate-charges",
        "open_about_charges",
        open_about_charges,
        methods=["POST"],
        provide_automatic_options=False,
    )
