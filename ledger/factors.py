"""What a person has beside the password: an authenticator app and recovery codes, and what they have just shown with it.

A code of the app is taken once, whatever it was for (S4). What was shown is fresh for five minutes in its session and pays for
one act (S15), as long as the app or key it was shown with has not ended. A factor signs no money for a day after it was added
(S7). All times are the database's.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import pyotp
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Connection, RowMapping

from ledger.database import first, run, scalar
from ledger.errors import LedgerError, WrongState
from ledger.ids import uuid7

STEP_SECONDS: Final = 30
SEED_BYTES: Final = 20
CODES: Final = 10
CODE_BYTES: Final = 16
FRESH_MINUTES: Final = 5
PENDING_MINUTES: Final = 15
SIGNS_AFTER: Final = timedelta(hours=24)


class NotShown(LedgerError):
    """Show first that it is you: what you showed before is spent or older than five minutes."""

    code = "not-shown"


@dataclass(frozen=True)
class App:
    """A person's authenticator app. `signs_from`: before that it signs no money."""

    factor_id: UUID
    confirmed_at: datetime
    last_used_at: datetime | None
    signs_from: datetime


def find_app(db: Connection, staff_id: UUID) -> App | None:
    """The app a person confirmed, or None."""
    row = first(
        db, "SELECT factor_id, confirmed_at, last_used_at FROM totp_factors WHERE staff_id = :s AND confirmed_at IS NOT NULL"
        " AND ended_at IS NULL", s=staff_id,
    )  # fmt: skip
    return App(**row, signs_from=row["confirmed_at"] + SIGNS_AFTER) if row else None


def begin_app(db: Connection, staff_id: UUID, session_hash: bytes, key: bytes, *, replacing: bool = False) -> None:
    """A new seed, waiting in this session for its first code; one that waited before, in whichever, is forgotten.

    Raises WrongState with an app in use, which a new one may only be `replacing` for whoever lost it.

    `key` is 32 bytes that are not in the database: the seed is sealed with it for this person and nobody else.
    """
    if not replacing and find_app(db, staff_id) is not None:
        raise WrongState("You have an authenticator app. Remove it first.")
    run(
        db, "UPDATE totp_factors SET ended_at = now() WHERE staff_id = :s AND ended_at IS NULL AND confirmed_at IS NULL",
        s=staff_id,
    )  # fmt: skip
    nonce = secrets.token_bytes(12)
    sealed = nonce + AESGCM(key).encrypt(nonce, secrets.token_bytes(SEED_BYTES), staff_id.bytes)
    run(
        db, "INSERT INTO totp_factors (factor_id, staff_id, session_hash, sealed_seed) VALUES (:f, :s, :h, :seed)",
        f=uuid7(), s=staff_id, h=session_hash, seed=sealed,
    )  # fmt: skip


_WAITING: Final = """
    SELECT factor_id, sealed_seed, extract(epoch FROM now())::bigint AS at, last_step FROM totp_factors WHERE staff_id = :s
        AND session_hash = :h AND ended_at IS NULL AND confirmed_at IS NULL AND made_at > now() - make_interval(mins => :m)
"""
_IN_USE: Final = """
    SELECT factor_id, sealed_seed, extract(epoch FROM now())::bigint AS at, last_step,
        confirmed_at <= now() - make_interval(hours => :h) AS signs FROM totp_factors
    WHERE staff_id = :s AND ended_at IS NULL AND confirmed_at IS NOT NULL
"""


def waiting_secret(db: Connection, staff_id: UUID, session_hash: bytes, key: bytes) -> str | None:
    """The secret that waits in this session for its first code, as apps take it; None when there is none, or it waited too long."""
    row = first(db, _WAITING, s=staff_id, h=session_hash, m=PENDING_MINUTES)
    return _opened(row, staff_id, key) if row else None


