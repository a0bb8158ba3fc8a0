"""`flask recovered list` and `close`: refunds of before a recovery that only people can put in their place (S86).

As `flask recover`, it runs as onceback_owner with the workers' provider keys, by two engineers; workers may run meanwhile. The
refund is read again at the provider, so that what is closed is what stands there.
"""

import re
from typing import Final

import click
from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError

from jobs.commands import read_settings
from jobs.logs import configure, log
from jobs.recover import as_owner, gateway_of, owner_engine
from jobs.stripe_gateway import LookFailed, NoSuchRefund, StripeGateway
from ledger import recovery
from ledger.database import transaction
from ledger.errors import LedgerError
from ledger.outbox import close_alarms
from ledger.recovery import Account
from ledger.recovery_refunds import ByHand, Named, close_by_people
from ledger.settlement import ProviderRefund

_UNITS: Final = re.compile(r"(?P<line>.{1,100})\[(?P<from>\d{1,7}),(?P<to>\d{1,7})\)", re.DOTALL)


@click.group("recovered")
def recovered() -> None:
    """Refunds of before a recovery that wait for people."""


@recovered.command("list")
@click.argument("slug")
def list_waiting(slug: str) -> None:
    """List what waits for people, with why."""
    with owner_engine(read_settings()) as engine:
        as_owner(engine)
        account = _accounts(engine, slug)[0]
        with transaction(engine, account.merchant_id, read_only=True) as db:
            waiting = recovery.by_hand(db, account.merchant_id)
    for line in waiting:
        click.echo(line)
    click.echo(f"{len(waiting)} wait for people.")


@recovered.command("close")
@click.argument("slug")
@click.argument("refund_ref")
@click.option("--engineers", nargs=2, required=True, help="The two engineers who say this together.")
@click.option(
    "--units", multiple=True, help="Units of a line in the order's words, such as 'TEE[0,2)'; once for each range."
)
@click.option("--whole", is_flag=True, help="It consumed every unit of its order that no case holds.")
def close(slug: str, refund_ref: str, engineers: tuple[str, str], units: tuple[str, ...], whole: bool) -> None:
    """Put one refund in its place: name its units, say that it consumed its order whole, or neither when it says them itself."""
    configure()
    if whole and units:
        raise click.UsageError("Name the units, or give --whole.")
    given = read_settings()
    named = [_units(text) for text in units] or None
    with owner_engine(given) as engine:
        as_owner(engine)
        account, refund = _read(gateway_of(given), _accounts(engine, slug), refund_ref)
        outcome = _close(engine, account, refund, engineers, named, whole=whole)
    for name in engineers:
        log.warning("recovered", engineer=name, merchant=slug, refund=refund_ref, outcome=outcome)
    click.echo(f"{refund_ref} is {outcome}.")


def _close(
    engine: Engine, account: Account, refund: ProviderRefund, engineers: tuple[str, str], named: Named | None, *, whole: bool
) -> str:  # fmt: skip
    try:
        with transaction(engine, account.merchant_id) as db:
            outcome = close_by_people(db, account, refund, engineers, named, whole=whole)
            if not recovery.by_hand(db, account.merchant_id):
                close_alarms(db, account.merchant_id, "recovered_by_hand", "Each refund that waited is in its place.")
            return outcome
    except ByHand as why:
        raise click.ClickException(f"It still waits for people: {why}.") from None
    except LedgerError as refused:
        raise click.ClickException(refused.sentence) from None
    except IntegrityError as error:
        if "units_returned_once" not in str(error.orig):
            raise click.ClickException("The books do not take it as it stands.") from None
        raise click.ClickException("Its units are held by another case: see what that case is for first.") from None


def _accounts(engine: Engine, slug: str) -> list[Account]:
    with transaction(engine) as db:
        found = [account for account in recovery.accounts(db) if account.slug == slug]
    if not found:
        raise click.ClickException(f"There is no merchant {slug}.")
    return found


def _read(gateway: StripeGateway, accounts: list[Account], refund_ref: str) -> tuple[Account, ProviderRefund]:
    """The refund as it stands now, at whichever account of the merchant has it."""
    for account in accounts:
        try:
            return account, gateway.retrieve(account, refund_ref)
        except NoSuchRefund:
            continue
        except LookFailed as failure:
            raise click.ClickException(f"The provider could not be read: {failure.code}. Run this again.") from None
    raise click.ClickException("The provider has no such refund in this merchant's accounts.")


def _units(text: str) -> tuple[str, int, int]:
    found = _UNITS.fullmatch(text)
    if found is None or int(found["from"]) >= int(found["to"]):
        raise click.BadParameter(f"{text}: units are written as TEE[0,2), the first and the one after the last")
    return found["line"], int(found["from"]), int(found["to"])
