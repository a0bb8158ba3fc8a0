"""Seals: an Ed25519 signature over every column of an approval, made with a key that is never in the database (S26).

The web process holds the private key, workers the public half. Rows written with SQL alone carry no valid seal, so they
send nothing.
"""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ledger.canonical import canonical_bytes

TAG: Final = b"onceback.approval.v1\0"
# Every column of `approvals` but the seal itself. A test compares this list with the table.
SEALED_COLUMNS: Final = (
    "merchant_id", "approval_id", "intent_id", "seat", "approver", "staff_id", "requester", "case_opener", "fingerprint",
    "strength", "note", "operation_key", "approved_at", "expires_at", "seal_key_id",
)  # fmt: skip


class Sealer:
    """Holds the private key of one key id. `repr` shows the id only."""

    def __init__(self, key_id: str, private_key: Ed25519PrivateKey) -> None:
        self.key_id = key_id
        self._private_key = private_key

    def __repr__(self) -> str:
        return f"Sealer({self.key_id!r})"

    @classmethod
    def from_text(cls, text: str) -> "Sealer":
        """From `key-id:base64 of the 32 private bytes`. ValueError names what is wrong, never the key."""
        key_id, _, encoded = text.strip().partition(":")
        return cls(key_id, Ed25519PrivateKey.from_private_bytes(_decode(key_id, encoded)))

    def seal(self, approval: Mapping[str, Any]) -> bytes:
        """64 bytes over the canonical form of all sealed columns."""
        return self._private_key.sign(_content(approval))

    def public_text(self) -> str:
        """`key-id:base64 of the 32 public bytes`, for the workers' configuration."""
        return f"{self.key_id}:{base64.b64encode(self._private_key.public_key().public_bytes_raw()).decode()}"


class SealVerifier:
    """The public halves, by key id; a retired key is simply absent."""

    def __init__(self, texts: list[str]) -> None:
        self._keys: dict[str, Ed25519PublicKey] = {}
        for text in texts:
            key_id, _, encoded = text.strip().partition(":")
            self._keys[key_id] = Ed25519PublicKey.from_public_bytes(_decode(key_id, encoded))

    def valid(self, approval: Mapping[str, Any]) -> bool:
        """Whether a known key sealed exactly this row."""
        key = self._keys.get(approval["seal_key_id"])
        if key is None:
            return False
        try:
            key.verify(bytes(approval["seal"]), _content(approval))
        except InvalidSignature:
            return False
        return True


def new_key(key_id: str) -> str:
    """A fresh private key as text, for the set-up commands."""
    return f"{key_id}:{base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()}"


def _decode(key_id: str, encoded: str) -> bytes:
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        key = b""
    if not key_id or len(key) != 32:
        raise ValueError("a seal key is written `key-id:base64 of 32 bytes`; make one with `flask keys new`")
    return key


def _content(approval: Mapping[str, Any]) -> bytes:
    return TAG + canonical_bytes({column: _plain(approval[column]) for column in SEALED_COLUMNS})


def _plain(value: object) -> str:
    match value:
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case datetime():
            return value.isoformat()
        case UUID() | int() | str():
            return str(value)
    raise TypeError(f"a sealed column holds {type(value).__name__}")
