"""The commands of whoever sets the console up: `flask db`, `brakes`, `merchants`, `policies`, `staff`, `tokens`, `keys`.

They run with DATABASE_URL of onceback_owner (`staff list|disable|password` with onceback_console too). A password is asked
for, or read from standard input when that is no terminal; it is never an argument. What a command changed is a line of the
security log on standard error (S89): ids and codes, and who ran it.
"""

import getpass
import json
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO
from uuid import UUID

import click
from alembic.util import CommandError
from pydantic import ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import ArgumentError, DBAPIError

from console import sessions
from console.log import configure, log
from console.passwords import hash_password, password_fault
from ledger import api_tokens, brakes, erasure, merchants, people
from ledger.database import connect, first, pin_tenant, rows, run, transaction
from ledger.errors import LedgerError
from ledger.events import SYSTEM
from ledger.migrations.run import migrate
from ledger.money import MoneyError, parse_major
from ledger.policy_publishing import publish
from ledger.position import deployment
from ledger.revocation import revoke_automatic, revoke_lost, revoke_over_limits
from ledger.seals import Sealer, new_key
from settings import Settings


@click.group("db")
def database() -> None:
    """The schema."""


@database.command("migrate")
def migrate_command() -> None:
    """Bring the database to the newest schema. Run as onceback_owner; safe to repeat."""
    try:
        migrate(_settings().database_url.get_secret_value())
    except CommandError as error:
        raise click.ClickException(str(error)) from None
    except (ArgumentError, DBAPIError):
        raise click.ClickException("The database does not answer: check DATABASE_URL and that it runs.") from None
    log.warning("schema_migrated", engineer=_account())
    click.echo("The schema is the newest.")


@database.command("deployment")
def show_deployment() -> None:
    """Print the settings by which workers know this database (S84). Any role may ask."""
    with _transaction() as db:
        known = deployment(db)
    if known is None:
        raise click.ClickException("There is no deployment yet: add the first merchant with `flask merchants add`.")
    click.echo(f"DEPLOYMENT_ID={known[0]}")
    click.echo(f"GENERATION={known[1]}")


@click.group("keys")
def keys() -> None:
    """Keys of the processes."""


@keys.command("new")
def new_keys() -> None:
    """Print fresh COOKIE_KEY and seal keys for the web process, and their public halves for workers. Nothing is stored.

    AUTOMATIC_SEAL_KEY seals what a policy approves by itself: leave that pair out where no policy does.
    """
    seal, automatic = (
        new_key(f"{use}-{datetime.now().astimezone():%Y%m%d}-{secrets.token_hex(2)}") for use in ("seal", "automatic")
    )
    click.echo(f"COOKIE_KEY={secrets.token_urlsafe(48)}")
    click.echo(f"SEAL_KEY={seal}")
    click.echo(f"AUTOMATIC_SEAL_KEY={automatic}")
    click.echo(f'SEAL_PUBLIC_KEYS=["{Sealer.from_text(seal).public_text()}"]')
    click.echo(f'AUTOMATIC_SEAL_PUBLIC=["{Sealer.from_text(automatic).public_text()}"]')


@click.group("merchants")
def merchant_group() -> None:
    """Merchants."""


_FACTOR_TEXTS = {
    "own": "nobody for a second factor who did not add one",
    "money": "everybody but readers for a second factor",
    "all": "everybody for a second factor",
}


def _second_factor(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--second-factor", name, type=click.Choice(merchants.FACTOR_RULES), default="money", show_default=True,
        help="Of whom one is asked at sign-in: own (who added one), money (all but readers), all.",
    )  # fmt: skip


