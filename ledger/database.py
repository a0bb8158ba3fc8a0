"""Connections, the one transaction a command runs in, and the tenant it is pinned to.

Every command of the ledger takes the open `Connection` and never commits; the entry point (handler or job) opens exactly
one transaction with `transaction()`. The tenant is set with SET LOCAL semantics, so it ends with the transaction.

SQLAlchemy keeps the pool and the transaction; statements go to the psycopg connection underneath, for its compiler and
result objects cost more than the server does. Errors are SQLAlchemy's all the same, without what was bound.
"""

import re
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final, NoReturn, cast
from uuid import UUID

import psycopg
from psycopg import sql as quoting
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.rows import dict_row, tuple_row
from sqlalchemy import Connection, Engine, RowMapping, create_engine, event
from sqlalchemy.exc import DBAPIError, InvalidatePoolError

from ledger.errors import NetworkInsideTransaction
from ledger.pipeline import Queued, answered, pipeline, send

# Web pages answer or give up in 5 s; a worker's longest statement is a scan of one merchant. Two seconds is far above the
# longest lock any command holds (milliseconds), so waiting longer means something is stuck and should be said.
WEB_STATEMENT_SECONDS = 5
WORKER_STATEMENT_SECONDS = 30
LOCK_SECONDS = 2
IDLE_TRANSACTION_SECONDS = 10
# A pooled connection that rested this long may have been dropped by something between here and the server without a word.
RESTED_SECONDS: Final = 5
# Statements kept prepared in one connection; the whole of the program has about three hundred.
PREPARED_MOST: Final = 400

_open: ContextVar[int] = ContextVar("open_transactions", default=0)
_NONE: Final[Mapping[str, Any]] = {}
# A statement's names. Not after a word or a colon, so that `::cast` and times stay as they are.
_NAME: Final = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")


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
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=10,
        # Errors are logged and raised across processes; what was bound may be a customer's.
        hide_parameters=True,
        connect_args={"options": limits, "application_name": f"onceback-{name}", "connect_timeout": 5},
    )
    event.listen(engine, "connect", _made)
    event.listen(engine, "do_execute", _begins_before)
    event.listen(engine, "do_executemany", _begins_before)
    event.listen(
        engine,
        "do_execute_no_params",
        lambda cursor, statement, context: _begins_before(cursor, statement, (), context),
    )
    event.listen(engine, "checkin", _rests)
    event.listen(engine, "checkout", lambda raw, record, _fairy: _wakes(engine, raw, record))
    return engine


def _made(raw: Any, _record: Any) -> None:
    raw.prepared_max = PREPARED_MOST


def _begins_before(_cursor: Any, _statement: str, _values: Any, context: Any) -> None:
    """For statements that take SQLAlchemy's own way. An event of connections would cost every transaction, this one does not."""
    db = context.root_connection
    if not db.in_transaction():
        return
    _refuse_after_the_commit(db)
    if "begins" in db.info:
        _raw(db)


def _rests(_raw: Any, record: Any) -> None:
    record.info["rests_since"] = time.monotonic()
    record.info.pop("over", None)
    record.info.pop("begins", None)


