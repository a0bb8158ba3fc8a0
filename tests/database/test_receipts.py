"""The database answers for a receipt once, and lets nobody take an answer back or another merchant see it."""

import psycopg
import pytest
from sqlalchemy.exc import IntegrityError

from ledger.database import run, scalar, transaction
from ledger.evidence import Arrival, Graded, ReceivedLine
from ledger.unmatched_receipts import Unmatched, keep_unmatched
from tests.stack import Stack
from tests.world import World, build_world


def report(world: World, line: str = "TEE", count: int = 1, order_ref: str = "A-20417") -> Unmatched:
    """So many units of a line, as new, of an order that has no open return."""
    lines = (ReceivedLine(line, count, (Graded(count, "A", "as new"),)),)
    return Unmatched(Arrival(lines, "warehouse", world.warehouse.actor, "JD9"), "no_case", order_ref=order_ref)


_CLOSE = """
    INSERT INTO receipt_answers (merchant_id, receipt_id, kind, staff_id)
    SELECT merchant_id, receipt_id, 'empty', :who FROM unmatched_receipts WHERE merchant_id = :m
"""


def test_a_second_answer_is_refused_by_the_database(stack: Stack, world: World) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        keep_unmatched(db, world.merchant_id, report(world))
        run(db, _CLOSE, m=world.merchant_id, who=world.priya.staff_id)
    with pytest.raises(IntegrityError), transaction(stack.console, world.merchant_id) as db:
        run(db, _CLOSE, m=world.merchant_id, who=world.tobias.staff_id)


@pytest.mark.parametrize("statement", ["DELETE FROM receipt_answers", "UPDATE receipt_answers SET kind = 'not_ours'"])
def test_an_answer_stays_also_for_the_owner(stack: Stack, world: World, statement: str) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        keep_unmatched(db, world.merchant_id, report(world))
        run(db, _CLOSE, m=world.merchant_id, who=world.priya.staff_id)
    with stack.admin() as admin, pytest.raises(psycopg.errors.RestrictViolation):
        admin.execute(statement.encode())


def test_another_merchant_sees_no_receipt(stack: Stack, world: World) -> None:
    northwind = build_world(stack, "northwind")
    with transaction(stack.console, world.merchant_id) as db:
        keep_unmatched(db, world.merchant_id, report(world))
    with transaction(stack.console, northwind.merchant_id, read_only=True) as db:
        assert scalar(db, "SELECT count(*) FROM unmatched_receipts") == 0
