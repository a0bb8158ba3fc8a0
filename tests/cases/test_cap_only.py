"""Terms that say `cap_only`: a refund made outside stops nothing of its order but what the payment no longer holds."""

from typing import Any

import pytest

from tests.cases.conftest import CAPS
from tests.cases.desk import Desk
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, build_world, usual_policy


@pytest.fixture
def world(stack: Stack, request: pytest.FixtureRequest) -> World:
    """Harbour under terms that say what an unexplained refund outside does (`cap_only` unless a test says otherwise)."""
    terms: dict[str, Any] = {
        "external_unallocated": getattr(request, "param", "cap_only"),
        "routes": {"manager_from_minor": dict.fromkeys(CAPS, 10_000_00)},
    }
    return build_world(stack, cap_minor=CAPS, policy=usual_policy("harbour-usual") | terms)


def test_what_the_payment_still_holds_goes_and_the_youngest_is_proposed_anew_and_smaller(desk: Desk) -> None:
    """45.00 and 48.00 of 120.00 are approved when 40.00 goes back in the dashboard: 13.00 of the later one are not there."""
    sale = desk.sold(45_00, 48_00, 27_00, currency="EUR")
    first = desk.approved(sale, ("L1", 1))
    second = desk.approved(sale, ("L2", 1))
    desk.sandbox.dashboard_refund(sale.payment.payment_intent, 40_00)
    assert desk.find()["external"] == 1
    assert (desk.state(first), desk.state(second), desk.reason(second)) == ("approved", "withdrawn", "refunded_outside")
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    # Nobody has said what the 40.00 were for; it is still asked of finance, and holds nothing else up.
    (again,) = [owed for owed in desk.refunds_of(second.case_id) if owed != second]
    assert (again.amount_minor, desk.state(again)) == (35_00, "proposed")
    # A customer who gets less than was worked out at first is a manager's.
    desk.approve(again, desk.world.mara)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    third = desk.returned(sale, ("L3", 1))
    assert (desk.refunds_of(third), desk.case(third)) == ([], ("needs_person", True))
    assert as_administrator(desk.stack, "SELECT allocated_minor FROM external_refunds") == [{"allocated_minor": 0}]
    desk.ends(sale, refunds=2, refunded=80_00, left=0, outside=[40_00])


@pytest.mark.parametrize("world", ["block"], indirect=True)
def test_control_the_usual_terms_call_everything_of_the_order_back(desk: Desk) -> None:
    sale = desk.sold(45_00, 48_00, 27_00, currency="EUR")
    first = desk.approved(sale, ("L1", 1))
    desk.sandbox.dashboard_refund(sale.payment.payment_intent, 40_00)
    desk.find()
    assert (desk.state(first), desk.refunds_of(first.case_id)) == ("withdrawn", [first])
    assert desk.send() == {}
    desk.ends(sale, refunds=0, refunded=0, left=80_00, outside=[40_00])
