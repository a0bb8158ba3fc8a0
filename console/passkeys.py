"""A person's own passkeys: added, shown and removed (S5, S7, S34). The browser signs; static/passkeys.js asks it to."""

from flask import Blueprint, Response, g, jsonify
from webauthn import generate_registration_options
from webauthn.helpers import options_to_json
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)
from wtforms import HiddenField, StringField
from wtforms.validators import Length

from console import notices, sessions, showing, words
from console.access import current, permission, writing
from console.forms import ConsoleForm
from console.fragments import say, see_other
from console.installation import installed
from console.log import log
from console.proving import suspend
from console.showing import here, me, nonce_of, party
from ledger import factors
from ledger.database import transaction
from ledger.errors import BadInput, NotFound, WrongState
from ledger.passkey_proof import ALGORITHMS, LONGEST_ANSWER, CounterWentBack, ProofRefused
from ledger.passkeys import (
    CEREMONY_SECONDS,
    LONGEST_NAME,
    begin_ceremony,
    end_key,
    enrol,
    passkeys_of,
    spend_ceremony,
)
from ledger.revocation import revoke_proofs

blueprint = Blueprint("passkeys", __name__, url_prefix="/<merchant_slug>/factors/keys")

NO_SCRIPT = "A passkey needs JavaScript: switch it on for this site, then try again."


class KeyForm(ConsoleForm):
    """What the browser answered: the nonce it was asked with, and the credential as JSON. Empty without JavaScript."""

    nonce = HiddenField(validators=[Length(max=64)])
    answer = HiddenField(validators=[Length(max=LONGEST_ANSWER)])


class NewKeyForm(KeyForm):
    """The same of a new key, with the name it is to have."""

    name = StringField("Name of the key", validators=[Length(max=LONGEST_NAME)])


@blueprint.post("/showing/challenge")
@permission("own_session")
def begin_showing() -> Response:
    """What a key is to sign to show that the person is there."""
    ConsoleForm().require()
    return showing.begin_step_up()


@blueprint.post("/showing")
@permission("own_session")
def show() -> Response:
    """Takes what a key signed."""
    form = KeyForm()
    form.require()
    try:
        error = showing.show_passkey(str(form.answer.data), str(form.nonce.data)) if form.answer.data else NO_SCRIPT
    except CounterWentBack as refused:
        suspend(refused)
        error = refused.sentence
    if error:
        say("no", "Not taken.", error)
    else:
        say("ok", "That was you.", "It counts for five minutes here, for one change.")
    return see_other("factors.index")


@blueprint.post("/challenge")
@permission("own_session")
def begin() -> Response:
    """What a new key is made with; only for whoever has just shown that it is them."""
    ConsoleForm().require()
    with transaction(installed().engine, read_only=True) as db:
        if factors.shown(db, me(), here()) is None:
            raise factors.NotShown
    return asked_for_new()


def asked_for_new() -> Response:
    """What the browser makes a new key of the person with, as JSON."""
    with transaction(installed().engine) as db:
        nonce, challenge = begin_ceremony(db, me(), here(), "enrol")
        known = [key.credential_id for key in passkeys_of(db, me())]
    made = generate_registration_options(
        rp_id=party().rp_id,
        rp_name="Onceback",
        user_name=g.person.email,
        user_id=me().bytes,
        user_display_name=g.person.name,
        challenge=challenge,
        timeout=CEREMONY_SECONDS * 1000,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.PREFERRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=credential_id) for credential_id in known],
        supported_pub_key_algs=list(ALGORITHMS),
    )
    response = jsonify(nonce=nonce.hex())
    response.set_data(f'{{"nonce": "{nonce.hex()}", "publicKey": {options_to_json(made)}}}')
    return response


@blueprint.post("")
@permission("own_session")
def add() -> Response:
    """Keeps a new key, spends what was shown, and ends the person's other sessions."""
    form = NewKeyForm()
    form.require()
    if not form.answer.data:
        say("no", "No passkey was added.", NO_SCRIPT)
        return see_other("factors.index")
    try:
        with transaction(installed().engine) as db:
            spend_ceremony(db, me(), here(), "enrol", nonce_of(str(form.nonce.data)))
        with transaction(installed().engine) as db:
            factors.spend(db, me(), here())
            enrol(
                db, me(), str(form.name.data or ""), str(form.answer.data), nonce_of(str(form.nonce.data)), party(),
                installed().sealer,
            )  # fmt: skip
            sessions.end_others(db, me(), here())
            notices.factor_changed(db, me(), "A passkey was added.")
    except (ProofRefused, BadInput, WrongState, factors.NotShown) as refused:
        log.warning("factor_refused", staff_id=me(), kind="passkey", reason=refused.code)
        say("no", "No passkey was added.", refused.sentence.removeprefix("name: "))
        return see_other("factors.index")
    log.warning("factor_added", staff_id=me(), kind="passkey")
    say("ok", "Your passkey is added.", "For a day it approves no refund; after that it does.")
    return see_other("factors.index")


@blueprint.post("/<mark>/removal")
@permission("own_session")
def remove(mark: str) -> Response:
    """Removes one key; what it had approved and was not sent is held."""
    ConsoleForm().require()
    with writing() as db:
        found = next((k for k in passkeys_of(db, me()) if sessions.mark_of(k.credential_id) == mark), None)
        if found is None:
            raise NotFound
        factors.spend(db, me(), here())
        name = end_key(db, me(), found.credential_id, "removed")
        sessions.end_others(db, me(), here())
        held = revoke_proofs(db, me(), current.actor)
        notices.factor_changed(db, me(), "A passkey was removed.")
    log.warning("factor_removed", staff_id=me(), kind="passkey", count=held)
    say("ok", f"{name} is removed.", f"It signs nothing any more.{words.held_too(held)}")
    return see_other("factors.index")