@merchant_group.command("add")
@click.argument("slug")
@click.option("--name", required=True, help="As staff and customers know it.")
@click.option("--zone", required=True, help="Zone of its business day, such as Europe/Berlin.")
@click.option("--region", default="", help="Country whose rules its return window follows, such as DE.")
@click.option("--credential", required=True, help="Name of its key in PROVIDER_KEYS of the workers.")
@click.option("--account", default="", help="Connected account at the provider, when the key needs one.")
@click.option(
    "--charges", "charge_type", default="own", show_default=True, type=click.Choice(merchants.CHARGE_TYPES),
    help="How its payments are made: on its own account, or through a platform.",
)  # fmt: skip
@click.option(
    "--expect-account", default="", help="The account its key opens, acct_…; workers prove it before the first call."
)
@click.option("--live/--test", default=False, help="Whether its money is real.")
@click.option("--cap", "caps", multiple=True, help="Daily cap, such as EUR=5000.00; once for each currency.")
@_second_factor("second_factor")
def add_merchant(
    slug: str, name: str, zone: str, region: str, credential: str, account: str, charge_type: str, expect_account: str,
    live: bool, caps: tuple[str, ...], second_factor: str,
) -> None:  # fmt: skip
    """Make a merchant with its provider account and daily caps."""
    limits = dict(_cap(text) for text in caps)
    new = merchants.NewMerchant(
        slug, name, zone, region, credential, account, live, limits, charge_type=charge_type, expected_account=expect_account,
        second_factor=second_factor,
    )  # fmt: skip
    with _transaction() as db:
        merchant_id = merchants.add_merchant(db, new)
    log.warning("merchant_added", engineer=_account(), merchant=slug)
    click.echo(f"{slug} is {merchant_id}. Without a cap in a currency nothing of it can be approved.")
    click.echo("Its workers need DEPLOYMENT_ID and GENERATION: `flask db deployment` prints them.")


@merchant_group.command("retention")
@click.argument("slug")
@click.option(
    "--text-months", default=24, show_default=True, type=click.IntRange(1, 120), help="Months after a case is closed."
)
@click.option(
    "--photo-days", default=540, show_default=True, type=click.IntRange(30, 3650), help="Days after it is closed."
)
def set_retention(slug: str, text_months: int, photo_days: int) -> None:
    """Set how long a merchant keeps words and contact, and photos. What is over then is erased for good, soon."""
    with _transaction() as db:
        merchant_id = merchants.merchant_by_slug(db, slug)
        pin_tenant(db, merchant_id)
        erasure.keep_for(db, merchant_id, text_months, photo_days)
    log.warning("retention_set", engineer=_account(), merchant=slug)
    click.echo(f"{slug} keeps words for {text_months} months and photos for {photo_days} days after a case is closed.")


@merchant_group.command("second-factor")
@click.argument("slug")
@_second_factor("of")
def ask_for_factors(slug: str, of: str) -> None:
    """Say of whom a second factor is asked at sign-in. Whoever has none adds one at their next click."""
    with _transaction() as db:
        merchant_id = merchants.merchant_by_slug(db, slug)
        run(db, "UPDATE merchants SET second_factor = :of WHERE id = :m", of=of, m=merchant_id)
    log.warning("second_factor_asked", engineer=_account(), merchant=slug, kind=of)
    click.echo(f"{slug} asks {_FACTOR_TEXTS[of]}.")


@merchant_group.command("expect")
@click.argument("slug")
@click.argument("credential")
@click.argument("account")
def expect_account(slug: str, credential: str, account: str) -> None:
    """Name the account (acct_…) that a key of PROVIDER_KEYS opens; workers prove it before the next call."""
    with _transaction() as db:
        merchants.expect_account(db, merchants.merchant_by_slug(db, slug), credential, account)
    log.warning("account_expected", engineer=_account(), merchant=slug)
    click.echo(f"{credential} of {slug} has to open {account}. What was approved and not sent is approved anew.")


@click.group("staff")
def staff() -> None:
    """People who sign in."""


@staff.command("add")
@click.argument("slug")
@click.argument("email")
@click.option("--name", required=True)
@click.option("--role", required=True, type=click.Choice(people.ROLES))
def add_person(slug: str, email: str, name: str, role: str) -> None:
    """Make a person a member of a merchant. Asks for a first password unless the person exists."""
    with _transaction() as db:
        known = first(db, "SELECT 1 FROM staff WHERE email = :e", e=email.strip().lower()) is not None
    hashed = "" if known else hash_password(_ask_password(email, name, slug))
    with _transaction() as db:
        merchant_id = merchants.merchant_by_slug(db, slug)
        staff_id = people.add_person(db, merchant_id, email=email, name=name, role=role, password_hash=hashed)
        off = first(db, "SELECT 1 FROM staff WHERE staff_id = :s AND disabled_at IS NOT NULL", s=staff_id)
    log.warning("person_added", engineer=_account(), staff_id=staff_id, role=role, merchant=slug)
    click.echo(f"{name} signs in as {email.strip().lower()}: {role} of {slug}.")
    if off is not None:
        click.echo("They are switched off: `flask staff enable` lets them sign in.")


