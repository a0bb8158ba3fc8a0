"""Sets up a merchant as its operators would: account, policy, caps, people, channel tokens. By the owner's connection."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from argon2 import PasswordHasher
from sqlalchemy import Connection, Engine

from demo.people import DemoPerson
from ledger.api_tokens import TokenText, mint, secret_hash
from ledger.database import first, rows, run, transaction
from ledger.ids import uuid7
from ledger.policies import publish

POLICY_SINCE = datetime(2009, 1, 1, tzinfo=UTC)
CHANNELS = {
    "chat": ["cases:open", "cases:read"],
    "voice": ["cases:open", "cases:read"],
    "warehouse": ["receipts:write", "evidence:write"],
    "shop": ["orders:import"],
}


@dataclass(frozen=True)
class Merchant:
    """A merchant that was set up; `tokens` are the channels' API tokens by channel, `staff` ids by e-mail."""

    merchant_id: UUID
    slug: str
    tokens: dict[str, str]
    staff: dict[str, UUID]


def set_up(
    owner: Engine,
    folder: Path,
    slug: str,
    name: str,
    zone: str,
    region: str,
    *,
    policy: dict[str, Any],
    caps_minor: dict[str, int],
    people: tuple[DemoPerson, ...],
    password: str,
) -> Merchant:
    """Makes the merchant in one transaction, or finds it made. Token texts are kept in `folder`, mode 0600."""
    kept = folder / f"tokens-{slug}.json"
    with transaction(owner) as db:
        known = first(db, "SELECT id FROM merchants WHERE slug = :slug", slug=slug)
    if known is not None:
        with transaction(owner, known["id"]) as db:
            staff = _staff_of(db, known["id"])
        return Merchant(known["id"], slug, json.loads(kept.read_text(encoding="utf-8")), staff)
    merchant_id, tokens = uuid7(), {channel: mint("test") for channel in CHANNELS}
    kept.touch(mode=0o600)
    kept.write_text(json.dumps({channel: text for channel, (_, text) in tokens.items()}), encoding="utf-8")
    hashed = PasswordHasher(time_cost=3, memory_cost=65536, parallelism=1).hash(password)
    with transaction(owner, merchant_id) as db:
        run(db, "INSERT INTO deployment (deployment_id) VALUES (:d) ON CONFLICT DO NOTHING", d=uuid7())
        run(db, "INSERT INTO merchants (id, slug, name, zone, region) VALUES (:m, :slug, :name, :zone, :region)",
            m=merchant_id, slug=slug, name=name, zone=zone, region=region)  # fmt: skip
        run(db, "INSERT INTO merchant_brakes (merchant_id) VALUES (:m)", m=merchant_id)
        run(db, "INSERT INTO provider_accounts (merchant_id, provider_account_id, provider, livemode, credential)"
            " VALUES (:m, :a, 'stripe', false, :c)", m=merchant_id, a=uuid7(), c=slug.replace("-", "_"))  # fmt: skip
        publish(db, merchant_id, f"{slug}-returns", 1, policy, POLICY_SINCE, "Mara Velthuis", "Jonas Okonjo")
        for currency, limit in caps_minor.items():
            run(
                db,
                "INSERT INTO caps (merchant_id, currency, limit_minor) VALUES (:m, :c, :l)",
                m=merchant_id,
                c=currency,
                l=limit,
            )
        for person in people:
            _add_person(db, merchant_id, person, hashed, zone)
        for channel, (token, _) in tokens.items():
            _add_token(db, merchant_id, channel, token)
        staff = _staff_of(db, merchant_id)
    return Merchant(merchant_id, slug, {channel: text for channel, (_, text) in tokens.items()}, staff)


def _staff_of(db: Connection, merchant_id: UUID) -> dict[str, UUID]:
    found = rows(db, "SELECT s.email, s.staff_id FROM staff s JOIN memberships m ON m.staff_id = s.staff_id"
                 " WHERE m.merchant_id = :m", m=merchant_id)  # fmt: skip
    return {row["email"]: row["staff_id"] for row in found}


def _add_person(db: Connection, merchant_id: UUID, person: DemoPerson, hashed: str, zone: str) -> None:
    staff_id = uuid7()
    run(db, "INSERT INTO staff (staff_id, email, name, password_hash, zone) VALUES (:s, :e, :n, :h, :z)",
        s=staff_id, e=person.email, n=person.name, h=hashed, z=zone)  # fmt: skip
    run(
        db,
        "INSERT INTO memberships (merchant_id, staff_id, role) VALUES (:m, :s, :r)",
        m=merchant_id,
        s=staff_id,
        r=person.role,
    )


def _add_token(db: Connection, merchant_id: UUID, channel: str, token: TokenText) -> None:
    now = datetime.now(UTC)
    run(
        db, "INSERT INTO api_tokens (merchant_id, token_id, secret_hash, name, channel, scopes, created_at, expires_at)"
        " VALUES (:m, :t, :h, :name, :channel, :scopes, :now, :until)", m=merchant_id, t=token.token_id,
        h=secret_hash(token.secret), name=f"{channel} system", channel=channel, scopes=CHANNELS[channel],
        now=now, until=now + timedelta(days=180),
    )  # fmt: skip
