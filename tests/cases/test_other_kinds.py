"""Known faults of the kinds D, E and F as far as money depends on them: units, approvals, and what claims to be the provider.

Each is named with the tests that answer it, here or elsewhere among the tests, or with the reason why it is left.
"""

import json
import re
from pathlib import Path

import pytest

from ledger.errors import AlreadyDecided, AlreadyRefunded, LedgerError, MoreThanLeft
from tests import lives
from tests.cases.desk import Desk
from tests.refunds import alarms, as_administrator
from tests.shared import shared_file

ANSWERED = {
    "B095": ("test_of_four_announced_the_three_that_came_are_paid",),
    "B098": ("test_what_was_paid_back_is_not_returned_again",),
    "B099": ("test_a_return_that_waits_for_its_approval_holds_its_units",),
    "B100": ("test_a_second_return_of_one_order_gets_what_is_left_and_no_postage_twice",),
    "B103": (
        "test_units_of_a_live_case_are_not_claimed_again",
        "test_more_than_is_left_is_refused_whole_and_says_what_is_left",
    ),
    "B101": ("test_b101_a_serial_sold_twice_comes_back_once_for_each_sale_300_00_nothing_280_00",),
    "B102": ("test_b102_without_its_serial_or_with_another_nothing_of_150_00_is_owed",),
    "B105": ("test_what_is_owed",),
    "B106": ("test_what_is_owed",),
    "B110": ("test_what_is_owed",),
    "B113": ("test_what_is_owed",),
    "B114": ("test_what_is_owed",),
    "B117": ("test_what_changes_after_the_approval_is_not_paid_by_it",),
    "B118": (
        "test_the_warehouse_reports_between_page_and_press",
        "test_a_stale_approve_shows_old_and_new_value_and_keeps_the_note",
    ),
    "B119": ("test_a_sheet_opened_before_another_persons_refund_pays_nothing_more",),
    "B120": ("test_the_warehouse_reports_between_page_and_press",),
    "B123": ("test_an_approver_who_lost_the_role_before_the_call_has_approved_nothing",),
    "B124": ("test_a_reader_and_an_admin_approve_nothing",),
    "B130": (
        "test_typed_amounts_become_exact_minor_units",
        "test_amounts_that_could_be_misread_are_refused_with_what_to_write",
    ),
    "B132": (
        "test_typed_amounts_become_exact_minor_units",
        "test_amounts_that_could_be_misread_are_refused_with_what_to_write",
    ),
    "B137": ("test_a_shop_without_a_secret_takes_no_event_signed_with_nothing",),
    "B139": ("test_a_header_of_another_form_is_refused", "test_an_edited_body_is_refused"),
    "B141": ("test_the_same_fact_under_a_new_event_id_moves_nothing_more",),
    "B142": ("test_live_events_do_not_reach_a_test_deployment_nor_test_events_a_live_one",),
    "B143": ("test_an_event_of_another_account_is_refused",),
    "B145": (
        "test_an_absent_and_a_foreign_return_look_the_same",
        "test_another_customer_learns_of_an_order_what_a_stranger_learns_of_none",
    ),
    "B146": ("test_a_form_without_our_token_changes_nothing",),
}
NOT_MONEY = "no amount, balance or refund depends on it in this version"
LEFT = {
    "B107": f"stock is the shop's: {NOT_MONEY}",
    "B126": f"there is no month report beside the reconciliation run: {NOT_MONEY}",
    "B128": f"nothing is exported to a spreadsheet: {NOT_MONEY}",
    "B129": f"nothing is exported to a spreadsheet: {NOT_MONEY}",
    "B134": f"queues page without a default range: {NOT_MONEY}",
    "B135": f"a refund is no order here: {NOT_MONEY}",
    "B136": f"each event names who caused it, the system or a person: {NOT_MONEY}",
    "B138": "there is one gateway, and the local provider is not part of the product (import rules)",
    "B148": f"every template escapes: {NOT_MONEY}",
    "B150": "no model reads anything in this version",
    "B151": "no model can call anything: there is no tool that pays",
}


def test_every_case_of_the_other_kinds_is_answered_by_a_test_or_left_with_a_reason() -> None:
    cases = json.loads(shared_file("cases", "cases.json").read_text())
    known = {case["id"] for case in cases if case["kind"] in ("D", "E", "F")}
    assert known - ANSWERED.keys() - LEFT.keys() == set()
    assert (ANSWERED.keys() | LEFT.keys()) - known == set()
    assert not ANSWERED.keys() & LEFT.keys()


def test_the_tests_that_answer_them_exist() -> None:
    files = Path(__file__).parents[1].rglob("test_*.py")
    there = set(re.findall(r"^def (test_\w+)\(", "\n".join(file.read_text() for file in files), re.MULTILINE))
    assert {name for names in ANSWERED.values() for name in names} - there == set()


