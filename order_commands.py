"""`flask orders import`: a file of orders, streamed in batches, safe to repeat, with a report of every line not taken.

A batch is one transaction. An interrupted run is finished by running the same command again: what is in stays as it is.
"""

import csv
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final
from uuid import UUID

import click
import stamina
import stamina.instrumentation
from pydantic import ValidationError
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from ledger.canonical import CanonicalError
from ledger.database import WORKER_STATEMENT_SECONDS, connect, first, transaction
from ledger.errors import BadInput, LedgerError
from ledger.money import MoneyError
from ledger.online_retail import read_online_retail
from ledger.online_retail_rows import ReturnLine
from ledger.order_facts import OrderFacts
from ledger.order_formats import FormatError, Refused, bounded_lines, read_onceback
from ledger.order_import import store_orders
from ledger.order_repeats import Stored
from ledger.queries.in_question import waiting_orders
from settings import Settings

# A batch is held in memory and is one transaction: large enough that its few statements cost little, small enough that a
# refused one is soon done again order by order.
BATCH_ORDERS: Final = 500
BATCH_LINES: Final = 5_000
# Another process was in the way, or the server is going down or coming up: the batch is simply done again.
PASSING: Final = ("40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300")
RETRIES: Final = 8

# By default each retry is logged with the error's text, and a database repeats in it the values it was given (S74).
stamina.instrumentation.set_on_retry_hooks(())

Entry = OrderFacts | ReturnLine | Refused
# Makes the payments of orders that name none, outside any transaction; gives the orders back with their references.
Payments = Callable[[list[OrderFacts]], list[OrderFacts]]


@dataclass
class Report:
    """What became of a file. `refusals` counts refused lines by reason; each is told to `refuse` when it is found."""

    refuse: Callable[[Refused], None] = lambda _refused: None
    orders: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    unpayable: int = 0
    returns: int = 0
    refusals: Counter[str] = field(default_factory=Counter)

    def add(self, facts: OrderFacts, stored: Stored) -> None:
        """Counts one stored order."""
        self.orders[stored.status] += 1
        if stored.status == "created":
            self.lines += len(facts.lines)
            self.unpayable += sum(capture.charge_ref is None for capture in facts.captures)

    def add_refused(self, refused: Refused) -> None:
        """Counts and reports one line that was not taken."""
        self.refusals[refused.reason] += 1
        self.refuse(refused)


def import_orders(
    engine: Engine, merchant_id: UUID, entries: Iterable[Entry], report: Report, payments: Payments | None = None
) -> Report:
    """Stores the orders among the entries batch by batch, each batch in one transaction. Memory is bounded by a batch.

    A batch that the ledger refuses is done again order by order, so that one bad order costs only itself. Raises
    LedgerError when nothing can be stored at all, DBAPIError when the database stays away; what was stored stays.
    """
    for batch in _batches(entries, report):
        orders = payments(batch) if payments else batch
        for facts, outcome in zip(orders, _store(engine, merchant_id, orders), strict=True):
            if isinstance(outcome, Refused):
                report.add_refused(outcome)
            else:
                report.add(facts, outcome)
    return report


def _batches(entries: Iterable[Entry], report: Report) -> Iterator[list[OrderFacts]]:
    batch: list[OrderFacts] = []
    lines = 0
    for entry in entries:
        if isinstance(entry, Refused):
            report.add_refused(entry)
        elif isinstance(entry, ReturnLine):
            report.returns += 1
        else:
            batch.append(entry)
            lines += len(entry.lines)
            if len(batch) == BATCH_ORDERS or lines >= BATCH_LINES:
                yield batch
                batch, lines = [], 0
    if batch:
        yield batch


def _passing(error: Exception) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state is None or state in PASSING


def _commit(engine: Engine, merchant_id: UUID, orders: list[OrderFacts]) -> list[Stored]:
    for attempt in stamina.retry_context(on=_passing, attempts=RETRIES, wait_initial=0.2, wait_max=5, timeout=None):
        with attempt, transaction(engine, merchant_id) as db:
            return store_orders(db, merchant_id, orders)
    raise AssertionError("the last attempt raises")


