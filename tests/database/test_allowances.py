"""Money back with the goods kept, through the database: the worked examples, what is refused, and what later returns still pay."""

from typing import Any

import pytest
from psycopg.errors import ExclusionViolation

from ledger.cases import reject
from ledger.database import scalar, transaction
from ledger.errors import AlreadyRefunded, BadInput, MoreThanLeft, NotAllowed, SamePerson, Stale
from ledger.ids import uuid7
from tests import lives
from tests.allowances import generous_policy, give, intent_of, record_of, room_of
from tests.orders import Line, Order
from tests.refunds import as_administrator
from tests.stack import Stack, without
from tests.web.desk import pay
from tests.world import World, add_order, build_world

FOUR = (Line("CUP", 4, 89_99),)


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=generous_policy())


def sold(stack: Stack, world: World, *lines: Line, ref: str = "K-1", **more: Any) -> Order:
    return add_order(stack, world, ref, lines=lines, **more)


def returned(stack: Stack, world: World, order: Order, line: str, units: int = 1) -> Any:
    """One more return of that line, arrived: its proposed intent, or None where nothing is owed."""
    made = lives.open_case(stack, world, ((line, units),), order_ref=order.external_ref, reference=f"r-{line}",
                           relation="separate")  # fmt: skip
    lives.arrive(stack, world, made.case_id, (line, units))
    found = lives.intents(stack, world, made.case_id)
    return found[-1] if found else None


def test_6_an_allowance_of_3_00_on_two_of_four_leaves_unit_1_at_21_00_with_tax_3_50(stack: Stack, world: World) -> None:
    order = sold(stack, world, *FOUR)
    given = give(stack, world, order, "keep_item", "CUP", 3_00, units=2)
    intent = intent_of(stack, world, given)
    assert (intent["amount_minor"], intent["route"], intent["state"]) == (3_00, "desk", "proposed")
    pay(stack, world, intent["intent_id"], by=world.tobias)
    returned(stack, world, order, "CUP")
    unit_1 = returned(stack, world, order, "CUP")
    record = record_of(stack, world, unit_1["case_id"])
    assert (unit_1["amount_minor"], record["tax"], record["units"]) == (21_00, 3_50, [["CUP", 1, 2]])


def test_21_a_reduction_of_54_00_on_162_00_leaves_108_00_for_a_later_return(stack: Stack, world: World) -> None:
    order = sold(stack, world, Line("SOFA", 1, 162_00))
    # Worth 180.00 whole and 120.00 with its defect: 162.00 in that ratio is 108.00.
    given = give(stack, world, order, "price_reduction", "SOFA", 120_00, conform_minor=180_00, reason="faulty")
    assert intent_of(stack, world, given)["amount_minor"] == 54_00
    pay(stack, world, intent_of(stack, world, given)["intent_id"], by=world.tobias)
    assert returned(stack, world, order, "SOFA")["amount_minor"] == 108_00


def test_22_two_at_39_95_now_33_95_give_12_00_once_and_a_unit_back_later_33_95(stack: Stack, world: World) -> None:
    order = sold(stack, world, Line("MUG", 2, 79_90))
    given = give(stack, world, order, "price_adjustment", "MUG", 33_95, units=2, reason="lower_price")
    assert (given.minor, intent_of(stack, world, given)["amount_minor"]) == (12_00, 12_00)
    with pytest.raises(BadInput, match=r"^units: only 0 of 2 are free: .* their price was adjusted before$"):
        give(stack, world, order, "price_adjustment", "MUG", 30_00, reason="lower_price")
    pay(stack, world, intent_of(stack, world, given)["intent_id"], by=world.tobias)
    assert returned(stack, world, order, "MUG")["amount_minor"] == 33_95


def test_24_goodwill_15_00_typed_net_on_64_50_plus_4_19_is_15_97_with_tax_0_97_typed_gross_15_00_with_0_91(
    stack: Stack, world: World
) -> None:
    for entry, minor, tax in (("net", 15_97, 97), ("gross", 15_00, 91)):
        order = sold(stack, world, Line("RUG", 1, 68_69, tax_ppm=65_000), ref=f"G-{entry}")
        given = give(stack, world, order, "goodwill", "RUG", 15_00, entry=entry, reason="service")
        record = record_of(stack, world, given.case_id)
        assert (given.minor, record["total"], record["tax"]) == (minor, minor, tax)


