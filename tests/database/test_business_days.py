"""P11 across clock changes: which business day a refund counts on, when the cap resets, and when what it held goes.

The clock of the test's own database is set: its functions and its roles look for `now()` in a schema of the test first.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from ledger import approvals
from ledger.approvals import Decision
from ledger.caps import release_held
from ledger.database import transaction
from ledger.errors import LimitReached
from ledger.queries.caps import business_day
from ledger.reconciliation import record_absent
from ledger.settlement import NotAccepted, Unknown
from tests import lives
from tests.orders import Line
from tests.refunds import as_administrator
from tests.stack import ROLES, Server, Stack, fresh_stack
from tests.world import World, add_order, build_world, usual_policy

SECOND = timedelta(seconds=1)
# Zone, the business day on which its clocks change, and the instants at which that day begins and ends. What the rules of
# the zones say was looked up once and is written here, so that a mistake shared by two libraries shows.
DAYS = [
    ("Europe/London", "2026-03-29", "2026-03-29T00:00", "2026-03-29T23:00", 23),
    ("Europe/London", "2026-10-25", "2026-10-24T23:00", "2026-10-26T00:00", 25),
    ("America/St_Johns", "2026-03-08", "2026-03-08T03:30", "2026-03-09T02:30", 23),
    ("America/St_Johns", "2026-11-01", "2026-11-01T02:30", "2026-11-02T03:30", 25),
    ("Pacific/Auckland", "2026-04-05", "2026-04-04T11:00", "2026-04-05T12:00", 25),
    ("Pacific/Auckland", "2026-09-27", "2026-09-26T12:00", "2026-09-27T11:00", 23),
    ("Africa/Casablanca", "2026-02-15", "2026-02-14T23:00", "2026-02-16T00:00", 25),
    ("Africa/Casablanca", "2026-03-22", "2026-03-22T00:00", "2026-03-22T23:00", 23),
]

Clock = Callable[[datetime], None]


@pytest.fixture(scope="module")
def clocked(server: Server) -> Iterator[Stack]:
    """A database whose clock is the test's."""
    with fresh_stack(server) as stack:
        with stack.admin() as admin:
            admin.execute("CREATE SCHEMA set_clock")
            admin.execute(
                "CREATE FUNCTION set_clock.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.now()'"
            )
            admin.execute("GRANT USAGE ON SCHEMA set_clock TO PUBLIC")
            admin.execute("""
                DO $$ DECLARE f regprocedure; BEGIN
                    FOR f IN SELECT p.oid FROM pg_proc p WHERE pronamespace = 'public'::regnamespace AND prolang <> 13
                        AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') LOOP
                        EXECUTE format('ALTER FUNCTION %s SET search_path = set_clock, pg_catalog, public, pg_temp', f);
                    END LOOP; END $$""")
            for role in ROLES:
                admin.execute(
                    f'ALTER ROLE {role} IN DATABASE "{stack.name}" SET search_path = set_clock, pg_catalog, public'.encode()
                )
        yield stack


@pytest.fixture
def set_clock(clocked: Stack) -> Clock:
    def to(at: datetime) -> None:
        with clocked.admin() as admin:
            admin.execute(
                "CREATE OR REPLACE FUNCTION set_clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS"
                f" 'SELECT ''{at.isoformat()}''::timestamptz'".encode()
            )

    return to


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def counted_on(stack: Stack, world: World) -> list[date]:
    found = as_administrator(
        stack,
        "SELECT business_day FROM cap_entries WHERE merchant_id = %s ORDER BY at, business_day",
        world.merchant_id,
    )
    return [row["business_day"] for row in found]


def approve(stack: Stack, world: World, number: int) -> Decision:
    order = add_order(stack, world, f"D-{number}")
    intent = lives.propose(stack, world, (("TEE", 1),), order=order, reference=f"chat-{number}")
    return lives.approve_as(stack, world, world.priya, intent["intent_id"])


