"""Payments that were authorised and not taken: let go whole, never refunded, and followed when they are captured elsewhere."""

import threading
from typing import Any

import pytest

from jobs import holds, submitter
from ledger.database import transaction
from ledger.errors import Stale
from ledger.outbox import claim_due
from sandbox.client import Running
from tests import lives
from tests.cases.desk import Desk
from tests.cases.sale import Books, Payment, Refund, Sale
from tests.refunds import alarms, as_administrator, make_due, worker_at
from tests.stack import Stack
from tests.world import World

DAY = 24 * 3600


def cancels(desk: Desk) -> list[dict[str, Any]]:
    """The calls that asked the provider to cancel a payment."""
    return [call for call in desk.calls("POST", "/v1/payment_intents/") if call["path"].endswith("/cancel")]


def all_back(desk: Desk, minor: int = 58_00) -> tuple[Sale, Refund]:
    """An order that is only authorised, all of it returned: the sale and its one proposal."""
    sale = desk.sold(minor, payments=[desk.held(minor)])
    return sale, desk.owed(sale, ("L1", 1))


def nothing_was_taken(desk: Desk, sale: Sale, minor: int) -> None:
    """Both sides: the payment is canceled, no refund was made or asked for, and our books hold nothing of it."""
    assert desk.payment_there(sale.payment) == {"status": "canceled", "captured": 0, "refunds": 0}
    assert (desk.holds(sale), desk.books(sale), desk.calls()) == ((0, 0, minor), Books(0, 0, 0), [])


def capture(desk: Desk, payment: Payment, **params: Any) -> None:
    assert "error" not in desk.at_provider(f"payment_intents/{payment.payment_intent}/capture", **params)


def test_all_of_an_uncaptured_payment_comes_back_by_canceling_it(desk: Desk) -> None:
    sale, one = all_back(desk)
    assert desk.acts(one.case_id) == [("cancel_payment", 58_00, "proposed")]
    assert (desk.holds(sale), desk.books(sale)) == ((58_00, 0, 0), Books(0, 0, 0))
    desk.approve(one)
    assert desk.holds(sale) == (0, 58_00, 0)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    assert (desk.state(one), desk.case(one.case_id)) == ("succeeded", ("paid", False))
    assert [call["idempotency_key"] for call in cancels(desk)] == [one.provider_key]
    nothing_was_taken(desk, sale, 58_00)
    assert as_administrator(desk.stack, "SELECT 1 FROM credit_entries") == []
    assert (desk.send(), desk.look()) == ({}, {})


def test_a_part_of_an_uncaptured_payment_is_a_persons_with_words_what_to_do(desk: Desk) -> None:
    held = desk.held(95_00)
    sale = desk.sold(22_00, 73_00, payments=[held])
    case = desk.returned(sale, ("L1", 1))
    assert (desk.refunds_of(case), desk.case(case)) == ([], ("needs_person", True))
    (record,) = as_administrator(
        desk.stack, "SELECT record FROM entitlements WHERE case_id = %s ORDER BY n DESC LIMIT 1", case
    )
    assert "only_authorised" in {rule["reason_code"] for rule in record["record"]["rules"]}
    assert (desk.holds(sale), cancels(desk), desk.calls()) == ((95_00, 0, 0), [], [])
    assert desk.payment_there(held)["status"] == "requires_capture"


def test_what_the_shop_then_captured_less_leaves_nothing_to_pay_back(desk: Desk) -> None:
    """The desk captures 73.00 of 95.00 in the shop, for the goods that are kept: the hook leads to a read, and 22.00 is let go."""
    desk.listen()
    held = desk.held(95_00)
    sale = desk.sold(22_00, 73_00, payments=[held])
    desk.returned(sale, ("L1", 1))
    capture(desk, held, amount_to_capture=73_00)
    desk.told()
    assert desk.hear()["moved"] > 0
    assert (desk.holds(sale), desk.books(sale)) == ((0, 0, 22_00), Books(73_00, 0, 0))


