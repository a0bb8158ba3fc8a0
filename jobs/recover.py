"""`flask recover`: takes the books up again after a backup was restored (S85–S87). See docs/operations.md.

It runs as onceback_owner with the workers' provider keys, by two engineers, while no worker lives. Each step is a transaction of
its own and may be repeated, so that a run that was stopped is run again and goes on.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import click
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, IntegrityError

from jobs.commands import read_settings
from jobs.logs import configure, log
from jobs.stripe_gateway import LookFailed, StripeGateway
from jobs.worker import BUSY
from ledger import recovery
from ledger.database import connect, scalar, transaction
from ledger.errors import LedgerError
from ledger.outbox import close_alarms
from ledger.recovery import Account, Recovery
from ledger.recovery_refunds import ByHand, leave_by_hand, take_up
from ledger.settlement import ProviderRefund
from settings import Settings

OWNER: Final = "onceback_owner"
STATEMENT_SECONDS: Final = 600


@click.command("recover")
@click.option("--engineers", nargs=2, required=True, help="The two engineers who do this together.")
@click.option(
    "--backup-at", help="When the backup was taken, UTC, such as 2026-11-30T02:00; default: its newest event."
)
def recover(engineers: tuple[str, str], backup_at: str | None) -> None:
    """Take the books up again after a backup was restored. Stop every worker first; may be run again at any time."""
    configure()
    given = read_settings()
    for name, key in (("SEAL_KEY", given.seal_key), ("AUTOMATIC_SEAL_KEY", given.automatic_seal_key)):
        if key is not None or f"{name}_FILE" in os.environ:
            raise click.ClickException(f"{name} is given. Only the web process may seal approvals: take it away here.")
    if not given.provider_keys:
        raise click.ClickException("PROVIDER_KEYS is missing: give those of the workers, to read what was paid.")
    with owner_engine(given) as engine:
        as_owner(engine)
        _recover(engine, gateway_of(given), engineers, _moment(backup_at))


@contextmanager
def owner_engine(given: Settings) -> Iterator[Engine]:
    """The owner's database for a command of a recovery; what is refused or busy becomes a sentence."""
    engine = connect(
        given.database_url.get_secret_value(), pool_size=1, statement_seconds=STATEMENT_SECONDS, name="recover"
    )
    try:
        yield engine
    except LedgerError as refused:
        raise click.ClickException(refused.sentence) from None
    except BUSY:
        raise click.ClickException(
            "The database does not answer, or something holds its rows: run this again."
        ) from None
    finally:
        engine.dispose()


def _recover(engine: Engine, gateway: StripeGateway, engineers: tuple[str, str], backup_at: datetime | None) -> None:
    with transaction(engine) as db:
        begun = recovery.begin(db, engineers, backup_at)
        accounts = recovery.accounts(db)
    for name in engineers:
        log.warning("recovery", engineer=name, state="again" if begun.again else "begun", count=begun.generation)
    click.echo(
        f"{'Going on with' if begun.again else 'Begun'} generation {begun.generation}; the backup is of {_minute(begun.backup_at)}."
    )
    for account in accounts:
        counts = _take_up_account(engine, gateway, account, begun)
        click.echo(
            f"{account.slug}: " + (", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "nothing listed")
        )
    merchants = sorted({(account.slug, account.merchant_id) for account in accounts})
    for slug, merchant_id in merchants:
        with transaction(engine, merchant_id, read_only=True) as db:
            cases = recovery.unsettled(db, merchant_id)
        held = given = 0
        for case_id in cases:
            with transaction(engine, merchant_id) as db:
                at_rest = recovery.put_to_rest(db, merchant_id, case_id)
            held, given = held + at_rest[0], given + at_rest[1]
        click.echo(f"{slug}: {held} held, {given} given to a person")
    waits_no_more: list[UUID] = []
    for slug, merchant_id in merchants:
        with transaction(engine, merchant_id, read_only=True) as db:
            for line in recovery.by_hand(db, merchant_id):
                click.echo(f"{slug}: by hand: {line}")
            if not recovery.by_hand(db, merchant_id):
                waits_no_more.append(merchant_id)
    for merchant_id in waits_no_more:
        with transaction(engine, merchant_id) as db:
            close_alarms(db, merchant_id, "recovered_by_hand", "Each refund that waited is in its place.")
    with transaction(engine) as db:
        recovery.finish(db, begun.generation)
    log.warning("recovery", state="finished", count=begun.generation)
    click.echo(f"GENERATION={begun.generation}")


def _take_up_account(engine: Engine, gateway: StripeGateway, account: Account, begun: Recovery) -> Counter[str]:
    """Every refund the account lists since 48 h before the backup, oldest first. Raises ClickException when it cannot be read."""
    listed: list[ProviderRefund] = []
    after: str | None = None
    while True:
        try:
            page = gateway.account_refunds(account, begun.listed_from, after)
        except LookFailed as failure:
            raise click.ClickException(
                f"The provider could not be read for {account.slug}: {failure.code}. Run this again."
            ) from None
        if page.unread:
            named = ", ".join(one.ref for one in page.unread[:5])
            raise click.ClickException(
                f"{len(page.unread)} refunds of {account.slug} cannot be read: {named}. Ask the provider, run this again."
            )
        listed += page.rows
        after = page.next_after
        if after is None:
            break
    counts: Counter[str] = Counter()
    for refund in reversed(listed):
        outcome = _take_up(engine, account, begun.generation, refund)
        counts[outcome.replace("_", " ")] += outcome != "known"
        if outcome != "known":
            log.info(
                "recovered", merchant=account.slug, intent=refund.intent_id, refund=refund.refund_ref, outcome=outcome
            )
    return +counts


def _take_up(engine: Engine, account: Account, generation: int, refund: ProviderRefund) -> str:
    try:
        with transaction(engine, account.merchant_id) as db:
            return take_up(db, account, generation, refund)
    except ByHand as why:
        reason = str(why)
    except IntegrityError as error:
        held = "units_returned_once" in str(error.orig)
        reason = "its units are held by another case" if held else "the books do not take it as it stands"
    with transaction(engine, account.merchant_id) as db:
        return leave_by_hand(db, account, generation, refund, reason)


def gateway_of(given: Settings) -> StripeGateway:
    """The provider with the keys of the workers."""
    return StripeGateway(
        given.provider_keys, given.provider_base_url, given.provider_connect_seconds, given.provider_read_seconds
    )


def as_owner(engine: Engine) -> None:
    """Raises ClickException unless this is the owner of the schema."""
    try:
        with transaction(engine, read_only=True) as db:
            who = scalar(db, "SELECT current_user")
    except DBAPIError:
        raise click.ClickException("The database does not answer: check DATABASE_URL and that it runs.") from None
    if who != OWNER:
        raise click.ClickException(f"This runs as {OWNER}, and DATABASE_URL signs in as another role.")


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("--backup-at is a moment such as 2026-11-30T02:00") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
