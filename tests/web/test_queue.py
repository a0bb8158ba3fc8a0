"""The queue: views and filters in the address, pages by a key, capped counts, and a part that says what is new."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from ledger.database import transaction
from tests import lives
from tests.refunds import as_administrator
from tests.web.desk import Desk
from tests.web.pages import Browser, Page
from tests.world import Person, add_order

# A view of the queue, with its counts, and what the gate asks of each request.
MOST_STATEMENTS = 13
# Ties in due time and age, so that only the id after them tells two cases apart.
MANY = """
    INSERT INTO cases (merchant_id, case_id, order_id, customer_id, reason, opened_by, channel, opened_at, due_at, stage,
        currency, summary, announced)
    SELECT %s, gen_random_uuid(), %s, %s, 'size', %s, CASE WHEN n %% 2 = 0 THEN 'chat' ELSE 'counter' END,
        now() - (n / 7) * interval '1 hour', now() + (n / 9) * interval '1 hour' - interval '2 hours',
        CASE WHEN n %% 5 = 0 THEN 'ready' ELSE 'waiting_goods' END, 'GBP', '1 of 3 · T-shirt', 1
    FROM generate_series(1, %s) n
"""


def many(desk: Desk, count: int) -> None:
    world = desk.world
    as_administrator(desk.stack, MANY, world.merchant_id, world.order.order_id, world.ilse, world.chat.actor, count)


def references(page: Page) -> list[str]:
    return [word for word in page.text.split() if word.startswith("C-2")]


def walk(browser: Browser, page: Page, label: str) -> list[list[str]]:
    """The references of this page and of every page that `label` leads to."""
    found = [references(page)]
    while link := next((link for link in page.links if f"{label}=" in link), None):
        page = browser.get(link)
        found.append(references(page))
    return found


@pytest.mark.parametrize("sort", ["due", "oldest", "newest"])
def test_pages_visit_each_case_exactly_once_forth_and_back(desk: Desk, sort: str) -> None:
    many(desk, 130)
    priya = desk.at(desk.world.priya)
    forth = walk(priya, priya.get(desk.url(f"/queue/?sort={sort}")), "after")
    assert [len(page) for page in forth] == [50, 50, 30]
    seen = [reference for page in forth for reference in page]
    assert len(set(seen)) == 130
    column = {"due": "due_at, case_id", "oldest": "opened_at, case_id", "newest": "opened_at DESC, case_id DESC"}[sort]
    ordered = desk.rows(f"SELECT number FROM cases WHERE merchant_id = :m ORDER BY {column}")  # noqa: S608
    assert seen == [f"C-{row['number']}" for row in ordered]
    back = walk(priya, priya.shown, "before")
    assert list(reversed(back)) == forth


def test_a_case_that_leaves_while_somebody_pages_skips_nobody(desk: Desk) -> None:
    many(desk, 60)
    priya = desk.at(desk.world.priya)
    first = priya.get(desk.url("/queue/"))
    as_administrator(desk.stack, "UPDATE cases SET closed_at = now() WHERE number = %s", int(references(first)[0][2:]))
    second = priya.get(next(link for link in first.links if "after=" in link))
    assert len(references(second)) == 10
    assert not set(references(first)) & set(references(second))


def test_each_view_counts_and_shows_what_it_says(desk: Desk) -> None:
    many(desk, 40)
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url("/queue/"))
    for words in ("All open 40", "Ready 8", "Waiting on warehouse 32", "Held 0", "Unknown 0"):
        assert words in page.text, words
    late = len(desk.rows("SELECT 1 FROM cases WHERE merchant_id = :m AND due_at < now()"))
    assert len(references(priya.get(desk.url("/queue/?view=late")))) == late > 0
    assert len(references(priya.get(desk.url("/queue/?view=ready")))) == 8
    assert "Nothing is held." in priya.get(desk.url("/queue/?view=held")).text


def test_counts_stop_at_five_hundred(desk: Desk) -> None:
    many(desk, 505)
    page = desk.at(desk.world.priya).get(desk.url("/queue/"))
    assert "All open 500+" in page.text
    assert "1–50 of 500+" in page.text


def test_filters_narrow_together_and_stay_in_the_addresses(desk: Desk) -> None:
    many(desk, 120)
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url("/queue/?view=warehouse&channel=chat&received=no&reason=size"))
    expected = desk.rows("SELECT 1 FROM cases WHERE merchant_id = :m AND stage = 'waiting_goods' AND channel = 'chat'")
    assert f"of {len(expected)}" in page.text
    assert len(references(page)) == min(50, len(expected))
    assert references(priya.get(desk.url("/queue/?reason=faulty"))) == []
    assert "Clear the filters" in priya.shown.text


def test_a_case_is_found_by_its_number_its_order_and_its_customer(desk: Desk) -> None:
    opened = lives.open_case(desk.stack, desk.world)
    other = add_order(desk.stack, desk.world, "B-777", customer_id=desk.world.omar)
    omar = lives.open_case(desk.stack, desk.world, order_ref=other.external_ref, reference="chat-9")
    priya = desk.at(desk.world.priya)
    for text, number in (
        ("C-20001", opened.number),
        ("20002", omar.number),
        ("B-7", omar.number),
        ("ilse br", opened.number),
    ):
        page = priya.get(desk.url(f"/queue/search?q={text}"))
        assert references(page) == [f"C-{number}"], text
    assert references(priya.get(desk.url("/queue/search?q=%25"))) == []


def test_a_reader_sees_initials_and_does_not_search_by_name(desk: Desk) -> None:
    lives.open_case(desk.stack, desk.world)
    rita = desk.at(desk.world.rita)
    page = rita.get(desk.url("/queue/"))
    assert "I. B." in page.text
    assert "Brandt" not in page.html
    assert references(rita.get(desk.url("/queue/?q=ilse"))) == []


@pytest.mark.parametrize("text", ["'; DROP TABLE cases; --", "%", "_", "\\", "C-99999999999999999999", "\u202e", "0"])
def test_what_is_typed_is_a_value_and_nothing_else(desk: Desk, text: str) -> None:
    lives.open_case(desk.stack, desk.world)
    page = desk.at(desk.world.priya).get(
        desk.url("/queue/"), query_string={"q": text, "sort": text, "view": text, "stage": text}
    )
    assert references(page) == []
    assert desk.count("cases") == 1


def test_a_broken_place_in_the_address_is_said_in_words(desk: Desk) -> None:
    answer = desk.at(desk.world.priya).ask("GET", desk.url("/queue/?after=yesterday_x"))
    assert answer.status_code == 422
    assert "open the view again" in answer.text


def test_new_cases_wait_behind_a_link_and_move_nothing(desk: Desk) -> None:
    lives.open_case(desk.stack, desk.world)
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url("/queue/"))
    fresh = page.html.partition('id="fresh" hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    poll = {"Onceback-Poll": "1"}
    assert "Show" not in priya.part(fresh, **poll).text
    other = add_order(desk.stack, desk.world, "B-1")
    lives.open_case(desk.stack, desk.world, order_ref=other.external_ref, reference="chat-2")
    part = priya.part(fresh, **poll)
    assert "Show 1 new" in part.text
    assert "<table" not in part.text
    assert "Show 1 new" not in priya.part(fresh.replace("view=open", "view=ready"), **poll).text
    assert "<html" in priya.ask("GET", fresh).text


def test_a_poll_does_not_keep_the_session_alive(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    priya.get(desk.url("/queue/"))
    aged(desk, desk.world.priya)
    before = seen_at(desk, desk.world.priya)
    priya.part(desk.url("/queue/fresh"), **{"Onceback-Poll": "1"})
    priya.part(desk.url("/queue/fresh"))
    assert seen_at(desk, desk.world.priya) == before
    priya.get(desk.url("/queue/"))
    assert seen_at(desk, desk.world.priya) > before + timedelta(minutes=4)


def aged(desk: Desk, person: Person) -> None:
    with transaction(desk.stack.owner) as db:
        db.exec_driver_sql(
            "UPDATE sessions SET seen_at = seen_at - interval '5 minutes' WHERE staff_id = %s", (person.staff_id,)
        )


def seen_at(desk: Desk, person: Person) -> datetime:
    at: datetime = desk.rows("SELECT max(seen_at) AS at FROM sessions WHERE staff_id = :s", s=person.staff_id)[0]["at"]
    return at


@contextmanager
def statements_of_the_ledger() -> Iterator[list[object]]:
    """What this process asks the database meanwhile; it does so by psycopg's cursors."""
    heard: list[object] = []
    execute = psycopg.RawCursor.execute

    def hear(cursor: Any, statement: Any, *rest: Any, **more: Any) -> Any:
        heard.append(statement)
        return execute(cursor, statement, *rest, **more)

    with patch.object(psycopg.RawCursor, "execute", hear):
        yield heard


