"""One refund asked for is one refund paid, however its answer, its hooks, its worker and its key fare on the way."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from jobs import submitter
from ledger.errors import AlreadyDecided
from ledger.outbox import Claimed
from ledger.settlement import Outcome
from tests import lives
from tests.cases.desk import Desk
from tests.cases.sale import Books, Payment, Refund, Sale
from tests.refunds import worker_at


@pytest.mark.parametrize(("fault", "by_call", "by_hook"), [("", "confirmed", 0), ("lose_reply", "unknown", 1)])
def test_a_hook_that_overtakes_the_slow_answer_books_no_second_refund(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, fault: str, by_call: str, by_hook: int
) -> None:
    """The refund of 14.20 is told by hook and heard before its call has ended, well or without an answer."""
    desk.listen()
    sale = desk.sold(14_20, 35_40, currency="EUR")
    one = desk.approved(sale, ("L1", 1))
    if fault:
        desk.sandbox.fault(fault, charge=one.charge_ref, method="POST")
    heard, sent = answer_late(desk, monkeypatch), []
    call = threading.Thread(target=lambda: sent.append(desk.send()))
    call.start()
    wait_for_refund(desk, one.payment_intent_ref)
    assert desk.told()["refund.created"] == 1
    assert desk.hear() == {"hints": 2, "reads": 1}
    assert desk.state(one) == "submitting"
    heard.set()
    call.join()
    assert sent == [{"claimed": 1, by_call: 1}]
    (there,) = desk.refunds_there(sale)
    desk.retell("refund.created", there["id"])
    desk.tell({**desk.events("refund.created")[0], "id": "evt_again"})
    assert desk.hear()["moved"] == by_hook
    assert desk.refund_ref(one) == there["id"]
    assert len(desk.calls()) == 1
    desk.ends(sale, refunds=1, refunded=14_20, left=49_60 - 14_20)


def answer_late(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What the provider answers to a create reaches the submitter only after the event that is returned."""
    released, call = threading.Event(), desk.worker.gateway.refund

    def late(request: Mapping[str, Any], key: str, attempt_no: int = 1) -> Outcome:
        answer = call(request, key, attempt_no)
        released.wait(20)
        return answer

    monkeypatch.setattr(desk.worker.gateway, "refund", late)
    return released


def wait_for_refund(desk: Desk, payment_intent: str) -> None:
    ends = time.monotonic() + 10
    while not desk.sandbox.money(payment_intent)["refunds"]:
        assert time.monotonic() < ends, "the provider made no refund"
        time.sleep(0.01)


def test_an_older_refund_told_again_is_not_booked_again_and_its_late_failure_is_not_lost(desk: Desk) -> None:
    """Refunds of 12.00 and 27.00 out of 90.00; the first is redelivered after the second, then the bank returns it."""
    desk.listen()
    sale = desk.sold(12_00, 27_00, 51_00, currency="USD")
    older = desk.paid_back(sale, ("L1", 1))
    newer = desk.paid_back(sale, ("L2", 1), relation="separate")
    desk.told()
    desk.hear()
    desk.retell("refund.created", desk.refund_ref(older))
    desk.tell({**desk.events("refund.created")[-1], "id": "evt_the_same_fact"})
    assert desk.hear() == {"hints": 1, "reads": 1}
    desk.ends(sale, refunds=2, refunded=12_00 + 27_00, left=90_00 - 39_00)
    desk.sandbox.change_refund(desk.refund_ref(older), "failed", "lost_or_stolen_card")
    desk.told()
    assert desk.hear()["moved"] == 1
    assert desk.reason(older) == "lost_or_stolen_card"
    desk.tell({**desk.events("refund.created")[-1], "id": "evt_of_the_time_before"})
    assert desk.hear() == {"hints": 1, "reads": 1}
    assert (desk.state(older), desk.state(newer)) == ("reversed", "succeeded")
    desk.ends(sale, refunds=1, refunded=27_00, left=90_00 - 27_00)


