"""`PUT /api/v1/orders/{external_ref}`: stored once with its allocation; the same again changes nothing; other money blocks."""

from functools import partial
from typing import Any

import pytest

from tests.api.conftest import Caller, fact
from tests.engine import document, line
from tests.lives import count, race
from tests.stack import Stack
from tests.world import World, build_world

ORDERS = "SELECT count(*) FROM orders WHERE merchant_id = :m AND external_ref = :r"


def order(ref: str = "A-30001", total: int = 6000, charge: str = "ch_1") -> dict[str, Any]:
    """Two jumpers at 30.00 EUR, paid by card."""
    made = document([line(1, 3000, 2)], total, external_ref=ref)
    made["captures"][0] |= {"payment_intent_ref": f"pi_{ref}", "charge_ref": charge,
                            "destination": {"kind": "card", "brand": "visa", "last4": "4242"}}  # fmt: skip
    return made


def test_an_order_is_stored_with_its_allocation(shop: Caller, stack: Stack, world: World) -> None:
    answer = shop.put("/orders/A-30001", order())
    assert (answer.status_code, fact(answer)) == (201, {"order": "A-30001", "result": "created", "discrepancies": []})
    with stack.admin() as admin:
        stored = admin.execute(
            "SELECT l.quantity, l.gross_minor, c.captured_minor, c.available_minor, c.charge_ref, o.allocation_method"
            " FROM orders o JOIN order_lines l USING (merchant_id, order_id) JOIN captures c USING (merchant_id, order_id)"
            " WHERE o.external_ref = 'A-30001'"
        ).fetchall()
    assert [row[:5] for row in stored] == [(2, 6000, 6000, 6000, "ch_1")]
    assert stored[0][5]


def test_the_same_order_again_changes_nothing_whatever_its_spelling(shop: Caller, stack: Stack, world: World) -> None:
    shop.put("/orders/A-30001", order())
    with stack.admin() as admin:
        before = admin.execute("SELECT order_id, xmin::text FROM orders WHERE external_ref = 'A-30001'").fetchall()
    spelled = dict(reversed(order().items()))
    del spelled["external_ref"]
    again = shop.put("/orders/A-30001", spelled)
    assert (again.status_code, fact(again)["result"]) == (200, "unchanged")
    with stack.admin() as admin:
        assert (
            admin.execute("SELECT order_id, xmin::text FROM orders WHERE external_ref = 'A-30001'").fetchall() == before
        )


def test_the_customers_contact_may_change_without_touching_money(shop: Caller, stack: Stack) -> None:
    shop.put("/orders/A-30001", order())
    moved = order()
    moved["customer"]["email"] = "ilse.brandt@example.org"
    assert fact(shop.put("/orders/A-30001", moved))["result"] == "unchanged"
    with stack.admin() as admin:
        emails = admin.execute("SELECT email FROM customers WHERE external_ref = 'c_881'").fetchall()
    assert emails == [("ilse.brandt@example.org",)]


def test_other_money_under_the_same_reference_is_kept_beside_and_blocks_the_order(
    shop: Caller, chat: Caller, stack: Stack, world: World
) -> None:
    shop.put("/orders/A-30001", order())
    other = order()
    other["lines"][0]["unit_price_minor"] = 2000
    refused = shop.put("/orders/A-30001", other)
    assert (refused.status_code, fact(refused)["code"]) == (409, "order-conflict")
    assert "import_changed" in fact(refused)["discrepancies"]
    with stack.admin() as admin:
        assert admin.execute("SELECT blocked FROM orders WHERE external_ref = 'A-30001'").fetchall() == [(True,)]
        assert admin.execute("SELECT count(*) FROM order_conflicts").fetchone() == (1,)
        assert admin.execute("SELECT gross_minor FROM order_lines l JOIN orders o USING (order_id)"
                             " WHERE o.external_ref = 'A-30001'").fetchall() == [(6000,)]  # fmt: skip
    # The conflict again is one conflict, and the first facts again are still the order's.
    assert shop.put("/orders/A-30001", other).status_code == 409
    with stack.admin() as admin:
        assert admin.execute("SELECT count(*) FROM order_conflicts").fetchone() == (1,)
    assert fact(shop.put("/orders/A-30001", order()))["result"] == "unchanged"
    assert chat.open(("L1", 1), order="A-30001").status_code == 201