def test_shipping_alone_gives_back_what_is_left_of_it_and_a_full_return_pays_the_goods(
    stack: Stack, world: World
) -> None:
    order = world.order
    given = give(stack, world, order, "shipping_only", "POST", 4_90, reason="late")
    pay(stack, world, intent_of(stack, world, given)["intent_id"], by=world.tobias)
    with pytest.raises(BadInput, match=r"^amount: only 0\.00 GBP is left of this line$"):
        give(stack, world, order, "shipping_only", "POST", 1, reason="late")
    assert returned(stack, world, order, "LAMP")["amount_minor"] == 58_00


def test_an_item_that_is_kept_for_money_closes_its_unit_where_the_policy_says_so(stack: Stack) -> None:
    world = build_world(stack, policy=generous_policy(keep_item={"max_bps": 5000, "closes_unit": True}))
    given = give(stack, world, world.order, "keep_item", "LAMP", 20_00, reason="damaged")
    with pytest.raises(MoreThanLeft, match=rf"1 of line LAMP was kept for money back in case C-{given.number}"):
        returned(stack, world, world.order, "LAMP")
    pay(stack, world, intent_of(stack, world, given)["intent_id"], by=world.tobias)
    assert (
        lives.count(stack.console, world, "SELECT count(*) FROM cases WHERE stage = 'paid' AND closed_at IS NOT NULL")
        == 1
    )
    with pytest.raises(AlreadyRefunded) as refused:
        returned(stack, world, world.order, "LAMP")
    assert [refund["amount_minor"] for refund in refused.value.facts["refunds"]] == [20_00]
    with pytest.raises(BadInput, match=r"^units: only 0 of 1 are free"):
        give(stack, world, world.order, "keep_item", "LAMP", 1, reason="damaged")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"minor": 0}, "amount: an amount is more than 0"),
        ({"minor": -5}, "amount: an amount is more than 0"),
        ({"minor": 58_01}, "amount: only 58.00 GBP is left of this line"),
        ({"minor": 10**15}, "amount: an amount is more than 0"),
        ({"line": "NONE"}, "line: this order has no line 'NONE'"),
        ({"line": "POST"}, "line: choose a line of goods"),
        ({"currency": "EUR"}, "currency: this order was paid in GBP"),
        ({"entry": "both"}, "entry: say whether tax is in the amount: gross or net"),
        ({"reason": "because"}, "reason: choose one of faulty, damaged, wrong_item, late, lower_price, service, other"),
        ({"kind": "gift"}, "kind: choose one of keep_item, price_reduction, price_adjustment, goodwill, shipping_only"),
        ({"kind": "shipping_only"}, "line: choose a line of shipping or of a fee"),
        ({"kind": "keep_item", "units": 2}, "units: a number from 1 to 1: so many were bought"),
        ({"kind": "keep_item", "minor": 30_00}, "amount: the policy gives at most 29.00 GBP for this"),
        ({"kind": "price_adjustment", "minor": 60_00}, "new_price: the new price is not below what the units still are worth"),
        ({"kind": "price_adjustment", "minor": -1}, "new_price: the new price of one unit is 0 or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_given_is_refused_by_its_field_and_nothing_is_stored(
    stack: Stack, world: World, changes: dict[str, Any], says: str
) -> None:
    wish: dict[str, Any] = {"kind": "goodwill", "line": "LAMP", "minor": 5_00} | changes
    kind, line, minor = wish.pop("kind"), wish.pop("line"), wish.pop("minor")
    with pytest.raises(BadInput) as refused:
        give(stack, world, world.order, kind, line, minor, **wish)
    assert refused.value.sentence == says
    for table in ("cases", "case_asks", "case_items", "entitlements", "intents", "line_claims"):
        assert lives.count(stack.console, world, f"SELECT count(*) FROM {table} WHERE merchant_id = :m") == 0  # noqa: S608


def test_what_is_left_is_known_before_anybody_types(stack: Stack, world: World) -> None:
    give(stack, world, world.order, "goodwill", "TEE", 10_00, reason="late")
    returned(stack, world, world.order, "TEE")
    room = {line.line_ref: (line.left_minor, line.free) for line in room_of(stack, world, world.order).lines}
    # One of three T-shirts is back for 24.90 less its third of the goodwill.
    assert room == {"TEE": (74_70 - 10_00 - 21_57, ((1, 3),)), "LAMP": (58_00, ((0, 1),)), "POST": (4_90, ())}


