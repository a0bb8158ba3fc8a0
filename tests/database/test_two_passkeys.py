"""What two managers decide takes a passkey of each, where the policy asks for keys: the second signs the first's approval (S33)."""

from dataclasses import replace
from typing import LiteralString
from uuid import UUID

import pytest

from ledger.approvals import Decision
from ledger.errors import WrongState
from ledger.passkey_proof import ProofRefused
from ledger.strength import Proof, TooWeak
from tests import lives
from tests.allowances import generous_policy, give, intent_of
from tests.authenticator import Authenticator, challenged, enrolled, proof_of
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import Person, World, build_world


@pytest.fixture
def world(stack: Stack) -> World:
    """30.00 of goodwill takes two managers; the amount for passkeys is far above it."""
    policy = generous_policy()
    return build_world(stack, policy=policy | {"routes": policy["routes"] | {"passkey_from_minor": {"GBP": 10**9}}})


@pytest.fixture
def intent_id(stack: Stack, world: World) -> UUID:
    found: UUID = intent_of(stack, world, give(stack, world, world.order, "goodwill", "LAMP", 30_00, reason="service"))[
        "intent_id"
    ]
    return found


def signs(stack: Stack, world: World, person: Person, key: Authenticator, intent_id: UUID) -> Proof:
    seen = lives.see(stack, world, intent_id)
    nonce, challenge = challenged(stack, world, person, intent_id, seen.fingerprint)
    return proof_of(stack, world, person, intent_id, nonce, key.signs(challenge))


def approves(stack: Stack, world: World, person: Person, key: Authenticator, intent_id: UUID) -> Decision:
    return lives.approve_as(stack, world, person, intent_id, proof=signs(stack, world, person, key, intent_id))


def both(stack: Stack, world: World, intent_id: UUID) -> tuple[Authenticator, Authenticator]:
    keys = enrolled(stack, world.jonas), enrolled(stack, world.mara)
    assert approves(stack, world, world.jonas, keys[0], intent_id).state == "proposed"
    assert approves(stack, world, world.mara, keys[1], intent_id).state == "approved"
    return keys


def test_each_of_two_managers_signs_and_it_is_sent(stack: Stack, world: World, intent_id: UUID) -> None:
    both(stack, world, intent_id)
    acts = as_administrator(stack, "SELECT act, length(earlier) AS n FROM approval_assertions ORDER BY act")
    assert acts == [{"act": "approve:1", "n": 0}, {"act": "approve:2", "n": 32}]
    assert [one.intent_id for one in lives.claim(stack, world)] == [intent_id]


def test_neither_of_the_two_does_with_a_session(stack: Stack, world: World, intent_id: UUID) -> None:
    with pytest.raises(TooWeak):
        lives.approve_as(stack, world, world.jonas, intent_id)
    approves(stack, world, world.jonas, enrolled(stack, world.jonas), intent_id)
    with pytest.raises(TooWeak):
        lives.approve_as(stack, world, world.mara, intent_id)


def test_what_was_signed_as_a_first_does_not_serve_as_a_second(stack: Stack, world: World, intent_id: UUID) -> None:
    key = enrolled(stack, world.mara)
    early = signs(stack, world, world.mara, key, intent_id)
    approves(stack, world, world.jonas, enrolled(stack, world.jonas), intent_id)
    with pytest.raises(ProofRefused, match="another act"):
        lives.approve_as(stack, world, world.mara, intent_id, proof=early)


def test_a_second_that_signed_another_first_is_refused(stack: Stack, world: World, intent_id: UUID) -> None:
    approves(stack, world, world.jonas, enrolled(stack, world.jonas), intent_id)
    proof = signs(stack, world, world.mara, enrolled(stack, world.mara), intent_id)
    assert proof.challenge is not None
    other = replace(proof, challenge=replace(proof.challenge, earlier=bytes(32)))
    with pytest.raises(ProofRefused):
        lives.approve_as(stack, world, world.mara, intent_id, proof=other)


TAMPERED: list[tuple[str, LiteralString, str]] = [
    ("first signature", "DELETE FROM approval_assertions WHERE act = 'approve:1'", "proof"),
    ("second signature", "DELETE FROM approval_assertions WHERE act = 'approve:2'", "proof"),
    ("first approval", "UPDATE approvals SET seal = set_byte(seal, 3, 0) WHERE seat = 1", "seal"),
    (
        "the two swapped",
        "UPDATE approval_assertions SET act = CASE act WHEN 'approve:1' THEN 'approve:2' ELSE 'approve:1' END",
        "proof",
    ),
    ("earlier", "UPDATE approval_assertions SET earlier = sha256('mine') WHERE act = 'approve:2'", "proof"),
]


@pytest.mark.parametrize(("statement", "reason"), [one[1:] for one in TAMPERED], ids=[one[0] for one in TAMPERED])
def test_one_of_the_two_changed_and_it_is_not_sent(
    stack: Stack, world: World, intent_id: UUID, statement: LiteralString, reason: str
) -> None:
    both(stack, world, intent_id)
    as_administrator(stack, statement)
    assert lives.claim(stack, world) == []
    assert as_administrator(stack, "SELECT state_reason FROM intents")[0]["state_reason"] == reason


def test_a_first_whose_key_is_over_is_not_seconded(stack: Stack, world: World, intent_id: UUID) -> None:
    approves(stack, world, world.jonas, enrolled(stack, world.jonas), intent_id)
    as_administrator(stack, "UPDATE passkeys SET ended_at = now(), ended_because = 'reset'")
    with pytest.raises(WrongState, match="no longer counts"):
        approves(stack, world, world.mara, enrolled(stack, world.mara), intent_id)
