"""The rows of a scratch database as they are, kept aside and put back: a backup and its restoring, without a server's help.

Sequences stay where they are, as they would beside a dump that was taken earlier.
"""

from typing import Any

import psycopg
from psycopg import sql

from tests.emptied import KEPT, TABLES

Rows = dict[str, bytes]


def take(admin: psycopg.Connection[Any]) -> Rows:
    """Every row of every table that has any but what the migrations wrote, by table."""
    return {name: _out(admin, name) for name in filled(admin)}


def put_back(admin: psycopg.Connection[Any], rows: Rows) -> None:
    """Everything of later is gone. Past all guards, as only the administrator can; all of it or nothing."""
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")
        empty(admin)
        for name, copied in rows.items():
            statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(sql.Identifier(name))
            with admin.cursor() as cursor, cursor.copy(statement) as into:
                into.write(copied)


def empty(admin: psycopg.Connection[Any]) -> None:
    """Takes every row out. The session's role of replication is the caller's to set."""
    names = filled(admin)
    if names:
        admin.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)) for name in names))


def filled(admin: psycopg.Connection[Any]) -> list[str]:
    """The tables that have rows."""
    with admin.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        names = [name for (name,) in cursor.execute(TABLES, [list(KEPT)]).fetchall()]
        asked = sql.SQL(" UNION ALL ").join(
            sql.SQL("SELECT {} WHERE EXISTS (SELECT 1 FROM {})").format(sql.Literal(name), sql.Identifier(name))
            for name in names
        )
        return [name for (name,) in cursor.execute(asked).fetchall()]


def _out(admin: psycopg.Connection[Any], name: str) -> bytes:
    statement = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(sql.Identifier(name))
    with admin.cursor() as cursor, cursor.copy(statement) as out:
        return b"".join(bytes(part) for part in out)