def test_nobody_approves_the_allowance_they_asked_for(stack: Stack, world: World) -> None:
    intent = intent_of(stack, world, give(stack, world, world.order, "goodwill", "LAMP", 5_00))
    with pytest.raises(SamePerson):
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
    lives.approve_as(stack, world, world.tobias, intent["intent_id"])


def test_the_policy_says_who_decides_a_kind_always(stack: Stack) -> None:
    routes = {"manager_from_minor": {"GBP": 250_00}, "always": {"allowances.goodwill": "manager"}}
    world = build_world(stack, policy=generous_policy(routes=routes))
    goodwill = intent_of(stack, world, give(stack, world, world.order, "goodwill", "LAMP", 5_00))
    kept = intent_of(stack, world, give(stack, world, world.order, "keep_item", "TEE", 5_00))
    assert (goodwill["route"], kept["route"]) == ("manager", "desk")
    with pytest.raises(NotAllowed):
        lives.approve_as(stack, world, world.tobias, goodwill["intent_id"])


def test_an_allowance_that_is_open_when_its_unit_comes_back_is_approved_no_more(stack: Stack, world: World) -> None:
    """Tobias has the sheet of an allowance on the lamp open; the customer sends the lamp back instead, and all of it is paid."""
    given = give(stack, world, world.order, "keep_item", "LAMP", 20_00, reason="damaged")
    intent = intent_of(stack, world, given)
    sheet = lives.see(stack, world, intent["intent_id"])
    back = returned(stack, world, world.order, "LAMP")
    with pytest.raises(Stale):
        lives.approve_as(stack, world, world.tobias, intent["intent_id"], sheet)
    assert lives.state(stack, world, intent["intent_id"]) == "withdrawn"
    assert (back["amount_minor"], back["state"]) == (58_00, "proposed")


def test_an_approved_allowance_that_has_not_left_is_called_back_when_its_unit_comes_back(
    stack: Stack, world: World
) -> None:
    intent = intent_of(stack, world, give(stack, world, world.order, "keep_item", "LAMP", 20_00, reason="damaged"))
    lives.approve_as(stack, world, world.tobias, intent["intent_id"], window=300)
    assert returned(stack, world, world.order, "LAMP")["amount_minor"] == 58_00
    assert lives.state(stack, world, intent["intent_id"]) == "withdrawn"
    assert lives.count(stack.console, world, "SELECT sum(reserved_minor) FROM captures WHERE merchant_id = :m") == 0


def test_one_that_has_left_stays_and_the_return_pays_the_rest(stack: Stack, world: World) -> None:
    intent = intent_of(stack, world, give(stack, world, world.order, "keep_item", "LAMP", 20_00, reason="damaged"))
    lives.approve_as(stack, world, world.tobias, intent["intent_id"])
    assert len(lives.claim(stack, world)) == 1
    assert returned(stack, world, world.order, "LAMP")["amount_minor"] == 38_00
    assert lives.state(stack, world, intent["intent_id"]) == "submitting"


def test_no_policy_approves_an_allowance_by_itself(stack: Stack) -> None:
    world = build_world(stack, policy=generous_policy(automatic={"GBP": {"most_minor": 50_00, "day_minor": 500_00}}))
    for kind, line in (("goodwill", "LAMP"), ("keep_item", "TEE"), ("shipping_only", "POST")):
        intent = intent_of(stack, world, give(stack, world, world.order, kind, line, 1_00))
        with transaction(stack.console, world.merchant_id, read_only=True) as db:
            said = scalar(db, "SELECT automatic_obstacle(:m, :i, true)", m=world.merchant_id, i=intent["intent_id"])
        assert said == "channel_only"


