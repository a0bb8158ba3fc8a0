"""The audit trail: every event newest first, narrowed by who, what, case and day, with the chains computed again on the page."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from console import timeline
from console.trail import SORTS
from ledger.database import rows, transaction
from ledger.queries import trail
from tests import lives
from tests.refunds import as_administrator
from tests.web.desk import Desk
from tests.world import build_world

HERE = "/trail/"


@pytest.fixture
def paid(desk: Desk) -> dict[str, Any]:
    """A return that Priya approved and that was paid."""
    one = lives.propose(desk.stack, desk.world)
    desk.pay(one["intent_id"])
    return dict(one) | {"number": desk.rows("SELECT number FROM cases WHERE merchant_id = :m")[0]["number"]}


def events_of(desk: Desk) -> list[dict[str, Any]]:
    return desk.rows("SELECT event_id, kind, number FROM events WHERE merchant_id = :m ORDER BY event_id DESC")


def test_a_life_is_read_newest_first_and_its_chain_holds(desk: Desk, paid: dict[str, Any]) -> None:
    page = desk.at(desk.world.farah).get(desk.url(HERE))

    assert "the chain of the one case holds, whole" in page.text
    assert page.text.index(" paid") < page.text.index(" approved: ") < page.text.index("Opened through Chat")
    assert "Priya Raman" in page.text
    assert "not checked yet" in page.text


def test_who_what_case_and_day_each_narrow_it(desk: Desk, paid: dict[str, Any]) -> None:
    farah, world = desk.at(desk.world.farah), desk.world
    assert "proposed: " in farah.get(desk.url(HERE)).text

    by_priya = farah.get(desk.url(f"{HERE}?person={world.priya.staff_id}")).text
    assert "approved: " in by_priya
    assert "proposed: " not in by_priya
    assert "No event matches." in farah.get(desk.url(f"{HERE}?person={world.jonas.staff_id}")).text
    decisions = farah.get(desk.url(f"{HERE}?kind=decisions")).text
    assert "approved: " in decisions
    assert "Goods reported" not in decisions
    of_case = farah.get(desk.url(f"{HERE}?case=C-{paid['number']}")).text
    assert f"Audit trail of C-{paid['number']}" in of_case
    assert "No event matches." in farah.get(desk.url(f"{HERE}?case=1")).text
    (row,) = desk.rows("SELECT now() AS at")
    today = row["at"].astimezone(ZoneInfo("Europe/London")).date()
    assert "approved: " in farah.get(desk.url(f"{HERE}?since={today - timedelta(days=1)}&until={today}")).text
    assert "No event matches." in farah.get(desk.url(f"{HERE}?until={today - timedelta(days=2)}")).text
    assert "No event matches." in farah.get(desk.url(f"{HERE}?since={today + timedelta(days=2)}")).text


@pytest.mark.parametrize("query", ["case=soon", "since=yesterday", "until=29.11.2026", "before=here"])
def test_a_filter_that_is_none_is_said_and_asks_nothing(desk: Desk, query: str) -> None:
    assert desk.at(desk.world.farah).ask("GET", desk.url(f"{HERE}?{query}")).status_code == 422


def test_pages_meet_without_a_gap_or_a_repeat(
    desk: Desk, paid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "PAGE_ROWS", 3)
    all_of_it, seen = [row["event_id"] for row in events_of(desk)], list[UUID]()
    key: UUID | None = None
    for _ in range(len(all_of_it)):
        found = read(desk, trail.Wanted(before=key))
        seen += [row.event_id for row in found.rows]
        key = found.older
        if key is None:
            break
    assert seen == all_of_it
    assert len(all_of_it) > 3
    newest = desk.at(desk.world.farah).get(desk.url(HERE))
    (older,) = [link for link in newest.links if "before=" in link]
    assert "Newest" in desk.at(desk.world.farah).get(older).text


def read(desk: Desk, wanted: trail.Wanted) -> trail.TrailPage:
    with transaction(desk.stack.console, desk.world.merchant_id, read_only=True) as db:
        return trail.read_trail(db, desk.world.merchant_id, wanted)


def test_a_filter_looks_at_so_many_events_and_says_where_it_stopped(
    desk: Desk, paid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "LOOKED_AT", 2)
    farah, every = desk.at(desk.world.farah), events_of(desk)
    oldest = (every[-1]["kind"],)

    first = read(desk, trail.Wanted(kinds=oldest))
    assert first.rows == ()
    assert first.looked_back_to is not None
    key, steps, found = first.older, 1, first
    while not found.rows:
        found = read(desk, trail.Wanted(kinds=oldest, before=key))
        key, steps = found.older, steps + 1
        assert steps <= len(every)
    assert [row.event_id for row in found.rows] == [every[-1]["event_id"]]
    assert steps > 2
    page = farah.get(desk.url(f"{HERE}?kind=evidence"))
    assert "Nothing such since then." in page.text
    assert "Look further back" in page.text


def test_an_edited_event_is_named_on_the_page_with_what_that_means(desk: Desk, paid: dict[str, Any]) -> None:
    number = next(row["number"] for row in events_of(desk) if row["kind"] == "intent.approved")
    as_administrator(desk.stack, "UPDATE events SET reason = 'by phone' WHERE kind = 'intent.approved'")

    page = desk.at(desk.world.mara).get(desk.url(HERE))

    assert f"The chain of C-{paid['number']} is broken. Event {number} is not as it was written" in page.text
    assert "1 of 1 broken" in page.text
    alone = desk.at(desk.world.mara).get(desk.url(f"{HERE}?case={paid['number']}&kind=evidence")).text
    assert f"breaks at event {number} of" in alone


def test_a_tail_that_was_cut_is_named_although_no_event_of_it_is_left(desk: Desk, paid: dict[str, Any]) -> None:
    last = as_administrator(desk.stack, "SELECT head_number AS n FROM cases")[0]["n"]
    as_administrator(desk.stack, "DELETE FROM events WHERE number = %s", last)

    page = desk.at(desk.world.mara).get(desk.url(f"{HERE}?case={paid['number']}"))

    assert f"breaks at event {last} of {last}" in page.text


def test_what_the_night_found_is_said_with_its_time(desk: Desk, paid: dict[str, Any]) -> None:
    as_administrator(
        desk.stack, "INSERT INTO self_checks (merchant_id, night, checked_at, faults)"
        " VALUES (%s, '2026-03-04', '2026-03-04 04:10Z', 1)", desk.world.merchant_id,
    )  # fmt: skip
    as_administrator(
        desk.stack, "INSERT INTO alarms (merchant_id, alarm_id, kind, text) VALUES (%s, gen_random_uuid(), 'self_check_chain',"
        " 'The ledger does not agree with itself: chain, 1 found, first case C-20007')", desk.world.merchant_id,
    )  # fmt: skip

    page = desk.at(desk.world.farah).get(desk.url(HERE))

    assert "A check found a broken chain." in page.text
    assert "first case C-20007" in page.text
    assert "1 fault, see the alarms" in page.text


@pytest.mark.parametrize("who", ["priya", "rita", "ada"])
def test_the_trail_is_for_managers_and_finance(desk: Desk, paid: dict[str, Any], who: str) -> None:
    assert desk.at(getattr(desk.world, who)).ask("GET", desk.url(HERE)).status_code == 403
    if who == "priya":
        assert "/trail/" not in "".join(desk.at(desk.world.priya).get(desk.case(paid["case_id"])).links)


def test_a_case_leads_to_its_trail(desk: Desk, paid: dict[str, Any]) -> None:
    links = desk.at(desk.world.mara).get(desk.case(paid["case_id"])).links
    (link,) = [one for one in links if "/trail/?case=" in one]
    assert f"Chain of C-{paid['number']}" in desk.at(desk.world.mara).get(link).text


def test_nothing_of_another_merchant_is_read(desk: Desk, paid: dict[str, Any]) -> None:
    lantern = build_world(desk.stack, "lantern")
    neema = desk.at(lantern.farah)

    assert neema.ask("GET", desk.url(HERE)).status_code == 404
    there = neema.get(desk.url(HERE, lantern)).text
    assert "Nothing has happened yet." in there
    # Their address, our case, our person, our event.
    for query in (
        f"case={paid['number']}",
        f"person={desk.world.priya.staff_id}",
        f"before={UUID(int=(1 << 128) - 1)}",
    ):
        text = neema.get(desk.url(f"{HERE}?{query}", lantern)).text
        assert "Opened through" not in text
        assert "approved" not in text.split("Everything that happened")[1].split("Looking")[0]


def test_every_kind_of_the_timeline_is_found_by_one_word_for_it() -> None:
    listed = [kind for _, kinds in SORTS.values() for kind in kinds]
    assert sorted(listed) == sorted(timeline._KINDS)


def test_a_day_is_the_merchants_and_not_the_servers(desk: Desk, paid: dict[str, Any]) -> None:
    """Half past midnight in London's summer is still yesterday in UTC."""
    at = datetime(2026, 6, 10, 0, 30, tzinfo=ZoneInfo("Europe/London"))
    as_administrator(desk.stack, "UPDATE events SET at = %s", at)

    shown = read_since(desk, datetime(2026, 6, 10, tzinfo=ZoneInfo("Europe/London")))

    assert len(shown) == len(events_of(desk))
    assert read_since(desk, datetime(2026, 6, 11, tzinfo=ZoneInfo("Europe/London"))) == []


def read_since(desk: Desk, since: datetime) -> list[trail.TrailRow]:
    return list(read(desk, trail.Wanted(since=since)).rows)


def test_a_page_is_a_range_of_an_index_whatever_is_asked_for(desk: Desk, paid: dict[str, Any]) -> None:
    """With a table scan made dear, as it is among ten million events, none is left in the plan."""
    keys = {"m": desk.world.merchant_id, "before": UUID(int=(1 << 128) - 1), "floor": UUID(int=0), "case": None}
    filters = {"actor": "system", "kinds": ["intent.approved"], "since": None, "until": None, "most": 51}
    with transaction(desk.stack.console, desk.world.merchant_id, read_only=True) as db:
        rows(db, "SELECT set_config('enable_seqscan', 'off', true)")
        page = [row["QUERY PLAN"] for row in rows(db, f"EXPLAIN {trail._PAGE}", **keys, **filters)]
        stop = [row["QUERY PLAN"] for row in rows(db, f"EXPLAIN {trail._STOP}", **keys, looked=50)]
    for plan in ("\n".join(page), "\n".join(stop)):
        assert "Index" in plan
        assert "Seq Scan on events" not in plan