@pytest.mark.parametrize(("zone", "day", "begins", "ends", "hours"), DAYS)
def test_a_day_of_23_or_25_hours_begins_and_ends_at_the_midnights_of_its_zone(
    clocked: Stack, set_clock: Clock, zone: str, day: str, begins: str, ends: str, hours: int
) -> None:
    starts_at, ends_at, this = instant(begins), instant(ends), date.fromisoformat(day)
    assert ends_at - starts_at == timedelta(hours=hours)
    set_clock(starts_at - SECOND)
    slug = f"{zone.rpartition('/')[2].lower().replace('_', '-')}-{day}"
    world = build_world(clocked, slug, zone=zone, cap_minor={"GBP": 3000})
    # 24.90 of 30.00: one fits each day.
    assert approve(clocked, world, 1).state == "approved"
    set_clock(starts_at)
    with transaction(clocked.console, world.merchant_id, read_only=True) as db:
        shown = business_day(db, world.merchant_id)
    assert (shown.business_day, shown.ends_at) == (this, ends_at)
    assert approve(clocked, world, 2).state == "approved"
    set_clock(ends_at - SECOND)
    held = approve(clocked, world, 3)
    assert held.state == "held"
    with transaction(clocked.worker, world.merchant_id) as db:
        assert not release_held(db, world.merchant_id)
    set_clock(ends_at)
    with transaction(clocked.worker, world.merchant_id) as db:
        assert release_held(db, world.merchant_id)
    assert sorted(counted_on(clocked, world)) == [this - timedelta(days=1), this, this + timedelta(days=1)]
    assert held.intent_id in {one.intent_id for one in lives.claim(clocked, world)}


ORDINARY = ("Europe/London", "2026-06-10", "2026-06-09T23:00", "2026-06-10T23:00", 24)


@pytest.mark.parametrize(("zone", "day", "begins", "ends", "hours"), [*DAYS, ORDINARY])
def test_what_the_cap_held_from_the_first_minute_of_a_day_goes_when_the_next_one_opens(
    clocked: Stack, set_clock: Clock, zone: str, day: str, begins: str, ends: str, hours: int
) -> None:
    """Its key was never sent, so it has no age. Only the approval's own 24 hours end it: a day of 25 begins with such an hour."""
    set_clock(instant(begins))
    slug = f"first-{zone.rpartition('/')[2].lower().replace('_', '-')}-{day}"
    world = build_world(clocked, slug, zone=zone, cap_minor={"GBP": 3000})
    assert approve(clocked, world, 1).state == "approved"
    set_clock(instant(begins) + timedelta(minutes=1))
    held = approve(clocked, world, 2)
    assert held.state == "held"
    first = lives.claim(clocked, world)
    assert len(first) == 1
    set_clock(instant(ends))
    with transaction(clocked.worker, world.merchant_id) as db:
        assert release_held(db, world.merchant_id)
    sent = [one.intent_id for one in lives.claim(clocked, world)]
    reason = as_administrator(clocked, "SELECT state, state_reason FROM intents WHERE intent_id = %s", held.intent_id)[
        0
    ]
    if hours == 25:
        assert (sent, reason) == ([], {"state": "held", "state_reason": "expired"})
    else:
        assert (sent, reason["state"]) == ([held.intent_id], "submitting")


