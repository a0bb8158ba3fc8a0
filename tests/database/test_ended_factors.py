"""A key or app that ended takes along what it had shown: acts not spent, and approvals not sent (S7, S15, S36)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import RowMapping
from sqlalchemy.exc import IntegrityError

from ledger import approvals, fingerprint
from ledger.database import transaction
from ledger.errors import WrongState
from ledger.factors import NotShown, end_app, note_shown, spend
from ledger.passkey_proof import Party
from ledger.passkeys import end_key
from ledger.revocation import revoke_proofs
from ledger.strength import Proof, TooWeak
from tests import lives
from tests.allowances import generous_policy, give, intent_of
from tests.authenticator import Authenticator, a_session, an_app, challenged, enrolled, proof_of
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.world import Person, World, build_world, usual_policy

# One shirt is 24.90, two are 49.80, three 74.70.
ROUTES = {"manager_from_minor": {"GBP": 25000}, "factor_from_minor": {"GBP": 4000}, "passkey_from_minor": {"GBP": 7000}}


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=usual_policy("harbour-usual") | {"routes": ROUTES})


def shows_code(stack: Stack, person: Person) -> tuple[Proof, Callable[[Any], object]]:
    """What the person's app showed, and how that app ends."""
    session, app = a_session(stack, person), an_app(stack, person)
    with transaction(stack.console) as db:
        note_shown(db, person.staff_id, session, "totp", signs_money=True, factor_id=app)
    return Proof(session, Party.of(lives.ORIGIN)), lambda db: end_app(db, person.staff_id)


def shows_key(stack: Stack, person: Person) -> tuple[Proof, Callable[[Any], object]]:
    """What the person's passkey showed by a step-up, and how that key ends."""
    session, key = a_session(stack, person), enrolled(stack, person)
    with transaction(stack.console) as db:
        note_shown(db, person.staff_id, session, "passkey", signs_money=True, credential_id=key.credential_id)
    return Proof(session, Party.of(lives.ORIGIN)), lambda db: end_key(db, person.staff_id, key.credential_id, "removed")


BY = pytest.mark.parametrize("shows", [shows_code, shows_key], ids=["the app", "the key"])


def approved(stack: Stack, world: World, proof: Proof) -> UUID:
    intent = lives.propose(stack, world, (("TEE", 2),))
    assert lives.approve_as(stack, world, world.priya, intent["intent_id"], proof=proof).state == "approved"
    intent_id: UUID = intent["intent_id"]
    return intent_id


def ended(stack: Stack, ends: Callable[[Any], object]) -> None:
    with transaction(stack.console) as db:
        ends(db)


def state(stack: Stack) -> tuple[str, str]:
    row = as_administrator(stack, "SELECT state, state_reason FROM intents")[0]
    return row["state"], row["state_reason"]


@BY
def test_what_ended_pays_for_nothing_any_more(stack: Stack, world: World, shows: Any) -> None:
    """Neither for a refund nor for a change of factors, such as a key of whoever found the phone."""
    intent = lives.propose(stack, world, (("TEE", 2),))
    proof, ends = shows(stack, world.priya)
    ended(stack, ends)
    with pytest.raises(TooWeak):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], proof=proof)
    with transaction(stack.console) as db, pytest.raises(NotShown):
        spend(db, world.priya.staff_id, proof.session_hash)


@BY
def test_what_it_paid_for_and_was_not_sent_is_held_in_the_same_transaction(
    stack: Stack, world: World, shows: Any
) -> None:
    proof, ends = shows(stack, world.priya)
    approved(stack, world, proof)
    with transaction(stack.console) as db:
        ends(db)
        assert revoke_proofs(db, world.priya.staff_id, world.priya.actor) == 1
    assert state(stack) == ("held", "proof")


@BY
def test_what_was_approved_with_something_else_goes_on(stack: Stack, world: World, shows: Any) -> None:
    proof, _ = shows(stack, world.priya)
    intent_id = approved(stack, world, proof)
    other = enrolled(stack, world.priya)
    with transaction(stack.console) as db:
        end_key(db, world.priya.staff_id, other.credential_id, "removed")
        assert revoke_proofs(db, world.priya.staff_id, world.priya.actor) == 0
    assert [one.intent_id for one in lives.claim(stack, world)] == [intent_id]


