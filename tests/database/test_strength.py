"""How strong an approval is: what an amount takes, what a passkey signs, and what the worker verifies before it sends (S22-S34)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, LiteralString
from uuid import UUID

import pytest
from sqlalchemy import RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.approvals import Seen
from ledger.database import run, transaction
from ledger.errors import LedgerError
from ledger.factors import NotShown, note_shown, spend
from ledger.ids import uuid7
from ledger.passkey_proof import CounterWentBack, Party, ProofRefused
from ledger.passkeys import end_key
from ledger.strength import Proof, TooWeak
from tests import lives
from tests.authenticator import Authenticator, a_session, an_app, challenged, enrolled, proof_of
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import World, build_world, usual_policy

# One shirt is 24.90, two are 49.80, three 74.70.
ROUTES = {"manager_from_minor": {"GBP": 25000}, "factor_from_minor": {"GBP": 4000}, "passkey_from_minor": {"GBP": 7000}}


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=usual_policy("harbour-usual") | {"routes": ROUTES})


@pytest.fixture
def key(stack: Stack, world: World) -> Authenticator:
    return enrolled(stack, world.priya)


def shirts(stack: Stack, world: World, count: int) -> RowMapping:
    return lives.propose(stack, world, (("TEE", count),))


def signed_by(
    stack: Stack, world: World, key: Authenticator, intent_id: UUID, *, sees: Seen | None = None, **forged: Any
) -> tuple[Seen, Proof]:
    """Priya's page and her key's signature over it."""
    seen = sees or lives.see(stack, world, intent_id)
    nonce, challenge = challenged(stack, world, world.priya, intent_id, seen.fingerprint)
    return seen, proof_of(stack, world, world.priya, intent_id, nonce, key.signs(challenge, **forged))


def approved(stack: Stack, world: World, key: Authenticator) -> UUID:
    intent = shirts(stack, world, 3)
    seen, proof = signed_by(stack, world, key, intent["intent_id"])
    assert lives.approve_as(stack, world, world.priya, intent["intent_id"], seen, proof=proof).state == "approved"
    intent_id: UUID = intent["intent_id"]
    return intent_id


def shows(stack: Stack, world: World, *, kind: str = "totp", signs: bool = True) -> Proof:
    """Priya has just shown a code in her session."""
    session, app = a_session(stack, world.priya), an_app(stack, world.priya) if kind == "totp" else None
    with transaction(stack.console) as db:
        note_shown(db, world.priya.staff_id, session, kind, signs_money=signs, factor_id=app)
    return Proof(session, Party.of(lives.ORIGIN))


def nothing_approved(stack: Stack) -> None:
    found = as_administrator(
        stack, "SELECT (SELECT count(*) FROM approvals) + (SELECT count(*) FROM approval_assertions)"
        " + (SELECT count(*) FROM outbox) + (SELECT count(*) FROM transfers) AS n",
    )  # fmt: skip
    assert found == [{"n": 0}]


def test_each_amount_takes_its_own_strength(stack: Stack, world: World, key: Authenticator) -> None:
    plain = shirts(stack, world, 1)
    assert lives.approve_as(stack, world, world.priya, plain["intent_id"]).state == "approved"
    strengths = [row["strength"] for row in as_administrator(stack, "SELECT strength FROM approvals")]
    assert strengths == ["session"]


@pytest.mark.parametrize(("count", "needed"), [(2, "factor"), (3, "passkey")])
def test_a_session_alone_approves_nothing_that_takes_more(stack: Stack, world: World, count: int, needed: str) -> None:
    intent = shirts(stack, world, count)
    with pytest.raises(TooWeak) as refused:
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
    assert refused.value.facts["needed"] == needed
    nothing_approved(stack)


def test_a_code_pays_for_one_approval_and_not_for_the_next(stack: Stack, world: World) -> None:
    first = shirts(stack, world, 2)
    proof = shows(stack, world)
    assert lives.approve_as(stack, world, world.priya, first["intent_id"], proof=proof).state == "approved"
    with transaction(stack.console, world.merchant_id) as db, pytest.raises(NotShown):
        spend(db, world.priya.staff_id, proof.session_hash)
    assert [one.intent_id for one in lives.claim(stack, world)] == [first["intent_id"]]


@pytest.mark.parametrize(
    ("kind", "signs", "minutes"), [("totp", False, 0), ("password", False, 0), ("recovery", False, 0), ("totp", True, 6)],
    ids=["app added today", "password", "recovery code", "six minutes old"],
)  # fmt: skip
def test_what_signs_no_money_and_what_is_old_approves_nothing(
    stack: Stack, world: World, kind: str, signs: bool, minutes: int
) -> None:
    intent = shirts(stack, world, 2)
    proof = shows(stack, world, kind=kind, signs=signs)
    as_administrator(stack, "UPDATE factor_acts SET shown_at = shown_at - make_interval(mins => %s)", minutes)
    with pytest.raises(TooWeak):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], proof=proof)
    nothing_approved(stack)


def test_a_code_shown_in_another_session_is_not_this_ones(stack: Stack, world: World) -> None:
    intent = shirts(stack, world, 2)
    proof = replace(shows(stack, world), session_hash=a_session(stack, world.tobias))
    with pytest.raises(TooWeak):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], proof=proof)


def test_the_strength_follows_the_sum_of_the_customer(stack: Stack, world: World) -> None:
    """Attack story 11: two refunds below an amount are together above it."""
    first, second = (
        shirts(stack, world, 1),
        lives.propose(stack, world, (("TEE", 1),), reference="chat-2", relation="separate"),
    )
    lives.approve_as(stack, world, world.priya, first["intent_id"])
    with pytest.raises(TooWeak) as refused:
        lives.approve_as(stack, world, world.tobias, second["intent_id"])
    assert refused.value.facts["needed"] == "factor"


def test_a_passkey_approves_exactly_this_and_what_it_signed_is_kept(
    stack: Stack, world: World, key: Authenticator
) -> None:
    intent_id = approved(stack, world, key)
    kept = as_administrator(stack, "SELECT * FROM approval_assertions")
    assert [bytes(row["credential_id"]) for row in kept] == [key.credential_id]
    assert (kept[0]["counter_before"], kept[0]["counter_after"], kept[0]["act"]) == (0, 1, "approve:1")
    assert [one.intent_id for one in lives.claim(stack, world)] == [intent_id]


FORGED: list[tuple[str, Callable[[Authenticator], Any] | None, dict[str, Any]]] = [
    ("another page", None, {"origin": "https://console.example.attacker.example"}),
    ("a page inside another", None, {"crossOrigin": True}),
    ("a named page above it", None, {"topOrigin": "https://attacker.example"}),
    ("another party", None, {"rp_id": "attacker.example"}),
    ("nobody verified", None, {"flags": 0x01}),
    ("nobody present", None, {"flags": 0x04}),
    ("a key of another kind", None, {"flags": 0x0D}),
    ("an enrolment", None, {"kind": "webauthn.create"}),
    ("another challenge", None, {"challenge": "AAAA"}),
    ("another key's signature", lambda key: setattr(key, "private", Authenticator().private), {}),
    ("an unknown key", lambda key: setattr(key, "credential_id", bytes(16)), {}),
]


@pytest.mark.parametrize(("change", "forged"), [one[1:] for one in FORGED], ids=[one[0] for one in FORGED])
def test_a_signature_that_is_not_over_this_by_this_key_on_this_page_approves_nothing(
    stack: Stack, world: World, key: Authenticator, change: Callable[[Authenticator], Any] | None, forged: dict[str, Any]
) -> None:  # fmt: skip
    intent = shirts(stack, world, 3)
    if change is not None:
        change(key)
    seen, proof = signed_by(stack, world, key, intent["intent_id"], **forged)
    with pytest.raises(ProofRefused):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], seen, proof=proof)
    nothing_approved(stack)


def test_a_signature_over_another_fingerprint_is_refused(stack: Stack, world: World, key: Authenticator) -> None:
    intent = shirts(stack, world, 3)
    right = lives.see(stack, world, intent["intent_id"])
    _, proof = signed_by(stack, world, key, intent["intent_id"], sees=replace(right, fingerprint=bytes(32)))
    with pytest.raises(ProofRefused):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], right, proof=proof)
    nothing_approved(stack)


def test_a_signature_for_another_refund_is_refused(stack: Stack, world: World, key: Authenticator) -> None:
    one = shirts(stack, world, 3)
    seen, proof = signed_by(stack, world, key, one["intent_id"])
    assert proof.challenge is not None
    other = replace(proof, challenge=replace(proof.challenge, intent_id=uuid7()))
    with pytest.raises(ProofRefused, match="another act"):
        lives.approve_as(stack, world, world.priya, one["intent_id"], seen, proof=other)


def test_a_nonce_is_spent_by_its_first_try_right_or_wrong(stack: Stack, world: World, key: Authenticator) -> None:
    intent = shirts(stack, world, 3)
    seen = lives.see(stack, world, intent["intent_id"])
    nonce, challenge = challenged(stack, world, world.priya, intent["intent_id"], seen.fingerprint)
    wrong = proof_of(stack, world, world.priya, intent["intent_id"], nonce, key.signs(bytes(32)))
    with pytest.raises(ProofRefused):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], seen, proof=wrong)
    with pytest.raises(ProofRefused, match="used before"):
        proof_of(stack, world, world.priya, intent["intent_id"], nonce, key.signs(challenge))
    nothing_approved(stack)


@pytest.mark.parametrize("change", ["session", "person", "late"])
def test_a_nonce_is_of_one_person_and_session_and_two_minutes(
    stack: Stack, world: World, key: Authenticator, change: str
) -> None:
    intent = shirts(stack, world, 3)
    seen = lives.see(stack, world, intent["intent_id"])
    nonce, challenge = challenged(stack, world, world.priya, intent["intent_id"], seen.fingerprint)
    by = world.tobias if change == "person" else world.priya
    if change == "session":
        as_administrator(stack, "UPDATE approval_challenges SET session_hash = sha256('another')")
    if change == "late":
        as_administrator(stack, "UPDATE approval_challenges SET made_at = made_at - interval '121 seconds'")
    with pytest.raises(ProofRefused, match="two minutes"):
        proof_of(stack, world, by, intent["intent_id"], nonce, key.signs(challenge))


def test_a_counter_that_goes_back_is_refused_after_the_signature_proved_right(
    stack: Stack, world: World, key: Authenticator
) -> None:
    intent = shirts(stack, world, 3)
    as_administrator(stack, "UPDATE passkeys SET counter = 7")
    seen, proof = signed_by(stack, world, key, intent["intent_id"])
    with pytest.raises(CounterWentBack):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], seen, proof=proof)
    key.private = Authenticator().private
    seen, proof = signed_by(stack, world, key, intent["intent_id"])
    with pytest.raises(ProofRefused) as forged:
        lives.approve_as(stack, world, world.priya, intent["intent_id"], seen, proof=proof)
    assert not isinstance(forged.value, CounterWentBack)
    nothing_approved(stack)


def test_a_synced_key_that_counts_nothing_approves(stack: Stack, world: World, key: Authenticator) -> None:
    intent = shirts(stack, world, 3)
    seen, proof = signed_by(stack, world, key, intent["intent_id"], step=0)
    assert lives.approve_as(stack, world, world.priya, intent["intent_id"], seen, proof=proof).state == "approved"
    assert len(lives.claim(stack, world)) == 1


def test_a_key_added_today_approves_nothing(stack: Stack, world: World) -> None:
    fresh, intent = enrolled(stack, world.priya, days=0), shirts(stack, world, 3)
    seen, proof = signed_by(stack, world, fresh, intent["intent_id"])
    with pytest.raises(ProofRefused, match="less than a day"):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], seen, proof=proof)


# Any one input of what a passkey signed, changed by somebody who can write the database.
TAMPERED: list[tuple[str, LiteralString]] = [
    ("signature", "UPDATE approval_assertions SET signature = signature || '\\x00'"),
    ("client data", "UPDATE approval_assertions SET client_data = client_data || ' '"),
    ("authenticator data", "UPDATE approval_assertions SET authenticator_data = set_byte(authenticator_data, 36, 9)"),
    ("nonce", "UPDATE approval_assertions SET nonce = sha256('mine')"),
    ("act", "UPDATE approval_assertions SET act = 'approve:2'"),
    ("counter", "UPDATE approval_assertions SET counter_after = 2"),
    ("counter before", "UPDATE approval_assertions SET counter_before = 1, counter_after = 2"),
    ("person", "UPDATE approval_assertions SET staff_id = (SELECT staff_id FROM staff WHERE name = 'Tobias Renk')"),
    ("gone", "DELETE FROM approval_assertions"),
    ("key", "UPDATE passkeys SET public_key = set_byte(public_key, 20, get_byte(public_key, 20) # 1)"),
    ("key's person", "UPDATE passkeys SET staff_id = (SELECT staff_id FROM staff WHERE name = 'Tobias Renk')"),
    ("key's age", "UPDATE passkeys SET enrolled_at = enrolled_at - interval '1 day'"),
    ("key's seal", "UPDATE passkeys SET seal = decode(repeat('00', 64), 'hex')"),
]


@pytest.mark.parametrize("statement", [one[1] for one in TAMPERED], ids=[one[0] for one in TAMPERED])
def test_what_was_signed_and_changed_since_is_not_sent(
    stack: Stack, world: World, key: Authenticator, statement: LiteralString
) -> None:
    intent_id = approved(stack, world, key)
    as_administrator(stack, statement)
    assert lives.claim(stack, world) == []
    row = as_administrator(stack, "SELECT state, state_reason FROM intents WHERE intent_id = %s", intent_id)[0]
    assert (row["state"], row["state_reason"]) == ("held", "proof")
    assert [alarm["kind"] for alarm in as_administrator(stack, "SELECT kind FROM alarms")] == ["not_sent_proof"]


def test_without_the_verification_what_was_changed_would_be_sent(
    stack: Stack, world: World, key: Authenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    approved(stack, world, key)
    as_administrator(stack, "DELETE FROM approval_assertions")
    monkeypatch.setattr("ledger.strength._still_signed", lambda *_: True)
    assert len(lives.claim(stack, world)) == 1


def test_a_revoked_key_is_not_sent_for(stack: Stack, world: World, key: Authenticator) -> None:
    approved(stack, world, key)
    with transaction(stack.console) as db:
        end_key(db, world.priya.staff_id, key.credential_id, "removed")
    assert lives.claim(stack, world) == []
    assert as_administrator(stack, "SELECT state_reason FROM intents")[0]["state_reason"] == "proof"


def test_a_policy_that_asks_for_more_today_holds_what_was_approved_with_less(stack: Stack, world: World) -> None:
    """S30: the strength is worked out again before each send."""
    intent = shirts(stack, world, 1)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    as_administrator(
        stack, "UPDATE policies SET document = jsonb_set(document, '{routes,factor_from_minor,GBP}', '1000')"
    )
    assert lives.claim(stack, world) == []
    assert as_administrator(stack, "SELECT state_reason FROM intents")[0]["state_reason"] == "strength"


def test_the_database_takes_no_weaker_approval_than_the_amount_takes(stack: Stack, world: World) -> None:
    intent = shirts(stack, world, 3)
    lied = lives.see(stack, world, intent["intent_id"])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ledger.strength.reaches", lambda *_: True)
        patched.setattr("ledger.approvals.show", _as("session"))
        with pytest.raises(IntegrityError, match="stronger approval"):
            lives.approve_as(stack, world, world.priya, intent["intent_id"], lied)
        patched.setattr("ledger.approvals.show", _as("passkey"))
        with pytest.raises(IntegrityError, match="shows what it was made with"):
            lives.approve_as(stack, world, world.priya, intent["intent_id"], lied)
    nothing_approved(stack)


def test_without_the_guard_the_database_would_take_a_session_for_a_passkey(stack: Stack, world: World) -> None:
    without(stack, "ALTER TABLE approvals DISABLE TRIGGER of_what_stands")
    intent = shirts(stack, world, 3)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("ledger.approvals.show", _as("session"))
        assert lives.approve_as(stack, world, world.priya, intent["intent_id"]).state == "approved"
    assert lives.claim(stack, world) == []  # the worker works it out anew
    assert as_administrator(stack, "SELECT state_reason FROM intents")[0]["state_reason"] == "strength"


def _as(strength: str) -> Callable[..., Any]:
    from ledger.strength import Shown

    return lambda _db, _intent, staff_id, *_: Shown(strength, staff_id)


def test_a_nonce_is_signed_for_once_by_a_constraint(stack: Stack, world: World, key: Authenticator) -> None:
    approved(stack, world, key)
    with pytest.raises(IntegrityError, match="signed_once"), transaction(stack.owner, world.merchant_id) as db:
        run(
            db, "INSERT INTO approval_assertions SELECT merchant_id, :a, nonce, staff_id, credential_id, act, earlier, client_data,"
            " authenticator_data, signature, counter_before, counter_after FROM approval_assertions", a=uuid7(),
        )  # fmt: skip


def test_what_ended_or_was_spent_stays_so(stack: Stack, world: World, key: Authenticator) -> None:
    approved(stack, world, key)
    with transaction(stack.console) as db:
        end_key(db, world.priya.staff_id, key.credential_id, "removed")
    shows(stack, world)
    with transaction(stack.owner, world.merchant_id) as db:
        run(db, "UPDATE factor_acts SET spent_at = now()")
    for statement in (
        "UPDATE passkeys SET ended_at = NULL", "UPDATE factor_acts SET spent_at = NULL",
        "UPDATE approval_challenges SET spent_at = NULL", "UPDATE key_ceremonies SET spent_at = NULL",
    ):  # fmt: skip
        with pytest.raises((IntegrityError, LedgerError)), transaction(stack.owner, world.merchant_id) as db:
            run(db, statement)
