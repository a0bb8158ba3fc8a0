"""Databases that tests use one after the other: emptied is much quicker than made anew."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from tests.stack import Server, Stack, drop, make

# Written by the migrations.
KEPT = ("intent_transitions", "alembic_version")
TABLES = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> ALL (%s)"
)
SEQUENCES = "SELECT setval(seqrelid, seqstart, false) FROM pg_sequence"
# Whoever still has something under way would wait for us, or we for them.
STRAGGLERS = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity AS one
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND (
        state IS DISTINCT FROM 'idle'
        OR EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = one.pid AND locktype = 'advisory'))
"""
_CATALOGUE = (
    "pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_default_acl", "pg_index", "pg_namespace", "pg_policy",
    "pg_proc", "pg_rewrite", "pg_trigger", "pg_type", *KEPT,
)  # fmt: skip
_SCHEMA = sql.SQL(" UNION ALL ").join([
    # A row that was changed has a newer xmin; one that is gone is missed in the count.
    *(sql.SQL("SELECT {} AS catalogue, count(*) AS n, max(xmin::text::bigint) AS newest FROM {}").format(
        sql.Literal(name), sql.Identifier(name)) for name in _CATALOGUE),
    sql.SQL("SELECT 'database', 1, xmin::text::bigint FROM pg_database WHERE datname = current_database()"),
    sql.SQL("SELECT 'settings', count(*), 0 FROM pg_db_role_setting JOIN pg_database ON setdatabase = pg_database.oid"
            " WHERE datname = current_database()"),
])  # fmt: skip

Schema = dict[str, tuple[int, int]]


class Lender:
    """Lends databases of the template, each to one test (or file) after the other, emptied in between.

    One whose schema was changed in the meantime, as the control of a guard does, is dropped and not lent again.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._free: list[tuple[Stack, Schema]] = []

    @contextmanager
    def lend(self) -> Iterator[Stack]:
        """A database as the migrations leave it."""
        stack, schema = self._free.pop() if self._free else self._made()
        try:
            yield stack
        finally:
            if self._can_be_lent_again(stack, schema):
                self._free.append((stack, schema))
            else:
                drop(stack)

    def close(self) -> None:
        """Drops what it has."""
        while self._free:
            drop(self._free.pop()[0])

    def _made(self) -> tuple[Stack, Schema]:
        stack = make(self._server)
        return stack, schema_of(stack)

    def _can_be_lent_again(self, stack: Stack, schema: Schema) -> bool:
        try:
            with stack.past_guards() as admin:
                admin.execute(STRAGGLERS)
            if schema_of(stack) != schema:
                return False
            empty(stack)
        except psycopg.Error:
            return False
        return True


def schema_of(stack: Stack) -> Schema:
    """How many rows each catalogue of a database has, and when the newest was written."""
    with stack.past_guards() as admin:
        return {row["catalogue"]: (row["n"], row["newest"]) for row in admin.execute(_SCHEMA).fetchall()}


def empty(stack: Stack) -> None:
    """Takes every row out of a test's database, past all guards, as only the administrator can."""
    with stack.past_guards() as admin:
        names = [sql.Identifier(row["relname"]) for row in admin.execute(TABLES, [list(KEPT)]).fetchall()]
        emptied = [sql.SQL("DELETE FROM {}").format(name) for name in names]
        admin.execute(sql.SQL("; ").join(emptied))
        admin.execute(SEQUENCES)
