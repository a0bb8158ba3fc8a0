"""External refunds and disputes: what finance sees and answers, and what a refused second attempt says of them (P18)."""

from typing import Any
from uuid import UUID

import pytest

from jobs.stripe_answers import Unreadable, read_dispute
from ledger.database import rows, transaction
from ledger.disputes import ProviderDispute, record_dispute
from ledger.external_refunds import record_external
from ledger.settlement import ProviderRefund
from tests import lives
from tests.web.desk import Desk
from tests.web.pages import Page

REFUND = "re_dashboard1"


def capture(desk: Desk) -> dict[str, Any]:
    return desk.rows("SELECT * FROM captures WHERE merchant_id = :m AND order_id = :o", o=desk.world.order.order_id)[0]


def refunded_outside(desk: Desk, minor: int, status: str = "succeeded") -> None:
    """What the worker records of a refund it found at the provider."""
    paid = capture(desk)
    refund = ProviderRefund(
        REFUND, status, minor, paid["currency"], paid["payment_intent_ref"], paid["charge_ref"], ""
    )  # fmt: skip
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        record_external(db, desk.world.merchant_id, paid["provider_account_id"], refund, "hook", lives.verifier())


def disputed(desk: Desk, status: str) -> None:
    paid = capture(desk)
    at = rows_now(desk)
    found = ProviderDispute(
        "dp_1", status, paid["captured_minor"], paid["currency"], paid["charge_ref"], paid["payment_intent_ref"],
        "product_not_received", at, at,
    )  # fmt: skip
    with transaction(desk.stack.worker, desk.world.merchant_id) as db:
        record_dispute(db, desk.world.merchant_id, paid["provider_account_id"], found, "hook")


def rows_now(desk: Desk) -> Any:
    with transaction(desk.stack.console, desk.world.merchant_id, read_only=True) as db:
        return rows(db, "SELECT now() + interval '9 days' AS at")[0]["at"]


def at_outside(desk: Desk, person: str, path: str = "", status: int = 200) -> Page:
    return desk.at(getattr(desk.world, person)).get(desk.url(f"/external-refunds/{path}"), status=status)


def number_of(desk: Desk, case_id: UUID) -> str:
    return str(desk.rows("SELECT number FROM cases WHERE merchant_id = :m AND case_id = :c", c=case_id)[0]["number"])


def test_finance_matches_a_dashboard_refund_once_and_the_same_unit_is_refused_in_words(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    refunded_outside(desk, intent["amount_minor"])
    case = desk.at(desk.world.priya).get(desk.case(intent["case_id"]))
    assert "24.90 GBP of this order was refunded outside Onceback." in case.text
    assert "Finance has to say what for." in case.text
    assert f"R-{intent['number']} withdrawn: money of the order was refunded outside" in case.text
    page = at_outside(desk, "farah", REFUND)
    form = page.form("/match")
    farah = desk.at(desk.world.farah)
    assert "Say how you know" in farah.submit(form, status=422, case=number_of(desk, intent["case_id"]), reason="").text
    told: dict[str, Any] = {"case": number_of(desk, intent["case_id"]), "reason": "Dashboard note of Monday"}
    farah.submit(form, **told)
    page = farah.submit(form, **told)
    assert desk.count("external_allocations") == 1
    assert "Dashboard note of Monday" in page.text
    assert "Every refund made outside is answered for." in at_outside(desk, "jonas").text
    assert desk.rows("SELECT stage, closed_at IS NULL AS open FROM cases WHERE merchant_id = :m") == [
        {"stage": "paid", "open": False}
    ]
    counter = desk.at(desk.world.tobias)
    form = counter.get(desk.url(f"/counter/orders/{desk.world.order.order_id}")).form("/counter/orders/")
    refused = counter.submit(form, status=409, quantity_1="3", reason="size")
    assert "Unit 1 was refunded on" in refused.text
    assert f"through the provider's dashboard, by somebody outside Onceback, reference {REFUND}" in refused.text


def test_it_is_marked_as_unrelated_with_a_reason_and_the_refunds_of_the_order_go_on(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    refunded_outside(desk, 500)
    page = at_outside(desk, "farah")
    assert "5.00 GBP" in page.text
    assert "Finance" in page.text
    assert [form.action for form in at_outside(desk, "jonas", REFUND).forms if form.method == "post"] == ["/sign-out"]
    form = at_outside(desk, "farah", REFUND).form("/unrelated")
    desk.at(desk.world.farah).submit(form, reason="Goodwill for the delay")
    desk.at(desk.world.farah).submit(form, reason="Goodwill for the delay")
    assert desk.count("external_allocations") == 1
    states = desk.rows("SELECT state, amount_minor, replaces FROM intents WHERE merchant_id = :m ORDER BY number")
    assert [(row["state"], row["amount_minor"], row["replaces"]) for row in states] == [
        ("withdrawn", 2490, None), ("proposed", 2490, intent["intent_id"])
    ]  # fmt: skip


def test_a_page_read_before_the_refund_was_found_approves_nothing(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    form = desk.confirm(desk.world.priya, intent["intent_id"])
    refunded_outside(desk, 500)
    page = desk.at(desk.world.priya).submit(form, status=409)
    assert "Your click changed nothing." in page.text
    assert desk.count("approvals") == 0


def test_the_desks_say_why_they_are_empty_and_readers_have_none(desk: Desk) -> None:
    assert "Every refund made outside is answered for." in at_outside(desk, "farah").text
    assert "No bank disputes a payment." in desk.at(desk.world.farah).get(desk.url("/disputes/")).text
    for person in ("rita", "priya", "ada"):
        at_outside(desk, person, status=403)


def test_a_question_of_the_bank_shows_what_it_holds_and_finance_lets_it_go(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    disputed(desk, "warning_needs_response")
    assert desk.state(intent["intent_id"]) == "held"
    page = desk.at(desk.world.jonas).get(desk.url("/disputes/"))
    assert "1 refund, 24.90 GBP" in page.text
    assert "product not received" in page.text
    farah = desk.at(desk.world.farah)
    form = farah.get(desk.url("/disputes/")).form("/ruling")
    assert "Say why" in farah.submit(form, status=422, reason="").text
    farah.submit(form, reason="The goods are back")
    page = farah.submit(form, reason="The goods are back")
    assert "Farah Osei let the refund go." in page.text
    assert (desk.count("dispute_rulings"), desk.state(intent["intent_id"])) == (1, "approved")


def test_a_formal_dispute_cannot_be_ruled_on_and_the_case_says_it(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    disputed(desk, "warning_needs_response")
    form = desk.at(desk.world.farah).get(desk.url("/disputes/")).form("/ruling")
    disputed(desk, "needs_response")
    page = desk.at(desk.world.farah).submit(form, status=409, reason="The goods are back")
    assert "Only an open question of the bank can be ruled on." in page.text
    assert (
        "The customer's bank disputes a payment of this order."
        in desk.at(desk.world.priya).get(desk.case(intent["case_id"])).text
    )
    assert desk.state(intent["intent_id"]) == "held"


@pytest.mark.parametrize(
    "change", [{"object": "refund"}, {"id": "x"}, {"amount": "1"}, {"status": None}, {"created": None}]
)
def test_a_dispute_without_what_makes_one_is_not_read(change: dict[str, Any]) -> None:
    whole = {
        "object": "dispute",
        "id": "dp_1",
        "amount": 500,
        "currency": "gbp",
        "status": "lost",
        "created": 1_796_000_000,
    }
    assert read_dispute(whole).amount_minor == 500
    with pytest.raises(Unreadable):
        read_dispute({**whole, **change})
