"""What the shop's books get of each refund that was paid: line by line, tax by code, dated when the money left; and taken back."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from ledger.database import rows, run, transaction
from ledger.events import lock_case_of_intent
from ledger.fingerprint import read_intent
from ledger.order_document import order_facts
from ledger.orders import store_order
from ledger.settlement import ProviderRefund, apply_refund
from tests import lives
from tests.allowances import generous_policy, give, intent_of
from tests.refunds import as_administrator
from tests.sales import LAMP, lamps, sold, statement
from tests.stack import Stack, without
from tests.web.desk import pay, pay_due
from tests.world import World, build_world


@pytest.fixture
def world(stack: Stack) -> World:
    restocking = {"bps": 1000, "reasons": ["changed_mind"]}
    return build_world(stack, policy=generous_policy(refund_trigger="received", restocking=restocking))


def entries(stack: Stack, world: World) -> list[dict[str, Any]]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return [dict(row) for row in rows(db, "SELECT * FROM credit_entries ORDER BY at, step DESC")]


def lines(stack: Stack, world: World, intent_id: UUID, step: str = "settle") -> list[tuple[Any, ...]]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = rows(
            db, "SELECT * FROM credit_rows WHERE intent_id = :i AND step = :step ORDER BY place", i=intent_id, step=step
        )
    return [
        (
            row["rule"],
            row["line_ref"],
            row["units"],
            row["code"],
            row["rate_ppm"],
            row["gross_minor"],
            row["net_minor"],
            row["tax_minor"],
        )
        for row in found
    ]


def returned(stack: Stack, world: World, count: int, reference: str = "chat-1") -> Any:
    case = lives.open_case(stack, world, (("LAMP", count),), order_ref="SALE-1", reference=reference, reason="changed_mind",
                           relation="separate").case_id  # fmt: skip
    lives.arrive(stack, world, case, ("LAMP", count))
    (intent,) = lives.intents(stack, world, case)
    return intent


def test_a_refund_that_was_paid_has_its_entry_line_by_line_and_before_that_none(stack: Stack, world: World) -> None:
    shop = {"disclosures": {"restocking_fee": True}, "sale_mode": "in_store", "invoice_ref": "INV-2026-77"}
    sold(stack, world, **shop)
    intent = returned(stack, world, 2)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    assert entries(stack, world) == []
    pay_due(stack, world)
    (entry,) = entries(stack, world)
    assert (entry["invoice_ref"], entry["reason"], entry["order_minor"], entry["person"]) == (
        "INV-2026-77",
        "changed_mind",
        9000,
        "",
    )
    # The fee for taking them back stands apart, with the tax that comes off.
    assert lines(stack, world, intent["intent_id"]) == [
        ("goods.units", "LAMP", "[0,2)", "DE-19", 190_000, 10_000, 8403, 1597),
        ("deductions.restocking", "case", "", "DE-19", None, -1000, -840, -160),
    ]


def test_a_refund_that_comes_back_writes_the_reversing_entry_and_the_next_one_its_own(
    stack: Stack, world: World
) -> None:
    sold(stack, world)
    intent = returned(stack, world, 2)
    pay(stack, world, intent["intent_id"])
    came_back(stack, world, intent)
    first, back = entries(stack, world)
    assert (first["order_minor"], back["order_minor"], back["amount_minor"]) == (10_490, -10_490, -10_490)
    taken_back = lines(stack, world, intent["intent_id"], "reverse")
    assert taken_back == [
        ("goods.units", "LAMP", "[0,2)", "DE-19", 190_000, -10_000, -8403, -1597),
        ("shipping.full_return", "POST", "", "DE-19", 190_000, -490, -412, -78),
    ]


def came_back(stack: Stack, world: World, intent: Any) -> None:
    with transaction(stack.worker, world.merchant_id) as db:
        case = lock_case_of_intent(db, world.merchant_id, intent["intent_id"])
        row = read_intent(db, world.merchant_id, intent["intent_id"], lock=True)
        assert row is not None
        shown = ProviderRefund(row["provider_refund_ref"], "succeeded", row["amount_minor"], row["currency"],
                               row["payment_intent_ref"], row["charge_ref"], str(row["intent_id"]))  # fmt: skip
        assert apply_refund(db, case, row, replace(shown, status="failed")) == "reversed"


def test_what_comes_later_carries_its_own_amounts_and_never_running_totals(stack: Stack, world: World) -> None:
    sold(
        stack,
        world,
        lamps(
            quantity=3,
            unit_price_minor=3333,
            gross_minor=9999,
            tax_minor=1596,
            taxes=[{"code": "DE-19", "rate_ppm": 190_000, "minor": 1596}],
        ),
    )
    case = lives.open_case(stack, world, (("LAMP", 3),), order_ref="SALE-1", reason="changed_mind").case_id
    for _ in range(3):
        lives.arrive(stack, world, case, ("LAMP", 1))
        intent = lives.intents(stack, world, case)[-1]
        pay(stack, world, intent["intent_id"])
    found = [lines(stack, world, one["intent_id"]) for one in lives.intents(stack, world, case)]
    # The last one brings the shipping with it.
    assert [[row[5:] for row in one] for one in found] == [
        [(3333, 2801, 532)], [(3333, 2801, 532)], [(3333, 2801, 532), (490, 412, 78)],
    ]  # fmt: skip


def test_a_refund_over_two_payments_is_shared_to_the_unit(stack: Stack, world: World) -> None:
    """Each payment carries a part of both lines, and their tax, and together they are the whole."""
    cards = [
        {"capture_ref": "a", "tender": "card", "currency": "EUR", "captured_minor": 7001, "captured_at": "2026-11-16T09:30:00Z",
         "payment_intent_ref": "pi_A", "charge_ref": "ch_A"},
        {"capture_ref": "b", "tender": "card", "currency": "EUR", "captured_minor": 4089, "captured_at": "2026-11-16T09:31:00Z",
         "payment_intent_ref": "pi_B", "charge_ref": "ch_B"},
    ]  # fmt: skip
    sold(stack, world, captures=cards)
    case = lives.open_case(stack, world, (("LAMP", 2),), order_ref="SALE-1", reason="faulty").case_id
    lives.arrive(stack, world, case, ("LAMP", 2), grade="M")
    for intent in lives.intents(stack, world, case):
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
    pay_due(stack, world)
    found = [row for one in lives.intents(stack, world, case) for row in lines(stack, world, one["intent_id"])]
    sums: dict[tuple[str, str], list[int]] = {}
    for rule, ref, _, _, _, gross, net, tax in found:
        assert net + tax == gross
        assert 0 <= tax <= gross
        kept = sums.setdefault((rule, ref), [0, 0])
        kept[0], kept[1] = kept[0] + gross, kept[1] + tax
    assert sums == {("goods.units", "LAMP"): [10_000, 1597]} | {
        key: value for key, value in sums.items() if key[0].startswith("shipping")
    }
    each = [entry["order_minor"] for entry in entries(stack, world)]
    assert sum(each) == sum(value[0] for value in sums.values())


def test_goodwill_has_its_entry_on_the_line_it_lies_on(stack: Stack, world: World) -> None:
    intent = intent_of(stack, world, give(stack, world, world.order, "goodwill", "LAMP", 500))
    pay(stack, world, intent["intent_id"], world.tobias)
    assert [(row[0], row[1], row[5]) for row in lines(stack, world, intent["intent_id"])] == [
        ("allowances.goodwill", "LAMP", 500)
    ]


def test_tax_that_is_known_for_the_whole_order_only_leaves_the_entry_to_a_person(stack: Stack, world: World) -> None:
    untaxed = {name: value for name, value in LAMP.items() if name not in ("tax_minor", "taxes")}
    sold(stack, world, untaxed, tax_total_minor=1675)
    intent = returned(stack, world, 1)
    pay(stack, world, intent["intent_id"])
    assert [entry["person"] for entry in entries(stack, world)] == ["tax_not_known"]


def test_an_invoice_that_is_named_later_is_learnt_and_is_no_conflict(stack: Stack, world: World) -> None:
    sold(stack, world)
    with transaction(stack.console, world.merchant_id) as db:
        for ref, status in (("INV-9", "updated"), ("INV-9", "unchanged"), ("INV-10", "updated"), (None, "unchanged")):
            said = statement() | ({"invoice_ref": ref} if ref else {})
            assert store_order(db, world.merchant_id, order_facts(said)).status == status
    intent = returned(stack, world, 1)
    pay(stack, world, intent["intent_id"])
    assert entries(stack, world)[0]["invoice_ref"] == "INV-10"


@pytest.mark.parametrize("role", ["console", "worker"])
def test_nobody_writes_an_entry_by_themselves(stack: Stack, world: World, role: str) -> None:
    sold(stack, world)
    intent = returned(stack, world, 1)
    with (
        pytest.raises(DBAPIError, match="permission denied"),
        transaction(getattr(stack, role), world.merchant_id) as db,
    ):
        run(db, "INSERT INTO credit_entries (merchant_id, intent_id, step, case_id, order_id, reason, dated_on, order_currency,"
            " order_minor, currency, amount_minor) VALUES (:m, :i, 'settle', :c, :o, 'other', now(), 'EUR', 1, 'EUR', 1)",
            m=world.merchant_id, i=intent["intent_id"], c=intent["case_id"], o=intent["order_id"])  # fmt: skip


def test_without_its_trigger_a_refund_is_paid_and_the_books_know_nothing(stack: Stack, world: World) -> None:
    """The control."""
    without(stack, "DROP TRIGGER writes_credit ON transfers")
    sold(stack, world)
    pay(stack, world, returned(stack, world, 1)["intent_id"])
    assert entries(stack, world) == []


@given(n=st.integers(-(10**15), 10**15), d=st.integers(1, 10**12))
def test_half_up_is_that_of_the_engine(shared: Stack, n: int, d: int) -> None:
    assert as_administrator(shared, "SELECT half_up(%s::numeric, %s::numeric) AS n", n, d) == [
        {"n": (2 * n + d) // (2 * d)}
    ]