def test_a_payment_captured_elsewhere_before_the_approval_is_refunded_instead(desk: Desk) -> None:
    desk.listen()
    sale, one = all_back(desk)
    seen = lives.see(desk.stack, desk.world, one.intent_id)
    capture(desk, sale.payment)
    desk.told()
    assert desk.hear()["moved"] > 0
    assert desk.acts(one.case_id) == [("cancel_payment", 58_00, "withdrawn"), ("refund", 58_00, "proposed")]
    with pytest.raises(Stale):
        lives.approve_as(desk.stack, desk.world, desk.world.priya, one.intent_id, seen)
    _, refund = desk.refunds_of(one.case_id)
    desk.approve(refund)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=58_00, left=0)
    assert cancels(desk) == []


def test_a_payment_captured_between_approval_and_sending_is_not_canceled_and_is_refunded_after_a_new_approval(
    desk: Desk,
) -> None:
    sale, one = all_back(desk)
    desk.approve(one)
    capture(desk, sale.payment)
    assert desk.send() == {"claimed": 1, "refused": 1}
    assert (desk.state(one), desk.reason(one), cancels(desk)) == ("failed", "captured_elsewhere", [])
    assert desk.hear()["moved"] > 0
    assert desk.acts(one.case_id)[1:] == [("refund", 58_00, "proposed")]
    assert (desk.holds(sale), desk.books(sale)) == ((0, 0, 0), Books(58_00, 0, 0))
    (_, refund) = desk.refunds_of(one.case_id)
    (row,) = as_administrator(desk.stack, "SELECT replaces FROM intents WHERE intent_id = %s", refund.intent_id)
    assert row["replaces"] == one.intent_id
    desk.approve(refund)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    desk.ends(sale, refunds=1, refunded=58_00, left=0)


def test_a_capture_that_slips_between_our_read_and_our_cancel_is_refused_by_name(desk: Desk) -> None:
    """The cancel is on its way when the shop captures: the provider answers with the payment, and its state decides."""
    sale, one = all_back(desk)
    desk.approve(one)
    path = f"/v1/payment_intents/{sale.payment.payment_intent}/cancel"
    desk.sandbox.fault("delay_before", path=path, method="POST", ms=600)
    sending = threading.Thread(target=desk.send)
    sending.start()
    while not cancels_under_way(desk):
        pass
    capture(desk, sale.payment)
    sending.join()
    assert (desk.state(one), desk.reason(one)) == ("failed", "captured_elsewhere")
    desk.hear()
    assert desk.acts(one.case_id)[1:] == [("refund", 58_00, "proposed")]
    assert desk.payment_there(sale.payment) == {"status": "succeeded", "captured": 58_00, "refunds": 0}


def cancels_under_way(desk: Desk) -> bool:
    """Whether our read of the payment is over, so that the cancel comes next."""
    return bool(desk.calls("GET", "/v1/payment_intents/"))


@pytest.mark.parametrize("made", [True, False], ids=["made there", "not made there"])
def test_a_cancel_without_an_answer_is_looked_up_by_its_payment_and_never_sent_blindly(desk: Desk, made: bool) -> None:
    sale, one = all_back(desk)
    desk.approve(one)
    desk.sandbox.fault("lose_reply" if made else "lose_before", path="/v1/payment_intents/", method="POST")
    assert desk.send() == {"claimed": 1, "unknown": 1}
    assert (desk.state(one), desk.holds(sale)) == ("unknown", (0, 58_00, 0))
    before = len(cancels(desk))
    as_administrator(desk.stack, "UPDATE attempt_results SET at = at - interval '2 minutes'")
    counts = desk.look()
    assert counts["found" if made else "resent"] == 1
    assert desk.state(one) == "succeeded"
    assert len(cancels(desk)) == before + (0 if made else 1)
    assert {call["idempotency_key"] for call in cancels(desk)} <= {one.provider_key}
    nothing_was_taken(desk, sale, 58_00)


