"""The books at three and the self-check at four of each merchant's night: at the right moment, once, also when clocks change.

The instants were looked up once and are written here, as in test_business_days, whose clock these tests set.
"""

from collections import Counter
from datetime import date, timedelta

import pytest

from jobs import books, self_check
from jobs.schedule import PERIODIC
from ledger.database import scalar, transaction
from ledger.reconciliation_run import schedule_tonight
from sandbox.client import SandboxClient
from tests import lives
from tests.database.test_business_days import SECOND, Clock, clocked, instant, set_clock
from tests.refunds import as_administrator, worker_at
from tests.stack import Stack
from tests.world import World, build_world

__all__ = ["clocked", "set_clock"]
HOUR = timedelta(hours=1)
# Zone, its night, the instants of three and of four o'clock in it, and those of the midnights of the run's first and last day.
NIGHTS = [
    ("Europe/Berlin", "2026-03-29", "2026-03-29T01:00", "2026-03-29T02:00", "2026-02-21T23:00", "2026-03-28T23:00"),
    ("Europe/Berlin", "2026-10-25", "2026-10-25T02:00", "2026-10-25T03:00", "2026-09-19T22:00", "2026-10-24T22:00"),
    ("Europe/London", "2026-03-29", "2026-03-29T02:00", "2026-03-29T03:00", "2026-02-22T00:00", "2026-03-29T00:00"),
    ("Europe/London", "2026-10-25", "2026-10-25T03:00", "2026-10-25T04:00", "2026-09-19T23:00", "2026-10-24T23:00"),
    ("Pacific/Auckland", "2026-04-05", "2026-04-04T15:00", "2026-04-04T16:00", "2026-02-28T11:00", "2026-04-04T11:00"),
    ("Pacific/Auckland", "2026-09-27", "2026-09-26T14:00", "2026-09-26T15:00", "2026-08-22T12:00", "2026-09-26T12:00"),
    (
        "America/Los_Angeles",
        "2026-06-10",
        "2026-06-10T10:00",
        "2026-06-10T11:00",
        "2026-05-06T07:00",
        "2026-06-10T07:00",
    ),
]


def shop(clocked: Stack, zone: str, day: str) -> World:
    """A merchant that has been there since January."""
    world = build_world(clocked, f"night-{zone.rpartition('/')[2].lower().replace('_', '-')}-{day}", zone=zone)
    as_administrator(clocked, "UPDATE merchants SET created_at = '2026-01-02T00:00Z' WHERE id = %s", world.merchant_id)
    return world


def queued(stack: Stack, world: World) -> int:
    with transaction(stack.worker, world.merchant_id) as db:
        return schedule_tonight(db, world.merchant_id)


def check_is_due(stack: Stack, world: World) -> date | None:
    with transaction(stack.worker, world.merchant_id, read_only=True) as db:
        due: date | None = scalar(db, self_check._TONIGHT, m=world.merchant_id, hour=self_check.NIGHT_HOUR)
    return due


@pytest.mark.parametrize(("zone", "day", "three", "four", "first", "last"), NIGHTS)
def test_the_books_are_compared_from_three_and_the_ledger_is_checked_from_four_in_the_merchants_night(
    clocked: Stack, set_clock: Clock, zone: str, day: str, three: str, four: str, first: str, last: str
) -> None:
    world, night = shop(clocked, zone, day), date.fromisoformat(day)
    set_clock(instant(three) - SECOND)
    assert queued(clocked, world) == 0
    set_clock(instant(three))
    assert (queued(clocked, world), queued(clocked, world)) == (1, 0)
    (run,) = as_administrator(
        clocked, "SELECT night, from_at, to_at, asked_by FROM reconciliation_runs WHERE merchant_id = %s", world.merchant_id
    )  # fmt: skip
    assert run == {"night": night, "from_at": instant(first), "to_at": instant(last), "asked_by": "system"}
    set_clock(instant(four) - SECOND)
    assert (check_is_due(clocked, world), queued(clocked, world)) == (None, 0)
    set_clock(instant(four))
    assert check_is_due(clocked, world) == night
    as_administrator(
        clocked, "INSERT INTO self_checks (merchant_id, night, faults) VALUES (%s, %s, 0)", world.merchant_id, night
    )
    # Not again in this night, whichever hour there was twice; and not before the next one's hour.
    for at in (instant(four) + HOUR, instant(three) + 22 * HOUR):
        set_clock(at)
        assert (check_is_due(clocked, world), queued(clocked, world)) == (None, 0)
    set_clock(instant(three) + 25 * HOUR)
    assert queued(clocked, world) == 1


def test_two_workers_queue_and_check_each_night_once(clocked: Stack, set_clock: Clock) -> None:
    """Real workers, who meet at every merchant at once; the provider is away, which is none of the night's business."""
    set_clock(instant("2026-07-01T00:30"))
    world = shop(clocked, "Europe/London", "race")
    merchants = as_administrator(clocked, "SELECT count(*)::int AS n FROM merchants")[0]["n"]
    away = SandboxClient("http://127.0.0.1:9")
    with worker_at(clocked, away, world) as first, worker_at(clocked, away, world) as second:
        set_clock(instant("2026-07-01T16:00"))
        raced = lives.race(lambda: books.run_once(first), lambda: books.run_once(second))
        assert raced.refusals == []
        runs = as_administrator(
            clocked,
            "SELECT merchant_id, night FROM reconciliation_runs WHERE night IN ('2026-07-01', '2026-07-02')",
        )
        assert len(runs) == len({(row["merchant_id"], row["night"]) for row in runs})
        assert sum(counts["queued"] for counts in raced.results) == len(runs) == merchants
        raced = lives.race(lambda: self_check.run_once(first), lambda: self_check.run_once(second))
        assert raced.refusals == []
        again = self_check.run_once(first)
    checks = as_administrator(
        clocked, "SELECT merchant_id FROM self_checks WHERE night IN ('2026-07-01', '2026-07-02')"
    )
    assert sum((Counter(counts) for counts in raced.results), again)["checked"] == len(checks) == merchants


def test_both_are_asked_about_often_enough_to_begin_soon_after_their_hour() -> None:
    seconds = {periodic.name: periodic.seconds for periodic in PERIODIC}
    assert (seconds["books"], seconds["self_check"]) == (10, 300)
