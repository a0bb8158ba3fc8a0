"""Two people settle a refund, step by step, as the desk's commands do it."""

from typing import Protocol
from uuid import UUID

from ledger import review
from ledger.database import transaction
from ledger.fingerprint import read_intent
from ledger.provider_lists import Shown, newest_list
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import Person, World


class Named(Protocol):
    """Whatever knows of which intent it is."""

    @property
    def intent_id(self) -> UUID: ...


def shown_for(stack: Stack, world: World, one: Named) -> Shown | None:
    """The newest list the desk has."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return newest_list(db, world.merchant_id, one.intent_id)


def choices(stack: Stack, world: World, one: Named) -> tuple[list[str], str]:
    """What the newest list, or the record by hand, supports, as the form's words, and why no more."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        intent = read_intent(db, world.merchant_id, one.intent_id)
        assert intent is not None
        shown = review.evidence(db, intent)
        assert shown is not None
        found, why = review.supported(db, intent, shown)
    return [option.choice for option in found], why


def seen(stack: Stack, world: World, one: Named) -> bytes:
    """The digest that the desk's page carries now."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        intent = read_intent(db, world.merchant_id, one.intent_id)
        assert intent is not None
        shown = review.evidence(db, intent)
        assert shown is not None
        return review.seen_digest(intent, shown)


def propose(stack: Stack, world: World, one: Named, person: Person, choice: str, digest: bytes | None = None) -> UUID:
    digest = digest or seen(stack, world, one)
    with transaction(stack.console, world.merchant_id) as db:
        return review.propose(
            db, world.merchant_id, one.intent_id, person.staff_id, choice, digest, "compared line by line"
        )


def digest_of(stack: Stack, settlement_id: UUID) -> bytes:
    return bytes(
        as_administrator(stack, "SELECT digest FROM settlements WHERE settlement_id = %s", settlement_id)[0]["digest"]
    )


def confirm(stack: Stack, world: World, settlement_id: UUID, person: Person) -> bool:
    digest = digest_of(stack, settlement_id)
    with transaction(stack.console, world.merchant_id) as db:
        return review.decide(db, world.merchant_id, settlement_id, person.staff_id, digest, confirmed=True)


def turn_down(stack: Stack, world: World, settlement_id: UUID, person: Person, reason: str = "not so") -> bool:
    with transaction(stack.console, world.merchant_id) as db:
        return review.decide(
            db, world.merchant_id, settlement_id, person.staff_id, b"", confirmed=False, reason=reason
        )  # fmt: skip


def agree(stack: Stack, world: World, one: Named, choice: str) -> UUID:
    """Mara proposes and Farah confirms; the worker has not heard of it yet."""
    settlement_id = propose(stack, world, one, world.mara, choice)
    assert confirm(stack, world, settlement_id, world.farah)
    return settlement_id


def results(stack: Stack) -> list[tuple[str, str]]:
    return [
        (row["result"], row["reason"])
        for row in as_administrator(stack, "SELECT * FROM settlement_results ORDER BY at")
    ]
