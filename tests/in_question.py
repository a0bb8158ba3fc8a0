"""Orders in question in tests: stated so that they do not add up, or stated twice; proposed by one person, confirmed by another."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, rows, transaction
from ledger.ids import uuid7
from ledger.order_document import order_facts
from ledger.order_repeats import Stored
from ledger.order_settlements import Typed, answer_settlement, propose_settlement
from ledger.order_settling import Choice, InQuestion, choices, read_in_question
from ledger.orders import store_order
from tests.stack import Stack
from tests.world import Person, World

REF = "Q-1"


def stated(ref: str = REF, **facts: Any) -> dict[str, Any]:
    """Two shirts at 30.00 and a mug at 12.00: 72.00 GBP, paid by card."""
    lines = [
        {"line_ref": "TEE", "position": 1, "kind": "goods", "sku": "TEE-M", "title": "T-shirt, medium", "quantity": 2,
         "unit_price_minor": 3000, "gross_minor": 6000, "tax_minor": 1000},
        {"line_ref": "MUG", "position": 2, "kind": "goods", "sku": "MUG", "title": "Mug", "quantity": 1,
         "unit_price_minor": 1200, "gross_minor": 1200, "tax_minor": 200},
    ]  # fmt: skip
    return {
        "external_ref": ref, "currency": "GBP", "total_minor": 7200, "placed_at": "2026-10-12T09:30:00Z",
        "zone": "Europe/London", "region": "GB", "channel": "web", "price_mode": "inclusive",
        "customer": {"external_ref": "C-1001", "name": "Ilse Brandt"}, "lines": lines, "captures": [card(7200, ref)],
    } | facts  # fmt: skip


def card(minor: int, ref: str = REF, n: int = 1) -> dict[str, Any]:
    names = {"capture_ref": f"{ref}-{n}", "payment_intent_ref": f"pi_{ref}_{n}", "charge_ref": f"ch_{ref}_{n}"}
    return names | {"tender": "card", "currency": "GBP", "captured_minor": minor, "order_minor": minor,
                    "captured_at": "2026-10-12T09:30:00Z"}  # fmt: skip


def state(stack: Stack, world: World, facts: dict[str, Any]) -> Stored:
    """The shop states an order."""
    with transaction(stack.console, world.merchant_id) as db:
        return store_order(db, world.merchant_id, order_facts(facts))


def amiss(stack: Stack, world: World, ref: str = REF) -> UUID:
    """An order whose total is 6.00 below its lines, and what was captured is the total."""
    return state(stack, world, stated(ref, total_minor=6600, captures=[card(6600, ref)])).order_id


def twice(stack: Stack, world: World, ref: str = REF, **facts: Any) -> UUID:
    """An order that came again with the mug at 10.00 (or with `facts`) and the total of that."""
    order_id = state(stack, world, stated(ref)).order_id
    again = state(stack, world, stated(ref, **(facts or cheaper())))
    assert again.status == "conflict"
    return order_id


def cheaper(minor: int = 1000) -> dict[str, Any]:
    """The mug at another price."""
    lines = stated()["lines"]
    lines[1] |= {"unit_price_minor": minor, "gross_minor": minor, "tax_minor": minor // 6}
    return {"lines": lines, "total_minor": 6000 + minor}


def in_question(stack: Stack, world: World, order_id: UUID) -> InQuestion:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return read_in_question(db, world.merchant_id, order_id)


def offered(stack: Stack, world: World, order_id: UUID) -> list[Choice]:
    return choices(in_question(stack, world, order_id))


def propose(
    stack: Stack,
    world: World,
    order_id: UUID,
    key: str,
    by: Person,
    *,
    reason: str = "shop_confirmed",
    note: str = "The shop confirmed it by mail.",
    seen: bytes | None = None,
) -> UUID:
    """`key` is a choice's, or what follows its statement where "newer" stands for the one other statement."""
    asked = in_question(stack, world, order_id)
    if key.startswith("newer"):
        key = key.replace("newer", str(asked.others[-1].conflict_id))
    settlement_id = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        typed = Typed(key, reason, note, seen or asked.seen)
        propose_settlement(db, world.merchant_id, order_id, settlement_id, by.staff_id, typed)
    return settlement_id


def digest_of(stack: Stack, world: World, settlement_id: UUID) -> bytes:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        row = first(db, "SELECT digest FROM order_settlements WHERE merchant_id = :m AND settlement_id = :s",
                    m=world.merchant_id, s=settlement_id)  # fmt: skip
    assert row is not None
    return bytes(row["digest"])


def answer(
    stack: Stack, world: World, settlement_id: UUID, by: Person, *, confirmed: bool = True, reason: str = ""
) -> bool:
    seen = digest_of(stack, world, settlement_id)
    with transaction(stack.console, world.merchant_id) as db:
        return answer_settlement(
            db, world.merchant_id, settlement_id, by.staff_id, seen, confirmed=confirmed, reason=reason
        )


def settle(stack: Stack, world: World, order_id: UUID, key: str) -> None:
    """Mara proposes, Farah confirms."""
    answer(stack, world, propose(stack, world, order_id, key, world.mara), world.farah)


def order_row(stack: Stack, world: World, order_id: UUID) -> RowMapping:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        row = first(
            db, "SELECT * FROM orders WHERE merchant_id = :m AND order_id = :o", m=world.merchant_id, o=order_id
        )
    assert row is not None
    return row


def line_grosses(stack: Stack, world: World, order_id: UUID) -> dict[str, int]:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = rows(db, "SELECT line_ref, gross_minor FROM order_lines WHERE merchant_id = :m AND order_id = :o ORDER BY position",
                     m=world.merchant_id, o=order_id)  # fmt: skip
    return {row["line_ref"]: row["gross_minor"] for row in found}


def settle_one(db: Connection, world: World) -> None:
    """An order in question, settled, in the open transaction."""
    stored = store_order(db, world.merchant_id, order_facts(stated("Q-filled", total_minor=6600, captures=[])))
    asked, settlement_id = read_in_question(db, world.merchant_id, stored.order_id), uuid7()
    typed = Typed("first/total", "rounding", "as the shop said", asked.seen)
    propose_settlement(db, world.merchant_id, stored.order_id, settlement_id, world.mara.staff_id, typed)
    row = first(db, "SELECT digest FROM order_settlements WHERE settlement_id = :s", s=settlement_id)
    assert row is not None
    answer_settlement(db, world.merchant_id, settlement_id, world.farah.staff_id, bytes(row["digest"]), confirmed=True)
