"""A passkey in software: what a browser hands over, right or with one field forged."""

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from webauthn.helpers import bytes_to_base64url

from ledger.database import scalar, transaction
from ledger.ids import uuid7
from ledger.passkey_proof import Party, Signed
from ledger.passkeys import begin_ceremony, enrol, spend_ceremony
from ledger.seals import Sealer
from ledger.strength import Proof, challenge_for, spend_challenge
from tests import lives
from tests.stack import Stack
from tests.world import Person, World

USER_PRESENT, USER_VERIFIED, BACKUP_ELIGIBLE, ATTESTED = 0x01, 0x04, 0x08, 0x40


@dataclass
class Authenticator:
    """One key of one person. `signs` moves its counter on; what it signs may be forged by field."""

    origin: str = lives.ORIGIN
    counter: int = 0
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def public_key(self) -> bytes:
        """As COSE writes it."""
        at = self.private.public_key().public_numbers()
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: at.x.to_bytes(32, "big"), -3: at.y.to_bytes(32, "big")})

    def makes(self, challenge: bytes) -> str:
        """What a browser answers when a key is made, as JSON."""
        attested = bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + self.public_key
        said = self._data(USER_PRESENT | USER_VERIFIED | ATTESTED, None) + attested
        made = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": said})
        return self._credential(
            {"clientDataJSON": self._client("webauthn.create", challenge, {}), "attestationObject": made}
        )

    def signs(self, over: bytes, *, flags: int = USER_PRESENT | USER_VERIFIED, step: int = 1, rp_id: str | None = None,
              kind: str = "webauthn.get", **client: Any) -> Signed:  # fmt: skip
        """What it signs now. `client`: fields of clientDataJSON to forge."""
        self.counter += step
        data, said = self._data(flags, rp_id), self._client(kind, over, client)
        signature = self.private.sign(data + hashlib.sha256(said).digest(), ec.ECDSA(SHA256()))
        return Signed(self.credential_id, said, data, signature)

    def answers(self, challenge: bytes, **forged: Any) -> str:
        """The same as the browser's JSON."""
        signed = self.signs(challenge, **forged)
        return self._credential({
            "clientDataJSON": signed.client_data, "authenticatorData": signed.authenticator_data, "signature": signed.signature,
        })  # fmt: skip

    def _data(self, flags: int, rp_id: str | None) -> bytes:
        party = hashlib.sha256((rp_id or Party.of(self.origin).rp_id).encode()).digest()
        return party + bytes([flags]) + self.counter.to_bytes(4, "big")

    def _client(self, kind: str, challenge: bytes, forged: dict[str, Any]) -> bytes:
        said = {"type": kind, "challenge": bytes_to_base64url(challenge), "origin": self.origin, "crossOrigin": False}
        return json.dumps(said | forged).encode()

    def _credential(self, response: dict[str, bytes]) -> str:
        named = bytes_to_base64url(self.credential_id)
        return json.dumps({
            "id": named, "rawId": named, "type": "public-key", "clientExtensionResults": {},
            "response": {name: bytes_to_base64url(value) for name, value in response.items()},
        })  # fmt: skip


def a_session(stack: Stack, person: Person) -> bytes:
    """The digest of a session of the person, for what they show without a browser."""
    digest = hashlib.sha256(person.staff_id.bytes).digest()
    with transaction(stack.owner) as db:
        scalar(
            db, "INSERT INTO sessions (session_hash, staff_id, user_agent_hash, address) VALUES (:h, :s, '', '127.0.0.1')"
            " ON CONFLICT DO NOTHING RETURNING 1", h=digest, s=person.staff_id,
        )  # fmt: skip
    return digest


def an_app(stack: Stack, person: Person) -> UUID:
    """The authenticator app that the person has had for two days; nobody needs its codes."""
    session = a_session(stack, person)
    with transaction(stack.owner) as db:
        found: UUID | None = scalar(
            db, "SELECT factor_id FROM totp_factors WHERE staff_id = :s AND ended_at IS NULL", s=person.staff_id
        )
        return found or scalar(
            db, "INSERT INTO totp_factors (factor_id, staff_id, session_hash, sealed_seed, confirmed_at, last_step)"
            " VALUES (:f, :s, :h, :seed, now() - interval '2 days', 1) RETURNING factor_id",
            f=uuid7(), s=person.staff_id, h=session, seed=bytes(60),
        )  # fmt: skip


def enrolled(stack: Stack, person: Person, sealer: Sealer | None = None, *, days: int = 2) -> Authenticator:
    """A key that the person added `days` ago."""
    key, session, sealer = Authenticator(), a_session(stack, person), sealer or lives.sealer()
    with transaction(stack.console) as db:
        nonce, challenge = begin_ceremony(db, person.staff_id, session, "enrol")
        spend_ceremony(db, person.staff_id, session, "enrol", nonce)
        enrol(db, person.staff_id, "on the desk", key.makes(challenge), nonce, Party.of(key.origin), sealer)
    grow_old(stack, person.staff_id, sealer, days)
    return key


def grow_old(stack: Stack, staff_id: UUID, sealer: Sealer, days: int = 2) -> None:
    """The person's keys and app were added so many days earlier, sealed as they would have been then."""
    with stack.past_guards() as db:
        for row in db.execute("SELECT * FROM passkeys WHERE staff_id = %s", [staff_id]).fetchall():
            aged = row | {"enrolled_at": row["enrolled_at"] - timedelta(days=days), "seal_key_id": sealer.key_id}
            db.execute(
                "UPDATE passkeys SET enrolled_at = %s, seal_key_id = %s, seal = %s WHERE credential_id = %s",
                [aged["enrolled_at"], sealer.key_id, sealer.seal_passkey(aged), row["credential_id"]],
            )
        db.execute(
            "UPDATE totp_factors SET confirmed_at = confirmed_at - make_interval(days => %s) WHERE staff_id = %s",
            [days, staff_id],
        )


def challenged(stack: Stack, world: World, person: Person, intent_id: UUID, fingerprint: bytes) -> tuple[bytes, bytes]:
    """A nonce and what is to be signed with it."""
    session = a_session(stack, person)
    with transaction(stack.console, world.merchant_id) as db:
        return challenge_for(db, world.merchant_id, intent_id, person.staff_id, session, fingerprint)


def proof_of(stack: Stack, world: World, person: Person, intent_id: UUID, nonce: bytes, signed: Signed) -> Proof:
    """The proof as the console puts it together: the nonce is spent, in a transaction of its own."""
    session = a_session(stack, person)
    with transaction(stack.console, world.merchant_id) as db:
        challenge = spend_challenge(db, world.merchant_id, intent_id, person.staff_id, session, nonce)
    return Proof(session, Party.of(lives.ORIGIN), challenge, signed)
