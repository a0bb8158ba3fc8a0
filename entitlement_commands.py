"""`flask entitlement explain` and `flask entitlement audit`: what is owed as arithmetic, and its proof from what was stored.

Both only read, and need a DATABASE_URL of any role. They end with 1 when something is not proved that should be.
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import click
from sqlalchemy import Engine

from books_commands import named_merchants, open_engine
from ledger.database import first, scalar, transaction
from ledger.entitlement_audit import NOTES, Difference, prove
from ledger.entitlement_explain import explain
from ledger.entitlement_store import ALWAYS, Period, StoredRecord, read_pages, read_record, read_span

_DAY: Final = click.DateTime(["%Y-%m-%d"])
_NUMBER: Final = re.compile(r"(?:C-)?([0-9]{1,18})", re.IGNORECASE)


@click.group("entitlement")
def entitlement() -> None:
    """What is owed, and why."""


@entitlement.command("explain")
@click.argument("case")
@click.option("--merchant", "slug", help="Whose case it is; else it is looked for at every merchant.")
@click.option("--version", "n", type=click.IntRange(min=1), help="An earlier entitlement of the case; else the newest.")
@click.option("--recompute", "again", is_flag=True, help="Derive it again from what was stored with it, and compare.")
def explain_command(case: str, slug: str | None, n: int | None, again: bool) -> None:
    """Print what is owed for CASE, a number such as C-20431 or an id: lines, tax, payments, deadline, rules, and who decides.

    With --recompute it ends with 1 and names what differs, unless its stored inputs give the same record to the byte.
    """
    with open_engine("explain") as engine:
        stored = _find(engine, case, named_merchants(engine, slug), n)
    try:
        told = explain(stored.record)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise click.ClickException(
            f"Entitlement {stored.n} of C-{stored.case_number} cannot be read ({type(error).__name__}: {error}):"
            " `flask entitlement audit` says what is wrong with it."
        ) from None
    click.echo(f"C-{stored.case_number}, entitlement {stored.n}")
    for line in told:
        click.echo(line)
    if again:
        _say_proof(prove(stored))


def _say_proof(found: list[Difference]) -> None:
    if not found:
        click.echo("proved: its stored inputs give the same record, to the byte")
        return
    for one in found:
        click.echo(f"not proved: {_words(one.name)}: {one.say}")
    raise SystemExit(1)


def _find(engine: Engine, case: str, merchants: list[tuple[UUID, str]], n: int | None) -> StoredRecord:
    """The entitlement that is asked for. Raises ClickException where there is none, or where several merchants have the case."""
    where = [
        (merchant_id, name, case_id) for merchant_id, name in merchants if (case_id := _case(engine, merchant_id, case))
    ]
    if not where:
        whose = f" of {merchants[0][1]}" if len(merchants) == 1 else ""
        raise click.ClickException(f"There is no case {case}{whose}.")
    if len(where) > 1:
        names = ", ".join(name for _, name, _ in where)
        raise click.ClickException(f"{case} is a case of {names}: name one with --merchant.")
    ((merchant_id, _, case_id),) = where
    with transaction(engine, merchant_id, read_only=True) as db:
        found = read_record(db, merchant_id, case_id, n)
    if found is None:
        which = f"no entitlement {n}" if n else "no entitlement yet"
        raise click.ClickException(f"Case {case} has {which}.")
    return found


def _case(engine: Engine, merchant_id: UUID, case: str) -> UUID | None:
    """The id of a merchant's case. Raises ClickException for what is neither a number nor an id."""
    number = _NUMBER.fullmatch(case.strip())
    with transaction(engine, merchant_id, read_only=True) as db:
        if number is not None:
            found = scalar(
                db, "SELECT case_id FROM cases WHERE merchant_id = :m AND number = :n", m=merchant_id, n=int(number[1])
            )
        else:
            try:
                given = UUID(case.strip())
            except ValueError:
                raise click.ClickException(
                    f"CASE is a number such as C-20431, or an id; {case!r} is neither."
                ) from None
            found = scalar(
                db, "SELECT case_id FROM cases WHERE merchant_id = :m AND case_id = :c", m=merchant_id, c=given
            )
    return UUID(str(found)) if found else None


