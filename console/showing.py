"""Showing that it is you: a code, a recovery code with the password, the password while there is nothing else, or a passkey.

A try is counted before it is looked at (S4): five misses in a quarter of an hour, and the person waits. What was right is noted
in a transaction of its own, fresh for five minutes in this session.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import UUID

from flask import Response, current_app, g, jsonify, request
from sqlalchemy import Connection
from webauthn.helpers import bytes_to_base64url

from console import passwords, throttle
from console.devices import known_device
from console.installation import installed
from console.log import log
from console.sessions import own
from ledger import factors
from ledger.database import first, scalar, transaction
from ledger.passkey_proof import CounterWentBack, Party, ProofRefused, read_signed
from ledger.passkeys import CEREMONY_SECONDS, begin_ceremony, passkeys_of, show_key, spend_ceremony

R = TypeVar("R")
WRONG: Final = "That code is not right, or was used before. Wait for the next one."
NOT_ITS_CODE: Final = (
    "That is not the code this app shows now. Check that the clock of your phone is right, then try again."
)
WAIT: Final = "Five wrong tries. Wait a quarter of an hour, then try again."
_NOT_RIGHT: Final = "That is not right. Check what you typed."


def me() -> UUID:
    """The signed-in person."""
    staff_id: UUID = g.person.staff_id
    return staff_id


def here() -> bytes:
    """The digest of this session."""
    return own().digest or b""


def party() -> Party:
    """Whom passkeys are for here."""
    return Party.of(installed().settings.public_origin)


def key_of_seeds() -> bytes:
    """What the seeds of apps are sealed with."""
    return bytes.fromhex(str(current_app.config["FACTOR_KEY"]))


def show_code(code: str, *, door: bool = False) -> str:
    """Takes a code of the person's app; returns what is wrong with it, or "". `door`: at sign-in, see `_take`."""
    with transaction(installed().engine) as db:
        tried = _take(db, door=door)
        if tried.verdict != "go":
            return WAIT
        right = factors.show_code(db, me(), here(), key_of_seeds(), code)
        if right:
            throttle.forgive(db, tried)
    _said("totp", right=right)
    return "" if right else WRONG


def confirm_app(
    code: str, done: Callable[[Connection], R], *, door: bool = False, replacing: bool = False
) -> tuple[str, R | None]:
    """Takes the app that waits in this session into use with its first code: what is wrong with it, or "", and what was `done`
    in the same transaction once it was right."""
    came = None
    with transaction(installed().engine) as db:
        tried = _take(db, door=door)
        if tried.verdict != "go":
            return WAIT, None
        right = factors.confirm_app(db, me(), here(), key_of_seeds(), code, replacing=replacing)
        if right:
            throttle.forgive(db, tried)
            came = done(db)
    _said("totp", right=right)
    return ("", came) if right else (NOT_ITS_CODE, None)


def show_password(password: str, recovery: str = "") -> str:
    """The password while the person has nothing else, or with a recovery code; returns what is wrong, or "". Raises Busy."""
    with transaction(installed().engine) as db:
        tried, row = _take(db), first(db, "SELECT password_hash FROM staff WHERE staff_id = :s", s=me())
        bare = factors.has_factor(db, me()) and not recovery
    if tried.verdict != "go":
        return WAIT
    right = passwords.matches(row["password_hash"] if row and not bare else None, password)
    with transaction(installed().engine) as db:
        if right and recovery:
            right = factors.show_recovery(db, me(), here(), recovery)
        elif right:
            factors.note_shown(db, me(), here(), "password", signs_money=False)
        if right:
            throttle.forgive(db, tried)
    _said("recovery" if recovery else "password", right=right)
    return "" if right else _NOT_RIGHT


def show_recovery(code: str) -> str:
    """Takes a recovery code at the door, where the password was given before; returns what is wrong with it, or ""."""
    with transaction(installed().engine) as db:
        tried = _take(db, door=True)
        if tried.verdict != "go":
            return WAIT
        right = factors.show_recovery(db, me(), here(), code)
        if right:
            throttle.forgive(db, tried)
    _said("recovery", right=right)
    return "" if right else _NOT_RIGHT


def show_passkey(answer: str, nonce: str) -> str:
    """What a key of the person signed for this; what is wrong, or "". Raises CounterWentBack: whoever calls ends the key."""
    try:
        with transaction(installed().engine) as db:
            spend_ceremony(db, me(), here(), "step_up", nonce_of(nonce))
        with transaction(installed().engine) as db:
            show_key(db, me(), here(), read_signed(answer), nonce_of(nonce), party(), installed().sealer)
    except CounterWentBack:
        raise
    except ProofRefused as refused:
        _said("passkey", right=False)
        return refused.sentence
    _said("passkey", right=True)
    return ""


def nonce_of(text: str) -> bytes:
    """The nonce of a form; 32 zero bytes, which is nobody's, for anything else."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    return found if len(found) == 32 else bytes(32)


def begin_step_up() -> Response:
    """What the browser is to sign to show that the person is there, as JSON."""
    with transaction(installed().engine) as db:
        nonce, challenge = begin_ceremony(db, me(), here(), "step_up")
        keys = [key.credential_id for key in passkeys_of(db, me())]
    return asked(nonce, challenge, keys)


def asked(nonce: bytes, challenge: bytes, keys: list[bytes]) -> Response:
    """The request of a signature as the browser takes it."""
    return jsonify(
        nonce=nonce.hex(),
        publicKey={
            "challenge": bytes_to_base64url(challenge),
            "rpId": party().rp_id,
            "timeout": CEREMONY_SECONDS * 1000,
            "userVerification": "required",
            "allowCredentials": [{"type": "public-key", "id": bytes_to_base64url(key)} for key in keys],
        },
    )


def fresh(db: Connection) -> dict[str, Any] | None:
    """What the person showed in this session and did not spend yet: {kind, until}; None when there is nothing."""
    found = factors.shown(db, me(), here())
    if found is None:
        return None
    until = scalar(
        db, "SELECT CAST(:at AS timestamptz) + make_interval(mins => :m)", at=found["shown_at"], m=factors.FRESH_MINUTES
    )
    return {"kind": found["kind"], "until": until}


def _take(db: Connection, *, door: bool = False) -> throttle.Try:
    """Counts a try. At the door each browser the person is known in counts by itself, and all others together: who has only the
    password keeps nobody out of a browser they use, nor from approving."""
    who = f"door {known_device(me()) or me()}" if door else str(me())
    return throttle.take_factor(db, current_app.config["THROTTLE_KEY"], who)


def _said(kind: str, *, right: bool) -> None:
    if right:
        log.info("factor_shown", staff_id=me(), kind=kind, address=request.remote_addr)
    else:
        log.warning("factor_refused", staff_id=me(), kind=kind, address=request.remote_addr)
