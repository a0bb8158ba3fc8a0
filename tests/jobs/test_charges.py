"""Charged twice, against the local provider: which charge goes back, which look-alikes do not, and what stops it in time."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import requests
from sqlalchemy.exc import IntegrityError

from jobs import charges, outside, submitter
from jobs.worker import Worker
from ledger.cases import reject
from ledger.charge_cases import ask_again
from ledger.charge_readings import TRY_AGAIN_SECONDS
from ledger.database import run, transaction
from ledger.duplicate_charges import document, find, read_inputs
from ledger.entitlement_audit import prove
from ledger.entitlement_store import read_record
from ledger.errors import AlreadyRefunded, NotEnoughMoneyLeft, WrongState
from ledger.external_matching import mark_unrelated
from ledger.ids import uuid7
from sandbox.client import Running
from tests import lives
from tests.charges import charged, claim_twice, finding_of, found, payment_of, refunds_there
from tests.orders import Line, Order
from tests.policies import undecided
from tests.refunds import as_administrator, make_due, make_readings_due
from tests.stack import Stack, without
from tests.world import World

LINE_71, LINE_23 = Line("CHAIR", 1, 7100), Line("TICKET", 1, 2300)


def _said(row: Any) -> tuple[str, str]:
    return row["finding"], row["reason"]


def _only_authorised(sandbox: Running) -> tuple[str, str]:
    """A payment that is held and not taken: its charge and its reference."""
    made = requests.post(
        f"{sandbox.base_url}/v1/payment_intents", auth=(sandbox.secret_key, ""), timeout=10,
        data={"amount": 5840, "currency": "gbp", "confirm": "true", "capture_method": "manual", "payment_method": "pm_card_visa",
              "payment_method_types[]": "card"},
    ).json()  # fmt: skip
    return made["latest_charge"], made["id"]


def intent_of(stack: Stack, world: World, case_id: UUID) -> dict[str, object]:
    return dict(lives.intents(stack, world, case_id)[-1])


def finding(stack: Stack, world: World, case_id: UUID) -> tuple[str, str]:
    row = finding_of(stack, world, case_id)
    return row["finding"], row["reason"]


def test_58_40_charged_twice_pays_back_the_later_charge_and_never_a_second_one(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)

    row = found(stack, world, worker, order)

    assert (row["finding"], row["capture_id"]) == ("verified", order.captures["wallet"])
    assert (row["amount_minor"], row["stage"], row["case_minor"]) == (5840, "ready", 5840)
    # Anyone finds the same again from what is stored beside it.
    assert document(find(read_inputs(row["inputs"]))) == row["record"]
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        stored = read_record(db, world.merchant_id, row["case_id"])
    assert stored is not None
    assert prove(stored) == []
    changed = (stored.charges or "").replace("5840", "5841", 1)
    assert [one.name for one in prove(replace(stored, charges=changed))] == ["inputs_changed"]
    (intent,) = lives.intents(stack, world, row["case_id"])
    assert (intent["capture_id"], intent["route"], intent["units"]) == (order.captures["wallet"], "manager", [])
    lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    assert submitter.run_once(worker) == {"claimed": 1, "confirmed": 1}
    assert (submitter.run_once(worker), charges.run_once(worker)) == ({}, {})
    assert refunds_there(sandbox) == 1
    # To the books it is a payment too many, on no line of the sale and without tax.
    booked = as_administrator(stack, "SELECT rule, line_ref, gross_minor, tax_minor FROM credit_rows")
    assert [(one["rule"], one["gross_minor"], one["tax_minor"]) for one in booked] == [("duplicate.charge", 5840, 0)]
    with pytest.raises(AlreadyRefunded, match="one of the charges of this order was paid back") as refused:
        claim_twice(stack, world, order, reference="chat-2")
    assert [refund["amount_minor"] for refund in refused.value.facts["refunds"]] == [5840]


def test_a_second_word_about_the_same_order_lands_on_the_first_case(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    first = claim_twice(stack, world, order)

    assert claim_twice(stack, world, order, reference="voice-7", channel="voice") == (first[0], first[1], "joined")
    charges.run_once(worker)
    assert claim_twice(stack, world, order, reference="mail-9", channel="email") == (first[0], first[1], "joined")

    assert len(lives.intents(stack, world, first[0])) == 1


def second_case(stack: Stack, world: World, order: Order, capture: str) -> None:
    """A build that looks for no open case first: it writes a second one for the same charge."""
    case_id = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        run(
            db, "INSERT INTO cases (merchant_id, case_id, order_id, kind, reason, opened_by, channel, due_at, stage, currency)"
            " VALUES (:m, :c, :o, 'duplicate_charge', 'other', :by, 'chat', now(), 'reading', 'GBP')",
            m=world.merchant_id, c=case_id, o=order.order_id, by=world.chat.actor,
        )  # fmt: skip
        run(
            db, "INSERT INTO charge_claims (merchant_id, claim_id, case_id, order_id, capture_id) VALUES (:m, :id, :c, :o, :cap)",
            m=world.merchant_id, id=uuid7(), c=case_id, o=order.order_id, cap=order.captures[capture],
        )  # fmt: skip


def test_the_database_refuses_a_second_live_case_for_one_charge_and_takes_it_without_the_index(
    stack: Stack, world: World, sandbox: Running
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    claim_twice(stack, world, order)

    with pytest.raises(IntegrityError, match="one_live_duplicate_case_per_capture"):
        second_case(stack, world, order, "wallet")

    without(stack, "DROP INDEX one_live_duplicate_case_per_capture")
    second_case(stack, world, order, "wallet")


def test_two_who_open_it_at_once_open_it_once(stack: Stack, world: World, sandbox: Running) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    raced = lives.race(
        lambda: claim_twice(stack, world, order, reference="chat-1"),
        lambda: claim_twice(stack, world, order, reference="voice-1", channel="voice"),
    )

    assert sorted(status for _, _, status in raced.results) == ["joined", "opened"]
    assert len({case_id for case_id, _, _ in raced.results}) == 1


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("whole", ("none", "reversal")),
        ("part", ("investigate", "refund_on_no_case")),
        ("dispute", ("none", "with_the_bank")),
        ("question", ("investigate", "disputed")),
    ],
)
def test_what_others_did_at_the_provider_is_read_before_anything_is_found(
    stack: Stack, world: World, sandbox: Running, worker: Worker, what: str, expected: tuple[str, str]
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    payment = payment_of(stack, order, "wallet")
    if what in ("whole", "part"):
        sandbox.dashboard_refund(payment, None if what == "whole" else 2000)
    else:
        sandbox.open_dispute(payment, inquiry=what == "question")

    row = found(stack, world, worker, order)

    assert (row["finding"], row["reason"]) == expected
    assert row["stage"] == ("nothing_due" if expected[0] == "none" else "needs_person")
    assert lives.intents(stack, world, row["case_id"]) == []


def test_a_hold_beside_the_charge_and_a_charge_that_only_the_provider_ties_to_the_customer(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    held = charged(stack, world, sandbox, 5840, 77)
    as_administrator(
        stack, "UPDATE captures SET captured_minor = 0, available_minor = 0, held_minor = 5840, charge_ref = %s,"
        " payment_intent_ref = %s WHERE capture_id = %s",
        *_only_authorised(sandbox), held.captures["wallet"],
    )  # fmt: skip
    assert _said(found(stack, world, worker, held)) == ("none", "hold")

    alone = charged(stack, world, sandbox, 7100, lines=(LINE_71,))
    sandbox.create_payment(7100, "gbp", customer="cus_ilse")
    assert _said(found(stack, world, worker, alone)) == ("investigate", "charge_of_no_order")


def test_two_real_purchases_of_the_same_amount_are_two_purchases(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    order = charged(stack, world, sandbox, 5840, customer_id=world.ilse)
    charged(stack, world, sandbox, 5840, customer_id=world.ilse)

    assert _said(found(stack, world, worker, order)) == ("none", "two_purchases")


def test_a_read_that_fails_is_tried_again_and_at_last_a_person_is_told(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    sandbox.fault("error_503", path="/v1/charges", count=20)
    case_id, _, _ = claim_twice(stack, world, order)

    for _ in range(4):
        assert charges.run_once(worker)["no_answer"] == 1
        as_administrator(stack, "UPDATE charge_readings SET due_at = now()")
    assert charges.run_once(worker) == {"charges_investigate": 1}
    assert finding(stack, world, case_id) == ("investigate", "read_failed")

    sandbox.drop_faults()
    with transaction(stack.console, world.merchant_id) as db:
        ask_again(db, world.merchant_id, case_id, world.priya.actor)
    assert charges.run_once(worker) == {"charges_verified": 1}


def test_a_finding_that_the_books_do_not_take_holds_up_no_other_and_is_a_persons_at_last(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    taken, other = charged(stack, world, sandbox, 5840, 5840), charged(stack, world, sandbox, 5840, 5840)
    case_id, _, _ = claim_twice(stack, world, taken)
    # A case that another build opened holds the very charge that will be found to be one too many.
    as_administrator(stack, "UPDATE charge_claims SET live = false WHERE capture_id = %s", taken.captures["wallet"])
    second_case(stack, world, taken, "wallet")
    fine, _, _ = claim_twice(stack, world, other, reference="chat-2")

    assert charges.run_once(worker) == {"failed": 1, "charges_verified": 1}
    assert finding(stack, world, fine) == ("verified", "charged_twice")
    for _ in TRY_AGAIN_SECONDS:
        as_administrator(stack, "UPDATE charge_readings SET due_at = now() WHERE done_at IS NULL")
        charges.run_once(worker)
    assert finding(stack, world, case_id) == ("investigate", "read_failed")
    assert finding_of(stack, world, case_id)["stage"] == "needs_person"
    assert lives.intents(stack, world, case_id) == []


def test_charges_that_no_policy_decides_are_a_persons(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    case_id, _, _ = claim_twice(stack, world, order)
    as_administrator(stack, "UPDATE policies SET effective = tstzrange('2026-01-01', '2026-02-01')")

    assert charges.run_once(worker) == {"charges_no_policy": 1}
    assert undecided(stack, case_id) == ("needs_person", "ended")
    assert lives.intents(stack, world, case_id) == []


@pytest.mark.parametrize("what", ["refund", "dispute"])
@pytest.mark.parametrize("which", ["card", "wallet"])
def test_what_happens_to_either_charge_after_the_approval_calls_the_refund_back_and_it_is_read_again(
    stack: Stack, world: World, sandbox: Running, worker: Worker, what: str, which: str
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    row = found(stack, world, worker, order)
    intent = intent_of(stack, world, row["case_id"])
    lives.approve_as(stack, world, world.jonas, UUID(str(intent["intent_id"])))
    if what == "refund":
        sandbox.dashboard_refund(payment_of(stack, order, which), 2000)
    else:
        sandbox.open_dispute(payment_of(stack, order, which))
    make_readings_due(stack)
    outside.run_once(worker)

    assert intent_of(stack, world, row["case_id"])["state"] == "withdrawn"
    charges.run_once(worker)
    make_due(stack)
    assert submitter.run_once(worker) == {}
    expected = ("investigate", "refund_on_no_case") if what == "refund" else ("none", "with_the_bank")
    assert finding(stack, world, row["case_id"]) == expected
    assert refunds_there(sandbox) == (1 if what == "refund" else 0)


def test_a_dispute_on_the_other_charge_that_is_seen_only_right_before_the_call_stops_it(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    row = found(stack, world, worker, order)
    intent = intent_of(stack, world, row["case_id"])
    lives.approve_as(stack, world, world.jonas, UUID(str(intent["intent_id"])))
    sandbox.open_dispute(payment_of(stack, order, "card"))
    as_administrator(stack, "UPDATE account_readings SET read_at = NULL")

    submitter.run_once(worker)

    assert refunds_there(sandbox) == 0
    assert intent_of(stack, world, row["case_id"])["state"] == "withdrawn"


def line_case_and_duplicate(stack: Stack, world: World, sandbox: Running, worker: Worker) -> tuple[UUID, UUID, Order]:
    """The lamp comes back, and its refund is to go to the very charge that is then found to be one too many."""
    order = charged(stack, world, sandbox, 5840, 5840)
    line = lives.propose(stack, world, (("LAMP", 1),), order=order)
    as_administrator(
        stack,
        "UPDATE captures SET captured_at = captured_at + interval '1 hour' WHERE capture_id = %s",
        line["capture_id"],
    )
    row = found(stack, world, worker, order)
    assert (row["finding"], row["capture_id"]) == ("verified", line["capture_id"])
    return line["intent_id"], UUID(str(intent_of(stack, world, row["case_id"])["intent_id"])), order


def test_a_return_and_a_duplicate_approved_at_once_never_reserve_more_than_was_captured(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    line, twice, order = line_case_and_duplicate(stack, world, sandbox, worker)

    raced = lives.race(
        lambda: lives.approve_as(stack, world, world.priya, line),
        lambda: lives.approve_as(stack, world, world.jonas, twice),
    )

    assert [type(refusal) for refusal in raced.refusals] == [NotEnoughMoneyLeft]
    assert reserved(stack, order) == 5840


def test_without_the_check_on_balances_both_are_reserved(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    line, twice, order = line_case_and_duplicate(stack, world, sandbox, worker)
    without(stack, "ALTER TABLE captures DROP CONSTRAINT balances_not_negative")

    raced = lives.race(
        lambda: lives.approve_as(stack, world, world.priya, line),
        lambda: lives.approve_as(stack, world, world.jonas, twice),
    )

    assert (raced.refusals, reserved(stack, order)) == ([], 11680)


def reserved(stack: Stack, order: Order) -> int:
    """The most that is set aside on one of the order's charges."""
    (row,) = as_administrator(
        stack, "SELECT max(reserved_minor) AS minor FROM captures WHERE order_id = %s", order.order_id
    )
    return int(row["minor"])


