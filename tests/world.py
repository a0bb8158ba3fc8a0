"""A merchant with its people, tokens, customers and orders, put into a test's database by plain statements.

Functions take the `Stack` and return frozen rows of ids, so that a race can use two real connections on them. What the
owner sets up in production (merchant, account, policy, caps, people, tokens) the owner inserts here; orders come in
through the console's role.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from argon2 import PasswordHasher
from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from ledger.canonical import canonical_bytes
from ledger.database import run, transaction
from ledger.ids import uuid7
from tests.orders import USUAL_LINES, Line, Order, insert_order, sha256
from tests.stack import Stack

PASSWORD = "as long as a sentence, and never used elsewhere"
# Those that tests sell in: a policy that names all of the world's costs every reading of it 3 ms.
CURRENCIES = ("BHD", "CNY", "EUR", "GBP", "HUF", "INR", "ISK", "JPY", "KWD", "PLN", "SEK", "UGX", "USD")
POLICY_FROM = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = (
    ("priya", "Priya Raman", "desk"),
    ("tobias", "Tobias Renk", "desk"),
    ("jonas", "Jonas Okonjo", "manager"),
    ("mara", "Mara Velthuis", "manager"),
    ("farah", "Farah Osei", "finance"),
    ("rita", "Rita Reader", "reader"),
    ("ada", "Ada Admin", "admin"),
)


@dataclass(frozen=True)
class Person:
    """A member of staff; `actor` is how events and approvals name them. They sign in with PASSWORD."""

    staff_id: UUID
    name: str
    email: str
    role: str

    @property
    def actor(self) -> str:
        return f"staff:{self.staff_id}"


@dataclass(frozen=True)
class Token:
    """An API token; `text` is what the channel sends, of which the database knows the digest of the secret only."""

    token_id: str
    secret: str = field(repr=False)
    channel: str
    scopes: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"ob_test_{self.token_id}_{self.secret}"

    @property
    def actor(self) -> str:
        return f"token:{self.token_id}"


@dataclass(frozen=True)
class World:
    """One merchant. People by first name; `ilse` and `omar` are customers; `order` is Ilse's."""

    merchant_id: UUID
    slug: str
    provider_account_id: UUID
    policy_id: str
    policy_version: int
    priya: Person
    tobias: Person
    jonas: Person
    mara: Person
    farah: Person
    rita: Person
    ada: Person
    chat: Token
    warehouse: Token
    shop: Token
    ilse: UUID
    omar: UUID
    order: Order
    people: tuple[Person, ...] = field(default=())


def build_world(
    stack: Stack,
    slug: str = "harbour",
    *,
    zone: str = "Europe/London",
    cap_minor: dict[str, int] | None = None,
    policy: dict[str, Any] | None = None,
) -> World:
    """A merchant in `zone` with everything that belongs to one. `cap_minor`: the daily cap by currency."""
    merchant_id, account_id = uuid7(), uuid7()
    policy_id = f"{slug}-usual"
    people = tuple(Person(uuid7(), name, f"{first}@{slug}.example", role) for first, name, role in NAMES)
    tokens = (
        _token(slug, "chat", ("cases:open", "cases:read")),
        _token(slug, "warehouse", ("receipts:write", "evidence:write")),
        _token(slug, "shop", ("orders:import",)),
    )
    with transaction(stack.owner, merchant_id) as db:
        _insert_merchant(db, merchant_id, slug, zone, account_id)
        _insert_policy(db, merchant_id, policy_id, policy or usual_policy(policy_id))
        for currency, limit in (cap_minor or {"GBP": 10_000_00, "EUR": 10_000_00, "JPY": 1_000_000}).items():
            run(db, "INSERT INTO caps VALUES (:m, :currency, :most)", m=merchant_id, currency=currency, most=limit)
        for person in people:
            _insert_person(db, merchant_id, person)
        for token in tokens:
            _insert_token(db, merchant_id, token)
    by_name = dict(zip([first for first, _, _ in NAMES], people, strict=True))
    with transaction(stack.console, merchant_id) as db:
        ilse = insert_customer(db, merchant_id, "C-1001", "Ilse Brandt", f"ilse.{slug}@example.org")
        omar = insert_customer(db, merchant_id, "C-1002", "Omar Haddad", f"omar.{slug}@example.org")
        order = insert_order(db, merchant_id, account_id, ilse, "A-20417")
    chat, warehouse, shop = tokens
    return World(
        merchant_id, slug, account_id, policy_id, 1, **by_name, chat=chat, warehouse=warehouse, shop=shop,
        ilse=ilse, omar=omar, order=order, people=people,
    )  # fmt: skip


def add_order(
    stack: Stack,
    world: World,
    external_ref: str,
    *,
    customer_id: UUID | None = None,
    currency: str = "GBP",
    exponent: int = 2,
    lines: tuple[Line, ...] = USUAL_LINES,
    captured: dict[str, int] | None = None,
    by_hand: frozenset[str] = frozenset(),
) -> Order:
    """Another order of the merchant, paid by `captured` (tender to minor units; default: all by card).

    What is `by_hand` (a set of tenders) no provider holds. Its customer is another Ilse Brandt unless one is given, so that
    what one customer gets in a day does not add up (S22).
    """
    with transaction(stack.console, world.merchant_id) as db:
        if customer_id is None:
            ref = f"C-{external_ref}"
            customer_id = insert_customer(db, world.merchant_id, ref, "Ilse Brandt", f"{ref.lower()}@example.org")
        return insert_order(
            db, world.merchant_id, world.provider_account_id, customer_id, external_ref,
            currency=currency, exponent=exponent, lines=lines, captured=captured, by_hand=by_hand,
        )  # fmt: skip


