"""A line of 80,000 units is graded, and its rest worked out, about as fast as a line of one (DESIGN §3)."""

import time

from ledger.database import transaction
from ledger.evidence import Arrival, ReceivedLine, report_arrival
from tests import lives
from tests.orders import Line
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, add_order


def test_two_hundred_grades_on_eighty_thousand_units_take_a_moment(stack: Stack, world: World) -> None:
    order = add_order(stack, world, "BULK-1", lines=(Line("PEN", 80_000, 1_600_000),))
    opened = lives.open_case(stack, world, (("PEN", 80_000),), order_ref=order.external_ref)
    grades = tuple((400, "AX"[number % 2], "") for number in range(200))
    report = Arrival((ReceivedLine("PEN", 80_000, grades),), "warehouse", world.warehouse.actor)
    began = time.process_time()
    with transaction(stack.console, world.merchant_id) as db:
        report_arrival(db, world.merchant_id, opened.case_id, report)
    assert time.process_time() - began < 2
    found = as_administrator(
        stack, "SELECT lower(units) AS a, upper(units) AS b, grade FROM evidence WHERE kind = 'inspected'"
    )
    assert sorted((row["a"], row["b"], row["grade"]) for row in found) == [
        (400 * number, 400 * number + 400, "AX"[number % 2]) for number in range(200)
    ]
    (one,) = lives.intents(stack, world, opened.case_id)
    assert one["amount_minor"] == 800_000
