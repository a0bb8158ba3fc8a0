"""What a passkey signed, and whether it is what it has to be (S5, S27-S29, S32). Nothing here reads a row.

The challenge is derived from the fingerprint of one exact intent, the nonce of one ceremony, the person, the act and the
approval before it, so that no signature fits another of any of these. The web process verifies with it when somebody
approves, the worker again before each send, each with the party of its own configuration.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit
from uuid import UUID

from webauthn import verify_authentication_response, verify_registration_response
from webauthn.helpers import (
    bytes_to_base64url,
    decode_credential_public_key,
    parse_authentication_credential_json,
    parse_client_data_json,
    parse_registration_credential_json,
)
from webauthn.helpers.cose import COSEAlgorithmIdentifier
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticationCredential,
    AuthenticatorAssertionResponse,
    CredentialDeviceType,
)

from ledger.errors import LedgerError

TAG: Final = b"onceback.passkey.approval.v1\0"
CEREMONY_TAG: Final = b"onceback.passkey.ceremony.v1\0"
EARLIER_TAG: Final = b"onceback.earlier.v1\0"
ALGORITHMS: Final = (
    COSEAlgorithmIdentifier.EDDSA, COSEAlgorithmIdentifier.ECDSA_SHA_256, COSEAlgorithmIdentifier.RSASSA_PKCS1_v1_5_SHA_256,
)  # fmt: skip
# A credential as a browser hands it over, in characters; signatures and keys are some hundred bytes.
LONGEST_ANSWER: Final = 16_000


class ProofRefused(LedgerError):
    """What the passkey signed is not this. Nothing was approved."""

    code = "proof-refused"


class CounterWentBack(ProofRefused):
    """The passkey's counter went back: there may be a copy of it. It is switched off."""

    code = "counter-went-back"


@dataclass(frozen=True)
class Party:
    """Whom passkeys are for: the exact host, and the origins of its pages."""

    rp_id: str
    origins: tuple[str, ...]

    @classmethod
    def of(cls, public_origin: str) -> Self:
        """The party of a console at this origin, `https://console.example`."""
        return cls(urlsplit(public_origin).hostname or "", (public_origin,))


@dataclass(frozen=True)
class Signed:
    """What a passkey signed, raw, as it is kept (S28)."""

    credential_id: bytes
    client_data: bytes
    authenticator_data: bytes
    signature: bytes


@dataclass(frozen=True)
class Verified:
    """A signature that is right. `counter` 0 twice is a synced key's."""

    counter: int
    device_bound: bool
    backed_up: bool


@dataclass(frozen=True)
class Enrolled:
    """A new key: what is kept of it."""

    credential_id: bytes
    public_key: bytes
    counter: int
    device_bound: bool
    backed_up: bool


def approval_challenge(nonce: bytes, fingerprint: bytes, staff_id: UUID, act: str, earlier: bytes) -> bytes:
    """What a passkey signs to approve: 32 bytes. Each part has a fixed length but `act`, which is counted."""
    said = act.encode("ascii")
    return hashlib.sha256(
        TAG + nonce + fingerprint + staff_id.bytes + len(said).to_bytes(2, "big") + said + earlier
    ).digest()


def ceremony_challenge(nonce: bytes, staff_id: UUID, purpose: str) -> bytes:
    """What a passkey signs to be enrolled, or to show that its person is there."""
    return hashlib.sha256(CEREMONY_TAG + nonce + staff_id.bytes + purpose.encode("ascii")).digest()


def earlier_digest(seal: bytes | None) -> bytes:
    """What a second approval signs of the first one's seal; empty for a first."""
    return b"" if seal is None else hashlib.sha256(EARLIER_TAG + bytes(seal)).digest()


def read_signed(text: str) -> Signed:
    """The credential that a browser answered with, from its JSON. Raises ProofRefused for anything else."""
    if len(text) > LONGEST_ANSWER:
        raise ProofRefused("That is not what a passkey answers.")
    try:
        given = parse_authentication_credential_json(text)
    except (WebAuthnException, ValueError, TypeError, AttributeError) as error:
        raise ProofRefused("That is not what a passkey answers.") from error
    response = given.response
    return Signed(given.raw_id, response.client_data_json, response.authenticator_data, response.signature)


def verify(
    signed: Signed, challenge: bytes, party: Party, public_key: bytes, *, device_bound: bool, counter: int
) -> Verified:
    """Raises ProofRefused unless this very key signed exactly this for a present, verified person on a page of the party.

    `counter` is what the key showed before; CounterWentBack, after the signature proved right, when it is not larger now.
    """
    try:
        if decode_credential_public_key(public_key).alg not in ALGORITHMS:
            raise ProofRefused
        found = verify_authentication_response(
            credential=AuthenticationCredential(
                id=bytes_to_base64url(signed.credential_id),
                raw_id=signed.credential_id,
                response=AuthenticatorAssertionResponse(
                    client_data_json=signed.client_data,
                    authenticator_data=signed.authenticator_data,
                    signature=signed.signature,
                ),
            ),
            expected_challenge=challenge,
            expected_rp_id=party.rp_id,
            expected_origin=list(party.origins),
            credential_public_key=public_key,
            # Compared below: a forged signature must not be able to say that a counter went back.
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError) as error:
        raise ProofRefused from error
    _refuse_other_pages(signed.client_data)
    bound = found.credential_device_type == CredentialDeviceType.SINGLE_DEVICE
    if bound is not device_bound:
        raise ProofRefused
    if (found.new_sign_count > 0 or counter > 0) and found.new_sign_count <= counter:
        raise CounterWentBack(credential_id=signed.credential_id)
    return Verified(found.new_sign_count, bound, found.credential_backed_up)


def verify_enrolment(text: str, challenge: bytes, party: Party) -> Enrolled:
    """A new key from the JSON a browser answered with. Raises ProofRefused unless it is for this very ceremony."""
    if len(text) > LONGEST_ANSWER:
        raise ProofRefused("That is not what a passkey answers.")
    try:
        given = parse_registration_credential_json(text)
        found = verify_registration_response(
            credential=given,
            expected_challenge=challenge,
            expected_rp_id=party.rp_id,
            expected_origin=list(party.origins),
            require_user_verification=True,
            supported_pub_key_algs=list(ALGORITHMS),
        )
    except (WebAuthnException, ValueError, TypeError, AttributeError) as error:
        raise ProofRefused("The passkey could not be added: it answered for something else. Try again.") from error
    _refuse_other_pages(given.response.client_data_json)
    bound = found.credential_device_type == CredentialDeviceType.SINGLE_DEVICE
    return Enrolled(
        found.credential_id, found.credential_public_key, found.sign_count, bound, found.credential_backed_up
    )


def _refuse_other_pages(client_data: bytes) -> None:
    """S5: the library accepts what was signed inside a page of somebody else."""
    if parse_client_data_json(client_data).cross_origin or b'"topOrigin"' in client_data:
        raise ProofRefused
