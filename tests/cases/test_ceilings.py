"""What goes back never passes what was taken: for a payment, for a line, over several payments, and all at once."""

from functools import partial

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.database import first, transaction
from ledger.errors import MoreThanLeft, NotAllowed, NotEnoughMoneyLeft, WrongState
from ledger.reservation import claim_lines
from tests import lives
from tests.cases.desk import Desk
from tests.cases.sale import Refund
from tests.refunds import as_administrator


@pytest.mark.parametrize(("price", "asked", "passing"), [(60_00, 2, 1), (7_00, 50, 14)])
def test_refunds_approved_at_once_stop_at_what_was_captured(desk: Desk, price: int, asked: int, passing: int) -> None:
    """100.00 taken: one of two refunds of 60.00 passes; of fifty of 7.00 fourteen do, and 2.00 are left."""
    sale = desk.sold((price, asked), payments=desk.paid(100_00, currency="USD"), currency="USD")
    ones = [desk.owed(sale, ("L1", 1), relation="separate") for _ in range(asked)]
    people = [desk.world.priya, desk.world.tobias, desk.world.jonas]
    raced = lives.race(*(partial(desk.approve, one, people[n % 3]) for n, one in enumerate(ones)))
    assert (len(raced.results), len(raced.refusals)) == (passing, asked - passing)
    assert {type(refusal) for refusal in raced.refusals} == {NotEnoughMoneyLeft}
    assert desk.books(sale).left == 100_00 - passing * price
    assert desk.send()["confirmed"] == passing
    desk.ends(sale, refunds=passing, refunded=passing * price, left=100_00 - passing * price)


def test_a_line_gives_back_no_more_than_it_cost_although_the_payment_would_allow_it(desk: Desk) -> None:
    """A cap of 17.00 and a coat of 64.00: 52.00 for the cap stays below 81.00 and is refused all the same."""
    sale = desk.sold(17_00, 64_00, currency="EUR")
    with pytest.raises(MoreThanLeft):
        desk.returned(sale, ("L1", 3))
    coat = desk.owed(sale, ("L2", 1))
    with pytest.raises(IntegrityError, match="claimed_within_allocated"):
        claim_cap(desk, coat, 52_00)
    cap = desk.approved(sale, ("L1", 1))
    assert cap.amount_minor == 17_00
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    with pytest.raises(WrongState):
        desk.work_out_again(cap.case_id)
    with pytest.raises(IntegrityError, match="claimed_within_allocated"):
        claim_cap(desk, coat, 1)
    desk.ends(sale, refunds=1, refunded=17_00, left=81_00 - 17_00)


def claim_cap(desk: Desk, one: Refund, minor: int) -> None:
    """What a form that takes any amount would do to the line of the cap."""
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        row = first(
            db, "SELECT l.line_id FROM order_lines l JOIN intents i ON i.merchant_id = l.merchant_id"
            " AND i.order_id = l.order_id WHERE i.intent_id = :i AND l.line_ref = 'L1'", i=one.intent_id,
        )  # fmt: skip
        assert row is not None
        claim_lines(db, desk.world.merchant_id, one.intent_id, {row["line_id"]: minor})


def test_a_return_worth_more_than_was_captured_draws_what_is_there_and_is_a_managers(desk: Desk) -> None:
    """Five books at 18.00 were ordered and 54.00 captured: four of them are worth 72.00, and 54.00 is all there is."""
    sale = desk.sold((18_00, 5), payments=desk.paid(54_00))
    one = desk.owed(sale, ("L1", 4))
    assert (one.amount_minor, one.route) == (54_00, "manager")
    assert shortfall_minor(desk, one) == 4 * 18_00 - 54_00
    with pytest.raises(NotAllowed):
        desk.approve(one)
    desk.approve(one, by=desk.world.jonas)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    assert desk.refunds_of(desk.returned(sale, ("L1", 1), relation="separate")) == []
    desk.ends(sale, refunds=1, refunded=54_00, left=0)


def test_a_return_worth_all_that_was_captured_is_paid_whole(desk: Desk) -> None:
    sale = desk.sold((18_00, 5), payments=desk.paid(54_00))
    one = desk.approved(sale, ("L1", 3))
    assert (one.amount_minor, shortfall_minor(desk, one)) == (3 * 18_00, 0)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=54_00, left=54_00 - 3 * 18_00)


def shortfall_minor(desk: Desk, one: Refund) -> int:
    (row,) = as_administrator(
        desk.stack, "SELECT (record->>'funding_shortfall_minor')::bigint AS minor FROM entitlements WHERE case_id = %s"
        " ORDER BY n DESC LIMIT 1", one.case_id,
    )  # fmt: skip
    return int(row["minor"])


def test_a_refund_larger_than_any_one_payment_is_split_and_no_penny_is_stranded(desk: Desk) -> None:
    """Paid by 46.00 and 34.00. 61.37 goes back as 46.00 + 15.37, and the other 18.63 out of the second payment."""
    small, large = desk.paid(34_00, 46_00, currency="EUR")
    sale = desk.sold(61_37, 18_63, payments=[small, large], currency="EUR")
    split = desk.refunds_of(desk.returned(sale, ("L1", 1)))
    assert sorted((one.charge_ref, one.amount_minor) for one in split) == sorted(
        [(large.charge, 46_00), (small.charge, 61_37 - 46_00)]
    )
    for one in split:
        desk.approve(one)
    assert desk.send() == {"claimed": 2, "confirmed": 2}
    rest = desk.approved(sale, ("L2", 1))
    assert (rest.charge_ref, rest.amount_minor) == (small.charge, 34_00 - 15_37)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=3, refunded=61_37 + 18_63, left=80_00 - 61_37 - 18_63)
    assert [desk.sandbox.money(one.payment_intent)["refunded"] for one in (large, small)] == [46_00, 34_00]


def test_a_split_refund_of_which_one_part_is_disputed_stays_open_for_that_part_alone(desk: Desk) -> None:
    """61.37 out of two payments; the smaller is disputed. 46.00 is paid, and 15.37 once the dispute is won."""
    small, large = desk.paid(34_00, 46_00, currency="EUR")
    sale = desk.sold(61_37, 18_63, payments=[small, large], currency="EUR")
    case = desk.returned(sale, ("L1", 1))
    for one in desk.refunds_of(case):
        desk.approve(one)
    dispute = desk.sandbox.open_dispute(small.payment_intent)
    assert desk.send() == {"disputes": 1, "claimed": 1, "confirmed": 1}
    assert desk.case(case) == ("held", True)
    desk.ends(
        sale, refunds=1, refunded=46_00, left=0, reserved=61_37 - 46_00, held=61_37 - 46_00, disputed=34_00 - 15_37
    )
    desk.sandbox.close_dispute(dispute["id"], "won")
    assert desk.find() == {"disputes": 1}
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    assert desk.case(case) == ("paid", False)
    desk.ends(sale, refunds=2, refunded=61_37, left=80_00 - 61_37)
