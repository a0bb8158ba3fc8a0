"""A view of the queue costs as its rows do and not as the table: no statement of the queue reads all cases, whatever is asked.

Over 100,000 cases, most of them closed as in any shop, in the plan that is made for these values and in the one for any.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from psycopg import sql as quoting
from sqlalchemy import Connection

from ledger import database, leases
from ledger.database import transaction
from ledger.queries import queue, teamwork
from ledger.queries.queue import SORTS, VIEWS, Key, Wanted, count_new, count_page, count_views, read_page
from tests.emptied import Lender
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, build_world

CASES = 100_000
_FILL = """
    INSERT INTO cases (merchant_id, case_id, order_id, customer_id, reason, opened_by, channel, opened_at, due_at, closed_at, stage,
        currency, summary, announced, contradictions, assigned_to, snoozed_until, snooze_reason)
    SELECT %s, gen_random_uuid(), md5('order' || n %% 20000)::uuid, md5('customer' || n %% 20000)::uuid,
        (ARRAY['size', 'faulty', 'damaged', 'other'])[1 + n %% 4], %s,
        (ARRAY['chat', 'voice', 'counter'])[1 + n %% 3], now() - n * interval '5 minutes',
        now() + (n %% 20000 - 2000) * interval '10 minutes',
        CASE WHEN n > 20000 THEN now() END,
        CASE WHEN n > 20000 THEN 'paid' ELSE (ARRAY['ready', 'waiting_goods', 'held', 'needs_person', 'unknown'])[1 + n %% 5] END,
        'GBP', '1 of 3 · T-shirt', 1, (n %% 50 = 0)::int, CASE WHEN n %% 4 = 0 THEN %s::uuid WHEN n %% 4 = 1 THEN %s::uuid END,
        CASE WHEN n %% 40 = 0 THEN now() + interval '2 days' END, CASE WHEN n %% 40 = 0 THEN 'parcel' ELSE '' END
    FROM generate_series(1, %s) n
"""
# As many orders and customers as a shop with so many cases has, each like the first.
_COPY = """
    INSERT INTO {table} SELECT (jsonb_populate_record(t.one, jsonb_build_object('{key}', md5('{one}' || n)::uuid,
        'external_ref', 'ref-' || n, '{what}', '{one}-' || n))).* FROM (SELECT r AS one FROM {table} r LIMIT 1) t,
        generate_series(0, 19999) n
"""
_TEAM = """
    INSERT INTO case_tags (merchant_id, case_id, tag, staff_id) SELECT merchant_id, case_id, 'tag-' || number %% 9, %(me)s
        FROM cases WHERE number %% 10 = 0;
    INSERT INTO case_leases (merchant_id, case_id, staff_id, until) SELECT merchant_id, case_id, %(me)s, now() + interval '1 day'
        FROM cases WHERE closed_at IS NULL AND number %% 500 = 0;
    INSERT INTO notes (merchant_id, note_id, case_id, staff_id, text) SELECT merchant_id, case_id, case_id, %(me)s, 'seen'
        FROM cases WHERE number %% 50 = 0;
    INSERT INTO mentions (merchant_id, note_id, staff_id, case_id) SELECT merchant_id, note_id, %(me)s, case_id FROM notes
"""


@pytest.fixture(scope="module")
def stack(lender: Lender) -> Iterator[Stack]:
    with lender.lend() as lent:
        yield lent


@pytest.fixture(scope="module")
def world(stack: Stack) -> World:
    made = build_world(stack)
    for table, key, what in (("orders", "order_id", "external_ref"), ("customers", "customer_id", "name")):
        as_administrator(stack, _COPY.format(table=table, key=key, what=what, one=key.removesuffix("_id")))
    as_administrator(
        stack, _FILL, made.merchant_id, made.chat.actor, made.priya.staff_id, made.tobias.staff_id, CASES,
    )  # fmt: skip
    with stack.past_guards() as db:
        for statement in _TEAM.split(";"):
            db.execute(statement.encode(), {"me": made.priya.staff_id})
    with stack.admin() as db:
        db.execute("ANALYZE")
    return made


class Plans:
    """Stands in for the ledger's reading of rows: keeps the plans of every statement that is asked for."""

    def __init__(self, db: Connection) -> None:
        self.db, self.found, self._numbers = db, dict[str, Any](), itertools.count(1)

    def rows(self, db: Connection, statement: str, /, **values: Any) -> list[Any]:
        text, names = database._translated(statement)
        raw: Any = db.connection.dbapi_connection
        literals = ", ".join(quoting.quote(values[name], raw) for name in names)
        name = f"q{next(self._numbers)}"
        raw.execute(f"PREPARE {name} AS {text.decode()}")
        for mode in ("force_custom_plan", "force_generic_plan"):
            raw.execute(f"SET LOCAL plan_cache_mode = {mode}")
            plan = raw.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {name}({literals})").fetchone()[0]
            self.found[f"{mode} {len(self.found)}"] = plan if isinstance(plan, list) else json.loads(plan)
        raw.execute(f"DEALLOCATE {name}")
        return []

    def first(self, db: Connection, statement: str, /, **values: Any) -> Any:
        self.rows(db, statement, **values)
        return database.first(db, statement, **values)

    def scalar(self, db: Connection, statement: str, /, **values: Any) -> Any:
        self.rows(db, statement, **values)
        return database.scalar(db, statement, **values)


