"""When the customer said it counts, not when it was written down; and the queue follows by when it is owed."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from ledger.database import rows, scalar, transaction
from ledger.errors import BadInput
from ledger.statement_time import STATED_DAYS
from ledger.teamwork import set_due
from tests.lives import arrive, count, open_case
from tests.stack import Stack
from tests.world import World


def due(stack: Stack, world: World, case_id: UUID) -> tuple[datetime, list[str | None]]:
    """The case's due time, and that of each of its entitlements in turn."""
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        keys = {"m": world.merchant_id, "c": case_id}
        at: datetime = scalar(db, "SELECT due_at FROM cases WHERE merchant_id = :m AND case_id = :c", **keys)
        of_case = "SELECT record->>'due_at' AS due FROM entitlements WHERE merchant_id = :m AND case_id = :c ORDER BY n"
        found = rows(db, of_case, **keys)
    return at, [row["due"] for row in found]


def said(stack: Stack, world: World, ago: timedelta) -> UUID:
    return open_case(stack, world, stated_at=datetime.now(UTC) - ago).case_id


def test_a_return_that_was_said_ten_days_ago_is_due_ten_days_sooner_and_the_queue_shows_it(
    stack: Stack, world: World
) -> None:
    at, (owed,) = due(stack, world, said(stack, world, timedelta(days=10)))
    assert owed is not None
    assert at == datetime.fromisoformat(owed)
    assert timedelta(days=3) < at - datetime.now(UTC) < timedelta(days=5, hours=2)


def test_what_was_said_is_in_the_evidence_and_in_the_history(stack: Stack, world: World) -> None:
    case_id = said(stack, world, timedelta(days=10))
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        (row,) = rows(
            db, "SELECT c.stated_at, e.body->>'statement_sent_at' AS told, t.evidence::jsonb->'units'->0->>'sent_at' AS counted"
            " FROM cases c JOIN events e ON e.merchant_id = c.merchant_id AND e.case_id = c.case_id AND e.kind = 'case.opened'"
            " JOIN entitlements t ON t.merchant_id = c.merchant_id AND t.case_id = c.case_id"
            " WHERE c.merchant_id = :m AND c.case_id = :c", m=world.merchant_id, c=case_id,
        )  # fmt: skip
    stated = row["stated_at"].replace(microsecond=0)
    assert (
        datetime.fromisoformat(row["counted"]) == stated == datetime.fromisoformat(row["told"]).replace(microsecond=0)
    )


@pytest.mark.parametrize(
    ("ago", "says"),
    [
        (timedelta(hours=-1), "today or before"),
        (timedelta(days=STATED_DAYS, hours=1), "days ago"),
        (timedelta(days=4000), "after the order"),
    ],
)
def test_what_was_said_tomorrow_or_long_ago_or_before_the_order_is_refused_and_nothing_is_stored(
    stack: Stack, world: World, ago: timedelta, says: str
) -> None:
    with pytest.raises(BadInput, match=f"statement_sent_at: .*{says}"):
        said(stack, world, ago)
    assert count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == 0


def test_a_due_time_that_a_person_set_stays_until_what_is_owed_is_due_at_another_time(
    stack: Stack, world: World
) -> None:
    case_id = open_case(stack, world).case_id
    chosen = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
    with transaction(stack.console, world.merchant_id) as db:
        set_due(db, world.merchant_id, case_id, world.jonas.staff_id, chosen)
    arrive(stack, world, case_id, ("TEE", 1))
    at, owed = due(stack, world, case_id)
    assert len(owed) > 1
    assert (len(set(owed)), at) == (1, chosen)