@entitlement.command("audit")
@click.option("--merchant", "slug", help="One merchant; else every one.")
@click.option("--from", "since", type=_DAY, help="First day on which they were derived, in the merchant's zone.")
@click.option("--to", "until", type=_DAY, help="Last such day.")
@click.option("--list-notes", is_flag=True, help="List rows without stored inputs, or of another engine, one by one.")
def audit_command(slug: str | None, since: datetime | None, until: datetime | None, list_notes: bool) -> None:
    """Derive every entitlement again from what was stored with it, and compare.

    Prints each difference with its name and what it means; ends with 1 if there is one. Rows that were stored before their
    inputs were, are counted, not faulted.
    """
    if since and until and until < since:
        raise click.UsageError("--to is before --from.")
    wrong = 0
    with open_engine("audit") as engine:
        for merchant_id, name in named_merchants(engine, slug):
            wrong += _audit(engine, merchant_id, name, _period(engine, merchant_id, since, until), list_notes)
    if wrong:
        raise SystemExit(1)


def _period(engine: Engine, merchant_id: UUID, since: datetime | None, until: datetime | None) -> Period:
    with transaction(engine, merchant_id, read_only=True) as db:
        row = first(db, "SELECT zone FROM merchants WHERE id = :m", m=merchant_id)
    zone = ZoneInfo(row["zone"] if row is not None else "UTC")
    return Period(
        since.replace(tzinfo=zone) if since else ALWAYS.from_at,
        (until + timedelta(days=1)).replace(tzinfo=zone) if until else ALWAYS.to_at,
    )


def _audit(engine: Engine, merchant_id: UUID, name: str, period: Period, list_notes: bool) -> int:
    """Proves a merchant's entitlements one page after the other; how many are not what they should be."""
    began, counts, wrong, proved, rows = time.monotonic(), Counter[str](), 0, 0, 0
    with _progress(engine, merchant_id, name, period) as watched:
        for stored in watched(read_pages(engine, merchant_id, period)):
            rows += 1
            found = prove(stored)
            counts.update({one.name for one in found})
            faults = [one for one in found if one.name not in NOTES]
            wrong, proved = wrong + bool(faults), proved + (not found)
            for one in found if list_notes else faults:
                click.echo(f"{name}: C-{stored.case_number}, entitlement {stored.n}: {_words(one.name)}: {one.say}")
    told = "".join(f", {count} {_words(kind)}" for kind, count in sorted(counts.items()))
    took = time.monotonic() - began
    click.echo(f"{name}: {rows} entitlements, {proved} proved{told}, in {took:.1f} s.")
    return wrong


def _words(name: str) -> str:
    return name.replace("_", " ")


_WHOLE: Final = 1000


@contextmanager
def _progress(engine: Engine, merchant_id: UUID, name: str, period: Period) -> Iterator[Any]:
    """Shows how much of the time between the first entitlement and the last has been gone through: nothing has to be counted."""
    with transaction(engine, merchant_id, read_only=True) as db:
        span = read_span(db, merchant_id, period)
    with click.progressbar(length=_WHOLE, label=f"Deriving again {name}", file=sys.stderr) as bar:

        def watched(pages: Iterable[list[StoredRecord]]) -> Iterator[StoredRecord]:
            for page in pages:
                yield from page
                if span is not None and span.to_at > span.from_at:
                    part = (page[-1].at - span.from_at) / (span.to_at - span.from_at)
                    bar.update(max(0, min(_WHOLE, int(part * _WHOLE)) - bar.pos))
            bar.update(_WHOLE - bar.pos)

        yield watched
