"""What a channel reads out is what the desk would say: the same words in every state, and none is called paid too early."""

from datetime import UTC, datetime
from typing import Any

import pytest

from console.api.answers import CASE_SENTENCES, STAGE_WORDS, standing, to_customer
from console.customer_words import SENTENCES, refund_sentence
from ledger.queries.returns import ReturnStanding
from ledger.states import STAGE, TRANSITIONS
from tests.stack import Stack

STATES = sorted({state for reached in TRANSITIONS.values() for state in reached} - {"withdrawn"})
AT = datetime(2026, 11, 30, 9, tzinfo=UTC)


def refund(state: str, **changes: Any) -> dict[str, Any]:
    usual = {"number": 1001, "amount_minor": 9440, "currency": "EUR", "act": "refund", "state": state,
             "state_reason": "", "state_at": AT, "destination_kind": "card",
             "destination_last4": "4242", "provider_refund_ref": None, "provider_reference": ""}  # fmt: skip
    return {**usual, **changes}


def case(stage: str, *refunds: dict[str, Any]) -> ReturnStanding:
    return ReturnStanding(20001, stage, "A-1", "size", AT, None, 1, (("TEE", 1),), refunds, True)


@pytest.mark.parametrize(
    ("act", "state", "reason", "begins", "never"),
    [
        (
            "cancel_payment",
            "proposed",
            "",
            "Your payment of 94.40 EUR was authorised and not taken. We are checking",
            "is paid",
        ),
        (
            "cancel_payment",
            "succeeded",
            "",
            "Nothing was taken of your payment of 94.40 EUR. It has been released",
            "is paid",
        ),
        (
            "cancel_payment",
            "failed",
            "captured_elsewhere",
            "Your payment of 94.40 EUR was taken after all",
            "not taken",
        ),
        ("cancel_payment", "withdrawn", "", "Your refund of 94.40 EUR was called back before it was sent", "is paid"),
        (
            "manual",
            "approved",
            "",
            "Your refund of 94.40 EUR to your card ending 4242 is approved. We are paying it",
            "sent",
        ),
        ("manual", "succeeded", "", "Your refund of 94.40 EUR to your card ending 4242 is paid.", "Your bank"),
        ("manual", "failed", "", "Your refund of 94.40 EUR to your card ending 4242 could not be paid", "provider"),
        ("manual", "needs_review", "", "We are checking whether your refund of 94.40 EUR", "was sent"),
        ("refund", "needs_review", "not_sendable", "We are checking your refund of 94.40 EUR", "was sent"),
        ("refund", "needs_review", "answer_differs", "Your refund of 94.40 EUR was sent", "is paid"),
    ],
)
def test_what_is_told_follows_what_it_does_and_why_it_is_so(
    act: str, state: str, reason: str, begins: str, never: str
) -> None:
    """Isa's payment was only authorised, Omar's gift card is paid back by hand, Ilse's reference could not be sent."""
    told = refund_sentence(refund(state, act=act, state_reason=reason))
    assert told.startswith(begins)
    assert never not in told


def test_a_payment_that_was_released_is_not_among_what_was_paid() -> None:
    released = case("paid", refund("succeeded", act="cancel_payment"), refund("succeeded", amount_minor=100))
    assert standing(released)["paid"] == [{"amount_minor": 100, "currency": "EUR"}]
    assert [one["act"] for one in standing(released)["refunds"]] == ["cancel_payment", "refund"]


def test_every_stage_and_state_has_its_words(stack: Stack) -> None:
    with stack.admin() as admin:
        (rule,) = admin.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'cases_stage_check'"
        ).fetchone() or ("",)
    assert set(rule[rule.index("{") + 1 : rule.index("}")].split(",")) == set(STAGE_WORDS)
    assert set(SENTENCES) == {*STATES, "withdrawn"}
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
    assert to_customer(case("exchanged")) == "Your return is exchanged for other goods. No money is paid back for it."
    assert to_customer(case("ready")) == CASE_SENTENCES["needs_person"]
    yen = refund("approved", amount_minor=1200, currency="JPY", destination_kind="wallet", destination_last4="")
    assert "1,200 JPY to your wallet is approved" in refund_sentence(yen)