@staff.command("list")
@click.argument("slug")
def list_people(slug: str) -> None:
    """List a merchant's people, their role and last sign-in."""
    with _transaction() as db:
        merchant_id = merchants.merchant_by_slug(db, slug)
        found = rows(db, _LIST, m=merchant_id)
    for row in found:
        seen = _instant(row["last_sign_in_at"])
        click.echo(f"{row['email']:<40} {row['role']:<8} {'on ' if row['active'] else 'off'} last sign-in {seen}")


_LIST = """
    SELECT s.email, m.role, s.last_sign_in_at, m.ended_at IS NULL AND s.disabled_at IS NULL AS active
    FROM memberships m JOIN staff s ON s.staff_id = m.staff_id WHERE m.merchant_id = :m ORDER BY s.email
"""


def _past(_context: click.Context, _option: click.Parameter, text: str | None) -> datetime | None:
    """An instant with its offset that is over."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("give a date and time with offset, such as 2026-11-30T09:00+00:00") from None
    if at.tzinfo is None:
        raise click.BadParameter("say the offset too, such as 2026-11-30T09:00+00:00")
    if at > datetime.now(UTC):
        raise click.BadParameter("is in the future: say when the account was lost")
    return at


_lost_since = click.option(
    "--lost-since", callback=_past,
    help="When the account came into other hands; what was approved with it since and has left is listed for review.",
)  # fmt: skip


@staff.command("disable")
@click.argument("email")
@_lost_since
def disable(email: str, lost_since: datetime | None) -> None:
    """Switch a person off everywhere and end their sessions. Without --lost-since the last 24 hours are listed for review."""
    with _transaction() as db:
        staff_id = _person(db, email)
        sessions.end_of_person(db, staff_id)
        held, listed = people.disable(db, staff_id, lost_since)
    log.warning("person_switched_off", engineer=_account(), staff_id=staff_id)
    click.echo(f"{email} is switched off; their sessions have ended.")
    _say_revoked(held, listed)


@staff.command("role")
@click.argument("slug")
@click.argument("email")
@click.argument("role", type=click.Choice(people.ROLES))
def change_role(slug: str, email: str, role: str) -> None:
    """Give a member another role. What they may approve no longer and was not sent is held."""
    with _transaction() as db:
        staff_id = _person(db, email)
        merchant_id = merchants.merchant_by_slug(db, slug)
        held, listed = people.change_role(db, merchant_id, staff_id, role)
        sessions.end_of_person(db, staff_id)
    log.warning("role_changed", engineer=_account(), staff_id=staff_id, role=role, merchant=slug)
    click.echo(f"{email} is {role} of {slug}; their sessions have ended.")
    _say_revoked(held, listed)


@staff.command("enable")
@click.argument("email")
@click.option("--by", "engineer", required=True, help="Who lets them in: your name.")
@click.option("--reason", required=True, help="Why, such as who said that they still work here. It is kept.")
def enable(email: str, engineer: str, reason: str) -> None:
    """Let a person sign in again, on the record. A membership that ended is given back with `staff add`."""
    with _transaction() as db:
        staff_id = _person(db, email)
        changed = people.let_in(db, staff_id, engineer, reason)
    log.warning("person_let_in", engineer=engineer, staff_id=staff_id, outcome="let in" if changed else "was in")
    click.echo(f"{email} may sign in.")


@staff.command("password")
@click.argument("email")
@_lost_since
def change_password(email: str, lost_since: datetime | None) -> None:
    """Set a new password and end the person's sessions. With --lost-since, what was approved since and was not sent is held."""
    with _transaction() as db:
        person = first(db, "SELECT name FROM staff WHERE email = :e", e=email.strip().lower())
    if person is None:
        raise click.ClickException("Nobody signs in with that e-mail address.")
    hashed = hash_password(_ask_password(email, person["name"]))
    with _transaction() as db:
        staff_id = _person(db, email)
        run(db, "UPDATE staff SET password_hash = :h WHERE staff_id = :s", h=hashed, s=staff_id)
        sessions.end_of_person(db, staff_id)
        held, listed = revoke_lost(db, staff_id, SYSTEM, lost_since) if lost_since is not None else (0, 0)
    log.warning("password_set", engineer=_account(), staff_id=staff_id)
    click.echo(f"The password of {email} is set; their sessions have ended.")
    _say_revoked(held, listed)