def _store(engine: Engine, merchant_id: UUID, orders: list[OrderFacts]) -> list[Stored | Refused]:
    try:
        return list(_commit(engine, merchant_id, orders))
    except (DBAPIError, MoneyError, CanonicalError, BadInput) as error:
        if _passing(error):
            raise
        if len(orders) > 1:
            return [_store(engine, merchant_id, [facts])[0] for facts in orders]
        return [_refusal(orders[0], error)]


def _refusal(facts: OrderFacts, error: Exception) -> Refused:
    if isinstance(error, DBAPIError):
        taken = getattr(error.orig, "sqlstate", None) == "23505"
        reason = "payment_taken" if taken else "not_stored"
        say = (
            "a payment of this order already belongs to another order"
            if taken
            else "the ledger's rules refuse this order"
        )
        return Refused(0, reason, say, facts.external_ref)
    return Refused(0, "not_allocated", str(error), facts.external_ref)


FORMATS: Final = ("onceback", "online-retail")


def read_entries(file: BinaryIO, name: str) -> Iterator[Entry]:
    """The entries of an open file of a format. Raises FormatError when the file is not of it."""
    if name == "online-retail":
        return read_online_retail(file)
    return read_onceback(bounded_lines(file))


@click.group("orders")
def orders() -> None:
    """Orders."""


@orders.command("import")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--format", "name", type=click.Choice(FORMATS), required=True, help="How the file is written.")
@click.option("--merchant", required=True, help="Slug of the merchant whose orders these are.")
@click.option(
    "--report", "report_path", type=click.Path(dir_okay=False, path_type=Path), help="Lists refused lines, as CSV."
)
@click.option(
    "--payments", help="MODULE:FUNCTION that makes the payments of orders that name none, as the demo has one."
)
def import_command(path: Path, name: str, merchant: str, report_path: Path | None, payments: str | None) -> None:
    """Store the orders of FILE. Safe to repeat: a second run changes nothing, and finishes one that was interrupted."""
    engine = connect(
        _settings().database_url.get_secret_value(),
        pool_size=2,
        statement_seconds=WORKER_STATEMENT_SECONDS,
        name="orders",
    )
    try:
        with _alone(engine, _merchant(engine, merchant)) as merchant_id, _refusals(report_path) as refuse:
            make = _payments(payments, engine, merchant_id) if payments else None
            with path.open("rb") as file, _progress(file, path) as watched:
                report = import_orders(engine, merchant_id, watched(read_entries(file, name)), Report(refuse), make)
    except FormatError as error:
        raise click.ClickException(f"{path}: {error}") from None
    except LedgerError as error:
        raise click.ClickException(error.sentence) from None
    except DBAPIError:
        raise click.ClickException(
            "The database went away. What is stored stays: run the same command again."
        ) from None
    finally:
        engine.dispose()
    for line in summary(report, report_path):
        click.echo(line)


@orders.command("in-question")
@click.option("--merchant", required=True, help="Slug of the merchant whose orders these are.")
def in_question_command(merchant: str) -> None:
    """List the orders of which nothing is paid until two people settle which figures stand, on the desk "Orders in question"."""
    engine = connect(_settings().database_url.get_secret_value(), pool_size=1, name="orders")
    try:
        merchant_id = _merchant(engine, merchant)
        with transaction(engine, merchant_id, read_only=True) as db:
            waiting = waiting_orders(db, merchant_id)
    except DBAPIError:
        raise click.ClickException("The database does not answer: try again.") from None
    finally:
        engine.dispose()
    for one in waiting:
        stands = f"proposed by {one.proposed_by}" if one.proposed_by else "nothing proposed"
        named = ", ".join(one.names)
        amounts = f"total {one.total_minor}, captured {one.captured_minor} minor units of {one.currency}"
        click.echo(f"{one.reference}  {one.since:%Y-%m-%d}  {named}  {amounts}  {stands}")
    click.echo(f"{len(waiting)} orders in question.")