def test_a_refund_taken_up_twice_inside_the_server_is_called_for_once(desk: Desk) -> None:
    """Four refunds of 5.00; two workers at once, then both once more."""
    sales = [desk.sold((5_00, 2), 22_50, currency="EUR") for _ in range(4)]
    ones = [desk.approved(sale, ("L1", 1)) for sale in sales]
    with worker_at(desk.stack, desk.sandbox, desk.world) as other:
        raced = lives.race(lambda: submitter.run_once(desk.worker), lambda: submitter.run_once(other))
        again = [submitter.run_once(desk.worker), submitter.run_once(other)]
    assert (raced.refusals, again) == ([], [{}, {}])
    assert sum(counts["confirmed"] for counts in raced.results) == 4
    keys = [call["idempotency_key"] for call in desk.calls()]
    assert sorted(keys) == sorted(one.provider_key for one in ones)
    for sale in sales:
        desk.ends(sale, refunds=1, refunded=5_00, left=32_50 - 5_00)


def test_the_same_call_made_twice_under_its_key_is_one_refund(desk: Desk) -> None:
    sale = desk.sold(5_00, 27_50, currency="EUR")
    desk.approved(sale, ("L1", 1))
    (claimed,) = lives.claim(desk.stack, desk.world)
    answers = [desk.worker.gateway.refund(claimed.request, claimed.key) for _ in range(2)]
    assert [lives.record(desk.stack, claimed, answer) for answer in answers] == [True, False]
    desk.ends(sale, refunds=1, refunded=5_00, left=32_50 - 5_00)


def left_by_a_dead_worker(desk: Desk, *, acted: bool) -> tuple[Sale, Refund, Claimed]:
    """23.00 of 71.00, claimed by a worker that is gone; with `acted` the provider had paid it."""
    sale = desk.sold(23_00, 48_00, currency="EUR")
    one = desk.approved(sale, ("L1", 1))
    (claimed,) = lives.claim(desk.stack, desk.world)
    if acted:
        desk.worker.gateway.refund(claimed.request, claimed.key)
    return sale, one, claimed


def test_a_worker_that_comes_back_after_the_key_was_forgotten_lists_and_adopts(desk: Desk) -> None:
    sale, one, _ = left_by_a_dead_worker(desk, acted=True)
    desk.hours_pass(31)
    assert desk.look() == {"orphans": 1, "looks": 1, "found": 1}
    assert (desk.look(), desk.send(), len(desk.calls())) == ({}, {}, 1)
    assert desk.state(one) == "succeeded"
    desk.ends(sale, refunds=1, refunded=23_00, left=71_00 - 23_00)


def test_a_worker_that_comes_back_and_finds_nothing_after_the_key_was_forgotten_leaves_it_to_a_person(
    desk: Desk,
) -> None:
    sale, one, _ = left_by_a_dead_worker(desk, acted=False)
    desk.hours_pass(31)
    assert desk.look() == {"orphans": 1, "looks": 1, "absent": 1}
    assert (desk.look(), desk.send(), desk.calls()) == ({}, {}, [])
    assert desk.state(one) == "needs_review"
    assert desk.books(sale) == Books(left=71_00 - 23_00, reserved=23_00, refunded=0)
    assert desk.refunds_there(sale) == []


def test_control_the_provider_would_pay_a_blind_resend_after_the_key_was_forgotten(desk: Desk) -> None:
    sale, _, claimed = left_by_a_dead_worker(desk, acted=True)
    desk.hours_pass(31)
    desk.worker.gateway.refund(claimed.request, claimed.key)
    assert [refund["amount"] for refund in desk.refunds_there(sale)] == [23_00, 23_00]
    assert desk.sandbox.money(sale.payment.payment_intent)["refunded"] == 2 * 23_00


NO_ANSWER: list[tuple[str, dict[str, Any]]] = [
    ("lose_reply", {"reset": True}),
    ("lose_reply", {}),
    ("truncated_body", {}),
    ("garbage_200", {}),
    ("error_500_after", {}),
    ("delay_after", {"ms": 1400}),
]


