"""What a person shows beside the session to approve: which is asked for, what came back, and a key that may be a copy.

How strong an approval has to be is the ledger's word (`limits.Sum.strength`); nothing here takes it from a form (S25).
"""

from typing import Any, Final
from uuid import UUID

from flask import Response, g, url_for
from sqlalchemy import Connection

from console import notices, showing
from console.access import current, writing
from console.installation import installed
from console.log import log
from console.showing import asked, here, me, nonce_of, party
from ledger import factors
from ledger.approvals import APPROVAL_HOURS
from ledger.database import pin_tenant, scalar, transaction
from ledger.errors import NotFound
from ledger.fingerprint import read_intent
from ledger.outbox import raise_alarm
from ledger.passkey_proof import CounterWentBack, ProofRefused, read_signed
from ledger.passkeys import end_key, passkeys_of, signing_keys
from ledger.revocation import merchants_of, revoke_proofs
from ledger.strength import Proof, RecoveredLately, challenge_for, spend_challenge

NO_SCRIPT: Final = (
    "This amount takes your passkey, and a passkey needs JavaScript. Switch it on for this site, or hand the refund to"
    " somebody else."
)
_NEEDED_TEXTS: Final = {
    "session": "your session",
    "factor": "your session and a code of your app, or your passkey",
    "passkey": "your passkey, over exactly this",
}


def needed_text(needed: str) -> str:
    """How an approval of this strength is made, in words."""
    return _NEEDED_TEXTS[needed]


def ways(db: Connection, intent_id: UUID, needed: str) -> dict[str, Any] | None:
    """What the sheet asks for: {needed, until, code, passkeys, challenge_url}; None where the session is enough.

    `until`: a code or key was shown in this session and pays for this approval. `code`, `passkeys`: what the person has that signs.
    """
    if needed == "session":
        return None
    at = scalar(db, "SELECT now()")
    app, keys = factors.find_app(db, me()), signing_keys(passkeys_of(db, me()), at)
    found = showing.fresh(db) if factors.shown(db, me(), here(), money=True) else None
    return {
        "needed": needed,
        "until": found["until"] if found and needed == "factor" else None,
        "code": needed == "factor" and app is not None and app.signs_from <= at,
        "passkeys": bool(keys),
        "challenge_url": url_for("confirm.challenge", intent_id=intent_id),
    }


def hours_good(proof: dict[str, Any] | None) -> int:
    """How many hours an approval is good that is made in one of these `ways` (S31): the fewest, where more than one is open."""
    if proof is None:
        return APPROVAL_HOURS["session"]
    return APPROVAL_HOURS["passkey" if proof["passkeys"] else proof["needed"]]


def refusal_of_factors(db: Connection, intent_id: UUID, needed: str) -> dict[str, Any] | None:
    """Why this person has nothing that is strong enough, and where to add it; None when they have."""
    if factors.recovered_lately(db, me()):
        return {"kind": "others", "text": RecoveredLately().sentence}
    found = ways(db, intent_id, needed)
    if found is None or found["passkeys"] or found["code"] or found["until"]:
        return None
    what = "a passkey" if needed == "passkey" else "a code of your authenticator app, or a passkey"
    return {"kind": "factor", "what": what, "url": url_for("factors.index")}


def proof_of(intent_id: UUID, code: str, answer: str, nonce: str) -> tuple[Proof, str]:
    """The proof that a form carries, and what was wrong with it, or "".

    The nonce, or the code, is spent and committed here, before anything is approved. What was wrong is no refusal yet: a form
    sent twice carries a spent nonce, and lands on what the first one did.
    """
    plain = Proof(here(), party())
    if answer:
        try:
            with writing() as db:
                spent = spend_challenge(db, current.merchant_id, intent_id, me(), here(), nonce_of(nonce))
            return Proof(here(), party(), spent, read_signed(answer)), ""
        except ProofRefused as refused:
            return plain, refused.sentence
    return plain, showing.show_code(code) if code else ""


def begin(intent_id: UUID, fingerprint: bytes) -> Response:
    """What the person's key is to sign to approve exactly what the page showed, as JSON. Raises NotFound."""
    with writing() as db:
        if read_intent(db, current.merchant_id, intent_id) is None:
            raise NotFound
        nonce, challenge = challenge_for(db, current.merchant_id, intent_id, me(), here(), fingerprint)
        keys = [key.credential_id for key in signing_keys(passkeys_of(db, me()), scalar(db, "SELECT now()"))]
    return asked(nonce, challenge, keys)


def suspend(refused: CounterWentBack) -> None:
    """Ends a key whose counter went back, holds what it approved and was not sent, and raises an alarm at every merchant of the
    person (S32)."""
    credential_id = bytes(refused.facts["credential_id"])
    with transaction(installed().engine) as db:
        name = end_key(db, me(), credential_id, "counter")
        text = (
            f"The counter of a passkey of {g.person.name} went back ({name}): it is switched off, there may be a copy"
        )
        for merchant_id in merchants_of(db, me()):
            pin_tenant(db, merchant_id)
            raise_alarm(db, merchant_id, "passkey_counter", None, text)
        held = revoke_proofs(db, me(), "system")
        notices.factor_changed(
            db, me(), "A passkey was switched off: its counter went back, there may be a copy of it."
        )
    log.warning("passkey_counter", staff_id=me(), count=held)
