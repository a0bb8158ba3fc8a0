"""An exchange uses the claim up and moves no money; what is asked for its units afterwards is refused with the reason."""

from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from ledger.assessment import work_out_again
from ledger.cases import open_return
from ledger.database import run, transaction
from ledger.errors import BadInput, MoreThanLeft, WrongState
from ledger.evidence import Arrival, ReceivedLine, report_arrival
from ledger.exchanges import Choice, open_exchange, record_exchange
from ledger.external_matching import match_to_case
from ledger.external_refunds import record_external
from ledger.settlement import ProviderRefund
from tests import lives
from tests.allowances import generous_policy, give, intent_of
from tests.policies import in_force
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.web.desk import pay, pay_due
from tests.world import World, build_world


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=generous_policy())


def choice(world: World, wish: str = "the same in large", *, in_stock: bool = True) -> Choice:
    return Choice(wish, in_stock, world.priya.actor)


def exchanged(stack: Stack, world: World, *lines: tuple[str, int], **changes: Any) -> Any:
    asked = lives.request(world, lines, channel="counter", actor=world.priya.actor, reference="slip-1")
    with transaction(stack.console, world.merchant_id) as db:
        chosen = choice(world, **changes)
        return open_exchange(db, world.merchant_id, asked, chosen, world.order.order_id)


def count(stack: Stack, world: World, table: str) -> int:
    return lives.count(stack.console, world, f"SELECT count(*) FROM {table} WHERE merchant_id = :m")  # noqa: S608


def test_an_exchange_at_the_counter_takes_the_unit_and_no_money(stack: Stack, world: World) -> None:
    made = exchanged(stack, world, ("LAMP", 1))
    assert count(stack, world, "intents") == 0
    lives.arrive(stack, world, made.case_id, ("LAMP", 1))
    assert (count(stack, world, "intents"), count(stack, world, "exchanges")) == (0, 1)
    assert (
        lives.count(
            stack.console, world, "SELECT count(*) FROM cases WHERE stage = 'exchanged' AND closed_at IS NOT NULL"
        )
        == 1
    )
    with pytest.raises(
        MoreThanLeft, match=rf"Nothing more can be claimed .*: 1 of line LAMP was exchanged in case C-{made.number}"
    ):
        lives.open_case(stack, world, (("LAMP", 1),), reference="chat-9")
    with pytest.raises(BadInput, match=r"^units: only 0 of 1 are free"):
        give(stack, world, world.order, "keep_item", "LAMP", 1)
    assert lives.open_case(stack, world, (("TEE", 3),), reference="chat-9").status == "opened"


def test_a_return_becomes_an_exchange_and_what_was_approved_is_called_back(stack: Stack, world: World) -> None:
    intent = lives.propose(stack, world, (("TEE", 1),))
    lives.approve_as(stack, world, world.tobias, intent["intent_id"], window=300)
    for _ in range(2):
        with transaction(stack.console, world.merchant_id) as db:
            record_exchange(db, world.merchant_id, intent["case_id"], choice(world))
    assert lives.state(stack, world, intent["intent_id"]) == "withdrawn"
    assert lives.count(stack.console, world, "SELECT sum(reserved_minor) FROM captures WHERE merchant_id = :m") == 0
    assert lives.count(stack.console, world, "SELECT sum(claimed_minor) FROM order_lines WHERE merchant_id = :m") == 0
    with transaction(stack.console, world.merchant_id) as db:
        report_arrival(db, world.merchant_id, intent["case_id"],
                       Arrival((ReceivedLine("TEE", 1),), "warehouse", world.warehouse.actor))  # fmt: skip
    assert [one["state"] for one in lives.intents(stack, world, intent["case_id"])] == ["withdrawn"]


@pytest.mark.parametrize("at_the_counter", [False, True])
def test_the_policy_for_the_reason_of_the_case_says_whether_it_is_exchanged(stack: Stack, at_the_counter: bool) -> None:
    """Only what is faulty is exchanged here; the control came back for its size."""
    world = build_world(stack, policy=generous_policy(exchange={"allowed": False}))
    in_force(stack, world, {"policy_id": "faults", "select": {"reasons": ["faulty"]}, "exchange": {"allowed": True}})
    as_administrator(stack, "UPDATE policies SET effective = tstzrange('2026-01-01', upper(effective))")

    def exchange(reason: str) -> None:
        asked = lives.request(world, (("TEE", 1),), reason=reason, channel="counter", reference=f"slip-{reason}",
                              actor=world.priya.actor, relation="separate")  # fmt: skip
        with transaction(stack.console, world.merchant_id) as db:
            if at_the_counter:
                open_exchange(db, world.merchant_id, asked, choice(world), world.order.order_id)
            else:
                opened = open_return(db, world.merchant_id, asked)
                record_exchange(db, world.merchant_id, opened.case_id, choice(world))

    with pytest.raises(BadInput, match="line TEE: the policy offers no exchange"):
        exchange("size")
    assert count(stack, world, "exchanges") == 0
    exchange("faulty")
    assert as_administrator(stack, "SELECT policy_id FROM exchanges") == [{"policy_id": "faults"}]


@pytest.mark.parametrize("sent", [False, True])
def test_what_was_paid_or_has_left_is_not_exchanged(stack: Stack, world: World, sent: bool) -> None:
    intent = lives.propose(stack, world, (("TEE", 1),))
    if sent:
        lives.approve_as(stack, world, world.tobias, intent["intent_id"])
        lives.claim(stack, world)
    else:
        pay(stack, world, intent["intent_id"])
    with pytest.raises(WrongState), transaction(stack.console, world.merchant_id) as db:
        record_exchange(db, world.merchant_id, intent["case_id"], choice(world))
    assert count(stack, world, "exchanges") == 0


