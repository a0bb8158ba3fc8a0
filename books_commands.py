"""`flask reconcile run` and `flask ledger verify`: the books against the provider, and against themselves.

`reconcile run` is a worker for as long as it takes and needs what a worker needs. `ledger verify` reads, needs a DATABASE_URL
of any role, and ends with 1 when it found anything.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import click
import psycopg
from pydantic import ValidationError
from sqlalchemy import Engine
from sqlalchemy.exc import ArgumentError, DBAPIError

from jobs import books
from jobs.commands import ROLE, read_settings, start_faults
from jobs.logs import configure
from jobs.schedule import stop_on_signals
from jobs.self_check import walk
from jobs.worker import BUSY, Counts, Worker, running_worker
from ledger.database import WORKER_STATEMENT_SECONDS, connect, first, rows, transaction
from ledger.database_role import WrongRole, check_role
from ledger.errors import LedgerError
from ledger.queries.discrepancies import Progress, read_progress
from ledger.reconciliation_run import Run, ask_run
from ledger.self_check import ALL_CHECKS, Fault, raise_alarms
from settings import Settings

_DAY: Final = click.DateTime(["%Y-%m-%d"])
_WHOLE: Final = 1000
# Pages turn many times a second; a bar that moves twice is read as well.
_SHOW_SECONDS: Final = 0.5


@click.group("reconcile")
def reconcile() -> None:
    """The books against the provider."""


@reconcile.command("run")
@click.option("--merchant", "slug", required=True)
@click.option("--from", "since", type=_DAY, required=True, help="First day, in the merchant's zone.")
@click.option("--to", "until", type=_DAY, required=True, help="Last day, in the merchant's zone.")
def run_command(slug: str, since: datetime, until: datetime) -> None:
    """Compare a period both ways. An unfinished run over the same period is gone on with where it stands."""
    configure()
    given = read_settings()
    faults = start_faults(given, os.environ)
    if faults:
        raise click.ClickException(
            "The command is a worker, and does not start.\n" + "\n".join(f"- {one}" for one in faults)
        )
    try:
        with running_worker(given) as worker:
            check_role(worker.engine, ROLE)
            stop_on_signals(worker, lambda: None)
            _run(worker, slug, since, until)
    except (ValueError, WrongRole) as error:
        raise click.ClickException(str(error)) from None
    except LedgerError as error:
        raise click.ClickException(error.sentence) from None
    except (psycopg.OperationalError, *BUSY):
        raise click.ClickException("The database does not answer: check DATABASE_URL and that it runs.") from None


def _run(worker: Worker, slug: str, since: datetime, until: datetime) -> None:
    merchant_id, zone = _merchant(worker.engine, slug)
    begins, ends = (day.replace(tzinfo=ZoneInfo(zone)) for day in (since, until + timedelta(days=1)))
    with transaction(worker.engine, merchant_id) as db:
        run_ids = ask_run(db, merchant_id, begins, ends, "command")
    for run_id in run_ids:
        _follow(worker, merchant_id, run_id)
        if worker.stopping.is_set():
            click.echo("Stopped. The same command goes on where this one stands.")
            return
        _report(worker.engine, merchant_id, run_id)


def _follow(worker: Worker, merchant_id: UUID, run_id: UUID) -> None:
    """Works the run, or watches whoever does, until it is over."""
    counts: Counts = Counter()
    said, shown_at = "", 0.0
    with click.progressbar(length=_WHOLE, label="Comparing", show_pos=False) as bar:

        def told(_held: Run) -> None:
            nonlocal shown_at
            if time.monotonic() - shown_at > _SHOW_SECONDS:
                shown_at = time.monotonic()
                _tell(bar, worker.engine, merchant_id, run_id)

        while not worker.stopping.is_set():
            books.work_runs(worker, merchant_id, counts, run_id, told)
            progress = _tell(bar, worker.engine, merchant_id, run_id)
            if progress.finished_at is not None:
                return
            if progress.waits_for and progress.waits_for != said:
                click.echo(f"\nThe provider cannot be asked: {progress.waits_for}. Trying again in a minute.", err=True)
            said = progress.waits_for
            worker.stopping.wait(1)


def _tell(bar: Any, engine: Engine, merchant_id: UUID, run_id: UUID) -> Progress:
    with transaction(engine, merchant_id, read_only=True) as db:
        progress = read_progress(db, merchant_id, run_id)
    bar.update(max(0, progress.permille - bar.pos))
    return progress


def _report(engine: Engine, merchant_id: UUID, run_id: UUID) -> None:
    with transaction(engine, merchant_id, read_only=True) as db:
        progress = read_progress(db, merchant_id, run_id)
    for total in progress.totals:
        click.echo(
            f"{total.part:<9} {total.currency}: ours {total.ours_minor}, theirs {total.theirs_minor} minor units,"
            f" difference {total.difference_minor}, explained {total.explained_minor}"
        )
    found = ", ".join(f"{kind} {number}" for kind, number in sorted(progress.found.items())) or "nothing differs"
    click.echo(f"{progress.rows_read} rows on {progress.pages} pages: {found}.")


@click.group("ledger")
def ledger() -> None:
    """The books themselves."""


@ledger.command("verify")
@click.option("--merchant", "slug", help="One merchant; else every one.")
def verify(slug: str | None) -> None:
    """Check that balances are what their journals add up to, chains hold, and claims, states and approvals agree.

    Prints each fault with its ids and what it means; ends with 1 if there is one.
    """
    with open_engine("verify") as engine:
        merchants = named_merchants(engine, slug)
        found = 0
        for merchant_id, name in merchants:
            began = time.monotonic()
            faults = _verify(engine, merchant_id, name)
            found += len(faults)
            for fault in faults:
                click.echo(f"{name}: {fault.line()}")
            click.echo(f"{name}: {len(faults)} faults, {len(ALL_CHECKS)} checks in {time.monotonic() - began:.1f} s.")
    if found:
        raise SystemExit(1)


def _verify(engine: Engine, merchant_id: UUID, name: str) -> list[Fault]:
    faults: list[Fault] = []
    with click.progressbar(length=len(ALL_CHECKS), label=f"Checking {name}", file=sys.stderr) as bar:
        for over, step in walk(engine, merchant_id):
            faults += step
            bar.update(over - bar.pos)
    if faults:
        with transaction(engine, merchant_id) as db:
            raise_alarms(db, merchant_id, faults)
    return faults


def named_merchants(engine: Engine, slug: str | None) -> list[tuple[UUID, str]]:
    """Id and slug of one merchant, or of every one. Raises ClickException for a slug that is nobody's."""
    if slug:
        return [(_merchant(engine, slug)[0], slug)]
    with transaction(engine, read_only=True) as db:
        return [(row["id"], row["slug"]) for row in rows(db, "SELECT id, slug FROM merchants ORDER BY slug")]


def _merchant(engine: Engine, slug: str) -> tuple[UUID, str]:
    """Id and zone. Raises ClickException for a slug that is nobody's."""
    with transaction(engine, read_only=True) as db:
        row = first(db, "SELECT id, zone FROM merchants WHERE slug = :s", s=slug)
    if row is None:
        raise click.ClickException(f"There is no merchant {slug}.")
    return row["id"], row["zone"]


@contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """The database of DATABASE_URL, with the patience of a worker, and its errors as a command says them."""
    try:
        url = Settings().database_url.get_secret_value()
        engine = connect(url, pool_size=1, statement_seconds=WORKER_STATEMENT_SECONDS, name=name)
    except ValidationError:
        raise click.ClickException("The configuration is not complete: check DATABASE_URL.") from None
    except ArgumentError:
        raise click.ClickException(
            "DATABASE_URL is not an address such as postgresql://role:…@host/onceback."
        ) from None
    try:
        yield engine
    except DBAPIError:
        raise click.ClickException("The database does not answer, or has no schema: `flask db migrate`.") from None
    finally:
        engine.dispose()


groups = (reconcile, ledger)