def _wakes(engine: Engine, raw: Any, record: Any) -> None:
    """Asks the server whether a pooled connection still stands, when that is in doubt; else costs no round trip.

    A server that went away closed the socket, which can then be read from. InvalidatePoolError: the pool makes new ones.
    """
    rests_since = record.info.pop("rests_since", None)
    if rests_since is None:
        return
    try:
        said_something = bool(select.select([raw.pgconn.socket], [], [], 0)[0])
        if said_something or time.monotonic() - rests_since > RESTED_SECONDS:
            engine.dialect.do_ping(raw)
    except (psycopg.Error, OSError, ValueError) as error:
        raise InvalidatePoolError from error


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

    It begins with its first statement; where that is one of several `together`, in their round trip. Raises InternalError at its
    end when a statement failed and whoever ran it went on: the server would keep nothing of it and say so to nobody.
    """
    with _one_more_open(), engine.begin() as db:
        db.info["begins"] = (read_only, str(merchant_id or ""), str(staff_id or ""), token_id)
        yield db
        _refuse_failed(db)


@contextmanager
def transaction_that_asks(
    engine: Engine, merchant_id: UUID, sql: str, /, **values: Any
) -> Iterator[tuple[Connection, str | None]]:
    """`transaction`, and what a query that leaves along with its BEGIN says: the first column of its first row, as text.

    `sql` is a constant with `:names` as for `rows`; the values are quoted as literals, for this round trip binds none.
    """
    with _one_more_open(), engine.begin() as db:
        yield db, _begin(db, (False, str(merchant_id), "", ""), sql, values)
        _refuse_failed(db)


@contextmanager
def _one_more_open() -> Iterator[None]:
    token = _open.set(_open.get() + 1)
    try:
        yield
    finally:
        _open.reset(token)


# Whether it is read-only, and the tenant, person and token of a transaction that begins.
Begins = tuple[bool, str, str, str]


def _begin(db: Connection, begins: Begins, asks: str = "", values: Mapping[str, Any] = _NONE) -> str | None:
    """BEGIN, the tenant and `asks` in one round trip, which only the simple protocol can do; so the values are quoted here."""
    raw = _driver(db)
    read_only, *pinned = begins
    merchant, staff, token = (quoting.quote(value, raw) for value in pinned)
    statements = (
        f"{_BEGIN[read_only]}; SELECT set_config('onceback.merchant', {merchant}, true),"
        f" set_config('onceback.staff', {staff}, true), set_config('onceback.token', {token}, true)"
    )
    if asks:
        statements += "; " + _NAME.sub(lambda name: quoting.quote(values[name[1]], raw), asks)
    try:
        answer = raw.pgconn.exec_(statements.encode())
        if answer.status != ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(answer)
    except psycopg.Error as error:
        _raise(db, asks or statements, error)
    said = answer.get_value(0, 0) if answer.ntuples else None
    return said.decode() if said is not None else None


_BEGIN: Final = ("BEGIN", "BEGIN READ ONLY")
_PIN: Final = (
    "SELECT set_config('onceback.merchant', :merchant, true), set_config('onceback.staff', :staff, true),"
    " set_config('onceback.token', :token, true)"
)


def _begin_together(db: Connection, begins: Begins) -> None:
    """The same without waiting, as the first of what leaves together."""
    read_only, merchant, staff, token = begins
    send(_driver(db), _BEGIN[read_only])
    run_later(db, _PIN, merchant=merchant, staff=staff, token=token)


def forbid_open_transaction() -> None:
    """Raises NetworkInsideTransaction inside `transaction()` (P12). Called by everything that leaves the machine."""
    if _open.get():
        raise NetworkInsideTransaction(NetworkInsideTransaction.__doc__)


def pin_tenant(db: Connection, merchant_id: UUID) -> None:
    """Sets the tenant of the open transaction; for entry points that learn it from the first row they read."""
    scalar(db, "SELECT set_config('onceback.merchant', :merchant, true)", merchant=str(merchant_id))


def rows(db: Connection, sql: str, /, **values: Any) -> list[RowMapping]:
    """All rows of a statement, each a mapping. `sql` is a constant with `:names`; values are bound, never formatted in."""
    return cast("list[RowMapping]", _execute(db, sql, values, dict_row, psycopg.RawCursor.fetchall))


def first(db: Connection, sql: str, /, **values: Any) -> RowMapping | None:
    """The first row, or None."""
    return cast("RowMapping | None", _execute(db, sql, values, dict_row, psycopg.RawCursor.fetchone))


def in_batches(db: Connection, sql: str, most: int, /, **values: Any) -> Iterator[list[RowMapping]]:
    """All rows of a statement, `most` at a time, through a cursor of the server: never more than a batch of them is held here.

    The transaction stays open until the last batch is taken, and is given up by the server when the next one is not asked for
    within IDLE_TRANSACTION_SECONDS.
    """
    statement, names = _translated(sql)
    try:
        with psycopg.RawServerCursor(_raw(db), "batches", row_factory=dict_row) as cursor:
            cursor.execute(statement, [values[name] for name in names])
            while batch := cursor.fetchmany(most):
                yield cast("list[RowMapping]", batch)
    except psycopg.Error as error:
        _raise(db, sql, error)


def scalar(db: Connection, sql: str, /, **values: Any) -> Any:
    """The first column of the first row, or None."""
    row = _execute(db, sql, values, tuple_row, psycopg.RawCursor.fetchone)
    return row[0] if row is not None else None


def of_each(**queries: str) -> str:
    """One statement of several: its only row has the rows of each by its name, as JSON, so ids and times are text in them.

    A statement costs this process more than the server, and all of these see the same moment.
    """
    parts = (f"(SELECT coalesce(json_agg(r), '[]') FROM ({sql}) r) AS {name}" for name, sql in queries.items())  # noqa: S608 constants
    return f"SELECT {', '.join(parts)}"


def run(db: Connection, sql: str, /, **values: Any) -> int:
    """Runs a statement that changes rows; returns how many."""
    return cast("int", _execute(db, sql, values, tuple_row, _row_count))


def run_many(db: Connection, sql: str, values: Sequence[Mapping[str, Any]]) -> None:
    """Runs one statement for each mapping in `values`, in that order and in one round trip."""
    statement, names = _translated(sql)
    if values:
        try:
            psycopg.RawCursor(_raw(db)).executemany(statement, [[one[name] for name in names] for one in values])
        except psycopg.Error as error:
            _raise(db, sql, error)


class Later:
    """What came of a statement given to `run_later`: read it when its `together` block has ended."""

    def __init__(self, db: Connection, cursor: psycopg.RawCursor[Any]) -> None:
        self._db = db
        self._cursor = cursor

    @property
    def count(self) -> int:
        """How many rows it changed."""
        return self._cursor.rowcount

    def rows(self) -> list[RowMapping]:
        """All its rows."""
        answered(self._cursor.connection)
        try:
            return cast("list[RowMapping]", self._cursor.fetchall())
        except psycopg.Error as error:
            _raise(self._db, "", error)

    def first(self) -> RowMapping | None:
        """Its first row, or None."""
        return next(iter(self.rows()), None)


@contextmanager
def together(db: Connection) -> Iterator[None]:
    """Statements given to `run_later` inside leave one after the other without waiting; all have run when it ends.

    They run in their order, and after one that fails none runs. The first error is raised at the end of the block, or by
    the next statement whose answer is waited for.
    """
    begins = db.info.pop("begins", None)
    raw = _driver(db)
    try:
        with pipeline(raw):
            if begins is not None:
                _begin_together(db, begins)
            yield
    except psycopg.Error as error:
        _raise(db, "", error)


def run_later(db: Connection, sql: str, /, **values: Any) -> Later:
    """Runs a statement whose answer nothing has to wait for: inside `together` its errors may come later, else at once."""
    return Later(db, _execute(db, sql, values, dict_row, _same, Queued))


def commit_later(db: Connection) -> None:
    """Sends the transaction's COMMIT along with the statements before it, as the last of a `together` block.

    Only what an entry point said is its last act calls this: rows that many wait for are then held by nobody who waits for
    this process. The transaction is over with it, and a statement after it raises AssertionError. If one before it failed,
    nothing is committed, which is raised here, or at the end of the block or of the transaction.
    """
    _refuse_failed(db)
    try:
        _raw(db).commit()
    except psycopg.Error as error:
        _raise(db, "COMMIT", error)
    db.info["over"] = True


Cursor = psycopg.RawCursor[Any]


def _same(cursor: Cursor) -> Cursor:
    return cursor


def _row_count(cursor: Cursor) -> int:
    answered(cursor.connection)
    return cursor.rowcount


def _refuse_failed(db: Connection) -> None:
    """A COMMIT of what failed is a ROLLBACK, and its answer no error (PostgreSQL)."""
    if not db.in_transaction() or db.invalidated:
        return
    raw = cast("psycopg.Connection[Any]", db.connection.dbapi_connection)
    if raw.pgconn.transaction_status == TransactionStatus.INERROR:
        error = psycopg.errors.InFailedSqlTransaction(
            "a statement of this transaction failed: nothing of it can be kept"
        )
        _raise(db, "COMMIT", error)


def _refuse_after_the_commit(db: Connection) -> None:
    if "over" in db.info:
        raise AssertionError("the transaction was committed with the act before this statement")


def _raw(db: Connection) -> psycopg.Connection[Any]:
    """The driver's connection, in a transaction."""
    if (begins := db.info.pop("begins", None)) is not None:
        _begin(db, begins)
    return _driver(db)