def test_a_refund_made_and_not_answered_stays_reserved_is_not_asked_for_again_and_is_found(desk: Desk) -> None:
    """899.00 of 1849.00, once for each way an answer can get lost after the provider acted."""
    desk.grow_impatient()
    sales = [desk.sold(899_00, 950_00, currency="INR") for _ in NO_ANSWER]
    ones = [desk.approved(sale, ("L1", 1)) for sale in sales]
    for one, (fault, options) in zip(ones, NO_ANSWER, strict=True):
        desk.sandbox.fault(fault, charge=one.charge_ref, method="POST", **options)
    assert desk.send() == {"claimed": 6, "unknown": 6}
    for sale, one in zip(sales, ones, strict=True):
        assert desk.state(one) == "unknown"
        assert desk.books(sale).reserved == 899_00
        assert desk.books(sale).left == 1849_00 - 899_00
        assert desk.work_out_again(one.case_id) == []
        with pytest.raises(AlreadyDecided):
            desk.approve(one, by=desk.world.jonas)
    assert desk.send() == {}
    assert desk.look() == {"looks": 6, "found": 6}
    assert len(desk.calls()) == 6
    for sale in sales:
        desk.ends(sale, refunds=1, refunded=899_00, left=1849_00 - 899_00)


def test_a_look_and_a_hook_that_find_the_same_refund_at_once_settle_it_once(desk: Desk) -> None:
    """Three refunds of 8.00 whose answers were lost; the reconciler and the inbox are released together."""
    desk.listen()
    sales = [desk.sold(8_00, 4_00) for _ in range(3)]
    ones = [desk.approved(sale, ("L1", 1)) for sale in sales]
    desk.sandbox.fault("lose_reply", count=3, method="POST")
    assert desk.send() == {"claimed": 3, "unknown": 3}
    desk.told()
    raced = lives.race(desk.hear, desk.look)
    assert (raced.refusals, [desk.state(one) for one in ones]) == ([], ["succeeded"] * 3)
    for sale in sales:
        desk.ends(sale, refunds=1, refunded=8_00, left=12_00 - 8_00)


@pytest.mark.parametrize("fault", ["lose_before", "error_500_before"])
def test_a_refund_neither_made_nor_answered_stays_reserved_as_well(desk: Desk, fault: str) -> None:
    sale = desk.sold(899_00, 950_00, currency="INR")
    one = desk.approved(sale, ("L1", 1))
    desk.sandbox.fault(fault, charge=one.charge_ref, method="POST")
    assert desk.send() == {"claimed": 1, "unknown": 1}
    assert (desk.look(), desk.state(one)) == ({"looks": 1, "absent": 1}, "unknown")
    assert (desk.books(sale).reserved, desk.refunds_there(sale)) == (899_00, [])
    assert desk.work_out_again(one.case_id) == []


def test_the_key_of_a_refund_is_its_own_and_never_the_one_the_payment_was_made_under(desk: Desk) -> None:
    """A shop that keys its charge by the order's reference; the refund of all 31.00 is not refused for it."""
    paid = desk.at_provider(
        "payment_intents", key="S-1", amount=31_00, currency="eur", confirm="true", payment_method="pm_card_visa",
        **{"payment_method_types[]": "card"},
    )  # fmt: skip
    sale = desk.sold((15_50, 2), currency="EUR", payments=[Payment(paid["id"], paid["latest_charge"], 31_00)])
    ones = [desk.approved(sale, ("L1", 1), relation=relation) for relation in (None, "separate")]
    assert desk.send() == {"claimed": 2, "confirmed": 2}
    keys = {call["idempotency_key"] for call in desk.calls("POST", "/v1/")}
    assert keys == {"S-1", *(one.provider_key for one in ones)}
    assert len(keys) == 3
    desk.ends(sale, refunds=2, refunded=2 * 15_50, left=0)
