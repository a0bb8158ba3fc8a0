"""API tokens of channels: what is stored of them, whether one may be used now, and who guesses (S62, S63).

A token is `ob_<environment>_<id>_<secret>`. Only the SHA-256 of the secret is stored: with 256 random bits a slow hash
adds nothing. Whatever is wrong with a token, the caller of `usable_token` learns the same: None.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.database import first, run, scalar
from ledger.ids import uuid7

TOKEN: Final = re.compile(r"ob_([a-z]{1,12})_([a-z0-9]{12})_([A-Za-z0-9]{43,128})")
# So many unknown references in so many minutes look like guessing; a channel that is behind its shop's import stays below.
MAX_MISSES: Final = 30
MISS_MINUTES: Final = 10


@dataclass(frozen=True)
class TokenText:
    """The parts of a token as it was sent. `repr` shows no secret."""

    environment: str
    token_id: str
    secret: str

    def __repr__(self) -> str:
        return f"TokenText({self.token_id})"


@dataclass(frozen=True)
class Channel:
    """Who calls, as the token says: `channel` is its desk's name, `actor` how rows and events name it."""

    merchant_id: UUID
    slug: str
    token_id: str
    channel: str
    scopes: frozenset[str]

    @property
    def actor(self) -> str:
        return f"token:{self.token_id}"


def parse_token(text: str) -> TokenText | None:
    """The parts of a token, or None for anything else."""
    found = TOKEN.fullmatch(text)
    return TokenText(*found.groups()) if found else None


def secret_hash(secret: str) -> bytes:
    """What is stored of a secret: its SHA-256, 32 bytes."""
    return hashlib.sha256(secret.encode()).digest()


def mint(environment: str) -> tuple[TokenText, str]:
    """A new token, with the text to show its owner once: 256 random bits under a random id."""
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
    token = TokenText(environment, "".join(secrets.choice(alphabet) for _ in range(12)), secrets.token_hex(32))
    return token, f"ob_{token.environment}_{token.token_id}_{token.secret}"


_BY_ID: Final = """
    SELECT t.merchant_id, m.slug, t.token_id, t.secret_hash, t.channel, t.scopes, t.networks,
        t.revoked_at IS NULL AND t.expires_at > now() AND t.created_at <= now() AS alive
    FROM api_tokens t JOIN merchants m ON m.id = t.merchant_id WHERE t.token_id = :id
"""
_NOBODY: Final = secret_hash("")


def usable_token(db: Connection, sent: TokenText, address: str) -> Channel | None:
    """The channel of a token that may be used now from `address`, and marks it used; else None, whatever the cause.

    Unknown, wrong secret, expired, revoked and foreign network take the same work. The transaction is opened with
    `token_id`. Last use is kept to the minute, so that a busy token is no hot row.
    """
    row = first(db, _BY_ID, id=sent.token_id)
    same = hmac.compare_digest(bytes(row["secret_hash"]) if row else _NOBODY, secret_hash(sent.secret))
    if row is None or not same or not row["alive"] or not _listed(address, row["networks"]):
        return None
    run(
        db, "UPDATE api_tokens SET last_used_at = now() WHERE token_id = :id"
        " AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')", id=sent.token_id,
    )  # fmt: skip
    return _channel(row)


def still_usable(db: Connection, channel: Channel) -> bool:
    """Whether the token is neither revoked nor expired, read again in the transaction that does the work (S20)."""
    return bool(scalar(
        db, "SELECT 1 FROM api_tokens WHERE merchant_id = :m AND token_id = :id AND revoked_at IS NULL AND expires_at > now()",
        m=channel.merchant_id, id=channel.token_id,
    ))  # fmt: skip


def revoke_shown(db: Connection, sent: TokenText) -> bool:
    """Revokes a token that was shown where others read it (an address), if its secret is right. Returns whether it was.

    Who knows only the id of somebody's token cannot have it revoked.
    """
    row = first(db, _BY_ID, id=sent.token_id)
    if row is None or not hmac.compare_digest(bytes(row["secret_hash"]), secret_hash(sent.secret)):
        return False
    run(db, "UPDATE api_tokens SET revoked_at = now() WHERE token_id = :id AND revoked_at IS NULL", id=sent.token_id)
    return True


def _listed(address: str, networks: list[str]) -> bool:
    if not networks:
        return True
    try:
        caller = ip_address(address)
        caller = getattr(caller, "ipv4_mapped", None) or caller
        return any(caller in ip_network(network, strict=False) for network in networks)
    except ValueError:
        return False


def _channel(row: RowMapping) -> Channel:
    return Channel(row["merchant_id"], row["slug"], row["token_id"], row["channel"], frozenset(row["scopes"]))


def _bucket(channel: Channel) -> bytes:
    return hashlib.sha256(b"onceback.api-miss.v1\0" + channel.token_id.encode()).digest()


def guesses_too_much(db: Connection, channel: Channel) -> bool:
    """Whether this token asked for MAX_MISSES unknown references in the last MISS_MINUTES minutes."""
    count = scalar(
        db, "SELECT count(*) FROM sign_in_misses WHERE bucket = :b AND at > now() - make_interval(mins => :minutes)",
        b=_bucket(channel), minutes=MISS_MINUTES,
    )  # fmt: skip
    return int(count) >= MAX_MISSES


def count_miss(db: Connection, channel: Channel) -> None:
    """Counts one unknown reference, and raises the merchant's alarm with the one that reaches the limit."""
    run(db, "INSERT INTO sign_in_misses (miss_id, bucket) VALUES (:id, :b)", id=uuid7(), b=_bucket(channel))
    if guesses_too_much(db, channel):
        words = f"Token {channel.token_id} asked for {MAX_MISSES} unknown references in {MISS_MINUTES} minutes."
        run(db, _ALARM, m=channel.merchant_id, id=uuid7(), words=words)


_ALARM: Final = """
    INSERT INTO alarms (merchant_id, alarm_id, kind, text) SELECT :m, :id, 'reference_guessing', :words
    WHERE NOT EXISTS (SELECT 1 FROM alarms WHERE merchant_id = :m AND kind = 'reference_guessing' AND text = :words
        AND closed_at IS NULL)
"""
