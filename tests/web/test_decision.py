"""The receipt: what is true now in each state, the cancel window, and the sentence for the customer."""

import pytest

from ledger.cases import reject
from ledger.database import transaction
from ledger.settlement import Refused, Unknown
from tests import lives
from tests.database import rows as put
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import Desk, Opened
from tests.world import build_world


@pytest.fixture
def desk(shared_desk: Desk) -> Desk:
    return shared_desk


SENTENCES = {
    "proposed": "is being checked. It is not approved yet",
    "approved": "is approved and will be sent shortly. It is not paid yet",
    "held": "is approved. It is not sent yet",
    "submitting": "is being sent now. It is not paid yet",
    "unknown": "We are confirming it with the payment provider",
    "needs_review": "We are confirming it with the payment provider by hand",
    "pending": "was accepted by the payment provider. Your bank has not confirmed it yet",
    "succeeded": "is paid. Your bank may need some days",
    "failed": "was refused by the payment provider. Nothing was paid",
    "reversed": "did not reach you and came back to us. You do not have the money",
    "withdrawn": "was called back before it was sent. Nothing was paid",
}


@pytest.mark.parametrize("state", SENTENCES)
def test_each_state_has_its_page_and_its_sentence(desk: Desk, state: str) -> None:
    with transaction(desk.stack.owner, desk.world.merchant_id) as db:
        intent = put.bring(db, desk.world, state)
    page = desk.at(desk.world.priya).get(desk.refund(intent.intent_id))
    assert SENTENCES[state] in page.text
    assert ("is paid. Your bank" in page.text) == (state == "succeeded")
    waits = state in ("approved", "held", "submitting", "unknown", "needs_review", "pending")
    assert ("data-poll" in page.html.partition('id="receipt"')[2].partition(">")[0]) == waits


