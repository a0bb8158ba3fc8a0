"""What a channel reads out is what the desk would say: the same words in every state, and none is called paid too early."""

from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from flask import Flask, get_template_attribute

from console.api.answers import CASE_SENTENCES, REFUND_SENTENCES, STAGE_WORDS, refund_sentence, standing, to_customer
from ledger.queries.returns import ReturnStanding
from ledger.states import STAGE, TRANSITIONS
from tests.stack import Stack

STATES = sorted({state for reached in TRANSITIONS.values() for state in reached} - {"withdrawn"})
AT = datetime(2026, 11, 30, 9, tzinfo=UTC)


def refund(state: str, **changes: Any) -> dict[str, Any]:
    usual = {"number": 1001, "amount_minor": 9440, "currency": "EUR", "state": state, "state_at": AT, "destination_kind": "card",
             "destination_last4": "4242", "provider_refund_ref": None, "provider_reference": ""}  # fmt: skip
    return {**usual, **changes}


def case(stage: str, *refunds: dict[str, Any]) -> ReturnStanding:
    return ReturnStanding(20001, stage, "A-1", "size", AT, None, 1, (("TEE", 1),), refunds, True)


@pytest.mark.parametrize("state", STATES)
def test_the_desk_and_the_channel_say_the_same(app: Flask, state: str) -> None:
    decision = {"state": state, "amount_minor": 9440, "currency": "EUR", "destination": {"kind": "card", "last4": "4242"},
                "sent_at": None, "answer_by": ""}  # fmt: skip
    with app.test_request_context():
        on_the_page = unescape(str(get_template_attribute("macros/sentences.html", "to_customer")(decision))).strip()
    assert refund_sentence(refund(state)) == on_the_page


def test_every_stage_and_state_has_its_words(stack: Stack) -> None:
    with stack.admin() as admin:
        (rule,) = admin.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'cases_stage_check'"
        ).fetchone() or ("",)
    assert {stage for stage in STAGE_WORDS if f"'{stage}'" in rule} == set(STAGE_WORDS)
    assert rule.count("::text,") + 1 == len(STAGE_WORDS)
    assert set(REFUND_SENTENCES) == set(STATES)
    assert set(STAGE.values()) <= set(STAGE_WORDS)


@pytest.mark.parametrize("state", sorted(set(STATES) - {"succeeded"}))
def test_only_what_the_provider_confirmed_is_paid(state: str) -> None:
    told = standing(case(STAGE[state], refund(state)))
    assert told["paid"] == []
    assert "4242 is paid" not in told["to_customer"]
    assert told["stage_words"] != "Paid"


def test_one_return_paid_from_two_cards_says_both() -> None:
    both = case("paid", refund("succeeded"), refund("succeeded", amount_minor=100, destination_last4="1881"))
    assert to_customer(both).count("is paid") == 2
    assert standing(both)["paid"] == [{"amount_minor": 9540, "currency": "EUR"}]


def test_before_there_is_a_refund_the_return_itself_is_spoken_of() -> None:
    assert to_customer(case("waiting_goods")) == CASE_SENTENCES["waiting_goods"]
    assert to_customer(case("rejected")) == CASE_SENTENCES["rejected"]
    assert to_customer(case("ready")) == CASE_SENTENCES["needs_person"]
    yen = refund("approved", amount_minor=1200, currency="JPY", destination_kind="wallet", destination_last4="")
    assert "1200 JPY to your wallet is approved" in refund_sentence(yen)
