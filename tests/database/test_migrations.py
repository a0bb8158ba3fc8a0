"""The schema: made by one migrator at a time, forward only, by the owner, and mirrored exactly in ledger/tables."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.util import CommandError
from psycopg import sql
from sqlalchemy import create_engine

from demo.roles import prepare
from ledger import tables
from ledger.migrations import run as migrations
from ledger.migrations.run import configuration, migrate
from tests.stack import OWNER, Server, Stack, without

ROOT = Path(__file__).parents[2]
HEAD = "0004"
# Everything the mirror claims to know, in the catalogue's own words.
SHAPE = {
    "columns": """
        SELECT c.relname || '.' || a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND c.relname <> 'alembic_version'
        ORDER BY c.relname, a.attnum""",
    "keys": """
        SELECT c.relname, k.contype, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        WHERE c.relnamespace = 'public'::regnamespace AND k.contype IN ('p', 'u', 'f', 'x') AND c.relname <> 'alembic_version'
        ORDER BY 1, 2, 3""",
    "indexes": """
        SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relname <> 'alembic_version'
            AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = i.indexrelid AND contype IN ('p', 'u', 'x'))
        ORDER BY 1""",
    "sequences": """
        SELECT sequencename, data_type::text, start_value, increment_by FROM pg_sequences
        WHERE schemaname = 'public' ORDER BY 1""",
}


@contextmanager
def _empty(server: Server, *, prepared: bool = True) -> Iterator[str]:
    """The name of a new database without a schema; gone afterwards."""
    name = f"{server.template}_{uuid4().hex[:8]}"
    if prepared:
        prepare(server.admin_url, name, server.passwords)
    else:
        server.run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield name
    finally:
        server.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _shape(url: str) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(url) as db:
        return {what: db.execute(statement.encode()).fetchall() for what, statement in SHAPE.items()}


def test_the_mirror_and_the_database_have_not_drifted_apart(stack: Stack) -> None:
    engine = create_engine(stack.owner_url.replace("postgresql://", "postgresql+psycopg://"))
    options = {"compare_type": True, "compare_server_default": tables.same_default, "include_object": tables.compared}
    with engine.connect() as db:
        found = compare_metadata(MigrationContext.configure(db, opts=options), tables.metadata)
    engine.dispose()

    assert found == []


def test_a_column_that_only_the_database_has_is_drift(stack: Stack) -> None:
    without(stack, "ALTER TABLE notes ADD COLUMN mood text")

    with pytest.raises(CommandError, match="mood"):
        command.check(configuration(stack.owner_url))


def test_what_the_mirror_would_make_is_what_the_statements_made(server: Server, stack: Stack) -> None:
    """Also what Alembic does not compare: primary keys, exclusions, the conditions of partial indexes, sequences."""
    with _empty(server) as name:
        engine = create_engine(server.url(name, OWNER).replace("postgresql://", "postgresql+psycopg://"))
        tables.metadata.create_all(engine)
        engine.dispose()

        made, mirrored = _shape(stack.owner_url), _shape(server.url(name))
    for what, rows in made.items():
        assert mirrored[what] == rows, what


def test_migrating_again_changes_nothing(stack: Stack) -> None:
    before = _shape(stack.owner_url)

    migrate(stack.owner_url)

    assert _shape(stack.owner_url) == before


def test_an_administrator_migrates_as_the_owner(server: Server) -> None:
    with _empty(server) as name:
        migrate(server.url(name))
        with psycopg.connect(server.url(name)) as db:
            owners = db.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'").fetchall()

    assert owners == [(OWNER,)]


def test_two_migrators_at_once_make_one_schema(server: Server) -> None:
    program = "import os; from ledger.migrations.run import migrate; migrate(os.environ['TO_MIGRATE'])"
    with _empty(server) as name:
        environment = {**os.environ, "TO_MIGRATE": server.url(name, OWNER)}
        command_line = [sys.executable, "-c", program]
        both = [subprocess.Popen(command_line, cwd=ROOT, env=environment) for _ in range(2)]

        assert [migrator.wait(60) for migrator in both] == [0, 0]
        with psycopg.connect(server.url(name)) as db:
            assert db.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]


def test_a_migrator_waits_for_the_one_before_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "STATEMENT_SECONDS", 1)
    with _empty(server) as name, psycopg.connect(server.url(name), autocommit=True) as other:
        other.execute(f"SELECT pg_advisory_lock({migrations.ADVISORY_LOCK})".encode())
        with pytest.raises(CommandError, match="Another migration"):
            migrate(server.url(name, OWNER))
        other.execute(f"SELECT pg_advisory_unlock({migrations.ADVISORY_LOCK})".encode())
        migrate(server.url(name, OWNER))


def test_a_migration_waits_neither_long_for_a_lock_nor_runs_without_end(server: Server) -> None:
    with _empty(server) as name, migrations.only_migrator(server.url(name, OWNER)) as db:
        limits = [db.exec_driver_sql(f"SHOW {limit}").scalar() for limit in ("lock_timeout", "statement_timeout")]

    assert limits == ["5s", "1min"]


def test_a_downgrade_is_refused_in_words_and_changes_nothing(stack: Stack) -> None:
    before = _shape(stack.owner_url)

    with pytest.raises(CommandError, match="only goes forward"):
        command.downgrade(configuration(stack.owner_url), "base")

    assert _shape(stack.owner_url) == before


def test_printing_the_statements_instead_is_refused_in_words(stack: Stack) -> None:
    with pytest.raises(CommandError, match="never as printed SQL"):
        command.upgrade(configuration(stack.owner_url), "head", sql=True)


def test_a_database_that_was_not_prepared_is_told_what_it_lacks(server: Server) -> None:
    with _empty(server, prepared=False) as name, pytest.raises(CommandError, match="extension btree_gist"):
        migrate(server.url(name))


def test_a_run_time_role_cannot_migrate(server: Server) -> None:
    with _empty(server) as name, pytest.raises(CommandError, match="Migrations run as onceback_owner"):
        migrate(server.url(name, "onceback_console"))


def test_a_migration_that_fails_leaves_nothing_behind(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(db: Any, name: str) -> None:
        original(db, name)
        if name == "0001_guards.sql":
            raise CommandError("the disk is gone")

    original = migrations.execute_file
    monkeypatch.setattr(migrations, "execute_file", fails)
    with _empty(server) as name:
        with pytest.raises(CommandError, match="the disk is gone"):
            migrate(server.url(name, OWNER))
        with psycopg.connect(server.url(name)) as db:
            assert db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall() == []
