"""One PostgreSQL for the session, one migrated template in it, and a fresh copy of that for each test.

The server is an embedded one from the first free place under build/test-postgres, so that several runs may go on at
once; with DATABASE_URL (an administrator's address) it is that server.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from select import select
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from demo.postgres import EmbeddedPostgres
from demo.roles import CONSOLE, DEFAULT_PASSWORDS, OWNER, ROLES, WORKER, prepare
from ledger.database import connect
from ledger.migrations.run import migrate

PLACES = Path(__file__).parents[1] / "build" / "test-postgres"
MOST_RUNS_AT_ONCE = 16
__all__ = ["CONSOLE", "OWNER", "ROLES", "WORKER", "Server", "Stack", "fresh_stack", "running_server", "without"]


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL. `admin_url` is the administrator's; `role_urls` the roles' addresses of the template,
    `passwords` the file `prepare` keeps them in."""

    admin_url: str
    template: str
    role_urls: dict[str, str]
    passwords: Path
    postgres: EmbeddedPostgres

    def url(self, database: str, role: str | None = None) -> str:
        """The address of a database for a role (None: the administrator), with the password."""
        url = make_url(self.role_urls[role] if role else self.admin_url)
        return url.set(drivername="postgresql", database=database).render_as_string(hide_password=False)

    def run(self, *statements: sql.Composed | bytes, database: str = "postgres") -> None:
        """Runs statements as the administrator, each on its own."""
        with psycopg.connect(self.url(database), autocommit=True) as db:
            for statement in statements:
                db.execute(statement)


@dataclass(frozen=True)
class Stack:
    """One test's own database. The engines are those the processes use; close() ends them."""

    server: Server
    name: str
    _past_guards: list[psycopg.Connection[dict[str, Any]]] = field(default_factory=list, repr=False, compare=False)

    @property
    def admin_url(self) -> str:
        return self.server.url(self.name)

    @property
    def owner_url(self) -> str:
        return self.server.url(self.name, OWNER)

    @property
    def console_url(self) -> str:
        return self.server.url(self.name, CONSOLE)

    @property
    def worker_url(self) -> str:
        return self.server.url(self.name, WORKER)

    @cached_property
    def owner(self) -> Engine:
        return connect(self.owner_url, pool_size=2, name="test-owner")

    @cached_property
    def console(self) -> Engine:
        return connect(self.console_url, name="test-console")

    @cached_property
    def worker(self) -> Engine:
        return connect(self.worker_url, name="test-worker")

    def engine(self, role: str) -> Engine:
        return {OWNER: self.owner, CONSOLE: self.console, WORKER: self.worker}[role]

    def engine_as(self, role: str, password: str) -> Engine:
        """An engine of a role that only one test has; the caller disposes of it."""
        url = make_url(self.admin_url).set(username=role, password=password)
        return connect(url.render_as_string(hide_password=False), pool_size=1, name="test-role")

    def admin(self) -> psycopg.Connection:
        """A connection of the administrator, whom no policy binds: for walking the catalogue and for reading all."""
        return psycopg.connect(self.admin_url, autocommit=True)

    @contextmanager
    def past_guards(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """A connection of the administrator for whom no trigger fires. It is kept, for a new one knows no table yet."""
        db = next(self._still_open(), None)
        if db is None:
            db = psycopg.connect(self.admin_url, autocommit=True, row_factory=dict_row)
            db.execute("SET session_replication_role = replica")
        try:
            yield db
        finally:
            self._past_guards.append(db)

    def _still_open(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        while self._past_guards:
            db = self._past_guards.pop()
            # A server that ended the connection closed the socket, which can then be read from.
            if not db.closed and not select([db.fileno()], [], [], 0)[0]:
                yield db
            else:
                db.close()

    def forget_past_guards(self) -> None:
        """After a fork: these are the parent's."""
        self._past_guards.clear()

    def close(self) -> None:
        """Gives back every connection that is kept here."""
        for made in ("owner", "console", "worker"):
            if made in self.__dict__:
                self.__dict__[made].dispose()
        while self._past_guards:
            self._past_guards.pop().close()


def without(stack: Stack, *statements: str) -> None:
    """Switches a guard off in this test's own database, as the administrator: the control of a guard's test."""
    stack.server.run(*(statement.encode() for statement in statements), database=stack.name)


@contextmanager
def running_server() -> Iterator[Server]:
    """The session's server with a migrated template; both are gone from it at the end, the embedded one is stopped."""
    with ExitStack() as held:
        place = held.enter_context(_place())
        postgres = held.enter_context(EmbeddedPostgres(place, durable=False))
        external = bool(os.environ.get("DATABASE_URL"))
        template = f"onceback_test_{uuid4().hex[:10]}"
        passwords = DEFAULT_PASSWORDS if external else place / "role-passwords.json"
        urls = prepare(postgres.admin_url, template, passwords)
        server = Server(postgres.admin_url, template, urls, passwords, postgres)
        held.callback(_drop, server, template)
        if not external:
            _drop_leftovers(server)
        migrate(server.url(template, OWNER))
        yield server


@contextmanager
def fresh_stack(server: Server) -> Iterator[Stack]:
    """A copy of the template for one test; dropped at the end whatever is still connected."""
    stack = make(server)
    try:
        yield stack
    finally:
        drop(stack)


def make(server: Server) -> Stack:
    """A copy of the template, to be dropped by the caller."""
    stack = Stack(server, f"{server.template}_{uuid4().hex[:8]}")
    name = sql.Identifier(stack.name)
    server.run(
        sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(
            name, sql.Identifier(server.template), sql.Identifier(OWNER)
        ),
        # A template's rows and grants are copied, the grants on the database itself are not.
        sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name),
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}, {}").format(name, *map(sql.Identifier, (CONSOLE, WORKER))),
    )
    return stack


def drop(stack: Stack) -> None:
    """Ends a database and every connection to it."""
    stack.close()
    _drop(stack.server, stack.name)


@contextmanager
def _place() -> Iterator[Path]:
    """The first folder that no other run holds. What earlier runs left of a server there is used again."""
    for number in range(MOST_RUNS_AT_ONCE):
        folder = PLACES / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "run.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield folder
            return
    raise RuntimeError(f"{MOST_RUNS_AT_ONCE} test runs are going on at once: wait for one to end.")


def _drop(server: Server, name: str) -> None:
    server.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _drop_leftovers(server: Server) -> None:
    with psycopg.connect(server.url("postgres"), autocommit=True) as db:
        found = db.execute("SELECT datname FROM pg_database WHERE starts_with(datname, 'onceback_test_')").fetchall()
    for (name,) in found:
        if name != server.template:
            _drop(server, name)
