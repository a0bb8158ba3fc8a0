"""Refunds made in the provider's dashboard: found, taken off their payment, and answered for by a person; and events that only
carry sums, of which none is taken for a refund."""

import pytest

from console.api.problems import ledger_document
from ledger.errors import AlreadyRefunded, MoreThanLeft
from tests import lives
from tests.cases.desk import Desk
from tests.cases.sale import Books, Sale
from tests.lives import count
from tests.refunds import as_administrator


def intents(desk: Desk) -> int:
    return count(desk.stack.console, desk.world, "SELECT count(*) FROM intents WHERE merchant_id = :m")


def claimed(desk: Desk) -> int:
    return count(desk.stack.console, desk.world, "SELECT sum(claimed_minor) FROM order_lines l JOIN orders o"
                 " USING (merchant_id, order_id) WHERE merchant_id = :m AND o.external_ref LIKE 'S-%'")  # fmt: skip


@pytest.mark.parametrize("same", [False, True], ids=["the other payment", "the payment this return draws on"])
def test_a_charge_made_twice_and_given_back_once_leaves_the_order_paid(desk: Desk, same: bool) -> None:
    """A ticket of 29.00 was charged twice; 29.00 of the 58.00 went back in the dashboard, so 29.00 is still paid for.

    The return that waits stops until Farah says that the refund was for none of the goods; then it is paid from what is left.
    """
    desk.listen()
    sale = desk.sold(29_00, payments=desk.paid(29_00, 29_00, currency="EUR"), currency="EUR")
    one = desk.owed(sale, ("L1", 1))
    twice = next(payment for payment in sale.payments if (payment.charge == one.charge_ref) == same)
    refund = desk.sandbox.dashboard_refund(twice.payment_intent)["id"]
    desk.told()
    assert desk.hear()["moved"] == 1
    assert (desk.state(one), desk.reason(one)) == ("withdrawn", "refunded_outside")
    assert (desk.case(one.case_id), desk.refunds_of(one.case_id)) == (("needs_person", True), [one])
    desk.ends(sale, refunds=0, refunded=0, left=29_00, outside=[29_00])
    assert desk.unrelated(refund).left_minor == 0
    (again,) = [owed for owed in desk.refunds_of(one.case_id) if owed != one]
    assert (again.amount_minor, again.charge_ref) == (29_00, next(p.charge for p in sale.payments if p != twice))
    desk.approve(again)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=29_00, left=0, outside=[29_00])


@pytest.mark.parametrize("by", ["hook", "poll"])
@pytest.mark.parametrize("minor", [27_00, 10_00])
def test_a_dashboard_refund_without_a_reference_touches_no_line_until_a_person_says_which(
    desk: Desk, minor: int, by: str
) -> None:
    """45.00 of 120.00 was paid for L1, then 27.00 or 10.00 went back in the dashboard: one row, of no line. Farah puts it on
    the return of L3, which was sold for 27.00; what is still owed of that is paid, and L2 as it was."""
    if by == "hook":
        desk.listen()
    sale = desk.sold(45_00, 48_00, 27_00, currency="EUR")
    desk.paid_back(sale, ("L1", 1))
    refund = desk.sandbox.dashboard_refund(sale.payment.payment_intent, minor)["id"]
    if by == "hook":
        desk.told()
        assert desk.hear()["moved"] == 1
    assert desk.find() == ({"external": 1} if by == "poll" else {})
    assert (intents(desk), claimed(desk)) == (1, 45_00)
    desk.ends(sale, refunds=1, refunded=45_00, left=120_00 - 45_00 - minor, outside=[minor])
    third = desk.returned(sale, ("L3", 1))
    assert (desk.refunds_of(third), desk.case(third)) == ([], ("needs_person", True))
    assert desk.matches(refund, third).left_minor == 0
    assert claimed(desk) == 45_00 + 27_00
    refused_with(desk, sale, "L3", refund)
    if minor == 27_00:
        assert (desk.refunds_of(third), desk.case(third)) == ([], ("paid", False))
    else:
        (rest,) = desk.refunds_of(third)
        assert rest.amount_minor == 27_00 - 10_00
        desk.approve(rest)
        assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.paid_back(sale, ("L2", 1))
    desk.ends(sale, refunds=3 - (minor == 27_00), refunded=120_00 - minor, left=0, outside=[minor])


