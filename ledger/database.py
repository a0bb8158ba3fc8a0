"""Connections, the one transaction a command runs in, and the tenant it is pinned to.

Every command of the ledger takes the open `Connection` and never commits; the entry point (handler or job) opens exactly
one transaction with `transaction()`. The tenant is set with SET LOCAL semantics, so it ends with the transaction.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine, RowMapping, TextClause, create_engine, text

from ledger.errors import NetworkInsideTransaction

# Web pages answer or give up in 5 s; a worker's longest statement is a scan of one merchant. Two seconds is far above the
# longest lock any command holds (milliseconds), so waiting longer means something is stuck and should be said.
WEB_STATEMENT_SECONDS = 5
WORKER_STATEMENT_SECONDS = 30
LOCK_SECONDS = 2
IDLE_TRANSACTION_SECONDS = 10

_open: ContextVar[int] = ContextVar("open_transactions", default=0)


def connect(url: str, *, pool_size: int = 8, statement_seconds: int = WEB_STATEMENT_SECONDS, name: str = "") -> Engine:
    """An engine whose connections carry the time limits of their process and assert durable commits.

    `url` is `postgresql://…` or `postgresql+psycopg://…`; `pool_size` is in connections, no overflow.
    """
    if url.startswith("postgresql://"):
        url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    limits = (
        f"-c statement_timeout={statement_seconds * 1000} -c lock_timeout={LOCK_SECONDS * 1000}"
        f" -c idle_in_transaction_session_timeout={IDLE_TRANSACTION_SECONDS * 1000} -c timezone=UTC"
        " -c synchronous_commit=on"
    )
    return create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=10,
        pool_pre_ping=True,
        # Errors are logged and raised across processes; what was bound may be a customer's.
        hide_parameters=True,
        connect_args={"options": limits, "application_name": f"onceback-{name}", "connect_timeout": 5},
    )


@contextmanager
def transaction(
    engine: Engine,
    merchant_id: UUID | None = None,
    *,
    read_only: bool = False,
    staff_id: UUID | None = None,
    token_id: str = "",
) -> Iterator[Connection]:
    """One transaction, pinned to one tenant; commits at the end, rolls back on any exception.

    Without `merchant_id` tenant tables show no rows. `staff_id` and `token_id` open the person's own memberships and the
    token's own row before a tenant is known. A read-only transaction cannot write whatever its code does.
    """
    token = _open.set(_open.get() + 1)
    try:
        with engine.begin() as db:
            if read_only:
                db.exec_driver_sql("SET TRANSACTION READ ONLY")
            db.exec_driver_sql(
                "SELECT set_config('onceback.merchant', %s, true), set_config('onceback.staff', %s, true),"
                " set_config('onceback.token', %s, true)",
                (str(merchant_id or ""), str(staff_id or ""), token_id),
            )
            yield db
    finally:
        _open.reset(token)


def forbid_open_transaction() -> None:
    """Raises NetworkInsideTransaction inside `transaction()` (P12). Called by everything that leaves the machine."""
    if _open.get():
        raise NetworkInsideTransaction(NetworkInsideTransaction.__doc__)


def pin_tenant(db: Connection, merchant_id: UUID) -> None:
    """Sets the tenant of the open transaction; for entry points that learn it from the first row they read."""
    db.exec_driver_sql("SELECT set_config('onceback.merchant', %s, true)", (str(merchant_id),))


@lru_cache(maxsize=512)
def _statement(sql: str) -> TextClause:
    return text(sql)


def rows(db: Connection, sql: str, /, **values: Any) -> list[RowMapping]:
    """All rows of a statement. `sql` is a constant with `:names`; values are always bound, never formatted in."""
    return list(db.execute(_statement(sql), values).mappings())


def first(db: Connection, sql: str, /, **values: Any) -> RowMapping | None:
    """The first row, or None."""
    return db.execute(_statement(sql), values).mappings().first()


def scalar(db: Connection, sql: str, /, **values: Any) -> Any:
    """The first column of the first row, or None."""
    return db.execute(_statement(sql), values).scalar()


def run(db: Connection, sql: str, /, **values: Any) -> int:
    """Runs a statement that changes rows; returns how many."""
    return db.execute(_statement(sql), values).rowcount


def run_many(db: Connection, sql: str, values: list[Mapping[str, Any]]) -> None:
    """Runs one statement for each mapping in `values`, in that order."""
    if values:
        db.execute(_statement(sql), list(values))
