"""DESIGN §2: the same request joins, what is gone is refused with its reason, what is unclear is asked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask

from ledger.database import run, transaction
from tests.api.conftest import Caller, add_token, fact, wish
from tests.api.paying import case_id, paid
from tests.lives import count
from tests.stack import Stack
from tests.world import World


def test_ilse_asks_in_the_chat_and_a_case_is_opened(chat: Caller, stack: Stack, world: World) -> None:
    answer = chat.open(("TEE", 1))
    assert answer.status_code == 201
    assert fact(answer)["result"] == "opened"
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m AND channel = 'chat'") == 1
    opener = "SELECT count(*) FROM cases WHERE merchant_id = :m AND opened_by = :actor"
    assert count(stack.console, world, opener, actor=world.chat.actor) == 1


def test_the_same_units_asked_for_again_join_the_open_case(chat: Caller, stack: Stack, world: World) -> None:
    first = fact(chat.open(("LAMP", 1), reference="chat-7"))
    again = chat.open(("LAMP", 1), reference="voice-1")
    assert again.status_code == 200
    assert fact(again) == {**first, "result": "joined"}
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == 1
    assert count(stack.console, world, "SELECT count(*) FROM conversations WHERE merchant_id = :m") == 2


def test_the_same_conversation_that_asks_twice_is_the_same_request(chat: Caller, stack: Stack, world: World) -> None:
    first = fact(chat.open(("TEE", 1), reference="chat-7"))
    again = chat.open(("TEE", 1), reference="chat-7")
    assert (again.status_code, fact(again)["case"]) == (200, first["case"])
    assert count(stack.console, world, "SELECT count(*) FROM conversations WHERE merchant_id = :m") == 1


def test_another_conversation_about_a_line_with_units_left_has_to_ask_the_customer(
    chat: Caller, stack: Stack, world: World
) -> None:
    first = fact(chat.open(("TEE", 1), reference="chat-7"))
    asked = chat.open(("TEE", 1), reference="voice-1", customer="C-1001")
    told = fact(asked)
    assert (asked.status_code, told["code"]) == (409, "ask-customer")
    assert [older["case"] for older in told["cases"]] == [first["case"]]
    assert told["lines"][0]["left"] == 2
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == 1


def test_existing_joins_and_separate_opens_a_second_case(chat: Caller, stack: Stack, world: World) -> None:
    first = fact(chat.open(("TEE", 1), reference="chat-7"))
    existing = chat.open(("TEE", 1), reference="voice-1", relation="existing")
    assert (existing.status_code, fact(existing)["case"]) == (200, first["case"])
    separate = chat.open(("TEE", 1), reference="voice-2", relation="separate")
    assert (separate.status_code, fact(separate)["result"]) == (201, "opened")
    assert fact(separate)["case"] != first["case"]
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m AND separate") == 1


def test_a_refunded_line_is_refused_with_what_was_paid_when_where_and_under_which_reference(
    chat: Caller, stack: Stack, world: World
) -> None:
    first = fact(chat.open(("LAMP", 1)))
    paid(stack, world, first["case"], ("LAMP", 1))
    refused = chat.open(("LAMP", 1), reference="chat-8", customer="ILSE.harbour@example.org")
    told = fact(refused)
    assert (refused.status_code, told["code"]) == (409, "already-refunded")
    (refund,) = told["refunds"]
    assert refund["amount_minor"] == 5800
    assert refund["currency"] == "GBP"
    assert refund["channel"] == "chat"
    assert refund["desk"] == "returns desk"
    assert refund["case"] == first["case"]
    assert refund["reference"].startswith("re_")
    assert refund["paid_at"].endswith("Z")
    # The desk and the channel, never the person (S63).
    text = refused.get_data(as_text=True)
    assert world.priya.name not in text
    assert str(world.priya.staff_id) not in text


def proven(reference: str) -> dict[str, Any]:
    """Part of a body in which the channel itself says how it knew the customer."""
    return {"conversation": {"reference": reference, "customer_verified": "signed_in"}}


@pytest.mark.parametrize("customer", ["c-1001", "Ilse.Harbour@EXAMPLE.org"])
def test_the_customers_reference_or_email_proves_who_asks(
    chat: Caller, stack: Stack, world: World, customer: str
) -> None:
    opened = chat.open(("TEE", 1), customer=customer)
    assert opened.status_code == 201
    with stack.admin() as admin:
        assert admin.execute("SELECT customer_verified FROM conversations").fetchone() == ("order_and_customer",)


def test_another_customer_learns_of_an_order_what_a_stranger_learns_of_none(
    chat: Caller, stack: Stack, world: World
) -> None:
    absent = fact(chat.open(order="A-99999", customer="C-1001"))
    for wrong in ("C-1002", "omar.harbour@example.org", "ilse", "%", "C-1001x"):
        answer = chat.open(("TEE", 1), customer=wrong)
        assert (answer.status_code, fact(answer)) == (404, absent)
        stated = chat.post("/returns", wish(("TEE", 1), customer=wrong, **proven("talk-2")))
        assert (stated.status_code, fact(stated)) == (404, absent)
    unheard = chat.open(("SOCKS", 1), customer="C-1002")
    assert fact(unheard) == absent
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == 0


def test_a_customer_without_an_email_is_proven_by_the_reference_alone(chat: Caller, stack: Stack, world: World) -> None:
    with transaction(stack.owner, world.merchant_id) as db:
        run(db, "UPDATE customers SET email = NULL WHERE merchant_id = :m", m=world.merchant_id)
    for wrong in ("ilse.harbour@example.org", "\u00a0", "\u2003"):
        assert chat.open(("TEE", 1), customer=wrong).status_code == 404
    assert chat.open(("TEE", 1), customer="C-1001").status_code == 201


def test_guessing_the_customer_of_an_order_is_limited_like_guessing_orders(chat: Caller) -> None:
    statuses = [chat.open(("TEE", 1), customer=f"C-{number}").status_code for number in range(2000, 2031)]
    assert statuses == [404] * 30 + [429]


def test_without_proof_a_refusal_counts_units_and_tells_nothing_of_a_refund(
    chat: Caller, stack: Stack, world: World
) -> None:
    """Whoever guesses an order learns that it cannot be had twice, and no more (S63)."""
    lamp = fact(chat.open(("LAMP", 1)))["case"]
    paid(stack, world, lamp, ("LAMP", 1))
    tee = fact(chat.open(("TEE", 2), reference="chat-7"))["case"]
    asked = [("LAMP", 1, "already-refunded"), ("TEE", 1, "ask-customer"), ("TEE", 3, "more-than-left")]
    for line, quantity, code in asked:
        answer = chat.open((line, quantity), reference="guess")
        told, text = fact(answer), answer.get_data(as_text=True)
        assert (answer.status_code, told["code"]) == (409, code)
        assert "proven customer" in told["what_to_do"]
        assert set(told) == {"type", "title", "status", "detail", "code", "what_to_do", "lines"}
        assert set(told["lines"][0]) == {"line", "asked", "bought", "left", "in_open_cases", "refunded"}
        assert not any(known in text for known in ("5800", "58.00", "GBP", "re_", "4242", lamp, tee, "2026-", "R-"))
        denied: dict[str, Any] = {"conversation": {"reference": "denied", "customer_verified": "not_verified"}}
        assert set(fact(chat.post("/returns", wish((line, quantity), **denied)))) == set(told)
        full = fact(chat.post("/returns", wish((line, quantity), **proven("known"))))
        assert full["code"] == code
        assert full["lines"][0]["title"]
        assert "refunds" in full
    refunded = fact(chat.post("/returns", wish(("LAMP", 1), **proven("known"))))
    assert [refund["amount_minor"] for refund in refunded["refunds"]] == [5800]


def test_more_units_than_are_left_are_refused_with_how_many_there_are(chat: Caller) -> None:
    chat.open(("TEE", 2), reference="chat-7")
    refused = fact(chat.open(("TEE", 3), reference="voice-1"))
    assert refused["code"] == "more-than-left"
    assert refused["lines"][0]["left"] == 1
    never = fact(chat.open(("TEE", 9), reference="voice-1"))
    assert (never["code"], never["lines"][0]["bought"]) == ("more-than-left", 3)


def test_a_line_that_the_order_does_not_have_is_named(chat: Caller) -> None:
    refused = chat.open(("SOCKS", 1))
    assert refused.status_code == 422
    assert fact(refused)["errors"][0]["field"] == "lines"
    assert "SOCKS" in fact(refused)["errors"][0]["say"]


def test_the_chat_reads_how_its_own_return_stands_in_words_for_the_customer(
    chat: Caller, stack: Stack, world: World
) -> None:
    case = fact(chat.open(("LAMP", 1), customer="C-1001"))["case"]
    waiting = fact(chat.get(f"/returns/{case}"))
    assert waiting["stage_words"] == "Waiting for the goods"
    assert waiting["paid"] == []
    assert "paid" not in waiting["to_customer"]
    paid(stack, world, case, ("LAMP", 1))
    standing = fact(chat.get(f"/returns/{case}"))
    assert standing["stage_words"] == "Paid"
    assert standing["paid"] == [{"amount_minor": 5800, "currency": "GBP"}]
    assert standing["to_customer"] == (
        "Your refund of 58.00 GBP to your card ending 4242 is paid. Your bank may need some days to show it."
    )
    assert standing["refunds"][0]["reference"].startswith("re_")
    assert world.priya.name not in str(standing)


def test_joining_a_guessed_order_tells_no_more_about_it_until_the_customer_is_proven(
    chat: Caller, app: Flask, stack: Stack, world: World
) -> None:
    case = fact(chat.open(("LAMP", 1), customer="C-1001"))["case"]
    guesser = Caller(app, add_token(stack, world, "voice", ("cases:open", "cases:read")))
    assert fact(guesser.open(("LAMP", 1), reference="v-1"))["case"] == case
    paid(stack, world, case, ("LAMP", 1))
    told = guesser.get(f"/returns/{case}")
    assert set(fact(told)) == {
        "case", "order", "stage", "stage_words", "to_customer", "lines", "received", "opened_at", "withheld"
    }  # fmt: skip
    # The id of the case and its time may hold any digits by chance.
    words = str({name: value for name, value in fact(told).items() if name not in ("case", "opened_at")})
    assert not any(known in words for known in ("58", "GBP", "4242", "re_", "R-"))
    assert fact(told)["to_customer"].endswith("Which e-mail address did you order with?")
    assert fact(chat.get(f"/returns/{case}"))["paid"] == [{"amount_minor": 5800, "currency": "GBP"}]


def test_a_channel_that_proves_the_customer_later_reads_on(chat: Caller) -> None:
    case = fact(chat.open(("LAMP", 1), reference="chat-7"))["case"]
    assert "paid" not in fact(chat.get(f"/returns/{case}"))
    again = chat.open(("LAMP", 1), reference="chat-7b", customer="C-1001", relation="existing")
    assert fact(again)["case"] == case
    assert fact(chat.get(f"/returns/{case}"))["paid"] == []


def test_the_customer_is_not_told_paid_before_the_provider_says_so(chat: Caller, stack: Stack, world: World) -> None:
    from tests.api.paying import approved

    case = fact(chat.open(("LAMP", 1), customer="C-1001"))["case"]
    approved(stack, world, case, ("LAMP", 1))
    standing = fact(chat.get(f"/returns/{case}"))
    assert standing["stage_words"] == "Approved, not sent"
    assert standing["to_customer"].endswith("It is not paid yet; we write to you when it is.")
    assert standing["paid"] == []


def test_a_card_number_in_the_customers_text_is_masked_before_it_is_stored(
    chat: Caller, stack: Stack, world: World
) -> None:
    body = wish(("TEE", 1))
    body["conversation"]["text"] = "Refund it to ４２４２ 4242-4242 4242 please, order A-20417"
    assert chat.post("/returns", body).status_code == 201
    with stack.admin() as admin:
        (stored,) = admin.execute("SELECT customer_text FROM conversations").fetchone() or ("",)
    assert stored == "Refund it to [card number ending 4242] please, order A-20417"


def test_how_the_channel_knew_the_customer_is_kept(chat: Caller, stack: Stack) -> None:
    body = wish(("TEE", 1))
    body["conversation"]["customer_verified"] = "order_and_email"
    chat.post("/returns", body)
    with stack.admin() as admin:
        assert admin.execute("SELECT customer_verified FROM conversations").fetchone() == ("order_and_email",)


def test_the_warehouse_reports_and_received_is_the_ceiling(
    chat: Caller, warehouse: Caller, stack: Stack, world: World
) -> None:
    case = fact(chat.open(("TEE", 3)))["case"]
    report = {"case": case, "parcel": "JD014", "lines": [
        {"line": "TEE", "received": 2, "grades": [{"units": 2, "grade": "A", "note": "as new"}]}
    ]}  # fmt: skip
    answer = warehouse.post("/receipts", report)
    assert (answer.status_code, fact(answer)["stage"]) == (201, "ready")
    owed = "SELECT amount_minor FROM intents WHERE merchant_id = :m AND state = 'proposed'"
    assert count(stack.console, world, owed) == 4980  # two of three at 24.90


def test_the_warehouse_may_name_the_order_while_it_has_one_open_case(chat: Caller, warehouse: Caller) -> None:
    case = fact(chat.open(("TEE", 1)))["case"]
    line = [{"line": "TEE", "received": 1}]
    assert fact(warehouse.post("/receipts", {"order": "A-20417", "lines": line}))["case"] == case
    chat.open(("TEE", 1), reference="voice-1", relation="separate")
    assert warehouse.post("/receipts", {"order": "A-20417", "lines": line}).status_code == 202
    assert warehouse.post("/receipts", {"case": case, "order": "A-20417", "lines": line}).status_code == 422


def test_goods_that_name_no_one_open_return_are_put_aside_once_and_nothing_is_booked(
    chat: Caller, warehouse: Caller, stack: Stack, world: World
) -> None:
    chat.open(("TEE", 1))
    chat.open(("TEE", 1), reference="voice-1", relation="separate")
    line = [{"line": "TEE", "received": 1, "grades": [{"units": 1, "grade": "B", "note": "worn once"}]}]
    for named in ({}, {"order": "A-20417"}, {"order": "A-404"}, {"case": "C-404"}):
        first = warehouse.post("/receipts", {**named, "lines": line}, f"scan-{named}".replace(" ", ""))
        again = warehouse.post("/receipts", {**named, "lines": line}, f"scan-{named}".replace(" ", ""))
        assert (first.status_code, fact(first)["matched"]) == (202, False)
        assert fact(first) == fact(again)
    kept = "SELECT count(*) FROM unmatched_receipts WHERE merchant_id = :m AND lines->0->'grades'->0->>'note' = 'worn once'"
    assert count(stack.console, world, kept) == 4
    assert (
        count(stack.console, world, "SELECT count(*) FROM evidence WHERE merchant_id = :m AND kind = 'received'") == 0
    )


def test_a_report_repeated_with_its_key_counts_once(
    chat: Caller, warehouse: Caller, stack: Stack, world: World
) -> None:
    case = fact(chat.open(("TEE", 3)))["case"]
    report = {"case": case, "lines": [{"line": "TEE", "received": 2}]}
    first = warehouse.post("/receipts", report, "scan-1")
    again = warehouse.post("/receipts", report, "scan-1")
    assert fact(first) == fact(again)
    assert again.headers["Idempotent-Replayed"] == "true"
    received = "SELECT received FROM cases WHERE merchant_id = :m AND case_id = :c"
    assert count(stack.console, world, received, c=case_id(stack, world, case)) == 2


def test_goods_for_a_rejected_case_are_put_aside(chat: Caller, warehouse: Caller, stack: Stack, world: World) -> None:
    from ledger.cases import reject
    from ledger.database import transaction

    case = fact(chat.open(("TEE", 1)))["case"]
    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, case_id(stack, world, case), world.priya.actor, "outside_window")
    aside = warehouse.post("/receipts", {"case": case, "lines": [{"line": "TEE", "received": 1}]})
    assert aside.status_code == 202
    assert (
        count(
            stack.console, world, "SELECT count(*) FROM unmatched_receipts WHERE merchant_id = :m AND why = 'rejected'"
        )
        == 1
    )


def test_a_channel_says_when_the_customer_said_it(chat: Caller, stack: Stack, world: World) -> None:
    at = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    assert chat.open(("TEE", 1), statement_sent_at=at).status_code == 201
    kept = "SELECT count(*) FROM cases WHERE merchant_id = :m AND stated_at = CAST(:at AS timestamptz)"
    assert count(stack.console, world, kept, at=at) == 1


@pytest.mark.parametrize("at", ["yesterday", "2026-13-01T00:00:00Z", "2031-01-01T00:00:00", "2199-01-01T00:00:00Z"])
def test_a_time_that_is_none_or_to_come_is_refused_by_its_name(
    chat: Caller, stack: Stack, world: World, at: str
) -> None:
    answer = chat.open(("TEE", 1), statement_sent_at=at)
    assert answer.status_code == 422
    assert "statement_sent_at" in str(fact(answer))
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == 0
