"""An amount other than computed: an exception with a reason and a second person, the computed figure beside it for ever."""

from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import RowMapping
from sqlalchemy.exc import IntegrityError

from ledger.database import first, transaction
from ledger.entitlement_audit import prove
from ledger.entitlement_check import check
from ledger.entitlement_store import read_record
from ledger.errors import BadInput, NotAllowed, SamePerson, Stale, WrongState
from ledger.overrides import REASONS, Ask, ask_override, take_back
from tests import lives
from tests.allowances import generous_policy, record_of
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.web.desk import pay
from tests.world import World, build_world


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=generous_policy())


def returned(stack: Stack, world: World, grade: str = "C") -> UUID:
    """The lamp for 58.00 is back, used: 30 % off, so 40.60."""
    made = lives.open_case(stack, world, (("LAMP", 1),))
    lives.arrive(stack, world, made.case_id, ("LAMP", 1), grade=grade)
    return made.case_id


def override(stack: Stack, world: World, case_id: UUID, minor: int, **changes: Any) -> UUID:
    """Priya asks for another amount than the 40.60."""
    usual = {
        "computed_minor": 40_60,
        "reason": "promise_kept",
        "note": "the shop promised half",
        "actor": world.priya.actor,
    }
    with transaction(stack.console, world.merchant_id) as db:
        return ask_override(db, world.merchant_id, case_id, Ask(minor, **{**usual, **changes}))


def live(stack: Stack, world: World, case_id: UUID) -> RowMapping:
    (row,) = [one for one in lives.intents(stack, world, case_id) if one["state"] != "withdrawn"]
    return row


@pytest.mark.parametrize("minor", [50_00, 58_00, 29_00, 1])
def test_another_amount_is_proposed_with_the_computed_one_beside_it_and_a_manager_approves(
    stack: Stack, world: World, minor: int
) -> None:
    case_id = returned(stack, world)
    before = live(stack, world, case_id)
    assert (before["amount_minor"], before["route"], before["computed_minor"]) == (40_60, "desk", None)
    asked = override(stack, world, case_id, minor)
    intent, record = live(stack, world, case_id), record_of(stack, world, case_id)
    assert (intent["amount_minor"], intent["computed_minor"], intent["override_id"]) == (minor, 40_60, asked)
    assert (intent["route"], intent["requester"]) == ("manager", world.priya.actor)
    assert record["override"]["computed_minor"] == 40_60
    assert (record["total"], check(record)) == (minor, [])
    assert lives.state(stack, world, before["intent_id"]) == "withdrawn"
    with pytest.raises(NotAllowed):
        lives.approve_as(stack, world, world.tobias, intent["intent_id"])
    pay(stack, world, intent["intent_id"], by=world.jonas)
    kept = as_administrator(stack, "SELECT minor, computed_minor, reason FROM overrides")
    assert kept == [{"minor": minor, "computed_minor": 40_60, "reason": "promise_kept"}]


def test_who_asks_for_another_amount_never_approves_it_manager_or_not(stack: Stack, world: World) -> None:
    case_id = returned(stack, world)
    override(stack, world, case_id, 50_00, actor=world.jonas.actor)
    intent = live(stack, world, case_id)
    with pytest.raises(SamePerson):
        lives.approve_as(stack, world, world.jonas, intent["intent_id"])
    lives.approve_as(stack, world, world.mara, intent["intent_id"])


def test_no_policy_leaves_another_amount_to_the_desk(stack: Stack) -> None:
    usual = generous_policy()
    always = {"routes": {**usual["routes"], "always": {"override.within": "staff"}}}
    world = build_world(stack, policy=usual | always)
    case_id = returned(stack, world)
    override(stack, world, case_id, 50_00)
    assert live(stack, world, case_id)["route"] == "manager"


def test_a_sheet_that_was_open_before_approves_nothing(stack: Stack, world: World) -> None:
    case_id = returned(stack, world)
    intent = live(stack, world, case_id)
    seen = lives.see(stack, world, intent["intent_id"])
    override(stack, world, case_id, 50_00)
    with pytest.raises(Stale):
        lives.approve_as(stack, world, world.jonas, intent["intent_id"], seen)


