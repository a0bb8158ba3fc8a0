"""Cases in numbers: copies that the ledger's own check finds nothing wrong with, each with ids and an order of its own."""

from collections import Counter
from uuid import UUID

import pytest
from sqlalchemy.engine import make_url

from demo.bulk import add_cases
from jobs.self_check import walk
from ledger.cases import reject
from ledger.database import rows, scalar, transaction
from ledger.events import broken_link
from tests import lives
from tests.stack import Stack
from tests.web.desk import pay
from tests.world import World, add_order

CASES = 300


@pytest.fixture
def sold(stack: Stack, world: World) -> list[UUID]:
    """A return that waits for goods, one that is ready, a paid and a rejected one."""
    made = []
    for n, (arrives, ends) in enumerate([(False, ""), (True, ""), (True, "paid"), (True, "rejected")]):
        order = add_order(stack, world, f"ORDER-{n}").external_ref
        case_id = lives.open_case(stack, world, (("TEE", 2),), order_ref=order, reference=f"chat-{n}").case_id
        if arrives:
            lives.arrive(stack, world, case_id, ("TEE", 2))
        if ends == "paid":
            pay(stack, world, lives.intents(stack, world, case_id)[-1]["intent_id"])
        if ends == "rejected":
            with transaction(stack.console, world.merchant_id) as db:
                reject(db, world.merchant_id, case_id, world.priya.actor, "outside_window")
        made.append(case_id)
    return made


def faults(stack: Stack, world: World) -> Counter[str]:
    return Counter(fault.kind for _, found in walk(stack.worker, world.merchant_id) for fault in found)


def fill(stack: Stack, world: World, count: int = CASES) -> int:
    url = make_url(stack.server.admin_url).set(drivername="postgresql", database=stack.name)
    return add_cases(url.render_as_string(hide_password=False), world.merchant_id, count, lambda _line: None)


def test_copies_are_whole_and_the_ledger_agrees_with_itself(stack: Stack, world: World, sold: list[UUID]) -> None:
    assert fill(stack, world) == CASES + len(sold)
    assert faults(stack, world) == Counter()
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        paid = rows(
            db, "SELECT case_id, head_number FROM cases WHERE merchant_id = :m AND stage = 'paid'", m=world.merchant_id
        )
        assert len(paid) > CASES // 3
        assert all(broken_link(db, world.merchant_id, row["case_id"]) is None for row in paid[:20])
        assert scalar(db, "SELECT count(DISTINCT external_ref) FROM orders") >= CASES
        assert (
            scalar(db, "SELECT count(*) FROM cases WHERE closed_at IS NULL AND opened_at < now() - interval '40 days'")
            == 0
        )


def test_more_can_be_added_to_what_is_there(stack: Stack, world: World, sold: list[UUID]) -> None:
    fill(stack, world, 50)
    assert fill(stack, world, 50) == 100 + len(sold)
    assert faults(stack, world) == Counter()


def test_an_edited_copy_would_be_noticed(stack: Stack, world: World, sold: list[UUID]) -> None:
    fill(stack, world, 50)
    with stack.past_guards() as db:
        db.execute("UPDATE events SET reason = 'edited' WHERE number = 1 AND case_id = (SELECT case_id FROM cases"
                   " ORDER BY number DESC LIMIT 1)")  # fmt: skip
    assert faults(stack, world) == Counter(chain=1)


def test_without_a_pattern_nothing_is_made(stack: Stack, world: World) -> None:
    with pytest.raises(ValueError, match="no open and no closed return"):
        fill(stack, world)
