"""“I was charged twice” through a channel: the text opens a case, and nothing of what is found goes to who is not proven."""

from typing import Any

import pytest
from werkzeug.test import TestResponse

from ledger.charge_facts import ShownCharge
from ledger.charge_readings import record_reading, take_readings
from ledger.database import transaction
from tests.api.conftest import Caller, fact
from tests.lives import count
from tests.stack import Stack
from tests.world import World


def say(chat: Caller, reference: str = "chat-1", **more: Any) -> TestResponse:
    talk = {"reference": reference, "text": "I was charged twice for order A-20417"} | more.pop("talk", {})
    return chat.post("/duplicate-charges", {"order": "A-20417", "conversation": talk, **more})


def test_ilse_says_so_in_the_chat_and_a_case_is_opened_that_the_worker_reads(
    chat: Caller, stack: Stack, world: World
) -> None:
    answer = say(chat, customer="C-1001")
    assert (answer.status_code, fact(answer)["result"]) == (201, "opened")
    waiting = "SELECT count(*) FROM charge_readings WHERE merchant_id = :m AND done_at IS NULL"
    assert count(stack.console, world, waiting) == 1
    standing = fact(chat.get(f"/returns/{fact(answer)['case']}"))
    assert (standing["stage"], standing["lines"], standing["refunds"]) == ("reading", [], [])
    assert standing["to_customer"].startswith("We are looking at the charges of your order")

    again = say(chat, "voice-1")
    assert (again.status_code, fact(again)) == (200, {**fact(answer), "result": "joined"})
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == 1


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ({"order": "A-1"}, 404, "not-found"),
        ({"customer": "C-9999"}, 404, "not-found"),
        ({"amount_minor": 5840}, 422, "bad-input"),
        ({"talk": {"reference": ""}}, 422, "bad-input"),
    ],
)
def test_what_cannot_be_taken_is_refused_and_nothing_is_stored(
    chat: Caller, stack: Stack, world: World, wrong: dict[str, Any], status: int, code: str
) -> None:
    answer = say(chat, **wrong)
    assert (answer.status_code, fact(answer)["code"]) == (status, code)
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == 0


@pytest.mark.parametrize("customer", ["C-1001", None])
def test_only_a_proven_customer_is_told_what_was_found(
    chat: Caller, stack: Stack, world: World, customer: str | None
) -> None:
    number = fact(say(chat, **({"customer": customer} if customer else {})))["case"]
    total = world.order.total_minor
    with transaction(stack.worker, world.merchant_id) as db:
        (reading,) = take_readings(db, world.merchant_id, 5)
        shown = ShownCharge("ch_A-20417_card", "pi_A-20417_card", "", "GBP", total, 0, "2026-10-12T09:30:00Z")
        assert record_reading(db, world.merchant_id, reading, [shown], ()) == "none"

    told = fact(chat.get(f"/returns/{number}"))["to_customer"]
    assert told == (
        "You were charged once for this order."
        if customer
        else "We have looked at the charges of your order. No charge is paid back for it."
    )
