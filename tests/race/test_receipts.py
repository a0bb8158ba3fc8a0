"""Two people answer for the same goods at once: they are counted once. The control is the same without the guard."""

from functools import partial
from uuid import UUID

import pytest

from ledger import unmatched_receipts
from ledger.cases import open_return
from ledger.database import rows, scalar, transaction
from ledger.errors import WrongState
from ledger.evidence import Arrival, ReceivedLine
from ledger.unmatched_receipts import Answer, Unmatched, close_receipt, keep_unmatched, lock_receipt, match_receipt
from tests import lives
from tests.stack import Stack
from tests.world import Person, World, add_order

ROUNDS = 10


def aside(stack: Stack, world: World, count: int = 1) -> UUID:
    """So many tees that nobody announced."""
    report = Unmatched(
        Arrival((ReceivedLine("TEE", count),), "warehouse", world.warehouse.actor, "JD9"), "nothing_named"
    )
    with transaction(stack.console, world.merchant_id) as db:
        number = keep_unmatched(db, world.merchant_id, report)
        return UUID(str(scalar(
            db, "SELECT receipt_id FROM unmatched_receipts WHERE merchant_id = :m AND number = :n", m=world.merchant_id, n=number
        )))  # fmt: skip


def put_on(stack: Stack, world: World, person: Person, receipt_id: UUID, case_id: UUID) -> Answer:
    with transaction(stack.console, world.merchant_id) as db:
        return match_receipt(db, world.merchant_id, receipt_id, case_id, person.staff_id, [("TEE", 1)])


def open_for(stack: Stack, world: World, person: Person, receipt_id: UUID, order_ref: str) -> Answer:
    with transaction(stack.console, world.merchant_id) as db:
        lock_receipt(db, world.merchant_id, receipt_id)
        wish = lives.request(
            world, (("TEE", 1),), order_ref=order_ref, reference=f"counter-{order_ref}", actor=person.actor
        )
        opened = open_return(db, world.merchant_id, wish)
        counts = [("TEE", 1)]
        return match_receipt(db, world.merchant_id, receipt_id, opened.case_id, person.staff_id, counts, opened=True)


def received(stack: Stack, world: World) -> int:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = rows(db, "SELECT count FROM evidence WHERE merchant_id = :m AND kind = 'received'", m=world.merchant_id)
    return sum(row["count"] for row in found)


def two_cases(stack: Stack, world: World, mark: int) -> tuple[UUID, UUID]:
    """A case of each of two customers, who sent the same kind of goods."""
    first, second = (
        lives.open_case(
            stack, world, order_ref=add_order(stack, world, f"T-{mark}-{n}").external_ref, reference=f"chat-{mark}-{n}"
        )
        for n in range(2)
    )
    return first.case_id, second.case_id


def test_of_two_cases_the_goods_are_on_one_and_the_second_person_is_told_which(stack: Stack, world: World) -> None:
    for n in range(ROUNDS):
        receipt_id, (first, second) = aside(stack, world), two_cases(stack, world, n)
        before = received(stack, world)
        raced = lives.race(
            partial(put_on, stack, world, world.priya, receipt_id, first),
            partial(put_on, stack, world, world.tobias, receipt_id, second),
        )
        assert received(stack, world) == before + 1
        (won,) = raced.results
        (lost,) = raced.refusals
        assert isinstance(lost, WrongState)
        assert f"{won.by} put these goods on case C-{won.case_number}" in lost.sentence


def test_without_the_answer_the_same_goods_would_be_counted_on_both(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unmatched_receipts, "_answer", lambda *_, **__: None)
    monkeypatch.setattr(unmatched_receipts, "_read", lambda *_, **__: None)
    receipt_id, (first, second) = aside(stack, world), two_cases(stack, world, 1)
    lives.race(
        partial(put_on, stack, world, world.priya, receipt_id, first),
        partial(put_on, stack, world, world.tobias, receipt_id, second),
    )
    assert received(stack, world) == 2


def test_two_who_choose_the_same_case_get_one_answer(stack: Stack, world: World) -> None:
    for n in range(ROUNDS):
        receipt_id, (case_id, _) = aside(stack, world), two_cases(stack, world, n)
        before = received(stack, world)
        raced = lives.race(
            partial(put_on, stack, world, world.priya, receipt_id, case_id),
            partial(put_on, stack, world, world.tobias, receipt_id, case_id),
        )
        assert len(raced.results) == 2
        assert raced.results[0] == raced.results[1]
        assert received(stack, world) == before + 1


def test_one_opens_a_return_while_another_puts_the_goods_on_a_case_of_the_same_order(
    stack: Stack, world: World
) -> None:
    for n in range(ROUNDS):
        order = add_order(stack, world, f"S-{n}").external_ref
        case_id = lives.open_case(stack, world, (("LAMP", 1),), order_ref=order, reference=f"chat-{n}").case_id
        receipt_id, before = aside(stack, world), received(stack, world)
        raced = lives.race(
            partial(put_on_lamp, stack, world, receipt_id, case_id),
            partial(open_for, stack, world, world.tobias, receipt_id, order),
        )
        assert len(raced.results) == 1, raced
        assert received(stack, world) == before + 1


def put_on_lamp(stack: Stack, world: World, receipt_id: UUID, case_id: UUID) -> Answer:
    with transaction(stack.console, world.merchant_id) as db:
        return match_receipt(db, world.merchant_id, receipt_id, case_id, world.priya.staff_id, [("LAMP", 1)])


def test_closing_and_matching_do_not_both_happen(stack: Stack, world: World) -> None:
    for n in range(ROUNDS):
        receipt_id, (case_id, _) = aside(stack, world), two_cases(stack, world, n)
        raced = lives.race(
            partial(put_on, stack, world, world.priya, receipt_id, case_id),
            partial(close, stack, world, receipt_id),
        )
        assert len(raced.results) == 1


def close(stack: Stack, world: World, receipt_id: UUID) -> Answer:
    with transaction(stack.console, world.merchant_id) as db:
        return close_receipt(db, world.merchant_id, receipt_id, world.tobias.staff_id, "not_ours")
