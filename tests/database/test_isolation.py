"""P13, S40–S43: with the application's checks out of the way, one merchant neither reads nor writes another's rows."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from ledger.database import connect, run, scalar, transaction
from tests.database import rows as put
from tests.database.conftest import As
from tests.database.filled import TENANT_TABLES, fill
from tests.stack import CONSOLE, OWNER, ROLES, WORKER, Server, Stack, fresh_stack, without
from tests.world import World, build_world

ROOT = Path(__file__).parents[2]
RUN_TIME = (CONSOLE, WORKER)
# A person's own memberships and a token's own row are read before a merchant is known.
BEFORE_A_TENANT = ("memberships", "api_tokens")


@pytest.fixture(scope="module")
def shared(server: Server) -> Iterator[Stack]:
    with fresh_stack(server) as made:
        for slug in ("harbour", "northwind"):
            fill(made, build_world(made, slug))
        yield made


@pytest.fixture(scope="module")
def tables(shared: Stack) -> list[str]:
    with shared.admin() as db:
        return [name for (name,) in db.execute(TENANT_TABLES).fetchall()]


@pytest.fixture(scope="module")
def ours(shared: Stack) -> str:
    return _id(shared, "harbour")


@pytest.fixture(scope="module")
def theirs(shared: Stack) -> str:
    return _id(shared, "northwind")


def _id(stack: Stack, slug: str) -> str:
    with stack.admin() as db:
        found = db.execute("SELECT id::text FROM merchants WHERE slug = %s", [slug]).fetchone()
    assert found is not None
    return str(found[0])


def _pinned(undone: As, role: str, merchant_id: str) -> Iterator[Connection]:
    with undone(role) as db:
        db.execute(text("SELECT set_config('onceback.merchant', :m, true)"), {"m": merchant_id})
        yield db


@pytest.fixture(params=ROLES)
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pinned(undone: As, role: str, ours: str) -> Iterator[Connection]:
    """A transaction of the role, pinned to Harbour."""
    yield from _pinned(undone, role, ours)


def _may(db: Connection, role: str, table: str, privilege: str) -> list[str]:
    """The columns of the table on which the role holds the privilege."""
    found = db.execute(
        text("SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(:t) AND attnum > 0 AND NOT attisdropped"
             " AND attgenerated = '' AND has_column_privilege(:r, attrelid, attnum, :p)"),
        {"t": table, "r": role, "p": privilege},
    )  # fmt: skip
    return [name for (name,) in found]


def test_both_merchants_have_rows_in_every_table_that_is_tried(
    shared: Stack, tables: list[str], ours: str, theirs: str
) -> None:
    with shared.admin() as db:
        empty = [
            (table, merchant)
            for table in tables
            for merchant in (ours, theirs)
            if db.execute(f"SELECT count(*) FROM {table} WHERE merchant_id = %s", [merchant]).fetchone() == (0,)  # noqa: S608
        ]

    assert len(tables) > 30
    assert empty == []


def test_no_row_of_another_merchant_is_read(pinned: Connection, role: str, tables: list[str], ours: str) -> None:
    seen = {
        table: scalar(pinned, f"SELECT count(*) FROM {table} WHERE merchant_id <> :m", m=ours)  # noqa: S608
        for table in tables
        if "merchant_id" in _may(pinned, role, table, "SELECT")
    }
    mine = {table: scalar(pinned, f"SELECT count(*) FROM {table} WHERE merchant_id = :m", m=ours) for table in seen}  # noqa: S608

    assert len(seen) >= 20
    assert set(seen.values()) == {0}
    assert min(mine.values()) > 0


def test_without_a_merchant_nothing_is_read_and_nothing_fails(undone: As, role: str, tables: list[str]) -> None:
    with undone(role) as db:
        seen = {
            table: scalar(db, f"SELECT count(*) FROM {table}")  # noqa: S608
            for table in tables
            if "merchant_id" in _may(db, role, table, "SELECT")
        }

    assert set(seen.values()) == {0}


@pytest.mark.parametrize("setting", ["not-a-merchant", "' OR true --", "*"])
def test_a_setting_that_is_no_merchant_opens_nothing(undone: As, setting: str) -> None:
    for pinned in _pinned(undone, CONSOLE, setting):
        with pytest.raises(DBAPIError, match="invalid input syntax for type uuid"):
            scalar(pinned, "SELECT count(*) FROM orders")


def _refusal(db: Connection, statement: str, **values: Any) -> str | None:
    """The SQLSTATE that a statement is refused with; None when it goes through. Undone either way."""
    savepoint = db.begin_nested()
    try:
        run(db, statement, **values)
    except DBAPIError as refusal:
        return str(getattr(refusal.orig, "sqlstate", "no state"))
    finally:
        savepoint.rollback()
    return None


# Row-level security. The tables whose triggers look at the row first refuse with a sentence of their own.
POLICY = "42501"
LOOKED_AT_FIRST = {
    "alarm_closings", "approval_entries", "approvals", "brake_answers", "brake_asks", "brake_pulls", "cap_days",
    "cap_entries", "case_items", "charge_claims", "disputes", "erasures", "exchanges", "exports",
    "order_settlement_answers", "order_settlements",
    "external_refunds", "intents", "manual_settlements",
    "outbox", "policy_answers", "policy_drafts",
    "recovered_cap_entries", "settlement_decisions", "settlements", "transfers",
}  # fmt: skip


def test_no_row_is_written_for_another_merchant(
    shared: Stack, pinned: Connection, role: str, tables: list[str], theirs: str
) -> None:
    """Each table gets a copy of a row of the other merchant, as somebody would insert who has seen one."""
    refused = {}
    for table in tables:
        columns = _may(pinned, role, table, "INSERT")
        if "merchant_id" not in columns:
            continue
        with shared.admin() as admin:
            row = admin.execute(f"SELECT to_jsonb(t)::text FROM {table} t WHERE merchant_id = %s", [theirs]).fetchone()  # noqa: S608
        assert row is not None
        names = ", ".join(columns)
        copied = f"SELECT {names} FROM jsonb_populate_record(NULL::{table}, CAST(:row AS jsonb))"  # noqa: S608
        refused[table] = _refusal(pinned, f"INSERT INTO {table} ({names}) {copied}", row=row[0])

    assert len(refused) >= 8
    assert None not in refused.values()
    assert {table for table, state in refused.items() if state != POLICY} <= LOOKED_AT_FIRST


def test_no_row_of_another_merchant_is_changed_or_removed(
    pinned: Connection, role: str, tables: list[str], theirs: str
) -> None:
    changed = {}
    for table in tables:
        for column in _may(pinned, role, table, "UPDATE"):
            readable = _may(pinned, role, table, "SELECT")
            if "merchant_id" in readable:
                # What a role writes over without reading it.
                value = column if column in readable else "DEFAULT"
                changed[f"{table}.{column}"] = run(
                    pinned, f"UPDATE {table} SET {column} = {value} WHERE merchant_id = :m", m=theirs  # noqa: S608
                )  # fmt: skip
        if role == OWNER:
            changed[table] = run(pinned, f"DELETE FROM {table} WHERE merchant_id = :m", m=theirs)  # noqa: S608

    assert len(changed) >= 10
    assert set(changed.values()) == {0}


def test_no_row_is_handed_to_another_merchant(undone: As, tables: list[str], ours: str, theirs: str) -> None:
    """The owner alone could try: no run-time role may update merchant_id."""
    give = "UPDATE {} SET merchant_id = :theirs WHERE merchant_id = :ours"
    for pinned in _pinned(undone, OWNER, ours):
        refused = {table: _refusal(pinned, give.format(table), ours=ours, theirs=theirs) for table in tables}

        assert None not in refused.values()
        assert [
            role for role in RUN_TIME for table in tables if "merchant_id" in _may(pinned, role, table, "UPDATE")
        ] == []


STOLEN: dict[str, Callable[[Connection, put.Intent, UUID], object]] = {
    "reserve": lambda db, intent, _: put.move(db, intent, "reserve"),
    "claim": lambda db, intent, line: put.claim(db, intent, line, 1),
    "count": lambda db, intent, _: put.count(db, intent),
    "say": lambda db, intent, _: put.say(db, intent, "proposed", "withdrawn"),
}


@pytest.mark.parametrize("step", STOLEN)
def test_the_triggers_that_run_as_the_owner_move_nothing_of_another_merchant(
    shared: Stack, undone: As, ours: str, theirs: str, step: str
) -> None:
    with shared.admin() as admin:
        found = admin.execute(
            "SELECT i.intent_id, i.case_id, i.capture_id, i.amount_minor, i.requester, i.case_opener, l.line_id"
            " FROM intents i JOIN order_lines l ON l.order_id = i.order_id AND l.line_ref = 'TEE'"
            " WHERE i.merchant_id = %s AND i.state = 'proposed'", [theirs],
        ).fetchone()  # fmt: skip
    assert found is not None
    intent_id, case_id, capture_id, minor, requester, opener, line_id = found
    for pinned in _pinned(undone, OWNER, ours):
        stolen = put.Intent(
            scalar(pinned, "SELECT CAST(:m AS uuid)", m=ours), intent_id, case_id, capture_id, minor, "GBP", requester, opener
        )  # fmt: skip
        with pytest.raises(DBAPIError):
            STOLEN[step](pinned, stolen, line_id)


def test_a_key_that_exists_elsewhere_and_one_that_does_not_exist_look_alike(
    shared: Stack, undone: As, ours: str, theirs: str
) -> None:
    with shared.admin() as admin:
        row = admin.execute("SELECT case_id::text FROM cases WHERE merchant_id = %s", [theirs]).fetchone()
    assert row is not None
    told = []
    for case_id in (row[0], "01a22bea-0000-7000-8000-000000000000"):
        for pinned in _pinned(undone, CONSOLE, ours):
            with pytest.raises(IntegrityError) as refusal:
                run(
                    pinned, "INSERT INTO conversations (merchant_id, conversation_id, case_id, channel, reference, actor,"
                    " joined) VALUES (:m, gen_random_uuid(), :c, 'chat', 'probe', 'token:x', false)", m=ours, c=case_id,
                )  # fmt: skip
            told.append(str(refusal.value.orig).replace(case_id, "that id"))

    assert told[0] == told[1]


def test_a_person_sees_their_own_memberships_and_a_token_its_own_row(shared: Stack, theirs: str) -> None:
    with shared.admin() as admin:
        staff = admin.execute("SELECT staff_id FROM memberships WHERE merchant_id = %s", [theirs]).fetchone()
        token = admin.execute("SELECT token_id FROM api_tokens WHERE merchant_id = %s", [theirs]).fetchone()
    assert staff is not None
    assert token is not None
    with transaction(shared.console, staff_id=staff[0], token_id=token[0]) as db:
        assert scalar(db, "SELECT count(*) FROM memberships") == 1
        assert scalar(db, "SELECT count(*) FROM api_tokens") == 1
        assert scalar(db, "SELECT count(*) FROM orders") == 0


def test_nobody_joins_another_merchant_by_being_known_to_the_database(shared: Stack, theirs: str) -> None:
    """Reading one's memberships before a merchant is chosen is not a way to write them."""
    with shared.admin() as admin:
        staff = admin.execute(
            "SELECT staff_id FROM memberships WHERE role = 'desk' AND merchant_id <> %s", [theirs]
        ).fetchone()
    assert staff is not None
    with pytest.raises(DBAPIError, match="row-level security"), transaction(shared.console, staff_id=staff[0]) as db:
        run(db, "INSERT INTO memberships (merchant_id, staff_id, role) VALUES (:m, :s, 'admin')", m=theirs, s=staff[0])
    with pytest.raises(DBAPIError, match="row-level security"), transaction(shared.console, staff_id=staff[0]) as db:
        run(db, "UPDATE memberships SET role = 'admin'")


