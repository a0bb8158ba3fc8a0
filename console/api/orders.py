"""`PUT /api/v1/orders/{external_ref}`: the shop states an order. Allocation happens here, once."""

from typing import Any, Final

from flask import Blueprint, Response
from sqlalchemy.exc import IntegrityError

from console.api.bodies import read_document
from console.api.idempotency import answer
from console.api.problems import Problem, document
from console.api.tokens import scoped, working
from ledger.api_tokens import Channel
from ledger.order_document import MAX_DOCUMENT_BYTES, FactsRefused, order_facts
from ledger.order_facts import OrderFacts
from ledger.order_repeats import Stored
from ledger.orders import store_order

STATUS: Final = {"created": 201, "updated": 200, "unchanged": 200}


@scoped("orders:import")
def put_order(channel: Channel, external_ref: str) -> Response:
    """201 stored, 200 unchanged or updated (when it was delivered), 409 here already with other facts: then both are kept and the
    order is blocked."""
    facts = _read(channel, external_ref)
    try:
        with working(channel) as db:
            stored = store_order(db, channel.merchant_id, facts)
    except IntegrityError as error:
        if getattr(error.orig, "sqlstate", None) != "23505":
            raise
        raise Problem("payment-taken", "A charge named here is already the payment of another order.") from None
    if stored.status == "conflict":
        return answer(
            409, document("order-conflict", "This order was stored before with other amounts.", **_told(facts, stored))
        )
    return answer(STATUS[stored.status], _told(facts, stored))


def _read(channel: Channel, external_ref: str) -> OrderFacts:
    stated = read_document(channel, compared=("merchant",), limit=MAX_DOCUMENT_BYTES)
    if stated.setdefault("external_ref", external_ref) != external_ref:
        errors = [
            {"field": "external_ref", "say": "is not the reference in the address: send the same, or leave it out"}
        ]
        raise Problem("bad-input", "external_ref: is not the reference in the address.", errors=errors)
    try:
        return order_facts(stated)
    except FactsRefused as refused:
        errors = [{"field": problem.field, "say": problem.say} for problem in refused.problems]
        raise Problem("bad-input", f"{errors[0]['field']}: {errors[0]['say']}", errors=errors) from None


def _told(facts: OrderFacts, stored: Stored) -> dict[str, Any]:
    return {"order": facts.external_ref, "result": stored.status, "discrepancies": list(stored.discrepancies)}


def add_to(blueprint: Blueprint) -> None:
    """Adds the routes of orders."""
    blueprint.add_url_rule(
        "/orders/<external_ref>", "put_order", put_order, methods=["PUT"], provide_automatic_options=False
    )
