"""Brings a database to the newest schema. Forward only; any number may be started at once, one works, the rest wait."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from ledger.database import connect

OWNER = "onceback_owner"
RUN_TIME_ROLES = ("onceback_console", "onceback_worker")

# A lock on a busy table is waited for no longer than readers can bear; a second migrator waits for the first.
LOCK_SECONDS = 5
STATEMENT_SECONDS = 60
ADVISORY_LOCK = 0x6F6E63656261636B  # "onceback"
_HERE = Path(__file__).parent


def migrate(url: str) -> None:
    """Brings the database at `url` to the newest schema; does nothing when it is there already.

    `url` names onceback_owner, or an administrator who may act as it: everything made belongs to onceback_owner. The
    roles onceback_owner, onceback_console, onceback_worker and the extension btree_gist have to exist; a CommandError
    says which is missing. Everything pending is one transaction: it all happens, or nothing does.
    """
    command.upgrade(configuration(url), "head")


def configuration(url: str) -> Config:
    """Alembic's configuration for `url`, without a file."""
    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    config.attributes["url"] = url
    return config


@contextmanager
def only_migrator(url: str) -> Iterator[Connection]:
    """A connection acting as onceback_owner, holding the lock that keeps other migrators out until it is closed."""
    engine = connect(url, pool_size=1, statement_seconds=STATEMENT_SECONDS, name="migrate")
    try:
        with engine.connect() as db:
            _require_roles(db)
            db.exec_driver_sql(f"SET ROLE {OWNER}")
            db.exec_driver_sql(f"SET lock_timeout = '{STATEMENT_SECONDS}s'")
            _wait_for_others(db)
            db.exec_driver_sql(f"SET lock_timeout = '{LOCK_SECONDS}s'")
            db.commit()
            yield db
    finally:
        engine.dispose()


def _wait_for_others(db: Connection) -> None:
    try:
        db.exec_driver_sql(f"SELECT pg_advisory_lock({ADVISORY_LOCK})")
    except OperationalError as error:
        raise CommandError(
            f"Another migration of this database has been running for {STATEMENT_SECONDS} s: wait for it and try again."
        ) from error


def execute_file(db: Connection, name: str) -> None:
    """Runs `sql/<name>` as it stands: no parameters, so that % and : mean themselves."""
    driver = db.connection.driver_connection
    if driver is None:
        raise CommandError("The connection to the database is gone: run the migration again.")
    with driver.cursor() as cursor:
        cursor.execute((_HERE / "sql" / name).read_bytes())


def forward_only() -> NoReturn:
    """Refuses a downgrade: dropping a column of the books would be the loss a downgrade is meant to repair."""
    raise CommandError(
        "Onceback's schema only goes forward. To return to an older state restore a backup; to undo a change"
        " write a new migration."
    )


def _require_roles(db: Connection) -> None:
    roles = (OWNER, *RUN_TIME_ROLES)
    found = set(db.exec_driver_sql("SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", (list(roles),)).scalars())
    missing = [f"the role {role}" for role in roles if role not in found]
    if not db.exec_driver_sql("SELECT 1 FROM pg_extension WHERE extname = 'btree_gist'").scalar():
        missing.append("the extension btree_gist")
    if missing:
        raise CommandError(f"This database is not prepared: an administrator has to create {', '.join(missing)}.")
    if not db.exec_driver_sql(f"SELECT pg_has_role(current_user, '{OWNER}', 'SET')").scalar():
        raise CommandError(f"Migrations run as {OWNER} or as an administrator who may act as it.")
