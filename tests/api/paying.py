"""Brings a case of a test from its units to paid money, as the desk and the worker do it."""

from uuid import UUID

from ledger.database import first, transaction
from ledger.settlement import Confirmed, ProviderRefund
from tests.lives import approve_as, arrive, claim, intents, record
from tests.stack import Stack
from tests.world import Person, World


def case_id(stack: Stack, world: World, number: str) -> UUID:
    """The id behind "C-20001"."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        row = first(
            db,
            "SELECT case_id FROM cases WHERE merchant_id = :m AND number = :n",
            m=world.merchant_id,
            n=int(number[2:]),
        )
    assert row is not None
    return UUID(str(row["case_id"]))


def approved(stack: Stack, world: World, number: str, *lines: tuple[str, int], by: Person | None = None) -> UUID:
    """The goods arrived and Priya approved: the intent."""
    case = case_id(stack, world, number)
    arrive(stack, world, case, *lines)
    intent = intents(stack, world, case)[-1]
    approve_as(stack, world, by or world.priya, intent["intent_id"])
    return UUID(str(intent["intent_id"]))


def paid(stack: Stack, world: World, number: str, *lines: tuple[str, int]) -> None:
    """Approved by Priya, sent, and paid at the provider as re_<intent number>."""
    approved(stack, world, number, *lines)
    for claimed in claim(stack, world):
        row = next(
            row for row in intents(stack, world, case_id(stack, world, number)) if row["intent_id"] == claimed.intent_id
        )
        refund = ProviderRefund(
            f"re_{row['number']}", "succeeded", row["amount_minor"], row["currency"], row["payment_intent_ref"],
            row["charge_ref"], str(row["intent_id"]),
        )  # fmt: skip
        assert record(stack, claimed, Confirmed(refund))
