"""Prepares a server for Onceback: its roles, its database and the one extension that only an administrator may add.

Each role has what its processes need and no more (the migrations grant the rest): none is a superuser, passes row-level
security, inherits, or is a member of another.
"""

import json
import os
import secrets
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import scalar_row
from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy.engine import URL, make_url

from demo.server_account import PostgresError

OWNER = "onceback_owner"
CONSOLE = "onceback_console"
WORKER = "onceback_worker"
ROLES = (OWNER, CONSOLE, WORKER)
DEFAULT_PASSWORDS = Path("var/role-passwords.json")
# Any fixed number does: it keeps two preparations of one server apart.
ADVISORY_LOCK = 7_302_190_441


def prepare(admin_url: str, database: str, passwords: Path = DEFAULT_PASSWORDS) -> dict[str, str]:
    """Makes or mends roles and database, and returns each role's SQLAlchemy address of the database, by role name.

    `passwords` is a file of mode 0600 that holds the roles' passwords; it is made when missing, and what it says holds
    on the server too. To be run again at any time. Two at once wait for each other, by an advisory lock. The role of
    `admin_url` must be a superuser, or have CREATEROLE and CREATEDB. Raises PostgresError with the server's refusal.
    """
    secret = _passwords(passwords)
    admin = make_url(admin_url)
    try:
        with _connect(admin) as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_LOCK])
            for role in ROLES:
                _prepare_role(connection, role, secret[role])
            _prepare_database(connection, database)
            with _connect(admin.set(database=database)) as inside:
                inside.execute("CREATE EXTENSION IF NOT EXISTS btree_gist WITH SCHEMA public")
                inside.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    except psycopg.Error as refused:
        reason = str(refused).strip().splitlines()[0]
        raise PostgresError(f"The database {database} could not be prepared: {reason}") from None
    return {role: _address(admin, role, secret[role], database) for role in ROLES}


def roles_exist(admin_url: str) -> bool:
    """Whether the server has one of the roles already. Raises PostgresError when it does not answer."""
    try:
        with _connect(make_url(admin_url)) as connection:
            found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = ANY(%s)", [list(ROLES)]).fetchone()
    except psycopg.Error as refused:
        raise PostgresError(
            f"The server of DATABASE_URL does not answer: {str(refused).strip().splitlines()[0]}"
        ) from None
    return found is not None


def _address(admin: URL, role: str, password: str, database: str) -> str:
    url = admin.set(drivername="postgresql+psycopg", username=role, password=password, database=database)
    return url.render_as_string(hide_password=False)


def _connect(url: URL) -> Connection[Any]:
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(address, autocommit=True, connect_timeout=10, row_factory=scalar_row)


def _prepare_role(connection: Connection[Any], role: str, password: str) -> None:
    name = Identifier(role)
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        connection.execute(SQL("CREATE ROLE {} NOINHERIT LOGIN").format(name))
    wrong = connection.execute(
        "SELECT rolsuper OR rolbypassrls OR rolinherit OR rolcreaterole OR rolcreatedb OR rolreplication"
        " OR NOT rolcanlogin FROM pg_roles WHERE rolname = %s",
        [role],
    ).fetchone()
    if wrong:
        rights = SQL("NOSUPERUSER NOBYPASSRLS NOINHERIT NOCREATEROLE NOCREATEDB NOREPLICATION LOGIN")
        connection.execute(SQL("ALTER ROLE {} {}").format(name, rights))
    # Hashed here, so that no statement, and so no log of the server, ever holds the password.
    hashed = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(SQL("ALTER ROLE {} PASSWORD {}").format(name, Literal(hashed)))


def _prepare_database(connection: Connection[Any], database: str) -> None:
    name, owner = Identifier(database), Identifier(OWNER)
    if not connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone():
        # Who is no superuser can give a database away only to a role that he could become.
        connection.execute(SQL("GRANT {} TO CURRENT_USER").format(owner))
    held_by = connection.execute(
        "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = %s", [database]
    ).fetchone()
    if held_by is None:
        connection.execute(SQL("CREATE DATABASE {} OWNER {}").format(name, owner))
    elif held_by != OWNER:
        connection.execute(SQL("ALTER DATABASE {} OWNER TO {}").format(name, owner))
    connection.execute(SQL("REVOKE CREATE, TEMPORARY ON DATABASE {} FROM PUBLIC").format(name))


def _passwords(path: Path) -> dict[str, str]:
    known: dict[str, str] = json.loads(path.read_text(encoding="ascii")) if path.exists() else {}
    missing = {role: secrets.token_urlsafe(24) for role in ROLES if role not in known}
    if missing:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(known | missing, file, indent=2)
        unfinished.replace(path)
    return known | missing