def test_an_unknown_cancel_whose_payment_was_captured_meanwhile_fails_and_becomes_a_refund(desk: Desk) -> None:
    sale, one = all_back(desk)
    desk.approve(one)
    desk.sandbox.fault("lose_before", path="/v1/payment_intents/", method="POST")
    assert desk.send() == {"claimed": 1, "unknown": 1}
    capture(desk, sale.payment)
    assert desk.look()["found"] == 1
    assert (desk.state(one), desk.reason(one)) == ("failed", "captured_elsewhere")
    desk.hear()
    assert desk.acts(one.case_id)[1:] == [("refund", 58_00, "proposed")]
    assert desk.books(sale) == Books(58_00, 0, 0)


def test_two_workers_cancel_one_payment_once(desk: Desk, stack: Stack, sandbox: Running, world: World) -> None:
    sale, one = all_back(desk)
    desk.approve(one)
    with worker_at(stack, sandbox, world) as other:
        raced = lives.race(desk.send, lambda: submitter.run_once(other))
    assert raced.refusals == []
    assert sorted(counts.get("confirmed", 0) for counts in raced.results) == [0, 1]
    assert len(cancels(desk)) == 1
    nothing_was_taken(desk, sale, 58_00)


def test_a_payment_that_was_let_go_already_is_settled_without_a_call(desk: Desk) -> None:
    sale, one = all_back(desk)
    desk.approve(one)
    desk.at_provider(f"payment_intents/{sale.payment.payment_intent}/cancel")
    desk.sandbox.clear_requests()
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    assert cancels(desk) == []
    nothing_was_taken(desk, sale, 58_00)


def test_an_authorisation_that_lapsed_tells_its_case_that_nothing_was_taken(desk: Desk) -> None:
    desk.listen()
    sale, one = all_back(desk)
    desk.sandbox.advance(8 * DAY)
    assert desk.told()["payment_intent.canceled"] == 1
    assert desk.hear()["moved"] > 0
    assert (desk.state(one), desk.reason(one)) == ("withdrawn", "payment_released")
    assert desk.case(one.case_id) == ("needs_person", True)
    kinds = as_administrator(
        desk.stack, "SELECT kind FROM events WHERE case_id = %s AND kind LIKE 'capture.%%'", one.case_id
    )
    assert [row["kind"] for row in kinds] == ["capture.not_taken"]
    nothing_was_taken(desk, sale, 58_00)
    assert alarms(desk.stack) == set()
    assert as_administrator(desk.stack, "SELECT 1 FROM external_refunds") == []


def test_a_lapse_that_no_hook_tells_of_is_found_by_the_worker(desk: Desk) -> None:
    sale, one = all_back(desk)
    desk.sandbox.advance(8 * DAY)
    assert holds.run_once(desk.worker) == {"held_reads": 1, "capture_facts": 1}
    assert desk.state(one) == "withdrawn"
    assert holds.run_once(desk.worker) == {}
    nothing_was_taken(desk, sale, 58_00)


def test_an_approved_cancel_of_a_lapsed_payment_is_done(desk: Desk) -> None:
    sale, one = all_back(desk)
    desk.approve(one)
    desk.sandbox.advance(8 * DAY)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    nothing_was_taken(desk, sale, 58_00)


def test_of_a_payment_captured_in_parts_what_was_taken_so_far_may_go_back_while_more_may_come(desk: Desk) -> None:
    """100.00 held; 60.00 taken and not the last. 40.00 of it goes back; then the last 40.00 is taken as well."""
    desk.listen()
    held = desk.held(100_00)
    sale = desk.sold(40_00, 60_00, payments=[held])
    capture(desk, held, amount_to_capture=60_00, final_capture="false")
    desk.told()
    assert desk.hear()["moved"] > 0
    assert (desk.holds(sale), desk.books(sale)) == ((40_00, 0, 0), Books(60_00, 0, 0))
    one = desk.approved(sale, ("L1", 1))
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    assert (desk.state(one), desk.books(sale)) == ("succeeded", Books(20_00, 0, 40_00))
    capture(desk, held, amount_to_capture=40_00)
    desk.told()
    assert desk.hear()["moved"] > 0
    assert (desk.holds(sale), desk.books(sale)) == ((0, 0, 0), Books(60_00, 0, 40_00))
    desk.ends(sale, refunds=1, refunded=40_00, left=60_00)


