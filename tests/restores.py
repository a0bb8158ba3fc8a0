"""A backup of a test's database and its restoring, as an operator would do both: everything of later is gone."""

from psycopg import sql

from demo.roles import CONSOLE, OWNER, WORKER
from tests.stack import Server, Stack


def back_up(stack: Stack) -> Stack:
    """A copy of the database as it is now. The stack's engines are let go, and whoever is connected."""
    stack.close()
    for engine in ("owner", "console", "worker"):
        stack.__dict__.pop(engine, None)
    copy = Stack(stack.server, f"{stack.name}_backup")
    _make(stack.server, copy.name, stack.name)
    return copy


def restore(stack: Stack, backup: Stack) -> None:
    """Puts the backup in the place of the database, whatever was written since."""
    stack.close()
    for engine in ("owner", "console", "worker"):
        stack.__dict__.pop(engine, None)
    stack.server.run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(stack.name)))
    _make(stack.server, stack.name, backup.name)


def forget(backup: Stack) -> None:
    """Removes the backup."""
    backup.close()
    backup.server.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(backup.name)))


def _make(server: Server, name: str, of: str) -> None:
    new, old, owner = sql.Identifier(name), sql.Identifier(of), sql.Identifier(OWNER)
    server.run(
        # A copy is refused while anybody is connected: a connection that an earlier test left open is ended here.
        sql.SQL("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = {}").format(
            sql.Literal(of)
        ),
        sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(new, old, owner),
        sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(new),
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}, {}").format(new, *map(sql.Identifier, (CONSOLE, WORKER))),
    )
