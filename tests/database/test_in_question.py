"""An order in question: nothing of it is payable until one person proposes which figures stand and another confirms it."""

from typing import Any

import pytest

from ledger.database import transaction
from ledger.errors import BadInput, WrongState
from ledger.events import broken_links
from tests import in_question as asked
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import pay, pay_due
from tests.world import World


def returned(stack: Stack, world: World, *lines: tuple[str, int]) -> Any:
    opened = lives.open_case(stack, world, lines, order_ref=asked.REF, reference=str(lines), relation="separate")
    lives.arrive(stack, world, opened.case_id, *lines)
    return opened.case_id


def proposed(stack: Stack, world: World, case_id: Any) -> list[tuple[str, int]]:
    return [(row["state"], row["amount_minor"]) for row in lives.intents(stack, world, case_id)]


def test_without_a_settlement_nothing_of_it_is_payable(stack: Stack, world: World) -> None:
    asked.amiss(stack, world)
    assert proposed(stack, world, returned(stack, world, ("MUG", 1))) == []


@pytest.mark.parametrize(
    ("key", "expected", "total"),
    [("first/total", {"TEE": 5500, "MUG": 1100}, 6600), ("first/lines", {"TEE": 6000, "MUG": 1200}, 7200)],
)
def test_a_gap_is_settled_by_the_figure_that_two_people_let_stand(
    stack: Stack, world: World, key: str, expected: dict[str, int], total: int
) -> None:
    order_id = asked.amiss(stack, world)
    asked.settle(stack, world, order_id, key)
    row = asked.order_row(stack, world, order_id)
    assert asked.line_grosses(stack, world, order_id) == expected
    assert (row["blocked"], row["total_minor"], row["discrepancies"][-1]) == (False, total, "settled_by_people")
    kept = as_administrator(stack, "SELECT n, total_minor, settlement_id FROM order_allocations ORDER BY n")
    assert [(one["n"], one["total_minor"], one["settlement_id"] is None) for one in kept] == [
        (1, 6600, True), (2, total, False),
    ]  # fmt: skip


def test_what_was_captured_stands_where_total_and_lines_are_both_wrong(stack: Stack, world: World) -> None:
    order_id = asked.state(stack, world, asked.stated(total_minor=6600, captures=[asked.card(6900)])).order_id
    asked.settle(stack, world, order_id, "first/captured")
    assert asked.line_grosses(stack, world, order_id) == {"TEE": 5750, "MUG": 1150}
    assert asked.order_row(stack, world, order_id)["total_minor"] == 6900


def test_a_settled_order_is_payable_and_its_refund_ends_once_at_the_provider(stack: Stack, world: World) -> None:
    order_id = asked.amiss(stack, world)
    case_id = returned(stack, world, ("MUG", 1))
    asked.settle(stack, world, order_id, "first/total")
    assert proposed(stack, world, case_id) == [("proposed", 1100)]
    (intent,) = lives.intents(stack, world, case_id)
    pay(stack, world, intent["intent_id"])
    pay_due(stack, world)
    assert proposed(stack, world, case_id) == [("succeeded", 1100)]
    held = as_administrator(stack, "SELECT refunded_minor FROM captures WHERE capture_ref = 'Q-1-1'")
    assert held == [{"refunded_minor": 1100}]
    assert len(as_administrator(stack, "SELECT 1 FROM attempts")) == 1


def test_what_two_people_settled_no_policy_approves_by_itself(stack: Stack, world: World) -> None:
    order_id = asked.twice(stack, world)
    asked.settle(stack, world, order_id, "first")
    assert asked.order_row(stack, world, order_id)["discrepancies"] == ["settled_by_people"]


def test_the_first_facts_are_kept_and_the_others_change_nothing_when_they_come_again(
    stack: Stack, world: World
) -> None:
    order_id = asked.twice(stack, world)
    case_id = returned(stack, world, ("MUG", 1))
    assert proposed(stack, world, case_id) == []
    asked.settle(stack, world, order_id, "first")
    assert proposed(stack, world, case_id) == [("proposed", 1200)]
    assert asked.state(stack, world, asked.stated(**asked.cheaper())).status == "unchanged"
    assert asked.state(stack, world, asked.stated()).status == "unchanged"
    assert not asked.order_row(stack, world, order_id)["blocked"]
    assert asked.state(stack, world, asked.stated(**asked.cheaper(900))).status == "conflict"


