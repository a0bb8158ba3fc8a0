"""Lost keys: one admin asks for a reset, a second one decides, nobody gets a key by it, and what waited is held (S8, S36)."""

from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.approvals import Seen
from ledger.database import run, scalar, transaction
from ledger.errors import BadInput, SamePerson, WrongState
from ledger.factor_resets import answer_reset, ask_reset
from ledger.ids import uuid7
from tests import lives
from tests.authenticator import challenged, enrolled, proof_of
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.web.desk import Desk
from tests.world import World, build_world, usual_policy

ROUTES = {"manager_from_minor": {"GBP": 25000}, "passkey_from_minor": {"GBP": 4000}}


@pytest.fixture
def world(stack: Stack) -> World:
    """Jonas keeps people too."""
    made = build_world(stack, policy=usual_policy("harbour-usual") | {"routes": ROUTES})
    as_administrator(stack, "UPDATE memberships SET role = 'admin' WHERE staff_id = %s", made.jonas.staff_id)
    return made


def approved(stack: Stack, world: World) -> UUID:
    """Priya's passkey signed a refund that is not sent yet."""
    key = enrolled(stack, world.priya)
    intent_id: UUID = lives.propose(stack, world)["intent_id"]
    seen: Seen = lives.see(stack, world, intent_id)
    nonce, challenge = challenged(stack, world, world.priya, intent_id, seen.fingerprint)
    proof = proof_of(stack, world, world.priya, intent_id, nonce, key.signs(challenge))
    lives.approve_as(stack, world, world.priya, intent_id, seen, proof=proof)
    return intent_id


def asked(stack: Stack, world: World, *, hours: int = 1, by: UUID | None = None) -> UUID:
    reset_id = uuid7()
    with transaction(stack.console, world.merchant_id) as db:
        since = scalar(db, "SELECT now()") - timedelta(hours=hours)
        ask_reset(
            db, world.merchant_id, reset_id, world.priya.staff_id, by or world.ada.staff_id, "her bag was stolen", since
        )
    return reset_id


def answered(stack: Stack, world: World, reset_id: UUID, by: UUID, *, granted: bool = True) -> tuple[UUID, int] | None:
    with transaction(stack.console, world.merchant_id) as db:
        return answer_reset(db, world.merchant_id, reset_id, by, granted=granted)


def test_two_admins_reset_a_person_and_what_waits_is_held(desk: Desk) -> None:
    intent_id = approved(desk.stack, desk.world)
    priya = desk.at(desk.world.priya)
    ada, jonas = desk.at(desk.world.ada), desk.at(desk.world.jonas)
    page = ada.get(desk.url(f"/people/factors/{desk.world.priya.staff_id}"))
    form = page.form("/people/factors/")
    hour_ago = as_administrator(
        desk.stack, "SELECT to_char(now() AT TIME ZONE 'Europe/London' - interval '1 hour', 'YYYY-MM-DD\"T\"HH24:MI') AS t"
    )[0]["t"]  # fmt: skip
    page = ada.submit(form, reason="her bag was stolen, she came by", lost_since=hour_ago)
    assert "A second admin decides" in page.text
    assert not [one for one in page.forms if one.action.endswith("/grant")]
    assert desk.state(intent_id) == "approved"

    page = jonas.get(desk.url("/people/factors"))
    page = jonas.submit(page.form("/grant"))
    assert "1 refund held" in page.text
    assert "Reset by Jonas Okonjo" in page.text
    row = as_administrator(desk.stack, "SELECT state, state_reason FROM intents WHERE intent_id = %s", intent_id)[0]
    assert (row["state"], row["state_reason"]) == ("held", "proof")
    assert as_administrator(desk.stack, "SELECT ended_because FROM passkeys") == [{"ended_because": "reset"}]
    assert priya.ask("GET", desk.url("/factors")).status_code == 303


def test_what_the_key_approved_before_it_was_lost_is_held_too_for_it_is_over(stack: Stack, world: World) -> None:
    intent_id = approved(stack, world)
    as_administrator(stack, "UPDATE approvals SET approved_at = approved_at - interval '2 hours'")
    assert answered(stack, world, asked(stack, world), world.jonas.staff_id) == (world.priya.staff_id, 1)
    assert lives.state(stack, world, intent_id) == "held"


def test_what_was_approved_before_the_loss_goes_on_if_a_session_did_it(stack: Stack, world: World) -> None:
    intent_id = lives.propose(stack, world, (("TEE", 1),))["intent_id"]
    lives.approve_as(stack, world, world.priya, intent_id)
    reset_id = asked(stack, world, hours=0)
    assert answered(stack, world, reset_id, world.jonas.staff_id) == (world.priya.staff_id, 0)
    assert [one.intent_id for one in lives.claim(stack, world)] == [intent_id]


@pytest.mark.parametrize("who", ["ada", "priya"])
def test_neither_who_asked_nor_the_person_decides(stack: Stack, world: World, who: str) -> None:
    approved(stack, world)
    reset_id = asked(stack, world)
    with pytest.raises(SamePerson):
        answered(stack, world, reset_id, getattr(world, who).staff_id)
    with pytest.raises(IntegrityError, match="two_others_reset"), transaction(stack.owner, world.merchant_id) as db:
        run(
            db,
            "UPDATE factor_resets SET decided_by = :s, decided_at = now(), granted = true",
            s=getattr(world, who).staff_id,
        )
    assert as_administrator(stack, "SELECT ended_at FROM passkeys") == [{"ended_at": None}]


def test_without_the_constraint_one_admin_would_decide_alone(stack: Stack, world: World) -> None:
    without(stack, "ALTER TABLE factor_resets DROP CONSTRAINT two_others_reset")
    asked(stack, world)
    with transaction(stack.owner, world.merchant_id) as db:
        changed = run(
            db, "UPDATE factor_resets SET decided_by = :s, decided_at = now(), granted = true", s=world.ada.staff_id
        )  # fmt: skip
    assert changed == 1


def test_nobody_asks_for_their_own_and_not_twice_nor_for_the_future(stack: Stack, world: World) -> None:
    with pytest.raises(SamePerson):
        asked(stack, world, by=world.priya.staff_id)
    with pytest.raises(BadInput, match="time that is past"):
        asked(stack, world, hours=-1)
    asked(stack, world)
    with pytest.raises(WrongState, match="waits already"):
        asked(stack, world)


def test_a_refused_reset_changes_nothing_and_is_decided_once(stack: Stack, world: World) -> None:
    intent_id = approved(stack, world)
    reset_id = asked(stack, world)
    assert answered(stack, world, reset_id, world.jonas.staff_id, granted=False) == (world.priya.staff_id, 0)
    assert answered(stack, world, reset_id, world.jonas.staff_id) is None
    assert [one.intent_id for one in lives.claim(stack, world)] == [intent_id]


def test_a_manager_does_not_reset(desk: Desk) -> None:
    assert desk.at(desk.world.mara).ask("GET", desk.url("/people/factors")).status_code == 403


def test_an_ask_without_a_reason_or_for_the_future_names_the_field(desk: Desk) -> None:
    ada = desk.at(desk.world.ada)
    address = desk.url(f"/people/factors/{desk.world.priya.staff_id}")
    page = ada.submit(ada.get(address).form("/people/factors/"), status=422, reason="", lost_since="2026-01-01T10:00")
    assert "Say what was lost." in page.text
    page = ada.submit(
        ada.get(address).form("/people/factors/"), status=422, reason="phone", lost_since="2999-01-01T10:00"
    )
    assert "not more than 90 days ago" in page.text
    assert desk.count("factor_resets") == 0