def add_customer(stack: Stack, world: World, ref: str, name: str = "Somebody Else") -> UUID:
    """Another customer of the merchant."""
    with transaction(stack.console, world.merchant_id) as db:
        return insert_customer(db, world.merchant_id, ref, name, f"{ref.lower()}@example.org")


def usual_policy(policy_id: str) -> dict[str, Any]:
    """A document of ENTITLEMENT §8 with what differs from its defaults: paid when received, managers from 250.00."""
    return {
        "policy_id": policy_id,
        "version": 1,
        "title": "The usual terms",
        "status": "approved",
        "effective_from": POLICY_FROM.isoformat().replace("+00:00", "Z"),
        "effective_to": None,
        "window": {"days": 90, "starts": "placed"},
        "refund_trigger": "received",
        "grade_bps": {"C": 3000, "D": 10000},
        "routes": {"manager_from_minor": {"GBP": 25000, "EUR": 25000}},
        "limits": wide_limits(),
    }


def wide_limits() -> dict[str, Any]:
    """Hours in which nobody is stopped: tests of the limits have policies of their own."""
    hours = {currency: {"hour": {"count": 100_000, "minor": 10**12}} for currency in CURRENCIES}
    return {"desk": hours, "manager": hours}


def _insert_merchant(db: Connection, merchant_id: UUID, slug: str, zone: str, account_id: UUID) -> None:
    run(db, "INSERT INTO deployment (deployment_id) VALUES (:id) ON CONFLICT DO NOTHING", id=uuid7())
    name = f"{slug.capitalize()} & Co"
    run(
        db,
        "INSERT INTO merchants (id, slug, name, zone, region) VALUES (:m, :slug, :name, :zone, 'GB')",
        m=merchant_id, slug=slug, name=name, zone=zone,
    )  # fmt: skip
    run(db, "INSERT INTO merchant_brakes (merchant_id) VALUES (:m)", m=merchant_id)
    run(
        db,
        "INSERT INTO provider_accounts (merchant_id, provider_account_id, provider, livemode, credential)"
        " VALUES (:m, :account, 'stripe', false, :credential)",
        m=merchant_id, account=account_id, credential=slug.replace("-", "_"),
    )  # fmt: skip


def _insert_policy(db: Connection, merchant_id: UUID, policy_id: str, document: dict[str, Any]) -> None:
    run(
        db,
        "INSERT INTO policies (merchant_id, policy_id, version, effective, document, digest, author, approver)"
        " VALUES (:m, :policy_id, 1, tstzrange(:since, NULL), :document, :digest, 'Mara Velthuis', 'Jonas Okonjo')",
        m=merchant_id, policy_id=policy_id, since=POLICY_FROM, document=Jsonb(document),
        digest=sha256(canonical_bytes(document)),
    )  # fmt: skip


def _insert_person(db: Connection, merchant_id: UUID, person: Person) -> None:
    run(
        db,
        "INSERT INTO staff (staff_id, email, name, password_hash) VALUES (:id, :email, :name, :hash)",
        id=person.staff_id, email=person.email, name=person.name, hash=_password_hash(),
    )  # fmt: skip
    run(
        db,
        "INSERT INTO memberships (merchant_id, staff_id, role) VALUES (:m, :id, :role)",
        m=merchant_id, id=person.staff_id, role=person.role,
    )  # fmt: skip


def _token(slug: str, channel: str, scopes: tuple[str, ...]) -> Token:
    seed = hashlib.sha256(f"{slug}:{channel}".encode()).hexdigest()
    return Token(seed[:12], seed[12:] + seed[:12], channel, scopes)


def _insert_token(db: Connection, merchant_id: UUID, token: Token) -> None:
    now = datetime.now(UTC)
    run(
        db,
        "INSERT INTO api_tokens (merchant_id, token_id, secret_hash, name, channel, scopes, created_at, expires_at)"
        " VALUES (:m, :id, :hash, :channel, :channel, :scopes, :now, :until)",
        m=merchant_id, id=token.token_id, hash=sha256(token.secret.encode()), channel=token.channel,
        scopes=list(token.scopes), now=now, until=now + timedelta(days=90),
    )  # fmt: skip


def insert_customer(db: Connection, merchant_id: UUID, ref: str, name: str, email: str) -> UUID:
    """Another customer of the merchant, in the open transaction."""
    customer_id = uuid7()
    run(
        db,
        "INSERT INTO customers (merchant_id, customer_id, external_ref, name, email)"
        " VALUES (:m, :id, :ref, :name, :email)",
        m=merchant_id, id=customer_id, ref=ref, name=name, email=email,
    )  # fmt: skip
    return customer_id


@cache
def _password_hash() -> str:
    """Argon2id at its smallest: the tests' people have nothing to protect."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
