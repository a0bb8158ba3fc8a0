"""Sets up a merchant as its operators would: account, policy, caps, people, channel tokens. By the owner's connection."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Engine

from console.passwords import hash_password
from demo.people import DemoPerson
from ledger.api_tokens import mint
from ledger.database import first, rows, transaction
from ledger.merchants import NewMerchant, add_merchant, add_token
from ledger.people import add_person
from ledger.policy_publishing import publish

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
    tokens = {channel: mint("test") for channel in CHANNELS}
    texts = {channel: text for channel, (_, text) in tokens.items()}
    kept.touch(mode=0o600)
    kept.write_text(json.dumps(texts), encoding="utf-8")
    hashed = hash_password(password)
    with transaction(owner) as db:
        new = NewMerchant(slug, name, zone, region, slug.replace("-", "_"), caps=caps_minor)
        merchant_id = add_merchant(db, new)
        publish(db, merchant_id, policy, "Mara Velthuis", "Jonas Okonjo", POLICY_SINCE)
        for person in people:
            add_person(db, merchant_id, email=person.email, name=person.name, role=person.role, password_hash=hashed)
        for channel, (token, _) in tokens.items():
            add_token(
                db, merchant_id, token, name=f"{channel} system", channel=channel, scopes=CHANNELS[channel], days=180,
                networks=[],
            )  # fmt: skip
        staff = _staff_of(db, merchant_id)
    return Merchant(merchant_id, slug, texts, staff)


def _staff_of(db: Connection, merchant_id: UUID) -> dict[str, UUID]:
    found = rows(db, "SELECT s.email, s.staff_id FROM staff s JOIN memberships m ON m.staff_id = s.staff_id"
                 " WHERE m.merchant_id = :m", m=merchant_id)  # fmt: skip
    return {row["email"]: row["staff_id"] for row in found}
