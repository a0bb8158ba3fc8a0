"""A person's passkeys: enrolled, sealed by the web process, used to show that somebody is there, and ended for good (S5, S34)."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger.card_numbers import mask_card_numbers
from ledger.database import first, rows, run, scalar
from ledger.errors import BadInput, NotFound, WrongState
from ledger.factors import SIGNS_AFTER, note_shown
from ledger.passkey_proof import (
    Party,
    ProofRefused,
    Signed,
    Verified,
    ceremony_challenge,
    verify,
    verify_enrolment,
)
from ledger.seals import Sealer

# How long a browser may take to sign (S27).
CEREMONY_SECONDS: Final = 120
MOST_KEYS: Final = 8
LONGEST_NAME: Final = 60


@dataclass(frozen=True)
class Passkey:
    """A key in use. `signs_from`: before that it signs no money."""

    credential_id: bytes
    name: str
    device_bound: bool
    enrolled_at: datetime
    last_used_at: datetime | None
    signs_from: datetime


def passkeys_of(db: Connection, staff_id: UUID) -> list[Passkey]:
    """The person's keys in use, oldest first."""
    found = rows(
        db, "SELECT credential_id, name, device_bound, enrolled_at, last_used_at FROM passkeys WHERE staff_id = :s"
        " AND ended_at IS NULL ORDER BY enrolled_at, credential_id", s=staff_id,
    )  # fmt: skip
    return [
        Passkey(**row | {"credential_id": bytes(row["credential_id"])}, signs_from=row["enrolled_at"] + SIGNS_AFTER)
        for row in (dict(one) for one in found)
    ]


def signing_keys(keys: Sequence[Passkey], at: datetime) -> list[Passkey]:
    """Those of the keys that sign for money at a time."""
    return [key for key in keys if key.signs_from <= at]


def begin_ceremony(db: Connection, staff_id: UUID, session_hash: bytes, purpose: str) -> tuple[bytes, bytes]:
    """A nonce and what is to be signed with it, for `enrol` or `step_up`, in this session and within two minutes."""
    nonce = secrets.token_bytes(32)
    run(
        db, "INSERT INTO key_ceremonies (nonce, staff_id, session_hash, purpose) VALUES (:n, :s, :h, :p)",
        n=nonce, s=staff_id, h=session_hash, p=purpose,
    )  # fmt: skip
    return nonce, ceremony_challenge(nonce, staff_id, purpose)


def spend_ceremony(db: Connection, staff_id: UUID, session_hash: bytes, purpose: str, nonce: bytes) -> None:
    """Spends a nonce by its first try, right or wrong: commit it before what was signed is looked at. Raises ProofRefused."""
    spent = run(
        db, "UPDATE key_ceremonies SET spent_at = now() WHERE nonce = :n AND staff_id = :s AND session_hash = :h"
        " AND purpose = :p AND spent_at IS NULL AND made_at > now() - make_interval(secs => :secs)",
        n=nonce, s=staff_id, h=session_hash, p=purpose, secs=CEREMONY_SECONDS,
    )  # fmt: skip
    if not spent:
        raise ProofRefused("That took longer than two minutes, or was used before. Try again.")


def enrol(db: Connection, staff_id: UUID, name: str, answer: str, nonce: bytes, party: Party, sealer: Sealer) -> None:
    """Keeps a new key, sealed. `nonce` was spent by the caller. Raises ProofRefused, BadInput (name), WrongState."""
    name = mask_card_numbers(" ".join(name.split()))
    if not 1 <= len(name) <= LONGEST_NAME:
        raise BadInput("name", "give the key a name of up to 60 characters, such as where it is")
    new = verify_enrolment(answer, ceremony_challenge(nonce, staff_id, "enrol"), party)
    if len(passkeys_of(db, staff_id)) >= MOST_KEYS:
        raise WrongState("You have eight passkeys. Remove one first.")
    if first(db, "SELECT 1 FROM passkeys WHERE credential_id = :c", c=new.credential_id):
        raise WrongState("This passkey was added before.")
    row = {
        "credential_id": new.credential_id, "staff_id": staff_id, "public_key": new.public_key,
        "device_bound": new.device_bound, "enrolled_at": scalar(db, "SELECT now()"), "seal_key_id": sealer.key_id,
    }  # fmt: skip
    run(
        db, "INSERT INTO passkeys (credential_id, staff_id, name, public_key, device_bound, enrolled_at, seal_key_id, seal,"
        " counter, backed_up) VALUES (:credential_id, :staff_id, :name, :public_key, :device_bound, :enrolled_at,"
        " :seal_key_id, :seal, :counter, :backed_up)",
        **row, seal=sealer.seal_passkey(row), name=name, counter=new.counter, backed_up=new.backed_up,
    )  # fmt: skip


def lock_key(db: Connection, staff_id: UUID, credential_id: bytes, sealer: Sealer) -> RowMapping:
    """The person's key in use with its row locked. Raises ProofRefused for one that is not theirs, ended, or not sealed."""
    row = first(
        db, "SELECT * FROM passkeys WHERE credential_id = :c AND staff_id = :s AND ended_at IS NULL FOR NO KEY UPDATE",
        c=credential_id, s=staff_id,
    )  # fmt: skip
    if row is None or not sealer.sealed_passkey(dict(row)):
        raise ProofRefused("This passkey is not one of yours here, or has to be added anew.")
    return row


def used(db: Connection, credential_id: bytes, verified: Verified) -> None:
    """Moves a key's counter on after it signed; a trigger refuses one that goes back."""
    run(
        db, "UPDATE passkeys SET counter = :n, backed_up = :b, last_used_at = now() WHERE credential_id = :c",
        n=verified.counter, b=verified.backed_up, c=credential_id,
    )  # fmt: skip


def show_key(
    db: Connection, staff_id: UUID, session_hash: bytes, signed: Signed, nonce: bytes, party: Party, sealer: Sealer
) -> None:
    """Notes that the person showed one of their keys in this session. `nonce` was spent by the caller. Raises ProofRefused."""
    key = lock_key(db, staff_id, signed.credential_id, sealer)
    verified = verify(
        signed, ceremony_challenge(nonce, staff_id, "step_up"), party, bytes(key["public_key"]),
        device_bound=key["device_bound"], counter=key["counter"],
    )  # fmt: skip
    used(db, signed.credential_id, verified)
    signs = bool(scalar(db, "SELECT CAST(:at AS timestamptz) <= now()", at=key["enrolled_at"] + SIGNS_AFTER))
    note_shown(db, staff_id, session_hash, "passkey", signs_money=signs, credential_id=signed.credential_id)


def end_key(db: Connection, staff_id: UUID, credential_id: bytes, because: str) -> str:
    """Ends one key of a person for good: `removed`, `reset` or `counter`; returns its name. Raises NotFound."""
    row = first(
        db, "SELECT name FROM passkeys WHERE credential_id = :c AND staff_id = :s AND ended_at IS NULL FOR NO KEY UPDATE",
        c=credential_id, s=staff_id,
    )  # fmt: skip
    if row is None:
        raise NotFound
    run(
        db, "UPDATE passkeys SET ended_at = now(), ended_because = :b WHERE credential_id = :c", b=because, c=credential_id
    )  # fmt: skip
    return str(row["name"])
