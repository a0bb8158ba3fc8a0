"""An order that replaces exchanged goods: what comes back of it goes to the payment of the first order, and never above it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.exc import IntegrityError

from ledger import assessment
from ledger.errors import BadInput, NotEnoughMoneyLeft
from ledger.order_document import FactsRefused, order_facts
from ledger.order_formats import Refused
from order_commands import Report, import_orders
from tests import in_question as asked
from tests import lives
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.web.desk import pay
from tests.world import World


def sold(ref: str, minor: int, captures: list[dict[str, Any]]) -> dict[str, Any]:
    """One lamp, at this price."""
    lamp = {"line_ref": "LAMP", "position": 1, "kind": "goods", "sku": "LAMP", "title": "Lamp", "quantity": 1,
            "unit_price_minor": minor, "gross_minor": minor, "tax_minor": 0}  # fmt: skip
    return asked.stated(ref, lines=[lamp], total_minor=minor, captures=captures)


def credit(ref: str, minor: int, order: str, capture: str) -> dict[str, Any]:
    return {"capture_ref": f"{ref}-credit", "tender": "exchange_credit", "currency": "GBP", "captured_minor": minor,
            "captured_at": "2026-10-20T09:30:00Z", "exchanged_from": {"order": order, "capture": capture}}  # fmt: skip


def first_order(stack: Stack, world: World) -> None:
    asked.state(stack, world, sold("X-1", 7000, [asked.card(7000, "X-1")]))


def replacement(
    stack: Stack, world: World, ref: str = "X-2", minor: int = 6250, of: tuple[str, str] = ("X-1", "X-1-1")
) -> None:
    asked.state(stack, world, sold(ref, minor, [credit(ref, minor, *of)]))


def returned(stack: Stack, world: World, ref: str) -> Any:
    opened = lives.open_case(stack, world, (("LAMP", 1),), order_ref=ref, reference=ref)
    lives.arrive(stack, world, opened.case_id, ("LAMP", 1))
    return opened.case_id


def balances(stack: Stack, ref: str) -> tuple[int, ...]:
    (row,) = as_administrator(
        stack, "SELECT available_minor, reserved_minor, refunded_minor FROM captures WHERE capture_ref = %s", ref
    )
    return tuple(row.values())


def test_a_replacement_that_comes_back_is_paid_to_the_payment_of_the_first_order(stack: Stack, world: World) -> None:
    first_order(stack, world)
    replacement(stack, world)
    (intent,) = lives.intents(stack, world, returned(stack, world, "X-2"))
    assert (intent["act"], intent["amount_minor"], intent["charge_ref"]) == ("refund", 6250, "ch_X-1_1")
    pay(stack, world, intent["intent_id"])
    assert balances(stack, "X-1-1") == (750, 0, 6250)
    assert balances(stack, "X-2-credit") == (6250, 0, 0)


def test_an_exchange_of_an_exchange_still_pays_to_the_first_payment(stack: Stack, world: World) -> None:
    first_order(stack, world)
    replacement(stack, world)
    replacement(stack, world, "X-3", 6000, ("X-2", "X-2-credit"))
    (intent,) = lives.intents(stack, world, returned(stack, world, "X-3"))
    assert (intent["amount_minor"], intent["charge_ref"]) == (6000, "ch_X-1_1")


def both_returned(stack: Stack, world: World) -> list[UUID]:
    """The first lamp and the one that replaced it both come back: 132.50 asked of 70.00."""
    first_order(stack, world)
    replacement(stack, world)
    return [lives.intents(stack, world, returned(stack, world, ref))[-1]["intent_id"] for ref in ("X-1", "X-2")]


def test_the_chain_never_pays_more_than_was_captured_whoever_comes_first(stack: Stack, world: World) -> None:
    raced = lives.race(*(
        lambda intent_id=one: lives.approve_as(stack, world, world.mara, intent_id) for one in both_returned(stack, world)
    ))  # fmt: skip
    assert (len(raced.results), [type(refused) for refused in raced.refusals]) == (1, [NotEnoughMoneyLeft])


def test_once_the_first_order_was_paid_back_nothing_is_left_for_the_replacement(stack: Stack, world: World) -> None:
    first_order(stack, world)
    replacement(stack, world)
    (intent,) = lives.intents(stack, world, returned(stack, world, "X-1"))
    pay(stack, world, intent["intent_id"])
    assert lives.intents(stack, world, returned(stack, world, "X-2")) == []


def test_a_credit_pays_within_itself(stack: Stack, world: World) -> None:
    """The replacement cost 62.50, of which 20.00 were carried over and the rest was not paid yet."""
    first_order(stack, world)
    asked.state(stack, world, sold("X-2", 6250, [credit("X-2", 2000, "X-1", "X-1-1")]))
    (intent,) = lives.intents(stack, world, returned(stack, world, "X-2"))
    assert intent["amount_minor"] == 2000


def proposing(stack: Stack, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """From now on the engine goes wrong: it proposes the payment of the first order, changed so."""
    (card,) = as_administrator(stack, "SELECT capture_id FROM captures WHERE capture_ref = 'X-1-1'")
    usual = assessment._proposals
    wrong = changes | {"capture_id": card["capture_id"]}
    monkeypatch.setattr(assessment, "_proposals", lambda *given: [replace(one, **wrong) for one in usual(*given)])


def test_the_database_lets_no_order_draw_on_another_orders_payment_without_a_credit(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_order(stack, world)
    asked.state(stack, world, sold("X-5", 1000, [asked.card(1000, "X-5")]))
    asked.state(stack, world, sold("X-6", 1000, [asked.card(1000, "X-6")]))
    proposing(stack, monkeypatch)
    with pytest.raises(IntegrityError, match="a capture of its own order"):
        returned(stack, world, "X-5")
    without(stack, "DROP TRIGGER exact_insert ON intents")
    (intent,) = lives.intents(stack, world, returned(stack, world, "X-6"))
    assert intent["charge_ref"] == "ch_X-1_1"


def test_the_database_lets_a_credit_pay_no_more_than_itself(
    stack: Stack, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_order(stack, world)
    asked.state(stack, world, sold("X-2", 6250, [credit("X-2", 2000, "X-1", "X-1-1")]))
    proposing(stack, monkeypatch, amount_minor=2001, order_minor=2001)
    with pytest.raises(IntegrityError, match="a capture of its own order"):
        returned(stack, world, "X-2")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"exchanged_from": None}, "exchanged_from"),
        ({"charge_ref": "ch_1", "payment_intent_ref": "pi_1"}, "charge_ref"),
        ({"currency": "EUR", "order_minor": 1}, "currency"),
        ({"exchanged_from": {"order": "X-2", "capture": "X-2-1"}}, "exchanged_from.order"),
        ({"tender": "cash"}, "exchanged_from"),
    ],
)
def test_a_credit_that_is_none_is_refused_with_its_field(changes: dict[str, Any], field: str) -> None:
    made = {name: value for name, value in (credit("X-2", 6250, "X-1", "X-1-1") | changes).items() if value is not None}
    with pytest.raises(FactsRefused) as refused:
        order_facts(sold("X-2", 6250, [made]))
    assert [one.field for one in refused.value.problems] == [f"captures[0].{field}"]


def test_a_credit_of_a_payment_that_is_not_here_is_refused_and_nothing_is_stored(stack: Stack, world: World) -> None:
    with pytest.raises(BadInput, match=r"captures\[0\].exchanged_from: .* send that order first"):
        replacement(stack, world)
    assert as_administrator(stack, "SELECT 1 FROM orders WHERE external_ref = 'X-2'") == []


def test_a_file_takes_a_replacement_after_its_first_order_and_names_one_whose_payment_is_missing(
    stack: Stack, world: World, tmp_path: Path
) -> None:
    entries = [order_facts(json.loads(json.dumps(one))) for one in (
        sold("X-1", 7000, [asked.card(7000, "X-1")]), sold("X-2", 6250, [credit("X-2", 6250, "X-1", "X-1-1")]),
        sold("X-4", 6250, [credit("X-4", 6250, "X-9", "X-9-1")]),
    )]  # fmt: skip
    refused: list[Refused] = []
    report = import_orders(stack.console, world.merchant_id, entries, Report(refused.append))
    assert report.orders["created"] == 2
    assert [(one.ref, "send that order first" in one.say) for one in refused] == [("X-4", True)]