@BY
def test_the_worker_finds_it_by_itself_before_it_sends(stack: Stack, world: World, shows: Any) -> None:
    proof, ends = shows(stack, world.priya)
    approved(stack, world, proof)
    ended(stack, ends)
    assert lives.claim(stack, world) == []
    assert state(stack) == ("held", "proof")


def test_the_database_refuses_an_approval_by_what_ended_and_without_the_guard_takes_it(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that forgets to look: the act of an app that ended is spent on an approval all the same."""
    proof, ends = shows_code(stack, world.priya)
    intent = lives.propose(stack, world, (("TEE", 2),))
    ended(stack, ends)
    monkeypatch.setattr("ledger.factors._FRESH", "SELECT * FROM factor_acts WHERE staff_id = :s AND session_hash = :h")
    with pytest.raises(IntegrityError, match="shows what it was made with"):
        lives.approve_as(stack, world, world.priya, intent["intent_id"], proof=proof)
    without(stack, "ALTER TABLE approvals DISABLE TRIGGER of_what_stands")
    lives.approve_as(stack, world, world.priya, intent["intent_id"], proof=proof)
    assert lives.claim(stack, world) == []


def test_an_act_names_what_it_was_shown_with(stack: Stack, world: World) -> None:
    session = a_session(stack, world.priya)
    for kind in ("totp", "passkey"):
        with pytest.raises(IntegrityError, match="shown_with_what"), transaction(stack.console) as db:
            note_shown(db, world.priya.staff_id, session, kind, signs_money=True)


@BY
def test_a_first_of_two_managers_counts_no_more_once_it_ended(stack: Stack, shows: Any) -> None:
    policy = generous_policy()
    world = build_world(stack, policy=policy | {"routes": policy["routes"] | {"factor_from_minor": {"GBP": 1}}})
    intent = intent_of(stack, world, give(stack, world, world.order, "goodwill", "LAMP", 30_00, reason="service"))
    first, ends = shows(stack, world.jonas)
    assert lives.approve_as(stack, world, world.jonas, intent["intent_id"], proof=first).state == "proposed"
    ended(stack, ends)
    second, _ = shows_code(stack, world.mara)
    with pytest.raises(WrongState, match="no longer counts"):
        lives.approve_as(stack, world, world.mara, intent["intent_id"], proof=second)


def signed(stack: Stack, world: World, key: Authenticator) -> RowMapping:
    """Three shirts, approved by Priya's passkey."""
    intent = lives.propose(stack, world, (("TEE", 3),))
    seen = lives.see(stack, world, intent["intent_id"])
    nonce, challenge = challenged(stack, world, world.priya, intent["intent_id"], seen.fingerprint)
    proof = proof_of(stack, world, world.priya, intent["intent_id"], nonce, key.signs(challenge))
    lives.approve_as(stack, world, world.priya, intent["intent_id"], seen, proof=proof)
    return intent


def life(stack: Stack) -> timedelta:
    found: timedelta = as_administrator(stack, "SELECT expires_at - approved_at AS life FROM approvals")[0]["life"]
    return found


def test_what_a_passkey_approved_is_good_for_four_hours(stack: Stack, world: World) -> None:
    signed(stack, world, enrolled(stack, world.priya))
    assert life(stack) == timedelta(hours=4)


def test_a_code_s_approval_is_good_for_a_day(stack: Stack, world: World) -> None:
    approved(stack, world, shows_code(stack, world.priya)[0])
    assert life(stack) == timedelta(hours=24)


@pytest.mark.parametrize(("hours", "sent"), [(3, 1), (4, 0)])
def test_after_four_hours_what_a_passkey_approved_is_not_sent(
    stack: Stack, world: World, hours: int, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the database's clock at the send; the clock is moved by reading it later."""
    signed(stack, world, enrolled(stack, world.priya))
    later = fingerprint._LOCK_INTENTS.replace("now() AS at", f"now() + interval '{hours} hours' AS at")
    monkeypatch.setattr(fingerprint, "_LOCK_INTENTS", later)
    assert len(lives.claim(stack, world)) == sent


def test_the_database_takes_no_approval_that_is_good_for_longer(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(approvals.APPROVAL_HOURS, "passkey", 5)
    with pytest.raises(IntegrityError, match="good for too long"):
        signed(stack, world, enrolled(stack, world.priya))
    assert as_administrator(stack, "SELECT * FROM approvals") == []
