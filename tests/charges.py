"""Orders that were charged more than once, at the local provider and in the books, and what people and worker do about them."""

import itertools
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping

from jobs import charges
from jobs.worker import Worker
from ledger.charge_cases import ChargeRequest, open_duplicate_case
from ledger.database import rows, transaction
from sandbox.client import SandboxClient
from tests.orders import Line, Order
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, add_order

LAMP_58_40 = Line("LAMP", 1, 5840, title="Desk lamp")
_TENDERS = ("card", "wallet", "bank")
_numbers = itertools.count(2841)


def charged(
    stack: Stack,
    world: World,
    sandbox: SandboxClient,
    *amounts: int,
    lines: tuple[Line, ...] = (LAMP_58_40,),
    **more: Any,
) -> Order:
    """An order whose card was charged so often at the provider; captures in the order they were made, a minute apart.

    `order.captures` is by "card", "wallet", "bank", whatever was paid with is a card.
    """
    order = add_order(
        stack, world, f"{next(_numbers)}", lines=lines, captured=dict(zip(_TENDERS, amounts, strict=False)), **more
    )
    for number, (name, amount) in enumerate(zip(_TENDERS, amounts, strict=False)):
        made = sandbox.create_payment(amount, order.currency.lower(), customer="cus_ilse")
        as_administrator(
            stack, "UPDATE captures SET payment_intent_ref = %s, charge_ref = %s, tender = 'card', destination_kind = 'card',"
            " destination_brand = 'visa', destination_last4 = '4242', captured_at = captured_at + %s::interval"
            " WHERE capture_id = %s",
            made["payment_intent"], made["charge"], f"{number} minutes", order.captures[name],
        )  # fmt: skip
    return order


def payment_of(stack: Stack, order: Order, name: str) -> str:
    """The provider's payment behind one of the order's charges."""
    (row,) = as_administrator(
        stack, "SELECT payment_intent_ref FROM captures WHERE capture_id = %s", order.captures[name]
    )
    return str(row["payment_intent_ref"])


def claim_twice(stack: Stack, world: World, order: Order, **changes: Any) -> tuple[UUID, int, str]:
    """Ilse says in the chat that she was charged twice."""
    usual = {"order_ref": order.external_ref, "channel": "chat", "reference": "chat-1", "actor": world.chat.actor,
             "customer_text": "I was charged twice for this order"}  # fmt: skip
    with transaction(stack.console, world.merchant_id) as db:
        return open_duplicate_case(db, world.merchant_id, ChargeRequest(**{**usual, **changes}))


def found(stack: Stack, world: World, worker: Worker, order: Order) -> RowMapping:
    """Ilse says so, the worker reads the charges: what was found."""
    case_id, _, _ = claim_twice(stack, world, order)
    charges.run_once(worker)
    return finding_of(stack, world, case_id)


def finding_of(stack: Stack, world: World, case_id: UUID) -> RowMapping:
    """The newest finding of a case, with the stage the case is in."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return rows(
            db, "SELECT f.*, c.stage, c.amount_minor AS case_minor FROM charge_findings f"
            " JOIN cases c ON c.merchant_id = f.merchant_id AND c.case_id = f.case_id"
            " WHERE f.merchant_id = :m AND f.case_id = :c ORDER BY f.n DESC LIMIT 1",
            m=world.merchant_id, c=case_id,
        )[0]  # fmt: skip


def refunds_there(sandbox: SandboxClient) -> int:
    """How many refunds the provider made, whatever became of them."""
    return sum(len(payment["refunds"]) for payment in sandbox.all_money()["payments"])
