"""With the application's own filters gone, the database still shows and takes nothing of another merchant (S18, S43)."""

from datetime import UTC, datetime

import pytest
from sqlalchemy.exc import ProgrammingError

from ledger import idempotency, provider_events
from ledger.api_tokens import parse_token, usable_token
from ledger.database import first, rows, run, transaction
from ledger.errors import NotFound
from ledger.queries.returns import return_of_token
from tests.lives import open_case
from tests.stack import Stack
from tests.world import World, build_world


@pytest.fixture
def northwind(stack: Stack, world: World) -> World:
    assert world.slug != "northwind"
    return build_world(stack, "northwind")


def test_a_return_of_another_merchant_is_not_found_even_by_its_own_number(
    stack: Stack, world: World, northwind: World
) -> None:
    opened = open_case(stack, northwind)
    with transaction(stack.console, world.merchant_id) as db:
        assert rows(db, "SELECT 1 FROM cases WHERE number = :n", n=opened.number) == []
        with pytest.raises(NotFound):
            return_of_token(db, northwind.merchant_id, opened.number, northwind.chat.actor)


def test_a_token_opens_its_own_row_and_its_own_merchant_only(stack: Stack, world: World, northwind: World) -> None:
    sent = parse_token(northwind.chat.text)
    assert sent is not None
    with transaction(stack.console, token_id=world.chat.token_id) as db:
        assert [row["token_id"] for row in rows(db, "SELECT token_id FROM api_tokens")] == [world.chat.token_id]
        assert usable_token(db, sent, "127.0.0.1") is None
        assert run(db, "UPDATE api_tokens SET revoked_at = now() WHERE token_id = :t", t=sent.token_id) == 0
        assert first(db, "SELECT 1 FROM orders") is None


def test_keys_and_hints_of_another_merchant_are_neither_read_nor_written(
    stack: Stack, world: World, northwind: World
) -> None:
    foreign = idempotency.Key(northwind.merchant_id, northwind.chat.actor, "k")
    with transaction(stack.console, northwind.merchant_id) as db:
        idempotency.keep_answer(db, foreign, bytes(32), idempotency.Kept(201, {"case": "C-1"}))
    with transaction(stack.console, world.merchant_id) as db:
        assert idempotency.take_key(db, foreign, bytes(32)) is None
    with (
        pytest.raises(ProgrammingError, match="row-level security"),
        transaction(stack.console, world.merchant_id) as db,
    ):
        idempotency.keep_answer(
            db, idempotency.Key(northwind.merchant_id, "x", "k2"), bytes(32), idempotency.Kept(200, {})
        )
    hint = provider_events.Hint("evt_1", "refund.updated", "re_1", "", datetime.now(UTC), bytes(32))
    with (
        pytest.raises(ProgrammingError, match="row-level security"),
        transaction(stack.console, world.merchant_id) as db,
    ):
        provider_events.keep(db, northwind.merchant_id, hint)