@pytest.fixture
def plans(stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plans]:
    with transaction(stack.console, world.merchant_id) as db:
        made = Plans(db)
        for module in (queue, leases, teamwork):
            for name in ("rows", "first", "scalar"):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, getattr(made, name))
        yield made


def read_whole(plan: Any, table: str = "cases") -> list[str]:
    """The places of a plan that read a whole table, or a whole index of it."""
    if isinstance(plan, list):
        return [hit for part in plan for hit in read_whole(part, table)]
    if not isinstance(plan, dict):
        return []
    found = [hit for part in plan.values() for hit in read_whole(part, table)]
    if plan.get("Relation Name") == table and plan.get("Node Type") == "Seq Scan":
        found.append(f"{plan['Node Type']} {plan.get('Filter', '')}")
    return found


def wanted(world: World, view: str, **changes: Any) -> Wanted:
    return Wanted(view, "Europe/London", world.priya.staff_id, **changes)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("view", VIEWS)
def test_no_page_of_a_view_reads_all_cases(plans: Plans, world: World, view: str, sort: Any) -> None:
    place = database.first(plans.db, "SELECT due_at, opened_at, case_id FROM cases WHERE number = 30000")
    assert place is not None
    at = place["due_at"] if sort == "due" else place["opened_at"]
    for key in (None, Key(at, place["case_id"]), Key(at, place["case_id"], back=True)):
        read_page(plans.db, world.merchant_id, wanted(world, view, sort=sort), key)
    assert {name: read_whole(plan) for name, plan in plans.found.items() if read_whole(plan)} == {}


@pytest.mark.parametrize(
    "changes",
    [{"tag": "tag-1"}, {"assigned": UUID(int=7)}, {"assigned": "tobias"}, {"stage": "held"}, {"text": "C-20777"}, {"text": "777"}],
    ids=str,
)  # fmt: skip
def test_no_filter_and_no_count_reads_all_cases(plans: Plans, world: World, changes: dict[str, Any]) -> None:
    if changes.get("assigned") == "tobias":
        changes = {"assigned": world.tobias.staff_id}
    for view in ("open", "every"):
        read_page(plans.db, world.merchant_id, wanted(world, view, **changes))
        count_page(plans.db, world.merchant_id, wanted(world, view, **changes))
    assert {name: read_whole(plan) for name, plan in plans.found.items() if read_whole(plan)} == {}


def test_neither_the_counts_nor_what_is_new_nor_the_next_case_reads_all_cases(plans: Plans, world: World) -> None:
    m, me = world.merchant_id, world.priya.staff_id
    counts = count_views(plans.db, m, "Europe/London", me)
    assert counts.by_view["unassigned"] == counts.by_view["mine"] == 501
    count_new(plans.db, m, wanted(world, "mine"), UUID(int=1))
    leases.take_next(plans.db, m, me, None, managers=True)
    teamwork.teams(plans.db, m, [UUID(int=n) for n in range(50)])
    teamwork.known_tags(plans.db, m)
    assert len(plans.found) >= 10
    assert {name: read_whole(plan) for name, plan in plans.found.items() if read_whole(plan)} == {}
    assert {
        name: read_whole(plan, "case_tags") for name, plan in plans.found.items() if read_whole(plan, "case_tags")
    } == {}


def test_a_view_without_its_index_would_be_noticed(plans: Plans, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(queue.VIEWS, "mine", "c.summary || '' = 'no such'")
    monkeypatch.setitem(queue.SORTS, "due", ("c.amount_minor", "ASC"))
    read_page(plans.db, world.merchant_id, wanted(world, "mine"))
    assert any(read_whole(plan) for plan in plans.found.values())