def test_the_newer_facts_are_accepted_and_the_first_ones_change_nothing_when_they_come_again(
    stack: Stack, world: World
) -> None:
    order_id = asked.twice(stack, world)
    case_id = returned(stack, world, ("MUG", 1))
    asked.settle(stack, world, order_id, "newer")
    assert proposed(stack, world, case_id) == [("proposed", 1000)]
    assert asked.order_row(stack, world, order_id)["total_minor"] == 7000
    for facts in (asked.stated(), asked.stated(**asked.cheaper())):
        assert asked.state(stack, world, facts).status == "unchanged"


def test_a_newer_statement_adds_a_line_and_a_payment_and_a_line_it_left_out_is_worth_nothing(
    stack: Stack, world: World
) -> None:
    lines = asked.stated()["lines"][:1]
    lines.append(lines[0] | {"line_ref": "CAP", "position": 3, "sku": "CAP", "quantity": 1, "unit_price_minor": 1500,
                             "gross_minor": 1500, "tax_minor": 250})  # fmt: skip
    captures = [asked.card(7200), asked.card(300, n=2)]
    order_id = asked.twice(stack, world, lines=lines, captures=captures, total_minor=7500)
    asked.settle(stack, world, order_id, "newer")
    assert asked.line_grosses(stack, world, order_id) == {"TEE": 6000, "CAP": 1500, "MUG": 0}
    paid = as_administrator(
        stack,
        "SELECT capture_ref, available_minor, position FROM captures WHERE capture_ref LIKE 'Q-1-%%' ORDER BY 1",
    )
    assert [tuple(row.values()) for row in paid] == [("Q-1-1", 7200, 1), ("Q-1-2", 300, 2)]
    assert proposed(stack, world, returned(stack, world, ("CAP", 1))) == [("proposed", 1500)]


def test_what_waited_on_the_old_figures_is_called_back_and_asked_for_anew(stack: Stack, world: World) -> None:
    asked.state(stack, world, asked.stated())
    case_id = returned(stack, world, ("MUG", 1))
    (intent,) = lives.intents(stack, world, case_id)
    lives.approve_as(stack, world, world.priya, intent["intent_id"])
    order_id = asked.state(stack, world, asked.stated(**asked.cheaper())).order_id
    asked.settle(stack, world, order_id, "newer")
    assert proposed(stack, world, case_id) == [("withdrawn", 1200), ("proposed", 1000)]
    (card,) = as_administrator(stack, "SELECT available_minor FROM captures WHERE capture_ref = 'Q-1-1'")
    assert card["available_minor"] == 7200


def test_after_a_refund_a_line_may_be_raised_and_never_lowered(stack: Stack, world: World) -> None:
    asked.state(stack, world, asked.stated())
    (intent,) = lives.intents(stack, world, returned(stack, world, ("MUG", 1)))
    pay(stack, world, intent["intent_id"])
    order_id = asked.state(stack, world, asked.stated(**asked.cheaper())).order_id
    with pytest.raises(BadInput, match="cannot be worth less"):
        asked.propose(stack, world, order_id, "newer", world.mara)
    assert asked.state(stack, world, asked.stated(**asked.cheaper(1300))).status == "conflict"
    asked.settle(stack, world, order_id, "newer")
    assert asked.line_grosses(stack, world, order_id) == {"TEE": 6000, "MUG": 1300}


def test_the_database_too_lowers_no_line_of_which_money_went_back(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.state(stack, world, asked.stated())
    (intent,) = lives.intents(stack, world, returned(stack, world, ("MUG", 1)))
    pay(stack, world, intent["intent_id"])
    order_id = asked.state(stack, world, asked.stated(**asked.cheaper())).order_id
    monkeypatch.setattr("ledger.order_settling._why_no_lines", lambda *_: "")
    settlement_id = asked.propose(stack, world, order_id, "newer", world.mara)
    with pytest.raises(WrongState, match="worth less"):
        asked.answer(stack, world, settlement_id, world.farah)
    assert asked.order_row(stack, world, order_id)["blocked"]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"currency": "EUR", "captures": []}, "The order is in GBP"),
        ({"captures": []}, "leaves out payment Q-1-1"),
        ({"captures": [asked.card(7100)]}, "states payment Q-1-1 otherwise"),
    ],
)
def test_what_the_books_cannot_follow_is_not_offered_and_says_why(
    stack: Stack, world: World, facts: dict[str, Any], why: str
) -> None:
    order_id = asked.twice(stack, world, **facts)
    kept, newer = asked.offered(stack, world, order_id)
    assert (kept.why_not, why in newer.why_not) == ("", True)
    with pytest.raises(BadInput, match=why):
        asked.propose(stack, world, order_id, "newer", world.mara)


