"""An approval whose COMMIT leaves with its last statement: what is refused at the COMMIT leaves nothing; what is lost after it,
everything, once. Either way the next transaction of the process is a clean one.
"""

from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from ledger import database
from ledger.approvals import approve
from ledger.database import transaction
from ledger.errors import AlreadyDecided
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import World

REFUSES = (
    "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON cap_entries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()",
)
WAYS = {
    "a check": "RAISE EXCEPTION 'late' USING ERRCODE = 'check_violation';",
    "a lost race": "RAISE EXCEPTION 'late' USING ERRCODE = 'serialization_failure';",
    "the end of the server's process": "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5);",
}


def rows_of_approvals(stack: Stack) -> list[int]:
    (row,) = as_administrator(
        stack, "SELECT (SELECT count(*) FROM approvals) AS a, (SELECT count(*) FROM outbox) AS o,"
        " (SELECT count(*) FROM cap_entries) AS c, (SELECT sum(reserved_minor) FROM captures)::int AS r,"
        " (SELECT count(*) FROM events WHERE kind = 'intent.approved') AS e",
    )  # fmt: skip
    return list(row.values())


@pytest.mark.parametrize("way", WAYS)
def test_what_is_refused_at_the_commit_leaves_nothing_behind(stack: Stack, world: World, way: str) -> None:
    one = lives.propose(stack, world)
    without(stack, REFUSES[0].format(WAYS[way]), REFUSES[1])
    with pytest.raises(DBAPIError):
        lives.approve_as(stack, world, world.priya, one["intent_id"])
    assert (rows_of_approvals(stack), lives.state(stack, world, one["intent_id"])) == ([0, 0, 0, 0, 0], "proposed")
    without(stack, "DROP TRIGGER late ON cap_entries")
    assert lives.approve_as(stack, world, world.priya, one["intent_id"]).state == "approved"
    assert rows_of_approvals(stack) == [1, 1, 1, one["amount_minor"], 1]


def test_a_connection_that_is_lost_after_the_commit_is_an_error_to_the_caller_and_one_approval(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lives.propose(stack, world)
    seen = lives.see(stack, world, one["intent_id"])
    commit = database.commit_later

    def and_lose(db: Connection) -> None:
        commit(db)
        raw: Any = db.connection.dbapi_connection
        raw._pipeline.sync()
        raw.close()

    with monkeypatch.context() as lost:
        lost.setattr("ledger.approvals.commit_later", and_lose)
        with pytest.raises(DBAPIError):
            lives.approve_as(stack, world, world.priya, one["intent_id"], seen)
    assert rows_of_approvals(stack) == [1, 1, 1, one["amount_minor"], 1]
    with pytest.raises(AlreadyDecided):
        lives.approve_as(stack, world, world.priya, one["intent_id"], seen)
    assert rows_of_approvals(stack) == [1, 1, 1, one["amount_minor"], 1]


def test_nothing_is_said_to_the_database_after_the_act_that_was_the_last(stack: Stack, world: World) -> None:
    one = lives.propose(stack, world)
    seen = lives.see(stack, world, one["intent_id"])
    with transaction(stack.console, world.merchant_id) as db:
        approve(
            db, world.merchant_id, one["intent_id"], world.priya.staff_id, seen, lives.sealer(), cancel_window_seconds=0,
            last=True,
        )  # fmt: skip
        with pytest.raises(AssertionError):
            database.scalar(db, "SELECT 1")
    # The act stands, and the connection is lent again as if nothing had been.
    assert rows_of_approvals(stack) == [1, 1, 1, one["amount_minor"], 1]
    with transaction(stack.console, world.merchant_id) as db:
        assert database.scalar(db, "SELECT current_setting('onceback.merchant')") == str(world.merchant_id)