def refused_with(desk: Desk, sale: Sale, line: str, refund: str) -> None:
    """The same unit is asked for once more, as a separate item: refused with what the dashboard paid for it (P18)."""
    with pytest.raises((AlreadyRefunded, MoreThanLeft)) as refused:
        lives.open_case(
            desk.stack, desk.world, ((line, 1),), order_ref=sale.ref, relation="separate", reference="again"
        )
    if isinstance(refused.value, AlreadyRefunded):
        (known,) = ledger_document(refused.value, proven=True)["refunds"]
        assert (known["reference"], known["channel"]) == (refund, "dashboard")
        assert known["desk"] == "outside Onceback, in the provider's dashboard"


def test_one_found_by_hook_and_by_the_list_and_told_a_thousand_times_is_one_row(desk: Desk) -> None:
    desk.sandbox.settings(webhooks_copies=2)
    desk.listen()
    sale = desk.sold(18_00, 7_00)
    desk.sandbox.dashboard_refund(sale.payment.payment_intent, 7_00)
    desk.told()
    assert desk.hear()["moved"] == 1
    assert (desk.find(), desk.hear(), desk.find()) == ({}, {}, {})
    found = as_administrator(desk.stack, "SELECT found_by, kind, status, placed_minor FROM external_refunds")
    assert found == [{"found_by": "hook", "kind": "outside", "status": "succeeded", "placed_minor": 7_00}]
    desk.ends(sale, refunds=0, refunded=0, left=18_00, outside=[7_00])


def test_more_refunds_than_a_page_and_a_run_hold_are_all_found_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine refunds of one payment, by pages of two and two pages a run; more are made while they are read."""
    monkeypatch.setattr("jobs.stripe_lists.PAGE", 2)
    monkeypatch.setattr("jobs.account_lists.MOST_PAGES", 2)
    sale = desk.sold(90_00)
    for _ in range(8):
        desk.sandbox.dashboard_refund(sale.payment.payment_intent, 1_00)
    assert desk.find()["external"] == 4
    desk.sandbox.dashboard_refund(sale.payment.payment_intent, 1_00)
    assert [desk.find()["external"] for _ in range(3)] == [4, 1, 0]
    desk.ends(sale, refunds=0, refunded=0, left=81_00, outside=[1_00] * 9)


def test_a_dashboard_refund_that_fails_later_gives_payment_and_lines_back(desk: Desk) -> None:
    """26.00 put on the return of L1, which closes it; four days later the bank returns the money."""
    sale = desk.sold(26_00, 4_00)
    refund = desk.sandbox.dashboard_refund(sale.payment.payment_intent, 26_00)["id"]
    case = desk.returned(sale, ("L1", 1))
    desk.find()
    desk.matches(refund, case)
    assert (desk.case(case), claimed(desk)) == (("paid", False), 26_00)
    desk.sandbox.change_refund(refund, "failed", "expired_or_canceled_card")
    assert desk.find() == {"external": 1}
    (owed,) = [one for one in desk.refunds_of(case) if desk.state(one) == "proposed"]
    assert (desk.case(case), owed.amount_minor) == (("ready", True), 26_00)
    desk.approve(owed)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=26_00, left=4_00)
    states = as_administrator(desk.stack, "SELECT n, status, failure_reason FROM external_refund_states ORDER BY n")
    assert [tuple(row.values()) for row in states] == [(1, "succeeded", ""), (2, "failed", "expired_or_canceled_card")]


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


def test_a_refund_found_before_its_order_is_known_waits_and_is_taken_off_when_the_order_comes(desk: Desk) -> None:
    """13.00 of 44.00 went back before the order came in: 31.00 is left, for one line of 31.00 and no more."""
    desk.listen()
    (payment,) = desk.paid(44_00, currency="USD")
    refund = desk.sandbox.dashboard_refund(payment.payment_intent, 13_00)["id"]
    desk.told()
    assert desk.hear() == {"hints": 2}
    assert desk.find() == {"external": 1}
    sale = desk.sold(31_00, 13_00, payments=[payment], currency="USD")
    assert desk.books(sale) == Books(44_00, 0, 0)
    assert desk.find() == {"placed": 1}
    desk.ends(sale, refunds=0, refunded=0, left=31_00, outside=[13_00])
    desk.unrelated(refund, "a price that was wrong")
    desk.paid_back(sale, ("L1", 1))
    over = desk.returned(sale, ("L2", 1))
    assert (desk.refunds_of(over), desk.case(over)) == ([], ("needs_person", True))
    desk.ends(sale, refunds=1, refunded=31_00, left=0, outside=[13_00])
