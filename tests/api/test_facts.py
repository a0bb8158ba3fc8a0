"""Facts that systems state of a case, from the request to what is owed: each refused by its field where it cannot be."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from werkzeug.test import TestResponse

from ledger.database import rows, transaction
from tests import lives
from tests.allowances import record_of
from tests.api.conftest import Caller, add_token, fact
from tests.sales import lamps, sold
from tests.stack import Stack
from tests.web.desk import pay_due
from tests.world import World


@pytest.fixture
def opened(stack: Stack, world: World, chat: Caller) -> tuple[str, UUID]:
    """Ilse says in the chat that her lamps never arrived: the case's reference and id."""
    sold(stack, world, lamps(delivered_at=None))
    answer = asks(chat, "not_delivered")
    assert (answer.status_code, fact(answer)["result"]) == (201, "opened")
    return fact(answer)["case"], case_id(stack, world)


def asks(chat: Caller, reason: str) -> TestResponse:
    return chat.post("/returns", {
        "order": "SALE-1", "lines": [{"line": "LAMP", "quantity": 2}], "reason": reason, "customer": "ilse@example.org",
        "conversation": {"reference": "chat-8817"},
    })  # fmt: skip


def case_id(stack: Stack, world: World) -> UUID:
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        return UUID(
            str(rows(db, "SELECT case_id FROM cases WHERE merchant_id = :m", m=world.merchant_id)[0]["case_id"])
        )


def test_what_was_lost_is_paid_whole_once_the_shipping_system_says_so(
    stack: Stack, world: World, chat: Caller, warehouse: Caller, opened: tuple[str, UUID]
) -> None:
    case, of = opened
    assert "looking where your goods are" in fact(chat.get(f"/returns/{case}"))["to_customer"]
    said = {
        "case": case,
        "kind": "not_delivered",
        "line": "LAMP",
        "said": "lost",
        "happened_at": "2026-11-28T09:00:00Z",
    }
    answers = [warehouse.post("/facts", said, "f-1") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    record = record_of(stack, world, of)
    assert (record["kind"], record["outcome"], record["total"]) == ("cancellation", "payable", 11_090)
    (intent,) = lives.intents(stack, world, of)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    pay_due(stack, world)
    assert fact(chat.get(f"/returns/{case}"))["paid"] == [{"amount_minor": 11_090, "currency": "EUR"}]
    # An original that turns up afterwards, and is sent back, pays nothing.
    again = asks(chat, "changed_mind")
    assert (again.status_code, fact(again)["code"]) == (409, "already-refunded")


def test_a_repair_an_unused_insurance_and_who_asks_are_stated_by_systems(
    stack: Stack, world: World, chat: Caller, warehouse: Caller
) -> None:
    sold(stack, world)
    case = fact(asks(chat, "faulty"))["case"]
    of = case_id(stack, world)
    lives.arrive(stack, world, of, ("LAMP", 2))
    for said in (
        {"kind": "fee_use", "line": "COVER", "said": "unused"},
        {"kind": "collection", "said": "offered"},
        {"kind": "cure", "line": "LAMP", "said": "impossible", "note": "no parts"},
        {"kind": "claimant", "customer": "C-1001"},
    ):
        assert warehouse.post("/facts", {"case": case, **said}).status_code == 201
    record = record_of(stack, world, of)
    fees = [line["minor"] for line in record["lines"] if line["rule"].startswith("fees.")]
    assert (record["outcome"], fees) == ("payable", [600])


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"kind": "weather", "said": "lost"}, "kind"),
        ({"kind": "not_delivered", "line": "LAMP"}, "said"),
        ({"kind": "not_delivered", "line": "LAMP", "said": "used"}, "said"),
        ({"kind": "not_delivered", "said": "lost"}, "line"),
        ({"kind": "not_delivered", "line": "POST", "said": "lost"}, "line"),
        ({"kind": "not_delivered", "line": "LAMP", "said": "lost", "cure": "repair"}, "cure"),
        (
            {"kind": "not_delivered", "line": "LAMP", "said": "lost", "happened_at": "2036-01-01T00:00:00Z"},
            "happened_at",
        ),
        (
            {"kind": "not_delivered", "line": "LAMP", "said": "lost", "happened_at": "2020-01-01T00:00:00Z"},
            "happened_at",
        ),
        ({"kind": "not_delivered", "line": "LAMP", "said": "lost", "customer": "C-1"}, "customer"),
        ({"kind": "not_delivered", "line": "LAMP", "said": "lost", "amount_minor": 1}, "amount_minor"),
        ({"kind": "claimant"}, "customer"),
        ({"kind": "claimant", "customer": "C-1001", "said": "lost"}, "said"),
    ],
)
def test_a_fact_that_cannot_be_is_refused_by_its_field_and_nothing_is_stored(
    stack: Stack, world: World, warehouse: Caller, opened: tuple[str, UUID], said: dict[str, Any], field: str
) -> None:
    answer = warehouse.post("/facts", {"case": opened[0], **said})
    assert answer.status_code == 422
    assert field in str(fact(answer))
    assert lives.count(stack.console, world, "SELECT count(*) FROM case_facts WHERE merchant_id = :m") == 0


def test_a_fact_of_another_kind_of_case_is_refused(warehouse: Caller, opened: tuple[str, UUID]) -> None:
    answer = warehouse.post("/facts", {"case": opened[0], "kind": "collection", "said": "offered"})
    assert (answer.status_code, fact(answer)["code"]) == (409, "wrong-state")


def test_a_token_that_opens_returns_states_only_who_asks(
    stack: Stack, world: World, chat: Caller, calls: Callable[..., Caller]
) -> None:
    sold(stack, world, lamps(delivered_at=None))
    voice = calls(add_token(stack, world, "voice", ("cases:open", "evidence:write")))
    case = fact(asks(voice, "not_delivered"))["case"]
    answer = voice.post("/facts", {"case": case, "kind": "not_delivered", "line": "LAMP", "said": "lost"})
    assert (answer.status_code, "kind" in str(fact(answer))) == (422, True)
    assert voice.post("/facts", {"case": case, "kind": "claimant", "customer": "ilse@example.org"}).status_code == 201
    assert record_of(stack, world, case_id(stack, world))["outcome"] == "wait"
