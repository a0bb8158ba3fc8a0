"""`POST /api/v1/returns` opens a return or joins the one that is open; `GET /api/v1/returns/{number}` says how it stands."""

from datetime import datetime

from flask import Blueprint, Response
from sqlalchemy import Connection

from console.api.answers import standing
from console.api.bodies import ReturnBody, read_body
from console.api.idempotency import answer, answer_once
from console.api.tokens import scoped, working
from ledger.api_tokens import Channel
from ledger.cases import ReturnRequest, open_return
from ledger.errors import NotFound
from ledger.idempotency import Kept
from ledger.queries.returns import return_of_token


@scoped("cases:open")
def open_a_return(channel: Channel) -> Response:
    """201 opened, 200 joined; 409 ask the customer, already refunded, more than left. 404 also for another's order (S63)."""
    body = read_body(ReturnBody, channel)

    def opened(db: Connection) -> Kept:
        found = open_return(db, channel.merchant_id, _request(channel, body))
        status = 201 if found.status == "opened" else 200
        return Kept(status, {"case": f"C-{found.number}", "result": found.status, "order": body.order})

    return answer_once(channel, "open_return", body, opened, proven=body.proven)


def _request(channel: Channel, body: ReturnBody) -> ReturnRequest:
    talk = body.conversation
    return ReturnRequest(
        order_ref=body.order, lines=tuple((line.line, line.quantity) for line in body.lines), reason=body.reason,
        channel=channel.channel, reference=talk.reference, actor=channel.actor, relation=body.relation,
        customer_verified=talk.customer_verified or ("order_and_customer" if body.customer else ""),
        customer=body.customer, customer_text=talk.text,
        stated_at=datetime.fromisoformat(body.statement_sent_at) if body.statement_sent_at else None,
    )  # fmt: skip


@scoped("cases:read")
def show_return(channel: Channel, number: str) -> Response:
    """How a return stands that this token opened or joined; 404 for every other."""
    digits = number.removeprefix("C-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        raise NotFound
    with working(channel, read_only=True) as db:
        found = return_of_token(db, channel.merchant_id, int(digits), channel.actor)
    return answer(200, standing(found))


def add_to(blueprint: Blueprint) -> None:
    """Adds the routes of returns."""
    blueprint.add_url_rule(
        "/returns", "open_a_return", open_a_return, methods=["POST"], provide_automatic_options=False
    )
    blueprint.add_url_rule(
        "/returns/<number>", "show_return", show_return, methods=["GET"], provide_automatic_options=False
    )