def test_a_page_of_the_queue_is_few_statements_whatever_is_in_it(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    figures = []
    for count in (1, 200):
        many(desk, count)
        with statements_of_the_ledger() as statements:
            priya.get(desk.url("/queue/"))
        figures.append(len(statements))
    assert 0 < figures[0] == figures[1] <= MOST_STATEMENTS, figures


def next_of(desk: Desk, person: Person, after: object = None) -> str:
    """Where "next case" leads this person."""
    browser = desk.at(person)
    form = browser.get(desk.url("/queue/")).form("/queue/next")
    form.action = desk.url("/queue/next" + (f"?after={after}" if after else ""))
    return browser.send(form).headers["Location"]


def test_next_case_leads_to_what_this_person_may_approve(desk: Desk) -> None:
    own = lives.propose(desk.stack, desk.world, channel="counter", actor=desk.world.priya.actor)
    other = lives.propose(desk.stack, desk.world, (("LAMP", 1),), reference="chat-2")
    as_administrator(desk.stack, "UPDATE cases SET due_at = now() WHERE case_id = %s", own["case_id"])
    assert next_of(desk, desk.world.priya).endswith(f"/cases/{other['case_id']}")
    assert next_of(desk, desk.world.tobias).endswith(f"/cases/{own['case_id']}")
    # The other one is in Priya's hand now.
    assert next_of(desk, desk.world.tobias, own["case_id"]).endswith("/queue/?view=ready")
    assert "No ready case is left for you here." in desk.at(desk.world.tobias).get(desk.url("/queue/?view=ready")).text
    assert next_of(desk, desk.world.priya, other["case_id"]).endswith("/queue/?view=ready")
    assert next_of(desk, desk.world.tobias, own["case_id"]).endswith(f"/cases/{other['case_id']}")
    assert next_of(desk, desk.world.tobias, other["case_id"]).endswith("/queue/?view=ready")
