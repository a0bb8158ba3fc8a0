"""How strong an approval has to be, what is shown for it, and whether it still holds before each send (S22, S27-S32).

    session   a signed-in session
    factor    a code or key shown in the last five minutes, spent on this one approval
    passkey   a signature over exactly this intent, kept with the approval

Which of them is needed follows from the sum of the refund and those beside it, by the routes of the policy in force
(`limits.Sum.strength`). It is worked out here and never taken from a caller.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from ledger import factors
from ledger.database import first, run
from ledger.errors import LedgerError
from ledger.factors import SIGNS_AFTER
from ledger.passkey_proof import (
    Party,
    ProofRefused,
    Signed,
    approval_challenge,
    earlier_digest,
    verify,
)
from ledger.passkeys import CEREMONY_SECONDS, lock_key, used
from ledger.seals import Sealer, SealVerifier

STRENGTHS: Final = ("session", "factor", "passkey")


class TooWeak(LedgerError):
    """This amount takes more than your session: a code of your authenticator app, or your passkey."""

    code = "too-weak"


class RecoveredLately(TooWeak):
    """You came in with a recovery code less than a day ago, so you approve nothing yet. Hand it to somebody else."""

    code = "recovered-lately"


def reaches(strength: str, needed: str) -> bool:
    """Whether an approval of this strength is enough; what a policy approves is as weak as a session."""
    return needed not in STRENGTHS or STRENGTHS.index(needed) <= (
        STRENGTHS.index(strength) if strength in STRENGTHS else 0
    )


@dataclass(frozen=True)
class Challenge:
    """One spent nonce, and what it was made for."""

    nonce: bytes
    intent_id: UUID
    act: str
    fingerprint: bytes
    earlier: bytes


@dataclass(frozen=True)
class Proof:
    """What a person shows beside being signed in: their session, and with a passkey the spent challenge and its signature."""

    session_hash: bytes
    party: Party
    challenge: Challenge | None = None
    signed: Signed | None = None


def act_of(seat: int) -> str:
    """The act that a signature is for: the first or the second of the approvals of an intent."""
    return f"approve:{seat}"


def _first_seal(db: Connection, merchant_id: UUID, intent_id: UUID) -> bytes | None:
    row = first(
        db, "SELECT seal FROM approvals WHERE merchant_id = :m AND intent_id = :i AND seat = 1",
        m=merchant_id, i=intent_id,
    )  # fmt: skip
    return bytes(row["seal"]) if row else None


def challenge_for(
    db: Connection, merchant_id: UUID, intent_id: UUID, staff_id: UUID, session_hash: bytes, fingerprint: bytes
) -> tuple[bytes, bytes]:
    """Keeps a new nonce for one approval and returns it with what is to be signed; `fingerprint` is what the page showed."""
    seal = _first_seal(db, merchant_id, intent_id)
    act, earlier, nonce = act_of(1 if seal is None else 2), earlier_digest(seal), secrets.token_bytes(32)
    run(
        db, "INSERT INTO approval_challenges (merchant_id, nonce, staff_id, session_hash, intent_id, act, fingerprint, earlier)"
        " VALUES (:m, :n, :s, :h, :i, :a, :f, :e)", m=merchant_id, n=nonce, s=staff_id, h=session_hash, i=intent_id, a=act,
        f=fingerprint, e=earlier,
    )  # fmt: skip
    return nonce, approval_challenge(nonce, fingerprint, staff_id, act, earlier)


def spend_challenge(
    db: Connection, merchant_id: UUID, intent_id: UUID, staff_id: UUID, session_hash: bytes, nonce: bytes
) -> Challenge:
    """Spends a nonce by its first try, right or wrong: commit it before `approve` is called with it. Raises ProofRefused."""
    spent = run(
        db, "UPDATE approval_challenges SET spent_at = now() WHERE merchant_id = :m AND nonce = :n AND staff_id = :s"
        " AND session_hash = :h AND intent_id = :i AND spent_at IS NULL AND made_at > now() - make_interval(secs => :secs)",
        m=merchant_id, n=nonce, s=staff_id, h=session_hash, i=intent_id, secs=CEREMONY_SECONDS,
    )  # fmt: skip
    row = first(
        db, "SELECT nonce, intent_id, act, fingerprint, earlier FROM approval_challenges WHERE merchant_id = :m AND nonce = :n",
        m=merchant_id, n=nonce,
    )  # fmt: skip
    if not spent or row is None:
        raise ProofRefused("That took longer than two minutes, or was used before. Try again: nothing was approved.")
    return Challenge(
        bytes(row["nonce"]), row["intent_id"], row["act"], bytes(row["fingerprint"]), bytes(row["earlier"])
    )


@dataclass(frozen=True)
class Shown:
    """What an approval is made with; `write` keeps it, before the approval that it is of."""

    strength: str
    staff_id: UUID
    proof: Proof | None = None
    assertion: dict[str, Any] | None = None

    def write(self, db: Connection, merchant_id: UUID, approval_id: UUID) -> None:
        """Spends or keeps what was shown. Raises NotShown when another approval spent it meanwhile."""
        if self.strength == "factor" and self.proof is not None:
            factors.spend(db, self.staff_id, self.proof.session_hash, approval_id=approval_id)
        if self.assertion is not None:
            run(db, _INSERT_ASSERTION, **self.assertion, merchant_id=merchant_id, approval_id=approval_id)


_INSERT_ASSERTION: Final = """
    INSERT INTO approval_assertions (merchant_id, approval_id, nonce, staff_id, credential_id, act, earlier, client_data,
        authenticator_data, signature, counter_before, counter_after)
    VALUES (:merchant_id, :approval_id, :nonce, :staff_id, :credential_id, :act, :earlier, :client_data, :authenticator_data,
        :signature, :counter_before, :counter_after)
