"""Setting up a merchant: its row, its provider account, its caps, and tokens for its channels. For the owner's commands."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_network
from uuid import UUID
from zoneinfo import available_timezones

from sqlalchemy import Connection, RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.api_tokens import TokenText, secret_hash
from ledger.database import first, pin_tenant, rows, run, scalar
from ledger.errors import BadInput, NotFound
from ledger.ids import uuid7

# First parts of addresses that are not a merchant's.
RESERVED_SLUGS = frozenset(
    {"api", "hooks", "static", "invitations", "sign-in", "sign-out", "csp-report", "kept-note", "health", "metrics"}
)

# Of whom a second factor is asked at sign-in: whoever added one by themselves, everybody but readers, everybody.
FACTOR_RULES = ("own", "money", "all")


@dataclass(frozen=True)
class NewMerchant:
    """`credential` names the key of PROVIDER_KEYS; `caps` is the daily limit in minor units by currency.

    `charge_type`: own account, or on a platform direct (with `account_ref`, the connected account), destination or separate.
    `expected_account` is the account that the key itself opens; the first call of a worker proves it. A live merchant without
    a connected account has to name it. `second_factor`: of whom one is asked at sign-in, see FACTOR_RULES.
    """

    slug: str
    name: str
    zone: str
    region: str
    credential: str
    account_ref: str = ""
    livemode: bool = False
    caps: dict[str, int] = field(default_factory=dict)
    charge_type: str = "own"
    expected_account: str = ""
    second_factor: str = "own"


def add_merchant(db: Connection, new: NewMerchant) -> UUID:
    """Makes a merchant with one provider account, and the deployment's row with the first; pins the transaction to it.

    Raises BadInput (slug taken, reserved or malformed; zone; mode other than the deployment's; charge type without its account;
    credential of another merchant).
    """
    if new.slug in RESERVED_SLUGS:
        raise BadInput("slug", "is taken by an address of the console")
    if scalar(db, "SELECT 1 FROM merchants WHERE slug = :s", s=new.slug):
        raise BadInput("slug", "is another merchant's")
    if new.zone not in available_timezones():
        raise BadInput("zone", "is a name such as Europe/Berlin")
    run(
        db, "INSERT INTO deployment (deployment_id, livemode) VALUES (:i, :live) ON CONFLICT DO NOTHING",
        i=uuid7(), live=new.livemode,
    )  # fmt: skip
    if scalar(db, "SELECT livemode FROM deployment") is not new.livemode:
        raise BadInput("livemode", "every merchant of a deployment is live, or every one is a test")
    merchant_id = uuid7()
    run(
        db, "INSERT INTO merchants (id, slug, name, zone, region, second_factor) VALUES (:m, :slug, :name, :zone, :region, :f)",
        m=merchant_id, slug=new.slug, name=new.name, zone=new.zone, region=new.region,
        f=new.second_factor,
    )  # fmt: skip
    pin_tenant(db, merchant_id)
    run(db, "INSERT INTO merchant_brakes (merchant_id) VALUES (:m)", m=merchant_id)
    _add_account(db, merchant_id, new)
    for currency, limit in new.caps.items():
        run(db, "INSERT INTO caps VALUES (:m, :c, :most)", m=merchant_id, c=currency, most=limit)
    return merchant_id


CHARGE_TYPES = ("own", "direct", "destination", "separate")
_ACCOUNT = re.compile(r"acct_[A-Za-z0-9]{1,58}")


def _add_account(db: Connection, merchant_id: UUID, new: NewMerchant) -> None:
    if new.charge_type not in CHARGE_TYPES:
        raise BadInput("charge_type", f"is one of {', '.join(CHARGE_TYPES)}")
    if new.charge_type == "direct" and not new.account_ref:
        raise BadInput("account", "direct charges are made on a connected account: name it")
    if new.charge_type in ("destination", "separate") and new.account_ref:
        raise BadInput("account", "these charges are on the platform's own account: leave it out")
    if new.livemode and not (new.account_ref or new.expected_account):
        raise BadInput(
            "expected_account", "name the account the key opens: with real money each key proves whose it is"
        )
    if new.expected_account and not _ACCOUNT.fullmatch(new.expected_account):
        raise BadInput("expected_account", "is an account id of the provider, acct_…")
    try:
        run(
            db, "INSERT INTO provider_accounts (merchant_id, provider_account_id, provider, account_ref, livemode, credential,"
            " charge_type, expected_account_ref) VALUES (:m, :a, 'stripe', :ref, :live, :credential, :kind, :expected)",
            m=merchant_id, a=uuid7(), ref=new.account_ref, live=new.livemode, credential=new.credential,
            kind=new.charge_type, expected=new.expected_account or None,
        )  # fmt: skip
    except IntegrityError as error:
        if "one_merchant_per_credential" in str(error.orig):
            raise BadInput(
                "credential", "serves another merchant: each has a credential or an account of its own"
            ) from None
        raise


def expect_account(db: Connection, merchant_id: UUID, credential: str, account: str) -> None:
    """Names the account that a key of the merchant opens; the next call of a worker proves it. What was approved before is approved
    anew, for the account is part of it. Raises BadInput."""
    if not _ACCOUNT.fullmatch(account):
        raise BadInput("account", "is an account id of the provider, acct_…")
    named = run(
        db, "UPDATE provider_accounts SET expected_account_ref = :a WHERE merchant_id = :m AND credential = :c",
        a=account, m=merchant_id, c=credential,
    )  # fmt: skip
    if not named:
        raise BadInput("credential", "is none of this merchant's")
    run(db, "UPDATE account_readings SET let_be_until = NULL WHERE merchant_id = :m", m=merchant_id)


def merchant_by_slug(db: Connection, slug: str) -> UUID:
    """The merchant's id, and the transaction is pinned to it. Raises NotFound."""
    row = first(db, "SELECT id FROM merchants WHERE slug = :s", s=slug)
    if row is None:
        raise NotFound(f"There is no merchant {slug!r}.")
    merchant_id: UUID = row["id"]
    pin_tenant(db, merchant_id)
    return merchant_id