def _driver(db: Connection) -> psycopg.Connection[Any]:
    _refuse_after_the_commit(db)
    if not db.in_transaction():
        db.begin()
    return cast("psycopg.Connection[Any]", db.connection.dbapi_connection)


def _execute(
    db: Connection,
    sql: str,
    values: Mapping[str, Any],
    row: Any,
    read: Callable[[Cursor], Any],
    kind: type[Cursor] = psycopg.RawCursor,
) -> Any:
    statement, names = _translated(sql)
    try:
        cursor = kind(_raw(db), row_factory=row)
        cursor.execute(statement, [values[name] for name in names])
        return read(cursor)
    except psycopg.Error as error:
        _raise(db, sql, error)


def _raise(db: Connection, statement: str, error: psycopg.Error) -> NoReturn:
    """As SQLAlchemy raises it; a connection that was lost is given up, and the pool asks the others before it lends them."""
    gone = not db.invalidated and _lost(db)
    if gone:
        db.invalidate(error)
    if gone and error.sqlstate is None and not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        # A server that went away in the middle of several statements names no state; whoever asked may ask again.
        error = psycopg.OperationalError(str(error)).with_traceback(error.__traceback__)
    raise DBAPIError.instance(
        statement, None, error, psycopg.Error, hide_parameters=True, connection_invalidated=gone, dialect=db.dialect
    ) from error


def _lost(db: Connection) -> bool:
    raw = cast("psycopg.Connection[Any]", db.connection.dbapi_connection)
    return bool(raw.closed or raw.broken)


@lru_cache(maxsize=1024)
def _translated(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with `$1` for its first name and so on, and the names in that order."""
    places: dict[str, int] = {}

    def place(found: re.Match[str]) -> str:
        return f"${places.setdefault(found[1], len(places) + 1)}"

    return _NAME.sub(place, sql).encode(), tuple(places)