"""


def show(
    db: Connection, intent: RowMapping, staff_id: UUID, seat: int, print_: bytes, needed: str, proof: Proof | None, sealer: Sealer
) -> Shown:  # fmt: skip
    """What the person shows for this seat of this intent, which is locked and whose fingerprint is `print_`.

    Raises TooWeak when it is less than `needed`, ProofRefused when a signature is not over exactly this, CounterWentBack.
    Locks the passkey.
    """
    if proof is not None and proof.signed is not None and proof.challenge is not None:
        return _signed(db, intent, staff_id, seat, print_, proof, sealer)
    if needed == "session":
        return Shown("session", staff_id)
    if needed == "factor" and proof is not None and factors.shown(db, staff_id, proof.session_hash, money=True):
        return Shown("factor", staff_id, proof)
    raise TooWeak(needed=needed)


def _signed(
    db: Connection, intent: RowMapping, staff_id: UUID, seat: int, print_: bytes, proof: Proof, sealer: Sealer
) -> Shown:
    challenge, signed = proof.challenge, proof.signed
    if challenge is None or signed is None:
        raise ProofRefused
    act, earlier = act_of(seat), b""
    if seat == 2:
        earlier = earlier_digest(_first_seal(db, intent["merchant_id"], intent["intent_id"]))
    if (challenge.intent_id, challenge.act, challenge.earlier) != (intent["intent_id"], act, earlier):
        raise ProofRefused("Your passkey signed another act than this one. Open the page again: nothing was approved.")
    key = lock_key(db, staff_id, signed.credential_id, sealer)
    if key["enrolled_at"] + SIGNS_AFTER > intent["at"]:
        raise ProofRefused("This passkey was added less than a day ago: until then it approves nothing.")
    verified = verify(
        signed, approval_challenge(challenge.nonce, print_, staff_id, act, earlier), proof.party, bytes(key["public_key"]),
        device_bound=key["device_bound"], counter=key["counter"],
    )  # fmt: skip
    used(db, signed.credential_id, verified)
    assertion = {
        "nonce": challenge.nonce, "staff_id": staff_id, "credential_id": signed.credential_id, "act": act, "earlier": earlier,
        "client_data": signed.client_data, "authenticator_data": signed.authenticator_data, "signature": signed.signature,
        "counter_before": key["counter"], "counter_after": verified.counter,
    }  # fmt: skip
    return Shown("passkey", staff_id, proof, assertion)


_KEPT: Final = """
    SELECT s.nonce, s.staff_id, s.credential_id, s.act, s.earlier, s.client_data, s.authenticator_data, s.signature,
        s.counter_before, s.counter_after, k.staff_id AS owner, k.public_key, k.device_bound, k.enrolled_at, k.seal_key_id, k.seal,
        (SELECT f.seal FROM approvals f WHERE f.merchant_id = s.merchant_id AND f.intent_id = :i AND f.seat = 1) AS first_seal
    FROM approval_assertions s JOIN passkeys k ON k.credential_id = s.credential_id AND k.ended_at IS NULL
    WHERE s.merchant_id = :m AND s.approval_id = :a
"""
_SPENT: Final = """
    SELECT 1 FROM factor_acts WHERE approval_id = :a AND staff_id = :s AND signs_money AND act_counts(factor_id, credential_id)
"""


def fault_of_strength(db: Connection, approval: RowMapping, needed: str, print_: bytes, verifier: SealVerifier) -> str:
    """Why an approval of a person is not as strong as it has to be now, or "": `strength`, or `proof` for what it was made with.

    `approval` has a seal that holds. Of a passkey everything is verified again, with the party and the keys of this process.
    """
    if not reaches(approval["strength"], needed):
        return "strength"
    if approval["strength"] == "factor":
        kept = first(db, _SPENT, a=approval["approval_id"], s=approval["staff_id"])
        return "" if kept else "proof"
    if approval["strength"] == "passkey":
        return "" if _still_signed(db, approval, print_, verifier) else "proof"
    return ""


def _still_signed(db: Connection, approval: RowMapping, print_: bytes, verifier: SealVerifier) -> bool:
    keys = {"m": approval["merchant_id"], "i": approval["intent_id"], "a": approval["approval_id"]}
    kept, party, act = first(db, _KEPT, **keys), verifier.party, act_of(approval["seat"])
    if kept is None or party is None or kept["act"] != act:
        return False
    if {kept["staff_id"], kept["owner"]} != {approval["staff_id"]} or not _sealed(kept, verifier):
        return False
    if _too_new(kept["enrolled_at"], approval["approved_at"]):
        return False
    earlier = earlier_digest(kept["first_seal"]) if approval["seat"] == 2 else b""
    if bytes(kept["earlier"]) != earlier:
        return False
    challenge = approval_challenge(bytes(kept["nonce"]), print_, approval["staff_id"], act, earlier)
    signed = Signed(
        *(bytes(kept[part]) for part in ("credential_id", "client_data", "authenticator_data", "signature"))
    )
    try:
        verified = verify(
            signed, challenge, party, bytes(kept["public_key"]), device_bound=kept["device_bound"],
            counter=kept["counter_before"],
        )  # fmt: skip
    except ProofRefused:
        return False
    return verified.counter == int(kept["counter_after"])


def _sealed(kept: RowMapping, verifier: SealVerifier) -> bool:
    return verifier.valid_passkey(dict(kept) | {"staff_id": kept["owner"]})


def _too_new(enrolled_at: datetime, approved_at: datetime) -> bool:
    return enrolled_at + SIGNS_AFTER > approved_at