def test_figures_that_do_not_add_up_are_kept_and_named(shop: Caller) -> None:
    odd = order(total=5000)
    answer = shop.put("/orders/A-30001", odd)
    assert answer.status_code == 201
    assert fact(answer)["discrepancies"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"total_minor": 60.5}, "total_minor"), ({"total_minor": "6000"}, "total_minor"), ({"currency": "eur"}, "currency"),
        ({"zone": "Mars/Base"}, "zone"), ({"lines": []}, "lines"), ({"amount": 1}, "amount"),
        ({"placed_at": "yesterday"}, "placed_at"),
        ({"external_ref": "A-1"}, "external_ref"), ({"total_minor": 10**20}, "total_minor"), ({"region": "\ud800"}, "document"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_and_nothing_is_kept(
    shop: Caller, change: dict[str, Any], field: str, stack: Stack, world: World
) -> None:
    refused = shop.put("/orders/A-30001", order() | change)
    assert refused.status_code == 422
    assert fact(refused)["errors"][0]["field"] == field
    assert fact(refused)["errors"][0]["say"]
    assert count(stack.console, world, ORDERS, r="A-30001") == 0


def test_a_payment_pays_one_order(shop: Caller, stack: Stack, world: World) -> None:
    shop.put("/orders/A-30001", order())
    refused = shop.put("/orders/A-30002", order("A-30002"))
    assert (refused.status_code, fact(refused)["code"]) == (409, "payment-taken")
    assert "captures" not in refused.get_data(as_text=True).replace("captures[", "")
    assert count(stack.console, world, ORDERS, r="A-30002") == 0


def test_two_merchants_may_use_one_reference_and_one_charge_each(
    shop: Caller, stack: Stack, world: World, app: Any
) -> None:
    northwind = build_world(stack, "northwind")
    assert shop.put("/orders/A-30001", order()).status_code == 201
    assert Caller(app, northwind.shop).put("/orders/A-30001", order()).status_code == 201
    assert count(stack.console, world, ORDERS, r="A-30001") == 1


def test_one_order_put_twice_at_once_is_one_order(shop: Caller, stack: Stack, world: World) -> None:
    for number in range(10):
        made = order(f"B-{number}", charge=f"ch_b{number}")
        raced = race(*[partial(shop.put, f"/orders/{made['external_ref']}", made)] * 2)
        assert raced.refusals == []
        assert sorted(answer.status_code for answer in raced.results) == [200, 201]
        assert count(stack.console, world, ORDERS, r=f"B-{number}") == 1


def test_an_order_of_a_thousand_lines_is_taken_whole(shop: Caller, stack: Stack, world: World) -> None:
    lines = [line(number, 100 + number, 3) for number in range(1, 1001)]
    total = sum(3 * (100 + number) for number in range(1, 1001))
    large = document(lines, total, external_ref="A-LARGE")
    assert shop.put("/orders/A-LARGE", large).status_code == 201
    stored = ORDERS.replace("FROM orders", "FROM order_lines JOIN orders USING (merchant_id, order_id)")
    assert count(stack.console, world, stored, r="A-LARGE") == 1000


def test_a_merchant_without_an_account_is_told_to_get_one(shop: Caller, stack: Stack, world: World) -> None:
    with stack.admin() as admin:
        admin.execute("SET session_replication_role = replica")
        admin.execute("DELETE FROM provider_accounts WHERE merchant_id = %s", [world.merchant_id])
    refused = shop.put("/orders/A-30001", order())
    assert (refused.status_code, fact(refused)["code"]) == (409, "no-provider-account")
