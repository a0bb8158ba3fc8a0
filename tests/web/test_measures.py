"""Metrics: what a period brought and how it was decided, in business days of the merchant, beside what is open now."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from console import charts, measure_cards
from ledger.database import rows, transaction
from ledger.ids import first_id, ids_between, uuid7
from ledger.queries import measures
from ledger.queries.measures import Measures, Period, read_measures
from tests import lives
from tests.refunds import as_administrator
from tests.web.desk import Desk
from tests.web.test_counter import at_order
from tests.web.test_exports import around_now, taken
from tests.world import build_world

HERE = "/metrics/"
LONDON = ZoneInfo("Europe/London")


@pytest.fixture
def paid(desk: Desk) -> dict[str, Any]:
    """A return that Priya approved and that was paid."""
    one = lives.propose(desk.stack, desk.world)
    desk.pay(one["intent_id"])
    return dict(one)


def read(desk: Desk, *, days: int = 7) -> Measures:
    today = desk.rows("SELECT now() AS at")[0]["at"].astimezone(LONDON).date()
    first = today - timedelta(days=days - 1)
    begins, ends = (datetime(day.year, day.month, day.day, tzinfo=LONDON) for day in (first, today + timedelta(days=1)))
    with transaction(desk.stack.console, desk.world.merchant_id, read_only=True) as db:
        return read_measures(db, desk.world.merchant_id, Period(first, today, begins, ends, "Europe/London"))


def number(found: list[Any], **like: Any) -> int:
    return sum(row["number"] for row in found if all(row[name] == value for name, value in like.items()))


def test_a_shop_where_nothing_happened_says_so_and_leads_to_the_days_before(desk: Desk) -> None:
    page = desk.at(desk.world.mara).get(desk.url(HERE))

    assert "Nothing happened in these days." in page.text
    assert "No case is open." in page.text
    assert 'role="img"' not in page.html.split('id="main"')[1]


def test_one_decision_shows_in_every_figure_it_belongs_to(desk: Desk, paid: dict[str, Any]) -> None:
    found = read(desk)

    assert number(found.opened) == 1
    assert [
        (row["actor"], row["number"], row["decided"], row["in_time"], row["overridden"]) for row in found.approved
    ] == [(desk.world.priya.actor, 1, 1, 1, 0)]
    assert {row["currency"]: row["used_minor"] for row in found.caps if row["used_minor"]} == {
        "GBP": paid["amount_minor"]
    }
    assert found.names[desk.world.priya.actor] == "Priya Raman"
    page = desk.at(desk.world.farah).get(desk.url(HERE))
    assert "1 case was opened and 1 decided." in page.text
    assert "Priya Raman" in page.text
    assert "100 %" in page.text


def test_a_late_decision_a_rejection_and_another_amount_are_told_apart(desk: Desk, paid: dict[str, Any]) -> None:
    as_administrator(desk.stack, "UPDATE cases SET due_at = opened_at - interval '1 hour'")
    with desk.stack.admin() as db:
        db.execute("SET session_replication_role = replica")
        db.execute("UPDATE intents SET computed_minor = amount_minor + 1, override_id = intent_id, route = 'manager'")
    other = lives.open_case(desk.stack, desk.world, (("LAMP", 1),), reference="chat-2")
    priya = desk.at(desk.world.priya)
    form = priya.get(f"{desk.case(other.case_id)}/rejection").form("/rejection")
    priya.submit(form, reason="not_returned")

    found = read(desk)

    assert [(row["decided"], row["in_time"], row["overridden"]) for row in found.approved] == [(1, 0, 1)]
    assert [(row["actor"], row["number"], row["in_time"]) for row in found.rejected] == [(desk.world.priya.actor, 1, 1)]
    page = desk.at(desk.world.mara).get(desk.url(HERE)).text
    assert "In time: 1 of 2 decisions." in page
    assert "50 %" in page


def test_a_decision_belongs_to_the_merchants_day(desk: Desk, paid: dict[str, Any]) -> None:
    """Half past midnight in London's summer is still yesterday in UTC."""
    at = datetime(2026, 6, 9, 23, 30, tzinfo=UTC)
    as_administrator(desk.stack, "UPDATE approvals SET approved_at = %s, approval_id = %s", at, first_id(at))
    as_administrator(desk.stack, "UPDATE cases SET opened_at = %s", at)

    page = desk.at(desk.world.mara).get(desk.url(f"{HERE}?days=7&until=2026-06-10")).html
    before = desk.at(desk.world.mara).get(desk.url(f"{HERE}?days=7&until=2026-06-09")).text

    row = page.split('<th scope="row" class="nowrap">10 Jun</th>')[1].split("</tr>")[0]
    assert row.count(">1</td>") == 2
    assert "Nothing happened in these days." in before