def test_of_four_announced_the_three_that_came_are_paid(desk: Desk) -> None:
    sale = desk.sold((11_00, 4))
    case = lives.open_case(desk.stack, desk.world, (("L1", 4),), order_ref=sale.ref).case_id
    lives.arrive(desk.stack, desk.world, case, ("L1", 3))
    (one,) = desk.refunds_of(case)
    assert one.amount_minor == 33_00
    desk.approve(one)
    desk.send()
    desk.ends(sale, refunds=1, refunded=33_00, left=11_00)


def test_what_was_paid_back_is_not_returned_again(desk: Desk) -> None:
    sale = desk.sold((8_00, 2), 5_00)
    desk.paid_back(sale, ("L1", 2))
    for relation in (None, "separate", "existing"):
        with pytest.raises(AlreadyRefunded):
            lives.open_case(
                desk.stack, desk.world, (("L1", 1),), order_ref=sale.ref, reference="again", relation=relation
            )
    desk.ends(sale, refunds=1, refunded=16_00, left=5_00)


def test_a_return_that_waits_for_its_approval_holds_its_units(desk: Desk) -> None:
    """Two of three wait for a reviewer; two more are not left, one is."""
    sale = desk.sold((20_00, 3))
    waits = desk.owed(sale, ("L1", 2))
    with pytest.raises(MoreThanLeft):
        lives.open_case(
            desk.stack, desk.world, (("L1", 2),), order_ref=sale.ref, reference="second", relation="separate"
        )
    other = desk.owed(sale, ("L1", 1), relation="separate")
    for one in (waits, other):
        desk.approve(one)
    assert desk.send() == {"claimed": 2, "confirmed": 2}
    desk.ends(sale, refunds=2, refunded=60_00, left=0)


def test_a_second_return_of_one_order_gets_what_is_left_and_no_postage_twice(desk: Desk) -> None:
    sale = desk.sold((14_00, 2), 6_00)
    first = desk.paid_back(sale, ("L1", 1))
    second = desk.paid_back(sale, ("L1", 1), ("L2", 1), relation="separate")
    assert (first.amount_minor, second.amount_minor) == (14_00, 20_00)
    desk.ends(sale, refunds=2, refunded=34_00, left=0)


def test_what_changes_after_the_approval_is_not_paid_by_it(desk: Desk) -> None:
    """Approved for one unit; the second one comes in before it left: the approval is dead, and 30.00 wait for a new one."""
    sale = desk.sold((15_00, 2))
    case = lives.open_case(desk.stack, desk.world, (("L1", 2),), order_ref=sale.ref).case_id
    lives.arrive(desk.stack, desk.world, case, ("L1", 1))
    (before,) = desk.refunds_of(case)
    desk.approve(before)
    lives.arrive(desk.stack, desk.world, case, ("L1", 1))
    assert (desk.send(), desk.calls(), desk.state(before)) == ({}, [], "withdrawn")
    after = desk.refunds_of(case)[-1]
    assert (after.amount_minor, desk.state(after)) == (30_00, "proposed")
    desk.approve(after)
    desk.send()
    desk.ends(sale, refunds=1, refunded=30_00, left=0)


def test_a_sheet_opened_before_another_persons_refund_pays_nothing_more(desk: Desk) -> None:
    sale = desk.sold(42_00, 9_00)
    one = desk.owed(sale, ("L1", 1))
    old_sheet = lives.see(desk.stack, desk.world, one.intent_id)
    desk.approve(one)
    desk.send()
    with pytest.raises(AlreadyDecided):
        lives.approve_as(desk.stack, desk.world, desk.world.mara, one.intent_id, old_sheet)
    assert desk.send() == {}
    desk.ends(sale, refunds=1, refunded=42_00, left=9_00)


@pytest.mark.parametrize("became", ["reader", "gone"])
def test_an_approver_who_lost_the_role_before_the_call_has_approved_nothing(desk: Desk, became: str) -> None:
    sale = desk.sold(27_00)
    one = desk.approved(sale, ("L1", 1))
    if became == "reader":
        as_administrator(
            desk.stack, "UPDATE memberships SET role = 'reader' WHERE staff_id = %s", desk.world.priya.staff_id
        )
    else:
        as_administrator(
            desk.stack, "UPDATE staff SET disabled_at = now() WHERE staff_id = %s", desk.world.priya.staff_id
        )
    desk.send()
    assert (desk.state(one), desk.reason(one), desk.calls()) == ("held", "left", [])
    assert alarms(desk.stack) == {"not_sent_left"}
    assert desk.refunds_there(sale) == []


def test_the_same_fact_under_a_new_event_id_moves_nothing_more(desk: Desk) -> None:
    desk.listen()
    sale = desk.sold(18_50)
    one = desk.approved(sale, ("L1", 1))
    desk.sandbox.fault("refund_pending")
    desk.send()
    desk.sandbox.change_refund(desk.refund_ref(one), "succeeded")
    desk.told()
    desk.hear()
    for event in desk.events("refund.updated"):
        for number in range(3):
            desk.tell({**event, "id": f"{event['id']}_{number}"})
    assert "moved" not in desk.hear()
    desk.ends(sale, refunds=1, refunded=18_50, left=0)
    with pytest.raises(LedgerError):
        desk.approve(one)