def test_of_a_return_that_reaches_into_what_is_not_taken_yet_only_the_taken_part_is_drawn(desk: Desk) -> None:
    held = desk.held(100_00)
    sale = desk.sold(100_00, payments=[held])
    capture(desk, held, amount_to_capture=60_00, final_capture="false")
    assert holds.run_once(desk.worker)["capture_facts"] == 1
    case = desk.returned(sale, ("L1", 1))
    assert desk.acts(case) == [("refund", 60_00, "proposed")]
    assert desk.refunds_of(case)[0].route == "manager"


def test_a_re_import_after_the_capture_is_no_conflict_and_has_the_payment_read(desk: Desk) -> None:
    held = desk.held(58_00)
    sale = desk.sold(58_00, payments=[held])
    as_administrator(desk.stack, "UPDATE captures SET next_read_at = now() + interval '1 day'")
    capture(desk, held)
    assert desk.import_again(sale, [Payment(held.payment_intent, held.charge, 58_00)]) == "unchanged"
    assert desk.books(sale) == Books(0, 0, 0)
    assert holds.run_once(desk.worker) == {"held_reads": 1, "capture_facts": 1}
    assert desk.books(sale) == Books(58_00, 0, 0)


def test_a_payment_the_shop_called_captured_and_that_is_only_held_is_found_by_the_refusal(desk: Desk) -> None:
    """The refund is refused, the payment read: it is held, so the whole of it is let go by a cancel instead."""
    told = desk.authorised(58_00)
    sale = desk.sold(58_00, payments=[told])
    one = desk.approved(sale, ("L1", 1))
    assert desk.send() == {"claimed": 1, "refused": 1}
    assert desk.hear()["moved"] > 0
    assert desk.acts(one.case_id) == [("refund", 58_00, "failed"), ("cancel_payment", 58_00, "proposed")]
    assert (desk.holds(sale), desk.books(sale)) == ((58_00, 0, 0), Books(0, 0, 0))
    _, cancel = desk.refunds_of(one.case_id)
    desk.approve(cancel)
    assert desk.send() == {"claimed": 1, "confirmed": 1}
    assert desk.payment_there(told) == {"status": "canceled", "captured": 0, "refunds": 0}


def test_a_payment_of_another_amount_than_was_approved_is_not_canceled_and_is_a_persons(desk: Desk) -> None:
    sale, one = all_back(desk)
    desk.approve(one)
    other = desk.authorised(70_00)
    changes = other.payment_intent, other.charge, sale.order_id
    as_administrator(
        desk.stack, "UPDATE captures SET payment_intent_ref = %s, charge_ref = %s WHERE order_id = %s", *changes
    )
    as_administrator(
        desk.stack, "UPDATE intents SET payment_intent_ref = %s, charge_ref = %s WHERE order_id = %s", *changes
    )
    assert desk.send() == {}
    assert (cancels(desk), desk.payment_there(other)["status"]) == ([], "requires_capture")
    assert alarms(desk.stack) == {"not_sent_fingerprint"}
    assert desk.payment_there(sale.payment)["status"] == "requires_capture"


def test_control_without_the_trigger_a_cancel_would_move_money_that_was_taken(desk: Desk) -> None:
    """A cancel moves only what is held. Without that guard its reservation could stand on captured money."""
    sale, one = all_back(desk)
    desk.approve(one)
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        (claimed,) = claim_due(db, desk.world.merchant_id, lives.WORKER, lives.verifier(), 5)
    assert claimed.request["act"] == "cancel_payment"
    (row,) = as_administrator(
        desk.stack, "SELECT from_balance, to_balance FROM transfers WHERE intent_id = %s", one.intent_id
    )
    assert (row["from_balance"], row["to_balance"]) == ("held", "releasing")
    make_due(desk.stack)
    assert desk.books(sale) == Books(0, 0, 0)
