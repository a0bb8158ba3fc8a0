"""Seals: an Ed25519 signature over every column of an approval, made with a key that is never in the database (S26). The same
key seals passkeys as they are enrolled.

The web process holds the private key, workers the public half. Rows written with SQL alone carry no valid seal, so they
send nothing. What a policy approves by itself is sealed by another key than what people approve (S38): neither opens the other.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ledger.canonical import canonical_bytes
from ledger.passkey_proof import Party

TAG: Final = b"onceback.approval.v1\0"
# Every column of `approvals` but the seal itself. A test compares this list with the table.
SEALED_COLUMNS: Final = (
    "merchant_id", "approval_id", "intent_id", "seat", "approver", "staff_id", "requester", "case_opener", "fingerprint",
    "strength", "note", "operation_key", "approved_at", "expires_at", "seal_key_id",
)  # fmt: skip

# A passkey as it was enrolled: all of its columns that never change.
PASSKEY_TAG: Final = b"onceback.passkey.v1\0"
SEALED_OF_PASSKEYS: Final = ("credential_id", "staff_id", "public_key", "device_bound", "enrolled_at", "seal_key_id")


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

    def seal_passkey(self, passkey: Mapping[str, Any]) -> bytes:
        """64 bytes over the canonical form of a passkey as it is enrolled."""
        return self._private_key.sign(_enrolment(passkey))

    def sealed_passkey(self, passkey: Mapping[str, Any]) -> bool:
        """Whether this very key sealed the enrolment of this passkey."""
        return passkey["seal_key_id"] == self.key_id and _verifies(
            self._private_key.public_key(), passkey["seal"], _enrolment(passkey)
        )

    def public_text(self) -> str:
        """`key-id:base64 of the 32 public bytes`, for the workers' configuration."""
        return f"{self.key_id}:{base64.b64encode(self._private_key.public_key().public_bytes_raw()).decode()}"


class SealVerifier:
    """The public halves, by key id; a retired key is simply absent.

    `automatic` are those of the keys that seal what a policy approves. `party`: whom passkeys are for, from the configuration of
    the process; without it no approval by passkey holds. ValueError for a text that is no key, and for a key that would seal both.
    """

    def __init__(self, texts: Sequence[str], automatic: Sequence[str] = (), party: Party | None = None) -> None:
        self.party = party
        self._keys, self._automatic = _public_keys(texts), _public_keys(automatic)
        both = {key.public_bytes_raw() for key in self._keys.values()}
        if both & {key.public_bytes_raw() for key in self._automatic.values()}:
            raise ValueError("one key seals what people approve and what a policy does: each has a key of its own")

    def valid(self, approval: Mapping[str, Any]) -> bool:
        """Whether a known key of its kind sealed exactly this row: nobody's approval is opened by the policies' keys only."""
        keys = self._automatic if approval["staff_id"] is None else self._keys
        key = keys.get(approval["seal_key_id"])
        return key is not None and _verifies(key, approval["seal"], _content(approval))

    def valid_passkey(self, passkey: Mapping[str, Any]) -> bool:
        """Whether a known key of the web process sealed the enrolment of this passkey (S34)."""
        key = self._keys.get(passkey["seal_key_id"])
        return key is not None and _verifies(key, passkey["seal"], _enrolment(passkey))


def new_key(key_id: str) -> str:
    """A fresh private key as text, for the set-up commands."""
    return f"{key_id}:{base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()}"


def _public_keys(texts: Sequence[str]) -> dict[str, Ed25519PublicKey]:
    keys = {}
    for text in texts:
        key_id, _, encoded = text.strip().partition(":")
        keys[key_id] = Ed25519PublicKey.from_public_bytes(_decode(key_id, encoded))
    return keys


def _decode(key_id: str, encoded: str) -> bytes:
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        key = b""
    if not key_id or len(key) != 32:
        raise ValueError("a seal key is written `key-id:base64 of 32 bytes`; make one with `flask keys new`")
    return key


def _enrolment(passkey: Mapping[str, Any]) -> bytes:
    return PASSKEY_TAG + canonical_bytes({column: _plain(passkey[column]) for column in SEALED_OF_PASSKEYS})


def _verifies(key: Ed25519PublicKey, seal: bytes, content: bytes) -> bool:
    try:
        key.verify(bytes(seal), content)
    except InvalidSignature:
        return False
    return True


def _content(approval: Mapping[str, Any]) -> bytes:
    return TAG + canonical_bytes({column: _plain(approval[column]) for column in SEALED_COLUMNS})


def _plain(value: object) -> str | None:
    match value:
        case None:
            return None
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case datetime():
            return value.isoformat()
        case UUID() | int() | str():
            return str(value)
    raise TypeError(f"a sealed column holds {type(value).__name__}")