REDUCED: dict[str, Any] = {"kind": "price_reduction", "line": "LAMP", "minor": 40_00, "conform_minor": 60_00}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"conform_minor": None}, "conform: what one unit is worth without its defect is more than 0"),
        ({"conform_minor": 0, "minor": 0}, "conform: what one unit is worth without its defect is more than 0"),
        ({"conform_minor": 10**16}, "conform: what one unit is worth without its defect is more than 0"),
        ({"minor": -1}, "worth: with its defect it is worth less than without, and not less than 0"),
        ({"minor": 60_00}, "worth: with its defect it is worth less than without, and not less than 0"),
        ({"minor": 59_99, "conform_minor": 10**12}, "worth: "),
        ({"units": 2}, "units: a number from 1 to 1: so many were bought"),
        ({"currency": "EUR"}, "currency: this order was paid in GBP"),
        ({"kind": "goodwill"}, "conform: only a price reduction says what a unit is worth without its defect"),
        ({"line": "POST"}, "line: choose a line of goods"),
    ],
)
def test_an_opinion_that_cannot_be_is_refused_by_its_field_and_nothing_is_stored(
    stack: Stack, world: World, changes: dict[str, Any], says: str
) -> None:
    wish = REDUCED | changes
    if says == "worth: ":
        # Nearly all of a lamp that is worth nothing more: within its price, so it stands, and 4.00 beside it does not.
        give(stack, world, world.order, "keep_item", "LAMP", 4_00)
    kind, line, minor = (wish.pop(name) for name in ("kind", "line", "minor"))
    before = lives.count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m")
    with pytest.raises(BadInput, match=f"^{says}"):
        give(stack, world, world.order, kind, line, minor, **wish)
    assert lives.count(stack.console, world, "SELECT count(*) FROM cases WHERE merchant_id = :m") == before


def test_the_price_of_a_unit_is_reduced_once_and_another_person_approves_it(stack: Stack, world: World) -> None:
    order = sold(stack, world, Line("CUP", 2, 20_00))
    first = give(stack, world, order, "price_reduction", "CUP", 0, conform_minor=5_00)
    intent = intent_of(stack, world, first)
    assert (intent["amount_minor"], intent["route"]) == (10_00, "desk")
    with pytest.raises(SamePerson):
        lives.approve_as(stack, world, world.priya, intent["intent_id"])
    give(stack, world, order, "price_reduction", "CUP", 4_00, conform_minor=5_00)
    with pytest.raises(BadInput, match=r"units: only 0 of 2 are free: .* or their price was reduced before"):
        give(stack, world, order, "price_reduction", "CUP", 4_00, conform_minor=5_00)
    with transaction(stack.console, world.merchant_id) as db:
        reject(db, world.merchant_id, first.case_id, world.priya.actor, "other")
    assert give(stack, world, order, "price_reduction", "CUP", 4_00, conform_minor=5_00).minor == 2_00


def test_the_database_keeps_one_reduction_of_a_unit_and_without_the_guard_two(stack: Stack, world: World) -> None:
    order = sold(stack, world, Line("CUP", 1, 20_00))
    given = give(stack, world, order, "price_reduction", "CUP", 4_00, conform_minor=5_00)
    again = (
        "INSERT INTO cases (merchant_id, case_id, order_id, customer_id, kind, reason, opened_by, channel, due_at, currency)"
        " SELECT merchant_id, %s, order_id, customer_id, kind, reason, opened_by, channel, due_at, currency FROM cases"
        " WHERE case_id = %s"
    )
    ask = (
        "INSERT INTO case_asks (merchant_id, case_id, kind, order_id, line_id, line_quantity, units, minor, conform_minor, entry,"
        " asked_by) SELECT merchant_id, %s, kind, order_id, line_id, line_quantity, units, minor, conform_minor, entry, asked_by"
        " FROM case_asks WHERE case_id = %s"
    )
    another = uuid7()
    as_administrator(stack, again, another, given.case_id)
    with pytest.raises(ExclusionViolation, match="reduced_once"):
        as_administrator(stack, ask, another, given.case_id)
    without(stack, "ALTER TABLE case_asks DROP CONSTRAINT reduced_once")
    as_administrator(stack, ask, another, given.case_id)


def test_a_policy_may_fix_who_decides_what_is_by_a_person_s_opinion(stack: Stack) -> None:
    routes = {"manager_from_minor": {"GBP": 250_00}, "always": {"allowances.price_reduction": "two_managers"}}
    world = build_world(stack, policy=generous_policy(routes=routes))
    given = give(stack, world, world.order, "price_reduction", "LAMP", 40_00, conform_minor=60_00)
    assert intent_of(stack, world, given)["route"] == "two_managers"
