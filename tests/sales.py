"""Orders as a shop states them, for tests in which the sale decides: a German consumer's lamps with an insurance."""

from typing import Any

from ledger.database import transaction
from ledger.order_document import order_facts
from ledger.orders import store_order
from tests.stack import Stack
from tests.world import World

LAMP = {"line_ref": "LAMP", "position": 1, "kind": "goods", "sku": "LAMP", "title": "Desk lamp", "quantity": 2,
        "unit_price_minor": 5000, "gross_minor": 10_000, "tax_minor": 1597,
        "taxes": [{"code": "DE-19", "rate_ppm": 190_000, "minor": 1597}], "delivered_at": "2026-11-20T10:00:00Z"}  # fmt: skip
POST = {"line_ref": "POST", "position": 2, "kind": "shipping", "sku": "POST", "title": "Standard delivery", "quantity": 1,
        "unit_price_minor": 490, "gross_minor": 490, "tax_minor": 78,
        "taxes": [{"code": "DE-19", "rate_ppm": 190_000, "minor": 78}]}  # fmt: skip
COVER = {"line_ref": "COVER", "position": 3, "kind": "fee", "sku": "COVER", "title": "Glass insurance", "quantity": 1,
         "unit_price_minor": 600, "gross_minor": 600, "tax_minor": 0, "fee": {"type": "insurance"}}  # fmt: skip
CARD = {"capture_ref": "SALE-1-card", "tender": "card", "currency": "EUR", "captured_at": "2026-11-16T09:30:00Z",
        "payment_intent_ref": "pi_SALE-1", "charge_ref": "ch_SALE-1"}  # fmt: skip


def statement(*lines: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """An order of these lines (the lamps, their delivery and insurance), paid by one card, as the shop states it."""
    stated = {one["line_ref"]: one for one in (LAMP, POST, COVER)} | {one["line_ref"]: one for one in lines}
    total = sum(one["gross_minor"] for one in stated.values())
    return {
        "external_ref": "SALE-1", "currency": "EUR", "total_minor": total, "placed_at": "2026-11-16T09:30:00Z",
        "zone": "Europe/Berlin", "region": "DE", "channel": "web", "price_mode": "inclusive", "customer_type": "consumer",
        "sale_mode": "distance", "disclosures": {"withdrawal_info_at": "2026-11-16T09:30:00Z", "return_cost_on_consumer": True},
        "customer": {"external_ref": "C-1001", "name": "Ilse Brandt", "email": "ilse@example.org"},
        "lines": list(stated.values()), "captures": [CARD | {"captured_minor": total}], **facts,
    }  # fmt: skip


def sold(stack: Stack, world: World, *lines: dict[str, Any], **facts: Any) -> str:
    """The same, stored; its reference."""
    document = statement(*lines, **facts)
    with transaction(stack.console, world.merchant_id) as db:
        assert store_order(db, world.merchant_id, order_facts(document)).status == "created"
    return str(document["external_ref"])


def lamps(**facts: Any) -> dict[str, Any]:
    """The line of lamps, with other facts; None takes one off."""
    return {name: value for name, value in (LAMP | facts).items() if value is not None}