@click.group("tokens")
def tokens() -> None:
    """API tokens of channels."""


@tokens.command("new")
@click.argument("slug")
@click.option("--name", required=True, help="Whose token it is.")
@click.option("--channel", required=True, help="Name of the desk it speaks for: chat, voice, warehouse, shop.")
@click.option("--scope", "scopes", multiple=True, required=True)
@click.option("--days", default=90, show_default=True)
@click.option("--network", "networks", multiple=True, help="Where it may call from, such as 203.0.113.0/24.")
def new_token(
    slug: str, name: str, channel: str, scopes: tuple[str, ...], days: int, networks: tuple[str, ...]
) -> None:
    """Make a token and print it, once. The database keeps its digest."""
    environment = "live" if _settings().environment == "production" else "test"
    token, text = api_tokens.mint(environment)
    with _transaction() as db:
        merchant_id = merchants.merchant_by_slug(db, slug)
        until = merchants.add_token(
            db, merchant_id, token, name=name, channel=channel, scopes=list(scopes), days=days, networks=list(networks)
        )
    log.warning("token_made", engineer=_account(), token_id=token.token_id, merchant=slug)
    click.echo(f"Expires {until:%Y-%m-%d}. It is shown this once:", err=True)
    click.echo(text)


@tokens.command("list")
@click.argument("slug")
def list_tokens(slug: str) -> None:
    """List a merchant's tokens, times in UTC. A secret is never shown: the database does not have it."""
    with _transaction() as db:
        found = merchants.tokens_of(db, merchants.merchant_by_slug(db, slug))
    for row in found:
        click.echo(
            f"{row['token_id']}  {row['state']:<7}  {row['name']}, {row['channel']}: {' '.join(row['scopes'])};"
            f" created {_instant(row['created_at'])}, expires {_instant(row['expires_at'])},"
            f" last used {_instant(row['last_used_at'])}, revoked {_instant(row['revoked_at'])}"
        )


@tokens.command("revoke")
@click.argument("slug")
@click.argument("token_id")
def revoke_token(slug: str, token_id: str) -> None:
    """Revoke a token for good, by its id. Its next request is refused."""
    with _transaction() as db:
        done = merchants.revoke_token(db, merchants.merchant_by_slug(db, slug), token_id)
    log.warning(
        "token_revoked",
        engineer=_account(),
        token_id=token_id,
        merchant=slug,
        outcome="revoked" if done else "was revoked",
    )
    click.echo(f"Token {token_id} is revoked." if done else f"Token {token_id} was revoked before.")


@click.group("brakes")
def brake_group() -> None:
    """Stop refunds. Starting again is two people's in the console, one of them finance; no command does it."""


@brake_group.command("pause")
@click.argument("slug", required=False)
@click.option("--all", "everything", is_flag=True, help="Every merchant of the deployment.")
@click.option("--reason", required=True, help="Shown on every page while it lasts.")
@click.option("--by", "engineer", required=True, help="Who pauses: your name.")
def pause_refunds(slug: str | None, everything: bool, reason: str, engineer: str) -> None:
    """Pause one merchant, or all: nothing more is claimed, and what was claimed and not sent is given back."""
    if everything == bool(slug):
        raise click.UsageError("Name one merchant, or give --all.")
    with _transaction() as db:
        slugs = [slug] if slug else [row["slug"] for row in rows(db, "SELECT slug FROM merchants ORDER BY slug")]
        for name in slugs:
            merchant_id = merchants.merchant_by_slug(db, str(name))
            brakes.pull(db, merchant_id, "all" if everything else "pause", reason, staff_id=None, engineer=engineer)
    log.warning("brake_pulled", engineer=engineer, merchant=slug or "all", kind="all" if everything else "pause")
    click.echo("Refunds of every merchant are paused." if everything else f"Refunds of {slug} are paused.")


@brake_group.command("show")
def show_brakes() -> None:
    """List the brakes of every merchant, times in UTC."""
    with _transaction() as db:
        for row in rows(db, "SELECT id, slug FROM merchants ORDER BY slug"):
            pin_tenant(db, row["id"])
            now = brakes.read_brakes(db, row["id"])
            words = [f"{brake} since {_instant(now.since(brake))}" for brake in brakes.BRAKES if now.since(brake)]
            click.echo(f"{row['slug']:<20} {'; '.join(words) or 'no brake is on'}")


