"""Order lines, then captures, then the cap day: two cases of one order never wait for each other in a circle (DESIGN §4)."""

import time
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from ledger.cases import reject
from ledger.database import transaction
from ledger.intents import cancel_before_send, propose
from tests import lives
from tests.orders import LAMP, TEE, Line
from tests.stack import Stack
from tests.world import World, add_order


def test_news_of_one_case_and_the_call_back_of_another_both_go_through(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = add_order(stack, world, "A-2", lines=(Line(TEE, 2, 5000), Line(LAMP, 2, 8000)))
    opened = lives.open_case(stack, world, ((TEE, 1), (LAMP, 1)), order_ref=order.external_ref)
    lives.arrive(stack, world, opened.case_id, (TEE, 1))
    (first,) = lives.intents(stack, world, opened.case_id)
    second = lives.propose(stack, world, ((LAMP, 1),), order=order, reference="chat-2", relation="separate")
    for one in (first, second):
        lives.approve_as(stack, world, world.priya, one["intent_id"])

    def slowly(*given: Any) -> Any:
        time.sleep(0.7)
        return propose(*given)

    monkeypatch.setattr("ledger.assessment.propose", slowly)

    def call_back() -> None:
        time.sleep(0.3)
        with transaction(stack.console, world.merchant_id) as db:
            cancel_before_send(db, world.merchant_id, second["intent_id"], world.tobias.actor, "suspicion")

    raced = lives.race(lambda: lives.arrive(stack, world, opened.case_id, (LAMP, 1)), call_back)
    assert raced.refusals == []
    assert {one["state"] for one in lives.intents(stack, world, first["case_id"])} == {"withdrawn", "proposed"}
    assert lives.state(stack, world, second["intent_id"]) == "withdrawn"


def test_a_case_with_several_refunds_gives_all_captures_back_before_any_cap_day(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = add_order(stack, world, "A-2", captured={"card": 10000, "bank": 3760})
    opened = lives.open_case(stack, world, (("TEE", 3), ("LAMP", 1)), order_ref=order.external_ref)
    lives.arrive(stack, world, opened.case_id, ("TEE", 3), ("LAMP", 1))
    for one in lives.intents(stack, world, opened.case_id):
        lives.approve_as(stack, world, world.jonas, one["intent_id"])
    said = listen(monkeypatch)
    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, opened.case_id, world.tobias.actor, "not_returned")
    tables = [
        word for text in said for word in ("line_claims", "transfers", "cap_entries") if f"INSERT INTO {word}" in text
    ]
    assert tables == sorted(tables, key=["line_claims", "transfers", "cap_entries"].index)
    assert (tables.count("transfers"), tables.count("cap_entries")) == (2, 2)


def listen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement from now on, in the order in which they are sent."""
    said: list[str] = []
    execute = psycopg.RawCursor.execute

    def noted(cursor: Any, statement: bytes, *values: Any, **how: Any) -> Any:
        said.append(statement.decode())
        return execute(cursor, statement, *values, **how)

    def each_noted(cursor: Any, statement: bytes, many: Sequence[Any]) -> None:
        for values in many:
            noted(cursor, statement, values)

    monkeypatch.setattr(psycopg.RawCursor, "execute", noted)
    monkeypatch.setattr(psycopg.RawCursor, "executemany", each_noted)
    return said