def test_units_of_which_some_were_paid_outside_are_not_exchanged_as_well(stack: Stack, world: World) -> None:
    intent = lives.propose(stack, world, (("TEE", 2),))
    (paid,) = as_administrator(
        stack, "SELECT c.*, k.number FROM captures c JOIN cases k USING (merchant_id, order_id) WHERE k.case_id = %s",
        intent["case_id"],
    )  # fmt: skip
    told = ProviderRefund("re_till1", "succeeded", 2490, "GBP", paid["payment_intent_ref"], paid["charge_ref"], "")
    with transaction(stack.worker, world.merchant_id) as db:
        record_external(db, world.merchant_id, paid["provider_account_id"], told, "hook", lives.verifier())
    with (
        pytest.raises(WrongState, match="made outside and is on no case yet"),
        transaction(stack.console, world.merchant_id) as db,
    ):
        record_exchange(db, world.merchant_id, intent["case_id"], choice(world))
    with transaction(stack.console, world.merchant_id) as db:
        match_to_case(db, world.merchant_id, "re_till1", paid["number"], world.farah.actor, "told by the till")
    with (
        pytest.raises(WrongState, match="Money of this case was paid"),
        transaction(stack.console, world.merchant_id) as db,
    ):
        record_exchange(db, world.merchant_id, intent["case_id"], choice(world))
    assert count(stack, world, "exchanges") == 0


def test_units_that_were_paid_for_being_kept_are_returned_and_not_exchanged(stack: Stack, world: World) -> None:
    kept = intent_of(stack, world, give(stack, world, world.order, "keep_item", "TEE", 12_45))
    lives.approve_as(stack, world, world.jonas, kept["intent_id"])
    pay_due(stack, world)
    with pytest.raises(WrongState, match="Money was given for keeping these units"):
        exchanged(stack, world, ("TEE", 1))
    assert (count(stack, world, "cases"), count(stack, world, "exchanges")) == (1, 0)
    opened = lives.open_case(stack, world, (("TEE", 1),))
    with pytest.raises(IntegrityError, match="kept or exchanged"):
        write_past_the_page(stack, world, opened.case_id)
    lives.arrive(stack, world, opened.case_id, ("TEE", 1))
    assert [row["amount_minor"] for row in lives.intents(stack, world, opened.case_id)] == [12_45]


def test_what_was_asked_for_keeping_units_and_has_not_left_ends_with_their_exchange(stack: Stack, world: World) -> None:
    kept = intent_of(stack, world, give(stack, world, world.order, "keep_item", "TEE", 12_45))
    lives.approve_as(stack, world, world.jonas, kept["intent_id"], window=300)
    exchanged(stack, world, ("TEE", 1))
    assert lives.state(stack, world, kept["intent_id"]) == "withdrawn"
    with transaction(stack.console, world.merchant_id) as db:
        work_out_again(db, world.merchant_id, kept["case_id"], world.tobias.actor)
    assert [row["state"] for row in lives.intents(stack, world, kept["case_id"])] == ["withdrawn"]


@pytest.mark.parametrize(
    ("lines", "changes", "says"),
    [
        ((("LAMP", 1),), {"in_stock": False}, "in_stock: look whether the replacement is in stock, and say so"),
        ((("LAMP", 1),), {"wish": " "}, "wish: say in 1 to 200 characters what the customer takes instead"),
        ((("NONE", 1),), {}, "lines: this order has no line 'NONE'"),
    ],
)
def test_what_cannot_be_exchanged_is_refused_and_nothing_is_stored(
    stack: Stack, world: World, lines: tuple[tuple[str, int], ...], changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadInput) as refused:
        exchanged(stack, world, *lines, **changes)
    assert refused.value.sentence == says
    assert (count(stack, world, "cases"), count(stack, world, "case_items")) == (0, 0)


def test_a_policy_without_exchanges_offers_none_not_even_past_the_page(stack: Stack) -> None:
    world = build_world(stack)
    with pytest.raises(BadInput, match="line LAMP: the policy offers no exchange"):
        exchanged(stack, world, ("LAMP", 1))
    case = lives.open_case(stack, world, (("LAMP", 1),))
    with pytest.raises(IntegrityError, match="the policy offers no exchange"):
        write_past_the_page(stack, world, case.case_id)


def write_past_the_page(stack: Stack, world: World, case_id: Any) -> None:
    with transaction(stack.console, world.merchant_id) as db:
        run(
            db, "INSERT INTO exchanges (merchant_id, case_id, wish, in_stock, policy_id, policy_version, recorded_by)"
            " VALUES (:m, :c, 'other', true, :p, 1, :who)", m=world.merchant_id, c=case_id, p=world.policy_id,
            who=world.priya.actor,
        )  # fmt: skip


def test_units_are_exchanged_or_refunded_never_both_whichever_is_first_and_without_the_guard_both(
    stack: Stack, world: World
) -> None:
    intent = lives.propose(stack, world, (("TEE", 1),))
    with pytest.raises(IntegrityError, match="never both"):
        write_past_the_page(stack, world, intent["case_id"])
    without(stack, "DROP TRIGGER as_allowed ON exchanges")
    write_past_the_page(stack, world, intent["case_id"])
    assert (lives.state(stack, world, intent["intent_id"]), count(stack, world, "exchanges")) == ("proposed", 1)


def test_part_of_what_another_case_holds_is_not_exchanged_behind_its_back(stack: Stack, world: World) -> None:
    opened = lives.open_case(stack, world, (("TEE", 3),))
    with pytest.raises(BadInput, match=f"^lines: case C-{opened.number} holds these units with others"):
        exchanged(stack, world, ("TEE", 1))
    assert exchanged(stack, world, ("TEE", 3)).status == "joined"