def test_units_that_somebody_asked_back_stay_the_goods_and_the_number_they_are(stack: Stack, world: World) -> None:
    lines = asked.stated()["lines"]
    lines[0] |= {"quantity": 3, "unit_price_minor": 2000}
    order_id = asked.twice(stack, world, lines=lines)
    assert [one.why_not for one in asked.offered(stack, world, order_id)] == ["", ""]
    lives.open_case(stack, world, (("TEE", 1),), order_ref=asked.REF)
    assert "TEE" in asked.offered(stack, world, order_id)[1].why_not


@pytest.mark.parametrize(
    ("method", "expected"),
    [("value.cumulative@1", {"TEE": 5400, "MUG": 1080}), ("quantity.cumulative@1", {"TEE": 5520, "MUG": 960})],
)
def test_shares_that_do_not_sum_are_settled_by_a_named_method(
    stack: Stack, world: World, method: str, expected: dict[str, int]
) -> None:
    off = {"id": "TEN", "minor": 720, "applies_to": ["TEE", "MUG"], "shares": {"TEE": 100}}
    lines = [{name: value for name, value in one.items() if name != "gross_minor"} for one in asked.stated()["lines"]]
    facts = asked.stated(lines=lines, order_discounts=[off], total_minor=6480, captures=[asked.card(6480)])
    order_id = asked.state(stack, world, facts).order_id
    assert asked.order_row(stack, world, order_id)["discrepancies"] == ["explicit_mismatch"]
    asked.settle(stack, world, order_id, f"first/{method}")
    assert asked.line_grosses(stack, world, order_id) == expected
    assert method in asked.order_row(stack, world, order_id)["allocation_method"]


def test_a_line_below_zero_is_taken_off_the_lines_that_a_person_names(stack: Stack, world: World) -> None:
    lines = asked.stated()["lines"]
    lines.append({"line_ref": "OFF", "position": 3, "kind": "goods", "sku": "OFF", "title": "Voucher", "quantity": 1,
                  "unit_price_minor": -600, "tax_minor": 0})  # fmt: skip
    facts = asked.stated(lines=[one | {"tax_minor": 0} for one in lines], total_minor=6600, captures=[asked.card(6600)])
    for one in facts["lines"]:
        one.pop("gross_minor", None)
    order_id = asked.state(stack, world, facts).order_id
    assert asked.order_row(stack, world, order_id)["discrepancies"][0] == "negative_line"
    asked.settle(stack, world, order_id, "first/MUG")
    assert asked.line_grosses(stack, world, order_id) == {"TEE": 6000, "MUG": 600, "OFF": 0}


def test_each_step_is_an_event_of_the_open_cases_and_their_chain_holds(stack: Stack, world: World) -> None:
    order_id = asked.amiss(stack, world)
    case_id = returned(stack, world, ("MUG", 1))
    asked.settle(stack, world, order_id, "first/total")
    kinds = [
        row["kind"]
        for row in as_administrator(stack, "SELECT kind FROM events WHERE case_id = %s ORDER BY number", case_id)
    ]
    assert [kind for kind in kinds if kind.startswith("order.")] == ["order.settlement_proposed", "order.settled"]
    with transaction(stack.console, world.merchant_id, read_only=True) as db:
        assert broken_links(db, world.merchant_id, [case_id]) == {case_id: None}


def test_turned_down_it_comes_to_nothing_and_the_order_stays_blocked(stack: Stack, world: World) -> None:
    order_id = asked.amiss(stack, world)
    settlement_id = asked.propose(stack, world, order_id, "first/total", world.mara)
    with pytest.raises(BadInput, match="reason"):
        asked.answer(stack, world, settlement_id, world.farah, confirmed=False)
    assert asked.answer(stack, world, settlement_id, world.mara, confirmed=False, reason="typed too fast")
    assert asked.order_row(stack, world, order_id)["blocked"]
    with pytest.raises(WrongState, match="answered this"):
        asked.answer(stack, world, settlement_id, world.farah)
    asked.settle(stack, world, order_id, "first/lines")
    assert not asked.order_row(stack, world, order_id)["blocked"]