def test_after_an_error_the_same_connection_shows_nothing_of_the_merchant_before(stack: Stack, world: World) -> None:
    northwind = build_world(stack, "northwind")
    one = connect(stack.console_url, pool_size=1, name="test-pool")
    count = "SELECT count(*) FROM orders"
    try:
        with transaction(one, world.merchant_id) as db:
            first = scalar(db, "SELECT pg_backend_pid()")
            assert scalar(db, count) == 1
        with pytest.raises(DBAPIError), transaction(one, world.merchant_id) as db:
            run(db, "SELECT 1 / 0")
        with transaction(one) as db:
            assert scalar(db, "SELECT pg_backend_pid()") == first
            assert scalar(db, count) == 0
        with transaction(one, northwind.merchant_id) as db:
            assert scalar(db, "SELECT pg_backend_pid()") == first
            assert scalar(db, "SELECT count(*) FROM orders WHERE merchant_id <> :m", m=northwind.merchant_id) == 0
        # Nothing of a tenant outlives its transaction, not even on a connection taken without one.
        with one.connect() as bare:
            assert (
                bare.exec_driver_sql("SELECT coalesce(current_setting('onceback.merchant', true), '')").scalar() == ""
            )
            assert bare.exec_driver_sql(count).scalar() == 0
    finally:
        one.dispose()