def add_token(
    db: Connection, merchant_id: UUID, token: TokenText, *, name: str, channel: str, scopes: list[str], days: int,
    networks: list[str],
) -> datetime:  # fmt: skip
    """Stores a minted token (its digest only) for a channel and returns when it expires. Raises BadInput."""
    if not 1 <= days <= 180:
        raise BadInput("days", "a token lives 1 to 180 days")
    if "orders:import" in scopes and len(scopes) > 1:
        raise BadInput("scopes", "orders:import is never on a token with another scope")
    for network in networks:
        try:
            ip_network(network)
        except ValueError:
            raise BadInput("networks", f"{network} is not a network such as 203.0.113.0/24") from None
    now: datetime = scalar(db, "SELECT now()")
    run(
        db, "INSERT INTO api_tokens (merchant_id, token_id, secret_hash, name, channel, scopes, networks, created_at,"
        " expires_at) VALUES (:m, :i, :h, :n, :c, :scopes, :networks, :now, :until)",
        m=merchant_id, i=token.token_id, h=secret_hash(token.secret), n=name, c=channel, scopes=scopes, networks=networks,
        now=now, until=now + timedelta(days=days),
    )  # fmt: skip
    return now + timedelta(days=days)


def tokens_of(db: Connection, merchant_id: UUID) -> list[RowMapping]:
    """The merchant's tokens, oldest first: what is known of each but its secret's digest. `state`: live, expired, revoked."""
    return rows(
        db, "SELECT token_id, name, channel, scopes, created_at, expires_at, last_used_at, revoked_at,"
        " CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'live' END AS state"
        " FROM api_tokens WHERE merchant_id = :m ORDER BY created_at, token_id", m=merchant_id,
    )  # fmt: skip


def revoke_token(db: Connection, merchant_id: UUID, token_id: str) -> bool:
    """Revokes a token for good; False when it was revoked before. Raises NotFound when the merchant has none of that id."""
    done = run(
        db, "UPDATE api_tokens SET revoked_at = now() WHERE merchant_id = :m AND token_id = :id AND revoked_at IS NULL",
        m=merchant_id, id=token_id,
    ) == 1  # fmt: skip
    if not done and not scalar(
        db, "SELECT 1 FROM api_tokens WHERE merchant_id = :m AND token_id = :id", m=merchant_id, id=token_id
    ):
        raise NotFound("This merchant has no token of that id: see `flask tokens list`.")
    return done