def test_what_was_asked_twice_and_what_was_stale_are_counted_where_they_were_refused(
    desk: Desk, paid: dict[str, Any]
) -> None:
    """At the counter the same units again, refunded already; at the sheet an amount that changed under it."""
    world, lamp = desk.world, lives.propose(desk.stack, desk.world, (("LAMP", 1),), reference="chat-2")
    desk.pay(lamp["intent_id"])
    priya, form = at_order(desk)
    assert "Already refunded." in priya.submit(form, status=409, quantity_2="1", reason="size").text

    again = lives.propose(desk.stack, world, (("TEE", 1),), reference="chat-3", relation="separate")
    sheet = desk.confirm(world.priya, again["intent_id"])
    sheet.values["fingerprint"] = "00" * 32
    assert priya.send(sheet).status_code == 409

    found = desk.rows("SELECT kind, actor FROM refused_acts WHERE merchant_id = :m ORDER BY refusal_id")
    assert [(row["kind"], row["actor"]) for row in found] == [
        ("already_refunded", world.priya.actor),
        ("stale", world.priya.actor),
    ]
    figures = read(desk)
    assert number(figures.refused, kind="already_refunded") == 1
    assert number(figures.refused, kind="stale") == 1
    assert "1 refused, 0 joined" in desk.at(world.mara).get(desk.url(HERE)).text


def test_a_conversation_that_joined_counts_as_asked_twice(desk: Desk) -> None:
    lives.open_case(desk.stack, desk.world)
    lives.open_case(desk.stack, desk.world, reference="voice-1", channel="voice", relation="existing")
    assert number(read(desk).refused, kind="joined") == 1


def test_what_is_open_and_unknown_now_falls_into_brackets_by_age(desk: Desk, paid: dict[str, Any]) -> None:
    lives.open_case(desk.stack, desk.world, (("LAMP", 1),), reference="chat-2")
    as_administrator(desk.stack, "UPDATE cases SET opened_at = now() - interval '4 days' WHERE closed_at IS NULL")
    as_administrator(desk.stack, "UPDATE intents SET state = 'unknown', state_at = now() - interval '2 hours'")

    found = read(desk)

    assert {row["bracket"]: row["number"] for row in found.ages} == {2: 1}
    assert [(row["bracket"], row["state"], row["number"]) for row in found.unknown] == [(2, "unknown", 1)]
    assert len(measures.AGE_DAYS) + 1 == len(measure_cards._AGES)
    assert len(measures.UNKNOWN_MINUTES) + 1 == len(measure_cards._UNKNOWN)