def test_without_row_level_security_the_other_merchants_orders_are_read(stack: Stack, world: World) -> None:
    build_world(stack, "northwind")
    count = "SELECT count(*) FROM orders WHERE merchant_id <> :m"
    with transaction(stack.console, world.merchant_id) as db:
        assert scalar(db, count, m=world.merchant_id) == 0
    without(stack, "ALTER TABLE orders DISABLE ROW LEVEL SECURITY")
    with transaction(stack.console, world.merchant_id) as db:
        assert scalar(db, count, m=world.merchant_id) == 1


def test_without_force_the_triggers_would_move_another_merchants_money(stack: Stack, world: World) -> None:
    """Why FORCE: the functions that run as the owner would see every merchant's rows."""
    other = build_world(stack, "northwind")
    with transaction(stack.owner, world.merchant_id) as db:
        assert run(db, "UPDATE captures SET lock_no = 1 WHERE merchant_id = :m", m=other.merchant_id) == 0
    without(stack, "ALTER TABLE captures NO FORCE ROW LEVEL SECURITY")
    with transaction(stack.owner, world.merchant_id) as db:
        assert run(db, "UPDATE captures SET lock_no = 1 WHERE merchant_id = :m", m=other.merchant_id) == 1


def test_no_code_sets_a_merchant_for_longer_than_its_transaction() -> None:
    """S41: a setting of the session would be the next request's too, when the pool hands the connection on."""
    lasting = re.compile(r"SET\s+(SESSION\s+)?onceback\.|set_config\(\s*'onceback[^)]*,\s*false\s*\)", re.IGNORECASE)
    found = [
        str(path)
        for folder in ("ledger", "console", "jobs", "demo")
        for path in (ROOT / folder).rglob("*.py")
        if lasting.search(path.read_text(encoding="utf-8"))
    ]

    assert lasting.search("SELECT set_config('onceback.merchant', %s, false)")
    assert lasting.search("SET onceback.merchant = 'x'")
    assert found == []