@pytest.mark.parametrize(
    ("minor", "changes", "says"),
    [
        (0, {}, "amount: an amount is more than 0"),
        (-1, {}, "amount: an amount is more than 0"),
        (40_60, {}, "amount: this is the amount that is computed"),
        (58_01, {}, "amount: at most 58.00 GBP was paid for these units: the rest is goodwill"),
        (50_00, {"reason": "because"}, f"reason: choose one of {', '.join(REASONS)}"),
        (50_00, {"note": " "}, "note: say why in 1 to 500 characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_refused_by_its_field_and_nothing_is_stored(
    stack: Stack, world: World, minor: int, changes: dict[str, Any], says: str
) -> None:
    case_id = returned(stack, world)
    with pytest.raises(BadInput) as refused:
        override(stack, world, case_id, minor, **changes)
    assert refused.value.sentence == says
    assert lives.count(stack.console, world, "SELECT count(*) FROM overrides") == 0
    assert live(stack, world, case_id)["amount_minor"] == 40_60


def test_another_amount_beside_a_figure_that_is_not_computed_any_more_is_refused(stack: Stack, world: World) -> None:
    with pytest.raises(Stale):
        override(stack, world, returned(stack, world), 50_00, computed_minor=41_00)


def test_new_evidence_ends_it_and_the_newly_computed_amount_counts(stack: Stack, world: World) -> None:
    made = lives.open_case(stack, world, (("TEE", 2),))
    lives.arrive(stack, world, made.case_id, ("TEE", 1))
    override(stack, world, made.case_id, 20_00, computed_minor=24_90)
    lives.arrive(stack, world, made.case_id, ("TEE", 1))
    intent, record = live(stack, world, made.case_id), record_of(stack, world, made.case_id)
    assert (intent["amount_minor"], intent["route"], intent["override_id"]) == (49_80, "desk", None)
    assert [rule["reason_code"] for rule in record["rules"] if rule["id"] == "override.within"] == [
        "computed_changed_since"
    ]


def test_it_can_be_taken_back_until_money_left(stack: Stack, world: World) -> None:
    case_id = returned(stack, world)
    override(stack, world, case_id, 50_00)
    for _ in range(2):
        with transaction(stack.console, world.merchant_id) as db:
            take_back(db, world.merchant_id, case_id, world.priya.actor)
    intent = live(stack, world, case_id)
    assert (intent["amount_minor"], intent["override_id"]) == (40_60, None)
    lives.approve_as(stack, world, world.tobias, intent["intent_id"])
    lives.claim(stack, world)
    with pytest.raises(WrongState):
        override(stack, world, case_id, 50_00)


def test_what_is_less_keeps_the_rest_of_the_unit_and_a_later_return_of_others_pays_whole(
    stack: Stack, world: World
) -> None:
    made = lives.open_case(stack, world, (("TEE", 1),))
    lives.arrive(stack, world, made.case_id, ("TEE", 1))
    override(stack, world, made.case_id, 20_00, computed_minor=24_90)
    pay(stack, world, live(stack, world, made.case_id)["intent_id"], by=world.jonas)
    other = lives.open_case(stack, world, (("TEE", 2),), relation="separate", reference="chat-2")
    lives.arrive(stack, world, other.case_id, ("TEE", 2))
    assert live(stack, world, other.case_id)["amount_minor"] == 49_80


def test_it_is_derived_again_from_what_was_stored(stack: Stack, world: World) -> None:
    case_id = returned(stack, world)
    override(stack, world, case_id, 50_00)
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        stored = read_record(db, world.merchant_id, case_id)
    assert stored is not None
    assert prove(stored) == []


def test_the_database_keeps_the_computed_figure_in_the_intent_and_without_the_guard_it_could_say_another(
    stack: Stack, world: World
) -> None:
    case_id = returned(stack, world)
    override(stack, world, case_id, 50_00)
    intent = live(stack, world, case_id)
    with pytest.raises(IntegrityError, match="what was computed beside"):
        propose_again(stack, world, intent, 50_00)
    without(stack, "DROP TRIGGER override_exact ON intents", "DROP INDEX one_live_intent_per_case_and_capture",
            "DROP TRIGGER paid_within_entitlement ON intents")  # fmt: skip
    propose_again(stack, world, intent, 50_00)


def propose_again(stack: Stack, world: World, intent: RowMapping, computed: int) -> None:
    """A build that says the asked amount was the computed one."""
    columns = [name for name in intent if name not in ("intent_id", "number", "provider_key", "computed_minor")]
    listed = ", ".join(columns)
    with transaction(stack.console, world.merchant_id) as db:
        first(
            db, f"INSERT INTO intents (intent_id, provider_key, computed_minor, {listed}) SELECT gen_random_uuid(),"  # noqa: S608
            f" 'another-key-of-twenty', :computed, {listed} FROM intents WHERE merchant_id = :m AND intent_id = :i RETURNING 1",
            m=world.merchant_id, i=intent["intent_id"], computed=computed,
        )  # fmt: skip