def summary(report: Report, report_path: Path | None) -> list[str]:
    """What a person reads at the end."""
    count = report.orders
    told = [f"Orders: {count['created']} stored ({report.lines} lines), {count['unchanged']} unchanged."]
    if count["updated"]:
        told.append(
            f"{count['updated']} orders came with news of their delivery: kept, and their open returns worked out again."
        )
    if count["conflict"]:
        told.append(
            f"{count['conflict']} orders came with other amounts than before: blocked until two people settle which stand."
        )
    if report.returns:
        told.append(f"Return lines: {report.returns}, left for the replay, which opens them as returns.")
    if report.unpayable:
        told.append(f"{report.unpayable} payments have no reference at the provider and cannot be paid back there.")
    where = f": see {report_path}" if report_path and report.refusals else ""
    told.append(f"Lines refused: {report.refusals.total()}{where}.")
    told += [f"  {count} {reason.replace('_', ' ')}" for reason, count in report.refusals.most_common()]
    return told


def _settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        wrong = {str(fault["loc"][0]).upper() if fault["loc"] else str(fault["msg"]) for fault in error.errors()}
        raise click.ClickException(f"The configuration is not complete: check {', '.join(sorted(wrong))}.") from None


def _merchant(engine: Engine, slug: str) -> UUID:
    with transaction(engine, read_only=True) as db:
        row = first(db, "SELECT id FROM merchants WHERE slug = :slug", slug=slug)
    if row is None:
        raise click.ClickException(f"There is no merchant {slug!r}: add it with `flask merchants add`.")
    return UUID(str(row["id"]))


@contextmanager
def _alone(engine: Engine, merchant_id: UUID) -> Iterator[UUID]:
    """Two imports of one merchant at once would wait for each other order by order."""
    number = merchant_id.int & 0x7FFF_FFFF_FFFF_FFFF
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as held:
        if not held.exec_driver_sql("SELECT pg_try_advisory_lock(%s)", (number,)).scalar():
            raise click.ClickException("Another import of this merchant is running: wait for it to end.")
        yield merchant_id


@contextmanager
def _refusals(path: Path | None) -> Iterator[Callable[[Refused], None]]:
    """Writes refused lines as they are found; the file gets its name when the run has come to its end."""
    if path is None:
        yield lambda _refused: None
        return
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["line", "order", "reason", "what to do"])
        yield lambda refused: writer.writerow(
            [refused.line_no or "", _cell(refused.ref or ""), refused.reason, _cell(refused.say)]
        )
    unfinished.replace(path)


def _cell(text: str) -> str:
    """Text that no spreadsheet reads as a formula."""
    return "'" + text if text.lstrip()[:1] in ("=", "+", "-", "@", "＝", "＋", "－", "＠") and text else text


def _payments(place: str, engine: Engine, merchant_id: UUID) -> Payments:
    module, _, name = place.partition(":")
    try:
        made: Payments = getattr(importlib.import_module(module), name)(engine, merchant_id)
    except (ImportError, AttributeError, ValueError):
        raise click.ClickException(f"--payments {place}: there is no such function here.") from None
    return made


@contextmanager
def _progress(file: BinaryIO, path: Path) -> Iterator[Callable[[Iterator[Entry]], Iterator[Entry]]]:
    """Shows on a terminal how much of the file has been read."""
    with ExitStack() as shown:
        if not sys.stderr.isatty():
            yield lambda entries: entries
            return
        bar = shown.enter_context(click.progressbar(length=path.stat().st_size, label=path.name, file=sys.stderr))

        def watched(entries: Iterator[Entry]) -> Iterator[Entry]:
            for entry in entries:
                bar.update(max(0, file.tell() - bar.pos))
                yield entry

        yield watched