def test_a_return_of_the_same_order_draws_on_the_charge_that_stays(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    row = found(stack, world, worker, order)
    line = lives.propose(stack, world, (("LAMP", 1),), order=order)

    assert line["capture_id"] == order.captures["card"] != row["capture_id"]
    for person, intent in ((world.jonas, intent_of(stack, world, row["case_id"])), (world.priya, line)):
        lives.approve_as(stack, world, person, UUID(str(intent["intent_id"])))
    for _ in range(2):
        submitter.run_once(worker)
    assert refunds_there(sandbox) == 2
    (sums,) = as_administrator(
        stack,
        "SELECT sum(refunded_minor) AS paid, sum(captured_minor) AS taken FROM captures WHERE order_id = %s",
        order.order_id,
    )
    assert (sums["paid"], sums["taken"]) == (11680, 11680)


def test_nobody_approves_what_is_being_read_again_and_a_closed_case_frees_its_charges(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    order = charged(stack, world, sandbox, 5840, 5840)
    row = found(stack, world, worker, order)
    intent = intent_of(stack, world, row["case_id"])
    seen = lives.see(stack, world, UUID(str(intent["intent_id"])))
    as_administrator(
        stack, "INSERT INTO charge_readings (merchant_id, reading_id, case_id, asked_by) VALUES (%s, %s, %s, 'system')",
        world.merchant_id, uuid7(), row["case_id"],
    )  # fmt: skip
    with pytest.raises(WrongState, match="being read again"):
        lives.approve_as(stack, world, world.jonas, UUID(str(intent["intent_id"])), seen)

    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, row["case_id"], world.jonas.actor, "no_duplicate_charge")
    assert charges.run_once(worker) == {}
    assert claim_twice(stack, world, order, reference="chat-3")[2] == "opened"


def test_a_refund_of_one_charge_that_finance_says_was_for_no_goods_is_the_end_of_it(
    stack: Stack, world: World, sandbox: Running, worker: Worker
) -> None:
    """B012: one of the two charges was refunded in the dashboard; the order stays paid by the other."""
    order = charged(stack, world, sandbox, 2300, 2300, lines=(LINE_23,))
    sandbox.dashboard_refund(payment_of(stack, order, "wallet"))
    row = found(stack, world, worker, order)
    assert (row["finding"], row["reason"]) == ("none", "reversal")

    (refund,) = as_administrator(stack, "SELECT refund_ref FROM external_refunds")
    with transaction(stack.console, world.merchant_id) as db:
        mark_unrelated(db, world.merchant_id, refund["refund_ref"], world.farah.actor, "The payment was made twice")
    charges.run_once(worker)

    again = finding_of(stack, world, row["case_id"])
    assert (again["n"], again["reason"], again["record"]["net_minor"], again["record"]["due_minor"]) == (
        2, "reversal", 2300, 2300,
    )  # fmt: skip
