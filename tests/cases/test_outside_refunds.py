"""Refunds made in the provider's dashboard, and events that only carry sums: none is taken for one of ours.

What is made there is not recorded here yet; so the provider says what no longer fits, and its refusal gives everything back.
"""

import pytest

from tests.cases.desk import Desk
from tests.lives import count


def intents(desk: Desk) -> int:
    return count(desk.stack.console, desk.world, "SELECT count(*) FROM intents WHERE merchant_id = :m")


@pytest.mark.parametrize("same", [False, True], ids=["the other payment", "the payment this return draws on"])
def test_a_charge_made_twice_and_given_back_once_leaves_the_order_paid(desk: Desk, same: bool) -> None:
    """A ticket of 29.00 was charged twice; 29.00 of the 58.00 went back in the dashboard, so 29.00 is still paid for."""
    desk.listen()
    sale = desk.sold(29_00, payments=desk.paid(29_00, 29_00, currency="EUR"), currency="EUR")
    one = desk.owed(sale, ("L1", 1))
    twice = next(payment for payment in sale.payments if (payment.charge == one.charge_ref) == same)
    desk.sandbox.dashboard_refund(twice.payment_intent)
    desk.told()
    assert "moved" not in desk.hear()
    assert (desk.state(one), intents(desk)) == ("proposed", 1)
    desk.ends(sale, refunds=0, refunded=0, left=58_00, outside=[29_00])
    desk.approve(one)
    counted = desk.send()
    if same:
        assert (counted, desk.reason(one)) == ({"claimed": 1, "refused": 1}, "charge_already_refunded")
        desk.ends(sale, refunds=0, refunded=0, left=58_00, outside=[29_00])
    else:
        assert counted == {"claimed": 1, "confirmed": 1}
        desk.ends(sale, refunds=1, refunded=29_00, left=58_00 - 29_00, outside=[29_00])


@pytest.mark.parametrize(("outside", "reason"), [(27_00, "charge_already_refunded"), (10_00, "amount_not_accepted")])
def test_a_dashboard_refund_without_a_reference_touches_no_line_and_no_refund_of_ours(
    desk: Desk, outside: int, reason: str
) -> None:
    """45.00 of 120.00 was paid for L1, then 27.00 or 10.00 went back in the dashboard. L2 of 48.00 still fits; then
    nothing or 17.00 is left there, and L3 of 27.00 does not."""
    desk.listen()
    sale = desk.sold(45_00, 48_00, 27_00, currency="EUR")
    desk.paid_back(sale, ("L1", 1))
    desk.sandbox.dashboard_refund(sale.payment.payment_intent, outside)
    desk.told()
    assert "moved" not in desk.hear()
    assert (intents(desk), claimed(desk)) == (1, 45_00)
    desk.ends(sale, refunds=1, refunded=45_00, left=120_00 - 45_00, outside=[outside])
    desk.paid_back(sale, ("L2", 1))
    late = desk.approved(sale, ("L3", 1))
    assert desk.send() == {"claimed": 1, "refused": 1}
    assert (desk.state(late), desk.reason(late)) == ("failed", reason)
    assert claimed(desk) == 45_00 + 48_00
    desk.ends(sale, refunds=2, refunded=45_00 + 48_00, left=120_00 - 93_00, outside=[outside])


def claimed(desk: Desk) -> int:
    return count(desk.stack.console, desk.world, "SELECT sum(claimed_minor) FROM order_lines l JOIN orders o"
                 " USING (merchant_id, order_id) WHERE merchant_id = :m AND o.external_ref LIKE 'S-%'")  # fmt: skip


@pytest.mark.parametrize(("first", "second"), [(2_50, 4_00), (6_00, 8_00)])
def test_events_that_carry_the_running_total_are_never_added_up(desk: Desk, first: int, second: int) -> None:
    """Two refunds of one payment of 25.00; each event of the charge names their sum so far, and all come twice."""
    desk.sandbox.settings(webhooks_copies=2)
    desk.listen()
    sale = desk.sold(first, second, 25_00 - first - second, currency="USD")
    for number, minor in enumerate((first, second), 1):
        one = desk.approved(sale, (f"L{number}", 1))
        assert one.amount_minor == minor
        desk.sandbox.fault("refund_pending")
        desk.send()
        desk.sandbox.change_refund(desk.refund_ref(one), "succeeded")
        desk.told()
        assert desk.hear()["moved"] == 1
    totals = [event["data"]["object"]["amount_refunded"] for event in desk.events("charge.refunded")]
    assert sorted(totals) == [first, first + second]
    for event in desk.events("charge.refunded"):
        desk.tell({**event, "id": f"{event['id']}_again"})
    assert desk.hear() == {"hints": 2, "reads": 1}
    assert intents(desk) == 2
    desk.ends(sale, refunds=2, refunded=first + second, left=25_00 - first - second)


def test_a_refund_told_before_its_order_is_known_is_put_aside_and_the_order_still_pays_no_more_than_is_left(
    desk: Desk,
) -> None:
    """13.00 of 44.00 went back before the order came in: 31.00 is left there, for one line of 31.00 and no more."""
    desk.listen()
    (payment,) = desk.paid(44_00, currency="USD")
    desk.sandbox.dashboard_refund(payment.payment_intent, 13_00)
    desk.told()
    assert desk.hear() == {"hints": 2}
    sale = desk.sold(31_00, 13_00, payments=[payment], currency="USD")
    desk.ends(sale, refunds=0, refunded=0, left=44_00, outside=[13_00])
    desk.paid_back(sale, ("L1", 1))
    over = desk.approved(sale, ("L2", 1))
    assert desk.send() == {"claimed": 1, "refused": 1}
    assert (desk.state(over), desk.reason(over)) == ("failed", "charge_already_refunded")
    desk.ends(sale, refunds=1, refunded=31_00, left=44_00 - 31_00, outside=[13_00])