def test_with_an_age_that_counts_from_the_approval_it_would_not_go(
    clocked: Stack, set_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: 23 hours and 59 minutes after its approval, and never sent."""
    _, _, begins, ends, _ = ORDINARY
    set_clock(instant(begins))
    world = build_world(clocked, "control", cap_minor={"GBP": 3000})
    approve(clocked, world, 1)
    lives.claim(clocked, world)
    set_clock(instant(begins) + timedelta(minutes=1))
    approve(clocked, world, 2)
    from_approval = re.sub(
        r"coalesce\(\(SELECT min\(t.started_at\).*?now\(\)\)", "o.approved_at", approvals._APPROVALS, flags=re.DOTALL
    )
    assert "o.approved_at" in from_approval
    monkeypatch.setattr("ledger.approvals._APPROVALS", from_approval)
    set_clock(instant(ends))
    with transaction(clocked.worker, world.merchant_id) as db:
        assert release_held(db, world.merchant_id)
    assert lives.claim(clocked, world) == []


def test_a_key_that_was_sent_once_is_never_sent_past_its_safe_age(clocked: Stack, set_clock: Clock) -> None:
    """From the first attempt, whatever became of it: 23 hours later the same key could pay a second time."""
    begins = instant(ORDINARY[2])
    set_clock(begins)
    world = build_world(clocked, "old-key", cap_minor={"GBP": 3000})
    one = approve(clocked, world, 1)
    (first,) = lives.claim(clocked, world)
    lives.record(clocked, first, NotAccepted("rate_limit", "later", 60))
    as_administrator(clocked, "UPDATE attempts SET started_at = %s WHERE intent_id = %s", begins, one.intent_id)
    set_clock(begins + timedelta(hours=22, minutes=59))
    (second,) = lives.claim(clocked, world)
    assert second.key == first.key
    lives.record(clocked, second, NotAccepted("rate_limit", "later", 60))
    set_clock(begins + timedelta(hours=23))
    assert lives.claim(clocked, world) == []
    assert lives.state(clocked, world, one.intent_id) == "unknown"


@pytest.mark.parametrize("state", ["approved", "submitting", "unknown"])
def test_an_approval_is_good_for_24_hours_whatever_the_refund_is_in(
    clocked: Stack, set_clock: Clock, state: str
) -> None:
    """S31: never sent after that, never dropped; what may have been sent goes to a person."""
    begins = instant("2026-06-15T10:00")
    set_clock(begins)
    world = build_world(clocked, f"day-{state}")
    one = approve(clocked, world, 1)
    if state != "approved":
        (claimed,) = lives.claim(clocked, world)
        lives.record(
            clocked, claimed, Unknown("timeout", "none") if state == "unknown" else NotAccepted("in_use", "later", 5)
        )
    # The key stays young, so that only the approval's own age speaks.
    young = begins + timedelta(hours=23, minutes=59)
    as_administrator(clocked, "UPDATE attempts SET started_at = %s WHERE intent_id = %s", young, one.intent_id)
    as_administrator(clocked, "UPDATE attempt_results SET at = %s WHERE intent_id = %s", begins, one.intent_id)
    set_clock(begins + timedelta(hours=24))
    assert lives.claim(clocked, world) == []
    if state == "unknown":
        with transaction(clocked.worker, world.merchant_id) as db:
            assert record_absent(db, world.merchant_id, one.intent_id, lives.WORKER, lives.verifier(), 0) is None
    expected = {"approved": "held", "submitting": "unknown", "unknown": "needs_review"}[state]
    assert lives.state(clocked, world, one.intent_id) == expected


def limited(clocked: Stack, slug: str, zone: str) -> World:
    """A desk of which each person approves ten an hour and two a day."""
    windows = {"hour": {"count": 10, "minor": 1000_00}, "day": {"count": 2, "minor": 1000_00}}
    return build_world(
        clocked, slug, zone=zone, policy=usual_policy(f"{slug}-usual") | {"limits": {"desk": {"GBP": windows}}}
    )


@pytest.mark.parametrize(("zone", "day", "begins", "ends", "hours"), [*DAYS, ORDINARY])
def test_the_day_of_a_person_is_counted_between_the_midnights_of_the_merchants_zone(
    clocked: Stack, set_clock: Clock, zone: str, day: str, begins: str, ends: str, hours: int
) -> None:
    """What Priya approves in other hours of the day counts; what she approved a second before it began does not."""
    set_clock(instant(begins) - SECOND)
    world = limited(clocked, f"person-{zone.rpartition('/')[2].lower().replace('_', '-')}-{day}", zone)
    assert approve(clocked, world, 1).state == "approved"
    set_clock(instant(begins))
    assert approve(clocked, world, 2).state == "approved"
    set_clock(instant(begins) + timedelta(hours=hours - 3))
    assert approve(clocked, world, 3).state == "approved"
    set_clock(instant(ends) - SECOND)
    with pytest.raises(LimitReached):
        approve(clocked, world, 4)
    set_clock(instant(ends))
    assert approve(clocked, world, 5).state == "approved"


def test_the_sum_of_a_persons_day_goes_on_when_the_hour_is_over(clocked: Stack, set_clock: Clock) -> None:
    begins = instant(ORDINARY[2])
    set_clock(begins)
    windows = {"hour": {"count": 10, "minor": 30_00}, "day": {"count": 10, "minor": 50_00}}
    world = build_world(
        clocked, "sum-of-a-day", policy=usual_policy("sum-of-a-day-usual") | {"limits": {"desk": {"GBP": windows}}}
    )
    # 24.90 each: one an hour, two a day.
    for hour in (0, 1):
        set_clock(begins + timedelta(hours=hour))
        assert approve(clocked, world, 2 * hour).state == "approved"
        with pytest.raises(LimitReached):
            approve(clocked, world, 2 * hour + 1)
    set_clock(begins + timedelta(hours=2))
    with pytest.raises(LimitReached):
        approve(clocked, world, 4)


def paid_in(stack: Stack, world: World, currency: str, number: int, minor: int) -> Decision:
    """Approved by a manager: a desk person's limits are in one currency."""
    order = add_order(stack, world, f"{currency}-{number}", currency=currency, lines=(Line("TEE", 1, minor),))
    intent = lives.propose(stack, world, (("TEE", 1),), order=order, reference=f"{currency}-{number}")
    return lives.approve_as(stack, world, world.mara, intent["intent_id"])


def states(stack: Stack, world: World) -> dict[str, str]:
    rows = as_administrator(
        stack, "SELECT o.external_ref AS ref, i.state FROM intents i JOIN orders o USING (merchant_id, order_id)"
        " WHERE i.merchant_id = %s", world.merchant_id,
    )  # fmt: skip
    return {row["ref"]: row["state"] for row in rows}


def test_a_currency_whose_day_is_full_does_not_hold_back_the_others(clocked: Stack, set_clock: Clock) -> None:
    set_clock(instant(ORDINARY[2]))
    world = build_world(clocked, "two-currencies", cap_minor={"GBP": 30_00, "EUR": 30_00})
    for number in (1, 2):
        for currency in ("GBP", "EUR"):
            paid_in(clocked, world, currency, number, 24_00)
            set_clock(instant(ORDINARY[2]) + timedelta(minutes=number))
    assert states(clocked, world) == {"GBP-1": "approved", "EUR-1": "approved", "GBP-2": "held", "EUR-2": "held"}
    as_administrator(
        clocked, "UPDATE cap_days SET limit_minor = 6000 WHERE merchant_id = %s AND currency = 'EUR'", world.merchant_id
    )
    with transaction(clocked.worker, world.merchant_id) as db:
        assert release_held(db, world.merchant_id)
        assert not release_held(db, world.merchant_id)
    assert states(clocked, world) == {"GBP-1": "approved", "EUR-1": "approved", "GBP-2": "held", "EUR-2": "approved"}


def test_one_above_the_whole_cap_of_a_day_waits_for_a_raise_and_lets_those_behind_it_pass(
    clocked: Stack, set_clock: Clock
) -> None:
    set_clock(instant(ORDINARY[2]))
    world = build_world(clocked, "above-the-day", cap_minor={"GBP": 30_00})
    for number, minor in enumerate((31_00, 24_00, 23_00, 22_00)):
        set_clock(instant(ORDINARY[2]) + timedelta(minutes=number))
        paid_in(clocked, world, "GBP", number, minor)
    assert states(clocked, world) == {"GBP-0": "held", "GBP-1": "approved", "GBP-2": "held", "GBP-3": "held"}
    set_clock(instant(ORDINARY[3]))
    with transaction(clocked.worker, world.merchant_id) as db:
        assert release_held(db, world.merchant_id)
        assert not release_held(db, world.merchant_id)
    # The older of the two that fit; the other has its own day.
    assert states(clocked, world) == {"GBP-0": "held", "GBP-1": "approved", "GBP-2": "approved", "GBP-3": "held"}
