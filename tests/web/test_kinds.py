"""What the desk records without a return: a plain form, a sheet, a case; an exchange; and another amount than computed."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests import lives
from tests.allowances import generous_policy
from tests.policies import in_force
from tests.refunds import as_administrator
from tests.stack import Stack
from tests.web.desk import Desk
from tests.web.pages import Browser, Form, Page
from tests.world import World, build_world


@pytest.fixture
def world(stack: Stack) -> World:
    return build_world(stack, policy=generous_policy())


def typed(desk: Desk, kind: str = "goodwill", **values: str) -> tuple[Browser, Form]:
    """Priya has the form open, and what she typed stands in it."""
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url(f"/orders/{desk.world.order.order_id}/allowances/{kind}"))
    form = page.form(f"/allowances/{kind}")
    asked = {"line": "LAMP", "amount": "15.00", "entry": "gross", "reason": "service"} | values
    # A ratio is the same with tax and without: that form does not ask, and takes no answer.
    form.values |= {name: value for name, value in asked.items() if kind != "price_reduction" or name != "entry"}
    return priya, form


def on_sheet(page: Page) -> Form:
    """The form of the sheet that stores what it shows."""
    return next(form for form in page.forms if form.values.get("step") == "give")


def stored(desk: Desk) -> tuple[int, int, int]:
    return desk.count("cases"), desk.count("case_asks"), desk.count("intents")


def test_priya_sees_what_is_left_types_an_amount_reads_the_sheet_and_asks(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url(f"/counter/orders/{desk.world.order.order_id}"))
    page = priya.get(next(link for link in page.links if link.endswith("/allowances")))
    for text in ("58.00", "74.70", "4.90", "3 of 3", "Goodwill", "Lower price made good", "Exchange"):
        assert text in page.text
    priya, form = typed(desk)
    page = priya.submit(form, status=200)
    for text in (
        "15.00 GBP with tax",
        "2.50 GBP",
        "43.00 GBP",
        "Visa ending 4242",
        "returns desk or a manager",
        "Poor service",
    ):
        assert text in page.text
    assert stored(desk) == (0, 0, 0)
    page = priya.submit(on_sheet(page))
    assert "asks for 15.00 GBP. Another person approves it" in page.text
    for text in ("Goodwill · Desk lamp", "Amount to give: 15.00 GBP with tax", "Goods stay", "You asked for this"):
        assert text in page.text
    assert stored(desk) == (1, 1, 1)


def test_the_sheet_pressed_twice_opens_one_case(desk: Desk) -> None:
    priya, form = typed(desk)
    sheet = on_sheet(priya.submit(form, status=200))
    priya.submit(sheet)
    assert "had opened case C-20001 already" in priya.submit(sheet).text
    assert stored(desk) == (1, 1, 1)


def test_going_back_from_the_sheet_keeps_what_was_typed(desk: Desk) -> None:
    priya, form = typed(desk, entry="net", note="she is <b>angry</b>")
    page = priya.submit(form, status=200)
    assert "without tax" in page.text
    again = next(one for one in page.forms if one.values.get("step") == "again")
    page = priya.submit(again, status=200)
    kept = page.form("/allowances/goodwill").values
    assert (kept["amount"], kept["entry"], kept["line"]) == ("15.00", "net", "LAMP")
    assert "she is <b>angry</b>" in page.text


def test_a_price_is_reduced_by_what_a_person_says_the_goods_are_worth(desk: Desk) -> None:
    priya, form = typed(desk, "price_reduction", amount="40.00", conform="60.00", reason="faulty")
    page = priya.submit(form, status=200)
    for text in ("Worth of one unit with its defect", "40.00 GBP", "Without it", "60.00 GBP", "Ask for 19.33 GBP"):
        assert text in page.text
    page = priya.submit(on_sheet(page))
    for text in ("Price reduction", "40.00 GBP, without it 60.00 GBP", "Goods stay", "You asked for this"):
        assert text in page.text
    assert stored(desk) == (1, 1, 1)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"conform": ""}, "Worth without the defect: write how much"),
        ({"conform": "1.005"}, "Worth of one unit without the defect: too many decimals"),
        ({"conform": "40.00"}, "Worth of one unit with its defect: with its defect it is worth less than without"),
        (
            {"conform": "0"},
            "Worth of one unit without the defect: what one unit is worth without its defect is more than 0",
        ),
    ],
)
def test_an_opinion_that_cannot_be_is_refused_by_its_field(desk: Desk, values: dict[str, str], says: str) -> None:
    priya, form = typed(
        desk, "price_reduction", **({"amount": "40.00", "conform": "60.00", "reason": "faulty"} | values)
    )
    for step in ("check", "give"):
        assert says in priya.submit(form, status=422, step=step).text
    assert stored(desk) == (0, 0, 0)


def test_the_form_of_an_exchange_says_that_a_difference_in_price_is_none(desk: Desk) -> None:
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url(f"/orders/{desk.world.order.order_id}/exchange"))
    assert "Only for goods of the same price. A difference is a person’s matter" in page.text


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"amount": "58.01"}, "Amount to give: only 58.00 GBP is left of this line"),
        ({"amount": "1.005"}, "Amount to give: too many decimals: GBP has 2 decimals"),
        ({"amount": "0"}, "Amount to give: an amount is more than 0"),
        ({"amount": "-3.00"}, "Amount to give: an amount has no sign"),
        ({"amount": "1,50"}, "Amount to give: an amount has no comma"),
        ({"amount": ""}, "Amount: write how much"),
        ({"line": "NONE"}, "Line: this order has no line 'NONE'"),
        ({"currency": "EUR"}, "Currency: this order was paid in GBP"),
        ({"entry": "both"}, "Not a valid choice"),
        ({"reason": "because"}, "Not a valid choice"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field_and_what_was_typed_stays(
    desk: Desk, values: dict[str, str], says: str
) -> None:
    priya, form = typed(desk, **({"note": "keep me"} | values))
    for step in ("check", "give"):
        page = priya.submit(form, status=422, step=step)
        assert says in page.text
        assert page.title.startswith("Error: ")
        assert page.form("/allowances/goodwill").values["amount"] == form.values["amount"]
        assert "keep me" in page.text
    assert stored(desk) == (0, 0, 0)


def test_what_somebody_else_took_meanwhile_is_refused_with_what_is_left_now(desk: Desk) -> None:
    priya, form = typed(desk, amount="50.00")
    sheet = on_sheet(priya.submit(form, status=200))
    returned(desk, "LAMP")
    page = priya.submit(sheet, status=422)
    assert "Amount to give: only 0.00 GBP is left of this line" in page.text
    assert page.form("/allowances/goodwill").values["amount"] == "50.00"


def test_a_lower_price_shows_the_difference_before_it_is_asked_for(desk: Desk) -> None:
    priya, form = typed(desk, "price_adjustment", line="TEE", units="2", amount="20.00", reason="lower_price")
    page = priya.submit(form, status=200)
    for text in ("9.80", "Units 1 and 2 of 3", "New price of one unit 20.00 GBP with tax"):
        assert text in page.text
    priya.submit(on_sheet(page))
    assert [row["amount_minor"] for row in desk.rows("SELECT amount_minor FROM intents WHERE merchant_id = :m")] == [
        9_80
    ]


def test_goodwill_above_the_policy_waits_for_two_managers(desk: Desk) -> None:
    priya, form = typed(desk, amount="30.00")
    page = priya.submit(form, status=200)
    assert "two managers, one after the other" in page.text
    priya.submit(on_sheet(page))
    (row,) = desk.rows("SELECT intent_id FROM intents WHERE merchant_id = :m")
    jonas, mara = desk.at(desk.world.jonas), desk.at(desk.world.mara)
    assert (
        "the first of two managers: nothing is sent before the second"
        in jonas.get(f"{desk.refund(row['intent_id'])}/approval").text
    )
    page = jonas.submit(desk.confirm(desk.world.jonas, row["intent_id"]))
    assert "waited for" in page.text
    assert desk.state(row["intent_id"]) == "proposed"
    sheet = desk.confirm(desk.world.mara, row["intent_id"])
    assert "the second of two managers; Jonas Okonjo was the first" in mara.shown.text
    assert "Second manager Mara Velthuis" in mara.submit(sheet).text
    assert desk.state(row["intent_id"]) == "approved"


def test_the_second_manager_is_told_that_the_first_is_none_any_more_and_keeps_the_note(desk: Desk) -> None:
    priya, form = typed(desk, amount="30.00")
    priya.submit(on_sheet(priya.submit(form, status=200)))
    (row,) = desk.rows("SELECT intent_id FROM intents WHERE merchant_id = :m")
    desk.at(desk.world.jonas).submit(desk.confirm(desk.world.jonas, row["intent_id"]))
    sheet = desk.confirm(desk.world.mara, row["intent_id"])
    as_administrator(desk.stack, "UPDATE memberships SET role = 'desk' WHERE staff_id = %s", desk.world.jonas.staff_id)
    page = desk.at(desk.world.mara).submit(sheet, note="The lamp was late", status=409)
    assert "Not approved. The first manager's approval no longer counts." in page.text
    assert "The lamp was late" in page.text


def exchange(desk: Desk, **values: str) -> tuple[Browser, Form]:
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.url(f"/orders/{desk.world.order.order_id}/exchange"))
    form = page.form("/exchange")
    form.values |= {
        "line": "TEE",
        "units": "1",
        "wish": "the same in large",
        "in_stock": "y",
        "reason": "size",
    } | values
    return priya, form


def test_an_exchange_is_recorded_without_money_and_later_claims_say_why_not(desk: Desk) -> None:
    priya, form = exchange(desk, line="LAMP")
    page = priya.submit(form, status=200)
    assert "No money moves." in page.text
    assert desk.count("exchanges") == 0
    page = priya.submit(on_sheet(page))
    for text in ("Exchanged for: the same in large", "Exchanged", "No money", "so no money is owed for them"):
        assert text in page.text
    assert (desk.count("exchanges"), desk.count("intents")) == (1, 0)
    page = priya.get(desk.url(f"/counter/orders/{desk.world.order.order_id}"))
    page = priya.submit(page.form("/counter/orders/"), status=409, quantity_2="1", reason="size")
    assert "1 of line LAMP was exchanged in case C-20001" in page.text


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"in_stock": ""}, "In stock: look whether the replacement is there"),
        ({"wish": ""}, "What the customer takes instead: write it down"),
        ({"units": "0"}, "How many units: write a whole number of at least 1"),
        ({"line": "NONE"}, "Line: this order has no such line"),
    ],
)
def test_an_exchange_that_cannot_be_is_refused_by_its_field(desk: Desk, values: dict[str, str], says: str) -> None:
    priya, form = exchange(desk, **values)
    if not form.values["in_stock"]:
        del form.values["in_stock"]
    assert says in priya.submit(form, status=422).text
    assert desk.count("cases") == 0


def test_a_line_is_offered_for_each_reason_whose_policy_exchanges_it_and_refused_for_the_others(desk: Desk) -> None:
    """Only what came in a wrong size is exchanged here; the usual policy offers none."""
    in_force(desk.stack, desk.world, {"policy_id": "sizes", "select": {"reasons": ["size"]}})
    as_administrator(desk.stack, "ALTER TABLE policies DISABLE TRIGGER append_only")
    as_administrator(
        desk.stack, "UPDATE policies SET effective = tstzrange('2026-01-01', upper(effective)), document = CASE policy_id"
        " WHEN 'sizes' THEN document ELSE jsonb_set(document, '{exchange,allowed}', 'false') END",
    )  # fmt: skip
    sizes = {"exchange": {"allowed": True}}
    as_administrator(
        desk.stack, "UPDATE policies SET document = document || %s WHERE policy_id = 'sizes'", Jsonb(sizes)
    )
    priya, form = exchange(desk, reason="faulty", line="TEE")
    page = priya.submit(form, status=422)
    assert "Reason given: the policy exchanges this line only for size" in page.text
    assert "(only for: size)" in page.text
    page = priya.submit(page.form("/exchange"), status=200, reason="size", line="TEE", in_stock="y")
    assert "Exchanged for: the same in large" in priya.submit(on_sheet(page)).text


def test_an_open_return_is_exchanged_instead_from_its_page(desk: Desk) -> None:
    case_id = returned(desk, "TEE")
    priya = desk.at(desk.world.priya)
    page = priya.get(desk.case(case_id))
    assert "Exchange…" in page.text
    page = priya.get(next(link for link in page.links if link.endswith("/exchange")))
    page = priya.submit(page.form("/exchange"), status=200, wish="a medium", in_stock="y")
    assert "Called back R-1001" in page.text
    assert "Exchanged for: a medium" in priya.submit(on_sheet(page)).text
    assert [row["state"] for row in desk.rows("SELECT state FROM intents WHERE merchant_id = :m")] == ["withdrawn"]


CHANGED = "This form was sent before with something else in it, and that is stored."


def test_an_exchange_form_that_was_gone_back_to_and_changed_is_never_said_to_be_recorded(desk: Desk) -> None:
    """Else other goods would be handed out, and these could still be returned for money."""
    priya, form = exchange(desk, line="TEE")
    priya.submit(on_sheet(priya.submit(form, status=200)))
    form.values |= {"line": "LAMP", "wish": "the lamp in blue"}
    page = priya.submit(on_sheet(priya.submit(form, status=200)), status=409)
    assert CHANGED in page.text
    assert page.form("/exchange").values["wish"] == "the lamp in blue"
    assert desk.count("exchanges") == 1
    page = priya.submit(page.form("/exchange"), status=200, line="LAMP", in_stock="y", reason="size", units="1")
    assert "Exchanged for: the lamp in blue" in priya.submit(on_sheet(page)).text
    assert desk.count("exchanges") == 2


def test_goodwill_that_was_gone_back_to_and_changed_is_not_said_to_be_stored(desk: Desk) -> None:
    priya, form = typed(desk, amount="5.00")
    priya.submit(on_sheet(priya.submit(form, status=200)))
    form.values["amount"] = "6.00"
    page = priya.submit(on_sheet(priya.submit(form, status=200)), status=409)
    assert CHANGED in page.text
    assert desk.count("case_asks") == 1
    priya.submit(
        on_sheet(
            priya.submit(page.form("/allowances/goodwill"), status=200, line="LAMP", entry="gross", reason="service")
        )
    )
    assert desk.count("case_asks") == 2


def returned(desk: Desk, line: str, grade: str = "A") -> Any:
    opened = lives.open_case(desk.stack, desk.world, ((line, 1),), reference=f"chat-{line}")
    lives.arrive(desk.stack, desk.world, opened.case_id, (line, 1), grade=grade)
    return opened.case_id


def another(desk: Desk, case_id: Any, **values: str) -> tuple[Browser, Form]:
    priya = desk.at(desk.world.priya)
    page = priya.get(f"{desk.case(case_id)}/override")
    for text in ("Computed in all 40.60", "At most 58.00"):
        assert text in page.text
    form = page.form("/override")
    form.values |= {"amount": "50.00", "reason": "promise_kept", "note": "promised on the phone"} | values
    return priya, form


def test_another_amount_shows_the_computed_one_on_every_page_up_to_the_receipt(desk: Desk) -> None:
    case_id = returned(desk, "LAMP", grade="C")
    assert "Another amount…" in desk.at(desk.world.priya).get(desk.case(case_id)).text
    priya, form = another(desk, case_id)
    page = priya.submit(form, status=200)
    for text in ("Computed 40.60 GBP", "Difference 9.40 GBP more", "a manager who is somebody else"):
        assert text in page.text
    assert desk.count("overrides") == 0
    sheet = on_sheet(page)
    page = priya.submit(sheet)
    assert "Computed, before another amount was asked for" in page.text
    assert "40.60" in page.text
    priya.submit(sheet)
    assert desk.count("overrides") == 1
    (row,) = desk.rows("SELECT intent_id FROM intents WHERE merchant_id = :m AND state = 'proposed'")
    jonas = desk.at(desk.world.jonas)
    sheet = desk.confirm(desk.world.jonas, row["intent_id"])
    assert "Computed 40.60 GBP, this asks for 9.40 GBP more: A promise of ours is kept" in jonas.shown.text
    page = jonas.submit(sheet)
    assert "this is 9.40 GBP more: A promise of ours is kept" in page.text
    desk.at(desk.world.tobias).get(f"{desk.refund(row['intent_id'])}")
    assert "this is 9.40 GBP more" in desk.at(desk.world.tobias).shown.text


@pytest.mark.parametrize(
    ("values", "status", "says"),
    [
        ({"amount": "58.01"}, 422, "Amount in all: at most 58.00 GBP was paid for these units: the rest is goodwill"),
        ({"amount": "40.60"}, 422, "Amount in all: this is the amount that is computed"),
        ({"amount": "0.00"}, 422, "Amount in all: an amount is more than 0"),
        ({"amount": "5.555"}, 422, "Amount in all: too many decimals"),
        ({"note": ""}, 422, "In your own words: write why"),
        ({"reason": ""}, 422, "Choose why it is another amount"),
        ({"computed": "4000"}, 409, "Another amount is computed now than when you opened this page."),
    ],
)
def test_another_amount_that_cannot_be_is_refused_and_nothing_is_stored(
    desk: Desk, values: dict[str, str], status: int, says: str
) -> None:
    case_id = returned(desk, "LAMP", grade="C")
    priya, form = another(desk, case_id, **values)
    for step in ("check", "give"):
        page = priya.submit(form, status=status, step=step)
        assert says in page.text
        assert page.form("/override").values["amount"] == form.values["amount"]
    assert desk.count("overrides") == 0


def test_another_amount_that_was_gone_back_to_and_changed_is_not_said_to_be_asked_for(desk: Desk) -> None:
    priya, form = another(desk, returned(desk, "LAMP", grade="C"))
    priya.submit(on_sheet(priya.submit(form, status=200)))
    form.values["amount"] = "45.00"
    page = priya.submit(on_sheet(priya.submit(form, status=200)), status=409)
    assert CHANGED in page.text
    assert [row["minor"] for row in desk.rows("SELECT minor FROM overrides WHERE merchant_id = :m")] == [50_00]


def test_the_computed_amount_counts_again_when_it_is_taken_back(desk: Desk) -> None:
    case_id = returned(desk, "LAMP", grade="C")
    priya, form = another(desk, case_id)
    priya.submit(on_sheet(priya.submit(form, status=200)))
    page = priya.submit(priya.get(f"{desk.case(case_id)}/override").form("/override/removal"))
    assert "The computed amount counts again." in page.text
    live = desk.rows("SELECT amount_minor FROM intents WHERE merchant_id = :m AND state = 'proposed'")
    assert [row["amount_minor"] for row in live] == [40_60]


def test_a_reader_and_finance_are_offered_none_of_it(desk: Desk) -> None:
    case_id = returned(desk, "LAMP", grade="C")
    for person in (desk.world.rita, desk.world.farah):
        page = desk.at(person).get(desk.case(case_id))
        assert "Another amount" not in page.text
        assert "Without a return" not in page.text
