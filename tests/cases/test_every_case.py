"""Every known fault about duplicate refunds and payment states has its test here, or a reason why a part of it waits.

The faults are those of `cases.json` among the shared inputs, kinds A and C. A test here is of the same kind of fault, with
its own amounts; what it proves of a case is what this version does.
"""

import ast
import json
from pathlib import Path

from tests.shared import shared_file

KINDS = ("A", "C")

ANSWERED = {
    "B002": ("test_a_hook_that_overtakes_the_slow_answer_books_no_second_refund",),
    "B003": ("test_an_older_refund_told_again_is_not_booked_again_and_its_late_failure_is_not_lost",),
    "B005": (
        "test_a_refund_taken_up_twice_inside_the_server_is_called_for_once",
        "test_the_same_call_made_twice_under_its_key_is_one_refund",
        "test_a_look_and_a_hook_that_find_the_same_refund_at_once_settle_it_once",
    ),
    "B006": ("test_refunds_approved_at_once_stop_at_what_was_captured",),
    "B008": (
        "test_a_worker_that_comes_back_after_the_key_was_forgotten_lists_and_adopts",
        "test_a_worker_that_comes_back_and_finds_nothing_after_the_key_was_forgotten_leaves_it_to_a_person",
        "test_control_the_provider_would_pay_a_blind_resend_after_the_key_was_forgotten",
    ),
    "B009": (
        "test_a_refund_made_and_not_answered_stays_reserved_is_not_asked_for_again_and_is_found",
        "test_a_refund_neither_made_nor_answered_stays_reserved_as_well",
    ),
    "B010": ("test_the_key_of_a_refund_is_its_own_and_never_the_one_the_payment_was_made_under",),
    "B012": ("test_a_charge_made_twice_and_given_back_once_leaves_the_order_paid",),
    "B013": ("test_a_dashboard_refund_without_a_reference_touches_no_line_until_a_person_says_which",),
    "B014": ("test_events_that_carry_the_running_total_are_never_added_up",),
    "B015": ("test_events_that_carry_the_running_total_are_never_added_up",),
    "B017": (
        "test_a_line_gives_back_no_more_than_it_cost_although_the_payment_would_allow_it",
        "test_a_whole_return_and_goodwill_on_one_line_in_one_instant_never_pass_the_line",
        "test_24_goodwill_above_the_line_is_cut_to_it_and_takes_two_managers",
    ),
    "B070": (
        "test_a_refund_undone_four_days_later_is_owed_again_and_its_case_is_a_persons",
        "test_one_of_each_difference_is_named_exactly_once_and_the_sums_are_explained",
    ),
    "B073": ("test_of_five_refunds_each_counts_by_its_own_status",),
    "B075": ("test_a_refund_settles_whichever_event_tells_of_it_and_also_when_none_does",),
    "B076": ("test_a_failed_refund_is_not_taken_off_what_is_left_and_does_not_stand_in_the_way",),
    "B077": ("test_what_the_provider_refuses_leaves_nothing_behind_and_may_be_asked_for_again",),
    "B079": (
        "test_part_of_an_authorisation_is_not_refunded_and_the_authorisation_is_left_as_it_is",
        "test_a_part_of_an_uncaptured_payment_is_a_persons_with_words_what_to_do",
        "test_what_the_shop_then_captured_less_leaves_nothing_to_pay_back",
    ),
    "B080": (
        "test_a_payment_captured_in_the_dashboard_is_refunded_by_the_part_that_was_asked_for",
        "test_a_payment_captured_elsewhere_before_the_approval_is_refunded_instead",
        "test_a_payment_captured_between_approval_and_sending_is_not_canceled_and_is_refunded_after_a_new_approval",
        "test_a_capture_that_slips_between_our_read_and_our_cancel_is_refused_by_name",
    ),
    "B081": (
        "test_the_part_of_a_hold_that_was_never_captured_is_no_refund_and_is_not_paid_back",
        "test_what_the_shop_then_captured_less_leaves_nothing_to_pay_back",
    ),
    "B082": (
        "test_a_cancelled_authorisation_is_an_order_without_money_and_never_a_refund",
        "test_a_payment_that_was_let_go_already_is_settled_without_a_call",
    ),
    "B083": (
        "test_a_refund_larger_than_any_one_payment_is_split_and_no_penny_is_stranded",
        "test_a_split_refund_of_which_one_part_is_disputed_stays_open_for_that_part_alone",
    ),
    "B084": (
        "test_an_authorisation_that_lapsed_tells_its_case_that_nothing_was_taken",
        "test_a_lapse_that_no_hook_tells_of_is_found_by_the_worker",
        "test_an_approved_cancel_of_a_lapsed_payment_is_done",
    ),
    "B085": (
        "test_a_return_worth_more_than_was_captured_draws_what_is_there_and_is_a_managers",
        "test_a_return_worth_all_that_was_captured_is_paid_whole",
        "test_whatever_is_changed_past_the_guards_is_named",
    ),
    "B087": ("test_a_part_of_a_charge_that_is_not_settled_waits_and_voids_nothing",),
    "B088": (
        "test_what_the_bank_is_pulling_back_is_not_paid_as_well_and_is_paid_once_the_dispute_is_won",
        "test_a_question_of_the_bank_takes_no_money_and_holds_the_refund_for_a_person",
        "test_control_without_the_look_before_sending_a_refund_goes_out_beside_the_banks_question",
    ),
    "B089": ("test_a_dispute_that_was_lost_is_no_refund_and_nothing_more_is_paid_on_top_of_it",),
    "B093": ("test_a_refund_found_before_its_order_is_known_waits_and_is_taken_off_when_the_order_comes",),
}

# What of a case waits for a later version, and why. A case may stand in both lists.
LEFT = {
    "B070": "another way to pay (store credit, bank transfer) and the customer's message are not sent yet",
    "B082": "an order has no status of its own in the console; its case says that nothing was taken",
    "B087": "queueing without a call is for providers that cannot refund an unsettled charge; this one takes it as pending",
}


def written() -> set[str]:
    """The tests by name."""
    trees = [ast.parse(file.read_text()) for file in Path(__file__).parents[1].rglob("test_*.py")]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_case_of_duplicates_and_of_states_is_answered_by_a_test_and_what_is_left_of_it_has_a_reason() -> None:
    cases = json.loads(shared_file("cases", "cases.json").read_text())
    known = {case["id"] for case in cases if case["kind"] in KINDS}
    assert known - ANSWERED.keys() == set()
    assert (ANSWERED.keys() | LEFT.keys()) - known == set()


def test_the_tests_that_answer_the_cases_exist() -> None:
    assert {name for names in ANSWERED.values() for name in names} - written() == set()
    assert all(ANSWERED.values())
    assert all(len(reason) > 30 for reason in LEFT.values())