def test_the_receipt_answers_as_a_part_too(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    priya = desk.at(desk.world.priya)
    priya.get(desk.refund(intent["intent_id"]))
    part = priya.part(desk.refund(intent["intent_id"]), **{"Onceback-Poll": "1"})
    assert part.status_code == 200
    assert "<html" not in part.text
    assert part.text.count("<h1") == 1


def test_tobias_calls_a_refund_back_before_it_is_sent(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"], window=300)
    tobias = desk.at(desk.world.tobias)
    form = tobias.get(desk.refund(intent["intent_id"])).form("/withdrawal")
    page = tobias.submit(form)
    assert "before it was sent. Nothing was paid; the case still holds its units." in page.text
    assert "free again" not in page.text
    assert "Tobias Renk" in page.text
    assert "Cancelled at" in tobias.submit(form).text
    assert desk.state(intent["intent_id"]) == "withdrawn"
    assert lives.claim(desk.stack, desk.world) == []
    assert desk.rows("SELECT reserved_minor FROM captures WHERE merchant_id = :m")[0]["reserved_minor"] == 0


def test_after_the_case_is_rejected_the_receipt_says_that_the_units_are_free(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    with transaction(desk.stack.console, desk.world.merchant_id) as db:
        reject(db, desk.world.merchant_id, intent["case_id"], desk.world.priya.actor, "not_our_item")
    page = desk.at(desk.world.priya).get(desk.refund(intent["intent_id"]))
    assert "the units are free again" in page.text
    assert "still holds" not in page.text


def test_mara_calls_back_a_refund_that_the_cap_holds(stack: Stack, open_browser: Opened) -> None:
    desk = Desk(stack, build_world(stack, "tight", cap_minor={"GBP": 1000}), open_browser)
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    assert desk.state(intent["intent_id"]) == "held"
    reader = desk.at(desk.world.rita).get(desk.refund(intent["intent_id"]))
    assert not [form for form in reader.forms if "withdrawal" in form.action]
    mara = desk.at(desk.world.mara)
    page = mara.get(desk.refund(intent["intent_id"]))
    assert "Approved, held by the daily cap." in page.text
    assert "While it is held you can call it back. Cancel before it is sent" in page.text
    page = mara.submit(page.form("/withdrawal"))
    assert "before it was sent. Nothing was paid; the case still holds its units." in page.text
    assert desk.state(intent["intent_id"]) == "withdrawn"
    assert desk.rows("SELECT reserved_minor FROM captures WHERE merchant_id = :m")[0]["reserved_minor"] == 0


def test_a_refund_that_has_left_cannot_be_called_back_and_the_page_says_so(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    tobias = desk.at(desk.world.tobias)
    form = tobias.get(desk.refund(intent["intent_id"])).form("/withdrawal")
    assert len(lives.claim(desk.stack, desk.world)) == 1
    page = tobias.submit(form)
    assert "Too late to cancel: it left at" in page.text
    assert "The answer will show here." in page.text
    assert not [form for form in page.forms if "withdrawal" in form.action]
    assert desk.state(intent["intent_id"]) == "submitting"


def test_an_address_cannot_make_the_page_say_what_the_rows_do_not(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    page = desk.at(desk.world.priya).get(f"{desk.refund(intent['intent_id'])}?already=1&result=cancelled")
    assert "already approved" not in page.text
    assert "Cancelled at" not in page.text


def test_a_reader_sees_the_receipt_without_a_button_and_initials_for_the_customer(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"], window=300)
    page = desk.at(desk.world.rita).get(desk.refund(intent["intent_id"]))
    assert "I. B." in page.text
    assert "Brandt" not in page.html
    assert not [form for form in page.forms if "withdrawal" in form.action]


def test_an_answer_that_is_not_known_says_do_not_repeat(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    (claimed,) = lives.claim(desk.stack, desk.world)
    lives.record(desk.stack, claimed, Unknown("timeout", "no answer"))
    page = desk.at(desk.world.priya).get(desk.refund(intent["intent_id"]))
    assert "answer not known. Do not repeat by hand." in page.text
    assert "could pay this customer twice" in page.text
    posts = [form.action.partition("?")[0] for form in page.forms if form.method == "post"]
    assert posts == ["/sign-out", desk.url("/queue/next")]


def test_what_was_held_past_its_approval_says_what_to_do_and_can_be_done(desk: Desk) -> None:
    """A business day of 25 hours holds one from its first hour longer than an approval is good for (S31)."""
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    as_administrator(
        desk.stack, "UPDATE approvals SET approved_at = approved_at - interval '25 hours', expires_at = now() - interval '1 hour'"
        " WHERE intent_id = %s", intent["intent_id"],
    )  # fmt: skip
    as_administrator(
        desk.stack,
        "UPDATE intents SET state = 'held', state_reason = 'expired' WHERE intent_id = %s",
        intent["intent_id"],
    )
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.refund(intent["intent_id"]))
    assert "Held: its approval ran out. An approval is good for 24 hours" in page.text
    assert "Call it back below, then choose “Work out again” on its case" in page.text
    priya.submit(page.form("/withdrawal"))
    case = desk.at(desk.world.tobias).get(desk.case(intent["case_id"]))
    desk.at(desk.world.tobias).submit(case.form("/entitlements"))
    assert [row["state"] for row in lives.intents(desk.stack, desk.world, intent["case_id"])] == [
        "withdrawn",
        "proposed",
    ]


def test_a_refusal_shows_the_providers_own_words(desk: Desk) -> None:
    intent = lives.propose(desk.stack, desk.world)
    lives.approve_as(desk.stack, desk.world, desk.world.priya, intent["intent_id"])
    (claimed,) = lives.claim(desk.stack, desk.world)
    lives.record(desk.stack, claimed, Refused("charge_disputed", "The charge is disputed", 400))
    page = desk.at(desk.world.priya).get(desk.refund(intent["intent_id"]))
    assert "The customer's bank has disputed this payment" in page.text
    assert "The provider's own words: “The charge is disputed”" in page.text