@click.group("policies")
def policy_group() -> None:
    """Return policies of merchants."""


_DAY = click.DateTime(["%Y-%m-%d"])


@policy_group.command("publish")
@click.argument("slug")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--author", required=True, help="Who wrote it.")
@click.option("--approver", required=True, help="Who approved it: another person.")
@click.option("--since", type=_DAY, required=True, help="Orders placed from this day on fall under it.")
@click.option("--until", type=_DAY, help="Orders placed from this day on no longer do.")
def publish_policy(
    slug: str, file: TextIO, author: str, approver: str, since: datetime, until: datetime | None
) -> None:
    """Put a policy document (JSON) into force for orders placed in a range of days, UTC; for setting a merchant up.

    Ranges of one policy never overlap. A version that follows another is drafted and approved in the console.
    """
    try:
        document = json.load(file)
    except ValueError as error:
        raise click.ClickException(f"{file.name} is not JSON: {error}.") from None
    with _transaction() as db:
        merchant_id = merchants.merchant_by_slug(db, slug)
        bounds = [day.replace(tzinfo=UTC) if day else None for day in (since, until)]
        publish(db, merchant_id, document, author, approver, bounds[0], bounds[1])
        held = revoke_over_limits(db, merchant_id, SYSTEM)
        left = revoke_automatic(db, merchant_id, SYSTEM)
    log.warning(
        "policy_published",
        engineer=_account(),
        merchant=slug,
        reference=f"{document['policy_id']}@{document['version']}",
        count=held,
    )
    click.echo(f"{document['policy_id']}@{document['version']} is in force for {slug}.")
    if held:
        click.echo(f"{held} approved refunds are above the new limits of their approvers and are held.")
    if left:
        click.echo(f"{left} refunds that a policy approved by itself are not named by it any more and are held.")


groups = (brake_group, database, keys, merchant_group, policy_group, staff, tokens)


@contextmanager
def _transaction() -> Iterator[Connection]:
    """One transaction with the given DATABASE_URL; what the ledger or the database refuses becomes a sentence."""
    try:
        engine = connect(_settings().database_url.get_secret_value(), pool_size=1, name="administration")
    except ArgumentError:
        raise click.ClickException(
            "DATABASE_URL is not an address such as postgresql://role:…@host/onceback."
        ) from None
    try:
        with transaction(engine) as db:
            yield db
    except LedgerError as error:
        raise click.ClickException(error.sentence) from None
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state == "42501":
            raise click.ClickException("This role may not do that: give DATABASE_URL of onceback_owner.") from None
        if state and state.startswith("23"):
            raise click.ClickException("The database refused a value: check what was given.") from None
        raise click.ClickException("The database does not answer, or has no schema: `flask db migrate`.") from None
    finally:
        engine.dispose()


def _account() -> str:
    """Whose account runs the command, for a line of the security log about an act that is done."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "no account"


def _person(db: Connection, email: str) -> UUID:
    person = first(db, "SELECT staff_id FROM staff WHERE email = :e", e=email.strip().lower())
    if person is None:
        raise click.ClickException("Nobody signs in with that e-mail address.")
    staff_id: UUID = person["staff_id"]
    return staff_id


def _say_revoked(held: int, listed: int) -> None:
    if held or listed:
        click.echo(
            f"Of what they approved, {held} refunds are held and {listed} that had left are listed on the page Brakes."
        )


def _ask_password(*words: str) -> str:
    if sys.stdin.isatty():
        password = click.prompt("New password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    fault = password_fault(password, words)
    if fault:
        raise click.ClickException(fault)
    return str(password)


def _instant(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at else "never"


def _cap(text: str) -> tuple[str, int]:
    currency, _, amount = text.partition("=")
    try:
        return currency, parse_major(amount, currency)
    except MoneyError as error:
        raise click.BadParameter(f"{text}: {error}") from None


def _settings() -> Settings:
    # What a command changes is a line beside what it prints for a person.
    configure(beside_output=True)
    try:
        return Settings()
    except ValidationError as error:
        wrong = {
            f"check {str(fault['loc'][0]).upper()}" if fault["loc"] else fault["msg"].removeprefix("Value error, ")
            for fault in error.errors()
        }
        raise click.ClickException(f"The configuration is not complete: {'; '.join(sorted(wrong))}.") from None