def test_a_period_of_more_rows_than_are_read_says_that_not_all_is_counted(
    desk: Desk, paid: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Not all of it is counted." not in desk.at(desk.world.mara).get(desk.url(HERE)).text
    monkeypatch.setattr(measures, "MOST_READ", 1)
    assert "Not all of it is counted." in desk.at(desk.world.mara).get(desk.url(HERE)).text


@pytest.mark.parametrize(
    "query", ["days=8", "days=x", "until=soon", "until=9999-12-31", "until=0001-01-01", "days=91&until=2026-02-30"]
)
def test_an_address_that_names_no_period_shows_the_usual_or_the_nearest(shared_desk: Desk, query: str) -> None:
    assert "Metrics" in shared_desk.at(shared_desk.world.mara).get(shared_desk.url(f"{HERE}?{query}")).title


@pytest.mark.parametrize("who", ["priya", "rita", "ada"])
def test_metrics_are_for_managers_and_finance(shared_desk: Desk, who: str) -> None:
    assert shared_desk.at(getattr(shared_desk.world, who)).ask("GET", shared_desk.url(HERE)).status_code == 403


def test_nothing_of_another_merchant_is_counted(desk: Desk, paid: dict[str, Any]) -> None:
    lantern = build_world(desk.stack, "lantern")
    page = desk.at(lantern.mara).get(desk.url(HERE, lantern))
    assert "Nothing happened in these days." in page.text
    assert desk.at(lantern.mara).ask("GET", desk.url(HERE)).status_code == 404


def test_the_figures_leave_as_rows(desk: Desk, paid: dict[str, Any]) -> None:
    found = {(row["measure"], row["who"] or row["currency"]): row for row in taken(desk, "metrics", **around_now(desk))}

    assert found["approved", "Priya Raman"]["number"] == "1"
    assert found["approved in time", "Priya Raman"]["of"] == "1"
    cap = found["cap used", "GBP"]
    assert cap["number"] == str(paid["amount_minor"])
    assert cap["number_decimal"] == f"{paid['amount_minor'] / 100:.2f}"


def test_every_statement_walks_an_index_and_not_a_table(desk: Desk, paid: dict[str, Any]) -> None:
    """With a table scan made dear, as it is among a million rows, none is left in the plan of a growing table."""
    today = desk.rows("SELECT now() AS at")[0]["at"].astimezone(LONDON)
    period = Period(today.date(), today.date(), today - timedelta(days=1), today, "Europe/London")
    values = measures.values_of(desk.world.merchant_id, period)
    scanned = {}
    with transaction(desk.stack.console, desk.world.merchant_id, read_only=True) as db:
        rows(db, "SELECT set_config('enable_seqscan', 'off', true)")
        for name, sql in measures._STATEMENTS.items():
            plan = "\n".join(row["QUERY PLAN"] for row in rows(db, f"EXPLAIN {sql}", **values))
            scanned[name] = [table for table in ("cases", "approvals", "events", "overrides", "intents", "conversations") if
                             f"Seq Scan on {table} " in plan]  # fmt: skip
    assert scanned == {name: [] for name in measures._STATEMENTS}


def drawn(values: list[list[int]], **more: Any) -> charts.Chart:
    return charts.bars([str(n) for n in range(len(values))], ["a"] * len(values[0]), values, "says", **more)


@pytest.mark.parametrize(
    ("most", "top", "ticks"),
    [(0, 1, 2), (1, 1, 2), (3, 3, 4), (4, 4, 5), (5, 6, 4), (17, 20, 5), (100, 100, 3), (999, 1000, 3)],
)
def test_a_scale_holds_the_largest_in_few_round_steps(most: int, top: int, ticks: int) -> None:
    found = charts.scale(most)
    assert found[0] == top
    assert len(found[1]) == ticks
    assert found[1][0] == top >= most
    assert found[1][-1] == 0


def test_bars_stand_on_the_ground_inside_the_box_and_never_on_each_other() -> None:
    chart = drawn([[1, 0, 7], [2, 5, 0]])
    assert {bar.y + bar.height for bar in chart.bars} == {charts.SIDE}
    spans = sorted((bar.x, bar.x + bar.width) for bar in chart.bars)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    assert 0 <= spans[0][0] < spans[-1][1] <= charts.SIDE
    stacked = drawn([[1, 0, 7], [2, 5, 0]], stacked=True)
    pile = [bar for bar in stacked.bars if bar.x == stacked.bars[0].x]
    assert pile[0].y == pile[1].y + pile[1].height


def test_a_line_goes_through_the_middle_of_each_place() -> None:
    chart = charts.lines(["one"], [[0, 4, 2]], "says", ["a"])
    assert chart.lines[0].path == "M166 1000L500 0L833 500"
    assert chart.stretched
    assert not charts.lines(["one"], [[0]], "says", ["a"]).stretched


def test_a_share_stands_on_a_scale_to_a_hundred_at_least() -> None:
    assert drawn([[7]], least_top=100).ticks == (100, 50, 0)


def test_ids_of_a_period_hold_every_id_of_it() -> None:
    at = datetime(2026, 6, 10, tzinfo=UTC)
    floor, ceiling = ids_between(at, at + timedelta(days=1))
    assert floor < first_id(at) < UUID(int=first_id(at + timedelta(hours=23)).int) < ceiling
    assert first_id(at - timedelta(minutes=2)) < floor
    assert first_id(at + timedelta(days=1, minutes=2)) > ceiling
    everything = ids_between(None, None)
    assert everything[0] < uuid7() < everything[1]
