"""A return of goods of two categories, each under its own policy: what decides it, what it keeps, and who may approve it."""

from typing import Any

import pytest

from ledger.approvals import Decision
from ledger.assessment import work_out_again
from ledger.automatic import Left
from ledger.database import transaction
from ledger.entitlement_audit import prove
from ledger.entitlement_store import read_record
from ledger.errors import NotAllowed
from ledger.limits import read_sum
from ledger.queries.case import read_entitlement, read_intents
from ledger.queries.decision import read_decision
from tests import lives
from tests.automatic import by_policy, generous
from tests.orders import Order
from tests.policies import categorised, decided, in_force, undecided
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.world import World, add_order

LAMPS: dict[str, Any] = {
    "policy_id": "lamps",
    "select": {"categories": ["lamps"]},
    "grade_bps": {"C": 6000, "D": 10000},
}
LINES = (("TEE", 1), ("LAMP", 1))


def mixed(stack: Stack, world: World, ref: str = "A-8", **changes: Any) -> Order:
    """T-shirts under the usual policy and a lamp under that of lamps, both in force at the sale."""
    in_force(stack, world, LAMPS | changes)
    as_administrator(stack, "UPDATE policies SET effective = tstzrange('2026-01-01', upper(effective))")
    return sold(stack, world, ref)


def sold(stack: Stack, world: World, ref: str) -> Order:
    return categorised(stack, world, ref, {"TEE": "apparel", "LAMP": "lamps"})


def worn(stack: Stack, world: World, order: Order, grade: str = "C") -> Any:
    """Both came back."""
    opened = lives.open_case(stack, world, LINES, order_ref=order.external_ref, reference=f"chat-{order.external_ref}")
    lives.arrive(stack, world, opened.case_id, *LINES, grade=grade)
    return opened.case_id


def policies(stack: Stack, world: World, case_id: Any) -> list[str]:
    return [part["policy"] for part in decided(stack, world, case_id)["record"]["policies"]]


def test_each_line_bears_its_own_policy_and_the_largest_part_s_version_stands_on_the_refund(
    stack: Stack, world: World
) -> None:
    case_id = worn(stack, world, mixed(stack, world))
    row = decided(stack, world, case_id)
    # 24.90 less 30 %, 58.00 less 60 %.
    assert (row["policy_id"], row["total_minor"]) == ("lamps", 1743 + 2320)
    assert row["record"]["policies"] == [
        {"policy": "lamps@1", "lines": ["LAMP"], "minor": 2320},
        {"policy": "harbour-usual@1", "lines": ["TEE"], "minor": 1743},
    ]
    (intent,) = lives.intents(stack, world, case_id)[-1:]
    assert (intent["policy_id"], intent["policy_version"], intent["amount_minor"]) == ("lamps", 1, 4063)


def test_the_case_its_refund_and_whoever_approves_it_are_told_every_policy(stack: Stack, world: World) -> None:
    case_id = worn(stack, world, mixed(stack, world))
    intent = lives.intents(stack, world, case_id)[-1]
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        entitled = read_entitlement(db, world.merchant_id, case_id)
        (refund,) = [
            one for one in read_intents(db, world.merchant_id, case_id) if one.intent_id == intent["intent_id"]
        ]
        decision = read_decision(db, world.merchant_id, intent["intent_id"])
    assert entitled is not None
    assert {entitled.policy, refund.policy, decision.policy} == {"lamps@1, harbour-usual@1"}
    alone = lives.propose(stack, world, (("TEE", 1),), order=add_order(stack, world, "A-9"), reference="chat-9")
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        assert read_decision(db, world.merchant_id, alone["intent_id"]).policy == "harbour-usual@1"


def test_the_record_is_proved_from_its_stored_inputs(stack: Stack, world: World) -> None:
    case_id = worn(stack, world, mixed(stack, world))
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        stored = read_record(db, world.merchant_id, case_id)
    assert stored is not None
    assert prove(stored) == []


@pytest.mark.parametrize("policy_id", ["lamps", "harbour-usual"])
def test_the_case_keeps_every_version_it_was_decided_under(stack: Stack, world: World, policy_id: str) -> None:
    order = mixed(stack, world)
    case_id = worn(stack, world, order)
    select = LAMPS["select"] if policy_id == "lamps" else {}
    in_force(stack, world, {"policy_id": policy_id, "select": select, "grade_bps": {"C": 9000, "D": 10000}})
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, case_id, world.priya.actor)
    assert policies(stack, world, case_id) == ["lamps@1", "harbour-usual@1"]
    assert decided(stack, world, case_id)["total_minor"] == 4063
    later = worn(stack, world, sold(stack, world, "A-9"))
    assert f"{policy_id}@2" in policies(stack, world, later)


UNDECIDED = {
    "unreadable": "UPDATE policies SET document = document || '{\"refund_trigger\": \"whenever\"}' WHERE policy_id = 'lamps'",
    "none_fits": 'UPDATE policies SET document = document || \'{"select": {"categories": ["apparel"]}}\''
    " WHERE policy_id = 'harbour-usual'",
}


@pytest.mark.parametrize("reason", UNDECIDED)
def test_one_policy_that_decides_nothing_leaves_all_of_the_case_to_a_person(
    stack: Stack, world: World, reason: str
) -> None:
    order = mixed(stack, world)
    if reason == "none_fits":
        as_administrator(stack, "UPDATE policies SET document = document || '{\"select\": {\"categories\": [\"chairs\"]}}'"
                         " WHERE policy_id = 'lamps'")  # fmt: skip
    as_administrator(stack, UNDECIDED[reason])
    opened = lives.open_case(stack, world, LINES, order_ref=order.external_ref, reference="chat-8")
    assert undecided(stack, opened.case_id) == ("needs_person", reason)
    assert lives.intents(stack, world, opened.case_id) == []


def test_the_lowest_limit_of_the_policies_says_who_may_approve_it(stack: Stack, world: World) -> None:
    case_id = worn(stack, world, mixed(stack, world), grade="A")
    intent = lives.intents(stack, world, case_id)[-1]
    assert intent["route"] == "desk"
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = read_sum(db, world.merchant_id, intent["intent_id"])
    assert found is not None
    assert (found.manager_from_minor, found.route) == (25000, "desk")
    # Routes are today's: the usual policy, which is not on the refund itself, now gives its desk less.
    in_force(stack, world, {"routes": {"manager_from_minor": {"GBP": 5000, "EUR": 25000}}})
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        found = read_sum(db, world.merchant_id, intent["intent_id"])
    assert found is not None
    assert (found.manager_from_minor, found.route) == (5000, "manager")
    with pytest.raises(NotAllowed):
        lives.approve_as(stack, world, world.priya, intent["intent_id"])


def test_no_policy_approves_by_itself_what_is_also_another_one_s(stack: Stack) -> None:
    world = generous(stack, policy={"automatic": {"GBP": {"most_minor": 20000, "day_minor": 50000}}})
    orders = [
        mixed(stack, world, automatic={"GBP": {"most_minor": 20000, "day_minor": 50000}}),
        sold(stack, world, "A-9"),
    ]
    found = []
    for order, lines in zip(orders, (LINES, (("TEE", 1),)), strict=True):
        opened = lives.open_case(stack, world, lines, order_ref=order.external_ref, customer_verified="signed in")
        lives.arrive(stack, world, opened.case_id, *lines)
        found.append(by_policy(stack, world, opened.case_id))
    assert isinstance(found[0], Left)
    assert found[0].reason == "not_plain"
    # The control: goods of one category are approved.
    assert isinstance(found[1], Decision)
