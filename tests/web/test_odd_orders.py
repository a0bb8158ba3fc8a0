"""Orders whose facts are odd are blocked, and every page about them still opens."""

from typing import Any

import pytest

from ledger.database import transaction
from ledger.order_document import order_facts
from ledger.orders import store_order
from tests import lives
from tests.refunds import as_administrator
from tests.web.desk import Desk


def odd_order(desk: Desk, **facts: Any) -> None:
    stated = {
        "external_ref": "ODD-1", "currency": "XTS", "total_minor": 1000, "placed_at": "2026-10-12T09:30:00Z",
        "zone": "Europe/London", "channel": "web", "price_mode": "inclusive",
        "customer": {"external_ref": "C-1001", "name": "Ilse Brandt"},
        "lines": [{"line_ref": "CUP", "position": 1, "kind": "goods", "sku": "CUP", "title": "Cup", "quantity": 1,
                   "unit_price_minor": 1000, "gross_minor": 1000, "tax_minor": 0}],
        "captures": [],
    }  # fmt: skip
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        stored = store_order(db, desk.world.merchant_id, order_facts(stated | facts))
    assert stored.status == "created"


CAPTURE = {"capture_ref": "c1", "tender": "card", "currency": "XTS", "captured_minor": 1000, "order_minor": 1000,
           "captured_at": "2026-10-12T09:30:00Z"}  # fmt: skip


@pytest.mark.parametrize(
    "facts", [{}, {"currency": "EUR", "captures": [CAPTURE]}, {"currency": "GBP", "total_minor": 900}]
)
def test_a_return_of_an_order_that_cannot_be_paid_shows_on_every_desk(desk: Desk, facts: dict[str, Any]) -> None:
    odd_order(desk, **facts)
    priya = desk.at(desk.world.priya)
    found = priya.get(desk.url("/counter/"), query_string={"q": "ODD-1"})
    priya.get(next(link for link in found.links if "/counter/orders/" in link))
    opened = lives.open_case(desk.stack, desk.world, (("CUP", 1),), order_ref="ODD-1")
    lives.arrive(desk.stack, desk.world, opened.case_id, ("CUP", 1))
    for path in (
        desk.url("/queue/"),
        desk.case(opened.case_id),
        desk.url("/goods-in/"),
        desk.url("/unknown/"),
        desk.url("/cap/"),
    ):
        priya.get(path)
    assert as_administrator(desk.stack, "SELECT 1 FROM intents") == []