def confirm_app(
    db: Connection, staff_id: UUID, session_hash: bytes, key: bytes, code: str, *, replacing: bool = False
) -> bool:
    """Takes a new app into use with its first code, and with `replacing` ends the one before; False when the code is not its own
    or nothing waits in this session."""
    row = first(db, _WAITING, s=staff_id, h=session_hash, m=PENDING_MINUTES)
    step = _step_of(_opened(row, staff_id, key), row["at"], code) if row else None
    if row is None or step is None:
        return False
    if replacing:
        run(
            db, "UPDATE totp_factors SET ended_at = now() WHERE staff_id = :s AND ended_at IS NULL AND confirmed_at IS NOT NULL",
            s=staff_id,
        )  # fmt: skip
    return run(
        db, "UPDATE totp_factors SET confirmed_at = now(), last_step = :step, last_used_at = now() WHERE factor_id = :f"
        " AND confirmed_at IS NULL AND ended_at IS NULL", f=row["factor_id"], step=step,
    ) == 1  # fmt: skip


def show_code(db: Connection, staff_id: UUID, session_hash: bytes, key: bytes, code: str) -> bool:
    """Takes a code of the person's app, once, and notes that they showed it in this session; False for any other code."""
    row = first(db, _IN_USE, s=staff_id, h=SIGNS_AFTER // timedelta(hours=1))
    step = _step_of(_opened(row, staff_id, key), row["at"], code) if row else None
    if row is None or step is None or (row["last_step"] is not None and step <= row["last_step"]):
        return False
    # Two at once with one code: the second waits here, and finds the step taken.
    taken = run(
        db, "UPDATE totp_factors SET last_step = :step, last_used_at = now() WHERE factor_id = :f AND last_step < :step"
        " AND ended_at IS NULL", f=row["factor_id"], step=step,
    )  # fmt: skip
    if taken:
        note_shown(db, staff_id, session_hash, "totp", signs_money=row["signs"], factor_id=row["factor_id"])
    return taken == 1


def _step_of(secret: str, at: int, code: str) -> int | None:
    """The half-minute a code is of: this one or the one before; None for any other."""
    digits = "".join(code.split())
    if not digits.isascii():
        return None
    made = pyotp.TOTP(secret)
    steps = (at // STEP_SECONDS, at // STEP_SECONDS - 1)
    return next((step for step in steps if hmac.compare_digest(made.generate_otp(step), digits)), None)


def _opened(row: RowMapping, staff_id: UUID, key: bytes) -> str:
    sealed = bytes(row["sealed_seed"])
    try:
        seed = AESGCM(key).decrypt(sealed[:12], sealed[12:], staff_id.bytes)
    except InvalidTag as error:
        raise WrongState("Your authenticator app cannot be read any more: have it reset.") from error
    return base64.b32encode(seed).decode()


def end_app(db: Connection, staff_id: UUID) -> int:
    """Ends the app of a person, and one that waits; returns how many were in use. `revoke_proofs` holds what it approved."""
    used = 1 if find_app(db, staff_id) else 0
    run(db, "UPDATE totp_factors SET ended_at = now() WHERE staff_id = :s AND ended_at IS NULL", s=staff_id)
    return used


def new_codes(db: Connection, staff_id: UUID) -> list[str]:
    """Ten fresh recovery codes, shown once; those before are over. The database keeps their digests."""
    end_codes(db, staff_id)
    codes = [base64.b32encode(secrets.token_bytes(CODE_BYTES)).decode().rstrip("=") for _ in range(CODES)]
    for code in codes:
        run(db, "INSERT INTO recovery_codes (code_hash, staff_id) VALUES (:h, :s)", h=_code_hash(code), s=staff_id)
    return ["-".join(code[at : at + 5] for at in range(0, len(code), 5)) for code in codes]


def end_codes(db: Connection, staff_id: UUID) -> None:
    """No recovery code of the person opens anything any more."""
    run(db, "UPDATE recovery_codes SET ended_at = now() WHERE staff_id = :s AND ended_at IS NULL", s=staff_id)


def codes_left(db: Connection, staff_id: UUID) -> int:
    return int(scalar(db, "SELECT count(*) FROM recovery_codes WHERE staff_id = :s AND ended_at IS NULL", s=staff_id))


def show_recovery(db: Connection, staff_id: UUID, session_hash: bytes, code: str) -> bool:
    """Takes a recovery code, once; it pays for a change of factors and for nothing else."""
    taken = run(
        db, "UPDATE recovery_codes SET ended_at = now() WHERE staff_id = :s AND code_hash = :h AND ended_at IS NULL",
        s=staff_id, h=_code_hash("".join(c for c in code.upper() if c.isalnum())),
    )  # fmt: skip
    if taken:
        note_shown(db, staff_id, session_hash, "recovery", signs_money=False)
    return taken == 1


def _code_hash(code: str) -> bytes:
    return hashlib.sha256(b"onceback.recovery.v1\0" + code.encode("utf-8", "surrogateescape")).digest()


def note_shown(
    db: Connection, staff_id: UUID, session_hash: bytes, kind: str, *, signs_money: bool, factor_id: UUID | None = None,
    credential_id: bytes | None = None,
) -> None:  # fmt: skip
    """Notes what a person has just shown in a session: password, recovery, totp (of the app `factor_id`) or passkey (that one)."""
    run(
        db, "INSERT INTO factor_acts (act_id, staff_id, session_hash, kind, signs_money, factor_id, credential_id)"
        " VALUES (:a, :s, :h, :k, :m, :f, :c)",
        a=uuid7(), s=staff_id, h=session_hash, k=kind, m=signs_money, f=factor_id, c=credential_id,
    )  # fmt: skip


_FRESH: Final = """
    SELECT act_id, kind, signs_money, shown_at FROM factor_acts WHERE staff_id = :s AND session_hash = :h AND spent_at IS NULL
        AND shown_at > now() - make_interval(mins => :m) AND (signs_money OR NOT :money) AND act_counts(factor_id, credential_id)
    ORDER BY shown_at DESC LIMIT 1
"""


def shown(db: Connection, staff_id: UUID, session_hash: bytes, *, money: bool = False) -> RowMapping | None:
    """What the person showed in this session that is fresh and unspent; `money`: only what may sign for money."""
    return first(db, _FRESH, s=staff_id, h=session_hash, m=FRESH_MINUTES, money=money)


def spend(
    db: Connection, staff_id: UUID, session_hash: bytes, *, approval_id: UUID | None = None, only: tuple[str, ...] = ()
) -> None:
    """Spends what was shown on one act: a change of factors, or the approval named. Raises NotShown.

    `only`: kinds that are not enough are refused. Two at once: the second finds it spent.
    """
    found = shown(db, staff_id, session_hash, money=approval_id is not None)
    if found is None or (only and found["kind"] not in only):
        raise NotShown
    spent = run(
        db, "UPDATE factor_acts SET spent_at = now(), approval_id = :a WHERE act_id = :i AND spent_at IS NULL",
        i=found["act_id"], a=approval_id,
    )  # fmt: skip
    if not spent:
        raise NotShown


_NEEDED: Final = """
    SELECT coalesce(bool_or(asks_for_factor(t.second_factor, m.role)), false)
    FROM memberships m JOIN merchants t ON t.id = m.merchant_id WHERE m.staff_id = :s AND m.ended_at IS NULL
"""


def has_factor(db: Connection, staff_id: UUID) -> bool:
    """Whether a person has anything beside the password in use."""
    return bool(scalar(db, "SELECT has_factor(:s)", s=staff_id))


def recovered_lately(db: Connection, staff_id: UUID) -> bool:
    """Whether a person used a recovery code within a day: they approve nothing meanwhile, by whatever session (S8)."""
    return bool(scalar(db, "SELECT recovered_lately(:s)", s=staff_id))


def needs_factor(db: Connection, staff_id: UUID) -> bool:
    """Whether any merchant of the person asks their role for a second factor; reads only memberships that are theirs."""
    db.exec_driver_sql("SELECT set_config('onceback.staff', %s, true)", (str(staff_id),))
    found = scalar(db, _NEEDED, s=staff_id)
    db.exec_driver_sql("SELECT set_config('onceback.staff', '', true)")
    return bool(found)
