"""The second writer of a charge that is none too many: a build that takes a customer's statement for what the provider shows."""

from dataclasses import replace
from typing import Any

from faults.place import Place
from faults.rogues import TooLate, approve_as
from jobs.stripe_gateway import StripeGateway
from ledger.charge_cases import ChargeRequest, lock_duplicate_case, open_duplicate_case
from ledger.charge_facts import read_inputs
from ledger.charge_readings import record_finding, take_readings
from ledger.database import transaction
from tests import lives

Row = dict[str, Any]


def the_only_charge_as_a_second_one(place: Place, _gateway: StripeGateway, intent: Row) -> None:
    """The customer sends a statement that shows the charge twice, and this build counts its lines."""
    (order,) = place.as_administrator("SELECT external_ref FROM orders WHERE order_id = %s", intent["order_id"])
    with transaction(place.stack.console, intent["merchant_id"]) as db:
        request = ChargeRequest(order["external_ref"], "chat", f"statement-{intent['number']}", place.world.chat.actor)
        case_id, _, _ = open_duplicate_case(db, intent["merchant_id"], request)
    with transaction(place.stack.worker, intent["merchant_id"]) as db:
        reading = next((row for row in take_readings(db, intent["merchant_id"], 50) if row["case_id"] == case_id), None)
        if reading is None:
            raise TooLate
        case = lock_duplicate_case(db, intent["merchant_id"], case_id)
        read = read_inputs(db, intent["merchant_id"], case.order_id, [], ())
        seen = tuple(replace(one, differs=False, open_refund_minor=0) for one in read.charges)
        again = tuple(
            replace(one, charge_ref=f"line 2 of {one.charge_ref}", capture_id="", captured_at="") for one in seen
        )
        record_finding(db, case, reading["reading_id"], replace(read, charges=seen + again, others=()))
    proposed = lives.intents(place.stack, place.world, case_id)
    if not proposed:
        raise TooLate
    for row in proposed:
        approve_as(place, place.world.jonas, row["intent_id"])
